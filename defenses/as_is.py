"""Audits a model trained elsewhere against the secrets planted into its training data.

Its guarantee is its trainer's claim, which an audit can refute but never prove.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.rules import POSITIVE, at_least, check_fields
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Trained, Training
from audit.models import external_model
from audit.models.causal import CausalLM
from audit.models.endpoint.http import Endpoint, Pace, is_url, url_of
from audit.models.endpoint.session import EndpointRelease

UNITS = (Unit.RECORD, Unit.USER)
RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)


@dataclass(frozen=True)
class AsIs(Defense):
    """Audits an external model unchanged: --model is the model, --secrets its planted secrets.

    claim: the trainer's guarantee, EPSILON:DELTA:UNIT:RELATION (ε in nats; unit "record" or
        "user"; relation "add_or_remove" or "replace"); default unknown.
    base: public model that it was trained from, for references; default the one its adapter names.
    training: its training file if that is not the corpus, JSONL with `input_ids` and `labels` or
        with `text`, to check which canaries reached the training; default none.
    tokenizer: folder with the tokenizer of a model behind a URL; default the tokenizer of base.
    served: name of the model at its URL; default the only one there.
    context: tokens of context that a model behind a URL reads; at least 8, at most those of base.
    rate: most requests a second to the URL; default one after the other; above 0.
    retries: how often a failed request to the URL is repeated; at least 0.
    timeout: most seconds to wait for an answer of the URL; above 0.
    model: folder or URL of the external model; set by --model.
    sha256: hash of the model; set by the run.
    training_sha256: hash of the training file; set by the run.
    """

    claim: str | None = None
    base: str | None = None
    training: str | None = None
    tokenizer: str | None = None
    served: str | None = None
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
        self.promise  # noqa: B018 — reports an unreadable claim before anything is loaded
        check_fields("as_is", self)

    @property
    def promise(self) -> Guarantee:
        """The trainer's claim. Raises UsageError if it cannot be read."""
        if not self.claim:
            return Guarantee(
                epsilon=None,
                unit=Unit.USER,
                relation=Relation.ADD_OR_REMOVE,
                release="model",
                basis="worst case",
                theorem="its training is unknown",
            )
        epsilon, delta, unit, relation = _parts(self.claim)
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            relation=relation,
            release="model",
            basis="worst case",
            theorem="claimed by its trainer, not proved here",
            conditions=("the model was trained as its trainer claims",),
        )

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return []

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """Releases the external model.

        public: the base model; without one, the external model itself, or the tokenizer of a model
        behind a URL.
        """
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
        return EndpointRelease(endpoint, self.served, self.promise, *reads)


def _parts(claim: str) -> tuple[float, float, str, str]:
    advice = "write EPSILON:DELTA:UNIT:RELATION, such as 8:1e-5:user:add_or_remove"
    try:
        words: list[Any] = claim.split(":")
        epsilon, delta, unit, relation = float(words[0]), float(words[1]), *words[2:]
    except (ValueError, IndexError):
        raise UsageError(f"as_is: claim is {claim!r}; {advice}") from None
    if not (epsilon >= 0 and 0 <= delta < 1) or math.isnan(epsilon):
        raise UsageError(f"as_is: claim is {claim!r}: ε must be at least 0, δ in [0, 1); {advice}")
    if unit not in UNITS or relation not in RELATIONS:
        raise UsageError(
            f"as_is: claim is {claim!r}: the unit can be {' or '.join(UNITS)}, the relation "
            f"{' or '.join(RELATIONS)}; {advice}"
        )
    return epsilon, delta, unit, relation
