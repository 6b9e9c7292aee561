"""How text, numbers and claims are written, the same in every format of the report."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from audit.results.numbers import Bounds
from audit.results.schema import GuaranteeResult

LONGEST = 2000
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = {"Mn", "Me"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ACRONYMS = {"auc": "AUC", "tpr": "TPR", "fpr": "FPR", "r": "R", "lira": "LiRA", "rmia": "RMIA"}
_PHRASES = (
    (re.compile(r"\bmin k plus plus\b"), "Min-K%++"),
    (re.compile(r"\bmin k\b"), "Min-K%"),
    (re.compile(r"\bbleu(\d)\b"), "BLEU-\\1"),
    (re.compile(r"\btpr at ([\d.]+) percent\b"), "TPR at \\1\u00a0% FPR"),
)
_NBSP = "\u00a0"


def visible(text: str) -> str:
    """Text in which nothing is hidden: controls, bidi overrides and the like become ‹U+202E›.

    Stacked combining marks after the second and all beyond LONGEST characters are named too.
    """
    if text.isascii() and text.isprintable() and len(text) <= LONGEST:
        return text
    pieces = []
    stacked = 0
    for character in text[:LONGEST]:
        category = unicodedata.category(character)
        stacked = stacked + 1 if category in _MARKS else 0
        hidden = category in _HIDDEN or stacked > 2
        pieces.append(named(character) if hidden else character)
    if len(text) > LONGEST:
        pieces.append(f" … ({len(text) - LONGEST:,} more characters)")
    return "".join(pieces)


def named(character: str) -> str:
    """A character by its code point, as in ‹U+202E›."""
    return f"‹U+{ord(character):04X}›"


def visible_tree(tree: Any) -> Any:
    """The same JSON-like tree with every string, keys included, made visible."""
    if isinstance(tree, str):
        return visible(tree)
    if isinstance(tree, dict):
        return {visible(str(key)): visible_tree(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [visible_tree(value) for value in tree]
    return tree


def clip(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis, in at most `length` characters."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def sentences(text: str, length: int) -> str:
    """The text, or as many of its first sentences as `length` characters hold, and an ellipsis."""
    if len(text) <= length:
        return text
    end = text.rfind(". ", 0, length - 1)
    return clip(text, length) if end < 0 else text[: end + 1] + " …"


def words(identifier: str) -> str:
    """`add_or_remove` as it is read aloud."""
    text = identifier.replace("_", " ")
    for pattern, phrase in _PHRASES:
        text = pattern.sub(phrase, text)
    return " ".join(_ACRONYMS.get(part, part) for part in text.split(" "))


def metric(attack: str, name: str) -> str:
    """A metric without the name of its attack, which stands beside it."""
    return words(name.removeprefix(f"{attack}_") or name)


def count(value: int | None) -> str:
    """A whole number with its thousands set apart."""
    return "—" if value is None else f"{value:,}"


def number(value: float) -> str:
    """Three significant digits, all of the whole part, powers of ten below a thousandth."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= 1e9:
        return _power_of_ten(value)
    digits = max(0, 2 - math.floor(math.log10(size)))
    return _stripped(f"{value:,.{digits}f}")


def share(value: float) -> str:
    """A probability in percent; never rounded to 0 % or 100 % where it is neither."""
    percent = 100 * value
    if percent in (0, 100) or not 0 < percent < 100:
        return f"{number(percent)}{_NBSP}%"
    edge = min(percent, 100 - percent)
    if percent < 1e-4:
        return f"{_power_of_ten(percent)}{_NBSP}%"
    digits = 1 if edge >= 1 else 1 - math.floor(math.log10(edge) + 1e-9)
    return _stripped(f"{percent:.{min(digits, 8)}f}") + f"{_NBSP}%"


def _power_of_ten(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{_stripped(mantissa)} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_share(unit: str) -> bool:
    """Whether values of this unit are written in percent."""
    return unit.split(" ")[0].lower() in {"share", "rate", "probability", "fraction"}


def quantity(value: float, unit: str) -> str:
    """A measured value: percent for shares, otherwise the bare number."""
    return share(value) if is_share(unit) else number(value)


def interval(bounds: Bounds | None, unit: str) -> str:
    """`[low, high]`, or an empty string where no interval could be had."""
    if bounds is None:
        return ""
    return f"[{quantity(bounds[0], unit)}, {quantity(bounds[1], unit)}]"


def measured(value: float | None, bounds: Bounds | None, unit: str) -> str:
    """A value with its interval."""
    if value is None:
        return "not measured"
    return f"{quantity(value, unit)} {interval(bounds, unit)}".strip()


def p_value(value: float | None) -> str:
    """A p-value; its sides are told beside it."""
    if value is None:
        return "not computed"
    return number(value) if value >= 1e-3 else f"{_power_of_ten(value)}" if value > 0 else "0"


def epsilon(value: float | None) -> str:
    """A claimed ε in nats, in words where there is none or it is not known."""
    if value is None:
        return "unknown"
    if math.isinf(value):
        return "none promised"
    return f"{value:.4g}" if value == 0 or value >= 1e-3 else _power_of_ten(value)


def per_unit(unit: str, relation: str) -> str:
    """The protected unit and the neighbour relation, as they follow an ε."""
    verb = "part removed" if relation == "removed" and unit == "part" else words(relation)
    return f"per {unit} ({verb})"


def claim(guarantee: GuaranteeResult) -> str:
    """The claim on one line: ε with unit, relation, order or δ, release and basis."""
    scope = per_unit(guarantee.unit, guarantee.relation)
    if guarantee.epsilon is None:
        return f"ε unknown {scope}, release of {_release(guarantee.release)}"
    if math.isinf(guarantee.epsilon):
        return "ε: none promised"
    parts = [f"ε = {epsilon(guarantee.epsilon)} nats {scope}"]
    if guarantee.alpha is not None:
        parts.append(f"Rényi order α = {number(guarantee.alpha)}")
    if guarantee.delta is not None:
        parts.append(f"δ = {number(guarantee.delta)}")
    return ", ".join([*parts, f"release of {_release(guarantee.release)}", guarantee.basis])


def _release(release: str) -> str:
    return {"model": "a model"}.get(release, words(release))


def setting(value: Any) -> str:
    """A parameter's value in six significant digits at most."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value) or "none"
    return str(value)
