import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit.core.errors import UsageError
from audit.results.schema import (
    Control,
    CorpusResult,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    Results,
    SessionResult,
    load,
    schema,
    to_json,
)

GUARANTEE = {
    "epsilon": 2.0,
    "delta": None,
    "alpha": 2.0,
    "unit": "part",
    "relation": "removed",
    "release": "predictions",
    "basis": "data-dependent",
    "theorem": "t",
    "conditions": ["c"],
    "published_epsilon": None,
}


def finding(**changes):
    fields = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        "value": 0.01,
        "ci": (0.0, 0.03),
        "confidence": 0.95,
        "method": "Clopper-Pearson",
        "k": 1,
        "n": 100,
        "chance": 1e-5,
        "control": Control(value=0.0, ci=(0.0, 0.03), k=0, n=100),
        "p_value": 0.2,
        "epsilon_lower": EpsilonLower(
            value=0.1, method="one_run", hypothesis="none", unit="user",
            relation="add_or_remove", delta=1e-3, m=9, r=9, v=5,
        ),
        "power": Power(smallest_rate=0.03, largest_epsilon=None, n=100),
        "verdict": "silent",
        "sentence": "Nothing ☺.",
    }  # fmt: skip
    return FindingResult(**{**fields, **changes})


def document(**changes):
    """A whole run, with every kind of value in it."""
    release = {
        "defense": "submix",
        "parameters": {"k": 8, "beta": None},
        "seed": 0,
        "reference": False,
        "role": "audited",
        "guarantee": GuaranteeResult(**GUARANTEE),
        "utility": {
            "perplexity": Measure(
                value=20.123456789, ci=(19.0, math.inf), n=7, method="bootstrap", unit="perplexity"
            )
        },
        "cost": Cost(train_tokens=1, queries=2, seconds=0.5),
        "sessions": [
            SessionResult(
                purpose="utility", queries=3, answered=2, budget=9, remaining=6, stopped_at=2,
                epsilon_spent=[0.1, 0.2], spent_curve=[(1, 0.1), (2, 0.2)],
            )
        ],
        "findings": [
            finding(),
            finding(metric="tpr", value=None, ci=None, k=None, control=None, epsilon_lower=None),
        ],
    }  # fmt: skip
    whole = {
        "status": "complete",
        "headline": "h",
        "not_tested": [],
        "warnings": [],
        "reproduce": "audit run",
        "plan": {"hash": "a"},
        "environment": {},
        "corpus": CorpusResult(
            name="c", sha256="a", records=1, users=1, near_duplicates=0, planted_users=1,
            trained_users=1, twins=0,
        ),
        "releases": [ReleaseResult(**{**release, **changes})],
    }  # fmt: skip
    return Results(**whole)


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


# round trip


def test_reading_and_writing_again_gives_the_same_bytes(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(to_json(document()), encoding="utf-8")
    again = load(path)
    assert to_json(again) == path.read_text(encoding="utf-8")
    assert to_json(again).endswith("}\n")
    assert math.isinf(again.releases[0].utility["perplexity"].ci[1])
    assert "☺" in path.read_text(encoding="utf-8")


CONTRACT = "schema_version status plan environment corpus releases"
OF_RELEASE = "defense parameters seed reference guarantee utility cost findings"
OF_FINDING = (
    "attack metric access value ci confidence k n chance control epsilon_lower power "
    "verdict sentence"
)


def test_keys_come_in_the_order_of_the_contract():
    release = in_json()
    for found, contract in (
        (json.loads(to_json(document())), CONTRACT),
        (release, OF_RELEASE),
        (release["findings"][0], OF_FINDING),
        (release["guarantee"], " ".join(GUARANTEE)),
    ):
        words = contract.split()
        assert [name for name in found if name in words] == words


def test_results_cannot_be_changed_or_extended():
    with pytest.raises(ValidationError):
        document().headline = "better"
    with pytest.raises(ValidationError):
        finding(extra=1)
    with pytest.raises(ValidationError):
        finding(verdict="fine")


# loading


def broken(tmp_path, edit):
    found = json.loads(to_json(document()))
    edit(found)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(schema_version="2"), "schema version '2'; this audit reads '1'"),
        (lambda d: d.update(schema_version=1), "schema version 1;"),
        (lambda d: d.pop("schema_version"), "schema version None"),
        (lambda d: d.pop("corpus"), "corpus: "),
        (lambda d: d.update(extra=1), "extra: "),
        (lambda d: d["releases"][0].update(seed="x"), r"releases\.0\.seed: "),
        (lambda d: d["releases"][0]["cost"].update(seconds=float("nan")), r"cost\.seconds"),
        (lambda d: d["releases"][0]["findings"][0].update(value=[]), r"findings\.0\.value"),
        (lambda d: d["releases"][0]["guarantee"].update(epsilon={}), r"guarantee\.epsilon"),
    ],
)
def test_a_bad_document_is_refused_by_its_place(tmp_path, edit, message):
    path = broken(tmp_path, edit)
    with pytest.raises(UsageError, match=message) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def first(edits):
    """An edit of the first finding."""
    return lambda d: d["releases"][0]["findings"][0].update(edits)


