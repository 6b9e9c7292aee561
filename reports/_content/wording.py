"""Wording of identifiers, claims and parameters, the same in every format of the report.

Numbers are written by `audit.results.words`.
"""

from __future__ import annotations

import math
import re
from typing import Any

from audit.core.terms import Relation, Unit
from audit.results import words
from audit.results.schema import Control, EpsilonLower, FindingResult, GuaranteeResult, Measure
from audit.results.words import at_most, epsilon, integer, number, share

_ACRONYMS = {
    **{word: word.upper() for word in ("auc", "tpr", "fpr", "r", "rmia", "ez", "wbc")},
    "lira": "LiRA",
}
_PHRASES = (
    (re.compile(r"\bmin k plus plus\b"), "Min-K%++"),
    (re.compile(r"\bmin k\b"), "Min-K%"),
    (re.compile(r"\bbleu(\d)\b"), "BLEU-\\1"),
    (re.compile(r"\btpr at ([\d.]+) percent\b"), "TPR at \\1\u00a0% FPR"),
)

# The project's own defenses in plain words, each a few; others go by their name.
DEFENSES = {
    "as_is": "a model as its trainer made it",
    "blacklist": "an undefended model whose private values are masked in its answers",
    "capped_submix": "models of parts of the users, mixed within a fixed charge",
    "dp_ftrl": "training with clipped gradients and noise that partly cancels",
    "dp_sgd": "training with clipped, noised gradients",
    "gnmax": "models of parts of the users, which vote on each word",
    "invisible_ink": "a public model nudged by models of parts of the users",
    "invisible_ink_prompts": "a public model nudged by private texts in its prompts",
    "none": "training without any defense",
    "pmixed": "models of parts of the users, clipped to the public one",
    "public": "the public model, untouched",
    "redaction": "training on text whose private characters are masked",
    "s_dpsgd": "training with noise for what the policy calls private",
    "seqpate": "a student taught by noisy answers of private teachers",
    "submix": "models of parts of the users, mixed with a public one",
    "subsample_aggregate": "models of parts of the users, averaged with noise",
    "uniform": "random answers",
}

# The project's own attacks as the question that each asks.
ATTACKS = {
    "copies": "do planted values stand in the texts of a release, or nearly?",
    "exposure": "is a planted value among the likeliest of its form?",
    "extraction": "do planted codes come up after the words before them?",
    "ledger": "do answers of a service depend on its users by more than it charges for?",
    "membership": "can it be told who was trained on?",
    "name_leak": "do names of users come up?",
    "ngram": "can it be told from the texts of a release who was trained on?",
    "own_records": "do real users' own words come up?",
}


def clip(text: str, length: int) -> str:
    """Cut a text to at most `length` characters, the last an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def sentences(text: str, length: int) -> str:
    """Cut a text after the last whole sentence within `length` characters."""
    if len(text) <= length:
        return text
    end = text.rfind(". ", 0, length - 1)
    return clip(text, length) if end < 0 else text[: end + 1] + " …"


def spelled(identifier: str) -> str:
    """Spell an identifier out, as in `add or remove` for `add_or_remove`."""
    text = identifier.replace("_", " ")
    for pattern, phrase in _PHRASES:
        text = pattern.sub(phrase, text)
    return " ".join(_ACRONYMS.get(part, part) for part in text.split(" "))


def metric(attack: str, name: str) -> str:
    """Spell a metric out without the name of its attack, which is shown beside it."""
    return spelled(name.removeprefix(f"{attack}_") or name)


def measurement(finding: FindingResult) -> str:
    """Name the attack and what it measured."""
    return f"{spelled(finding.attack)}, {metric(finding.attack, finding.metric)}"


def value(measured: Measure | FindingResult | None) -> str:
    """Write a value with its interval."""
    if measured is None:
        return words.measured(None, None, "")
    return words.measured(measured.value, measured.ci, measured.unit)


def beside(control: Control | None, unit: str) -> str:
    """Write a value that stands beside the planted one."""
    return "none" if control is None else words.measured(control.value, control.ci, unit)


def counted(k: int | None, n: int) -> str:
    """Write `k of n`, or `n = 100` where nothing is counted."""
    return f"n = {integer(n)}" if k is None else f"{integer(k)} of {integer(n)}"


def answer(finding: FindingResult) -> str:
    """Write what leaked by a finding, and whether the release gives the access that it needs."""
    if finding.stronger_than_release:
        return f"{finding.leaked}, with more access than the release gives"
    return str(finding.leaked)


def by_chance(finding: FindingResult) -> str:
    """State how rare a detected leak is by chance; empty where no p-value is below 1."""
    known = [p for p in (finding.adjusted_p, finding.guesses_p) if p is not None]
    runs = int(1 / max(min(known, default=1.0), 1e-6))
    return f"chance does this in 1 of {_rounded(runs):,} runs at most" if runs > 1 else ""


def _rounded(count: int) -> int:
    """Round down to two digits, where more say nothing."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return count // step * step


