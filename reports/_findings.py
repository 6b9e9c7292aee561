"""All findings of a run as a table that shows itself in a notebook."""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from typing import Any

from audit.core.errors import UsageError
from audit.results import words
from audit.results.schema import Results
from reports import Report, csv
from reports._content import verdicts, wording
from reports._content.releases import inert, named
from reports._content.table import Table

_HEAD = ["Release", "Attack", "Measure", "Measured", "Twins", "n", "Leaked", "Claim", "In words"]


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
        return "\n".join(_table(self.results).lines)

    def _repr_html_(self) -> str:
        return _table(self.results).markup()


def _table(results: Results) -> Table:
    """Make a table of every finding in words, the same as the report's."""
    clean = inert(results)
    rows = [
        [
            one.name,
            wording.spelled(f.attack),
            wording.metric(f.attack, f.metric),
            verdicts.measured(f),
            wording.beside(f.control, f.unit),
            words.integer(f.n),
            str(f.leaked),
            str(f.claim),
            f"{f.sentence} {f.claim_sentence}".strip(),
        ]
        for one in named(clean.releases)
        for f in one.release.findings
    ]
    return Table(wording.sentences(" ".join(clean.headline), 700), _HEAD, rows)