def twice(key, where):
    def edit(document):
        here = where(document)
        here[key].append(here[key][0])

    return edit


COUNTED = {"k": 1, "n": 4, "value": 0.25, "ci": [0.0, 0.9]}
CONTRADICTIONS = [
    (twice("releases", lambda d: d), r"json: submix .* seed 0 is there twice"),
    (twice("findings", lambda d: d["releases"][0]), r"releases\.0: extraction hit_rate is there"),
    (first({"value": 0.9, "ci": [0, 0], "k": None}), "0.9 lies outside its interval"),
    (first({"value": 0.0, "ci": [0.1, 0.2], "k": None}), "0 lies outside its interval"),
    (first({"ci": [0.03, 0.0]}), r"findings\.0\.ci: the interval \[0.03, 0\] is reversed"),
    (first({"k": 101, "value": None}), r"findings\.0: k = 101 of n = 100"),
    (first({"k": 0, "n": 2**53, "value": 0.0}), r"findings\.0\.n: "),
    (first({"k": -1}), r"findings\.0\.k: "),
    (first({"k": 1e30, "n": 1e30}), r"findings\.0\.k: "),
    (first({"n": -5}), r"findings\.0\.n: "),
    (first({"k": 3}), "0.01 is not k = 3 of n = 100"),
    (first({"k": 0, "n": 0}), "0.01 is not k = 0 of n = 0"),
    (first({**COUNTED, "outcomes": "0000"}), "outcomes say 0 of 4, k and n 1 of 4"),
    (first({**COUNTED, "outcomes": "1---"}), "outcomes say 1 of 1, k and n 1 of 4"),
    (first({**COUNTED, "k": None, "outcomes": "1000"}), "outcomes say 1 of 4, k and n None"),
    (first({"confidence": 1}), r"findings\.0\.confidence: "),
    (first({"confidence": 0}), r"findings\.0\.confidence: "),
    (first({"confidence": math.nan}), r"findings\.0\.confidence: "),
    (first({"value": 10**400}), r"findings\.0\.value: expected a number"),
    (lambda d: d["releases"][0]["guarantee"].update(epsilon=-1), r"guarantee\.epsilon: "),
    (lambda d: d["releases"][0]["guarantee"].update(delta=-1e-9), r"guarantee\.delta: "),
    (lambda d: d["releases"][0]["utility"]["perplexity"].update(value=3), "3 lies outside"),
    (lambda d: d["releases"][0]["utility"]["perplexity"].update(confidence=1), "confidence"),
    (lambda d: d["releases"][0]["findings"][0]["control"].update(k=7), "not k = 7 of n = 100"),
    (lambda d: d["releases"][0]["findings"][0]["epsilon_lower"].update(v=10), "such evidence"),
    (lambda d: d["releases"][0]["findings"][0]["epsilon_lower"].update(m=None), "such evidence"),
    (lambda d: d["releases"][0]["findings"][0]["epsilon_lower"].update(rank=1), "such evidence"),
    (lambda d: d["plan"].update(attacks=None), "plan.attacks must be a list of tables"),
    (lambda d: d["plan"].update(attacks=[{}]), "plan.attacks must be a list of tables"),
]


