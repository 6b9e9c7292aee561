"""All findings of a run as a table that shows itself in a notebook."""

from __future__ import annotations

import html
import importlib
import io
from dataclasses import dataclass
from typing import Any

from audit.core.errors import UsageError
from audit.results import words
from audit.results.schema import Results
from reports import Report, csv
from reports._content import page, verdicts, wording
from reports._content.table import Table


@dataclass(frozen=True)
class Findings:
    """A row for each finding of each release; in a notebook it shows itself as a table."""

    results: Results

    def frame(self) -> Any:
        """Return a DataFrame with the columns of findings.csv. Raises UsageError without pandas."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError:
            raise UsageError("a data frame needs pandas; run: pip install pandas") from None
        (table, *_) = csv.Csv().files(Report(self.results)).values()
        return pandas.read_csv(io.BytesIO(table), keep_default_na=False, na_values=[""])

    def __len__(self) -> int:
        return sum(len(release.findings) for release in self.results.releases)

    def __repr__(self) -> str:
        table = _table(self.results)
        rows = [table.head, *table.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        table = _table(self.results)
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in table.rows
        )
        caption = f"<caption>{html.escape(table.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _table(results: Results) -> Table:
    """Make a table of every finding in words, the same as the report's."""
    clean = page.inert(results)
    rows = []
    for release, name in zip(clean.releases, page.labels(clean.releases), strict=True):
        for f in release.findings:
            twins = f.control
            rows.append(
                [
                    name,
                    wording.spelled(f.attack),
                    wording.metric(f.attack, f.metric),
                    verdicts.measured(f),
                    "none" if twins is None else words.measured(twins.value, twins.ci, f.unit),
                    words.integer(f.n),
                    str(f.leaked),
                    str(f.claim),
                    f"{f.sentence} {f.claim_sentence}".strip(),
                ]
            )
    head = ["Release", "Attack", "Measure", "Measured", "Twins", "n", "Leaked", "Claim", "In words"]
    return Table(wording.sentences(" ".join(clean.headline), 700), head, rows)
