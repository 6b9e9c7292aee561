"""No training here: a model that others trained, audited against what was planted into its data.

Its promise is whatever its trainer claims; nothing here proves it, and everything here may refute
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from audit.models import external_model
from audit.models.causal import CausalLM
from audit.models.endpoint.http import Endpoint, Pace, is_url, url_of
from audit.models.endpoint.session import ServedRelease

UNITS = ("record", "user")
RELATIONS = ("add_or_remove", "replace")


@dataclass(frozen=True)
class AsIs(Defense):
    """Audits a finished model as it is: --model is that model, --secrets what was planted.

    claim: what its trainer promises, EPSILON:DELTA:UNIT:RELATION (ε in nats; unit "record" or
        "user"; relation "add_or_remove" or "replace"); nothing is known unless given.
    base: the public model that it was trained from, for references; an adapter may name it.
    training: what it was trained on, tokenised or not, where that is not the corpus: JSONL with
        `input_ids` and `labels`, or with `text`; to see which canaries reached the training.
    tokenizer: of a model behind a URL whose base is not named: a folder with its tokenizer.
    served: the model's name at its URL; its only one unless given.
    context: tokens of context that the URL's model reads, at most those of its base.
    rate: requests a second that the URL is asked at most; none: one after the other.
    retries: how often a request to the URL is sent again where it fails.
    timeout: seconds that each answer of the URL may take.
    model: the finished model, a folder or a URL; set by --model.
    sha256: of that model.
    training_sha256: of what it was trained on.
    """

    claim: str | None = None
    base: str | None = None
    training: str | None = None
    tokenizer: str | None = None
    served: str | None = None
    context: int = 512
    # how fast a URL is asked is no part of the plan: a run that failed goes on with another pace
    rate: float | None = field(default=None, repr=False)
    retries: int = field(default=5, repr=False)
    timeout: float = field(default=60.0, repr=False)
    model: str | None = field(default=None, repr=False)
    sha256: str | None = field(default=None, repr=False)
    training_sha256: str | None = field(default=None, repr=False)
    finished = True

    def __post_init__(self) -> None:
        self.promise  # noqa: B018 — a claim that cannot be read is told before anything is loaded
        if self.context < 8:
            raise UsageError(f"as_is: context is {self.context}; it must be at least 8")
        if self.retries < 0:
            raise UsageError(f"as_is: retries is {self.retries}; it must be at least 0")
        for name, value in (("rate", self.rate), ("timeout", self.timeout)):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"as_is: {name} is {value}; it must be above 0 and finite")

    @property
    def promise(self) -> Guarantee:
        """The claim, as it was given. Raises UsageError."""
        if not self.claim:
            return Guarantee(
                epsilon=None,
                unit="user",
                relation="add_or_remove",
                release="model",
                basis="worst case",
                theorem="nothing is known of how it was trained",
            )
        epsilon, delta, unit, relation = _parts(self.claim)
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            relation=relation,
            release="model",
            basis="worst case",
            theorem="claimed by whoever trained it; not checked here",
            conditions=("the training did what its claim says",),
        )

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return []

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """public: the base; where none was named, the finished model itself, or, of a model behind
        a URL, its tokenizer."""
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
        return ServedRelease(endpoint, self.served, self.promise, *reads)


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
