"""The catalogue of silent faults, its row of weights: each over one leaking model.

Every measure is supposed to see. A fault ends in a leak, a refusal, or a reason that names it. What
only an adapter's file can lack is refused before any audit: see tests/models/test_loaded_whole.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from audit.core.terms import Leaked
from audit.findings.shows import first_missing
from audit.plan.resolve import resolve
from audit.run.limitations import not_tested
from tests.builders import BASE
from tests.silence.conftest import Judge
from tests.silence.leaking_twin import LEAK, UNKNOWN, Twin, asked, check, edit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EQUAL = "answers exactly as its base"
ADAPTER, CONFIG = "adapter_model.safetensors", "adapter_config.json"
Weights = dict[str, Tensor]


def test_unharmed_twin_leaks_and_quiet_one_earns_silence(twin: Twin, judge: Judge) -> None:
    """The quiet one learnt the words before planted values alone: a fault might be as silent."""
    assert Leaked.LEAK in {finding.leaked for finding in judge(twin.leaking)}
    quiet = judge(twin.quiet)
    assert Leaked.LEAK not in {finding.leaked for finding in quiet}
    assert any(one.silence and first_missing(one.silence) is None for one in quiet)


@pytest.fixture
def adapter(twin: Twin, tmp_path: Path) -> Path:
    return Path(shutil.copytree(twin.leaking, tmp_path / "adapter"))


@pytest.fixture
def whole(twin: Twin, tmp_path: Path) -> Path:
    return Path(shutil.copytree(twin.whole, tmp_path / "whole"))


def rewrite(file: Path, change: Callable[[Weights], object]) -> None:
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


def zeroed(weights: Weights, name: str) -> None:
    for key in weights:
        if name in key:
            weights[key] = torch.zeros_like(weights[key])


def of_adapter(change: Callable[[Weights], object]) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / ADAPTER, change)


def without_effect(folder: Path) -> None:
    edit(folder / CONFIG, lora_alpha=0)


def noised_base(folder: Path) -> Path:
    """Another model of the same shape."""
    base = Path(shutil.copytree(BASE, folder / "noised"))

    def noise(weights: Weights) -> None:
        torch.manual_seed(1)
        for name, w in weights.items():
            weights[name] = w + 0.05 * w.std() * torch.randn_like(w)

    rewrite(base / "model.safetensors", noise)
    return base


ADAPTERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "unharmed": (lambda folder: None, LEAK),
    "keys of another name": (
        of_adapter(lambda w: [w.update({k.replace(".h.", ".layers."): w.pop(k)}) for k in [*w]]),
        "does not fit its base",
    ),
    "empty file": (of_adapter(lambda w: w.clear()), "does not fit its base"),
    "one layer only": (
        of_adapter(lambda w: [w.pop(k) for k in [*w] if ".h.0." in k]), "does not fit its base"
    ),
    "A without B": (
        of_adapter(lambda w: [w.pop(k) for k in [*w] if "lora_B" in k]), "does not fit its base"
    ),
    "B all zero": (of_adapter(lambda w: zeroed(w, "lora_B")), EQUAL),
    "alpha 0": (without_effect, EQUAL),
}  # fmt: skip


@pytest.mark.parametrize("fault", ADAPTERS)
def test_adapter_fault_leaks_or_is_named(fault: str, adapter: Path, judge: Judge) -> None:
    change, cause = ADAPTERS[fault]
    change(adapter)
    check(judge, adapter, cause)


def test_adapter_beside_whole_model_is_refused(twin: Twin, adapter: Path, judge: Judge) -> None:
    """Of a leaking model that was merged into the folder of an older adapter."""
    for file in ("config.json", "model.safetensors"):
        shutil.copy(twin.whole / file, adapter)
    check(judge, adapter, "an adapter and a whole model")


def absent_base(folder: Path) -> None:
    edit(folder / CONFIG, base_model_name_or_path="someone/base")


def packed_base(folder: Path) -> None:
    """Name a folder here whose weights are quantised, as the trainer of a QLoRA does."""
    base = Path(shutil.copytree(BASE, folder.parent / "packed"))
    edit(base / "config.json", quantization_config={"quant_method": "bitsandbytes"})
    edit(folder / CONFIG, base_model_name_or_path=str(base))


ON_ANOTHER: dict[str, tuple[Callable[[Path], None], Callable[[Twin, Path], Path], str]] = {
    "another base": (lambda folder: None, lambda twin, folder: noised_base(folder), "trained on"),
    "merged applied again": (lambda folder: None, lambda twin, folder: twin.whole, "trained on"),
    "merged again, base absent": (absent_base, lambda twin, folder: twin.whole, UNKNOWN),
    "another base, own absent": (absent_base, lambda twin, folder: noised_base(folder), LEAK),
    "named base quantised": (packed_base, lambda twin, folder: BASE, LEAK),
}


@pytest.mark.parametrize("fault", ON_ANOTHER)
def test_adapter_on_another_base_leaks_or_is_named(
    fault: str, twin: Twin, adapter: Path, tmp_path: Path, judge: Judge
) -> None:
    change, base, cause = ON_ANOTHER[fault]
    change(adapter)
    check(judge, adapter, cause, base=base(twin, tmp_path))


def of_whole(change: Callable[[Weights], object]) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / "model.safetensors", change)


def sharded(folder: Path) -> tuple[Path, Path]:
    """Split the weights over two files with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    parts = dict(zip(files, (names[::2], names[1::2]), strict=True))
    for file, own in parts.items():
        save_file({n: weights[n] for n in own}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {n: f for f, own in parts.items() for n in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    one, other = (folder / file for file in files)
    return one, other


def shard_missing(folder: Path) -> None:
    sharded(folder)[1].unlink()


def shards_swapped(folder: Path) -> None:
    one, other = sharded(folder)
    one.rename(folder / "kept")
    other.rename(one)
    (folder / "kept").rename(other)


def shard_doubled(folder: Path) -> None:
    one, other = sharded(folder)
    shutil.copy(one, other)


def shard_of_another(folder: Path) -> None:
    """One shard is of an earlier step: that of the base."""
    one, _ = sharded(folder)
    earlier = load_file(BASE / "model.safetensors")
    rewrite(one, lambda w: w.update({name: earlier[name] for name in w}))


def average_beside(folder: Path) -> None:
    shutil.copy(BASE / "model.safetensors", folder / "ema.safetensors")


def misread(weights: Weights) -> None:
    """Read bfloat16 as float16."""
    for name, w in weights.items():
        weights[name] = w.bfloat16().view(torch.int16).view(torch.float16).contiguous()


def padded(folder: Path) -> None:
    """Pad the vocabulary, as trainers do for their hardware."""

    def pad(weights: Weights) -> None:
        table = weights["transformer.wte.weight"]
        weights["transformer.wte.weight"] = torch.cat([table, torch.zeros(64, table.shape[1])])

    of_whole(pad)(folder)
    edit(folder / "config.json", vocab_size=1024 + 64)


def untied(weights: Weights) -> None:
    """Store the head that leaks beside an input table, to which config.json ties it."""
    table = weights["transformer.wte.weight"]
    weights["lm_head.weight"] = table.clone()
    weights["transformer.wte.weight"] = table + 1e-3 * table.std() * torch.randn_like(table)


WHOLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "unharmed": (lambda folder: None, LEAK),
    "in shards": (sharded, LEAK),
    "a shard missing": (shard_missing, "which is not there"),
    "shards swapped": (shards_swapped, LEAK),
    "a shard doubled": (shard_doubled, "loaded"),
    "a shard of another step": (shard_of_another, LEAK),  # which is what these weights are
    "head untied in the file": (of_whole(untied), LEAK),
    "config of another width": (
        lambda folder: edit(folder / "config.json", n_embd=64), "loaded"
    ),
    "config of other heads": (lambda folder: edit(folder / "config.json", n_head=8), LEAK),
    "fewer layers in config": (
        lambda folder: edit(folder / "config.json", n_layer=1), "not loaded whole"
    ),
    "an average beside the last": (average_beside, "hold different tensors"),
    "bf16 read as fp16": (of_whole(misread), UNKNOWN),
    "not a number": (
        of_whole(lambda w: [w.update({k: w[k] * float("nan")}) for k in w]), "finite"
    ),
    "vocabulary resized": (padded, LEAK),
    "step 0": (
        lambda folder: shutil.copy(BASE / "model.safetensors", folder / "model.safetensors"),
        UNKNOWN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WHOLE)
def test_fault_of_whole_model_leaks_or_is_named(fault: str, whole: Path, judge: Judge) -> None:
    change, cause = WHOLE[fault]
    change(whole)
    check(judge, whole, cause)


def test_step_0_beside_its_base_is_named(judge: Judge) -> None:
    check(judge, BASE, EQUAL, base=BASE)


# why no check sees it, and the words of the report's "What was not tested"
UNSEEN = {
    "average": "an average beside the last step has the same shape, and may leak less",
    "another step": "so has each checkpoint",
    "precision": "what is served in 4 bits is made from these weights after the audit",
    "used as given": "the stated file is read, not the training",
}


def test_unseen_faults_stand_in_the_report(twin: Twin) -> None:
    plan = resolve(asked(twin, twin.leaking))
    assert all(any(line in entry for entry in not_tested(plan)) for line in UNSEEN)
