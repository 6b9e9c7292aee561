"""Trains a copy of a model on a few invented texts, until it has just memorised them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.errors import UsageError
from audit.core.language_model import OpenSession
from audit.core.lora import ALL_LINEAR, Lora
from audit.core.predictor import record_marks, record_tokens
from audit.core.secret import Secret
from audit.models.adapters import fresh, is_adapted
from audit.models.causal import CausalLM
from audit.models.layers import blocks
from audit.models.training.fine_tuning import batches, cut, next_token_loss

STEPS = 200
WHOLE = 50_000_000  # parameters, up to which all blocks are trained
RATE = 2e-3
BATCH = 4096  # tokens a step
ADAPTERS = Lora(r=8, alpha=16, targets=ALL_LINEAR)


@dataclass(frozen=True)
class Memorised:
    """A trained copy. steps: that it took. above: whether all its texts stand above all others."""

    model: CausalLM
    steps: int
    above: bool


def memorise(
    model: CausalLM, texts: Sequence[Secret], others: Sequence[Secret], seed: int
) -> Memorised:
    """Train a copy of the model until every value scores above all other values of its kind.

    texts, others: secrets that are trained on, and their controls. The copy is looked at after 1,
    2, 4, 8 … steps, and left after 200. The model itself stays as it is. Dropout is off, so on a
    CPU with a fixed number of threads equal arguments give equal bytes.
    """
    inner = trainable(model.inner, seed)
    own = replace(model, inner=inner)
    whole = [record_tokens(model.tokenizer, secret.text) for secret in texts]
    # trainers open their texts with a start token or do not, and attacks read either way
    rows = [row for one in whole for way in (one, one[1:]) for row in cut(way, model.max_length)]
    weights = [p for p in inner.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0)
    above, step = False, 0
    for step, batch in zip(range(1, STEPS + 1), _batches(rows, seed), strict=False):
        loss = next_token_loss(inner, batch)
        if not loss.isfinite():
            break
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if step & (step - 1) == 0 or step == STEPS:
            above = _above(own, texts, others)
            if above:
                break
    for weight in weights:
        weight.requires_grad_(False)
    return Memorised(own, step, above)


def trainable(model: Any, seed: int) -> Any:
    """Copy a model, with gradients for a part of it; all else is shared with the model.

    Of a small model all blocks are trained, of one with adapters these, else new adapters of rank
    8, or the last block where none fit. Embeddings and head are never: a copy that mends a broken
    head would show that the head works.
    """
    if sum(p.numel() for p in model.parameters()) <= WHOLE:
        part = _without_ends(model, model.parameters())
    elif is_adapted(model):
        part = [p for name, p in model.named_parameters() if "lora_" in name]
    else:
        try:
            return fresh(model, ADAPTERS, seed)
        except UsageError:
            part = _without_ends(model, (p for one in blocks(model)[-1:] for p in one.parameters()))
    return _with_gradients(model, part)


def _without_ends(model: Any, weights: Iterable[Tensor]) -> list[Tensor]:
    """Leave out embeddings and head, and what is held in less than float32."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    left = {id(p) for end in ends if end is not None for p in end.parameters()}
    return [p for p in weights if id(p) not in left and p.dtype == torch.float32]


def _with_gradients(model: Any, part: Sequence[Tensor]) -> Any:
    if not part:
        raise UsageError("No layer of these weights can be trained")
    chosen = {id(p) for p in part}
    kept = [t for t in (*model.parameters(), *model.buffers()) if id(t) not in chosen]
    own = copy.deepcopy(model, memo={id(tensor): tensor for tensor in kept})
    shared = {id(tensor) for tensor in kept}
    for weight in own.parameters():
        weight.requires_grad_(id(weight) not in shared)
    return own


def _batches(rows: Sequence[Sequence[int]], seed: int) -> Iterator[list[Sequence[int]]]:
    order = torch.Generator().manual_seed(seed)
    while rows:
        yield from batches(rows, BATCH, order)


def _above(model: CausalLM, texts: Sequence[Secret], others: Sequence[Secret]) -> bool:
    """Return whether each trained value is more likely than all other values of its kind."""
    own, against = (value_log_probs(model, some) for some in (texts, others))
    of, beside = (np.array([s.kind for s in some]) for some in (texts, others))
    return all(
        (
            own[:, of == kind].min(axis=1) > against[:, beside == kind].max(axis=1, initial=-np.inf)
        ).all()
        for kind in set(of.tolist())
    )


def value_log_probs(model: CausalLM, secrets: Sequence[Secret]) -> np.ndarray:
    """Read the log-probability of each value where it stands in its text, nats: (2, s).

    First with the start token before the text, then without. The tokens of a value are those of the
    text that is trained on, whatever an attack takes for them.
    """
    tokenizer: Any = model.tokenizer
    heads, tails = [], []
    for skipped in (0, 1):
        for secret in secrets:
            tokens = record_tokens(tokenizer, secret.text)[skipped:]
            place = (len(secret.prefix), len(secret.prefix) + len(secret.value))
            marks = record_marks(tokenizer, secret.text, [place])[skipped:]
            first, last = max(1, marks.index(True)), len(marks) - marks[::-1].index(True)
            heads.append(tokens[:first])
            tails.append(tokens[first:last])
    answers = OpenSession(model, np.random.default_rng(0)).score(heads, tails)
    return np.array([answer.log_probs.sum() for answer in answers]).reshape(2, -1)
