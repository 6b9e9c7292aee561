"""audit.toml: what a gate asks for. Each rule knows its line, so that reports can point at it."""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.gate.tables import Lines, made

FILENAME = "audit.toml"


@dataclass(frozen=True)
class Limit:
    """`[[limit]]`: a metric stays at or below `max`, in its own unit. Names are patterns."""

    max: float
    defense: str = "*"
    attack: str = "*"
    metric: str = "*"
    line: int | None = None


@dataclass(frozen=True)
class ClaimLimit:
    """`[[claim]]`: the claimed ε (nats) is at most `max_epsilon`, of this unit, relation and basis,
    with δ at most `max_delta`, or of Rényi order `alpha`."""

    max_epsilon: float
    unit: str
    relation: str
    defense: str = "*"
    basis: str = "worst case"
    max_delta: float = 0.0
    alpha: float | None = None
    line: int | None = None


@dataclass(frozen=True)
class UtilityLimit:
    """`[[utility]]`: a measure is at most `max_ratio`, or at least `min_ratio`, times that of the
    release `of` in the same run."""

    defense: str = "*"
    metric: str = "perplexity"
    of: str = "public"
    max_ratio: float | None = None
    min_ratio: float | None = None
    line: int | None = None


@dataclass(frozen=True)
class Waiver:
    """`[[waiver]]`: checks of these ids may fail until the day `expires` is over, for a reason."""

    check: str
    expires: datetime.date
    reason: str
    line: int | None = None


@dataclass(frozen=True)
class Regression:
    """`[regression]`: how metrics are held against the baseline.

    level: of false alarms a build, over all metrics. min_delta: the smallest rise that fails, in
    the metric's own unit. metrics: patterns of `attack.metric`.
    """

    level: float = 0.05
    min_delta: float = 0.0
    metrics: tuple[str, ...] = ("*",)
    line: int | None = None

    def gates(self, name: str) -> bool:
        """Whether a metric of this name is held against the baseline."""
        return any(fnmatchcase(name, pattern) for pattern in self.metrics)


@dataclass(frozen=True)
class Policy:
    """All rules of a gate.

    confidence: of a limit's one-sided bounds. leaks: a leak above control fails; None: only where
    neither limit nor baseline says how much may leak. empirical: an ε found above the claimed one
    fails. regression: None where the policy does not ask; a baseline that is there holds all the
    same.
    """

    confidence: float = 0.95
    leaks: bool | None = None
    empirical: bool = True
    regression: Regression | None = None
    limit: tuple[Limit, ...] = ()
    claim: tuple[ClaimLimit, ...] = ()
    utility: tuple[UtilityLimit, ...] = ()
    waiver: tuple[Waiver, ...] = ()
    name: str = FILENAME


_TABLES = {"limit": Limit, "claim": ClaimLimit, "utility": UtilityLimit, "waiver": Waiver}


def load(path: Path) -> Policy:
    """Reads a policy. Raises UsageError that names the line of whatever cannot be understood."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such policy") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error})") from None
    lines = Lines(text, str(path))
    many = {name: document.pop(name) for name in _TABLES if name in document}
    regression = document.pop("regression", None)
    if not isinstance(regression, dict | None):
        raise UsageError(f"{lines.at('', 0, 'regression')}: regression must be a table")
    beside = (*_TABLES, "regression")
    policy = made(Policy, document, lines, "", 0, left_out=(*beside, "name"), known=beside)
    rules: dict[str, Any] = {
        name: _rules(_TABLES[name], tables, lines, name) for name, tables in many.items()
    }
    held = None if regression is None else made(Regression, regression, lines, "regression", 0)
    return _checked(replace(policy, regression=held, name=str(path), **rules), lines)


def _rules(cls: type[Any], tables: Any, lines: Lines, name: str) -> tuple[Any, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{lines.at(name, 0)}: write each {name} as [[{name}]]")
    return tuple(made(cls, table, lines, name, i) for i, table in enumerate(tables))


def _checked(policy: Policy, lines: Lines) -> Policy:
    """Values that no gate could hold to."""

    def refuse(wrong: bool, where: str, what: str) -> None:
        if wrong:
            raise UsageError(f"{where}: {what}")

    at, held = lines.at, policy.regression or Regression()
    refuse(not 0.5 <= policy.confidence < 1, at("", 0, "confidence"),
           "confidence must be at least 0.5 and below 1")  # fmt: skip
    refuse(not 0 < held.level <= 0.5, at("regression", 0, "level"),
           "level must be above 0 and at most 0.5")  # fmt: skip
    refuse(not held.min_delta >= 0, at("regression", 0, "min_delta"), "min_delta must be 0 or more")
    for i, limit in enumerate(policy.limit):
        refuse(not limit.max >= 0, at("limit", i, "max"), "max must be 0 or more")
    for i, claim in enumerate(policy.claim):
        refuse(not claim.max_epsilon >= 0, at("claim", i), "max_epsilon must be 0 or more")
    for i, utility in enumerate(policy.utility):
        given = [r for r in (utility.max_ratio, utility.min_ratio) if r is not None]
        refuse(len(given) != 1, at("utility", i), "give one of max_ratio and min_ratio")
        refuse(not all(r > 0 for r in given), at("utility", i), "a ratio must be above 0")
    for i, waiver in enumerate(policy.waiver):
        refuse(not waiver.reason.strip(), at("waiver", i, "reason"), "a waiver needs a reason")
    return policy
