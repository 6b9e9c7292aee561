"""model-index.md: front matter that Hugging Face reads, one entry a release."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml

from audit.results.schema import Results
from tests import by_hand as make

# As the Hub's own library finds it: the first block between two lines of three dashes.
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n\Z", re.S)


def read(results: Results) -> list[dict[str, Any]]:
    matter = FRONT_MATTER.match(make.text("model_index", results))
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


def only(*found: Any, name: str = "a", **changes: Any) -> dict[str, Any]:
    """The one entry of a run with one release."""
    release = make.release(name, make.guarantee(1.0), *found)
    (model,) = read(make.run(release, **changes))
    return model


def test_an_entry_a_release_that_is_no_reference(results: Results) -> None:
    models = read(results)
    assert [model["name"] for model in models] == ["submix", "as_is", "dp_sgd"]
    assert metrics(models[0])["membership.auc"]["value"] == 0.613
    assert [metrics(model)["leaked"]["value"] for model in models] == [
        "leak", "inconclusive", "leak",
    ]  # fmt: skip


def test_entry_of_a_seed_has_the_answers_over_all_seeds() -> None:
    each = [metrics(model) for model in read(make.silent_seeds(8))]
    answers = ("leaked", "leaked_over_seeds", "claim_over_seeds")
    (said,) = {tuple(one[name]["value"] for name in answers) for one in each}
    assert said == ("no leak found", "leak", "nothing claimed")


@pytest.mark.parametrize("value", [1e-9, 1e22, 3.5e-5, 0.0, math.inf])
def test_numbers_are_numbers_to_a_yaml_reader(value: float) -> None:
    found = make.finding(0.5, ci=None, k=None).model_copy(update={"value": value})
    assert metrics(only(found))["extraction.hit_rate"]["value"] == value


@pytest.mark.parametrize(
    "name", ["---", "a\n---\nb", "!!python/object:os.system", "*x", "null", "1"]
)
def test_name_is_no_syntax(name: str) -> None:
    model = only(make.finding(), name=name, status="partial")
    assert model["name"] == name.replace("\n", "‹U+000A›")
    assert metrics(model)["status"]["value"] == "partial"
