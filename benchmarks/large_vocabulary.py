"""Measure a head in parts against a whole one: memory and time of a step, with 262,144 words.

    python benchmarks/large_vocabulary.py [FOLDER] [--repeats 3] [--threads 2]

A model of the shape of Gemma 3 270M, random unless its folder is given (benchmarks/fetch_gemma.py),
LoRA of rank 8, two records of 512 tokens. A step is a noisy sum of DP-SGD, or a step of plain
fine-tuning; scoring reads both records; submix answers for the first 160 tokens of one as SubMix
with 16 adapters does (whole: 8 tokens at once, each time from the beginning of the text). The
whole head and the one in parts are measured in turns, each in processes of its own; CPU time is
more reliable than wall time on a shared machine. The largest relative difference of the sums is
printed, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.core.lora import Lora
from audit.core.release import NoJournal
from audit.models import head, this_process
from audit.models.adapters import freeze, fresh, own_weights
from audit.models.causal import CausalLM
from audit.models.ensembles.adapters_of_one_base import Together
from audit.models.ensembles.batching import batched
from audit.models.loading import describe, load_weights
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import Example, collated
from audit.models.training.fine_tuning import next_token_loss
from defenses.ensembles.accounts import ByData
from defenses.ensembles.mechanisms.mixing import Mixing
from defenses.ensembles.session import EnsembleSession, Service

LENGTH, RECORDS, LORA = 512, 2, Lora(8, 16)
SHAPE: dict[str, Any] = {
    **{"vocab_size": 262_144, "hidden_size": 640, "intermediate_size": 2048, "head_dim": 256},
    **{"num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1},
    **{"sliding_window": 512, "tie_word_embeddings": True},
}
MEMBERS, QUERIES = 16, 160
WHAT = ("dp_sgd", "plain", "scoring", "submix")


def base(folder: str) -> Any:
    if folder:
        return load_weights(replace(describe(folder, EMBEDDED_FOLDER), lora=LORA), "cpu")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model("gemma3_text", **SHAPE)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    freeze(model)
    return model


def measure(folder: str, what: str, whole: bool, repeats: int, threads: int) -> dict[str, Any]:
    """Take steps; return seconds of the median one, and the peak of the process in bytes."""
    this_process.prepare(threads)
    if whole:
        head.AT_ONCE = 1 << 62
    torch.manual_seed(0)
    model = fresh(base(folder), LORA)
    drawn = torch.Generator().manual_seed(0)
    texts = torch.randint(2000, 200_000, (RECORDS, LENGTH + 1), generator=drawn).tolist()
    clipped = NoisySum(model, Noise(1e-9, 1.0), np.random.default_rng(0))
    clipped._to_check = 0  # the comparison with a plain loop is of the first step alone
    times, sums = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        if what == "dp_sgd":
            examples = [Example(((text, [1 / LENGTH] * LENGTH),)) for text in texts]
            clipped.into_gradients(collated(examples, RECORDS * LENGTH, model.device), RECORDS)
        elif what == "plain":
            next_token_loss(model, texts).backward()  # type: ignore[no-untyped-call]
        elif what == "submix":
            answers = mixed(model, whole).score([texts[0][:1]], [texts[0][1 : 1 + QUERIES]])
            sums = [float(answer.log_probs.sum()) for answer in answers]
        else:
            session = OpenSession(CausalLM(model, None, LENGTH), np.random.default_rng(0))  # type: ignore[arg-type]
            answers = session.score([text[:1] for text in texts], [text[1:] for text in texts])
            sums = [float(answer.log_probs.sum()) for answer in answers]
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
        if what not in ("scoring", "submix"):
            sums = [
                float(p.grad.double().norm()) for p in clipped._parameters if p.grad is not None
            ]
            model.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    wall, cpu = (median(column) for column in zip(*times, strict=True))
    return {"wall": wall, "cpu": cpu, "peak": peak, "sums": sums}


def mixed(public: Any, whole: bool) -> EnsembleSession:
    """Open a session of SubMix whose members are adapters that were moved a little."""
    if whole:
        Together._heads = None  # type: ignore[assignment]
    models = [fresh(public.get_base_model(), LORA, seed) for seed in range(MEMBERS)]
    for seed, model in enumerate(models):
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in own_weights(model).values():
                weight.add_(torch.randn(weight.shape, generator=draw) * 0.01)
    members: Any = [CausalLM(model, None, LENGTH) for model in (*models, public)]  # type: ignore[arg-type]
    mechanism, account = Mixing(2.0, 1e-3, None, 1.0), ByData(1e9, 10**6)
    service = Service(mechanism, account, batched(members), MEMBERS + 1, members[-1])
    ledger = account.open(MEMBERS // 2, NoJournal())
    return EnsembleSession(service, ledger, np.random.default_rng(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        what, whole = given.one
        print(json.dumps(measure(given.folder, what, whole == "1", given.repeats, given.threads)))
        return
    if given.folder and not Path(given.folder).is_dir():
        parser.error(f"{given.folder}: no such folder; benchmarks/fetch_gemma.py makes one")
    print(
        "| | head | wall, s | CPU, s | peak, GB | largest difference |\n|---|---|---|---|---|---|"
    )
    for what in WHAT:
        found = {}
        for whole in ("1", "0"):
            words = [sys.executable, __file__, *sys.argv[1:], "--one", what, whole]
            ran = subprocess.run(words, check=True, capture_output=True, text=True)
            found[whole] = json.loads(ran.stdout.splitlines()[-1])
        pairs = zip(found["1"]["sums"], found["0"]["sums"], strict=True)
        gap = max(abs(a - b) / max(abs(a), 1e-12) for a, b in pairs)
        for whole, name in (("1", "whole"), ("0", "in parts")):
            one = found[whole]
            print(
                f"| {what} | {name} | {one['wall']:.1f} | {one['cpu']:.1f} | "
                f"{one['peak'] / 1e9:.2f} | {gap:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
