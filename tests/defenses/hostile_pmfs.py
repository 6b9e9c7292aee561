"""Hostile pmfs, what they cost, and whole transcripts: for mechanisms that mix pmfs of parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.release import NoJournal


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))


def answers(mechanism: Any, members: np.ndarray, public: np.ndarray) -> np.ndarray:
    """The pmfs of the answers, (n, V), by the mechanism itself."""
    with np.errstate(divide="ignore"):
        log_pmfs = np.log(np.concatenate([members, public[:, None]], axis=1))
    seeds = [b""] * len(members)
    log_h: torch.Tensor = mechanism.mix(tensor(log_pmfs), seeds).log_h
    return log_h.exp().numpy()


def divergences(p: np.ndarray, q: np.ndarray, alpha: float) -> np.ndarray:
    """D_α(P‖Q) of pmfs (…, V), nats, without cancellation: ∞ where Q excludes what P does not."""
    with np.errstate(all="ignore"):
        x = (p - q) / q
        terms = q * (np.expm1(alpha * np.log1p(x)) - alpha * x)
        terms = np.where(q > 0, terms, np.where(p > 0, math.inf, 0.0))
        total: np.ndarray = np.log1p(terms.sum(axis=-1)) / (alpha - 1)
    return total


def both(p: np.ndarray, q: np.ndarray, alpha: float) -> np.ndarray:
    return np.maximum(divergences(p, q, alpha), divergences(q, p, alpha))


def emptied(members: np.ndarray, public: np.ndarray, part: int) -> np.ndarray:
    without = members.copy()
    without[:, part] = public
    return without


def laws(generator: np.random.Generator, n: int, k: int, size: int) -> tuple[Any, Any]:
    """(members, public): hostile ones. Rare public tokens, sure members, zeros on both sides."""
    public = generator.dirichlet(np.full(size, 0.5), n)
    public[:, 0] *= 10.0 ** -generator.uniform(0, 12, n)  # a rare token
    public[generator.random((n, size)) < 0.05] = 0.0
    public[:, -1] += 1e-3
    public /= public.sum(axis=1, keepdims=True)
    kinds = generator.integers(0, 5, (n, k))
    base = np.repeat(public[:, None], k, axis=1)
    tilt = np.exp(generator.normal(scale=2.0, size=(n, k, size)) * (kinds == 1)[..., None])
    near = base * tilt
    sure = np.eye(size)[generator.integers(0, size, (n, k))]
    free = generator.dirichlet(np.full(size, 0.3), (n, k))
    missing = base * (generator.random((n, k, size)) < 0.7) + 1e-3 * sure
    rare = 0.9 * base + 0.1 * np.eye(size)[np.zeros((n, k), dtype=int)]
    members = np.choose(kinds[..., None], [sure, near, free, missing, rare])
    agreed = generator.random(n) < 0.2  # all members leave out one token
    members[agreed, :, -1] *= 1e-9
    members += 1e-12 * base
    return members / members.sum(axis=-1, keepdims=True), public


def speaking(pmfs: np.ndarray, like: Any) -> Any:
    """A model with the pmf of the next token in pmfs[last, next], (3, 3), or always the same."""
    with np.errstate(divide="ignore"):
        return replace(like, log_table=np.log(np.broadcast_to(pmfs, (3, 3))))


def hostile(make: Callable[..., Any], like: Any, seed: int, k: int = 2, **parameters: Any) -> Any:
    """A service whose k members and public model answer by the last token, in hostile ways.

    make: gives the release of models and a public model. like: a model of three tokens.
    """
    members, public = laws(np.random.default_rng(seed), 3, k, 3)
    public = public + 1e-3
    public /= public.sum(axis=-1, keepdims=True)
    models = [speaking(members[:, i], like) for i in range(k)]
    return make(models, speaking(public, like), **parameters)


def transcripts(made: Any, length: int) -> np.ndarray:
    """The probability of every transcript of a session, STOP and all."""
    chances = []
    for tokens in product(range(3), repeat=length):
        opened = made.open(np.random.default_rng(5), NoJournal())
        (answer,) = opened.score([[0]], [list(tokens)])
        chances.append(float(np.exp(answer.log_probs.sum())))
    assert sum(chances) == pytest.approx(1.0)
    return np.array(chances)
