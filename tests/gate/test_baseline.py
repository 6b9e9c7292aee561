"""audit-baseline.json: small, sorted, without secrets, and never loosened by accident."""

from __future__ import annotations

import difflib
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.errors import UsageError
from audit.gate import baseline, files
from audit.results import Exposures


def made(make: SimpleNamespace, *found: Any, **changes: Any) -> baseline.Baseline:
    return baseline.make(make.run(make.release("submix", *found, **changes)), "why", make.today)


def test_it_is_read_back_as_it_was_written(make: SimpleNamespace, tmp_path: Path) -> None:
    one = made(make, make.rate(2), guarantee=make.claim(math.inf), parameters={"clip": math.inf})
    (tmp_path / "b.json").write_text(baseline.text(one), encoding="utf-8")
    read = baseline.load(tmp_path / "b.json")
    assert baseline.text(read) == baseline.text(one)
    assert read.releases[0].claim.epsilon == math.inf
    assert (read.date, read.reason, read.plan) == (one.date, one.reason, one.plan)


def test_one_changed_value_is_one_changed_line(make: SimpleNamespace) -> None:
    one, other = (
        baseline.text(made(make, make.rate(k), make.rate(1, metric="recall"))).splitlines()
        for k in (2, 3)
    )
    assert sum(line.startswith("+ ") for line in difflib.ndiff(one, other)) == 1


def test_its_order_is_not_the_runs(make: SimpleNamespace) -> None:
    a, b = make.rate(2), make.rate(1, metric="recall")
    x, y = make.release("x", a, b), make.release("y")
    one, other = make.run(x, y), make.run(y, make.release("x", b, a))
    texts = [baseline.text(baseline.make(run, "why", make.today)) for run in (one, other)]
    assert texts[0] == texts[1]


def test_nothing_of_a_finding_but_its_numbers_is_kept(make: SimpleNamespace) -> None:
    leaky = make.rate(
        2, sentence="It says 48213.", method="48213", exposures=Exposures(
            planted=[4.8213], twins=[], space=10.0, null=1.0
        ),
    )  # fmt: skip
    text = baseline.text(made(make, leaky))
    assert "8213" not in text
    (release,) = json.loads(text)["releases"]
    assert set(release) == {"defense", "parameters", "seed", "claim", "metrics"}
    assert release["metrics"][0]["k"] == 2


def test_it_needs_a_reason_and_a_release(make: SimpleNamespace) -> None:
    with pytest.raises(UsageError, match="reason"):
        baseline.make(make.run(make.release("x")), " ", make.today)
    with pytest.raises(UsageError, match="no release"):
        baseline.make(make.run(make.release("none", reference=True)), "x", make.today)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"schema_version": "2"}', "\x00", '{"date": "x"}']
)
def test_a_broken_baseline_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        baseline.load(tmp_path / "b.json")
    assert "b.json" in str(refused.value) and "\n" not in str(refused.value)


def test_unknown_keys_and_a_missing_file_are_refused(make: SimpleNamespace, tmp_path: Path) -> None:
    document = json.loads(baseline.text(made(make)))
    (tmp_path / "b.json").write_text(json.dumps({**document, "sede": 1}))
    with pytest.raises(UsageError, match="sede"):
        baseline.load(tmp_path / "b.json")
    with pytest.raises(UsageError, match="no such baseline"):
        baseline.load(tmp_path / "none.json")


def area(make: SimpleNamespace, value: float) -> Any:
    found = make.rate(0, metric="record_loss_auc", attack="membership", unit="AUC", sides=2)
    return found.model_copy(update={"value": value, "ci": (value - 0.1, value + 0.1), "k": None})


def test_what_loosens_is_named(make: SimpleNamespace) -> None:
    old = made(make, make.rate(2), area(make, 0.6))
    for found, said in (
        ((make.rate(3), area(make, 0.6)), "hit_rate would rise from 0.02 to 0.03"),
        ((make.rate(2), area(make, 0.3)), "record_loss_auc would rise from 0.6 to 0.7"),
        ((make.rate(1, 50), area(make, 0.6)), "50 trials, not 100"),
        ((make.rate(2),), "record_loss_auc would no longer"),
        ((make.rate(None), area(make, 0.6)), "hit_rate would no longer"),
    ):
        assert said in (baseline.loosened(old, made(make, *found)) or "")
    tighter = made(make, make.rate(1), area(make, 0.45), make.rate(9, metric="recall"))
    assert baseline.loosened(old, tighter) is None
    assert baseline.loosened(old, old) is None


def test_claims_releases_and_plans_cannot_be_loosened_either(make: SimpleNamespace) -> None:
    old = made(make, make.rate(2))
    weaker = made(make, make.rate(2), guarantee=make.claim(2.5))
    assert "rose from 2 to 2.5" in (baseline.loosened(old, weaker) or "")
    unit = made(make, make.rate(2), guarantee=make.claim(unit="record"))
    assert "unit changed" in (baseline.loosened(old, unit) or "")
    other = made(make, make.rate(2), parameters={"k": 2})
    assert "no longer be held" in (baseline.loosened(old, other) or "")
    run = make.run(make.release("submix", make.rate(2)))
    planted = run.model_copy(update={"plan": {**run.plan, "seed": 3}})
    assert "seed" in (baseline.loosened(old, baseline.make(planted, "x", make.today)) or "")


def test_only_tighten_writes_nothing_that_loosens(make: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    files.update_baseline(path, made(make, make.rate(2)), only_tighten=True)
    kept = path.read_bytes()
    with pytest.raises(UsageError, match="would be loosened") as refused:
        files.update_baseline(path, made(make, make.rate(3)), only_tighten=True)
    assert "\n" not in str(refused.value)
    assert (path.read_bytes(), [p.name for p in tmp_path.iterdir()]) == (kept, ["b.json"])
    files.update_baseline(path, made(make, make.rate(1)), only_tighten=True)
    assert path.read_bytes() != kept
    files.update_baseline(path, made(make, make.rate(3)), only_tighten=False)
