"""The figure of a paper: one measure over another, small multiples with shared axes.

Everything is read from results.json. A style is one kind of ε, in all panels; a reference is a
level, in the same style everywhere. What has no place on the axis is a level of its own panel.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib import rcParams, style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from audit.core.errors import UsageError, did_you_mean
from audit.core.visible import visible
from audit.results import words
from audit.results.schema import FindingResult, Measure, ReleaseResult, Results
from reports import csv
from reports._content import wording
from reports._content.releases import inert, seeds_of, setting_labels, settings
from reports._figures import canvas, lines, svg
from reports._figures.lines import Point, Series
from reports._figures.sweep import HOLLOW
from reports._figures.sweep_axes import kind

FORMATS = ("svg", "pdf", "png", "tex", "csv")
EPSILON, DEFENSE = "epsilon", "defense"
KINDS_DIFFER = "ε of different kinds are different promises: compare curves of one kind only."
_CONTROLS = ("positive control", "null control")
_LEVELS = {"none": (0, (5, 2)), "public": (0, (1.5, 1.5))}  # of references
_MARKS = "X*<>ph"  # of curves beyond those of the style sheet
_STYLES, _PANELS = 12, 24  # at most, in a figure
_COLUMNS = 3  # panels in a row
_WIDTH, _HEIGHT, _LINE = 6.75, 1.9, 0.19  # inches: a text's width, a row of panels, a legend's line
_STYLE = Path(__file__).parents[1] / "_templates" / "figures.mplstyle"
_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42}  # fonts that editors and publishers take
_HEADS = ("panel", "setting", "kind", "epsilon", "epsilon_claimed", "x", "x_low", "x_high",
          "y", "y_low", "y_high", "unit", "seeds", "method")  # fmt: skip

Measured = Measure | FindingResult


@dataclass(frozen=True)
class Row:
    """One setting over its seeds. x: a place on the axis; None: it has none, as references have.

    asked, claimed: ε in nats, as the plan asks for it and as the guarantee states it.
    """

    panel: str
    setting: str
    kind: str
    asked: float | None
    claimed: float | None
    x: Point | None
    y: Measured
    seeds: int
    reference: bool

    @property
    def value(self) -> float:
        assert self.y.value is not None  # as `_finite` has seen to
        return self.y.value

    @property
    def point(self) -> Point:
        assert self.x is not None
        return replace(self.x, y=self.value, bounds=self.y.ci, hollow=self.insiders)

    @property
    def insiders(self) -> bool:
        """Return whether the measure needs more access than the release gives."""
        return isinstance(self.y, FindingResult) and self.y.stronger_than_release

    @property
    def cells(self) -> dict[str, str | float | None]:
        low, high = self.y.ci or (None, None)
        left, right = (self.x and self.x.across) or (None, None)
        x = self.x.x if self.x else None
        return dict(zip(_HEADS, (
            self.panel, self.setting, self.kind, self.asked, self.claimed, x, left, right,
            self.y.value, low, high, self.y.unit, self.seeds, self.y.method,
        ), strict=True))  # fmt: skip


@dataclass(frozen=True)
class Paper:
    """The drawing: rows, how the axes and files are called, whether curves join their points."""

    rows: tuple[Row, ...]
    across: str
    up: str
    name: str
    joined: bool = True

    @property
    def panels(self) -> list[str]:
        return list(dict.fromkeys(row.panel for row in self.rows if not row.reference))

    @property
    def caption(self) -> list[str]:
        """State what must stand below the figure."""
        most = max(row.seeds for row in self.rows)
        methods = dict.fromkeys(row.y.method for row in self.rows if row.y.ci is not None)
        kinds = {row.kind for row in self.rows if row.x is not None and row.claimed is not None}
        lines = [f"{self.up} over {self.across}; n = {_over(self.rows)}."]
        lines += [f"Intervals: {'; '.join(methods)}."] if methods else []
        lines += [KINDS_DIFFER] if len(kinds) > 1 else []
        lines += [HOLLOW.strip()] if any(row.insiders for row in self.rows) else []
        if most == 1:
            lines.append("One seed: defenses are not ranked; an interval is within the seed.")
        if most == 2:
            lines.append("Two seeds: intervals reach 12.7 standard errors; run three or more.")
        return lines


def _over(rows: Sequence[Row]) -> str:
    """Count the seeds, as in `3 seeds` or `2 to 3 seeds`."""
    least, most = (f(row.seeds for row in rows) for f in (min, max))
    return words.count(most, "seed") if least == most else f"{least} to {words.count(most, 'seed')}"


def paper(results: Results, x: str, y: str, by: str) -> Paper:
    """Read a figure's rows. Raises UsageError for a measure or parameter that is not there.

    x: "epsilon", a numeric parameter or a measure. y: a measure. by: "defense" or a parameter.
    """
    results = inert(results)
    every = zip(settings(results), seeds_of(results), strict=True)
    shown = [(r, n) for r, n in every
             if not r.reference or (r.role in _CONTROLS and r.defense in _LEVELS)]  # fmt: skip
    releases = [release for release, _ in shown]
    known = [DEFENSE, *_parameters(releases)]
    if by not in known:
        raise UsageError(f"--by {by}: is no parameter here{did_you_mean(by, known)}")
    read, place = _reader(releases, y, "--y"), _place(releases, x)
    swept = x in (EPSILON, *known[1:])
    names = setting_labels(releases, x, by, *([] if swept else [EPSILON]))
    rows = [
        _row(release, name, seeds, place(release), measured, by)
        for (release, seeds), name in zip(shown, names, strict=True)
        if (measured := read(release)) is not None
    ]
    if not any(row.x is not None and not row.reference for row in rows):
        raise UsageError(f"figure: no setting has both {x} and {y}; choose another --x or --y")
    first = [row.panel for row in rows]
    _check_few(rows, by)
    across = "ε claimed (nats)" if x == EPSILON else _titled(x)
    rows.sort(key=lambda row: (row.reference, first.index(row.panel), row.setting,
                               row.x.x if row.x else math.inf))  # fmt: skip
    name = re.sub(r"[^\w.-]+", "_", f"{y}-over-{x}")
    return Paper(tuple(rows), across, _titled(y), name, joined=swept)


def _check_few(rows: Sequence[Row], by: str) -> None:
    """Raise UsageError where two curves would look alike, or panels would not fit a page."""
    curves = len({_key(row) for row in rows if not row.reference})
    panels = len({row.panel for row in rows if not row.reference})
    for count, most, what in ((curves, _STYLES, "curves"), (panels, _PANELS, "panels")):
        if count > most:
            raise UsageError(
                f"--by {by}: makes {count} {what}, and a figure has room for {most}; choose "
                "another --by, or a smaller sweep"
            )


def _row(
    release: ReleaseResult, name: str, seeds: int, x: Point | None, y: Measured, by: str
) -> Row:
    claim, asked = release.guarantee, release.parameters.get("epsilon")
    if by == DEFENSE:
        panel, name = release.defense, name.removeprefix(release.defense).strip()
    else:
        value = wording.setting(release.parameters.get(by))
        panel = f"{'ε' if by == EPSILON else wording.spelled(by)} = {value}"
    promise = "ε unknown" if claim.epsilon is None else f"ε {kind(release)}"
    return Row(
        panel,
        release.defense if release.reference else name,
        promise if claim.epsilon != math.inf else "no ε promised",
        float(asked) if isinstance(asked, (int, float)) else None,
        claim.epsilon,
        None if release.reference else x,
        y,
        seeds,
        release.reference,
    )


def _titled(name: str) -> str:
    return wording.spelled(name.replace(".", ", "))


def _parameters(releases: Sequence[ReleaseResult]) -> list[str]:
    """List the parameters of all settings, by name."""
    return sorted({name for r in releases if not r.reference for name in r.parameters})


def _reader(
    releases: Sequence[ReleaseResult], name: str, option: str
) -> Callable[[ReleaseResult], Measured | None]:
    """Return how a measure is read: utility by its name, a finding as `ATTACK.METRIC` or METRIC."""
    places = {key: key for r in releases for key in r.utility}
    found = {(f.attack, f.metric): f.unit for r in releases for f in r.findings if not r.reference}
    alike = [pair for pair in found if name in _calls(*pair)]
    if name in places:
        return lambda release: _finite(release.utility.get(name))
    if len(alike) != 1:
        every = [*places, *map(".".join, found)]
        choice = f"; it may be {', '.join(map('.'.join, alike))}"
        hint = choice if alike else did_you_mean(name, every)
        raise UsageError(f"{option} {name}: is no measure of this run{hint}")

    def read(release: ReleaseResult) -> Measured | None:
        mine = (f for f in release.findings if (f.attack, f.metric) == alike[0])
        return _finite(next(mine, None))

    return read


def _calls(attack: str, metric: str) -> tuple[str, ...]:
    """List how a measure may be called: the attack's parameters can be left out."""
    return metric, f"{attack}.{metric}", f"{attack.partition(':')[0]}.{metric}"


