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
from audit.core.errors import UsageError
from tests.check.toy import Toy, Training

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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("onw", "did you mean 'own'"),
        ("mine", "module:adapter"),
        ("adapters_of_a_test:number", "expected an Engine, or a function of a Trial"),
        ("adapters_of_a_test:lost", "AttributeError"),
        ("nowhere_at_all:run", "ModuleNotFoundError"),
        ("broken_adapters_of_a_test:run", "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_loaded_is_refused(here: None, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(name)


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
class Narrow(Toy):
    """Returns the sums of one tensor only."""

    def run(self, trial: Trial) -> Steps:
        return Steps(super().run(trial).sums[:, :256])


@dataclass(frozen=True)
class NotFinite(Toy):
    def run(self, trial: Trial) -> Steps:
        steps = super().run(trial)
        steps.sums[3, 2] = np.nan
        return steps


@dataclass(frozen=True)
class TellsOfOthers(Toy):
    def run(self, trial: Trial) -> Steps:
        steps = super().run(trial)
        return replace(steps, included=np.zeros((trial.steps, trial.population + 1)))


@dataclass(frozen=True)
class Nothing(Toy):
    def run(self, trial: Trial) -> Steps:
        return Steps(super().run(trial).sums[:0])


@dataclass(frozen=True)
class Stops(Toy):
    def run(self, trial: Trial) -> Steps:
        raise MemoryError("no room\nat all")


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (Narrow(Training), r"sums of shape \(150, 256\); \(150, 512\) is due"),
        (NotFinite(Training), "not finite, of finite gradients"),
        (TellsOfOthers(Training), r"of shape \(150, 81\), not \(150, 80\)"),
        (Nothing(Training), "no step released anything"),
        (Stops(Training), r"the engine stopped on vectors \(MemoryError: no room\); mend"),
    ],
)
def test_an_adapter_that_is_wrong_is_refused(engine: Toy, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        examine(engine, SMALL, texts=False)


@dataclass(frozen=True)
class Seeding(Toy):
    def run(self, trial: Trial) -> Steps:
        torch.manual_seed(trial.seed)
        return super().run(trial)


def test_every_run_is_reported_and_nothing_global_is_changed() -> None:
    threads, names = torch.get_num_threads(), []
    state = torch.get_rng_state()
    examine(Seeding(Training), SMALL, texts=False, report=names.append)
    assert torch.equal(torch.get_rng_state(), state)
    due = ["quiet", "few", "again", "noise", "update", "tied", "infinite", "claim"]
    assert (names, torch.get_num_threads()) == (due, threads)


def test_equal_seeds_give_equal_examinations() -> None:
    one, again, other = (
        examine(Toy(Training), SMALL, seed, texts=False).outcomes for seed in (0, 0, 1)
    )
    assert one == again
    assert one != other
