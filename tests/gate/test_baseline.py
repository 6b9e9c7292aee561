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
from audit.results.schema import Exposures, FindingResult, ReleaseResult
from tests.gate import make
from tests.refusals import refusals

Baseline = baseline.Baseline


def of(*releases: ReleaseResult, **changes: Any) -> Baseline:
    return baseline.make(make.run(*releases, **changes), "why", make.TODAY)


def made(*found: Any, **changes: Any) -> Baseline:
    return of(make.release("submix", *found, **changes))


# the file


def test_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
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


def test_order_is_not_the_runs() -> None:
    a, b, y = make.rate(2), make.rate(1, metric="recall"), make.release("y")
    one, other = of(make.release("x", a, b), y), of(y, make.release("x", b, a))
    assert baseline.text(one) == baseline.text(other)


def test_only_numbers_of_a_finding_are_kept() -> None:
    exposures = Exposures(planted=[4.8213], twins=[], null=1.0)
    leaky = make.rate(2, sentence="It says 48213.", method="48213", exposures=exposures)
    text = baseline.text(made(leaky))
    assert "8213" not in text
    (release,) = json.loads(text)["releases"]
    assert set(release) == {"defense", "parameters", "seed", "claim", "measurements", "leaks"}
    assert release["measurements"][0]["k"] == 2


def test_baseline_needs_a_reason_and_a_release() -> None:
    with pytest.raises(UsageError, match="reason"):
        baseline.make(make.run(make.release("x")), " ", make.TODAY)
    with pytest.raises(UsageError, match="only references"):
        of(make.release("none", reference=True))


def measuring(**edits: Any) -> Any:
    return lambda d: d["releases"][0]["measurements"][0].update(edits)


def twice(where: Any) -> Any:
    return lambda d: where(d).append(where(d)[0])


def test_broken_baseline_is_refused_in_one_line(tmp_path: Path) -> None:
    """Text that is none, another version, unknown keys, and what contradicts itself."""
    path, whole = tmp_path / "b.json", baseline.text(made(make.rate(2)))
    assert json.loads(whole)["schema_version"] == "3"

    def load(edit: Any) -> None:
        document = json.loads(whole)
        if isinstance(edit, str):
            path.write_text(edit)
        else:
            edit(document)
            path.write_text(json.dumps(document))
        baseline.load(path)

    rows: list[tuple[Any, str]] = [
        *((text, "b.json: ")
          for text in ("", "[]", "{", "{}", '{"schema_version": "2"}', "\x00", '{"date": "x"}')),
        *((lambda d, v=version: d.update(schema_version=v), "schema_version")
          for version in ("2", 3, None)),
        (lambda d: d.update(sede=1), "sede"),
        (twice(lambda d: d["releases"]), "is there twice"),
        (twice(lambda d: d["releases"][0]["measurements"]), "is there twice"),
        *((measuring(**edit), "b.json: releases.0")
          for edit in (
              {"n": -5}, {"k": 101}, {"k": 40}, {"ci": [0.5, 0.1]}, {"ci": [0.5, 0.6]},
              {"confidence": 1}, {"confidence": 0}, {"outcomes": "0"}, {"value": 10**400},
          )),
    ]  # fmt: skip
    refusals(load, rows)
    path.unlink()
    refusals(lambda _: baseline.load(path), [(None, "no such baseline")])


# what loosens it


def changed(found: Any, **changes: Any) -> Any:
    return found.model_copy(update=changes)


def area(value: float, **changes: Any) -> Any:
    found = make.rate(0, metric="record_loss_auc", attack="membership", unit="AUC", sides=2)
    return changed(
        found, **{"value": value, "ci": (value - 0.1, value + 0.1), "k": None, **changes}
    )


def bits(value: float, **changes: Any) -> Any:
    found = make.rate(0, attack="exposure", metric="largest_exposure_1_copy", **changes)
    return changed(found, value=value, ci=(value, value), k=None, unit="bits")


