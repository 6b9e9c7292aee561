"""Types of the numbers in results.json, and checks of what cannot be true of them.

Floats are written with six significant digits: intervals are wider than that, and a long run of
digits could be mistaken for a planted code. Infinity is the string "inf"; NaN cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

FROM_FILE = {"from": "file"}  # the context of a validation that reads a file


def _finite_or_inf(value: object) -> float:
    if value == "inf":
        return math.inf
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        raise ValueError("expected a number, finite or inf") from None
    if math.isnan(number) or number == -math.inf:
        raise ValueError("a result can be finite or inf, never NaN or -inf")
    return number


def _written(value: float) -> float | str:
    if math.isinf(value):
        return "inf"
    return float(f"{value:.6g}")


Number = Annotated[
    float,
    BeforeValidator(_finite_or_inf),
    PlainSerializer(_written),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"const": "inf"}]}),
]
Nonnegative = Annotated[
    float,
    BeforeValidator(_finite_or_inf),
    Field(ge=0),
    PlainSerializer(_written),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}),
]
Probability = Annotated[
    float,
    BeforeValidator(_finite_or_inf),
    Field(ge=0, le=1),
    PlainSerializer(_written),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
Point = tuple[Number, Number]


def refuse(wrong: bool, what: str) -> None:
    """Raises ValueError(what) if `wrong`."""
    if wrong:
        raise ValueError(what)


def _in_order(bounds: Point) -> Point:
    refuse(bounds[0] > bounds[1], f"the interval [{bounds[0]:g}, {bounds[1]:g}] is reversed")
    return bounds


Bounds = Annotated[Point, AfterValidator(_in_order)]
Count = Annotated[int, Field(ge=0, lt=2**53)]  # beyond it doubles are not exact
Coins = Annotated[int, Field(ge=0, le=10**7)]  # more than a test is computed for
Tests = Annotated[int, Field(ge=0, le=10**6)]
Confidence = Annotated[float, Field(gt=0, lt=1), PlainSerializer(_written)]
OneSided = Annotated[float, Field(gt=0.5, lt=1), PlainSerializer(_written)]


def _written_up(value: float) -> float | str:
    """Rounds an ε or δ up to six digits: rounded down, it would claim too much."""
    near = _written(value)
    if isinstance(near, str) or near >= value:
        return near
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)  # in the sixth digit
    return float(f"{near + unit:.6g}")


Upper = Annotated[
    float,
    BeforeValidator(_finite_or_inf),
    Field(ge=0),
    PlainSerializer(_written_up),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}),
]
UpperProbability = Annotated[
    float,
    BeforeValidator(_finite_or_inf),
    Field(ge=0, le=1),
    PlainSerializer(_written_up),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]


def _plain(value: Any) -> Any:
    """Converts a free-form value to JSON: infinity becomes "inf", NaN is refused."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _written(_finite_or_inf(value))
    return value


Table = Annotated[dict[str, Any], BeforeValidator(_plain)]


def _near(one: float, other: float) -> bool:
    """Whether two numbers may be equal before they were rounded to six digits."""
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-12)


def check_measured(value: float | None, ci: Point | None, k: int | None, n: int) -> None:
    """Raises ValueError if the value is outside its interval or is not k / n."""
    if value is not None and ci is not None:
        outside = not ci[0] <= value <= ci[1] and not any(_near(value, end) for end in ci)
        refuse(outside, f"the value {value:g} lies outside its interval [{ci[0]:g}, {ci[1]:g}]")
    if k is not None:
        refuse(k > n, f"k = {k} of n = {n}")
        wrong = value is not None and not (n and _near(value, k / n))
        refuse(wrong, f"the value {value} is not k = {k} of n = {n}")


def check_outcomes(outcomes: str | None, k: int | None, n: int) -> None:
    """Raises ValueError if the outcomes are not k hits in n; unmeasured secrets do not count."""
    if outcomes is not None:
        hits, known = outcomes.count("1"), len(outcomes) - outcomes.count("-")
        refuse((hits, known) != (k, n), f"outcomes say {hits} of {known}, k and n {k} of {n}")


def check_least(p_value: float, least: float) -> None:
    """Raises ValueError if a p-value is smaller than any that its test can have."""
    wrong = p_value < least and not _near(p_value, least)
    refuse(wrong, f"p = {p_value:g}, and the least possible is {least:g}")


def check_once(names: Iterable[tuple[str, ...]]) -> None:
    """Raises ValueError for a duplicate name: a reader could take either entry."""
    seen = set()
    for name in names:
        refuse(name in seen, f"{' '.join(name)} is there twice")
        seen.add(name)


def check_counts(counts: Mapping[str, Any]) -> None:
    """Raises ValueError for a whole number below 0, or above what a double holds exactly."""
    for name, value in counts.items():
        if type(value) is int and name != "seed":
            refuse(not 0 <= value <= 2**53, f"{name} is no count of anything")


def check_charges(name: str, charges: Iterable[float]) -> None:
    """Raises ValueError for a charge below 0."""
    refuse(min(charges, default=0.0) < 0, f"{name} has a negative charge")


def when_read(check: Callable[[Any], None]) -> Any:
    """A validator that applies only to files that are read.

    A run's own results are always written: hours of work must not be lost to a contradiction.
    """

    def checked(self: Any, info: ValidationInfo) -> Any:
        if info.context == FROM_FILE:
            check(self)
        return self

    return model_validator(mode="after")(checked)
