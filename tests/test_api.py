"""docs/python.md, executed as it stands, and what it says of settings and names."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.errors import UsageError
from audit.plan.settings import KNOWN, TABLES

DOC = Path(__file__).parents[1] / "docs" / "python.md"


def executed(cell: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a notebook cell prints, and the value of its last line, if that is an expression."""
    tree, value = ast.parse(cell), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, DOC.name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), DOC.name, "eval"), names)
    return printed.getvalue(), value


@pytest.fixture(scope="module")
def notebook(
    tmp_path_factory: pytest.TempPathFactory, blocks: Callable[[str, str], list[str]]
) -> Iterator[tuple[Path, list[tuple[str, Any]], dict[str, Any]]]:
    """Where the page's cells were run one after the other, what each gave, and their names."""
    folder, names = tmp_path_factory.mktemp("notebook"), dict[str, Any]()
    with contextlib.chdir(folder):
        yield folder, [executed(cell, names) for cell in blocks("python", "python")], names


@pytest.mark.slow
def test_the_page_runs_as_a_notebook(notebook: Any) -> None:
    folder, cells, names = notebook
    (scored, _), (planned, results), (_, table), (_, drawn), (told, _), (gated, _), _ = cells
    assert "no leak found not refuted" in scored
    assert api.load(folder / "audits" / "scores") == names["seen"].results
    assert "redaction" in planned and "least leak" not in planned
    headline = " ".join(results.headline)
    assert headline.startswith("redaction: ") and "extraction:generations=20" in headline
    title, rest = repr(results).split("\n", 1)
    assert title.startswith("INCONCLUSIVE: ") and rest.startswith(headline)
    assert len(repr(results)) < 2000
    assert headline in results._repr_html_() and "<img" in results._repr_html_()
    assert names["earlier"] == names["results"]
    assert isinstance(table, api.Findings) and isinstance(drawn, api.Figures)
    assert [line.split()[0] for line in told.splitlines() if not line.startswith(" ")] == [
        "redaction", "none", "public",
    ]  # fmt: skip
    assert gated.startswith("gate: INCONCLUSIVE") and "Nothing differs." in gated
    assert len(list(folder.glob("figure-*.svg"))) == len(drawn) > 0


@pytest.mark.slow
def test_it_is_the_run_of_the_command_line(notebook: Any, tmp_path: Path) -> None:
    folder, _, names = notebook
    asked = names["asked"]
    plan = "utility_tokens = 200\n[planting]\nusers = 12\n[training]\nepochs = 1\n"
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    line = [sys.executable, "-m", "audit", "run", "--plan", "plan.toml", "--output", "out"]
    line += ["--defense", asked["defense"], "--attack", *asked["attack"], "--format", "json"]
    line += ["--workers", "1"]
    subprocess.run(line, cwd=tmp_path, check=True, capture_output=True)
    one, other = (
        json.loads((run / "results.json").read_text(encoding="utf-8"))
        for run in (folder / asked["output"], tmp_path / "out")
    )
    for document in (one, other):
        document.pop("environment")
        for release in document["releases"]:
            release.pop("cost")
    assert one == other


def test_the_page_asks_for_names_and_settings_that_exist(
    blocks: Callable[[str, str], list[str]],
) -> None:
    """What is found without running it."""
    nodes = [node for cell in blocks("python", "python") for node in ast.walk(ast.parse(cell))]
    used = {ast.unparse(n) for n in nodes if isinstance(n, ast.Attribute)}
    named = {name.removeprefix("api.") for name in used if name.startswith("api.")}
    assert named == {
        "audit_scores",
        "compare",
        "dry_run",
        "figures",
        "findings",
        "gate",
        "load",
        "run",
    }
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "dict"]
    (asked,) = ({keyword.arg for keyword in call.keywords} for call in calls)
    assert asked <= {*KNOWN, *TABLES}


def test_every_name_is_told_typed_and_documented() -> None:
    page = DOC.read_text(encoding="utf-8")
    for name in api.__all__:
        found = getattr(api, name)
        assert f"`{name}" in page, name
        assert inspect.getdoc(found), name
        if isinstance(found, types.FunctionType):
            hints = inspect.get_annotations(found)
            assert set(hints) >= {*inspect.signature(found).parameters, "return"}
            for parameter in inspect.signature(found).parameters:
                assert parameter in page, (name, parameter)


def test_its_settings_are_those_of_a_plan_file() -> None:
    assert set(typing.get_type_hints(api.Settings)) == {*KNOWN, *TABLES}


def test_importing_it_is_light() -> None:
    code = "import sys; from audit import api; print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    heavy = {"torch", "transformers", "matplotlib", "numpy", "pandas", "scipy", "typst", "reports"}
    assert not heavy & set(done.stdout.split())


BAD: dict[str, dict[str, Any]] = {
    "run: unknown key 'defence'; did you mean 'defense'?": {"defence": "submix"},
    "unknown defense 'submx'; did you mean 'submix'?": {"defense": "submx"},
    "run: seed is 'x'; expected a whole number": {"seed": "x"},
    "run: planting must be a table": {"planting": 3},
    "run: corpus takes one value, not a list": {"corpus": ["a", "b"]},
    "training: unknown key 'epoch'; did you mean 'epochs'?": {"training": {"epoch": 1}},
    "nowhere.toml: no such file": {"plan": "nowhere.toml"},
}


def test_bad_settings_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for message, settings in BAD.items():
        asked = {"defense": "none", "attack": "extraction", **settings}
        for call in (api.run, api.dry_run):
            with pytest.raises(UsageError) as raised:
                call(**asked)  # type: ignore[arg-type]
            assert str(raised.value) == message
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="no results here"):
        api.load(tmp_path)


def test_an_argument_goes_before_a_variable_and_this_before_the_plan_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = tmp_path / "plan.toml"
    plan.write_text('defense = "none"\nattack = "extraction"\nseed = 5\n', encoding="utf-8")
    planting = {"users": 7}

    def seed(**settings: Any) -> str:
        return api.dry_run(plan, planting=planting, **settings).split("--seed ")[1].split()[0]

    assert seed() == "5"
    monkeypatch.setenv("AUDIT_SEED", "6")
    assert (seed(), seed(seed=None), seed(seed=0)) == ("6", "6", "0")
