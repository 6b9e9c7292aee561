"""results.json, schema version 3: all that reports and gates read.

The types of its numbers and their rounding are in `audit.results.numbers`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_serializer,
)
from pydantic.dataclasses import dataclass

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.results.commands import own
from audit.results.measurement import (
    ChargeTest,
    ClaimTest,
    Control,
    EpsilonLower,
    Example,
    Exposures,
    FindingResult,
    Measurement,
    Power,
)
from audit.results.numbers import (
    NONNEGATIVE,
    SHARE,
    Bounds,
    Confidence,
    Count,
    Nonnegative,
    Number,
    Probability,
    Table,
    Tests,
    Upper,
    UpperProbability,
    check_charges,
    check_counts,
    check_measured,
    check_once,
    refuse,
    when_read,
    written,
)
from audit.results.part import Strict, words_of
from audit.results.silence import Silence

__all__ = [  # all that readers of results import from here
    "ChargeTest", "ClaimTest", "Control", "EpsilonLower", "Example", "Exposures", "FindingResult",
    "Measurement", "Power", "Silence",
]  # fmt: skip
SCHEMA_VERSION = "3"


def _or_null(of: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [of, {"type": "null"}]})


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class GuaranteeResult(Guarantee):
    """A guarantee as results.json has it. ε in nats, "inf" for no guarantee, null for unknown."""

    epsilon: Upper | None
    delta: UpperProbability | None = None
    alpha: Nonnegative | None = None
    published_epsilon: Number | None = None
    accounting: Table | None = Field(
        default=None, description="what ε was computed from: terms, relation and δ"
    )
    phrases: tuple[Table, ...] = Field(
        default=(),
        description="ε over a list of phrases, per relation: n, mean, minimum, maximum, below_mean",
    )

    def __post_init__(self) -> None:
        """Round the numbers, whatever the version of pydantic takes an inherited field's type for.

        Raises ValueError for what no guarantee has.
        """
        for name, kind in _KINDS.items():
            object.__setattr__(self, name, kind.validate_python(getattr(self, name)))
        Guarantee.__post_init__(self)

    @field_serializer("epsilon", "alpha", "published_epsilon")
    def _size(self, value: float | None) -> Annotated[Any, _or_null(NONNEGATIVE)]:
        return None if value is None else written(value)

    @field_serializer("delta")
    def _share(self, value: float | None) -> Annotated[Any, _or_null(SHARE)]:
        return value

    @classmethod
    def of(cls, guarantee: Guarantee) -> Self:
        """Round a guarantee as it is stored."""
        return cls(**{field.name: getattr(guarantee, field.name) for field in fields(guarantee)})

    def as_json(self) -> dict[str, Any]:
        """Convert it to JSON values."""
        document: dict[str, Any] = TypeAdapter(type(self)).dump_python(self, mode="json")
        return document


_KINDS: dict[str, TypeAdapter[Any]] = {
    "epsilon": TypeAdapter(Upper | None),
    "delta": TypeAdapter(UpperProbability | None),
    "alpha": TypeAdapter(Nonnegative | None),
    "published_epsilon": TypeAdapter(Number | None),
    "accounting": TypeAdapter(Table | None),
    "phrases": TypeAdapter(tuple[Table, ...]),
}


class Measure(Strict):
    """A measured value with its interval, the number of units behind it, and its method."""

    value: Number
    ci: Bounds | None
    n: Count
    confidence: Confidence = 0.95
    method: str
    unit: str
    answered: int | None = Field(
        default=None, description="tokens answered by the release before STOP; null: all"
    )
    bound: Literal["lower"] | None = Field(
        default=None, description="lower: the value measured is a lower bound on the quantity"
    )
    share: Probability | None = Field(
        default=None,
        description="share of the training done where it was measured: the best step on held-out "
        "text; null: all of it",
    )

    _sound = when_read(lambda m: check_measured(m.value, m.ci, None, m.n))


class SessionResult(Strict):
    """One session with a release: its queries, and the ε that its ledger spent per part (nats)."""

    purpose: str
    queries: int
    answered: int
    budget: int | None = Field(description="queries the session allows; null: unlimited")
    remaining: int | None
    stopped_at: int | None
    stop_part: int | None = Field(
        default=None,
        description="the part, from 1, whose ε that query would have used up; null: none would",
    )
    stop_charge: Number | None = Field(
        default=None, description="what that query would have cost the part, in nats"
    )
    epsilon_spent: list[Number] = Field(description="per part, in nats, at most the claimed ε")
    epsilon_local: list[Number] = Field(
        default=[],
        description="per part, in nats: the cost of the same queries on this data set, where "
        "epsilon_spent is a worst case; private, for the auditor",
    )
    silent: list[int] = Field(
        default=[],
        description="per part: the answered queries in which it was silent, since its own account "
        "did not hold their cost; private, as epsilon_spent then is; [] without such accounts",
    )
    spent_curve: list[tuple[int, Number]] = Field(
        default=[], description="(queries so far, largest ε spent by any part)"
    )

    _counted = when_read(lambda session: _check_session(session))


class Cost(Strict):
    """The cost of a release. Two runs of a plan differ only here and in `environment`."""

    train_tokens: int
    queries: int
    seconds: Number

    _counted = when_read(lambda cost: check_counts(dict(cost)))


class ReleaseResult(Strict):
    """One defended model or service: its claim, its utility and the findings of the attacks."""

    defense: str
    parameters: Table
    seed: int
    reference: bool
    role: str = Field(description="null control, positive control, or audited")
    guarantee: GuaranteeResult
    utility: dict[str, Measure]
    cost: Cost
    sessions: list[SessionResult]
    findings: list[FindingResult]
    tests: Tests = Field(
        default=0,
        description="tests that its leaks are adjusted for (Holm); 0: those with a p-value",
    )
    claim_tests: Tests = Field(
        default=0,
        description="tests of the claim that its refutation is adjusted for; 0: those with a bound",
    )
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="over all its findings")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="over all its findings")
    silence: Silence | None = Field(
        default=None, description='the conditions of "no leak found"; null: not examined'
    )

    _each_once = when_read(lambda r: check_once((f.attack, f.metric) for f in r.findings))


class CorpusResult(Strict):
    """The audited corpus; `users` and `records` count every split."""

    name: str
    sha256: str
    records: int
    users: int
    near_duplicates: int
    planted_users: int = Field(description="users decided by a fair coin")
    invented_users: int | None = Field(
        default=None, description="of them, those that planting invented; null: unknown"
    )
    trained_users: int
    twins: int
    private_token_share: Number | None = Field(
        default=None, description="share of the tokens trained on that the policy marks"
    )
    planted_token_share: Probability | None = Field(
        default=None, description="share of the tokens trained on that were planted; null: unknown"
    )

    _counted = when_read(lambda corpus: check_counts(dict(corpus)))
    _invented = when_read(
        lambda corpus: refuse(
            (corpus.invented_users or 0) > corpus.planted_users,
            "invented_users are more than planted_users",
        )
    )


class SeedResult(Strict):
    """One seed of a sweep: its plan, and how many users its coins planted."""

    seed: int
    plan_hash: str
    planted_users: int
    trained_users: int
    twins: int
    private_token_share: Number | None = None

    _counted = when_read(lambda one: check_counts(dict(one)))


class Cell(Strict):
    """One setting of a sweep over its seeds: a defense and its parameters.

    releases: indices into `releases`, one per seed; the claim is there. utility: means over seeds,
    n the number of seeds. findings: counts are pooled over the trained models, values averaged
    over seeds. A bound on ε (nats) is the lower median over seeds. A finding's p-value combines
    theirs by Fisher's method. What leaked follows from adjusted_p, which combines the smallest
    adjusted p-value of each seed, of what the release gives.
    """

    releases: list[int]
    utility: dict[str, Measure]
    findings: list[FindingResult]
    adjusted_p: Probability = Field(
        description="of the hypothesis that nothing leaked in any seed, adjusted for all settings"
    )
    silence: Silence | None = Field(
        default=None, description='the conditions of "no leak found"; null: not examined'
    )
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="over all its measures")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="over all its measures")


class SweepResult(Strict):
    """Several seeds and settings of one plan, combined."""

    seeds: list[SeedResult]
    cells: list[Cell]


class Results(Strict):
    """A whole run, or a sweep: every release of every seed."""

    schema_version: Literal["3"] = "3"
    status: Literal["complete", "partial"]
    headline: list[str] = Field(
        description="one line for each audited release, and what is above them"
    )
    not_tested: list[str]
    warnings: list[str]
    reproduce: str
    plan: Table
    environment: Table
    corpus: CorpusResult
    releases: list[ReleaseResult]
    sweep: SweepResult | None = Field(
        default=None, description="only in the results of `audit sweep`; absent elsewhere"
    )

    @property
    def again(self) -> str:
        """Return the command that gives these results again; "" where they state another one."""
        return own(self.reproduce)

    _each_once = when_read(lambda r: check_once(map(_name, r.releases)))
    _attacks_named = when_read(lambda r: _check_named("attacks", r.plan.get("attacks", [])))
    _defenses_named = when_read(lambda r: _check_named("defenses", r.plan.get("defenses", [])))
    _settings_there = when_read(lambda r: _check_settings(r.sweep, len(r.releases)))
    _seeds_listed = when_read(
        lambda r: refuse(not isinstance(r.plan.get("seeds", []), list), "plan.seeds must be a list")
    )


def _name(release: ReleaseResult) -> tuple[str, ...]:
    values = json.dumps(release.parameters, sort_keys=True)
    return release.defense, values, f"seed {release.seed}"


def _check_named(what: str, plugins: Any) -> None:
    named = isinstance(plugins, list) and all(
        isinstance(one, dict)
        and isinstance(one.get("name"), str)
        and isinstance(one.get("parameters", {}), dict)
        for one in plugins
    )
    refuse(not named, f"plan.{what} must be a list of tables, each with a name")


def _check_session(session: SessionResult) -> None:
    check_counts(dict(session))
    for queries, _ in session.spent_curve:
        check_counts({"spent_curve": queries})
    check_charges("spent_curve", (spent for _, spent in session.spent_curve))
    for name in ("epsilon_spent", "epsilon_local"):
        check_charges(name, getattr(session, name))


def _check_settings(sweep: SweepResult | None, releases: int) -> None:
    for cell in () if sweep is None else sweep.cells:
        known = bool(cell.releases) and all(0 <= place < releases for place in cell.releases)
        refuse(not known, "a setting of the sweep names releases that are not there")


def to_json(results: Results) -> str:
    """Format results.json: keys in the order of the schema, one trailing newline, no NaN."""
    absent = {"sweep"} if results.sweep is None else None
    document = results.model_dump(mode="json", exclude=absent)
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def first_error(error: ValidationError) -> str:
    """Format the first error of a document, with its place, on one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ": ".join(filter(None, (where, first["msg"].removeprefix("Value error, "))))


def schema() -> dict[str, Any]:
    """Return the JSON Schema of results.json."""
    return Results.model_json_schema(mode="serialization")
