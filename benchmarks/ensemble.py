"""Compares the cost of a SubMix query with k = 8 (16 members, one public model) with one model's.

    python benchmarks/ensemble.py [--repeats 3]

It prints ratios to the time of one model for the same tokens: of reading the ensemble only, and of
the whole query with mixing and ledger (at most 4 for members that share a trunk). Members are the
public model with noise on the weights that fine-tuning would change: all, or the last block's.
Times are CPU times on one thread, the minimum over repeats taken in turn.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.ensemble import Ensemble, Separate
from audit.core.language_model import OpenSession
from audit.core.predictor import Predictor, Tokens
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.models.causal import CausalLM
from audit.models.layers import limited
from audit.models.loading import describe, load_tokenizer, load_weights
from defenses.ensembles import EnsembleRelease
from defenses.submix import SubMix

K, PROMPT, GENERATED = 8, 16, 16
SCORED, TEXT = 1024, 128
VARIANTS = (
    ("whole, separate", "all", False),
    ("whole, stacked", "all", True),
    ("top:1, stacked", "top:1", True),
)


@dataclass(frozen=True)
class Work:
    """A set of queries: generations after prompts, or texts scored after their first token."""

    label: str
    texts: tuple[Tokens, ...]
    generated: int = 0

    def ask(self, session: Predictor) -> None:
        if self.generated:
            session.generate(self.texts, self.generated)
        else:
            session.score([text[:1] for text in self.texts], [text[1:] for text in self.texts])

    def read(self, ensemble: Ensemble) -> None:
        """Read the members' distributions at the same places, one scored text at a time."""
        if not self.generated:
            for text in self.texts:
                ensemble.log_pmfs([text], [1])
            return
        cursor = ensemble.cursor(self.texts)
        for _ in range(self.generated):
            cursor.append(cursor.log_pmfs()[:, 0].argmax(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"{'':<24}{'one model':>13}" + "".join(f"{name:>24}" for name, _, _ in VARIANTS))
    print(f"{'':<24}{'ms a token':>13}" + f"{'read':>12}{'query':>12}" * len(VARIANTS))
    for name, model in (("embedded", embedded()), ("8 × 256, V 8192", larger())):
        print(name)
        releases = [released(model, layers, stacked) for _, layers, stacked in VARIANTS]
        for work in works(model.vocabulary):
            show(work, *timed(work, model, releases, repeats))


def embedded() -> CausalLM:
    folder = describe("embedded", EMBEDDED_FOLDER)
    return CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)


def larger() -> CausalLM:
    torch.manual_seed(0)
    sizes: Any = {"vocab_size": 8192, "n_positions": 256, "n_embd": 256, "n_layer": 8, "n_head": 4}
    config = GPT2Config(**sizes, initializer_range=0.1, bos_token_id=0, eos_token_id=0)
    inner: Any = GPT2LMHeadModel(config)
    return CausalLM(inner.eval(), embedded().tokenizer, 256)


def released(public: CausalLM, layers: str, stacked: bool) -> EnsembleRelease:
    trained: Any = [Trained(None, moved(public, layers, seed)) for seed in range(2 * K)]  # type: ignore[arg-type]
    service = SubMix(k=K, epsilon=1e6, budget=10**6, beta=2 / 1024)
    release = service.release(public, trained)
    assert isinstance(release, EnsembleRelease)
    if not stacked:
        with patch("defenses.ensembles.accounts.batched", Separate):
            assert isinstance(release.ensemble, Separate)  # cached before the patch ends
    return release


def moved(public: CausalLM, layers: str, seed: int) -> CausalLM:
    inner: Any = copy.deepcopy(public.inner)
    generator = torch.Generator().manual_seed(seed)
    with limited(inner, layers), torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, inner.parameters()):
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    return CausalLM(inner, public.tokenizer, public.max_length)


def works(vocabulary: int) -> list[Work]:
    draw = np.random.default_rng(0)

    def texts(count: int, length: int) -> tuple[Tokens, ...]:
        return tuple(tuple(row) for row in draw.integers(0, vocabulary, (count, length)).tolist())

    return [
        Work("generate, batch of 1", texts(1, PROMPT), 4 * GENERATED),
        Work("generate, batch of 64", texts(64, PROMPT), GENERATED),
        Work("score 1,024 tokens", texts(SCORED // TEXT, TEXT + 1)),
    ]


def timed(
    work: Work, model: CausalLM, releases: Sequence[EnsembleRelease], repeats: int
) -> tuple[float, list[tuple[float, float]]]:
    """Measures seconds of one model, and of each release: (reading, whole query)."""

    def whole(release: EnsembleRelease) -> float:
        return seconds(lambda: work.ask(release.open(np.random.default_rng(1), NoJournal())))

    turns = []
    for _ in range(repeats):
        one = seconds(lambda: work.ask(OpenSession(model, np.random.default_rng(1))))
        reads = [seconds(partial(work.read, release.ensemble)) for release in releases]
        turns.append([one, *reads, *map(whole, releases)])
    best = [min(times) for times in zip(*turns, strict=True)]
    return best[0], list(zip(best[1 : 1 + len(reads)], best[1 + len(reads) :], strict=True))


def seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def show(work: Work, one: float, releases: list[tuple[float, float]]) -> None:
    tokens = len(work.texts) * (work.generated or TEXT)
    ratios = "".join(f"{read / one:>12.1f}{queried / one:>12.1f}" for read, queried in releases)
    print(f"  {work.label:<22}{1000 * one / tokens:>13.3f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
