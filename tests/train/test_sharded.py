"""Two processes of gloo, each with a part of a frozen base, train the adapters that one would."""

from __future__ import annotations

import copy
import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from audit import api
from audit.core.checkpoint import NO_CHECKPOINT, Checkpoint
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.core.processes import ALONE, Processes
from audit.core.training import NotFiniteError
from audit.models import head
from audit.models.adapters import freeze, fresh, own_weights
from audit.models.layers import blocks
from audit.models.training.dp_sgd import PrivateRecipe
from audit.train.models import public_model
from audit.train.task import check_sharded
from audit.train.train import train_on
from audit.train.workers import together
from audit.train.workers.serial import Serial
from tests.models.training.test_dp_sgd import Letters, people, tiny
from tests.models.training.test_processes import ADAMW, SGD, Kept
from tests.train.test_checkpoints import base, full, task  # noqa: F401

BLOCKS = {"n_layer": 2, "n_embd": 18}  # 18 columns are not 2 · 8
WIDE = replace(SGD, physical_tokens=48)  # fewer passes
FEW = replace(SGD, steps=2)


@dataclass(frozen=True)
class Case:
    """One training, as each process is told it.

    dtype: of a base and its adapters; bfloat16: of a base that is held in it. at_once: logits that
    are made at once. lame: the process whose adapters are no numbers. blocks: that the model says
    it has.
    """

    recipe: PrivateRecipe
    dtype: torch.dtype = torch.float64
    at_once: int = head.AT_ONCE
    lame: int = -1
    blocks: int = 2


@dataclass(frozen=True)
class Ended:
    """What a process ends with.

    held: frozen numbers that it holds. error: that ended it. kept: whether the whole base is there.
    beside: frozen numbers of other blocks that it held, at most, when it had read the last one.
    loading: when it began and ended to load the whole model, by the clock of all processes.
    """

    adapters: Tensor
    held: int
    error: str = ""
    kept: bool = False
    beside: int = 0
    loading: tuple[float, float] = (0.0, 0.0)


def loaded(case: Case, rank: int, seen: list[Any]) -> Any:
    public = tiny(**BLOCKS)
    public.config.num_hidden_layers = case.blocks
    freeze(public.to(case.dtype))
    model: Any = fresh(public, Lora(2, 4), 3)
    draw = torch.Generator().manual_seed(5)
    for name, factor in model.named_parameters():
        if "lora_B" in name:
            factor.data = torch.randn(factor.shape, generator=draw).to(factor) / 20
        if "lora_" in name and case.dtype == torch.float64:
            factor.data = factor.data.double()
        if "lora_" in name and rank == case.lame:
            factor.data.fill_(float("nan"))
    seen.append(weakref.ref(public.transformer.h[0].attn.c_attn.weight))
    return model


def ended(case: Case, processes: Processes, checkpoint: Checkpoint = NO_CHECKPOINT) -> Ended:
    seen: list[Any] = []
    times: list[float] = []

    def load(device: str) -> Any:
        times.append(time.monotonic())
        whole = loaded(case, processes.rank, seen)
        time.sleep(0.1)
        times.append(time.monotonic())
        return whole

    head.AT_ONCE = case.at_once
    try:
        model = processes.hold(load, "cpu")
        gc.collect()
        beside = watched(model)
        training = replace(people(), processes=processes, checkpoint=checkpoint)
        case.recipe.train(model, Letters(), training)
    except (NotFiniteError, UsageError) as error:
        return Ended(torch.zeros(0), 0, str(error))
    finally:
        head.AT_ONCE = 1 << 26
    frozen = [p for p in model.parameters() if not p.requires_grad]
    parts = [p.to_local() if hasattr(p, "to_local") else p for p in frozen]
    adapters = torch.cat([one.flatten() for one in own_weights(model).values()])
    held, most = sum(map(Tensor.numel, parts)), max(beside, default=0)
    return Ended(adapters, held, "", seen[0]() is not None, most, (times[0], times[1]))


def watched(model: Any) -> list[int]:
    """What each pass holds of the blocks before the last one."""
    *before, last = blocks(model)
    found: list[int] = []

    def look(*_: object) -> None:
        own = [n for block in before for n in block.named_parameters() if "lora_" not in n[0]]
        found.append(sum(p.numel() for _, p in own if not isinstance(p, DTensor)))

    last.register_forward_hook(look)
    return found


def member(case: Case, report: object, teachers: object, processes: Processes) -> None:
    """What the second process does, whose end the first is told."""
    one = ended(case, processes)
    processes.every(lambda: [one])


Pair = Callable[..., list[Ended]]


@pytest.fixture(scope="module")
def place() -> Iterator[together.Together]:
    """Two processes that start once."""
    with together.together(2, nullcontext(Serial()), True) as opened:
        assert isinstance(opened, together.Together)
        yield opened


@pytest.fixture
def both(place: together.Together) -> Pair:
    """Trains a case by two processes."""

    def run(case: Case, checkpoint: Checkpoint = NO_CHECKPOINT) -> list[Ended]:
        place.group.first(lambda: (member, case, True))
        one = ended(case, together._holding(place.group, True), checkpoint)
        return place.group.every(lambda: [one])

    return run


