"""Draws perplexity and leaks against ε, of the sweep in experiments/private_prediction.toml.

    audit sweep experiments/private_prediction.toml --output audits/prediction
    python docs/pictures/private_prediction.py audits/prediction

ε per part and ε per user are different promises, so they stand in different panels. Nor are parts
*removed* and parts *emptied* the same; the legend says which is which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from audit import api
from audit.core.terms import Leaked
from audit.results.schema import Cell, Results

HERE = Path(__file__).parent
HIGHEST = 25.0  # perplexity that is drawn
SERVICES = ("per part, for 1,024 sampled tokens", "part")
MODELS = ("per user, for the model (δ = 10⁻⁵)", "user")


@dataclass(frozen=True)
class Point:
    """One setting: its ε (nats), its perplexity over seeds with the least and largest, its leak."""

    epsilon: float
    perplexity: float
    least: float
    largest: float
    leaked: str


def main(folder: Path) -> None:
    """Write private-prediction.png into the folder of this file."""
    results = api.load(folder)
    figure, panels = plt.subplots(1, 2, figsize=(10, 5.6), sharey=True, width_ratios=[3, 2])
    beyond, settings = [], 0
    for axes, (title, unit) in zip(panels, (SERVICES, MODELS), strict=True):
        drawn = sorted(curves(results, unit).items())
        settings += sum(len(points) for _, points in drawn)
        for i, (name, points) in enumerate(drawn):
            values = [point.perplexity for point in points]
            if min(values) > HIGHEST:
                leaks = [f"{p.epsilon:g}" for p in points if p.leaked == Leaked.LEAK]
                found = f" (a leak at ε = {', '.join(leaks)})" if leaks else ""
                span = f"{max(values):,.0f} to {min(values):,.0f}"
                beyond.append(f"{name.split()[0]} {span}{found}")
                continue
            draw(axes, name, points, f"C{i}")
        for name, style in (("public", ":"), ("none", "--")):
            level = reference(results, name)
            axes.axhline(level, color="0.4", lw=1, ls=style)
            axes.annotate(f"{name} {level:.3g}", (64, level), va="bottom", ha="right", size=8)
        axes.set(xscale="log", yscale="log", ylim=(1.8, HIGHEST), xlabel=f"ε in nats, {title}")
        axes.set_xticks([0.5, 1, 2, 4, 8, 16, 32, 64], ["½", "1", "2", "4", "8", "16", "32", "64"])
        axes.set_yticks([2, 3, 5, 8, 12, 20], ["2", "3", "5", "8", "12", "20"])
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.14))
    panels[0].set_ylabel("perplexity of 1,024 held-out tokens")
    seeds = len({release.seed for release in results.releases})
    figure.text(
        0.01, 0.01, f"Mean of {seeds} seeds; bars: least and largest. Extraction finds no leak "
        "(full circle), is inconclusive (open), or finds one (red square).\nOf "
        f"{settings} settings without a leak up to {settings / 20:.0f} are called one by chance. "
        f"Above the axis: {'; '.join(beyond)}.", size=8,
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(HERE / "private-prediction.png", dpi=110)


def curves(results: Results, unit: str) -> dict[str, list[Point]]:
    """Points by the name of their curve, of all settings that promise ε for this unit."""
    found: dict[str, list[Point]] = {}
    for cell in cells(results):
        first = results.releases[cell.releases[0]]
        claim, epsilon = first.guarantee, first.parameters.get("epsilon")
        if first.reference or claim.unit != unit or epsilon is None:
            continue
        own = {"β": first.parameters.get("beta"), "filter": first.parameters.get("multiple")}
        said = "".join(f", {word} {value}" for word, value in own.items() if value not in (None, 1))
        kind = f"part {claim.relation}" if unit == "part" else "add or remove"
        basis = "" if claim.basis == "worst case" else ", data-dependent"
        name = f"{first.defense}{said} ({kind}{basis})"
        each = [results.releases[i].utility["perplexity"].value for i in cell.releases]
        point = Point(float(epsilon), sum(each) / len(each), min(each), max(each), str(cell.leaked))
        found.setdefault(name, []).append(point)
    return {name: sorted(points, key=lambda p: p.epsilon) for name, points in found.items()}


def reference(results: Results, name: str) -> float:
    """Average the perplexity of a reference over the seeds."""
    every = [r for r in results.releases if r.defense == name and r.reference]
    return sum(r.utility["perplexity"].value for r in every) / len(every)


def cells(results: Results) -> Iterator[Cell]:
    """Read the settings of a sweep."""
    assert results.sweep is not None, "give the folder of a sweep"
    yield from results.sweep.cells


def draw(axes: Axes, name: str, points: list[Point], colour: str) -> None:
    """Draws one curve; the shape of a mark says what leaked."""
    x, y = [p.epsilon for p in points], [p.perplexity for p in points]
    spread = [
        [p.perplexity - p.least for p in points],
        [p.largest - p.perplexity for p in points],
    ]
    axes.errorbar(x, y, yerr=spread, color=colour, lw=1.2, capsize=2, label=name)
    for p in points:
        leak = p.leaked == Leaked.LEAK
        quiet = p.leaked == Leaked.NONE_FOUND
        axes.plot(
            p.epsilon, p.perplexity, "s" if leak else "o", color="red" if leak else colour,
            mfc=("red" if leak else colour) if leak or quiet else "white", ms=5, zorder=3,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