def _finite(measured: Measured | None) -> Measured | None:
    value = None if measured is None else measured.value
    return measured if value is not None and math.isfinite(value) else None


def _place(releases: Sequence[ReleaseResult], x: str) -> Callable[[ReleaseResult], Point | None]:
    """Return where a setting stands on the horizontal axis."""
    read = None if x in (EPSILON, *_parameters(releases)) else _reader(releases, x, "--x")

    def place(release: ReleaseResult) -> Point | None:
        if read is not None:
            found = read(release)
            return None if found is None else Point(found.value or 0.0, 0.0, across=found.ci)
        value = release.guarantee.epsilon if x == EPSILON else release.parameters.get(x)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return None
        return Point(float(value), 0.0) if math.isfinite(value) else None

    return place


# ------------------------------------------------------------------- the drawing


def drawn(figure: Paper, form: str) -> bytes:
    """Return the figure as a file: svg, pdf or png."""
    sink = io.BytesIO()
    rows = math.ceil(len(figure.panels) / _COLUMNS)
    legend = {_key(row) for row in figure.rows}
    size = (_WIDTH, _HEIGHT * rows + _LINE * len(legend) + 0.3)
    with warnings.catch_warnings(), style.context(["default", _STYLE, _TEXT]):
        warnings.filterwarnings("ignore", "Glyph")
        page = Canvas(figsize=size, facecolor="white")
        _paint(page, figure, rows)
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        page.savefig(sink, format=form, dpi=300, facecolor="white", metadata=undated)
    return sink.getvalue()


