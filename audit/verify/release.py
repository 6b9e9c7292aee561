"""Derives one release of results.json from its evidence, its ledger and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from audit.accounting.table import recompute
from audit.core.guarantee import Guarantee
from audit.core.randomness import stream
from audit.core.reach import Reach
from audit.findings.adjusted import Adjusted
from audit.findings.controls import leaks_in, sight_by
from audit.findings.shows import silence_over
from audit.findings.verdict import claim_overall, judge
from audit.measure.attacked import Attacked, look_at
from audit.measure.evidence_file import UTILITY_STREAM, EvidenceFile, OfAttack, OfRelease
from audit.measure.ratios import Ratio, measures
from audit.measure.spending import charges, cut, of_ledger
from audit.results.joined import leaked_overall
from audit.results.measurement import FindingResult, Measurement
from audit.results.numbers import agree
from audit.results.schema import (
    Cost,
    GuaranteeResult,
    Measure,
    ReleaseResult,
    SessionResult,
)

Rows = Mapping[str, Sequence[dict[str, Any]]]  # of the ledger, by session


@dataclass(frozen=True)
class Derived:
    """One release, derived.

    evidence, of: what its run saw of it. plan: of results.json. ledger: its run's rows.
    """

    evidence: EvidenceFile
    of: OfRelease
    plan: Mapping[str, Any]
    ledger: Rows

    @cached_property
    def guarantee(self) -> Guarantee:
        """The promise, with the ε (nats) that its own accounting gives."""
        stated = self.of.guarantee
        if stated.accounting is None or stated.promises_nothing:
            return stated
        epsilon = recompute(stated.accounting)
        if agree(epsilon, stated.epsilon or 0.0):
            return stated
        return replace(stated, epsilon=epsilon)

    @cached_property
    def measurements(self) -> list[Measurement]:
        """The measurements of all its attacks, with p-values adjusted for each other."""
        return self.look.measurements

    @cached_property
    def look(self) -> Adjusted:
        """The look at its coins, of perhaps several. Raises ValueError for other tosses."""
        before = None if self.of.tosses is None else self.of.tosses.before
        return look_at(list(map(self._attacked, self.of.attacks)), self.evidence.family, before)

    @cached_property
    def leaks(self) -> tuple[FindingResult, ...]:
        """Its leaks, where it is a positive control."""
        guarantee = GuaranteeResult.of(self.guarantee)
        return leaks_in(self.measurements, guarantee, self.evidence.family)

    def result(
        self, leaks: Sequence[FindingResult] | None, beside: ReleaseResult | None
    ) -> ReleaseResult:
        """Return the release as it follows. beside: as it stands, for what needs a model.

        leaks: of its positive controls; None without references.
        """
        guarantee = GuaranteeResult.of(self.guarantee)
        control = None if leaks is None else sight_by(leaks, self.measurements)
        shows = self.of.shows.beside(control)
        findings = judge(self.measurements, guarantee, shows, self.evidence.family)
        sessions = [self._session(facts) for facts in self.of.sessions]
        return ReleaseResult(
            defense=self.of.defense,
            parameters=self.of.parameters,
            seed=self.plan["seed"],
            reference=self.of.reference,
            role=self.of.role,
            guarantee=guarantee,
            utility={**_bleu(beside), **self._utility()},
            cost=Cost(
                train_tokens=0 if beside is None else beside.cost.train_tokens,
                queries=sum(session.queries for session in sessions),
                seconds=0.0 if beside is None else beside.cost.seconds,
            ),
            sessions=sessions,
            findings=findings,
            tests=self.evidence.family.tests,
            claim_tests=self.evidence.family.claims,
            leaked=leaked_overall(findings),
            claim=claim_overall(findings, guarantee),
            silence=silence_over(findings),
        )

    def _attacked(self, one: OfAttack) -> Attacked:
        case = self.evidence.case(self.of, one, self.plan["delta"], self.plan["seed"])
        session = next(s for s in self.of.sessions if s["purpose"] == one.attack)
        spent = charges(self._rows(one.attack), session["answered"]) if one.charged else None
        ended = cut(session, self.guarantee.basis)
        reach = Reach(**self.plan.get("silence", {}))
        case = replace(case, guarantee=self.guarantee, cut=ended, reach=reach)
        return Attacked(case, one.seen, spent, session["budget"])

    def _utility(self) -> dict[str, Measure]:
        """Derive what follows from sums over blocks, drawn again as each session drew it."""
        found: dict[str, Measure] = {}
        for session in self.of.utility:
            ratios = [Ratio(**row) for row in session["blocks"]]
            made = measures(ratios, stream(self.plan["seed"], *UTILITY_STREAM))
            share = session["share"]
            found |= {name: one.changed(share=share) for name, one in made.items()}
        return found

    def _session(self, facts: dict[str, Any]) -> SessionResult:
        rows = self._rows(facts["purpose"])
        return SessionResult(**facts, **of_ledger(rows, self.guarantee.epsilon))

    def _rows(self, purpose: str) -> Sequence[dict[str, Any]]:
        return self.ledger.get(f"{self.of.ledger}/{purpose}", ())


def _bleu(beside: ReleaseResult | None) -> dict[str, Measure]:
    """Return the only measures of utility that need a model."""
    stated = {} if beside is None else beside.utility
    return {name: one for name, one in stated.items() if name.startswith("bleu")}
