"""Judges scores by the tests, the bounds and the conditions of silence of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.evidence import Scores
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret
from audit.findings import Case, family_of, measurements_of, tests_of
from audit.findings.adjusted import adjusted
from audit.findings.controls import leaks_in, sight_by
from audit.findings.rejections import Family
from audit.findings.shows import Shows, not_shown, shown, silence_over
from audit.findings.verdict import claim_overall, judge
from audit.results.joined import leaked_overall
from audit.results.measurement import FindingResult, Measurement
from audit.results.schema import Cost, GuaranteeResult, ReleaseResult
from audit.results.silence import Link
from audit.scores.given import Beacons, Sides
from audit.silence.accounts import LEVEL
from audit.silence.beacons import rank, ranked

ATTACK, KIND = "scores", "record"
NO_BEACONS = (
    "No scores of beacons were given, so nothing shows that planted text reached this model: give "
    "beacons=(scores, scores of candidates)."
)
NO_CONTROL = (
    "No scores of a positive control were given, so nothing shows that this score detects leaks: "
    "give control=(scores in, scores out) of a model trained without protection."
)
_TRAINED = no_guarantee("a positive control is trained without protection")


@dataclass(frozen=True, eq=False)
class Model:
    """Scores of one model, with what it claims. delta: of bounds on ε. seed: of ties and tosses."""

    sides: Sides
    claim: Guarantee
    delta: float
    seed: int

    @property
    def guarantee(self) -> GuaranteeResult:
        return GuaranteeResult.of(self.claim)

    @property
    def case(self) -> Case:
        """The case of an attack whose people in are the first ones."""
        inside, outside = self.sides.inside.size, self.sides.outside.size
        people = [f"person {place}" for place in range(inside + outside)]
        secrets = tuple(Secret(KIND, "", name, "", None, 1, name, 0) for name in people)
        coins = Coins(
            {name: place < inside for place, name in enumerate(people)}, dict.fromkeys(people, 0)
        )
        family = family_of([self.evidence], secrets)
        return Case(
            ATTACK,
            secrets,
            coins,
            self.delta,
            self.seed,
            Access.SCORE,
            tests=family.tests,
            claim_tests=family.claims,
            guarantee=self.claim,
            blind={},
        )

    @property
    def evidence(self) -> Scores:
        """The scores as evidence: one score, named beforehand."""
        values = np.concatenate([self.sides.inside, self.sides.outside])
        return Scores("score", "person", values, named=True)

    def measurements(self) -> tuple[list[Measurement], Family]:
        """Measure the scores, with p-values adjusted for each other."""
        case, evidence = self.case, [self.evidence]
        family = Family(case.tests, case.claim_tests)
        found, tests = measurements_of(evidence, case), tests_of(evidence, case)
        done = adjusted(found, tests, case.heads, self.guarantee, family, self.seed).measurements
        return done, family


def releases(audited: Model, control: Sides | None, beacons: Beacons | None) -> list[ReleaseResult]:
    """Judge a model, and after it its positive control, if there is one."""
    measured, family = audited.measurements()
    contact = {KIND: contact_of(beacons)}
    if control is None:
        shows = Shows(contact, unseen=NO_CONTROL)
        return [_release("model", "audited", audited, measured, family, shows)]
    beside = Model(control, _TRAINED, audited.delta, audited.seed)
    of_control, same = beside.measurements()
    leaks = leaks_in(of_control, beside.guarantee, same)
    shows = Shows(contact).beside(sight_by(leaks, measured))
    trained = Shows({KIND: shown("trained on, as stated with the scores", control.inside.size)})
    own = trained.beside(sight_by(leaks, of_control))
    return [
        _release("model", "audited", audited, measured, family, shows),
        _release("none", "positive control", beside, of_control, same, own),
    ]


def contact_of(beacons: Beacons | None) -> Link:
    """Show by beacons that planted text reached the model."""
    if beacons is None:
        return not_shown(NO_BEACONS)
    pairs = zip(beacons.own.tolist(), beacons.others, strict=True)
    p = ranked(0, [rank(own, others) for own, others in pairs]).p_value
    n, candidates = beacons.own.size, beacons.others.shape[1]
    if p <= LEVEL:
        reached = f"that values of beacons reached the model (p = {p:.1g})"
        return shown(f"{reached}; single people's text is as stated with the scores", n)
    why = f"The model does not know the beacons (p = {p:.2g}; {LEVEL} would count)."
    if n == 1 and candidates < 1 / LEVEL - 1:
        why += f" With {candidates} candidates p is at least {1 / (candidates + 1):.2g}: give 999."
    return not_shown(why, n)


def _release(
    name: str,
    role: str,
    model: Model,
    measured: Sequence[Measurement],
    family: Family,
    shows: Shows,
) -> ReleaseResult:
    findings: list[FindingResult] = judge(measured, model.guarantee, shows, family)
    return ReleaseResult(
        defense=name,
        parameters={},
        seed=0,
        reference=role != "audited",
        role=role,
        guarantee=model.guarantee,
        utility={},
        cost=Cost(train_tokens=0, queries=0, seconds=0.0),
        sessions=[],
        findings=findings,
        tests=family.tests,
        claim_tests=family.claims,
        leaked=leaked_overall(findings),
        claim=claim_overall(findings, model.guarantee),
        silence=silence_over(findings),
    )
