"""The verdicts of one setting, from all its seeds at once.

Seeds toss their own coins, so their p-values are independent: Fisher's method makes one of them,
and Holm adjusts it for the tests of a release, as in a single run. So one seed of many that leaks
by chance is no leak of the setting, and weak signs in all of them are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit.core.guarantee import Guarantee
from audit.findings import LEVEL
from audit.findings.verdict import above_chance, claim_p_value, is_confounded, leak, rejected
from audit.results.schema import FindingResult, ReleaseResult
from audit.statistics.fisher import combined_p_value

SEVERITY = ("refuted", "consistent", "not comparable", "inconclusive", "silent", "not measured")


@dataclass(frozen=True)
class Agreement:
    """What the seeds of one setting show together, test by test.

    p_values: of "nothing depends on what was planted", unadjusted. leaking, refuting: the tests
    that speak against that, and against the claim, at the family-wise level of a single release.
    """

    claim: Guarantee
    p_values: dict[str, float]
    leaking: set[str]
    refuting: set[str]

    def verdict(self, joined: FindingResult, per_seed: Sequence[FindingResult]) -> tuple[str, str]:
        """Judges one measure: (verdict, sentence). joined: its value over the seeds."""
        measured = [f for f in per_seed if f.value is not None]
        test = test_of(joined)
        if not measured:
            word = "not measured"
        elif test in self.leaking and above_chance(joined.value, joined.chance, joined.sides):
            word, _ = leak(joined, self.claim, test in self.refuting)
        else:
            word = "silent" if self._silent(joined, per_seed) else "inconclusive"
        counts = Counter(str(f.verdict) for f in per_seed)
        alone = ", ".join(f"{kind} in {counts[kind]}" for kind in SEVERITY if kind in counts)
        p = self.p_values.get(test)
        together = "" if p is None else f" Together p = {p:.2g} before adjustment."
        return word, f"Of {len(per_seed)} seeds, each by itself: {alone}.{together}"

    def _silent(self, joined: FindingResult, per_seed: Sequence[FindingResult]) -> bool:
        """Tells whether every seed is silent, and all together are not against chance at 95 %."""
        p = self.p_values.get(test_of(joined), 1.0)
        suspicious = above_chance(joined.value, joined.chance, joined.sides)
        suspicious = suspicious and p < LEVEL * joined.sides / 2
        return not suspicious and all(f.verdict == "silent" for f in per_seed)


def agreement(releases: Sequence[ReleaseResult]) -> Agreement:
    """Combines the releases of one setting, one a seed."""
    claims = [release.guarantee.claim for release in releases]
    tests = max(release.tests for release in releases)
    p_values = _combined(releases, lambda f, _: f.p_value)
    refuting = _combined(releases, claim_p_value)
    return Agreement(
        claim=max(claims, key=lambda claim: math.inf if claim.epsilon is None else claim.epsilon),
        p_values=p_values,
        leaking=rejected(p_values, max(tests, len(p_values))),
        refuting=rejected(refuting, tests),
    )


def test_of(finding: FindingResult) -> str:
    """Names the test behind a finding; one of its own where none is known."""
    return finding.test or f"{finding.attack} {finding.metric}"


P = Callable[[FindingResult, Guarantee], float | None]


def _combined(releases: Sequence[ReleaseResult], p_of: P) -> dict[str, float]:
    """Returns one p-value for each test.

    A test that a seed could not run counts as p = 1: whether it can run may depend on its coins.
    """
    seeds = [_p_values(release, p_of) for release in releases]
    tests = dict.fromkeys(test for seed in seeds for test in seed)
    return {test: combined_p_value([seed.get(test, 1.0) for seed in seeds]) for test in tests}


def _p_values(release: ReleaseResult, p_of: P) -> dict[str, float]:
    claim = release.guarantee.claim
    per_seed = {test_of(f): p for f in release.findings if (p := p_of(f, claim)) is not None}
    confounded = {test_of(f) for f in release.findings if is_confounded(f.blind, f.ci)}
    return {test: 1.0 if test in confounded else p for test, p in per_seed.items()}
