"""The identity of releases and plans across runs."""

from __future__ import annotations

import json
from typing import Any

from audit.results.labels import Named
from audit.results.schema import Results


def key(release: Named) -> str:
    """Identify a release across runs: defense, parameters and seed."""
    return json.dumps([release.defense, release.parameters, release.seed], sort_keys=True)


_ELSEWHERE = "finished"  # of a plan: the model that was trained elsewhere
OF_CORPUS = ("name", "sha256", "planted_users", "trained_users", "twins")  # must be the same


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
    plan["corpus"] = {name: getattr(results.corpus, name) for name in OF_CORPUS}
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
