"""`--log mlflow:URI`, with a stand-in for MLflow that keeps what it is told."""

from __future__ import annotations

import contextlib
import math
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from audit import api
from audit.core.errors import UsageError
from audit.results.schema import Results
from reports.exports import _mlflow
from tests import by_hand


class Fake(ModuleType):
    """Keeps each run with its depth, and refuses what MLflow refuses."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.__spec__ = ModuleSpec("mlflow", None)
        self.runs: list[SimpleNamespace] = []
        self.open: list[SimpleNamespace] = []
        self.uri = ""
        self.experiments: list[str] = []

    def set_tracking_uri(self, uri: str) -> None:
        self.uri = uri

    def set_experiment(self, name: str) -> None:
        assert not self.open
        self.experiments.append(name)

    @contextlib.contextmanager
    def start_run(self, run_name: str, nested: bool = False) -> Iterator[None]:
        assert nested == bool(self.open)
        run = SimpleNamespace(name=run_name, tags={}, params={}, metrics={}, files=[])
        self.runs.append(run)
        self.open.append(run)
        yield
        self.open.pop()

    def set_tags(self, tags: dict[str, str]) -> None:
        self.open[-1].tags |= self._named(tags)

    def log_params(self, params: dict[str, str]) -> None:
        self.open[-1].params |= self._named(params)

    def log_metrics(self, metrics: dict[str, float]) -> None:
        assert all(math.isfinite(value) for value in metrics.values())
        self.open[-1].metrics |= self._named(metrics)

    def log_artifact(self, path: str) -> None:
        self.open[-1].files.append(Path(path).name)

    def _named(self, entries: dict[str, Any]) -> dict[str, Any]:
        for name, value in entries.items():
            assert re.fullmatch(r"[\w./ -]+", name, re.A) and posixpath.normpath(name) == name
            assert name not in (".", "..") and len(name) <= 250
            assert not isinstance(value, str) or len(value) <= 250
        return entries


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return fake


def test_audit_and_each_release_are_runs(mlflow: Fake, results: Results, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("a report")
    (tmp_path / "stages").mkdir()
    _mlflow.log(results, tmp_path, "mlflow:http://localhost:5000")
    whole, *releases = mlflow.runs
    assert mlflow.uri == "http://localhost:5000" and mlflow.open == []
    assert (whole.name, whole.files) == (tmp_path.name, ["report.html"])
    assert [one.name for one in releases] == ["submix", "none", "as_is", "dp_sgd", "public"]


def test_runs_sort_by_their_worst_answer_in_a_project(
    mlflow: Fake, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "my-model"
    project.mkdir()
    monkeypatch.chdir(project)
    _mlflow.log(results, tmp_path, "mlflow:x")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    _mlflow.log(results, tmp_path, "mlflow:x")
    assert mlflow.experiments == ["my-model"] * 2
    alone, within = [run for run in mlflow.runs if "headline" in run.tags]
    assert "mlflow.source.git.commit" not in alone.tags
    assert len(within.tags["mlflow.source.git.commit"]) == 40
    (refuted,) = [r for r in results.releases if r.claim == "refuted"]
    assert within.metrics["worst_leak"] == 4
    assert within.metrics["epsilon"] == refuted.guarantee.epsilon
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    _mlflow.log(results, tmp_path, "mlflow:x")
    assert len(mlflow.experiments) == 2  # the variable names it


@pytest.mark.parametrize(("seeds", "worst"), [(6, 1), (8, 3)])
def test_worst_answer_of_a_sweep_is_over_its_seeds(seeds: int, worst: int) -> None:
    """It said 0, no leak found, of a sweep whose page one says LEAK."""
    assert dict(_mlflow._overall(by_hand.silent_seeds(seeds)))["worst_leak"] == worst


def test_worst_answer_of_an_unfinished_run_is_open() -> None:
    clean = by_hand.run(by_hand.release("a", by_hand.guarantee(1.0), by_hand.finding(0.0)))
    assert dict(_mlflow._overall(clean))["worst_leak"] == 0
    assert dict(_mlflow._overall(clean.changed(status="partial")))["worst_leak"] == 1


def test_release_has_metrics_parameters_and_tags(
    mlflow: Fake, results: Results, tmp_path: Path
) -> None:
    _mlflow.log(results, tmp_path, "mlflow:x")
    _, submix, none, _, dp_sgd, _ = mlflow.runs
    names = [f"membership.auc{end}" for end in ("", ".low", ".high")]
    assert [submix.metrics[name] for name in names] == [0.613, 0.55, 0.68]
    assert submix.metrics["claimed_epsilon"] == 2.0
    assert "claimed_epsilon" not in none.metrics  # ε = ∞ is said in words
    assert none.tags["claimed"] == "ε: none promised"
    assert submix.params["parameter.k"] == "8"
    assert [submix.tags[name] for name in ("leaked", "role", "status")] == [
        "leak", "audited", "complete",
    ]  # fmt: skip
    assert submix.tags["membership.auc.about"] == (
        "leak; claim not tested; area under the curve; n = 100; 95 % interval: Clopper-Pearson, "
        "two-sided"
    )
    assert submix.tags["perplexity.about"].startswith("perplexity; n = 17; ")
    assert dp_sgd.tags["claim"] == "refuted"
    assert dp_sgd.tags["extraction.hit_rate.about"].startswith("leak; claim refuted; ")
    assert none.tags["membership.auc.about"].startswith("not measured; nothing claimed; ")


def test_hostile_names_are_names(mlflow: Fake, hostile: Results, tmp_path: Path) -> None:
    _mlflow.log(hostile, tmp_path, "mlflow:x")
    assert len(mlflow.runs) > 1


@pytest.mark.parametrize("target", ["", "mlflow", "mlflow:", "wandb:x", "http://localhost"])
def test_other_targets_are_refused(mlflow: Fake, target: str) -> None:
    with pytest.raises(UsageError, match="expected mlflow:URI"):
        api.check_log(target)


def test_missing_mlflow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match="pip install mlflow"):
        api.check_log("mlflow:x")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "cannot reach https://me:hunter2@tracker.example/\nand more",
            "https://…@tracker.example/",
        ),
        ("got unsupported URI 'sqlite:///x.db'", "pip install mlflow; the run is kept"),
    ],
)
def test_errors_of_a_server_are_one_line(
    mlflow: Fake, results: Results, monkeypatch: pytest.MonkeyPatch, raised: str, said: str
) -> None:
    """Without its password, and with what a lean MLflow lacks."""

    def refuse(uri: str) -> None:
        raise RuntimeError(raised)

    monkeypatch.setattr(mlflow, "set_tracking_uri", refuse)
    with pytest.raises(UsageError) as error:
        _mlflow.log(results, Path("nowhere"), "mlflow:https://me:hunter2@tracker.example")
    assert said in str(error.value)
    assert "hunter2" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore")  # of another library
def test_real_mlflow_keeps_parents_with_metrics(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (tmp_path / "report.html").write_text("a report")
    for _ in range(2):
        _mlflow.log(results, tmp_path, f"mlflow:{tmp_path / 'runs'}")
    (one,) = [e for e in real.search_experiments() if e.name != "Default"]
    runs = real.MlflowClient().search_runs([one.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert (len(parents), len(runs)) == (2, 2 * (1 + len(results.releases)))
    assert {run.data.metrics["worst_leak"] for run in parents} == {4.0}
