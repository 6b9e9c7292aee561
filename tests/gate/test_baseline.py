"""audit-baseline.json: small, sorted, without secrets, and never loosened by accident."""

from __future__ import annotations

import difflib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from audit.core.errors import UsageError
from audit.gate import baseline, files, increase_test
from audit.results.schema import Exposures
from tests.gate import make


def made(*found: Any, **changes: Any) -> baseline.Baseline:
    return baseline.make(make.run(make.release("submix", *found, **changes)), "why", make.TODAY)


def test_it_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    one = made(make.rate(2), guarantee=make.claim(math.inf), parameters={"clip": math.inf})
    (tmp_path / "b.json").write_text(baseline.text(one), encoding="utf-8")
    read = baseline.load(tmp_path / "b.json")
    assert baseline.text(read) == baseline.text(one)
    assert read.releases[0].claim.epsilon == math.inf
    assert (read.date, read.reason, read.plan) == (one.date, one.reason, one.plan)


def test_one_changed_value_is_one_changed_line() -> None:
    one, other = (
        baseline.text(made(make.rate(k), make.rate(1, metric="recall"))).splitlines()
        for k in (2, 3)
    )
    assert sum(line.startswith("+ ") for line in difflib.ndiff(one, other)) == 1


def test_its_order_is_not_the_runs() -> None:
    a, b = make.rate(2), make.rate(1, metric="recall")
    x, y = make.release("x", a, b), make.release("y")
    one, other = make.run(x, y), make.run(y, make.release("x", b, a))
    texts = [baseline.text(baseline.make(run, "why", make.TODAY)) for run in (one, other)]
    assert texts[0] == texts[1]


def test_nothing_of_a_finding_but_its_numbers_is_kept() -> None:
    leaky = make.rate(
        2, sentence="It says 48213.", method="48213", exposures=Exposures(
            planted=[4.8213], twins=[], null=1.0
        ),
    )  # fmt: skip
    text = baseline.text(made(leaky))
    assert "8213" not in text
    (release,) = json.loads(text)["releases"]
    assert set(release) == {"defense", "parameters", "seed", "claim", "measurements", "leaks"}
    assert release["measurements"][0]["k"] == 2


def test_it_needs_a_reason_and_a_release() -> None:
    with pytest.raises(UsageError, match="reason"):
        baseline.make(make.run(make.release("x")), " ", make.TODAY)
    with pytest.raises(UsageError, match="only references"):
        baseline.make(make.run(make.release("none", reference=True)), "x", make.TODAY)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"schema_version": "2"}', "\x00", '{"date": "x"}']
)
def test_a_broken_baseline_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        baseline.load(tmp_path / "b.json")
    assert "b.json" in str(refused.value) and "\n" not in str(refused.value)


def test_its_version_is_one_that_is_known(tmp_path: Path) -> None:
    document = json.loads(baseline.text(made()))
    assert document["schema_version"] == "3"
    for version in ("2", 3, None):
        (tmp_path / "b.json").write_text(json.dumps({**document, "schema_version": version}))
        with pytest.raises(UsageError, match="schema_version"):
            baseline.load(tmp_path / "b.json")


def test_unknown_keys_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    document = json.loads(baseline.text(made()))
    (tmp_path / "b.json").write_text(json.dumps({**document, "sede": 1}))
    with pytest.raises(UsageError, match="sede"):
        baseline.load(tmp_path / "b.json")
    with pytest.raises(UsageError, match="no such baseline"):
        baseline.load(tmp_path / "none.json")


def area(value: float) -> Any:
    found = make.rate(0, metric="record_loss_auc", attack="membership", unit="AUC", sides=2)
    return found.model_copy(update={"value": value, "ci": (value - 0.1, value + 0.1), "k": None})


def test_what_loosens_is_named() -> None:
    old = made(make.rate(2), area(0.6))
    for found, said in (
        ((make.rate(3), area(0.6)), "hit_rate would increase from 0.02 to 0.03"),
        ((make.rate(2), area(0.3)), "record_loss_auc would increase from 0.6 to 0.7"),
        ((make.rate(1, 50), area(0.6)), "50 trials, not 100"),
        ((make.rate(2),), "record_loss_auc would no longer"),
        ((make.rate(None), area(0.6)), "hit_rate would no longer"),
    ):
        assert said in (baseline.loosened(old, made(*found)) or "")
    tighter = made(make.rate(1), area(0.45), make.rate(9, metric="recall"))
    assert baseline.loosened(old, tighter) is None
    assert baseline.loosened(old, old) is None


def test_a_new_metric_or_release_that_leaks_is_no_tightening() -> None:
    calm, leak = make.rate(2), make.rate(90, metric="recall", leaked="leak", p_value=1e-9)
    old = baseline.make(make.run(make.release("x", calm)), "a", make.TODAY)
    for releases in (
        [make.release("x", calm, leak)],
        [make.release("x", calm), make.release("y", leak)],
    ):
        new = baseline.make(make.run(*releases), "b", make.TODAY)
        assert "recall would be accepted as a leak" in (baseline.loosened(old, new) or "")
    silent = make.rate(1, metric="recall")
    new = baseline.make(make.run(make.release("x", calm, silent)), "b", make.TODAY)
    assert baseline.loosened(old, new) is None