def _key(row: Row) -> str:
    """Name what the legend tells apart: references by name, else parameters and kind of ε."""
    if row.reference:
        return f"{row.setting} ({words.quantity(row.value, row.y.unit)})"
    return ", ".join(filter(None, [row.setting, row.kind]))


def _paint(page: Canvas, figure: Paper, rows: int) -> None:
    names = figure.panels
    grid = page.subplots(rows, min(_COLUMNS, len(names)), sharex=True, sharey=True, squeeze=False)
    keys = list(dict.fromkeys(_key(row) for row in figure.rows if not row.reference))
    entries: dict[str, Artist] = {}
    for axes, name in zip(grid.flat, names, strict=False):
        mine = [row for row in figure.rows if row.panel == name and not row.reference]
        _panel(axes, mine, figure, keys, entries)
        axes.set_title(f"{wording.clip(name, 22)} (n = {_over(mine)})", color=svg.INK)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_axis_off()
    page.supxlabel(figure.across)
    page.supylabel(figure.up)
    ordered = [label for label in entries if label in keys]
    ordered += [label for label in entries if label not in keys]  # the references
    canvas.legend(page, [(entries[label], label) for label in ordered])


def _panel(
    axes: Axes, mine: Sequence[Row], figure: Paper, keys: Sequence[str], entries: dict[str, Artist]
) -> None:
    """Draw the curves of one panel, and the levels that all panels share."""
    placed = [row.x for row in figure.rows if row.x is not None]
    ends = [p.x for p in placed]
    across = lines.scale([*ends, max(ends) * 1.03], [b for p in placed for b in p.across or ()])
    every = [row.value for row in figure.rows]
    bounds = [bound for row in figure.rows for bound in row.y.ci or ()]
    up = lines.scale(every, bounds, figure.rows[0].y.unit)
    canvas.across(axes, across)
    canvas.up(axes, up)
    for index, key in enumerate(keys):
        axes.set_prop_cycle(**{name: [value] for name, value in _style_of(index).items()})
        curve = [row for row in mine if _key(row) == key]
        points = [row.point for row in curve if row.x]
        points.sort(key=lambda point: point.x)
        series = Series(key, points, joined=figure.joined)
        if points:
            entries.setdefault(key, lines.line_of(axes, series, across, up, 0.0))
        for row in curve:
            if row.x is None:
                low, high = up.inside(*(row.y.ci or (row.value, row.value)))
                axes.axhspan(low, high, color=svg.RULE, lw=0)
                whole = {**_style_of(index), "marker": "", "linestyle": "-"}
                entries.setdefault(key, axes.axhline(row.value, **whole))
    for row in figure.rows:
        if row.reference:
            dash: dict[str, Any] = {"color": svg.MUTED, "lw": 1.2, "ls": _LEVELS[row.setting]}
            entries.setdefault(_key(row), axes.axhline(row.value, marker="", **dash))