RATE, AREA, TOLD = make.rate(2), area(0.6), make.rate(1, 4, "recall", outcomes="1000")
OLD = made(RATE, AREA, TOLD)
STOPPED = make.stopped(2)
LOUD = make.rate(90, metric="recall", leaked="leak", p_value=1e-9)
ALSO = make.claim(relation="add_or_remove", also=["replace"])
NONE = [make.claim(nothing, delta=None) for nothing in (None, math.inf)]
WIDER = "a higher upper bound, or no interval"
LOOSER: list[tuple[Baseline, Baseline, str]] = [  # before, after, the reason; "": it is tighter
    *(
        (OLD, made(rate, one, told), said)
        for rate, one, told, said in (
            (RATE, AREA, TOLD, ""),
            (make.rate(1), area(0.45), TOLD, ""),
            (RATE, area(0.55, ci=(0.4, 0.65)), TOLD, ""),
            (RATE, AREA, changed(TOLD, outcomes="0100"), ""),
            (make.rate(3), AREA, TOLD, "hit_rate would increase from 0.02 to 0.03"),
            (RATE, area(0.3), TOLD, "record_loss_auc would increase from 0.6 to 0.7"),
            (make.rate(1, 50), AREA, TOLD, "50 trials, not 100"),
            (make.rate(None), AREA, TOLD, "hit_rate would no longer"),
            # the same value, and less that would be seen against it
            (RATE, area(0.6, ci=(0.0, 1.0)), TOLD, WIDER),
            (RATE, area(0.55, ci=(0.4, 0.75)), TOLD, WIDER),
            (RATE, area(0.5, ci=(0.3, 0.69)), TOLD, WIDER),
            (RATE, area(0.6, ci=None), TOLD, WIDER),
            (RATE, area(0.6, confidence=0.5), TOLD, "confidence 0.95"),
            (RATE, area(0.6, sides=1), TOLD, "sides 2, then 1"),
            (changed(RATE, unit="bits"), AREA, TOLD, "then bits"),
            (changed(RATE, k=None), AREA, TOLD, "counted True, then False"),
            (STOPPED, AREA, TOLD, "only one of both sessions may stop"),
            (RATE, AREA, changed(TOLD, outcomes=None), "of 4 secrets"),
            (RATE, AREA, changed(TOLD, outcomes="10--"), "of 2 secrets"),
            (RATE, AREA, changed(TOLD, outcomes="10000"), "of 4 secrets"),
        )
    ),
    (OLD, made(RATE, TOLD), "record_loss_auc would no longer"),
    (made(STOPPED), made(STOPPED), ""),
    (made(STOPPED), made(changed(STOPPED, ci=(0.0, 0.5))), WIDER),
    (made(area(0.6, ci=None)), made(AREA), ""),
    # a new metric or release, and one whose value did not rise
    (made(RATE), made(RATE, make.rate(9, metric="recall")), ""),
    (made(RATE), made(RATE, LOUD), "recall would be accepted as a leak"),
    (made(RATE), of(make.release("submix", RATE), make.release("y", LOUD)),
     "y: extraction.recall would be accepted as a leak"),
    (made(make.rate(2, leaked="inconclusive")), made(make.rate(2, leaked="leak")),
     "submix: extraction.hit_rate would be accepted as a leak"),
    (made(make.rate(2, leaked="leak")), made(make.rate(2, leaked="inconclusive")), ""),
    # an extreme of many secrets varies with every training; its leak is another matter
    (made(bits(3.0, leaked="inconclusive")), made(bits(19.93, leaked="inconclusive")), ""),
    (made(bits(3.0, leaked="inconclusive")), made(bits(19.93, leaked="leak")),
     "would be accepted as a leak"),
    # claims, releases and plans
    (made(RATE), made(RATE, guarantee=make.claim(2.5)), "increased from 2 to 2.5"),
    (made(RATE, guarantee=make.claim(delta=None)), made(RATE), "δ"),
    (made(RATE), made(RATE, guarantee=make.claim(unit="record")), "unit changed"),
    (made(RATE), made(RATE, parameters={"k": 2}), "no longer be checked"),
    (made(RATE), of(make.release("submix", RATE), plan={**make.run().plan, "seed": 3}), "seed"),
    (made(RATE, guarantee=ALSO), made(RATE, guarantee=make.claim()),
     "submix: the claim held for replace, now for add_or_remove"),
    (made(RATE, guarantee=ALSO),
     made(RATE, guarantee=make.claim(relation="replace", also=["add_or_remove"])), ""),
    (made(RATE), made(RATE, guarantee=ALSO), ""),
    # any promise is more than none
    *((made(RATE, guarantee=nothing), made(RATE), "") for nothing in NONE),
    *((made(RATE), made(RATE, guarantee=nothing), "ε") for nothing in NONE),
]  # fmt: skip


