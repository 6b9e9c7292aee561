"""Types of the numbers in results.json, and checks of what cannot be true of them.

A float gets its six significant digits here, once, where it enters a result: intervals are wider
than that, and a long run of digits could be mistaken for a planted code. All that follows, such as
a verdict, follows from the rounded number. A claimed ε or δ is rounded up, a lower bound on ε
rounded down. Infinity is the string "inf" in the file; NaN cannot enter.
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


def rounded(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")


def rounded_up(value: float) -> float:
    """Round to the next larger number of six significant digits."""
    near = rounded(value)
    return near if near >= value else rounded(near + _unit(value))


def rounded_down(value: float) -> float:
    """Round to the next smaller number of six significant digits."""
    near = rounded(value)
    return near if near <= value else rounded(near - _unit(value))


def _unit(value: float) -> float:
    """Compute what one in the sixth digit of a number above 0 is worth."""
    return float(10.0 ** (math.floor(math.log10(value)) - 5))


def agree(one: float, other: float) -> bool:
    """Decide whether two machines may have computed these from the same numbers.

    Their libraries differ in the last bits of a double, which may move the sixth digit by one.
    """
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-12)


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


def written(value: float) -> float | str:
    """Return what JSON has for a number: "inf" for infinity."""
    return "inf" if math.isinf(value) else value


_ANY = {"anyOf": [{"type": "number"}, {"const": "inf"}]}
NONNEGATIVE = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_Finite = Annotated[float, BeforeValidator(_finite_or_inf), PlainSerializer(written)]
Number = Annotated[_Finite, AfterValidator(rounded), WithJsonSchema(_ANY)]
Nonnegative = Annotated[_Finite, Field(ge=0), AfterValidator(rounded), WithJsonSchema(NONNEGATIVE)]
Probability = Annotated[_Finite, Field(ge=0, le=1), AfterValidator(rounded), WithJsonSchema(SHARE)]
Lower = Annotated[_Finite, Field(ge=0), AfterValidator(rounded_down), WithJsonSchema(NONNEGATIVE)]
Upper = Annotated[_Finite, Field(ge=0), AfterValidator(rounded_up), WithJsonSchema(NONNEGATIVE)]
UpperProbability = Annotated[
    _Finite, Field(ge=0, le=1), AfterValidator(rounded_up), WithJsonSchema(SHARE)
]
Point = tuple[Number, Number]


def refuse(wrong: bool, what: str) -> None:
    """Raise ValueError(what) if `wrong`."""
    if wrong:
        raise ValueError(what)


def _in_order(bounds: Point) -> Point:
    refuse(bounds[0] > bounds[1], f"the interval [{bounds[0]:g}, {bounds[1]:g}] is reversed")
    return bounds


Bounds = Annotated[Point, AfterValidator(_in_order)]
Count = Annotated[int, Field(ge=0, lt=2**53)]  # beyond it doubles are not exact
Coins = Annotated[int, Field(ge=0, le=10**7)]  # more than a test is computed for
Tests = Annotated[int, Field(ge=0, le=10**6)]
Confidence = Annotated[float, Field(gt=0, lt=1), AfterValidator(rounded)]
OneSided = Annotated[float, Field(gt=0.5, lt=1), AfterValidator(rounded)]


def plain(value: Any) -> Any:
    """Convert a free-form value to JSON: infinity becomes "inf", NaN is refused."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return written(_finite_or_inf(value))
    return value


def infinite(value: Any) -> Any:
    """Replace the word of infinity by the number: a plan's hash is of the number."""
    if isinstance(value, dict):
        return {key: infinite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [infinite(inner) for inner in value]
    return math.inf if value == "inf" else value


Table = Annotated[dict[str, Any], BeforeValidator(plain)]


def check_measured(value: float | None, ci: Point | None, k: int | None, n: int) -> None:
    """Raise ValueError if the value is outside its interval or is not k / n."""
    if value is not None and ci is not None:
        outside = not ci[0] <= value <= ci[1]
        # a mean of like values may miss them by its last bit, and be rounded to the other side
        outside = outside and not any(agree(value, end) for end in ci)
        refuse(outside, f"the value {value:g} lies outside its interval [{ci[0]:g}, {ci[1]:g}]")
    if k is not None:
        refuse(k > n, f"k = {k} of n = {n}")
        wrong = value is not None and not (n and value == rounded(k / n))
        refuse(wrong, f"the value {value} is not k = {k} of n = {n}")


def check_withheld(withheld: int, ci: Point | None, k: int | None, n: int) -> None:
    """Raise ValueError unless the interval holds the rate that withheld trials may have had."""
    if withheld:
        refuse(k is None or k + withheld > n, f"k = {k} and {withheld} withheld of n = {n}")
        most = ((k or 0) + withheld) / n
        short = ci is None or (ci[1] < most and not agree(ci[1], most))
        refuse(short, f"the interval {ci} ends below the rate {most:g} with those withheld")


def check_outcomes(outcomes: str | None, k: int | None, n: int) -> None:
    """Raise ValueError if the outcomes are not k hits in n; unmeasured secrets do not count."""
    if outcomes is not None:
        hits, known = outcomes.count("1"), len(outcomes) - outcomes.count("-")
        refuse((hits, known) != (k, n), f"outcomes say {hits} of {known}, k and n {k} of {n}")


def check_least(p_value: float, least: float) -> None:
    """Raise ValueError if a p-value is smaller than any that its test can have."""
    refuse(p_value < least, f"p = {p_value:g}, and the least possible is {least:g}")


def check_once(names: Iterable[tuple[str, ...]]) -> None:
    """Raise ValueError for a duplicate name: a reader could take either entry."""
    seen = set()
    for name in names:
        refuse(name in seen, f"{' '.join(name)} is there twice")
        seen.add(name)


def check_counts(counts: Mapping[str, Any]) -> None:
    """Raise ValueError for a whole number below 0, or above what a double holds exactly."""
    for name, value in counts.items():
        if type(value) is int and name != "seed":
            refuse(not 0 <= value <= 2**53, f"{name} is no count of anything")


def check_charges(name: str, charges: Iterable[float]) -> None:
    """Raise ValueError for a charge below 0."""
    refuse(min(charges, default=0.0) < 0, f"{name} has a negative charge")


def when_read(check: Callable[[Any], None]) -> Any:
    """Return a validator that applies only to files that are read.

    A run's own results are always written: hours of work must not be lost to a contradiction.
    """

    def checked(self: Any, info: ValidationInfo) -> Any:
        if info.context == FROM_FILE:
            check(self)
        return self

    return model_validator(mode="after")(checked)