CASES = [
    Case(WIDE),
    full(Case(replace(FEW, checkpoint_activations=True))),
    full(Case(replace(FEW, layers="top:1"))),
    full(Case(FEW, at_once=4)),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=["plain", "recomputed", "last block", "head in parts"])
def test_sgd_in_float64_equals_one_process(both: Pair, case: Case) -> None:
    alone, (first, second) = ended(case, ALONE), both(case)
    assert torch.equal(first.adapters, second.adapters)
    assert (alone.adapters - first.adapters).abs().max() < 1e-10
    assert (alone.adapters - start(case)).norm() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "steps"), [(torch.bfloat16, 3), full(torch.float32, 20)])
def test_adamw_in_float32_equals_one_process(both: Pair, dtype: torch.dtype, steps: int) -> None:
    case = Case(replace(ADAMW, steps=steps, physical_tokens=48), dtype)
    alone, (first, _) = ended(case, ALONE), both(case)
    assert first.adapters.dtype == torch.float32
    moved = (alone.adapters - start(case)).norm()
    assert (alone.adapters - first.adapters).norm() < 1e-3 * moved


def start(case: Case) -> Tensor:
    return ended(replace(case, recipe=replace(case.recipe, steps=0)), ALONE).adapters


@pytest.mark.slow
def test_each_process_holds_its_part_of_the_blocks_alone(both: Pair) -> None:
    model = tiny(**BLOCKS)
    inside = sum(p.numel() for p in model.transformer.h.parameters())
    around = sum(p.numel() for p in model.parameters()) - inside
    both_ended = both(Case(replace(WIDE, steps=1)))
    held = [one.held - around for one in both_ended]
    assert sum(held) == inside and max(held) < 0.51 * inside
    assert not any(one.kept or one.beside for one in both_ended)
    assert both_ended[0].loading[1] <= both_ended[1].loading[0]  # never two wholes
    assert ended(Case(replace(WIDE, steps=1)), ALONE).beside == inside // 2


@pytest.mark.slow
def test_any_number_of_processes_goes_on_from_its_checkpoint(both: Pair) -> None:
    case, kept = Case(replace(WIDE, steps=4)), Kept(after=2)
    whole = both(case, kept)[0].adapters
    assert kept.state is not None and kept.state["steps"] == 2
    states = [Kept(state=copy.deepcopy(kept.state)) for _ in range(2)]
    for again in (ended(case, ALONE, states[0]), both(case, states[1])[0]):
        assert (whole - again.adapters).abs().max() < 1e-10


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_training_in_all(both: Pair) -> None:
    errors = {one.error for one in both(Case(SGD, lame=1))}
    assert errors == {"a loss is not finite; lower learning_rate or clip"}


@pytest.mark.slow
def test_blocks_that_are_not_found_are_refused_in_one_line(both: Pair) -> None:
    errors = {one.error for one in both(Case(SGD, blocks=9))}
    assert errors == {"--sharded: 2 of 9 blocks are found in this model; leave it out"}


@pytest.mark.slow
def test_a_task_writes_the_file_that_one_process_writes(
    base: ModelFolder,  # noqa: F811
    place: together.Together,
    tmp_path: Path,
) -> None:
    tasks = [task(base, "dp_sgd, lora", tmp_path / name) for name in ("alone", "parts")]
    for one, by in zip(tasks, (Serial(), place), strict=True):
        mapped: list[bool] = []

        def look(label: object, share: float, mapped: list[bool] = mapped) -> None:
            if share < 1 and sys.platform == "linux":
                mapped.append(str(base.path) in Path("/proc/self/maps").read_text())

        train_on(by, [one], look)
        whole = by is not place
        assert all(held == whole for held in mapped)  # the file of all weights
        assert public_model.cache_info().currsize == whole
    alone, parts = (load_file(one.path) for one in tasks)
    assert alone.keys() == parts.keys()
    gap = torch.stack([(alone[name] - parts[name]).norm() for name in alone]).norm()
    assert 0 < gap < 1e-4 * torch.stack([one.norm() for one in alone.values()]).norm()


def test_older_pytorch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed, refused in (("2.8.1", True), ("2.9.0+cpu", False), ("2.13.0", False)):
        monkeypatch.setattr("audit.train.task.version", {"torch": installed}.get)
        with pytest.raises(UsageError) as raised:
            check_sharded([])
        assert ("2.9 or newer, and here is 2.8.1" in str(raised.value)) == refused


REFUSED: dict[str, dict[str, Any]] = {
    "give --processes 2 or more": {"processes": 1},
    "all weights are trained; give --lora": {},
    "give dp_sgd, dp_ftrl or s_dpsgd": {"lora": "r=2", "defense": "redaction"},
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_sharded_is_refused(line: str, tmp_path: Path) -> None:
    given = {"defense": "dp_sgd", "attack": "membership", "references": False, "processes": 2}
    with pytest.raises(UsageError) as raised:
        api.dry_run(sharded=True, output=tmp_path / "run", **{**given, **REFUSED[line]})
    assert str(raised.value).startswith("--sharded") and str(raised.value).endswith(line)
