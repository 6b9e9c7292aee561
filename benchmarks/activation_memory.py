"""Measures what `checkpoint_activations` saves: peak memory and time of a step, with and without.

    python benchmarks/activation_memory.py

A random GPT-2 and a random Llama; a step of plain fine-tuning and one of DP-SGD, each of all
weights and of LoRA adapters. Every measurement is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from audit.core.lora import Lora
from audit.models.adapters import freeze, fresh
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import Example, collated
from audit.models.training.fine_tuning import next_token_loss
from audit.models.training.recomputation import recomputed

SHAPES = {
    "gpt2": {"n_embd": 512, "n_layer": 12, "n_head": 8, "n_positions": 512},
    "llama": {
        **{"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 12},
        **{"num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 512},
    },
}
VOCABULARY, LENGTH = 1024, 512


@dataclass(frozen=True)
class Case:
    """One measurement. lora: whether adapters are trained. twice: whether blocks compute twice."""

    shape: str
    private: bool
    lora: bool
    twice: bool

    def model(self) -> Any:
        sizes = {**SHAPES[self.shape], "vocab_size": VOCABULARY}
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(self.shape, **sizes)).eval()
        if not self.lora:
            return model
        freeze(model)
        return fresh(model, Lora(8, 16))

    def step(self, model: Any, rows: list[list[int]]) -> None:
        with recomputed(model, True) if self.twice else nullcontext():
            if not self.private:
                next_token_loss(model, rows).backward()  # type: ignore[no-untyped-call]
                return
            noise = Noise(1.0, 1.0)
            release = NoisySum(model, noise, np.random.default_rng(0))
            release._checked = True  # the comparison with a plain loop is of the first step alone
            examples = [Example(((row, [1 / LENGTH] * LENGTH),)) for row in rows]
            tokens = LENGTH * len(rows)
            release.into_gradients(collated(examples, tokens, model.device), len(rows))


def measure(case: Case, rows: int) -> dict[str, float]:
    """Take one step; return the growth of peak memory (bytes) and the time (seconds)."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = case.model()
    texts = torch.randint(VOCABULARY, (rows, LENGTH + 1)).tolist()
    case.step(model, texts[:1])
    before = peak()
    began = time.perf_counter()
    case.step(model, texts)
    return {"memory": peak() - before, "seconds": time.perf_counter() - began}


def peak() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=8, help=f"of {LENGTH} tokens in a step")
    parser.add_argument("--case", help="one measurement, as JSON; all unless given")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(Case(**json.loads(given.case)), given.rows)))
        return
    print(
        "| Model | Step | Trained | Memory | twice | Time | twice |\n|---|---|---|---|---|---|---|"
    )
    for shape in SHAPES:
        for private in (False, True):
            for lora in (False, True):
                cells = [
                    apart(Case(shape, private, lora, twice), given.rows) for twice in (False, True)
                ]
                print(line(shape, private, lora, cells), flush=True)


def apart(case: Case, rows: int) -> dict[str, float]:
    """Measures in a process of its own."""
    words = [sys.executable, __file__, "--rows", str(rows), "--case", json.dumps(vars(case))]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def line(shape: str, private: bool, lora: bool, cells: list[dict[str, float]]) -> str:
    what = ["DP-SGD" if private else "plain", "LoRA" if lora else "all"]
    memory = [f"{cell['memory'] / 1e6:,.0f} MB" for cell in cells]
    times = [f"{cell['seconds']:.1f} s" for cell in cells]
    return f"| {' | '.join([shape, *what, *memory, *times])} |"


if __name__ == "__main__":
    main()
