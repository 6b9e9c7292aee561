"""Each export by the schema, or the library, of those who publish its format."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from audit.findings import stored
from audit.results.schema import Results
from reports import Report
from reports.exports import cyclonedx, intoto, model_index

pytestmark = pytest.mark.validators
NAMES = ("results", "four", "hostile", "hostile_four", "swept", "hostile_swept")
SCHEMAS = "python/cyclonedx/schema/_res"


@pytest.fixture(scope="module")
def every(by_hand: dict[str, Results], real: dict[str, Path]) -> dict[str, Report]:
    """Reports of every kind: by name."""
    run = {name: Report(stored.load(real[name] / "results.json"), real[name]) for name in real}
    return {name: Report(by_hand[name], Path("nowhere")) for name in NAMES} | run


@pytest.fixture(scope="module")
def bom(installed: Callable[[str], Path]) -> Callable[[Any], list[str]]:
    """CycloneDX' own schema of version 1.6, with the two that it refers to."""
    from referencing import Registry, Resource

    def read(name: str) -> Any:
        return json.loads(installed(f"{SCHEMAS}/{name}.schema.json").read_text(encoding="utf-8"))

    schema = read("bom-1.6.SNAPSHOT")
    beside = [Resource.from_contents(read(f"{n}.SNAPSHOT")) for n in ("spdx", "jsf-0.82")]
    registry: Any = Registry().with_resources((r.id() or "", r) for r in beside)
    validator = jsonschema.Draft7Validator(schema, registry=registry)
    return lambda document: [error.message for error in validator.iter_errors(document)]


def test_cyclonedx_is_what_its_schema_asks_for(
    bom: Callable[[Any], list[str]], every: dict[str, Report]
) -> None:
    found = {name: bom(cyclonedx.document(one)) for name, one in every.items()}
    assert {name: errors for name, errors in found.items() if errors} == {}


def test_the_weights_of_a_real_run_are_in_it(every: dict[str, Report]) -> None:
    models = cyclonedx.document(every["run"])["components"][:-1]
    by_name = {model["name"]: model for model in models}
    assert by_name["dp_sgd"]["hashes"] and len(by_name["submix"]["components"]) > 1


def test_the_cyclonedx_schema_sees_a_fault(
    bom: Callable[[Any], list[str]], every: dict[str, Report]
) -> None:
    text = json.dumps(cyclonedx.document(every["run"]))
    for good, bad in (
        ('"lowerBound"', '"lower"'),
        ('"SHA-256"', '"SHA256"'),
        ('"machine-learning-model"', '"model"'),
        ('"urn:uuid:', '"urn:'),
    ):
        assert good in text and bom(json.loads(text.replace(good, bad)))


@pytest.fixture(scope="module")
def protocol(installed: Callable[[str], Path]) -> Callable[[Any], None]:
    """in-toto's own messages. Raises where one has a field that they have not."""
    sys.path.append(str(installed("python/in_toto_attestation").parent))
    from google.protobuf import json_format
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    def check(document: Any) -> None:
        message = json_format.ParseDict(document, statement_pb2.Statement())
        Statement.copy_from_pb(message).validate()
        json_format.ParseDict(document["predicate"], test_result_pb2.TestResult())

    return check


def test_intoto_is_what_its_messages_hold(
    protocol: Callable[[Any], None], every: dict[str, Report]
) -> None:
    for report in every.values():
        protocol(intoto.statement(report))


def test_the_intoto_messages_see_a_fault(
    protocol: Callable[[Any], None], every: dict[str, Report]
) -> None:
    text = json.dumps(intoto.statement(every["run"]))
    for good, bad in (('"passedTests"', '"passed"'), ('"digest"', '"hash"'),
                      ("Statement/v1", "Statement/v0")):  # fmt: skip
        assert good in text
        with pytest.raises(Exception, match=r"field|digest|type"):
            protocol(json.loads(text.replace(good, bad)))


def test_a_model_index_is_read_by_the_hubs_library(every: dict[str, Report]) -> None:
    hub = pytest.importorskip("huggingface_hub")
    for report in every.values():
        (text,) = model_index.ModelIndex().files(report).values()
        models = yaml.safe_load(text.decode("utf-8").strip("-\n"))["model-index"]
        for model in models:  # a card is of one model
            one = yaml.safe_dump({"model-index": [model]}, allow_unicode=True)
            card = hub.ModelCard(f"---\n{one}---\n")
            metrics = [m for result in model["results"] for m in result["metrics"]]
            read = [(m.metric_type, m.metric_value) for m in card.data.eval_results]
            assert sorted(map(str, read)) == sorted(str((m["type"], m["value"])) for m in metrics)
            assert card.data.model_name == model["name"]
