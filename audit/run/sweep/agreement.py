"""What the seeds of one setting show together: both answers, from all of them at once.

Seeds toss their own coins, so their p-values are independent: Fisher's method makes one of them,
and Holm adjusts it for the tests of a release, as in a single run. So one seed of many that leaks
by chance is no leak of the setting, and weak signs in all of them are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings.finding import LEVEL
from audit.findings.leaked import leaked
from audit.findings.rejections import (
    Family,
    Rejections,
    claim_p_value,
    is_confounded,
    ledgers_of,
    rejected,
    test_of,
    untestable,
)
from audit.results.schema import FindingResult, ReleaseResult
from audit.statistics.fisher import combined_p_value


@dataclass(frozen=True)
class Agreement:
    """What the seeds of one setting show together, test by test.

    p_values: of "nothing depends on what was planted", unadjusted. rejections: the tests that speak
    against that, and against the claim, at the family-wise level of a single release.
    """

    claim: Guarantee
    p_values: dict[str, float]
    rejections: Rejections

    def leaked(
        self, joined: FindingResult, per_seed: Sequence[FindingResult]
    ) -> tuple[Leaked, str]:
        """Answers what leaked. joined: the measure over the seeds."""
        word = self._leaked(joined, per_seed)
        p = self.p_values.get(test_of(joined))
        together = "" if p is None else f" Together p = {p:.2g} before adjustment."
        return word, _each(f.leaked for f in per_seed) + together

    def _leaked(self, joined: FindingResult, per_seed: Sequence[FindingResult]) -> Leaked:
        if test_of(joined) in self.rejections.leaking:
            return leaked(joined, self.rejections, None)[0]
        if all(f.leaked == Leaked.NOT_MEASURED for f in per_seed):
            return Leaked.NOT_MEASURED
        p = self.p_values.get(test_of(joined), 1.0)
        silent = all(f.leaked == Leaked.NONE_FOUND for f in per_seed)
        return Leaked.NONE_FOUND if silent and p >= LEVEL else Leaked.INCONCLUSIVE

    def on_claim(
        self, joined: FindingResult, per_seed: Sequence[FindingResult]
    ) -> tuple[OnClaim, str]:
        """Answers what the seeds say about the claim together."""
        words = [f.claim for f in per_seed]
        refuting = self.rejections.refuting.get(test_of(joined))
        if refuting is not None and not untestable(per_seed[0], self.claim):
            p = f"adjusted p = {refuting:.2g}"
            return OnClaim.REFUTED, f"Refuted by all seeds together ({p}). {_each(words)}"
        if OnClaim.REFUTED in words or OnClaim.NOT_REFUTED in words:
            return OnClaim.NOT_REFUTED, f"Not refuted by all seeds together. {_each(words)}"
        return per_seed[0].claim, per_seed[0].claim_sentence


def _each(words: Iterable[str]) -> str:
    counts = Counter(map(str, words))
    alone = ", ".join(f"{word} in {times}" for word, times in counts.items())
    return f"Of {counts.total()} seeds, each by itself: {alone}."


def agreement(releases: Sequence[ReleaseResult]) -> Agreement:
    """Combines the releases of one setting, one a seed."""
    claims = [release.guarantee.claim for release in releases]
    findings = [f for release in releases for f in release.findings]
    p_values = _combined(releases, lambda f, _: f.p_value)
    tests = max(release.tests for release in releases)
    constant = any(claim.constant for claim in claims)  # refuted by any test that finds a leak
    return Agreement(
        claim=max(claims, key=lambda claim: math.inf if claim.epsilon is None else claim.epsilon),
        p_values=p_values,
        rejections=rejected(
            p_values,
            _combined(releases, claim_p_value),
            Family(tests, tests if constant else max(r.claim_tests for r in releases)),
            frozenset(test_of(f) for f in findings if f.value is not None),
            ledgers=ledgers_of(findings),
        ),
    )


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
    blind = (f for f in release.findings if not f.fair_coins)
    confounded = {test_of(f) for f in blind if is_confounded(f.blind, f.ci)}
    return {test: 1.0 if test in confounded else p for test, p in per_seed.items()}
