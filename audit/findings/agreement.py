"""Joint answers of the seeds of one setting: both answers, from all of them at once.

Each seed has one p-value of a leak, and a setting one of its seeds (`audit.findings.settings`),
adjusted for all settings of a sweep. So one seed of many that leaks by chance is not a leak of the
setting, and is still named; weak signs in all of them are a leak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import charges_over_seeds as charges
from audit.findings.leaked import word_of
from audit.findings.rejections import (
    Family,
    Rejections,
    claim_p_value,
    ledgers_of,
    rejected,
    test_of,
    untestable,
)
from audit.findings.settings import adjusted_over, setting_p_value, unconfirmed
from audit.results.joined import GREY, LEVEL, leaked_overall
from audit.results.measurement import FindingResult, Measurement
from audit.results.schema import ReleaseResult
from audit.results.words import count
from audit.statistics.fisher import combined_p_value


@dataclass(frozen=True)
class Agreement:
    """Joint evidence of the seeds of one setting, test by test.

    seeds: how many the setting has. adjusted_p: of "nothing depends on what was planted" in any
    seed, adjusted for all settings, by what the release gives; insiders_p: by all measures, so that
    a leak to insiders confirms no other. leading: the tests that a leak of the setting is by.
    p_values: of single tests, unadjusted. rejections: the tests that reject the claim, at the
    family-wise level of a single release.
    """

    seeds: int
    claim: Guarantee
    adjusted_p: float
    insiders_p: float
    leading: frozenset[str]
    p_values: dict[str, float]
    rejections: Rejections

    def leaked(self, joined: Measurement, per_seed: Sequence[FindingResult]) -> tuple[Leaked, str]:
        """Answer what leaked. joined: the measure over the seeds."""
        word = self._leaked(joined, per_seed)
        p = self.p_values.get(test_of(joined))
        together = "" if p is None else f" Together p = {p:.2g} before adjustment."
        exact = charges.sentence(joined, per_seed)
        words = [f.leaked for f in per_seed]
        alone = exact or self._unconfirmed(word, words) or self._each(Leaked, words)
        return word, alone + together

    def _leaked(self, joined: Measurement, per_seed: Sequence[FindingResult]) -> Leaked:
        test, words = test_of(joined), [f.leaked for f in per_seed]
        p = self.insiders_p if joined.stronger_than_release else self.adjusted_p
        shown = joined.value is not None or test not in self.rejections.measured
        if p <= LEVEL and test in self.leading and shown:
            return word_of(joined)
        if all(word == Leaked.NOT_MEASURED for word in words):
            return Leaked.NOT_MEASURED
        grey = p <= GREY and test in self.leading
        silent = words.count(Leaked.NONE_FOUND) == self.seeds
        return Leaked.NONE_FOUND if silent and not grey else Leaked.INCONCLUSIVE

    def _unconfirmed(self, word: Leaked, words: Sequence[Leaked]) -> str:
        """Describe a leak of some seeds that is none of the setting; empty where there is none."""
        found = sum(one.detected for one in words)
        return "" if word.detected or not found else f"{unconfirmed(found, self.seeds)}."

    def on_claim(
        self, joined: Measurement, per_seed: Sequence[FindingResult]
    ) -> tuple[OnClaim, str]:
        """Answer the claim by the tests of all seeds together."""
        words = [f.claim for f in per_seed]
        refuting = self.rejections.refuting.get(test_of(joined))
        leaks = self.adjusted_p <= LEVEL or joined.charge_test is not None
        able = leaks and not all(untestable(f, self.claim) for f in per_seed)
        if refuting is not None and able:
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


def agreements(settings: Sequence[Sequence[ReleaseResult]], one_toss: bool) -> list[Agreement]:
    """Combine the releases of each setting, one a seed.

    Audited settings are adjusted for each other, and references for each other. one_toss: whether
    the seeds share the coins of one manifest.
    """
    references = [all(r.reference for r in releases) for releases in settings]
    own, every = (
        adjusted_over(
            references, [setting_p_value(rs, one_toss, insiders=insiders) for rs in settings]
        )
        for insiders in (False, True)
    )
    return [_agreement(*one) for one in zip(settings, own, every, strict=True)]


def _agreement(
    releases: Sequence[ReleaseResult], adjusted_p: float, insiders_p: float
) -> Agreement:
    claims = [release.guarantee for release in releases]
    findings = [f for release in releases for f in release.findings]
    p_values = _combined(releases, lambda f, _: f.p_value)
    tests = max(release.tests for release in releases)
    constant = any(claim.constant for claim in claims)  # refuted by any test that finds a leak
    return Agreement(
        seeds=len(releases),
        claim=max(claims, key=lambda c: (c.epsilon is None, c.epsilon or 0.0, c.delta or 0.0)),
        adjusted_p=adjusted_p,
        insiders_p=insiders_p,
        leading=_leading(findings, p_values),
        p_values=p_values,
        rejections=rejected(
            p_values,
            _combined(releases, claim_p_value),
            Family(tests, tests if constant else max(r.claim_tests for r in releases)),
            frozenset(test_of(f) for f in findings if f.value is not None),
            ledgers=ledgers_of(findings),
        ),
    )


def leaked_by_setting(
    findings: Sequence[FindingResult], releases: Sequence[ReleaseResult]
) -> Leaked:
    """Join what leaked: no leak found only where each seed by itself found none."""
    word = leaked_overall(findings)
    silent = all(release.leaked == Leaked.NONE_FOUND for release in releases)
    return Leaked.INCONCLUSIVE if word == Leaked.NONE_FOUND and not silent else word


def _leading(findings: Sequence[FindingResult], p_values: dict[str, float]) -> frozenset[str]:
    """Name the tests by which a seed leaks; where none does, those with the least p-value.

    Of those that the release gives, and of those that insiders alone have, each.
    """
    leading = set[str]()
    for inside in (False, True):
        some = [f for f in findings if f.stronger_than_release is inside]
        found = {test_of(f) for f in some if f.leaked.detected}
        known = {test: p for f in some if (p := p_values.get(test := test_of(f))) is not None}
        least = min(known.values(), default=1.0)
        leading |= found or {test for test, p in known.items() if p == least < 1.0}
    return frozenset(leading)


def _combined(
    releases: Sequence[ReleaseResult], p_of: Callable[[Measurement, Guarantee], float | None]
) -> dict[str, float]:
    """Return one p-value for each test.

    A test that a seed could not run counts as p = 1: whether it can run may depend on its coins.
    """
    seeds = [
        {test_of(f): p for f in one.findings if (p := p_of(f, one.guarantee)) is not None}
        for one in releases
    ]
    tests = dict.fromkeys(test for seed in seeds for test in seed)
    return {test: combined_p_value([seed.get(test, 1.0) for seed in seeds]) for test in tests}
