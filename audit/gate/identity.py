"""The identity of releases and plans across runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from audit.results.schema import Results


class Named(Protocol):
    """A release of a run or of a baseline."""

    @property
    def defense(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def seed(self) -> int: ...


def key(release: Named) -> str:
    """Identify a release across runs: defense, parameters and seed."""
    return json.dumps([release.defense, release.parameters, release.seed], sort_keys=True)


def labels(releases: Sequence[Named]) -> list[str]:
    """Write `submix`, or `submix:k=4` where several releases are of one defense."""
    return [_label(one, [r for r in releases if r.defense == one.defense]) for one in releases]


def _label(one: Named, same: Sequence[Named]) -> str:
    names = sorted({name for release in same for name in release.parameters})
    values = {name: one.parameters.get(name) for name in names}
    differing = [
        f"{name}={value}"
        for name, value in values.items()
        if name in one.parameters and any(release.parameters.get(name) != value for release in same)
    ]
    if any(release.seed != one.seed for release in same):
        differing.append(f"seed={one.seed}")
    return one.defense + (":" + ",".join(differing) if differing else "")


_ELSEWHERE = "finished"  # of a plan: the model that was trained elsewhere


def plan_of(results: Results) -> dict[str, Any]:
    """Return the part of a plan that two runs must share for their numbers to be comparable.

    Without defenses, since releases are matched one by one. With the corpus, and how many users its
    coins decided. With the model that was trained elsewhere, of which alone a leak was accepted.
    """
    left_out = ("hash", "defenses", "attacks", "corpus", "trained_on")
    plan = {name: value for name, value in results.plan.items() if name not in left_out}
    plan["attacks"] = {}
    for one in results.plan.get("attacks", []):
        plan["attacks"].setdefault(str(one["name"]), []).append(one.get("parameters", {}))
    counted = ("name", "sha256", "planted_users", "trained_users", "twins")
    plan["corpus"] = {name: getattr(results.corpus, name) for name in counted}
    return plan


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of what differs between two such plans.

    An attack that only one plan has is not a difference: it does not move the numbers of the rest.
    Nor is a model that was trained elsewhere: it is what their numbers are of.
    """
    names = sorted((set(before) | set(after)) - {"attacks", _ELSEWHERE})
    changed = [name for name in names if before.get(name) != after.get(name)]
    one, other = before.get("attacks", {}), after.get("attacks", {})
    return changed + [f"attack {n}" for n in sorted(set(one) & set(other)) if one[n] != other[n]]


def retrained(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two such plans audit models with different weights, trained elsewhere."""
    one, other = ((plan.get(_ELSEWHERE) or {}).get("sha256") for plan in (before, after))
    return bool(one != other)
