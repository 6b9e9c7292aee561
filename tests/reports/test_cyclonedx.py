"""model.cdx.json: the measures with their intervals; tests/validators hold it to CycloneDX 1.6."""

from __future__ import annotations

from typing import Any

import pytest

from audit.results import digests
from audit.results.schema import Example, Results
from reports import Report
from reports.exports import cyclonedx as report
from tests import by_hand as make


def built(results: Results) -> Any:
    return report.document(Report(results))


def only(*found: Any, kind: str = "model", **changes: Any) -> tuple[Any, Any]:
    """The model and the corpus of a run with one release."""
    release = make.release("a", make.guarantee(2.0, release=kind), *found)
    model, corpus = built(make.run(release, **changes))["components"]
    return model, corpus


def metrics(component: Any) -> list[dict[str, Any]]:
    analysis = component["modelCard"]["quantitativeAnalysis"]
    found: list[dict[str, Any]] = analysis["performanceMetrics"]
    return found


def properties(component: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in component["modelCard"]["properties"]}


def test_each_audited_release_is_a_model(results: Results) -> None:
    *models, corpus = built(results)["components"]
    assert [model["name"] for model in models] == ["submix", "as_is", "dp_sgd"]
    assert (corpus["name"], corpus["type"]) == ("helpdesk", "data")
    used = [model["modelCard"]["modelParameters"]["datasets"] for model in models]
    assert used == [[{"ref": corpus["bom-ref"]}]] * 3


def test_metrics_have_intervals_and_twins(results: Results) -> None:
    submix = built(results)["components"][0]
    shown = [
        (m["type"], m["value"], *m["confidenceInterval"].values(), m.get("slice"))
        for m in metrics(submix)[:3]
    ]
    assert shown == [
        ("perplexity", "12.4", "9.92", "14.88", None),
        ("extraction.hit_rate", "0", "0", "0.0362", None),
        ("extraction.hit_rate", "0", "0", "0.0301", "twins"),
    ]


def test_model_of_a_seed_has_the_answers_over_all_seeds() -> None:
    *models, _ = built(make.silent_seeds(8))["components"]
    answers = [f"audit:{name}" for name in ("leaked", "leaked-over-seeds", "claim-over-seeds")]
    (said,) = {tuple(properties(model)[name] for name in answers) for model in models}
    assert said == ("no leak found", "leak", "nothing claimed")


def test_answers_and_claims_are_properties(results: Results) -> None:
    first, _, dp_sgd, _ = built(results)["components"]
    submix = properties(first)
    about = "share of generations; n = {}; 95 % interval: Clopper-Pearson, two-sided"
    assert submix["audit:leaked:membership.auc"] == submix["audit:leaked"] == "leak"
    assert "ε = 2 nats per part (part removed)" in submix["audit:claimed"]
    assert properties(dp_sgd)["audit:claim"] == "refuted"
    assert submix["audit:measure:extraction.hit_rate"] == about.format(100)
    assert submix["audit:measure:extraction.hit_rate:twins"] == about.format(98)
    assert submix["audit:status"] == "complete"
    assert submix["audit:measure:perplexity"].endswith("; 1,024 tokens answered")


def test_access_beyond_the_release_is_stated() -> None:
    model, _ = only(make.finding(0.4, leaked="leak to insiders", stronger_than_release=True))
    assert properties(model)["audit:leaked:extraction.hit_rate"] == (
        "leak to insiders, with more access than the release gives"
    )


def test_unmeasured_finding_has_no_metric() -> None:
    model, _ = only(make.finding(None, leaked="not measured", control=None))
    assert [one["type"] for one in metrics(model)] == ["perplexity"]
    assert properties(model)["audit:leaked:extraction.hit_rate"] == "not measured"


def test_hashes_are_written_where_they_are_hashes() -> None:
    model, corpus = only(make.finding())
    assert "hashes" not in corpus and "hashes" not in model  # `ab12` is none, and no weights
    whole = make.run().corpus.changed(sha256="cd" * 32)
    plan = {"model": {"name": "embedded", "sha256": "ef" * 32}, "hash": "1"}
    model, corpus = only(make.finding(), corpus=whole, plan=plan)
    assert corpus["hashes"] == [{"alg": "SHA-256", "content": "cd" * 32}]
    assert model["pedigree"]["ancestors"][0]["hashes"][0]["content"] == "ef" * 32


def test_serial_number_is_of_the_content(results: Results) -> None:
    number = built(results)["serialNumber"]
    assert built(results)["serialNumber"] == number
    other = results.model_copy(update={"headline": ["other"]})
    assert built(other)["serialNumber"] != number


def test_hostile_names_stay_ascii_without_examples(hostile_four: Results) -> None:
    assert make.text("cyclonedx", hostile_four).isascii()
    example = Example(generation=1, prompt="the words before a secret", planted=True)
    found = make.finding(0.4, leaked="leak", examples=[example], sentence="it said 48213-77")
    text = make.text("cyclonedx", make.run(make.release("a", make.guarantee(1.0), found)))
    assert "words before" not in text and "48213" not in text


def test_adapters_and_partial_runs_are_stated() -> None:
    lora = {"lora": {"r": 8, "alpha": 16, "targets": "auto"}, "hash": "1"}
    model, _ = only(make.finding(), plan=lora, status="partial")
    assert properties(model)["audit:lora"] == "r=8, alpha=16, targets=auto"
    assert properties(model)["audit:status"] == "partial"


@pytest.mark.parametrize(("kind", "whole"), [("model", True), ("predictions", False)])
def test_member_of_a_service_is_its_part(
    monkeypatch: pytest.MonkeyPatch, kind: str, whole: bool
) -> None:
    monkeypatch.setattr(digests, "weights", lambda *given: {"one.safetensors": "a" * 64})
    model, _ = only(make.finding(), kind=kind)
    assert ("hashes" in model, "components" in model) == (whole, not whole)
