"""Draws what a claim's runs measured beside what the paper published."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from audit.core.errors import UsageError
from audit.statistics.t_interval import t_interval
from experiments.claim import Claim
from experiments.measures import in_words, is_perplexity, is_share

_FIXED: Any = {
    "svg.hashsalt": "claims",
    "svg.fonttype": "none",
}  # the same bytes again, and real text
_OURS, _THEIRS = "C0", "0.35"
_FAR = 1e4  # times the least perplexity: what is beyond helps nobody
_FARTHEST = 1e300  # no axis reaches so far


@dataclass(frozen=True)
class Row:
    """A line of a picture: its label, our value of each seed, and the published one if any."""

    label: str
    ours: tuple[float, ...]
    published: float | None = None


def drawn(claim: Claim, document: Mapping[str, Any]) -> bytes:
    """Draws a stored verdict as SVG: a panel for each measure, and one for the paper's figures."""
    panels = rows_of(claim, document)
    most = max(map(len, panels.values()))
    published = [
        name for name, rows in panels.items() if any(r.published is not None for r in rows)
    ]
    with mpl.rc_context(_FIXED):
        count = len(panels) + len(published)
        figure = Figure(figsize=(3.1 + 3.1 * count, 0.7 + 0.36 * most), layout="constrained")
        every = iter(figure.subplots(1, count, squeeze=False)[0])
        for name, rows in panels.items():
            if name in published:
                theirs = [() if r.published is None else (r.published,) for r in rows]
                _panel(next(every), name, "published", rows, theirs, _THEIRS)
            ours = [row.ours for row in rows]
            _panel(next(every), name, f"here, at {document['scale']}", rows, ours, _OURS)
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def rows_of(claim: Claim, document: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Sorts what was measured by measure. The claim's table, if it has one, comes first.

    Raises UsageError where the table names what was not measured.
    """
    measured: dict[str, Sequence[float | None]] = dict(document.get("shown", {}))
    for statement in document["statements"]:
        measured |= statement["measured"]
    panels: dict[str, list[Row]] = {}
    table = claim.table_at(document["scale"])
    for label, entry in table.items():
        if entry["ours"] not in measured:
            raise UsageError(f"{claim.id}: {entry['ours']!r} was not measured; run the claim")
        row = Row(label, _known(measured[entry["ours"]]), entry.get("published"))
        panels.setdefault(_measure(entry["ours"]), []).append(row)
    in_table = {entry["ours"] for entry in table.values()}
    for name, values in measured.items():
        if name in in_table:
            continue
        place, _, _ = name.rpartition(" ")
        panels.setdefault(_measure(name), []).append(Row(_label(place, name), _known(values)))
    return panels


def _known(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def _measure(name: str) -> str:
    """Return the measure's own name: attacks are left out, with their settings."""
    if " phrases." in name:
        _, relation, field = name.rpartition(" ")[2].split(".")
        return f"ε of phrases ({relation}), {field}".replace("_", " ")
    return name.rpartition(" ")[2].rpartition("/")[2].replace("_", " ")


def _label(place: str, name: str) -> str:
    attack = name.rpartition(" ")[2].rpartition("/")[0].partition(":")[2]
    return f"{place} ({attack})" if attack else place


def _panel(
    axes: Axes, measure: str, title: str, rows: Sequence[Row], values: Any, colour: str
) -> None:
    """Draws one value a seed, and the mean with its interval at 95 % where seeds differ.

    Perplexities that are far apart are drawn by their logarithms, and those beyond all use at the
    edge, as a number.
    """
    every = [value for seeds in values for value in seeds] or [1.0]
    edge = min(_FAR * min(every), _FARTHEST) if is_perplexity(measure) else math.inf
    apart = is_perplexity(measure) and (max(every) > 4 * min(every) or max(every) > edge)
    least, most = (0.0, 1.0) if is_share(measure) else (-math.inf, math.inf)
    for y, seeds in enumerate(values):
        near, far = ([v for v in seeds if (v > edge) == beyond] for beyond in (False, True))
        axes.plot(near, [y] * len(near), "o", color=colour, ms=4, alpha=0.55)
        if far:
            axes.plot(edge, y, ">", color=colour)
            axes.text(edge / 1.5, y, in_words(min(far)), fontsize=8, ha="right", va="center")
        elif len(set(near)) > 1:
            low, mean, high = _mean(near, apart)
            low, high = max(low, least), min(high, most)
            bar = [[mean - low], [high - mean]]
            axes.errorbar(mean, y, xerr=bar, fmt="|", color=colour, ms=11, capsize=3)
        elif not near and colour == _OURS:
            axes.text(0.5, y, in_words(None), fontsize=8, ha="center", va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
    if apart:
        axes.set_xscale("log")
        wide = min(edge, max(every)) > 100 * min(every)
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=8))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(measure, fontsize=9)
    axes.set_title(title, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="0.9")


def _mean(seeds: Sequence[float], of_logarithms: bool) -> tuple[float, float, float]:
    """Return the mean between the ends of its interval."""
    interval = t_interval([math.log(value) for value in seeds] if of_logarithms else seeds, 0.95)
    assert interval.low is not None and interval.high is not None
    three = (interval.low, interval.value, interval.high)
    return tuple(map(math.exp, three)) if of_logarithms else three  # type: ignore[return-value]