def test_whatever_loosens_is_named() -> None:
    wrong = []
    for i, (before, after, said) in enumerate(LOOSER):
        reason = baseline.loosened(before, after)
        if (reason is None) != (not said) or said not in (reason or ""):
            wrong.append(f"row {i}: {said!r} is not in {reason!r}")
    assert not wrong, "\n".join(wrong)


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most of what is new is looser
@given(*[st.floats(0.0, 1.0)] * 5)
def test_tighter_baseline_fails_all_that_failed(
    one: float, up: float, other: float, up_too: float, now: float
) -> None:
    """At any level that Holm gives to less than a thousand metrics."""

    def stored(value: float, low: float, high: float) -> Baseline:
        return made(area(value, ci=(low, high), sides=1))

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


# the update


def updated(path: Path, *releases: ReleaseResult, only_tighten: bool = False) -> list[str]:
    """What an update says beside the path."""
    said = files.update_baseline(path, of(*releases), only_tighten=only_tighten)
    assert said[0] == str(path)
    return said[1:]


def test_cost_of_new_metrics_for_the_others_is_given(tmp_path: Path) -> None:
    path, few = tmp_path / "b.json", make.release("submix", RATE)
    many = make.release("submix", RATE, *[make.rate(0, metric=f"m{i}") for i in range(2)])
    assert updated(path, few, only_tighten=True) == []
    (said,) = updated(path, many, only_tighten=True)
    assert said.startswith("3 metrics, 1 before")
    assert updated(path, many, only_tighten=True) == []


def test_accepted_leaks_are_named(tmp_path: Path) -> None:
    def leak(k: int, metric: str = "hit_rate", **changes: Any) -> FindingResult:
        return make.rate(k, metric=metric, **{"leaked": "leak", **changes})

    inside = leak(90, "probability", leaked="leak to insiders", stronger_than_release=True)
    two = make.release("submix", leak(40), leak(9, "recall"), make.rate(1, metric="verbatim"))
    other = make.release("submix", leak(40), parameters={"k": 4})
    for releases, said in (
        ([make.release("submix", RATE)], []),
        ([two], ["accepts 2 leaks: submix extraction.hit_rate (40 of 100), submix "
                 "extraction.recall (9 of 100)"]),
        ([other], ["accepts 1 leak: submix extraction.hit_rate (40 of 100)"]),
        ([make.release("submix", inside)], []),
    ):  # fmt: skip
        assert updated(tmp_path / "b.json", *releases) == said
    (line,) = updated(tmp_path / "b.json", two, other)
    assert line.startswith("accepts 3 leaks: ") and "submix:k=4 extraction.hit_rate" in line


def test_only_tighten_writes_nothing_that_loosens(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    one, two, three = (make.release("submix", make.rate(k)) for k in (1, 2, 3))
    updated(path, two, only_tighten=True)
    kept = path.read_bytes()
    refusals(lambda one: updated(path, one, only_tighten=True), [(three, "would be loosened")])
    assert (path.read_bytes(), [p.name for p in tmp_path.iterdir()]) == (kept, ["b.json"])
    updated(path, one, only_tighten=True)
    assert path.read_bytes() != kept
    updated(path, three)