def _style_of(index: int) -> dict[str, Any]:
    """Return one of `_STYLES` styles, which differ by dash, by colour and by mark."""
    every = list(rcParams["axes.prop_cycle"])
    one = dict(every[index % len(every)])
    return one if index < len(every) else {**one, "marker": _MARKS[index - len(every)]}


# ------------------------------------------------------------------- the table


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "α": r"$\alpha$", "×": r"$\times$", "∞": r"$\infty$",
    "—": "---", "\N{NO-BREAK SPACE}": "~", "−": "$-$", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def tabular(figure: Paper) -> str:
    """Return the rows as LaTeX, for the package booktabs."""
    head = ["Setting", "ε asked", "ε claimed (nats)", "Kind of ε", figure.across, figure.up, "n"]
    repeated = figure.across in head[:4]
    lines = [
        *(f"% {line}" for line in figure.caption),
        r"% \usepackage[T1]{fontenc} \usepackage{booktabs}",
        rf"\begin{{tabular}}{{lrrl{'r' * (3 - repeated)}}}",
        r"\toprule",
        _line([*head[:4], *head[4 + repeated :]]),
        r"\midrule",
    ]
    for row in figure.rows:
        x = "—" if row.x is None else words.number(row.x.x)
        name = row.setting if row.reference else f"{row.panel} {row.setting}".strip()
        claimed = "—" if row.claimed is None else words.at_most(row.claimed)
        asked = "—" if row.asked is None else words.number(row.asked)
        shown = words.measured(row.y.value, row.y.ci, row.y.unit)
        promise = [asked, claimed, row.kind.removeprefix("ε ")]
        lines.append(_line([name, *promise, *([] if repeated else [x]), shown, str(row.seeds)]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _tex(text: str) -> str:
    """Escape text for LaTeX, with its Greek letters and powers as mathematics."""
    escaped = "".join(_TEX.get(character, character) for character in visible(text))
    return re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda m: f"$^{{{m[0].translate(_RAISED)}}}$", escaped)


def files(figure: Paper, formats: Iterable[str]) -> dict[str, bytes]:
    """Return each file by its name. Raises UsageError for an unknown format."""
    made: dict[str, bytes] = {}
    for form in dict.fromkeys("tex" if form == "latex" else form for form in formats):
        if form not in FORMATS:
            raise UsageError(f"--format {form}: is none of {', '.join(FORMATS)}")
        made[f"{figure.name}.{form}"] = _made(figure, form)
    return made


def _made(figure: Paper, form: str) -> bytes:
    if form == "csv":
        return csv.table(_HEADS, [row.cells for row in figure.rows])
    return tabular(figure).encode("utf-8") if form == "tex" else drawn(figure, form)
