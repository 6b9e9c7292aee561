"""Holds one session with a release and stores what was measured as a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from audit.core.code import code_digest
from audit.core.digest import key_of
from audit.core.errors import DamagedError
from audit.core.predictor import Predictor
from audit.core.randomness import stream
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.measure.spending import charges, of_ledger
from audit.models.loading import USUAL
from audit.results.schema import SessionResult

_READERS = ("audit.measure.samples", "audit.models.causal")  # modules


class Looked(NamedTuple):
    """Result of one session: JSON values, the queries, and how many of them were answered."""

    seen: dict[str, Any]
    queries: int
    answered: int


Look = Callable[[Predictor], Looked]


@dataclass(frozen=True)
class Session:
    """One session with a release, stored as a stage once it has ended.

    charged: whether the charges of every answered query are stored, too. code: modules that
        measure, beside those that read and answer.
    """

    bench: Bench
    one: Audited
    purpose: str
    what: list[Any]
    charged: bool = False
    code: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.one.determined[0]}/{self.purpose}"

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the session; it also seeds its randomness, so noise of
        different runs cannot be subtracted."""
        plan = self.bench.run.plan
        secrets = [s.value for s in self.bench.run.planted.secrets]
        answers = type(self.one.release).__module__
        return key_of(
            "session 4",
            code_digest(*sorted({*_READERS, answers, *self.one.code, *self.code})),
            [*self.one.determined, self.what, *plan.source.model.values()],
            [plan.model.sha256, plan.corpus.sha256, plan.seed, plan.device, plan.threads, secrets],
            *([plan.model.max_length] if plan.model.max_length > USUAL else []),
        )

    @property
    def stage(self) -> str:
        """The name of its stage."""
        return f"session-{self.key}"

    def stored(self, look: Look) -> dict[str, Any]:
        """Load what was measured, or open the session and measure it."""
        stored = self.bench.folder.stored(self.stage, lambda: self._held(look))
        journal = self.bench.folder.journal(self.name)
        if stored["session"]["epsilon_spent"] and not journal.rows():
            raise DamagedError(
                f"{journal.path}: lacks the charges of {self.name}, whose answers are stored; put "
                "the file back, or run again with another --output"
            )
        return stored

    def _held(self, look: Look) -> dict[str, Any]:
        journal = self.bench.folder.journal(self.name)
        own = stream(self.bench.run.plan.seed, self.name, "session", self.key)
        predictor = self.one.release.open(own, journal)
        budget = predictor.remaining
        seen, queries, answered = look(predictor)
        rows = journal.rows()
        return {
            "of": [self.bench.run.plan.seed, self.one.determined[0]],
            "seen": seen,
            "access": int(predictor.access),
            "charges": charges(rows, answered) if self.charged else [],
            "session": SessionResult(
                purpose=self.purpose,
                queries=queries,
                answered=answered,
                budget=budget,
                remaining=predictor.remaining,
                **of_ledger(rows, self.one.release.guarantee.epsilon),
            ).model_dump(mode="json"),
        }