def per_unit(unit: str, relation: str) -> str:
    """Name the protected unit and the neighbour relation, as they follow an ε."""
    removed_part = relation == Relation.REMOVED and unit == Unit.PART
    return f"per {unit} ({'part removed' if removed_part else spelled(relation)})"


def finite(guarantee: GuaranteeResult) -> float | None:
    """Return the ε that is promised; None where it is unknown, or nothing is."""
    epsilon = guarantee.epsilon
    return None if epsilon is None or math.isinf(epsilon) else epsilon


def bound(bound: EpsilonLower) -> str:
    """Write a lower bound with its unit and relation."""
    return f"ε ≥ {words.at_least(bound.value)} nats {per_unit(bound.unit, bound.relation)}"


def published(guarantee: GuaranteeResult) -> str:
    """Write the published ε; empty where there is none besides the claim."""
    if guarantee.published_epsilon is None:
        return ""
    scope = per_unit(guarantee.unit, guarantee.relation)
    return f"{epsilon(guarantee.published_epsilon)} nats {scope}, as published; not the claim"


def claim(guarantee: GuaranteeResult) -> str:
    """Write the claim on one line: ε with unit, relation, order or δ, release and basis."""
    scope = per_unit(guarantee.unit, guarantee.relation)
    if guarantee.epsilon is None:
        return f"ε unknown {scope}, release of {_release(guarantee.release)}"
    if math.isinf(guarantee.epsilon):
        return "ε: none promised"
    parts = [f"ε = {epsilon(guarantee.epsilon)} nats {scope}"]
    if guarantee.alpha is not None:
        parts.append(f"Rényi order α = {number(guarantee.alpha)}")
    if guarantee.delta is not None:
        parts.append(f"δ = {at_most(guarantee.delta)}")
    return ", ".join([*parts, f"release of {_release(guarantee.release)}", guarantee.basis])


def _release(release: str) -> str:
    return {"model": "a model"}.get(release, spelled(release))


def about(measured: Measure | FindingResult, interval: str = "") -> str:
    """Describe a value: its unit, n, the method of its interval, and where it was measured.

    interval: its ends in words, where they do not stand beside the value.
    """
    level = f"{setting(100 * measured.confidence)} % interval"
    method = ", ".join(filter(None, (interval, measured.method)))
    parts = [measured.unit, f"n = {measured.n}", f"{level}: {method}"]
    if isinstance(measured, Measure):
        answered, step = measured.answered, measured.share
        parts += [] if answered is None else [f"{integer(answered)} tokens answered"]
        parts += [] if step is None else [f"at the best step, after {share(step)} of the training"]
    return "; ".join(parts)


def setting(value: Any) -> str:
    """Write the value of a parameter, floats in at most six significant digits."""
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
