"""P-values of the settings of a sweep: a seed's, then a setting's, adjusted for all settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from audit.findings import exhibits
from audit.findings.rejections import test_of
from audit.results.joined import leak_p
from audit.results.schema import FindingResult, ReleaseResult
from audit.results.words import count
from audit.statistics.fisher import combined_p_value
from audit.statistics.holm import adjusted_p_values


def seed_p_value(
    release: ReleaseResult, left_out: Collection[str] = (), insiders: bool = True
) -> float:
    """Return the smallest adjusted p-value of a release; 1 where nothing was tested.

    left_out: findings by name, such as leaks that a policy allows. insiders: whether measures with
    more access than the release gives count. A smallest p-value that is adjusted in its family is
    one of "nothing depends on what was planted" in this release: of a test, or of its guesses. An
    exhibit counts as the chance that the base had written it.
    """
    tests = max(release.tests, len({test_of(f) for f in release.findings if f.p_value is not None}))
    kept = [f for f in release.findings if f.name not in left_out]
    kept = [f for f in kept if insiders or not f.stronger_than_release]
    known = [p for f in kept for p in (_p_value(f, tests), exhibits.chance(f)) if p is not None]
    return min(known, default=1.0)


def _p_value(finding: FindingResult, tests: int) -> float | None:
    """Return the adjusted p-value of a leak; Holm's where it is not adjusted."""
    adjusted = leak_p(finding)
    if adjusted is None and finding.p_value is not None:
        return min(1.0, tests * finding.p_value)
    return adjusted


def setting_p_value(
    releases: Sequence[ReleaseResult],
    one_toss: bool,
    left_out: Collection[str] = (),
    insiders: bool = True,
) -> float:
    """Combine the seeds of one setting: a single seed's, else twice the least of two combinations.

    Fisher's finds weak signs in all seeds, Bonferroni's a strong sign in one. one_toss: the seeds
    share the coins of one manifest, so that their p-values are not independent, as Fisher's needs.
    left_out, insiders: as in `seed_p_value`.
    """
    p_values = [seed_p_value(release, left_out, insiders) for release in releases]
    if len(p_values) == 1:
        return p_values[0]
    bonferroni = min(1.0, len(p_values) * min(p_values))
    if one_toss:
        return bonferroni
    return min(1.0, 2.0 * min(combined_p_value(p_values), bonferroni))


def adjusted_over(references: Sequence[bool], p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of settings for each other (Holm), references apart."""
    adjusted = list(p_values)
    for kind in (True, False):
        places = [i for i, reference in enumerate(references) if reference is kind]
        for i, p in zip(places, adjusted_p_values([p_values[i] for i in places]), strict=True):
            adjusted[i] = float(p)
    return adjusted


def unconfirmed(found: int, seeds: int) -> str:
    """Describe a leak that some seeds of a setting show, and that all of them do not confirm."""
    others = "the others" if seeds > 1 else "the other settings"
    return f"Leak in {found} of {count(seeds, 'seed')}, not confirmed by {others}"


def one_toss(plan: Mapping[str, object]) -> bool:
    """Return whether the seeds of a plan share the coins of one manifest."""
    return "planting" in plan and plan["planting"] is None