def test_claims_releases_and_plans_cannot_be_loosened_either() -> None:
    old = made(make.rate(2))
    weaker = made(make.rate(2), guarantee=make.claim(2.5))
    assert "increased from 2 to 2.5" in (baseline.loosened(old, weaker) or "")
    unit = made(make.rate(2), guarantee=make.claim(unit="record"))
    assert "unit changed" in (baseline.loosened(old, unit) or "")
    other = made(make.rate(2), parameters={"k": 2})
    assert "no longer be checked" in (baseline.loosened(old, other) or "")
    run = make.run(make.release("submix", make.rate(2)))
    planted = run.model_copy(update={"plan": {**run.plan, "seed": 3}})
    assert "seed" in (baseline.loosened(old, baseline.make(planted, "x", make.TODAY)) or "")


def changed(found: Any, **changes: Any) -> Any:
    return found.model_copy(update=changes)


def test_what_is_measured_otherwise_loosens() -> None:
    """The same value, and less that would be seen against it."""
    told = make.rate(1, 4, "recall", outcomes="1000")
    old = made(make.rate(2), area(0.6), told)
    for found, said in (
        ((make.rate(2), changed(area(0.6), ci=(0.0, 1.0)), told), "higher upper bound"),
        ((make.rate(2), changed(area(0.55), ci=(0.4, 0.75)), told), "higher upper bound"),
        ((make.rate(2), changed(area(0.5), ci=(0.3, 0.69)), told), "higher upper bound"),
        (
            (make.rate(2), changed(area(0.6), ci=None), told),
            "higher upper bound, or no interval",
        ),
        ((make.rate(2), changed(area(0.6), confidence=0.5), told), "confidence 0.95"),
        ((make.rate(2), changed(area(0.6), sides=1), told), "sides 2, then 1"),
        ((changed(make.rate(2), unit="bits"), area(0.6), told), "then bits"),
        ((changed(make.rate(2), k=None), area(0.6), told), "counted True, then False"),
        ((make.stopped(2), area(0.6), told), "only one of both sessions may stop"),
        ((make.rate(2), area(0.6), changed(told, outcomes=None)), "of 4 secrets"),
        ((make.rate(2), area(0.6), changed(told, outcomes="10--")), "of 2 secrets"),
        ((make.rate(2), area(0.6), changed(told, outcomes="10000")), "of 4 secrets"),
    ):
        assert said in (baseline.loosened(old, made(*found)) or "")
    narrower = changed(area(0.55), ci=(0.4, 0.65))
    other = make.rate(1, 4, "recall", outcomes="0100")
    assert baseline.loosened(old, made(make.rate(2), narrower, other)) is None
    of_session = make.stopped(2)
    wider = changed(of_session, ci=(0.0, 0.5))
    same = made(of_session)
    assert "a higher upper bound" in (baseline.loosened(same, made(wider)) or "")
    assert baseline.loosened(same, same) is None
    bare = made(changed(area(0.6), ci=None))
    assert baseline.loosened(bare, made(area(0.6))) is None


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most of what is new is looser
@given(*[st.floats(0.0, 1.0)] * 5)
def test_what_it_calls_tighter_fails_all_that_failed(
    one: float, up: float, other: float, up_too: float, now: float
) -> None:
    """At any level that Holm gives to less than a thousand metrics."""

    def stored(value: float, low: float, high: float) -> baseline.Baseline:
        return made(changed(area(0.5), value=value, ci=(low, high), sides=1))

    old, new = stored(one, one, one + up), stored(other, other, other + up_too)
    assume(baseline.loosened(old, new) is None)
    before, then, after = (
        accepted.releases[0].measurements[0]
        for accepted in (old, new, stored(now, now - 0.05, now))
    )
    was, p = (increase_test.p_value(measured, after) for measured in (before, then))
    assert was is not None and p is not None
    for level in (0.05, 0.005, 0.05 / 1000):
        assert was >= level or p < level * (1 + 1e-6)


def test_a_relation_that_no_longer_holds_is_a_weaker_claim() -> None:
    both = make.claim(relation="add_or_remove", also=["replace"])
    old = made(make.rate(2), guarantee=both)
    reason = baseline.loosened(old, made(make.rate(2), guarantee=make.claim()))
    assert reason == "submix: the claim held for replace, now for add_or_remove"
    turned = make.claim(relation="replace", also=["add_or_remove"])
    assert baseline.loosened(old, made(make.rate(2), guarantee=turned)) is None
    assert baseline.loosened(made(make.rate(2)), old) is None


