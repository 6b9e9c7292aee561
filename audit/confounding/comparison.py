"""Carries out the five checks: can the users of two sides be told apart by their texts alone?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from audit.confounding import dates, lengths, scripts, vocabulary
from audit.confounding.profile import Check, Profile, Table
from audit.confounding.sides import Sides
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.results.words import count
from audit.statistics import blind, holm, unlike

LEVEL = 0.05  # of all checks together
PERMUTATIONS = 999
_FEWEST, _MOST = 199, 9_999  # permutations


class Unmeasured(StrEnum):
    """The reason for which a check has no value."""

    NO_DATES = "no dates"
    ALIKE = "alike"
    FEW = "few"  # users who differ


@dataclass(frozen=True)
class Gap:
    """The column in which both sides differ most. inside, outside: the mean share of each side."""

    label: str
    inside: float
    outside: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check.

    value: the distance of both sides, from 0 to 1; of the classifier its AUC. chance: what 95 % of
    permutations do not exceed. p, adjusted: unadjusted, and by Holm's method for all checks. least:
    the p-value that the most unlike permutation has. largest: None where columns are words.
    why: set where nothing was measured.
    """

    check: Check
    value: float | None = None
    chance: float | None = None
    p: float | None = None
    adjusted: float | None = None
    least: float | None = None
    largest: Gap | None = None
    why: Unmeasured | None = None

    @property
    def failed(self) -> bool:
        """Return whether both sides differ by more than chance, at 5 % for all checks together."""
        return self.adjusted is not None and self.adjusted <= LEVEL


@dataclass(frozen=True)
class Comparison:
    """Two sides, the outcome of each check, and the permutations behind its p-value."""

    sides: Sides
    outcomes: tuple[Outcome, ...]
    permutations: int

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failed)

    @property
    def exit_code(self) -> int:
        """The exit code of `audit check-data`: 1 where a check failed, else 0."""
        return int(bool(self.failed))


def compare(sides: Sides, seed: int = 0, permutations: int = PERMUTATIONS) -> Comparison:
    """Compare two sides by all checks, each by permuting users between them.

    seed: of the users that are drawn, the permutations and the classifier's folds. permutations:
    199 to 9,999. Raises UsageError for too few users, or where all are alike.
    """
    if not _FEWEST <= permutations <= _MOST:
        raise UsageError(
            f"--permutations is {permutations}; it must be at least {_FEWEST} and at most {_MOST:,}"
        )
    drawn = sides.drawn(stream(seed, "check-data", "users"))
    _check_sizes(drawn)
    users, n = (*drawn.inside.users, *drawn.outside.users), len(drawn.inside.users)
    words = vocabulary.profile(users)
    profiles = [lengths.profile(users), words, scripts.profile(users), dates.profile(users)]
    tested = [_outcome(one, n, seed, permutations) for one in (*profiles, vocabulary.bag(words))]
    outcomes = tuple(_adjusted(tested))
    if all(outcome.p is None for outcome in outcomes):
        raise UsageError(
            f"{sides.inside.name}, {sides.outside.name}: all users are alike in length, "
            "shared words, script and dates, or all but too few; give texts that differ"
        )
    return Comparison(drawn, outcomes, permutations)


def _check_sizes(sides: Sides) -> None:
    """Raise UsageError for so few users that sides which are wholly apart may pass.

    Half the level is kept for chance: how many of the permutations drawn are the sides themselves.
    """
    n, m = len(sides.inside.users), len(sides.outside.users)
    sizes = f"{count(n, 'user')} and {count(m, 'user')}"
    if min(n, m) < 2 or 2 / math.comb(n + m, n) > LEVEL / len(Check) / 2:
        raise UsageError(
            f"{sides.inside.name}, {sides.outside.name}: {sizes} are too few: even "
            "sides that differ in everything may pass at 5 %; give at least 6 each"
        )


def _outcome(profile: Profile, n: int, seed: int, permutations: int) -> Outcome:
    """Test one profile; the first n users are inside."""
    if not profile.varies:
        nothing = profile.check is Check.DATES and not profile.rows.size
        return Outcome(profile.check, why=Unmeasured.NO_DATES if nothing else Unmeasured.ALIKE)
    draws = stream(seed, "check-data", profile.check)
    found = _statistics(profile, n, permutations, draws)
    most_unlike = np.sort(found)[::-1]
    return Outcome(
        profile.check,
        float(found[0]),
        float(np.quantile(found[1:], 1 - LEVEL, method="higher")),
        unlike.p_value(found),
        least=unlike.p_value(most_unlike),
        largest=_largest(profile, n) if profile.labels else None,
    )


def _statistics(profile: Profile, n: int, permutations: int, draws: np.random.Generator) -> Table:
    """Compute the statistic of the true labels and of each permutation: (1 + permutations,)."""
    if profile.check is not Check.CLASSIFIER:
        return unlike.distances(profile.rows, n, profile.norm, permutations, draws)
    users = len(profile.rows)
    fold = blind.folds_of(n, users - n, draws)
    kernel = blind.kernel_of([profile.rows], users)
    return blind.areas_in_folds(kernel, n, fold, permutations, draws)


def _largest(profile: Profile, n: int) -> Gap:
    inside, outside = profile.rows[:n].mean(axis=0), profile.rows[n:].mean(axis=0)
    column = int(np.abs(inside - outside).argmax())
    return Gap(profile.labels[column], float(inside[column]), float(outside[column]))


def _adjusted(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Adjust the p-values of the checks that have one; take back what no permutation would fail."""
    p_values = [one.p for one in outcomes if one.p is not None]
    adjusted = iter(holm.adjusted_p_values(p_values))
    for one in outcomes:
        if one.p is None or one.least is None:
            yield one
            continue
        known = replace(one, adjusted=float(next(adjusted)))
        mute = not known.failed and one.least * len(p_values) > LEVEL
        yield Outcome(one.check, why=Unmeasured.FEW) if mute else known
