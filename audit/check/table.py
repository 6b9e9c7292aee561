"""An examination in words: a table of checks, what each failure usually means, and the claim."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import starmap

from audit.check.catalogue import Check
from audit.check.checks.claim import DELTA, ClaimTest
from audit.check.examination import Examination
from audit.check.outcome import Outcome, Status
from audit.results.words import at_most, number, p_value, percent

WIDTH = 100  # characters of a line
_HEAD = ("", "check", "units", "measured", "", "due", "p", "finds")
_MARKS = {Status.PASSED: "ok", Status.FAILED: "FAIL", Status.NOT_READ: "–"}
BLIND = (
    "It cannot see: arguments of the accountant (compare ε with the q, T and σ measured here), "
    "hyperparameters tuned on private data, seeds that others know, attacks on floating-point "
    "noise, what else is released (losses, gradient norms), and layers of the real model that the "
    "probes lack."
)


def text(examined: Examination) -> str:
    """Write all of it."""
    parts = [
        _stated(examined),
        _columns([_HEAD, *map(_row, examined.outcomes)]),
        *starmap(_paragraph, _remarks(examined.outcomes)),
        _paragraph("Claim", claim(examined.claim)),
        textwrap.fill(BLIND, WIDTH),
        verdict(examined),
    ]
    return "\n\n".join(parts)


def verdict(examined: Examination) -> str:
    """Describe in one sentence how the examination ended."""
    failed = [outcome.check for outcome in examined.failed]
    ended = [f"{examined.engine}: "]
    unread = [o.check for o in examined.outcomes if o.status == Status.NOT_READ]
    if failed:
        ended.append(f"failed {_named(failed)}")
    elif unread:
        ended.append(f"every check that could be read passed; not read: {_named(unread)}")
    else:
        ended.append("every check passed")
    if examined.claim.refuted:
        ended.append("; the claim is refuted")
    return "".join(ended)


def _named(checks: Sequence[Check]) -> str:
    """List checks, each once."""
    return ", ".join(dict.fromkeys(f"{check.code} {check.title}" for check in checks))


def claim(test: ClaimTest) -> str:
    """Describe what the guesses of the units' coins show about the stated mechanism."""
    mechanism = (
        f"{_mechanism(test.bands)} with σ = {number(test.noise_multiplier)}, "
        f"q = {number(test.sampling_probability)} and T = {test.steps:,} "
        f"(ε = {at_most(test.epsilon)} at δ = {at_most(DELTA)})"
    )
    guessed = f"{test.right} of {test.guesses} guesses about {test.coins} coins are right"
    if test.refuted:
        verdict = f"{mechanism} makes this improbable: {guessed}, p = {p_value(test.p)}. Refuted."
    else:
        needed = "no number" if test.needed is None else f"{test.needed}"
        verdict = (
            f"{mechanism} is not refuted: {guessed}, {needed} would refute it "
            f"(p = {p_value(test.p)}). This confirms nothing."
        )
    if test.area is None:
        return verdict
    return (
        f"{verdict} Present and absent units are told apart with an area under the curve of "
        f"{test.area.measured:.3f}; {test.area.due:.3f} is due (p = {p_value(test.area.p)})."
    )


def _mechanism(bands: int) -> str:
    return "DP-SGD" if bands == 1 else f"DP-FTRL (b̂ = {bands} bands)"


def _stated(examined: Examination) -> str:
    stated, q = examined.stated, examined.claim.sampling_probability
    realised = "" if q == stated.sampling_probability else f" (realised: {q:.5g})"
    figures = (
        f"σ = {stated.noise_multiplier:g}",
        f"C = {stated.max_norm:g}",
        f"q = {stated.sampling_probability:g}{realised}",
        f"T = {stated.steps:,}",
    )
    mechanism = _mechanism(stated.bands)
    return f"{examined.engine}, stated as {mechanism} by {stated.unit}: {', '.join(figures)}"


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        _MARKS[outcome.status],
        f"{outcome.check.code} {outcome.check.title}",
        outcome.units,
        outcome.quantity,
        "" if outcome.value is None else number(outcome.value),
        outcome.due,
        "" if outcome.p is None else _p(outcome.p),
        "" if outcome.detects is None else percent(outcome.detects),
    )


def _p(value: float) -> str:
    return "< 10⁻³⁰⁰" if value < 1e-300 else p_value(value)


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _remarks(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """List (check, what a failure usually means) once each, and what else has to be known."""
    failed = {o.check: o.check.means for o in outcomes if o.failed}
    meanings = [
        (f"{check.code} failed, which usually means", meaning) for check, meaning in failed.items()
    ]
    return meanings + [(o.check.code, o.remark) for o in outcomes if o.remark and not o.failed]


def _paragraph(label: str, words: str) -> str:
    return textwrap.fill(f"{label}: {words}.".replace("..", "."), WIDTH)
