"""model.cdx.json: what CycloneDX 1.6 asks for, and the measures with their intervals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audit.results import digests
from audit.results.schema import Example, Results
from reports import Report
from reports.exports import cyclonedx as report
from tests import by_hand as make

TEXT = {"type": "string", "minLength": 1}


def closed(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(),
            "additionalProperties": False}  # fmt: skip


def many(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


HASH = closed(
    "alg content",
    alg={"const": "SHA-256"},
    content={"type": "string", "pattern": "^[0-9a-f]{64}$"},
)
PROPERTY = closed("name value", name={"type": "string", "pattern": "^audit:"}, value=TEXT)
NAMED = {"name": TEXT, "hashes": many(HASH), "properties": many(PROPERTY)}
METRIC = closed(
    "type value",
    type=TEXT,
    value=TEXT,
    slice={"const": "twins"},
    confidenceInterval=closed("lowerBound upperBound", lowerBound=TEXT, upperBound=TEXT),
)
CARD = closed(
    "modelParameters quantitativeAnalysis considerations properties",
    modelParameters=closed(
        "task datasets", task=TEXT, datasets=many(closed("ref", ref={"const": "corpus"}))
    ),
    quantitativeAnalysis=closed("performanceMetrics", performanceMetrics=many(METRIC)),
    considerations=closed("technicalLimitations", technicalLimitations=many(TEXT)),
    properties=many(PROPERTY),
)
BASE = closed("type name", type={"const": "machine-learning-model"}, **NAMED)
PART = closed("type name hashes", type={"const": "file"}, **NAMED)
MODEL = closed(
    "type name description modelCard",
    type={"const": "machine-learning-model"},
    description=TEXT,
    components=many(PART),
    pedigree=closed("ancestors", ancestors=many(BASE)),
    modelCard=CARD,
    **NAMED,
)
DATA = closed(
    "type name bom-ref data",
    type={"const": "data"},
    data=many(closed("type", type={"const": "dataset"}, name=TEXT, description=TEXT)),
    **{"bom-ref": {"const": "corpus"}, **NAMED},
)
UUID = {"type": "string", "pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
TOOL = closed("type name", type={"const": "application"}, name=TEXT, version=TEXT)
BOM = closed(
    "bomFormat specVersion",
    **{"$schema": {"const": "http://cyclonedx.org/schema/bom-1.6.schema.json"}},
    bomFormat={"const": "CycloneDX"},
    specVersion={"const": "1.6"},
    serialNumber=UUID,
    version={"const": 1},
    metadata=closed("tools", tools=closed("components", components=many(TOOL))),
    components=many({"oneOf": [MODEL, DATA]}),
)  # fmt: skip


def built(results: Results, folder: Path) -> Any:
    document = report.document(Report(results, folder))
    jsonschema.validate(document, BOM)  # the part of CycloneDX 1.6 that is used, closed
    return document


def metrics(component: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = component["modelCard"]["quantitativeAnalysis"][
        "performanceMetrics"
    ]
    return found


def properties(component: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in component["modelCard"]["properties"]}


def test_each_release_that_is_no_reference_is_a_model(results: Results, tmp_path: Path) -> None:
    *models, corpus = built(results, tmp_path)["components"]
    assert [model["name"] for model in models] == ["submix", "as_is", "dp_sgd"]
    assert (corpus["name"], corpus["type"]) == ("helpdesk", "data")
    used = [model["modelCard"]["modelParameters"]["datasets"] for model in models]
    assert used == [[{"ref": corpus["bom-ref"]}]] * 3


def test_values_stand_with_their_intervals_and_their_twins(
    results: Results, tmp_path: Path
) -> None:
    submix = built(results, tmp_path)["components"][0]
    shown = [
        (m["type"], m["value"], *m["confidenceInterval"].values(), m.get("slice"))
        for m in metrics(submix)[:3]
    ]
    assert shown == [
        ("perplexity", "12.4", "9.92", "14.88", None),
        ("extraction.hit_rate", "0", "0", "0.0362", None),
        ("extraction.hit_rate", "0", "0", "0.0301", "twins"),
    ]


def test_answers_and_the_claim_stand_in_properties(results: Results, tmp_path: Path) -> None:
    submix, _, dp_sgd, _ = built(results, tmp_path)["components"]
    assert properties(submix)["audit:leaked:membership.auc"] == "leak"
    assert properties(submix)["audit:leaked"] == "leak"
    assert "ε = 2 nats per part (part removed)" in properties(submix)["audit:claimed"]
    assert properties(dp_sgd)["audit:claim"] == "refuted"
    about = "share of generations; n = 100; 95 % interval: Clopper-Pearson, two-sided"
    assert properties(submix)["audit:measure:extraction.hit_rate"] == about
    twins = properties(submix)["audit:measure:extraction.hit_rate:twins"]
    assert twins == "share of generations; n = 98; 95 % interval: Clopper-Pearson, two-sided"
    assert properties(submix)["audit:status"] == "complete"
    assert properties(submix)["audit:measure:perplexity"].endswith("; 1,024 tokens answered")


def test_more_access_than_the_release_gives_is_said(tmp_path: Path) -> None:
    found = make.finding(0.4, leaked="leak to insiders", stronger_than_release=True)
    model, _ = built(make.run(make.release("a", make.guarantee(1.0), found)), tmp_path)[
        "components"
    ]
    assert properties(model)["audit:leaked:extraction.hit_rate"] == (
        "leak to insiders, with more access than the release gives"
    )


def test_what_was_not_measured_has_no_value(tmp_path: Path) -> None:
    found = make.finding(None, leaked="not measured", control=None)
    model, _ = built(make.run(make.release("a", make.guarantee(1.0), found)), tmp_path)[
        "components"
    ]
    assert [one["type"] for one in metrics(model)] == ["perplexity"]
    assert properties(model)["audit:leaked:extraction.hit_rate"] == "not measured"


def test_hashes_are_written_where_they_are_hashes(tmp_path: Path) -> None:
    run = make.run(make.release("a", make.guarantee(1.0), make.finding()))
    model, corpus = built(run, tmp_path)["components"]
    assert "hashes" not in corpus and "hashes" not in model  # `ab12` is none, and no weights
    whole = run.corpus.model_copy(update={"sha256": "cd" * 32})
    plan = {"model": {"name": "embedded", "sha256": "ef" * 32}, "hash": "1"}
    changed = run.model_copy(update={"corpus": whole, "plan": plan})
    model, corpus = built(changed, tmp_path)["components"]
    assert corpus["hashes"] == [{"alg": "SHA-256", "content": "cd" * 32}]
    assert model["pedigree"]["ancestors"][0]["hashes"][0]["content"] == "ef" * 32


def test_the_number_is_of_the_content(results: Results, tmp_path: Path) -> None:
    again = built(results, tmp_path)["serialNumber"]
    assert built(results, tmp_path)["serialNumber"] == again
    other = results.model_copy(update={"headline": ["other"]})
    assert built(other, tmp_path)["serialNumber"] != again


@pytest.mark.parametrize("name", ["hostile", "hostile_four"])
def test_hostile_names_are_plain_text(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    results = request.getfixturevalue(name)
    text = make.text("cyclonedx", results, tmp_path)
    jsonschema.validate(json.loads(text), BOM)
    assert text.isascii() and not re.search(r"\\u(00[01]|202[a-e]|206[0-9]|200b|d8)", text)


def test_no_example_of_a_generation_is_in_it(tmp_path: Path) -> None:
    example = Example(generation=1, prompt="the words before a secret", planted=True)
    found = make.finding(0.4, leaked="leak", examples=[example], sentence="it said 48213-77")
    run = make.run(make.release("a", make.guarantee(1.0), found))
    text = make.text("cyclonedx", run, tmp_path)
    assert "words before" not in text and "48213" not in text


def test_adapters_and_a_part_of_a_run_are_said(tmp_path: Path) -> None:
    run = make.run(make.release("a", make.guarantee(1.0), make.finding()))
    lora = {"r": 8, "alpha": 16, "targets": "auto"}
    other = run.model_copy(update={"plan": {**run.plan, "lora": lora}, "status": "partial"})
    model, _ = built(other, tmp_path)["components"]
    assert properties(model)["audit:lora"] == "r=8, alpha=16, targets=auto"
    assert properties(model)["audit:status"] == "partial"


@pytest.mark.parametrize(("kind", "whole"), [("model", True), ("predictions", False)])
def test_the_only_member_of_a_service_is_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, whole: bool
) -> None:
    monkeypatch.setattr(digests, "weights", lambda *given: {"one.safetensors": "a" * 64})
    claim = make.guarantee(2.0, release=kind)
    model, _ = built(make.run(make.release("a", claim, make.finding())), tmp_path)["components"]
    assert ("hashes" in model, "components" in model) == (whole, not whole)
