"""Audits scores of people with coins, as `audit run` audits what its own attacks see."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

import audit
from audit.core.digest import digest_of_json, sha256_of
from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings.headline import headline
from audit.results import quoting
from audit.results.joined import leak_p
from audit.results.measurement import EpsilonLower
from audit.results.schema import CorpusResult, ReleaseResult, Results, to_json
from audit.results.silence import Silence
from audit.run import reports
from audit.scores import given, judged
from audit.scores.given import Beacons, Sides
from audit.scores.judged import ATTACK, Model

_NOT_TESTED = [
    "attacks other than the one that gave these scores",
    "people without a coin, and secrets other than those scored",
    "whether each score belongs to the person with this coin",
]
_WARNINGS = ["scores, coins and beacons are as stated: this tool trained no model and asked none"]
_UNCONTROLLED = "no positive control was given, so finding no leak is never conclusive"


@final
@dataclass(frozen=True)
class Audited:
    """Both answers that scores give about one model, and what they rest on.

    results: the same as a run's results.json holds it; the control, if any, is a reference.
    """

    results: Results

    @property
    def _release(self) -> ReleaseResult:
        return self.results.releases[0]

    @property
    def leaked(self) -> Leaked:
        """Return what leaked, over all tests of the scores."""
        return self._release.leaked

    @property
    def claim(self) -> OnClaim:
        """Return what the scores show about the claim."""
        return self._release.claim

    @property
    def p_value(self) -> float:
        """Of the hypothesis that nothing leaked, adjusted for all tests of the scores."""
        known = map(leak_p, self._release.findings)
        return min(p for p in known if p is not None)

    @property
    def epsilon_lower(self) -> EpsilonLower:
        """Lower bound on ε with unit, relation, δ and confidence; `value` is in nats."""
        bounds = (f.epsilon_lower for f in self._release.findings)
        return next(bound for bound in bounds if bound is not None)

    @property
    def silence(self) -> Silence:
        """The three conditions of "no leak found": contact, sight and reach."""
        found = self._release.silence
        assert found is not None
        return found

    @property
    def sentence(self) -> str:
        """The headline, and why the answer is what it is."""
        quoted = quoting.quoted(self._release.findings)
        return " ".join([*self.results.headline, quoted.sentence])

    def to_json(self) -> str:
        """Format it as results.json, whose schema it has."""
        return to_json(self.results)

    def write(self, folder: str | Path) -> list[Path]:
        """Write results.json and report.html into a folder; return their paths.

        Raises UsageError where they cannot be written.
        """
        return reports.write_results(self.results, Path(folder), ["html"])


def audit_scores(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    delta: float,
    claim: Guarantee | float | None,
    control: tuple[ArrayLike, ArrayLike] | None,
    beacons: tuple[ArrayLike, ArrayLike] | None,
) -> Audited:
    """Audit scores, as `audit.api.audit_scores` describes. Raises UsageError."""
    at = given.delta(delta)
    promise = given.claim(claim, at)
    sides = Sides.read(in_scores, out_scores, ("in_scores", "out_scores"))
    beside = None if control is None else given.control(control)
    known = None if beacons is None else Beacons.read(beacons)
    sha256 = _digest(sides, beside, known)
    model = Model(sides, promise, at, int(sha256[:12], 16))
    releases = judged.releases(model, beside, known)
    plan = _plan(sha256, model, beside is not None)
    return Audited(
        Results(
            status="complete",
            headline=headline(releases),
            not_tested=_NOT_TESTED,
            warnings=[*_WARNINGS, *([] if beside else [_UNCONTROLLED])],
            reproduce="audit.api.audit_scores(in_scores, out_scores, …)",
            plan={**plan, "hash": digest_of_json(plan)},
            environment={"audit": audit.__version__, "python": platform.python_version()},
            corpus=_corpus(sha256, sides),
            releases=releases,
        )
    )


def _digest(sides: Sides, control: Sides | None, beacons: Beacons | None) -> str:
    """Hash all scores, which decide ties and tosses as well: a seed that no coin chose."""
    parts = [sides.inside, sides.outside]
    parts += [] if control is None else [control.inside, control.outside]
    parts += [] if beacons is None else [beacons.own, beacons.others.ravel()]
    return sha256_of(b"\0".join(np.ascontiguousarray(part).tobytes() for part in parts))


def _plan(sha256: str, model: Model, references: bool) -> dict[str, Any]:
    return {
        "defenses": [{"name": "model", "parameters": {}, "reference": False}],
        "attacks": [{"name": ATTACK, "parameters": {}}],
        "scores_sha256": sha256,
        "seed": 0,
        "delta": model.delta,
        "references": references,
    }


def _corpus(sha256: str, sides: Sides) -> CorpusResult:
    """Describe the people with coins; no text is known."""
    people = sides.inside.size + sides.outside.size
    return CorpusResult(
        name="scores",
        sha256=sha256,
        records=people,
        users=people,
        near_duplicates=0,
        planted_users=people,
        trained_users=sides.inside.size,
        twins=sides.outside.size,
    )
