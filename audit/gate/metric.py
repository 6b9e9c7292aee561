"""Findings as metrics, and the identity of releases and plans across runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from audit.findings.verdict import leaks
from audit.results.numbers import Bounds, Number
from audit.results.schema import FindingResult, Results
from audit.statistics.interval import Interval

UNTRAINED = "the planted secrets may not have been trained on, so this shows no safety"


class Metric(BaseModel):
    """A measured value with its interval; a rate also has its k hits in n trials.

    outcomes: which planted secrets leaked, in the order of planting: 1, 0, or - where unknown.
    cut: as of a finding; unless None, n depends on how the trials came out.
    untrained: whether the secrets may not have been trained on. Such a metric can show a leak, but
        never the absence of one.
    space: number of candidates of each secret, for exposures in bits.
    leaked: whether it was a leak of its release.
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
    leaked: bool
    cut: bool | None = None

    @property
    def name(self) -> str:
        """`extraction.hit_rate`."""
        return f"{self.attack}.{self.metric}"

    @property
    def counted(self) -> bool:
        """Whether the value is a rate of k hits in n trials."""
        return self.k is not None and 0 <= self.k <= self.n and self.n > 0 and self._is_rate

    @property
    def exact(self) -> bool:
        """Whether it is a rate whose n was fixed before the trials, as exact tests suppose."""
        return self.counted and self.cut is None

    @property
    def _is_rate(self) -> bool:
        return self.k is not None and abs(self.k / self.n - self.value) < 1e-5

    @property
    def _folded(self) -> bool:
        """Whether values below one half are as strong as those above: an AUC of .1 is one of .9."""
        return self.unit == "AUC"

    @property
    def comparable(self) -> bool:
        """Whether runs can be compared by it. An extreme varies with every training more than any
        interval of one run says, and a bet has none; a limit holds it."""
        return not self.metric.startswith(("largest_", "bet_"))

    @property
    def scale(self) -> tuple[float, float]:
        """The least and the largest possible `strength`; inf where the largest is unknown."""
        least = 0.5 if self._folded else 0.0
        if self.unit == "AUC" or self.unit.startswith(("share", "probability")):
            return least, 1.0
        known = self.unit == "bits" and self.space is not None and self.space >= 1
        return least, math.log2(self.space or 1) if known else math.inf

    @property
    def strength(self) -> Interval:
        """How much leaks: higher is worse. A two-sided AUC of 0.1 counts as one of 0.9."""
        low, high = self.ci if self.ci is not None else (None, None)
        value = self.value
        if self._folded and low is not None and high is not None:
            if value < 0.5:
                value, low, high = 1 - value, 1 - high, 1 - low
            high = max(high, 1 - low)
        elif self._folded:
            value = max(value, 1 - value)
        return Interval(value, low, high, self.n, self.confidence, "as measured")

    @property
    def shown(self) -> str:
        """`3 of 200` for a rate, else its strength."""
        return f"{self.k} of {self.n}" if self.counted else f"{self.strength.value:.4g}"

    @property
    def unpaired(self) -> Metric:
        """The metric without the outcome of each secret."""
        return self.model_copy(update={"outcomes": None})


class Named(Protocol):
    """A release of a run or of a baseline."""

    @property
    def defense(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def seed(self) -> int: ...


def metric_of(finding: FindingResult) -> Metric | None:
    """Converts a finding to a metric; None where nothing was measured."""
    if finding.value is None:
        return None
    own = ("space", "leaked", "untrained")
    same = {name: getattr(finding, name) for name in Metric.model_fields if name not in own}
    return Metric(
        **same,
        untrained=bool(finding.untrained),
        space=None if finding.exposures is None else finding.exposures.space,
        leaked=leaks(finding),
    )


def metrics_of(findings: Iterable[FindingResult]) -> dict[str, Metric]:
    """The measured findings of a release, by name."""
    measured = (metric_of(finding) for finding in findings)
    return {metric.name: metric for metric in measured if metric is not None}


def key(release: Named) -> str:
    """Identifies a release across runs: defense, parameters and seed."""
    return json.dumps([release.defense, release.parameters, release.seed], sort_keys=True)


def labels(releases: Sequence[Named]) -> list[str]:
    """`submix`, or `submix:k=4` where several releases are of one defense."""
    return [_label(one, [r for r in releases if r.defense == one.defense]) for one in releases]


def _label(one: Named, same: Sequence[Named]) -> str:
    names = sorted({name for release in same for name in release.parameters})
    values = {name: one.parameters.get(name) for name in names}
    differing = [
        f"{name}={value}"
        for name, value in values.items()
        if any(release.parameters.get(name) != value for release in same)
    ]
    if any(release.seed != one.seed for release in same):
        differing.append(f"seed={one.seed}")
    return one.defense + (":" + ",".join(differing) if differing else "")


def plan_of(results: Results) -> dict[str, Any]:
    """The part of a plan that two runs must share for their numbers to be comparable.

    Without defenses, since releases are matched one by one. Without the external model, since that
    is what differs. With the corpus, and how many users its coins decided.
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
    """The names of what differs between two such plans.

    An attack that only one plan has is no difference: it does not move the numbers of the rest.
    """
    names = sorted((set(before) | set(after)) - {"attacks"})
    changed = [name for name in names if before.get(name) != after.get(name)]
    one, other = before.get("attacks", {}), after.get("attacks", {})
    return changed + [f"attack {n}" for n in sorted(set(one) & set(other)) if one[n] != other[n]]


def between(ci: tuple[float, float] | None) -> str:
    """` [low, high]`; empty without an interval."""
    return "" if ci is None else f" [{ci[0]:.4g}, {ci[1]:.4g}]"
