"""Engines by name, and adapters of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.check import Adapter, Claim, Steps, Trial, examine, load
from audit.check.own import Own
from tests.check.toy import Toy, Training
from tests.refusals import refusals

ADAPTERS = """
from audit.check import Engine, Steps

def function(trial):
    return Steps(None)

class Empty(Engine):
    def run(self, trial):
        return Steps(None)

ready = Empty()
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adapters_of_a_test.py").write_text(ADAPTERS)
    (tmp_path / "broken_adapters_of_a_test.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)


def test_the_built_in_engine() -> None:
    assert load("own") == Own()


@pytest.mark.parametrize("name", ["function", "Empty", "ready"])
def test_an_adapter_is_found_in_the_working_directory(here: None, name: str) -> None:
    made = load(f"adapters_of_a_test:{name}")
    assert isinstance(made, Adapter) == (name == "function")
    assert made.run(None) == Steps(None)  # type: ignore[arg-type]


def test_what_cannot_be_loaded_is_refused(here: None) -> None:
    refusals(
        load,
        [
            ("onw", "did you mean 'own'"),
            ("mine", "module:adapter"),
            ("adapters_of_a_test:number", "expected an Engine, or a function of a Trial"),
            ("adapters_of_a_test:lost", "AttributeError"),
            ("nowhere_at_all:run", "ModuleNotFoundError"),
            ("broken_adapters_of_a_test:run", "ZeroDivisionError"),
        ],
    )


SMALL = Claim(sampling_probability=0.1, steps=20)


@pytest.mark.parametrize("form", [torch.as_tensor, np.asarray])
def test_a_function_that_returns_sums_is_an_engine(form: Callable[[Any], Any]) -> None:
    def adapter(trial: Trial) -> Any:
        return form(Toy(Training).run(trial).sums)

    examined = examine(Adapter(adapter), SMALL, texts=False)
    assert examined.passed
    (update,) = (o for o in examined.outcomes if o.check.code == "K13")
    assert (update.status, update.remark) == ("not read", "the adapter returns no parameters")


@dataclass(frozen=True)
class Wrong(Toy):
    """Returns something else than the toy's steps."""

    change: Callable[[Steps], Steps]

    def run(self, trial: Trial) -> Steps:
        return self.change(super().run(trial))


def not_finite(steps: Steps) -> Steps:
    steps.sums[3, 2] = np.nan
    return steps


def of_others(steps: Steps) -> Steps:
    return replace(steps, included=np.zeros((150, 81)))


def stops(steps: Steps) -> Steps:
    raise MemoryError("no room\nat all")


def test_an_adapter_that_is_wrong_is_refused() -> None:
    refusals(
        lambda change: examine(Wrong(Training, change), SMALL, texts=False),
        [
            (lambda steps: Steps(steps.sums[:, :256]), "shape (150, 256); (150, 512) is due"),
            (not_finite, "not finite, of finite gradients"),
            (of_others, "of shape (150, 81), not (150, 80)"),
            (lambda steps: Steps(steps.sums[:0]), "no step released anything"),
            (stops, "the engine stopped on vectors (MemoryError: no room); mend"),
        ],
    )


@dataclass(frozen=True)
class Seeding(Toy):
    def run(self, trial: Trial) -> Steps:
        torch.manual_seed(trial.seed)
        return super().run(trial)


def test_examining_reports_runs_and_changes_nothing() -> None:
    threads, names = torch.get_num_threads(), []
    state = torch.get_rng_state()
    examine(Seeding(Training), SMALL, texts=False, report=names.append)
    assert torch.equal(torch.get_rng_state(), state)
    due = ["quiet", "few", "again", "noise", "update", "tied", "infinite", "resumed", "claim"]
    assert (names, torch.get_num_threads()) == (due, threads)


def test_equal_seeds_give_equal_examinations() -> None:
    one, again, other = (
        examine(Toy(Training), SMALL, seed, texts=False).outcomes for seed in (0, 0, 1)
    )
    assert one == again
    assert one != other