@pytest.mark.parametrize(("edit", "message"), CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(tmp_path, edit, message):
    path = broken(tmp_path, edit)
    with pytest.raises(UsageError, match=message) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@given(st.integers(0, 10**8), st.integers(1, 10**8))
def test_six_digits_of_a_rate_contradict_nothing(tmp_path_factory, k, n):
    """Nor do they where the interval has no width at all."""
    rate = min(k, n) / n
    one = finding(k=min(k, n), n=n, value=rate, ci=(rate, rate))
    path = tmp_path_factory.mktemp("rounded") / "results.json"
    path.write_text(to_json(document(findings=[one])))
    assert load(path).releases[0].findings[0].k == min(k, n)


def test_nor_do_they_where_computing_was_not_exact(tmp_path):
    """A mean of like values may miss them by the last digit, and be rounded to the other side."""
    one = finding(k=None, value=0.1234565000001, ci=(0.0, 0.1234564999999))
    path = tmp_path / "results.json"
    path.write_text(to_json(document(findings=[one])))
    assert load(path).releases[0].findings[0].value > load(path).releases[0].findings[0].ci[1]


def test_what_is_not_known_of_a_secret_is_in_no_count(tmp_path):
    one = finding(**{**COUNTED, "outcomes": "-01--00-"})
    path = tmp_path / "results.json"
    path.write_text(to_json(document(findings=[one])))
    assert load(path).releases[0].findings[0].outcomes == "-01--00-"


def test_the_same_attack_on_two_seeds_and_two_settings_is_no_repetition(tmp_path):
    one = document().releases[0]
    alike = [one, one.model_copy(update={"seed": 1}), one.model_copy(update={"parameters": {}})]
    path = tmp_path / "results.json"
    path.write_text(to_json(document().model_copy(update={"releases": alike})))
    assert len(load(path).releases) == 3


def test_what_a_run_has_measured_is_written_even_so():
    """Hours of work are not lost at their end; whoever reads it is told."""
    assert '"k": 3' in to_json(document(findings=[finding(k=3), finding(k=3)]))


def test_a_document_from_before_something_was_added_says_the_same(tmp_path):
    """Version 1 has only gained what is optional: a promise to whoever keeps results."""
    added = {"also", "phrases", "teachers_per_user", "blind", "roc", "exposures", "outcomes",
             "spent_curve", "private_token_share", "sides", "stronger_than_release",
             "detectable_rate", "accounting", "population", "sweep"}  # fmt: skip

    def older(value):
        if isinstance(value, dict):
            return {name: older(inner) for name, inner in value.items() if name not in added}
        return [older(inner) for inner in value] if isinstance(value, list) else value

    path = tmp_path / "results.json"
    path.write_text(json.dumps(older(json.loads(to_json(document())))))
    again = load(path)
    assert older(json.loads(to_json(again))) == json.loads(path.read_text())
    assert older(json.loads(to_json(again))) == older(json.loads(to_json(document())))


def test_older_versions_are_brought_up_step_by_step(tmp_path, monkeypatch):
    from audit.results import schema

    steps = {
        "0.8": lambda d: {**d, "schema_version": "0.9", "headline": d["headline"] + " Then."},
        "0.9": lambda d: {**d, "schema_version": "1", "headline": d["headline"] + " Now."},
    }
    monkeypatch.setattr(schema, "_NEXT", steps)
    path = broken(tmp_path, lambda d: d.update(schema_version="0.8", headline="Once."))
    assert load(path).headline == "Once. Then. Now."


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"3", b"null", b"[" * 100_000])
def test_what_is_no_document_is_refused(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=str(path)):
        load(path)


def test_a_missing_document_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="audit run"):
        load(tmp_path / "results.json")


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
        lambda d: d.update(schema_version="2"),
        lambda d: d.update(extra=1),
        lambda d: d["releases"][0]["guarantee"].update(epsilon="much"),
        lambda d: d["releases"][0]["findings"][0].update(verdict="fine"),
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
    made = GuaranteeResult(epsilon=epsilon, delta=epsilon, **claim).model_dump(mode="json")
    for written in (made["epsilon"], made["delta"]):
        assert epsilon <= written <= epsilon * (1 + 2e-5)
