"""Several audits of the same coins: each goes on from what the one before has crossed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import api
from audit.core.errors import UsageError
from audit.core.files import LARGEST
from audit.measure import evidence_file
from audit.verify import verify
from tests.builders import comparable

pytestmark = pytest.mark.slow
Made = Any  # the fixture's
Refused = Callable[..., str]


def look(made: Made, folder: Path, **more: Any) -> Path:
    given = {"attack": "membership", "model": made.whole, "secrets": made.manifest, "looks": 2}
    given |= {"output": folder, "format": ["json"], "workers": 1, **more}
    api.run(defense="as_is", **given)
    return folder


@pytest.fixture(scope="module")
def two(made: Made, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two looks at the same model."""
    folder = tmp_path_factory.mktemp("looks")
    first = look(made, folder / "first")
    return first, look(made, folder / "second", after=first)


def p_of(folder: Path, metric: str) -> tuple[float, float]:
    """Adjusted, for all looks and for one."""
    document = json.loads((folder / "results.json").read_text("utf-8"))
    findings = document["releases"][0]["findings"]
    return next((f["adjusted_p"], f["look_p"]) for f in findings if f["metric"] == metric)


def test_second_of_two_equal_looks_costs_nothing(two: tuple[Path, Path]) -> None:
    """Of the first, p counts twice."""
    (shared, alone), (after, again) = (p_of(folder, "record_loss_top") for folder in two)
    assert alone == again and shared == pytest.approx(min(1.0, 2 * alone), rel=1e-4)
    assert alone <= after <= shared
    first, second = (evidence_file.read(folder).releases[0].tosses for folder in two)
    assert first is not None and second is not None and second.before is not None
    assert (first.after.looks, second.after.looks) == (1, 2)
    assert np.array_equal(first.after.tosses, second.before.tosses)
    assert first.after.tosses[0] and (first.after.tosses <= second.after.tosses).all()


def test_both_looks_verify_and_the_second_resumes(
    made: Made, two: tuple[Path, Path], tmp_path: Path
) -> None:
    assert [verify(folder).differences for folder in two] == [(), ()]
    again = tmp_path / "again"
    shutil.copytree(two[1], again)
    (again / "results.json").unlink()
    look(made, again, after=two[0])
    assert comparable(again) == comparable(two[1])


@pytest.mark.parametrize(
    "tosses",
    [
        False,
        [],
        [None, None],
        [None, [1, 10**9, "aa"]],
        [None, [1, 7, "aaaa"]],
        [None, [0, 8, "aa"]],
    ]
    + [[None, [looks, 8, "aa"]] for looks in (True, 1.0, "1")]
    + [[None, [1, count, "aa"]] for count in (True, "8", -8)],
)
def test_tosses_that_no_run_writes_are_refused(
    two: tuple[Path, Path], tosses: Any, tmp_path: Path
) -> None:
    document = json.loads((two[0] / "evidence.json").read_text("utf-8"))
    document["releases"][0]["tosses"] = tosses
    (tmp_path / "evidence.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(UsageError, match="is no evidence of a run"):
        evidence_file.read(tmp_path)


@pytest.mark.parametrize("which", ["before", "after", "looks", "none"])
def test_edited_tosses_are_found(two: tuple[Path, Path], which: str, tmp_path: Path) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(two[1], folder)
    evidence = evidence_file.read(folder)
    (release,) = evidence.releases
    tosses = release.tosses
    assert tosses is not None and tosses.before is not None
    changed = {
        "before": replace(tosses, before=replace(tosses.before, tosses=~tosses.before.tosses)),
        "after": replace(tosses, after=replace(tosses.after, tosses=~tosses.after.tosses)),
        "looks": replace(tosses, after=replace(tosses.after, looks=3)),
        "none": None,
    }[which]
    evidence_file.write(folder, replace(evidence, releases=(replace(release, tosses=changed),)))
    differences = verify(folder).differences
    assert any("toss" in line or "adjusted_p" in line for line in differences), differences


def test_what_is_no_look_at_these_coins_is_refused(
    made: Made, two: tuple[Path, Path], refused: Refused, tmp_path: Path
) -> None:
    def line(*more: object, attack: str = "membership") -> str:
        words = ["run", "--defense", "as_is", "--model", made.whole, "--secrets", made.manifest]
        words += ["--attack", attack, "--output", tmp_path / "out", "--workers", "1"]
        return refused(*words, *more)

    assert "give --looks N, too" in line("--after", two[0])
    assert "holds no evidence.json" in line("--looks", 2, "--after", tmp_path)
    with (tmp_path / "evidence.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    assert "holds no evidence.json" in line("--looks", 2, "--after", tmp_path)
    assert "over 2 looks, and this one" in line("--looks", 3, "--after", two[0])
    chosen = "membership:k=0.3"  # as many tests
    assert "makes other attacks" in line("--looks", 2, "--after", two[0], attack=chosen)
    assert "the last of 2 looks" in line("--looks", 2, "--after", two[1])
    assert "by the seed 0; give --seed 0" in line("--looks", 2, "--after", two[0], "--seed", 1)
    other = tmp_path / "other"
    shutil.copytree(two[0], other)
    evidence = evidence_file.read(other)
    present = {owner: not here for owner, here in evidence.coins.present.items()}
    coins = replace(evidence.coins, present=present)
    evidence_file.write(other, replace(evidence, coins=coins))
    assert "is a look at other coins" in line("--looks", 2, "--after", other)
    evidence_file.write(other, replace(evidence, plan_hash="another"))
    assert "not of the run that its evidence.json is of" in line("--looks", 2, "--after", other)
    assert not (tmp_path / "out").exists()
