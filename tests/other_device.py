"""Stands in for a GPU: runs code on a second device that has shapes and no values.

PyTorch's fake tensors refuse to compute with tensors of two devices, as a GPU does. Numbers that
are brought to the host are counted, because each makes the host wait for the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map

OTHER = torch.device("meta")  # the one device beside "cpu" that every build of PyTorch knows
_ATEN = torch.ops.aten


class OtherDevice(FakeTensorMode):
    """Computes shapes and devices only; a number that the host reads is 0, a truth value true."""

    def __init__(self) -> None:
        super().__init__()
        self.allow_meta = True
        self.read = 0  # times that the host waited for numbers

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ATEN._local_scalar_dense.default:
            self.read += args[0].device == OTHER
            kind = args[0].dtype
            return True if kind == torch.bool else 0.0 if kind.is_floating_point else 0
        if func is _ATEN.equal.default:  # weights of two models differ
            return False
        if func is _ATEN.nonzero.default:
            self.read += args[0].device == OTHER
            with self:
                return torch.empty(0, args[0].dim(), dtype=torch.long, device=args[0].device)
        if func is _ATEN._to_copy.default:
            target = (kwargs or {}).get("device")
            self.read += args[0].device == OTHER and target == torch.device("cpu")
        args, kwargs = tree_map(self._known, (args, kwargs or {}))
        return super().dispatch(func, types, args, kwargs)

    def _known(self, one: Any) -> Any:
        """Makes a fake tensor of an index that PyTorch itself has put on the other device."""
        if type(one) is not torch.Tensor or one.device != OTHER:
            return one
        with self:
            return torch.empty(one.shape, dtype=one.dtype, device=OTHER)


@contextmanager
def other_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherDevice]:
    """Enters the mode. What the host takes as an array must have been copied to it before."""

    def numpy(tensor: torch.Tensor) -> np.ndarray:
        assert tensor.device.type == "cpu", "an array of a tensor on the other device"
        return np.zeros(tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))

    def autocast(kind: str, *given: Any, **named: Any) -> Any:
        return nullcontext() if kind == OTHER.type else real(kind, *given, **named)

    def tensor(values: Any, *, device: Any = None, **named: Any) -> torch.Tensor:
        there = made(values, **named)
        return there if device is None else there.to(device)

    real, made = torch.autocast, torch.tensor
    monkeypatch.setattr(torch, "autocast", autocast)
    monkeypatch.setattr(torch, "tensor", tensor)
    monkeypatch.setattr(FakeTensor, "numpy", numpy, raising=False)
    with OtherDevice() as mode:
        yield mode


def moved(models: Sequence[nn.Module]) -> list[Any]:
    """Puts parameters and buffers on the other device, inside the mode; shared ones stay so."""
    known: dict[int, Any] = {}
    for module in (module for model in models for module in model.modules()):
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None:
                    known.setdefault(id(tensor), (tensor, _moved(tensor)))
                    own[name] = known[id(tensor)][1]
    return [model.eval() for model in models]


def _moved(tensor: torch.Tensor) -> Any:
    there: Any = torch.empty(tensor.shape, dtype=tensor.dtype, device=OTHER)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(there, requires_grad=tensor.requires_grad)
    return there
