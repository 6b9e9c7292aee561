"""model-index.md: front matter that Hugging Face reads, one entry a release."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from audit.results.schema import Results
from reports import model_index as report

# As the Hub's own library finds it: the first block between two lines of three dashes.
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n\Z", re.S)


def read(results: Results, folder: Path) -> list[dict[str, Any]]:
    text = report.write(results, folder).read_text(encoding="utf-8")
    matter = FRONT_MATTER.match(text)
    assert matter is not None
    assert not re.search(r"^---", matter[1], re.M)
    document = yaml.safe_load(matter[1])
    assert list(document) == ["model-index"]
    models: list[dict[str, Any]] = document["model-index"]
    for model in models:
        assert set(model) == {"name", "results"}
        for result in model["results"]:
            assert set(result) == {"task", "dataset", "metrics"}
            assert result["task"]["type"] == "text-generation"
            assert re.fullmatch(r"[\w.-]+", result["dataset"]["type"])
            for metric in result["metrics"]:
                assert set(metric) == {"type", "name", "value"}
                assert isinstance(metric["value"], str | float | int)
    return models


def metrics(model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {metric["type"]: metric for metric in model["results"][0]["metrics"]}


def test_an_entry_a_release_that_is_no_reference(results: Results, tmp_path: Path) -> None:
    assert [m["name"] for m in read(results, tmp_path)] == ["submix", "as_is", "dp_sgd"]


def test_values_are_numbers_with_their_interval_and_their_answer(
    results: Results, tmp_path: Path
) -> None:
    submix, _, dp_sgd = read(results, tmp_path)
    found = metrics(submix)
    assert found["membership.auc"]["value"] == 0.613
    assert found["membership.auc"]["name"] == (
        "membership, AUC: leak (area under the curve; n = 100; 95 % interval: 0.55 to 0.68, "
        "Clopper-Pearson, two-sided)"
    )
    assert found["perplexity"]["value"] == 12.4
    assert "ε = 2 nats per part (part removed)" in found["claimed_epsilon"]["value"]
    assert (found["leaked"]["value"], metrics(dp_sgd)["claim"]["value"]) == ("leak", "refuted")


@pytest.mark.parametrize("value", [1e-9, 1e22, 3.5e-5, 0.0, math.inf])
def test_numbers_are_numbers_to_a_yaml_reader(
    make: SimpleNamespace, tmp_path: Path, value: float
) -> None:
    found = make.finding(0.5, ci=None, k=None).model_copy(update={"value": value})
    (model,) = read(make.run(make.release("a", make.guarantee(1.0), found)), tmp_path)
    assert metrics(model)["extraction.hit_rate"]["value"] == value


def test_hostile_names_stay_text(hostile: Results, tmp_path: Path) -> None:
    models = read(hostile, tmp_path)
    assert len(models) == 3
    assert all(model["name"].startswith('=cmd|"/C calc"') for model in models)
    assert all(metric["name"].isprintable() for m in models for metric in metrics(m).values())


@pytest.mark.parametrize(
    "name", ["---", "a\n---\nb", "!!python/object:os.system", "*x", "null", "1"]
)
def test_a_name_is_no_syntax(make: SimpleNamespace, tmp_path: Path, name: str) -> None:
    run = make.run(make.release(name, make.guarantee(1.0), make.finding()))
    (model,) = read(run, tmp_path)
    assert isinstance(model["name"], str)
    assert model["name"] == name.replace("\n", "‹U+000A›")


def test_a_measure_says_where_it_was_made(make: SimpleNamespace, tmp_path: Path) -> None:
    release = make.release("a", make.guarantee(1.0), make.finding())
    best = release.utility["perplexity"].model_copy(update={"share": 0.4})
    other = release.model_copy(update={"utility": {"perplexity": best}})
    (model,) = read(make.run(other), tmp_path)
    assert metrics(model)["perplexity"]["name"] == (
        "perplexity (perplexity; n = 17; 95 % interval: 9.92 to 14.88, bootstrap; "
        "1,024 tokens answered; at the best step, after 40\u00a0% of the training)"
    )


def test_a_run_that_is_not_complete_says_so(make: SimpleNamespace, tmp_path: Path) -> None:
    whole = make.run(make.release("a", make.guarantee(1.0), make.finding()))
    for status in ("complete", "partial"):
        (model,) = read(whole.model_copy(update={"status": status}), tmp_path)
        assert metrics(model)["status"]["value"] == status
