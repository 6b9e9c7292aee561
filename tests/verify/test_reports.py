"""Reports that are written again from a run folder: which files, and of which runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import api
from audit.core.errors import UsageError
from tests.verify.conftest import Folder


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
@pytest.mark.parametrize("name", ["intoto", "junit", "sarif"])
def test_nothing_is_attested_of_a_run_that_the_gate_refuses(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, status: str
) -> None:
    monkeypatch.chdir(folder.path)
    before = sorted(path.name for path in folder.path.iterdir())
    folder.edit("manifest.json", lambda d: d.update(status=status))
    with pytest.raises(UsageError, match=f"the run is {status}.*, not complete"):
        api.write_reports(folder.path, ["csv", name])
    assert sorted(path.name for path in folder.path.iterdir()) == before


def test_each_file_that_is_written_is_named(folder: Folder) -> None:
    before = set(folder.path.iterdir())
    written = api.write_reports(folder.path, ["annex", "csv"])
    assert set(written) == {*folder.path.iterdir()} - before
    assert [path.name for path in written if path.suffix != ".csv"] == [
        *("annex.html", "annex.pdf", "annex.json"),
    ]


def test_the_table_of_a_sweep_is_named(sweep: Folder) -> None:
    names = [Path(path).name for path in api.write_reports(sweep.path, ["csv"])]
    assert names == ["findings.csv", "sweep.csv"]
