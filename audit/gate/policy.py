"""audit.toml: the rules of a gate. Each rule has its line, so that reports can point to it."""

from __future__ import annotations

import datetime
import math
import tomllib
import unicodedata
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from audit.core import files
from audit.core.errors import UsageError
from audit.gate.tables import Lines, made

FILENAME = "audit.toml"
ACCEPT = "accept"
NOISE = ("seed", "system")


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
    """`[[claim]]`: the largest claimed ε, for one unit, relation and basis.

    max_epsilon: in nats. max_delta: the largest δ. alpha: the Rényi order; None: an (ε, δ) claim.
    max_total: the largest sum of ε (nats) over all matching releases, since several releases of one
    corpus add up. noise: where the noise must come from, such as "system"; None: from anywhere.
    """

    max_epsilon: float
    unit: str
    relation: str
    defense: str = "*"
    basis: str = "worst case"
    max_delta: float = 0.0
    alpha: float | None = None
    max_total: float | None = None
    noise: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class UtilityLimit:
    """`[[utility]]`: the ratio of a measure to that of the release `of` in the same run.

    It is at most `max_ratio`, or at least `min_ratio`.
    """

    defense: str = "*"
    metric: str = "perplexity"
    of: str = "public"
    max_ratio: float | None = None
    min_ratio: float | None = None
    line: int | None = None


@dataclass(frozen=True)
class Waiver:
    """`[[waiver]]`: checks with these ids may fail to the end of the day `expires`, and why."""

    check: str
    expires: datetime.date
    reason: str
    line: int | None = None


@dataclass(frozen=True)
class Regression:
    """`[regression]`: how metrics are compared with the baseline.

    level: probability of a false alarm per build, over all metrics. min_delta: the smallest
    increase that fails, in the metric's own unit. metrics: patterns of `attack.metric`.
    """

    level: float = 0.05
    min_delta: float = 0.0
    metrics: tuple[str, ...] = ("*",)
    line: int | None = None

    def gates(self, name: str) -> bool:
        """Return whether a metric of this name is compared with the baseline."""
        return any(fnmatchcase(name, pattern) for pattern in self.metrics)


@dataclass(frozen=True)
class Policy:
    """All rules of a gate.

    confidence: of the one-sided bounds of limits. leaks: every finding is checked for a leak, not
    only those that leak; None: where there is neither a limit nor a baseline. A leak always fails,
    unless a limit or the baseline allows it by name. insiders: a leak to those who have more access
    than the release gives fails, too, instead of a warning. removed: "accept" where what
    was removed before training need not be measured. empirical: a measured ε above the
    claimed one fails. regression: None without the table; an existing baseline is compared anyway.
    """

    confidence: float = 0.95
    leaks: bool | None = None
    insiders: bool = False
    removed: str | None = None
    empirical: bool = True
    regression: Regression | None = None
    limit: tuple[Limit, ...] = ()
    claim: tuple[ClaimLimit, ...] = ()
    utility: tuple[UtilityLimit, ...] = ()
    waiver: tuple[Waiver, ...] = ()
    name: str = FILENAME


_TABLES = {"limit": Limit, "claim": ClaimLimit, "utility": UtilityLimit, "waiver": Waiver}


_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols that show nothing


def has_text(reason: str) -> bool:
    """Return whether a reason has a visible character: a letter, a digit or a sign."""
    return any(unicodedata.category(c)[0] in "LNPS" and c not in _BLANK for c in reason)


def load(path: Path) -> Policy:
    """Read a policy. Raises UsageError with the line that cannot be read."""
    try:
        text = files.read_text(path)
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
    rule = None if regression is None else made(Regression, regression, lines, "regression", 0)
    return _checked(replace(policy, regression=rule, name=str(path), **rules), lines)


def _rules(cls: type[Any], tables: Any, lines: Lines, name: str) -> tuple[Any, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{lines.at(name, 0)}: write each {name} as [[{name}]]")
    return tuple(made(cls, table, lines, name, i) for i, table in enumerate(tables))


def _checked(policy: Policy, lines: Lines) -> Policy:
    """Refuse values that no gate could apply."""

    def refuse(wrong: bool, where: str, what: str) -> None:
        if wrong:
            raise UsageError(f"{where}: {what}")

    at, rule = lines.at, policy.regression or Regression()
    refuse(policy.leaks is False, at("", 0, "leaks"),
           "leaks cannot be switched off; name one in a [[limit]] or a [[waiver]]")  # fmt: skip
    refuse(policy.removed not in (None, ACCEPT), at("", 0, "removed"),
           f"removed can only be {ACCEPT!r}")  # fmt: skip
    refuse(not 0.5 <= policy.confidence < 1, at("", 0, "confidence"),
           "confidence must be at least 0.5 and below 1")  # fmt: skip
    refuse(not 0 < rule.level <= 0.5, at("regression", 0, "level"),
           "level must be above 0 and at most 0.5")  # fmt: skip
    refuse(not rule.metrics, at("regression", 0, "metrics"),
           "metrics is empty, so none would be compared; leave it out to compare all")  # fmt: skip
    refuse(
        not 0 <= rule.min_delta < math.inf,
        at("regression", 0, "min_delta"),
        "min_delta must be 0 or more, and finite",
    )
    for i, limit in enumerate(policy.limit):
        refuse(not 0 <= limit.max < math.inf, at("limit", i, "max"),
               "max must be 0 or more, and finite: a limit of inf limits nothing")  # fmt: skip
    for i, claim in enumerate(policy.claim):
        refuse(not 0 <= claim.max_epsilon < math.inf, at("claim", i, "max_epsilon"),
               "max_epsilon must be 0 or more, and finite")  # fmt: skip
        refuse(not 0 <= (claim.max_total or 0.0) < math.inf, at("claim", i, "max_total"),
               "max_total must be 0 or more, and finite")  # fmt: skip
        refuse(claim.noise not in (None, *NOISE), at("claim", i, "noise"),
               f"noise is one of {', '.join(NOISE)}")  # fmt: skip
    for i, utility in enumerate(policy.utility):
        given = [r for r in (utility.max_ratio, utility.min_ratio) if r is not None]
        refuse(len(given) != 1, at("utility", i), "give one of max_ratio and min_ratio")
        refuse(not all(0 < r < math.inf for r in given), at("utility", i),
               "a ratio must be above 0, and finite")  # fmt: skip
    for i, waiver in enumerate(policy.waiver):
        refuse(
            not has_text(waiver.reason),
            at("waiver", i, "reason"),
            "a waiver needs a reason in visible characters",
        )
    return policy
