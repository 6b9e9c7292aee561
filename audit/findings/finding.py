"""A finding: one measurement with all that it must travel with, and the case it was made in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.core.secret import Coins, Secret
from audit.results.schema import Control, EpsilonLower, Exposures, Power
from audit.statistics.interval import Interval

LEVEL = 0.05  # family-wise, over the tests of one release


@dataclass(frozen=True)
class Finding:
    """One measurement; the verdict comes later.

    told: what was seen, as a sentence. p_value: of "the release does not depend on what was
    planted"; None: not tested, for the reason in `untested`. least_p: the p-value that so much
    would give if every try succeeded; silence is earned only where it is small enough. test: the
    test the p-value is of; metrics that share a test share its name. sides: 2 where both signs
    would be a leak. untrained: what of the planted secrets never reached the training, where that
    is known: then silence says nothing. outcomes: of each try that one run and the next have in
    common, in the order of planting: 1 it leaked, 0 it did not, - it was not measured.
    """

    attack: str
    metric: str
    access: str
    unit: str
    interval: Interval
    told: str
    chance: float | None
    control: Control | None
    p_value: float | None
    test: str
    power: Power
    k: int | None = None
    least_p: float = 0.0
    sides: int = 1
    untested: str = "Too little was measured for any test."
    blind: Control | None = None
    epsilon_lower: EpsilonLower | None = None
    stronger_than_release: bool = False
    roc: tuple[tuple[float, float], ...] | None = None
    exposures: Exposures | None = None
    untrained: str = ""
    outcomes: str | None = None


@dataclass(frozen=True)
class Case:
    """One attack on one release: the secrets it went for, and here, and only here, the coins.

    delta: δ of the empirical ε. access: what the release gives; what was read beyond it is
    stronger than the release, and so is whatever was sampled after such a reading (tainted).
    tests: how many tests the release's verdicts adjust for. unit: what one coin decides: a "user",
    or, where all that an owner holds is one record, ONE_RECORD. lost: by kind, what of its planted
    secrets never reached the training; kinds that did are absent.
    """

    attack: str
    secrets: tuple[Secret, ...]
    coins: Coins
    delta: float
    seed: int
    access: Access
    tainted: bool = False
    tests: int = 1
    unit: str = "user"
    lost: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def planted_values(self) -> set[tuple[str, str, str]]:
        """What was planted."""
        return {value(s) for s in self.secrets if self.coins.planted(s)}

    @cached_property
    def twin_values(self) -> set[tuple[str, str, str]]:
        """What was drawn for the twins and is not planted by accident."""
        return {value(s) for s in self.secrets if self.coins.twin(s)} - self.planted_values

    @cached_property
    def planted(self) -> np.ndarray:
        """(s,), bool: the secrets that stand in the training text."""
        return np.array([self.coins.planted(s) for s in self.secrets], dtype=bool)

    @cached_property
    def twins(self) -> np.ndarray:
        """(s,), bool: the secrets that would stand there, had the coin come up, and do not."""
        planted = self.planted_values
        twins = [self.coins.twin(s) and value(s) not in planted for s in self.secrets]
        return np.array(twins, dtype=bool)

    @cached_property
    def single(self) -> np.ndarray:
        """(s,), bool: the secrets of one owner only. What two owners share has two coins: it is
        left out, on both sides, where planted secrets and twins are compared."""
        owners: dict[tuple[str, str, str], set[str]] = {}
        for secret in self.secrets:
            owners.setdefault(value(secret), set()).add(secret.owner)
        return np.array([len(owners[value(s)]) == 1 for s in self.secrets], dtype=bool)

    def outcomes(self, won: np.ndarray) -> str:
        """`Finding.outcomes` of what is planted, from won, shape (s,): 1, 0, or NaN (not measured).
        A value that two owners share is one try, the first one's."""
        seen: set[tuple[str, str, str]] = set()
        marks = []
        for i in np.flatnonzero(self.planted):
            one = value(self.secrets[i])
            marks.append("-" if one in seen or np.isnan(won[i]) else f"{int(won[i])}")
            seen.add(one)
        return "".join(marks)

    def sides(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(planted, twins): the scores to compare, those that were measured."""
        kept = self.single & ~np.isnan(scores)
        return scores[self.planted & kept], scores[self.twins & kept]

    @cached_property
    def chance(self) -> float | None:
        """1/|R| where all secrets are uniform on spaces of one size."""
        sizes = {None if s.space is None else s.space.size for s in self.secrets}
        size = sizes.pop() if len(sizes) == 1 else None
        return None if size is None else 1 / size

    def stronger(self, access: Access) -> bool:
        """Whether evidence of this access is more than the release gives."""
        return self.access < access or (access == Access.GENERATE and self.tainted)

    def stream(self, *purpose: str) -> np.random.Generator:
        """Randomness of the statistics, such as lots for ties."""
        return stream(self.seed, "findings", *purpose)

    def by_owner(self, scores: np.ndarray) -> dict[str, float]:
        """One score an owner, the higher of both values'; owners not measured are left out.

        Blind to the coins: the attacker does not know which of the two values was planted.
        """
        joined: dict[str, float] = {}
        missing = set()
        for secret, score in zip(self.secrets, scores, strict=True):
            if score != score:
                missing.add(secret.owner)
            else:
                joined[secret.owner] = max(joined.get(secret.owner, -math.inf), float(score))
        return {owner: score for owner, score in joined.items() if owner not in missing}


def value(secret: Secret) -> tuple[str, str, str]:
    """What makes two secrets the same. Around a name of the corpus's own stands any text."""
    return secret.kind, "" if secret.space is None else secret.prefix, secret.value


def control(interval: Interval, k: int | None = None) -> Control | None:
    """An interval as the control of a finding; None where nothing was measured."""
    if interval.value is None:
        return None
    return Control(
        value=interval.value, ci=interval.ci, k=k, n=interval.n, confidence=interval.confidence
    )
