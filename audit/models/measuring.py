"""Measure what work with a model takes, on the model itself, or on a few blocks of a large one.

A large model is not loaded: models of its kind and width with one and with four blocks tell what a
block takes, and what is around it. Their weights are random, which changes neither time nor memory.
"""

from __future__ import annotations

import resource
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AutoConfig

from audit.core.model import ModelFolder, PreTrainedModel
from audit.models import this_process
from audit.models.adapters import freeze
from audit.models.loading import load_weights
from audit.models.sizes import LARGE

DEPTHS = (1, 4)  # blocks; further apart, since chance in what they take is multiplied


def measured(
    model: ModelFolder,
    device: str,
    threads: int,
    work: Callable[[PreTrainedModel], Sequence[float]],
) -> list[float]:
    """Measure what `work` takes with a public model; global state is left as it was.

    work: returns numbers of which each grows with every block by as much, or by nothing.
    """
    before = torch.get_num_threads()
    this_process.prepare(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            if not model.blocks or model.parameters < LARGE:
                return list(work(load_weights(model, device)))
            few, many = (np.array(work(shallow(model, blocks, device))) for blocks in DEPTHS)
    finally:
        torch.set_num_threads(before)
    least, most = DEPTHS
    times = (model.blocks - least) / (most - least)
    deeper: list[float] = (few + times * np.maximum(many - few, 0.0)).tolist()
    return deeper


def shallow(model: ModelFolder, blocks: int, device: str) -> Any:
    """Make a model of the same kind and width, with so many blocks and random weights."""
    from transformers import AutoModelForCausalLM  # two seconds, which most commands do not need

    config = AutoConfig.from_pretrained(model.path, local_files_only=True, trust_remote_code=False)
    config.num_hidden_layers = blocks
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == model.blocks:  # says something of each block
            setattr(config, name, (value * blocks)[:blocks])
    dtype = config.dtype if model.lora and config.dtype else torch.float32
    auto: Any = AutoModelForCausalLM
    inner = auto.from_config(config, dtype=dtype)
    if model.lora is not None:
        freeze(inner)
    return inner.to(device).eval()


@final
class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that are made while it is entered.

    held: of those that are still there. most: of those that were there at one time.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held = self.most = 0
        self._known = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {id(one.untyped_storage()) for one in tree_leaves(args) if isinstance(one, Tensor)}
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._hold(tensor.untyped_storage(), given)
        return made

    def _hold(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        if id(storage) in given or storage in self._known:
            return  # a view, or written in place
        size = storage.nbytes()
        self._known[storage] = True
        self.held += size
        self.most = max(self.most, self.held)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.held -= size


def resident() -> float:
    """Return the bytes of memory that this process has now, its libraries and models included."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        return float(pages * resource.getpagesize())
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # the most it had
