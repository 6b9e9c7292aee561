import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit.results.schema import Cost, GuaranteeResult, Power, schema, to_json
from tests.results.documents import GUARANTEE, document, finding


def in_json(**changes):
    return json.loads(to_json(document(**changes)))["releases"][0]


# numbers


def test_infinity_is_the_string_inf():
    promise = GuaranteeResult(**{**GUARANTEE, "epsilon": math.inf})
    release = in_json(guarantee=promise)
    assert release["guarantee"]["epsilon"] == "inf"
    assert release["guarantee"]["delta"] is None
    assert release["utility"]["perplexity"]["ci"] == [19.0, "inf"]
    assert Cost(train_tokens=1, queries=2, seconds="inf").seconds == math.inf


@pytest.mark.parametrize("value", [math.nan, -math.inf, "nan", "-inf", "much", None])
def test_nan_and_the_like_are_refused(value):
    for build in (
        lambda: Cost(train_tokens=1, queries=2, seconds=value),
        lambda: finding(ci=(0.0, value)),
        lambda: finding(
            power=Power(smallest_rate=0.1, largest_epsilon=None, n=1, confidence=value)
        ),
    ):
        with pytest.raises(ValidationError):
            build()


@pytest.mark.parametrize("value", [[], {}, [1.0]])
def test_what_is_no_number_is_refused_as_such(value):
    with pytest.raises(ValidationError):
        finding(value=value)


def test_nan_cannot_hide_in_a_parameter():
    with pytest.raises(ValueError):
        to_json(document(parameters={"x": math.nan}))


def test_infinity_in_a_parameter_is_the_string_inf_too():
    assert in_json(parameters={"clip": math.inf, "all": (1.0, math.inf)})["parameters"] == {
        "clip": "inf",
        "all": [1.0, "inf"],
    }


def test_numbers_have_six_significant_digits_and_counts_have_all():
    cost = in_json(cost=Cost(train_tokens=123456789, queries=2, seconds=0.000123456789))["cost"]
    assert cost == {"train_tokens": 123456789, "queries": 2, "seconds": 0.000123457}
    assert in_json()["utility"]["perplexity"]["value"] == 20.1235


# the document


CONTRACT = "schema_version status plan environment corpus releases"
OF_RELEASE = "defense parameters seed reference guarantee utility cost findings leaked claim"
OF_FINDING = (
    "attack metric access value ci confidence k n chance control epsilon_lower power "
    "leaked sentence claim claim_sentence"
)


def test_keys_come_in_the_order_of_the_contract():
    release = in_json()
    for found, contract in (
        (json.loads(to_json(document())), CONTRACT),
        (release, OF_RELEASE),
        (release["findings"][0], OF_FINDING),
    ):
        words = contract.split()
        assert [name for name in found if name in words] == words


def test_results_cannot_be_changed_or_extended():
    with pytest.raises(ValidationError):
        document().headline = "better"
    with pytest.raises(ValidationError):
        finding(extra=1)
    for words in ({"leaked": "fine"}, {"claim": "kept"}, {"verdict": "silent"}):
        with pytest.raises(ValidationError):
            finding(**words)


def test_what_a_run_has_measured_is_written_even_so():
    """Hours of work are not lost at their end; whoever reads it is told."""
    assert '"k": 3' in to_json(document(findings=[finding(k=3), finding(k=3)]))


# schema


def test_the_schema_describes_what_is_written():
    jsonschema = pytest.importorskip("jsonschema")
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema())
    validator = kind(schema())
    sample = json.loads(to_json(document()))
    validator.validate(sample)
    for edit in (
        lambda d: d.pop("releases"),
        lambda d: d.update(schema_version="1"),
        lambda d: d.update(extra=1),
        lambda d: d["releases"][0]["guarantee"].update(epsilon="much"),
        lambda d: d["releases"][0]["findings"][0].update(leaked="fine"),
        lambda d: d["releases"][0]["findings"][0].update(claim="fine"),
        lambda d: d["releases"][0]["findings"][0].update(verdict="silent"),
        lambda d: d["releases"][0]["findings"][0].update(ci=[1.0]),
    ):
        bad = json.loads(json.dumps(sample))
        edit(bad)
        assert not validator.is_valid(bad)


def test_the_schema_names_every_field_and_its_types():
    found = schema()
    assert found["additionalProperties"] is False
    assert set(found["properties"]) == {*json.loads(to_json(document())), "sweep"}
    number = found["$defs"]["Cost"]["properties"]["seconds"]["anyOf"]
    assert {"type": "number"} in number
    assert {"const": "inf"} in number


@given(st.floats(1e-12, 1e6))
def test_a_claim_is_never_rounded_down(epsilon):
    from audit.results.schema import GuaranteeResult

    claim = {"unit": "user", "relation": "replace", "release": "model", "basis": "worst case"}
    claim |= {"alpha": None, "theorem": "t", "conditions": [], "published_epsilon": None}
    delta = min(epsilon, 1.0)
    made = GuaranteeResult(epsilon=epsilon, delta=delta, **claim).as_json()
    for exact, written in ((epsilon, made["epsilon"]), (delta, made["delta"])):
        assert exact <= written <= exact * (1 + 2e-5)
