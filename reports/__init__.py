"""Report formats: one a file, whose name is the word after `--format`; `exports/` is for machines.

A format turns a `Report` into files and writes none of them: `audit.run.reports` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from audit.core.errors import UsageError
from audit.gate import files, stored
from audit.gate.outcome import Outcome
from audit.results import digests
from audit.results.schema import Results
from reports._content import page
from reports._content.comparison import TwoRuns
from reports._content.figure import Figures
from reports._content.page import Page
from reports._content.releases import inert, shown

__all__ = ["Format", "Report", "TwoRuns"]


@final
@dataclass(frozen=True)
class Report:
    """A run or a sweep as formats see it: built once, and handed to each.

    stored: as results.json has it. folder: of the run.
    policy, baseline, strict: what `outcome` goes by; None: the file in the working directory.
    reread: whether the folder was not written just now; `outcome` asks it whether its run finished.
    """

    stored: Results
    folder: Path = Path()
    policy: Path | None = None
    baseline: Path | None = None
    strict: bool = False
    reread: bool = False

    @cached_property
    def results(self) -> Results:
        """The results with every string visible, which all that is shown starts from."""
        return inert(self.stored)

    @cached_property
    def page(self) -> Page:
        """Content of html and pdf, apart from the figures."""
        of = self.results
        return page.build(of, shown(of), stored.read(self.folder), of.sweep)

    @cached_property
    def figures(self) -> Figures:
        """The figures that the results have data for."""
        from reports._figures import run  # loads matplotlib, which most formats do without

        return Figures(run.of(self.results))

    @cached_property
    def weights(self) -> list[dict[str, str]]:
        """SHA-256 of the weights of each release, by file name, as far as the folder has them."""
        of = self.stored
        return [digests.weights(self.folder, of, release) for release in of.releases]

    @cached_property
    def outcome(self) -> Outcome:
        """The verdict of the gate. Raises UsageError for a run that is not complete."""
        if self.reread:
            files.finished(self.folder)
        return files.judged(self.stored, self.policy, self.baseline, self.strict)


class Format(ABC):
    """A final frozen dataclass in a file of its own."""

    @abstractmethod
    def files(self, report: Report) -> dict[str, bytes]:
        """Return the files by name; the same report gives the same bytes. Raises UsageError."""

    def compared(self, runs: TwoRuns) -> dict[str, bytes]:
        """Return the files of two runs side by side. Raises UsageError where it has no such."""
        raise UsageError("--format: a comparison is written as html or pdf")
