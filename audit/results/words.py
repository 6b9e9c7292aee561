"""Numbers and counts as readers see them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

Bounds = tuple[float, float]
CHARGES = "times its charge"  # the unit of what a query tells, in charges
WEALTH = "wealth from a stake of 1, lot by lot"  # the unit of bets on coins
_NBSP = "\N{NO-BREAK SPACE}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, one or many. nouns: the plural, where it is not a mere s."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {nouns or noun + 's'}"


def largest_of(bounds: int) -> str:
    """Qualify the largest of several bounds on ε: it errs more often than each of them."""
    return f"the largest of {bounds:,} bounds, unadjusted"


def duration(seconds: float) -> str:
    """Round a time to what an estimate can know: 40 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{max(5, round(seconds / 5) * 5)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def storage(size: float) -> str:
    """Write bytes as megabytes or gigabytes."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def percent(share: float) -> str:
    """Write a share in percent with two or three significant digits, 100 % only if it is all."""
    if share == 0:
        return "0 %"
    if share < 1e-4:
        return f"{share:.1e}"
    written = (f"{100 * share:.{digits}g}" for digits in range(3, 17))
    return next((text for text in written if text != "100" or share >= 1), "100") + " %"


def percent_at_most(share: float) -> str:
    """Return an upper bound on a share as a percentage, rounded up."""
    return f"{at_most(100 * min(share, 1.0))} %" if share >= 1e-4 else at_most(share, 2)


def integer(value: int | None) -> str:
    """Return a whole number with its thousands set apart; a dash for none."""
    return "—" if value is None else f"{value:,}"


def number(value: float) -> str:
    """Format three significant digits, the whole integer part, powers of ten below a thousandth."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= 1e9:
        return power_of_ten(value)
    digits = max(0, 2 - math.floor(math.log10(size)))
    return _without_zeros(f"{value:,.{digits}f}")


def share(value: float) -> str:
    """Return a probability in percent, never rounded to 0 % or 100 % where it is neither."""
    percentage = 100 * value
    if not 0 < percentage < 100:
        return f"{number(percentage)}{_NBSP}%"
    edge = min(percentage, 100 - percentage)
    if percentage < 1e-4:
        return f"<{_NBSP}0.0001{_NBSP}%"
    digits = 1 if edge >= 1 else 1 - math.floor(math.log10(edge) + 1e-9)
    return _without_zeros(f"{percentage:.{min(digits, 8)}f}") + f"{_NBSP}%"


def power_of_ten(value: float, digits: int = 2) -> str:
    """Format so many significant digits and a power of ten, as in 1.5 × 10⁻⁵."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{_without_zeros(mantissa)} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_share(unit: str) -> bool:
    """Return whether values of this unit are written in percent."""
    return unit.split(" ")[0].lower() in {"share", "rate", "probability", "fraction"}


def quantity(value: float, unit: str) -> str:
    """Return a measured value: percent for shares, otherwise the number without its unit."""
    if unit == CHARGES:
        return at_least(value)  # never up to a charge that it does not reach
    return share(value) if is_share(unit) else number(value)


def estimate(value: float, bounds: Bounds | None, unit: str) -> str:
    """Return a measured value, "≥" before bits of which only the low end of bounds is known."""
    floor = unit == "bits" and bounds is not None and value == bounds[0] < bounds[1]
    return f"≥ {quantity(value, unit)}" if floor else quantity(value, unit)


def interval(bounds: Bounds | None, unit: str) -> str:
    """Write `[low, high]`, or an empty string where there is no interval."""
    if bounds is None:
        return ""
    return f"[{quantity(bounds[0], unit)}, {quantity(bounds[1], unit)}]"


def measured(value: float | None, bounds: Bounds | None, unit: str) -> str:
    """Return a value with its interval."""
    if value is None:
        return "not measured"
    return f"{estimate(value, bounds, unit)} {interval(bounds, unit)}".strip()


def p_value(value: float | None) -> str:
    """Return a p-value without its sides."""
    if value is None:
        return "not computed"
    return number(value)


def epsilon(value: float | None) -> str:
    """Return a claimed ε in nats, in words where it is infinite or unknown."""
    if value is None:
        return "unknown"
    return "none promised" if math.isinf(value) else at_most(value)


def at_most(value: float, digits: int = 3) -> str:
    """Return a claimed ε or δ, rounded up: rounded down, it would promise more than is promised."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 3) -> str:
    """Return a lower bound, rounded down: rounded up, it would show more than was shown."""
    return _rounded(value, digits, ROUND_FLOOR)


def apart(smaller: float, larger: float) -> tuple[str, str]:
    """Write a number rounded up, a larger one rounded down, with enough digits to be ordered."""
    for digits in range(3, 16):
        if _round(smaller, digits, ROUND_CEILING) < _round(larger, digits, ROUND_FLOOR):
            break
    return at_most(smaller, digits), at_least(larger, digits)


def _round(value: float, digits: int, way: str) -> float:
    if math.isinf(value) or value == 0:
        return value
    near = Decimal(f"{value:.{digits + 8}g}")  # the sixth digit of 0.1 + 0.2 - 0.3 means nothing
    return float(near.quantize(Decimal((0, (1,), near.adjusted() - digits + 1)), rounding=way))


def _rounded(value: float, digits: int, way: str) -> str:
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    rounded = _round(value, digits, way)
    if abs(rounded) < 1e-3:
        return power_of_ten(rounded, digits)
    return f"{rounded:.{digits}g}" if rounded < 10**digits else f"{rounded:,.0f}"
