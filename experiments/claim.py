"""A claim of a paper as data: what was stated, which runs test it, and what they must show."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError, did_you_mean

HERE = Path(__file__).parent
PAPERS = ("submix", "selective_dp", "seqpate", "attacks")  # folders
SCALES = ("small", "medium", "real", "paper")
SCALES_FILE = "scales.toml"  # in each folder: the settings of a scale that its claims share
_KEYS = {
    "paper",
    "title",
    "claim",
    "published",
    "note",
    "learned",
    "plan",
    "scales",
    "runs",
    "statement",
    "table",
    "untested",
    "unreachable",
}


@dataclass(frozen=True)
class Claim:
    """One claim.

    id: as in docs/claims.md. paper: its source, with the table or figure. title: it in a few words.
    claim: what it states.
    published: its figures. note: how the runs differ from the paper's. learned: why the runs say
    otherwise, or what else they say, as far as is known.
    plan: settings of all runs. scales: further settings by scale, over those that the claims of a
    paper share (scales.toml). runs: further settings by the name of a run; one run, "main", where
    there are none. statements: what must hold for the claim.
    table: measures of ours by label, each beside the paper's figure where it prints one. What no
    statement names is shown, and not judged; `not_at` names scales at which it is not measured.
    untested: what the paper says besides, and no statement judges.
    unreachable: by scale, why it is out of reach there.
    """

    id: str
    paper: str
    title: str
    claim: str
    published: str
    note: str
    learned: str
    plan: Mapping[str, Any]
    scales: Mapping[str, Mapping[str, Any]]
    runs: Mapping[str, Mapping[str, Any]]
    statements: tuple[Mapping[str, Any], ...]
    table: Mapping[str, Mapping[str, Any]]
    untested: str
    unreachable: Mapping[str, str]

    def plans(self, scale: str) -> dict[str, dict[str, Any]]:
        """Return the settings of each run at a scale. Raises UsageError where it has no runs."""
        if why := self.without(scale):
            raise UsageError(f"{self.id}: {why}")
        common = merged(merged(self.plan, self._shared(scale)), self.scales.get(scale, {}))
        runs = self.runs or {"main": {}}
        return {name: merged(common, settings) for name, settings in runs.items()}

    def without(self, scale: str) -> str:
        """Say why there are no runs at a scale; "" where there are some."""
        if scale in self.unreachable:
            return f"out of reach at {scale}: {self.unreachable[scale]}"
        planned = scale == SCALES[0] or scale in self._of_paper()
        return "" if planned else f"not planned at {scale}"

    def _of_paper(self) -> dict[str, Any]:
        file = ids()[self.id].parent / SCALES_FILE
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def _shared(self, scale: str) -> dict[str, Any]:
        """Read what the claims of the paper share, but for grids of defenses not swept here."""
        shared: dict[str, Any] = self._of_paper().get(scale, {})
        swept = merged(self.plan, self.scales.get(scale, {}))["sweep"]["defense"]
        names = {one.partition(":")[0] for one in swept}
        sweep = {
            key: value
            for key, value in shared.get("sweep", {}).items()
            if key in names or not isinstance(value, Mapping)
        }
        return {**shared, "sweep": sweep}

    def table_at(self, scale: str) -> dict[str, Mapping[str, Any]]:
        """Return the rows of the table that are measured at a scale: not those `not_at` it."""
        rows = self.table.items()
        return {label: row for label, row in rows if scale not in row.get("not_at", ())}

    def digest(self, scale: str) -> str:
        """Hashes what a verdict rests on: the settings of all runs, and what they must show."""
        return digest_of_json({"plans": self.plans(scale), "statements": self.statements})


def ids() -> dict[str, Path]:
    """List the files of all claims by their id, in the order of the papers."""
    found = [path for paper in PAPERS for path in (HERE / paper).glob("*.toml")]
    paths = [path for path in found if path.name != SCALES_FILE]
    key = {
        path: (PAPERS.index(path.parent.name), path.stem[0], int(path.stem[1:])) for path in paths
    }
    return {path.stem: path for path in sorted(paths, key=key.__getitem__)}


def read(name: str) -> Claim:
    """Read a claim by its id. Raises UsageError for an unknown one."""
    known = ids()
    if name not in known:
        raise UsageError(f"claim {name}: unknown{did_you_mean(name, list(known))}")
    table = tomllib.loads(known[name].read_text(encoding="utf-8"))
    unknown = set(table) - _KEYS
    if unknown:
        raise UsageError(f"{known[name]}: unknown key {min(unknown)!r}")
    return Claim(
        id=name,
        paper=table["paper"],
        title=table["title"],
        claim=table["claim"],
        published=table["published"],
        note=table.get("note", ""),
        learned=table.get("learned", ""),
        plan=table["plan"],
        scales=table.get("scales", {}),
        runs=table.get("runs", {}),
        statements=tuple(table["statement"]),
        table=table.get("table", {}),
        untested=table.get("untested", ""),
        unreachable=table.get("unreachable", {}),
    )


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings into others, table by table. An empty list takes a setting away."""
    both = dict(below)
    for key, value in above.items():
        under = both.get(key)
        nested = isinstance(value, Mapping) and isinstance(under, Mapping)
        both[key] = merged(under, value) if nested else value  # type: ignore[arg-type]
        if value == []:
            del both[key]
    return both
