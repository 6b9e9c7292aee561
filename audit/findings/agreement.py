"""Joint answers of the seeds of one setting: both answers, from all of them at once.

Seeds toss their own coins, so their p-values are independent: Fisher's method makes one of them,
and Holm adjusts it for the tests of a release, as in a single run. So one seed of many that leaks
by chance is not a leak of the setting, and weak signs in all of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import charges_over_seeds as charges
from audit.findings.case import LEVEL
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
from audit.results.measurement import FindingResult, Measurement
from audit.results.schema import ReleaseResult
from audit.results.words import count
from audit.statistics.fisher import combined_p_value


@dataclass(frozen=True)
class Agreement:
    """Joint evidence of the seeds of one setting, test by test.

    seeds: how many the setting has. p_values: of "nothing depends on what was planted", unadjusted.
    rejections: the tests that reject that, and the claim, at the family-wise level of a single
    release.
    """

    seeds: int
    claim: Guarantee
    p_values: dict[str, float]
    rejections: Rejections

    def leaked(self, joined: Measurement, per_seed: Sequence[FindingResult]) -> tuple[Leaked, str]:
        """Answer what leaked. joined: the measure over the seeds."""
        word = self._leaked(joined, per_seed)
        p = self.p_values.get(test_of(joined))
        together = "" if p is None else f" Together p = {p:.2g} before adjustment."
        exact = charges.sentence(joined, per_seed)
        alone = exact or self._each(Leaked, [f.leaked for f in per_seed])
        return word, alone + together

    def _leaked(self, joined: Measurement, per_seed: Sequence[FindingResult]) -> Leaked:
        if test_of(joined) in self.rejections.leaking:
            return Leaked.LEAK
        words = [f.leaked for f in per_seed]
        if all(word == Leaked.NOT_MEASURED for word in words):
            return Leaked.NOT_MEASURED
        p = self.p_values.get(test_of(joined), 1.0)
        silent = words.count(Leaked.NONE_FOUND) == self.seeds
        return Leaked.NONE_FOUND if silent and p >= LEVEL else Leaked.INCONCLUSIVE

    def on_claim(
        self, joined: Measurement, per_seed: Sequence[FindingResult]
    ) -> tuple[OnClaim, str]:
        """Answer the claim by the tests of all seeds together."""
        words = [f.claim for f in per_seed]
        refuting = self.rejections.refuting.get(test_of(joined))
        if refuting is not None and not all(untestable(f, self.claim) for f in per_seed):
            word, evidence = OnClaim.REFUTED, f" (adjusted p = {refuting:.2g})"
        elif OnClaim.REFUTED in words or OnClaim.NOT_REFUTED in words:
            word, evidence = OnClaim.NOT_REFUTED, ""
        else:
            return _untested(per_seed)
        joint = f"{str(word).capitalize()} by all seeds together{evidence}."
        exact = charges.claim_sentence(joined, per_seed, word)
        return word, exact or f"{joint} {self._each(OnClaim, words)}"

    def _each(self, kinds: type[StrEnum], words: Sequence[str]) -> str:
        alone = [f"{kind} in {times}" for kind in kinds if (times := words.count(kind))]
        without = self.seeds - len(words)
        alone += [f"no such measure in {without}"] if without else []
        return f"Of {count(self.seeds, 'seed')}, each by itself: {', '.join(alone)}."


def _untested(per_seed: Sequence[FindingResult]) -> tuple[OnClaim, str]:
    """Return the most frequent answer of seeds that do not test the claim, the first of equals."""
    order = (OnClaim.UNKNOWN, OnClaim.NOTHING_CLAIMED, OnClaim.NOT_TESTABLE)
    word = next(word for word in order if any(f.claim == word for f in per_seed))
    sentences = [f.claim_sentence for f in per_seed if f.claim == word]
    return word, max(sorted(set(sentences)), key=sentences.count)


def agreement(releases: Sequence[ReleaseResult]) -> Agreement:
    """Combine the releases of one setting, one a seed."""
    claims = [release.guarantee for release in releases]
    findings = [f for release in releases for f in release.findings]
    p_values = _combined(releases, lambda f, _: f.p_value)
    tests = max(release.tests for release in releases)
    constant = any(claim.constant for claim in claims)  # refuted by any test that finds a leak
    return Agreement(
        seeds=len(releases),
        claim=max(claims, key=lambda c: (c.epsilon is None, c.epsilon or 0.0, c.delta or 0.0)),
        p_values=p_values,
        rejections=rejected(
            p_values,
            _combined(releases, claim_p_value),
            Family(tests, tests if constant else max(r.claim_tests for r in releases)),
            frozenset(test_of(f) for f in findings if f.value is not None),
            ledgers=ledgers_of(findings),
        ),
    )


P = Callable[[Measurement, Guarantee], float | None]


def _combined(releases: Sequence[ReleaseResult], p_of: P) -> dict[str, float]:
    """Return one p-value for each test.

    A test that a seed could not run counts as p = 1: whether it can run may depend on its coins.
    """
    seeds = [_p_values(release, p_of) for release in releases]
    tests = dict.fromkeys(test for seed in seeds for test in seed)
    return {test: combined_p_value([seed.get(test, 1.0) for seed in seeds]) for test in tests}


def _p_values(release: ReleaseResult, p_of: P) -> dict[str, float]:
    claim = release.guarantee
    per_seed = {test_of(f): p for f in release.findings if (p := p_of(f, claim)) is not None}
    blind = (f for f in release.findings if not f.fair_coins)
    confounded = {test_of(f) for f in blind if is_confounded(f.blind, f.ci)}
    return {test: 1.0 if test in confounded else p for test, p in per_seed.items()}
