"""A format is one file: ours under their names, and the example of the docs, which others bring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from audit import api
from audit.contract.plugin import CHECKS
from audit.core.errors import UsageError
from audit.plugins import registry
from audit.results.schema import Results, to_json
from audit.run import reports as writing
from reports import Format, Report
from tests import by_hand as make


def test_formats_are_found_under_their_names() -> None:
    names = "annex csv cyclonedx html intoto json junit model_index pdf sarif"
    assert registry.names("reports") == names.split()


def test_outcomes_of_many_secrets_are_kept_whole() -> None:
    """Cut like a long text, they are no outcomes: no format could be written."""
    found = make.finding(0.0, n=2500, outcomes="0" * 2500)
    report = Report(make.run(make.release("submix", make.guarantee(1.0), found)))
    assert report.results.releases[0].findings[0].outcomes == found.outcomes


def test_command_of_a_large_sweep_is_kept_whole() -> None:
    """Cut like a long text, it was no command of audit: the report had none."""
    settings = " ".join(f"--defense dp_sgd:epsilon={place}" for place in range(300))
    results = make.run(reproduce=f"audit sweep {settings}")
    assert Report(results).results.again == results.reproduce


@pytest.fixture
def theirs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blocks: Callable[[str, str], list[str]],
    forgotten_package: None,
) -> Format:
    """The format of the docs as an installed package of its own."""
    source, *_ = blocks("adding-a-format", "python")
    project, *_ = blocks("adding-a-format", "toml")
    assert 'leaks = "my_package.leaks"' in project and len(source.splitlines()) < 30
    package, record = tmp_path / "site" / "my_package", tmp_path / "site" / "my_package-1.dist-info"
    for folder in (package, record):
        folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "leaks.py").write_text(source, encoding="utf-8")
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    (record / "entry_points.txt").write_text("[audit.reports]\nleaks = my_package.leaks\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return registry.build("reports", "leaks", Format, {})[1]  # type: ignore[type-abstract]


def test_a_format_of_others_is_one_file(theirs: Format, results: Results, tmp_path: Path) -> None:
    for check in CHECKS:
        check(theirs)
    report = Report(results, tmp_path)
    assert writing.write(report, ["leaks", "json"]) == [tmp_path / "leaks.txt"]
    assert (tmp_path / "leaks.txt").read_text("utf-8") == "submix: 1\nnone: 1\ndp_sgd: 1\n"
    (tmp_path / "results.json").write_text(to_json(make.run()), encoding="utf-8")
    api.write_reports(tmp_path, ["leaks"])
    assert (tmp_path / "leaks.txt").read_text("utf-8") == ""
    with pytest.raises(UsageError, match="html or pdf"):
        api.write_comparison(results, results, tmp_path, ["html", "leaks"])
    assert not (tmp_path / "comparison.html").exists()


def test_a_report_is_built_once_and_only_as_far_as_it_is_asked(
    results: Results, tmp_path: Path
) -> None:
    report = Report(results, tmp_path)
    writing.write(report, ["csv"])
    assert "results" in vars(report) and not {"page", "figures", "outcome"} & vars(report).keys()
    writing.write(report, ["html"])
    page, figures = report.page, report.figures
    writing.write(report, ["pdf"])
    assert report.page is page and report.figures is figures


def test_formats_write_nothing_where_one_of_them_refuses(tmp_path: Path) -> None:
    partial = Report(make.run(status="partial"), tmp_path)
    with pytest.raises(UsageError, match="partial, not complete"):
        writing.write(partial, ["csv", "junit"])
    assert not list(tmp_path.iterdir())