def test_any_promise_is_more_than_none() -> None:
    for nothing in (None, math.inf):
        old = made(make.rate(2), guarantee=make.claim(nothing, delta=None))
        finite = made(make.rate(2), guarantee=make.claim(1.0, delta=1e-5))
        assert baseline.loosened(old, finite) is None
        assert "ε" in (baseline.loosened(finite, old) or "")


@pytest.mark.parametrize(
    "edit",
    [
        {"n": -5},
        {"k": 101},
        {"k": 40},
        {"ci": [0.5, 0.1]},
        {"ci": [0.5, 0.6]},
        {"confidence": 1},
        {"confidence": 0},
        {"outcomes": "0"},
        {"value": 10**400},
    ],
)
def test_a_baseline_that_contradicts_itself_is_refused(
    edit: dict[str, Any], tmp_path: Path
) -> None:
    document = json.loads(baseline.text(made(make.rate(2))))
    document["releases"][0]["measurements"][0].update(edit)
    (tmp_path / "b.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"b\.json: releases\.0") as refused:
        baseline.load(tmp_path / "b.json")
    assert "\n" not in str(refused.value)


def test_nothing_stands_in_a_baseline_twice(tmp_path: Path) -> None:
    for where in (lambda d: d["releases"], lambda d: d["releases"][0]["measurements"]):
        document = json.loads(baseline.text(made(make.rate(2))))
        where(document).append(where(document)[0])
        (tmp_path / "b.json").write_text(json.dumps(document))
        with pytest.raises(UsageError, match="is there twice"):
            baseline.load(tmp_path / "b.json")


def test_what_new_metrics_cost_the_others_is_said(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    few, many = (
        made(make.rate(2), *[make.rate(0, metric=f"m{i}") for i in range(n)]) for n in (0, 2)
    )
    assert files.update_baseline(path, few, only_tighten=True) == [str(path)]
    said = files.update_baseline(path, many, only_tighten=True)
    assert said[0] == str(path) and said[1].startswith("3 metrics, 1 before")
    assert files.update_baseline(path, many, only_tighten=True) == [str(path)]


def test_the_leaks_that_it_accepts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert files.update_baseline(path, made(make.rate(2)), only_tighten=False) == [str(path)]
    leaky = make.rate(40, leaked="leak")
    recall = make.rate(9, metric="recall", leaked="leak")
    read = make.rate(
        90, metric="probability", leaked="leak to insiders", stronger_than_release=True
    )
    two = make.release("submix", leaky, recall, make.rate(1, metric="verbatim"))
    other = make.release("submix", leaky, parameters={"k": 4})
    for releases, said in (
        ((two,), "accepts 2 leaks: submix extraction.hit_rate (40 of 100), submix "
                 "extraction.recall (9 of 100)"),
        ((other,), "accepts 1 leak: submix extraction.hit_rate (40 of 100)"),
        ((make.release("submix", read),), None),
    ):  # fmt: skip
        new = baseline.make(make.run(*releases), "why", make.TODAY)
        assert files.update_baseline(path, new, only_tighten=False)[1:] == ([said] if said else [])
    new = baseline.make(make.run(two, other), "why", make.TODAY)
    (said,) = files.update_baseline(path, new, only_tighten=False)[1:]
    assert said.startswith("accepts 3 leaks: ") and "submix:k=4 extraction.hit_rate" in said


def test_accepting_a_leak_loosens() -> None:
    """Even one whose value did not rise."""
    quiet, leaky = (made(make.rate(2, leaked=w)) for w in ("inconclusive", "leak"))
    assert (
        baseline.loosened(quiet, leaky) == "submix: extraction.hit_rate would be accepted as a leak"
    )
    assert baseline.loosened(leaky, quiet) is None


def test_an_extreme_of_many_secrets_is_shown_and_not_compared() -> None:
    """It varies with every training more than its interval says; its leak is another matter."""
    one, other = (made(bits(value, leaked="inconclusive")) for value in (3.0, 19.93))
    assert '"largest_exposure_1_copy"' in baseline.text(one)
    assert baseline.loosened(one, other) is None
    accepted = made(bits(19.93, leaked="leak"))
    assert "would be accepted as a leak" in (baseline.loosened(one, accepted) or "")


def bits(value: float, **changes: Any) -> Any:
    found = make.rate(0, attack="exposure", metric="largest_exposure_1_copy", **changes)
    return found.model_copy(
        update={"value": value, "ci": (value, value), "k": None, "unit": "bits"}
    )


def test_only_tighten_writes_nothing_that_loosens(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    files.update_baseline(path, made(make.rate(2)), only_tighten=True)
    kept = path.read_bytes()
    with pytest.raises(UsageError, match="would be loosened") as refused:
        files.update_baseline(path, made(make.rate(3)), only_tighten=True)
    assert "\n" not in str(refused.value)
    assert (path.read_bytes(), [p.name for p in tmp_path.iterdir()]) == (kept, ["b.json"])
    files.update_baseline(path, made(make.rate(1)), only_tighten=True)
    assert path.read_bytes() != kept
    files.update_baseline(path, made(make.rate(3)), only_tighten=False)
