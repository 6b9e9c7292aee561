"""Writes reports: the last step of a run, and the only place that writes the files of formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.progress import StepProgress
from audit.core.writing import make_folder
from audit.gate.files import replaced
from audit.plugins import registry
from audit.results import foreign
from audit.results.schema import Results, to_json
from reports import Format, Report, TwoRuns


def write(
    report: Report, formats: Iterable[str], report_step: StepProgress = lambda label, share: None
) -> list[Path]:
    """Write a report in each format into its folder; return the path of each file.

    Raises UsageError, and writes nothing, where one of the formats cannot have it.
    """
    foreign.check(report.folder)
    files: dict[str, bytes] = {}
    for name in formats:
        report_step(f"writing {name}", 0.0)
        files |= _format(name).files(report)
    return _written(files, report.folder)


def write_results(results: Results, folder: Path, formats: Iterable[str]) -> list[Path]:
    """Write results.json of results that no run made, with its reports, into a folder.

    Raises UsageError where it cannot be written.
    """
    _make(folder)
    made = replaced(folder / "results.json", to_json(results))
    return [made, *write(Report(results, folder), formats)]


def write_comparison(runs: TwoRuns, formats: Iterable[str], folder: Path) -> list[Path]:
    """Write two runs side by side in each format into a folder, as `write` does."""
    files: dict[str, bytes] = {}
    for name in formats:
        files |= _format(name).compared(runs)
    if files:
        _make(folder)
    return _written(files, folder)


def write_figure(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Write the files of a paper's figure into a folder, as `write` does."""
    _make(folder)
    foreign.check(folder)
    return _written(files, folder)


def _make(folder: Path) -> None:
    try:
        make_folder(folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made ({error.strerror})") from None


def _format(name: str) -> Format:
    return registry.build("reports", name, Format, {})[1]  # type: ignore[type-abstract]


def _written(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    return [replaced(folder / name, content) for name, content in files.items()]
