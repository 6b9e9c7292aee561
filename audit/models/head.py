"""Compute the head of a causal model for some positions at a time.

A model is a trunk, which turns tokens into vectors, and a head, which turns each vector into one
logit for each word. With a vocabulary of 262,144 words the logits of 1,024 positions are 1 GiB in
float32, and a loss makes three copies. Positions do not depend on each other in the head. So the
logits of a few are made, used and dropped. Results equal the whole model's, but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from audit.models.cached import same
from audit.models.held_weights import in_float32

AT_ONCE = 1 << 26  # logits that are made at once: 256 MiB in float32
_TOKENS = 3  # of the text that a model is tried with

_known: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


@dataclass(frozen=True)
class Head:
    """The layers that a causal model has after its trunk, scaled or capped logits included.

    by_rows: whether a row's positions are to stay together: a head that is trained is recorded
        while it reads them.
    """

    model: Any
    trunk: Any
    by_rows: bool = False

    def vectors(self, **read: Any) -> Tensor:
        """Compute the trunk's vectors, (n, T, d), from the arguments of the model."""
        vectors: Tensor = self.trunk(**read).last_hidden_state
        return vectors

    def logits(self, vectors: Tensor) -> Tensor:
        """Compute the logits, (n, T, V), after vectors of shape (n, T, d)."""
        with _answering(self.trunk, vectors):
            places = torch.zeros(vectors.shape[:2], dtype=torch.long, device=vectors.device)
            logits: Tensor = self.model(input_ids=places, use_cache=False).logits
        return logits

    @property
    def parameters(self) -> list[Tensor]:
        """List the parameters that require a gradient, those shared with the trunk included."""
        inside = {id(module) for module in self.trunk.modules()}
        own = (m for m in self.model.modules() if id(m) not in inside)
        found = {id(p): p for m in own for p in m.parameters(recurse=False) if p.requires_grad}
        return list(found.values())

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Hold the head's matrix in float32 inside the context, once for all positions."""
        with in_float32(self.model.get_output_embeddings()):
            yield

    @property
    def at_once(self) -> int:
        """Count the positions whose logits are made at once."""
        return positions_at_once(int(self.model.config.vocab_size))


def positions_at_once(logits: int) -> int:
    """Count the positions that are read at once, of so many logits each."""
    return max(1, AT_ONCE // logits)


def head_for(model: Any, positions: int) -> Head | None:
    """Return the head of a model whose logits for so many positions are too many to make at once.

    None where they are few, and where head and trunk cannot be told apart: this is tried with
    numbers, once for each model. Models that are computed together have a head of their own.
    """
    if hasattr(model, "head_of_all"):
        heads: Head | None = model.head_of_all(positions)
        return heads
    vocabulary = getattr(getattr(model, "config", None), "vocab_size", 0)
    if positions * vocabulary <= AT_ONCE:
        return None
    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    trunk = getattr(inner, "base_model", inner)
    if trunk is inner or not hasattr(inner, "get_output_embeddings"):
        return None
    head = Head(inner, trunk)
    if inner not in _known:
        _known[inner] = _is_whole(head)
    return replace(head, by_rows=bool(head.parameters)) if _known[inner] else None


def _is_whole(head: Head) -> bool:
    """Return whether trunk and head together answer as the model does."""
    model = head.model
    training = [module for module in model.modules() if module.training]
    text = torch.arange(1, 1 + _TOKENS, device=model.device)[None]
    read = {"input_ids": text, "position_ids": text - 1, "use_cache": False}
    try:
        model.eval()
        with torch.no_grad(), head.ready():
            expected = model(**read).logits
            found = head.logits(head.vectors(**read))
    except Exception:  # architectures raise errors of any class
        return False
    finally:
        for module in training:
            module.training = True
    return found.shape == expected.shape and same(found, expected)


class _Answer:
    """A trunk's answer of vectors alone; whatever else a model asks of it is None."""

    def __init__(self, vectors: Tensor) -> None:
        self.last_hidden_state = vectors

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def __getitem__(self, place: int) -> Tensor:
        return (self.last_hidden_state,)[place]


@contextmanager
def _answering(trunk: Any, vectors: Tensor) -> Iterator[None]:
    """Make a trunk answer with these vectors, whatever it is asked."""
    own = trunk.__dict__.get("forward")
    trunk.forward = lambda *_, **__: _Answer(vectors)
    try:
        yield
    finally:
        del trunk.forward
        if own is not None:
            trunk.forward = own
