"""A sweep is verified seed by seed, and then what its seeds show together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.results import sums
from audit.verify import verify
from tests.verify import made
from tests.verify.conftest import Folder

CELL = "sweep.cells.0"


def cell(document: Any) -> Any:
    return document["sweep"]["cells"][0]


def finding(document: Any) -> Any:
    return cell(document)["findings"][0]


EDITS = {
    f"{CELL}.findings.extraction.hit_rate.value": lambda d: finding(d).update(value=0.5),
    f"{CELL}.findings.extraction.hit_rate.p_value": lambda d: finding(d).update(p_value=0.5),
    f"{CELL}.findings.extraction.hit_rate.leaked": lambda d: finding(d).update(
        leaked="no leak found"
    ),
    f"{CELL}.findings.extraction.hit_rate.epsilon_lower": lambda d: finding(d).update(
        epsilon_lower=None
    ),
    f"{CELL}.utility.perplexity.value": lambda d: cell(d)["utility"]["perplexity"].update(value=1),
    f"{CELL}.claim": lambda d: cell(d).update(claim="refuted"),
    f"{CELL}.releases": lambda d: cell(d).update(releases=[0]),
    "sweep.cells.2: is not there": lambda d: d["sweep"]["cells"].pop(),
    "sweep.seeds.1.twins": lambda d: d["sweep"]["seeds"][1].update(twins=0),
    "sweep.seeds.0.plan_hash": lambda d: d["sweep"]["seeds"][0].update(plan_hash="0" * 64),
    "releases.dp_sgd": lambda d: d["releases"][0].update(leaked="inconclusive"),
    "headline": lambda d: d.update(headline=["No leak."]),
    "warnings": lambda d: d.update(warnings=[]),
    "seeds/3: plan.delta": lambda d: d["plan"].update(delta=0.5),
}


def test_an_untouched_sweep_holds(sweep: Folder) -> None:
    found = verify(sweep.path)
    assert found.differences == ()
    assert [line[:7] for line in found.verified] == ["seeds/3", "seeds/4", "3 setti"]


@pytest.mark.parametrize(
    "says", [pytest.param(e, marks=pytest.mark.slow if i % 4 else ()) for i, e in enumerate(EDITS)]
)
def test_an_edit_of_what_seeds_show_together_is_found(says: str, sweep: Folder) -> None:
    change: Callable[[Any], None] = EDITS[says]
    sweep.edit("results.json", change)
    sweep.seal()
    lines = verify(sweep.path).differences
    assert any(line.startswith(says) for line in lines), lines


def test_an_edit_of_a_seed_is_found_in_it_and_in_the_sweep(sweep: Folder) -> None:
    def change(document: Any) -> None:
        document["releases"][0]["findings"][0]["control"]["value"] = 0.01

    sweep.edit("seeds/4/results.json", change)
    place = "findings.extraction.hit_rate.control.value"
    lines = verify(sweep.path).differences
    assert any(line.startswith("seeds/4: results.json: was changed") for line in lines)
    assert any(line.startswith(f"seeds/4: releases.dp_sgd.{place}") for line in lines)
    sums.write(sweep.path / "seeds" / "4")
    lines = verify(sweep.path).differences
    assert any(line.startswith("seeds/4/SHA256SUMS: was changed") for line in lines)
    assert any(line.startswith("releases.dp_sgd") and line.endswith("0.01") for line in lines)


def test_run_of_another_seed_in_place_of_a_planned_one_is_found(tmp_path: Path) -> None:
    made.write_sweep(tmp_path, {3: 3, 4: 5})
    lines = verify(tmp_path).differences
    assert lines == ("seeds/4: plan.seed: stands 5, follows 4",)


def test_a_seed_that_is_gone_is_bad_input(sweep: Folder, refused: Callable[..., str]) -> None:
    (sweep.path / "seeds" / "4" / "results.json").unlink()
    assert "seeds/4/results.json" in refused("verify", sweep.path)
