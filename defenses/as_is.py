"""Audits a model trained elsewhere, or texts it wrote, against what was planted into its data.

Its guarantee is its trainer's claim, which an audit can refute but never prove.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated

from audit.accounting import Term
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.rules import POSITIVE, SHARE, UNSAID, at_least, one_of
from audit.core.training import FineTuning, Trained, Training
from audit.models import external_model, external_texts
from audit.models.causal import CausalLM
from audit.models.endpoint.chat import chat_completions
from audit.models.endpoint.http import Endpoint, Pace, is_url, url_of
from audit.models.endpoint.session import EndpointRelease, completions
from defenses.training.stated_claim import Sums, stated, terms_in

FEWEST_WORDS = 500


@dataclass(frozen=True)
class AsIs(Defense):
    """Audits an external model, or a JSONL file of its texts: --model; --secrets was planted.

    claim: the trainer's guarantee, EPSILON:DELTA:UNIT:RELATION (ε in nats; unit "record" or
        "user"; relation "add_or_remove" or "replace"); default unknown. Beside a mechanism
        DELTA:UNIT:RELATION is enough, and ε is computed; an ε below it is refused.
    noise_multiplier: the trainer's noise standard deviation σ over the clipping norm, if DP-SGD is
        claimed with sampling_probability and steps; above 0.
    sampling_probability: probability q with which the unit was in each batch, with bands in each
        batch of its group (b̂·B/N), by Poisson sampling; above 0, at most 1.
    steps: number of steps T; at least 1.
    bands: number b̂ of bands, if DP-FTRL is claimed, whose noise C⁻¹Z has the banded square root for
        C, scaled to norm 1, and σ for the rows of Z; step t sampled group t mod b̂; at least 1.
    participations: with bands and without sampling_probability, an enforced cap k on the steps of a
        unit, any two of them at least b̂ apart; at least 1, at most T/b̂ rounded up.
    users: number N of users for which q and T were fixed before the coins, as `audit plant` prints
        it; without it coins of real users test the claim by ε and δ alone; at least 1.
    mechanism: instead of these, a JSON file with the terms of the trainer's mechanism, as
        `accounting` in results.json lists them; default none.
    base: public model that it was trained from, for references; default the one its adapter names.
    training: its training file if that is not the corpus, JSONL with `input_ids` and `labels` or
        with `text`, or .txt with blank lines between records, to check which canaries reached the
        training; default none.
    tokenizer: folder with the tokenizer of a model behind a URL; default the tokenizer of base.
    served: name of the model at its URL; default the only one there.
    api: how a URL is asked: "completions", or "chat" for /chat/completions, which generates only.
    words: answers of a model behind a URL from the first word of each planted sentence, to show
        that it was learnt; 0, or at least 500.
    context: tokens of context that a model behind a URL reads; at least 8, at most those of base.
    rate: most requests a second to the URL; default one after the other; above 0.
    retries: how often a failed request to the URL is repeated; at least 0.
    timeout: most seconds to wait for an answer of the URL; above 0.
    model: folder or URL of the external model, or a file of its texts; set by --model.
    sha256: hash of the model; set by the run.
    training_sha256: hash of the training file; set by the run.
    """

    claim: str | None = None
    noise_multiplier: Annotated[float | None, POSITIVE] = None
    sampling_probability: Annotated[float | None, SHARE] = None
    steps: Annotated[int | None, at_least(1)] = None
    bands: Annotated[int | None, at_least(1)] = field(default=None, metadata=UNSAID)
    participations: Annotated[int | None, at_least(1)] = field(default=None, metadata=UNSAID)
    users: Annotated[int | None, at_least(1)] = field(default=None, metadata=UNSAID)
    mechanism: str | None = None
    base: str | None = None
    training: str | None = None
    tokenizer: str | None = None
    served: str | None = None
    api: Annotated[str, one_of("completions", "chat")] = field(
        default="completions", metadata=UNSAID
    )
    words: Annotated[int, at_least(0)] = field(default=0, metadata=UNSAID)
    context: Annotated[int, at_least(8)] = 512
    # the pace of requests is no part of the plan, so a failed run can resume at another pace
    rate: Annotated[float | None, POSITIVE] = field(default=None, repr=False)
    retries: Annotated[int, at_least(0)] = field(default=5, repr=False)
    timeout: Annotated[float, POSITIVE] = field(default=60.0, repr=False)
    model: str | None = field(default=None, repr=False)
    sha256: str | None = field(default=None, repr=False)
    training_sha256: str | None = field(default=None, repr=False)
    external = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.words < FEWEST_WORDS:
            raise UsageError(
                f"as_is: words is {self.words}; with fewer than {FEWEST_WORDS} answers no sentence "
                "is told from others, so give more, or 0"
            )
        self.promise  # noqa: B018 — reports an unreadable claim before anything is loaded

    @property
    def promise(self) -> Guarantee:
        """The trainer's claim. Raises UsageError if it cannot be read."""
        return replace(stated(self.claim or None, self._training), population=self.users)

    @property
    def _training(self) -> tuple[Term, ...]:
        """The terms of the mechanism that the trainer states; none if it states none."""
        sums = Sums(**{f.name: getattr(self, f.name) for f in fields(Sums)})
        if self.mechanism is None:
            return sums.terms
        if sums.given:
            raise UsageError(f"as_is: mechanism has all terms; leave out {', '.join(sums.given)}")
        return terms_in(self.mechanism)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        if self.model is None or not external_texts.is_texts(self.model):
            return []
        heldout = tuple(record.text for record in corpus.of("heldout"))
        texts, own = external_texts.read(self.model), derived_seed(seed, "reader")
        return [Training("reader of as_is", texts, recipe, own, heldout=heldout)]

    def promised(self, trainings: Sequence[Training]) -> Guarantee:
        return self.promise

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """Release the external model, or its texts with a model that a reader trained on them.

        public: the base model; without one, the external model itself, or the tokenizer of a model
        behind a URL.
        """
        for reader in trained:
            promise = replace(self.promise, release="text")
            texts = reader.training.texts
            return ModelRelease(reader.model, promise, best=reader.best, texts=texts)
        if self.model is not None and is_url(self.model):
            return self._served(url_of(self.model, self.served), public)
        if self.model is None or self.base is None:
            return ModelRelease(public, self.promise)
        base: CausalLM = public  # type: ignore[assignment]
        model = external_model.load(Path(self.model), base.inner)
        return ModelRelease(replace(base, inner=model), self.promise)

    def _served(self, url: str, public: LanguageModel) -> Release:
        endpoint = Endpoint(url, self.retries, self.timeout, Pace(self.rate))
        reads = public.tokenizer, public.max_length
        opened = chat_completions if self.api == "chat" else completions
        return EndpointRelease(endpoint, self.served, self.promise, *reads, opened)
