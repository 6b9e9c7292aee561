"""What gate, baseline and comparison know of a finding, and which release is which."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from audit.results.numbers import Bounds, Number
from audit.results.schema import FindingResult, Results
from audit.statistics.interval import Interval

UNTRAINED = "the planted secrets are not known to have been trained on, so this shows no safety"


class Metric(BaseModel):
    """A measured value, its interval, and hits k of n trials where it is such a rate.

    outcomes: which planted secrets leaked, in the order of planting: 1, 0, or - where unknown.
    untrained: whether it is about secrets that are not known to have been trained on: it may show a
        leak, and never the absence of one.
    space: of exposures in bits, the number of candidates of each secret.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attack: str
    metric: str
    unit: str
    value: Number
    ci: Bounds | None
    confidence: Number
    k: int | None
    n: int
    sides: Literal[1, 2]
    outcomes: str | None = None
    untrained: bool = False
    space: Number | None = None

    @property
    def name(self) -> str:
        """`extraction.hit_rate`."""
        return f"{self.attack}.{self.metric}"

    @property
    def counted(self) -> bool:
        """Whether the value is a rate of k hits in n trials."""
        return self.k is not None and 0 <= self.k <= self.n and self.n > 0 and self._is_rate

    @property
    def _is_rate(self) -> bool:
        return self.k is not None and abs(self.k / self.n - self.value) < 1e-5

    @property
    def scale(self) -> tuple[float, float]:
        """The least and the most that `strength` can be; inf where the most is not known."""
        least = 0.5 if self.sides == 2 else 0.0
        if self.unit == "AUC" or self.unit.startswith(("share", "probability")):
            return least, 1.0
        known = self.unit == "bits" and self.space is not None and self.space >= 1
        return least, math.log2(self.space or 1) if known else math.inf

    @property
    def strength(self) -> Interval:
        """How much leaks: higher is worse. Where both signs leak, an AUC of 0.1 is one of 0.9."""
        low, high = self.ci if self.ci is not None else (None, None)
        value = self.value
        if self.sides == 2 and low is not None and high is not None:
            if value < 0.5:
                value, low, high = 1 - value, 1 - high, 1 - low
            high = max(high, 1 - low)
        elif self.sides == 2:
            value = max(value, 1 - value)
        return Interval(value, low, high, self.n, self.confidence, "as measured")


class Named(Protocol):
    """A release of a run or of a baseline."""

    @property
    def defense(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def seed(self) -> int: ...


def metric_of(finding: FindingResult) -> Metric | None:
    """A finding as a metric; None where nothing was measured."""
    if finding.value is None:
        return None
    return Metric(
        attack=finding.attack,
        metric=finding.metric,
        unit=finding.unit,
        value=finding.value,
        ci=finding.ci,
        confidence=finding.confidence,
        k=finding.k,
        n=finding.n,
        sides=finding.sides,
        outcomes=finding.outcomes,
        untrained=bool(finding.untrained),
        space=None if finding.exposures is None else finding.exposures.space,
    )


def metrics_of(findings: Iterable[FindingResult]) -> dict[str, Metric]:
    """All that was measured on a release, by name."""
    measured = (metric_of(finding) for finding in findings)
    return {metric.name: metric for metric in measured if metric is not None}


def key(release: Named) -> str:
    """What makes two releases of two runs the same one: defense, parameters and seed."""
    return json.dumps([release.defense, release.parameters, release.seed], sort_keys=True)


def labels(releases: Sequence[Named]) -> list[str]:
    """`submix`, or `submix:k=4` where several releases of one defense must be told apart."""
    return [_label(one, [r for r in releases if r.defense == one.defense]) for one in releases]


def _label(one: Named, same: Sequence[Named]) -> str:
    names = sorted({name for release in same for name in release.parameters})
    values = {name: one.parameters.get(name) for name in names}
    told = [
        f"{name}={value}"
        for name, value in values.items()
        if any(release.parameters.get(name) != value for release in same)
    ]
    if any(release.seed != one.seed for release in same):
        told.append(f"seed={one.seed}")
    return one.defense + (":" + ",".join(told) if told else "")


def plan_of(results: Results) -> dict[str, Any]:
    """All of a plan that two runs must share for their numbers to be compared like with like.

    Not the defenses: releases are matched one by one; nor a model that was trained elsewhere, since
    another one is what is compared. The corpus stands with its coins' counts.
    """
    left_out = ("hash", "defenses", "attacks", "corpus", "finished", "trained_on")
    plan = {name: value for name, value in results.plan.items() if name not in left_out}
    plan["attacks"] = {}
    for one in results.plan.get("attacks", []):
        plan["attacks"].setdefault(str(one["name"]), []).append(one.get("parameters", {}))
    counted = ("name", "sha256", "planted_users", "trained_users", "twins")
    plan["corpus"] = {name: getattr(results.corpus, name) for name in counted}
    return plan


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what differs between two such plans. An attack that only one has is no change
    of the others' numbers."""
    names = sorted((set(before) | set(after)) - {"attacks"})
    found = [name for name in names if before.get(name) != after.get(name)]
    one, other = before.get("attacks", {}), after.get("attacks", {})
    return found + [f"attack {n}" for n in sorted(set(one) & set(other)) if one[n] != other[n]]
