"""Times one training of DP-SGD on adapters by one process, by two, and by two with a sharded base.

    python benchmarks/processes.py [--width 512] [--blocks 8] [--steps 10] [--lot 16] [--threads 1]

The model is a random Llama that reads the embedded model's tokens; lots are of a few users of the
embedded corpus. Each way is a fresh process, and begins with the start of the others and with
what every training begins with: loading, and a comparison with a plain loop. Steps are timed after
the first. CPU time is of all processes. Resident is what the first process and the largest other
hold in memory between two steps; a sharded base needs two idle cores to be timed, and many more
blocks than this to be worth it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAYS = {"one process": (1, False), "two": (2, False), "two, sharded": (2, True)}
PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--width", type=int, default=512)
    words.add_argument("--blocks", type=int, default=8)
    words.add_argument("--steps", type=int, default=10)
    words.add_argument("--lot", type=int, default=16)
    words.add_argument("--threads", type=int, default=1)
    words.add_argument("--way", choices=WAYS, help="one way alone, as JSON")
    given = words.parse_args()
    if given.way is not None:
        print(json.dumps(spent(given)))
        return
    one: dict[str, float] | None = None
    print(f"{'':14}{'steps s':>9}{'':>8}{'CPU s':>8}{'':>8}{'resident MB':>15}")
    for way in WAYS:
        command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        one = one or found
        print(
            f"{way:14}{found['steps']:>9.1f}{found['steps'] / one['steps']:>7.2f}×"
            f"{found['cpu']:>8.1f}{found['cpu'] / one['cpu']:>7.2f}×"
            f"{found['first'] / 1e6:>9.0f}{found['other'] / 1e6:>6.0f}",
            flush=True,
        )


def spent(given: Any) -> dict[str, float]:
    """Train in one way: seconds of the steps but the first, CPU seconds, and resident bytes."""
    from audit.train.train import train_on, workers_for

    processes, sharded = WAYS[given.way]
    times: list[float] = []
    most = {"first": 0.0, "other": 0.0}

    def step(label: str, share: float) -> None:
        times.append(time.perf_counter())
        most["first"] = max(most["first"], resident(os.getpid()))
        for member in multiprocessing.active_children():
            most["other"] = max(most["other"], resident(member.pid or 0))

    with tempfile.TemporaryDirectory() as place:
        one = task(Path(place), given)
        with workers_for([one], 1, processes, sharded) as workers:
            train_on(workers, [one], step)
        assert one.path.exists()
    cpu = sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return {"steps": times[-1] - times[0], "cpu": cpu, **most}


def resident(pid: int) -> float:
    """Return the bytes of a process that are in memory; 0 where Linux does not tell."""
    try:
        return float(int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE)
    except (OSError, IndexError):
        return 0.0


def task(place: Path, given: Any) -> Any:
    """Make the training, and the model that it starts from."""
    from dataclasses import replace

    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from audit.core.embedded import EMBEDDED_FOLDER
    from audit.core.lora import Lora
    from audit.core.training import Training
    from audit.corpora import loading
    from audit.models.loading import describe
    from audit.models.training.dp_sgd import Noise, PrivateRecipe
    from audit.train.task import Task

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER / "public_model")
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=given.width,
            intermediate_size=3 * given.width,
            num_hidden_layers=given.blocks,
            num_attention_heads=given.width // 64,
            tie_word_embeddings=True,
            **{f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ENDS},
        )
    ).save_pretrained(place / "base")
    tokenizer.save_pretrained(place / "base")
    base = replace(describe(str(place / "base"), EMBEDDED_FOLDER), lora=Lora(8, 16))
    records = loading.load("helpdesk", EMBEDDED_FOLDER).of("private")
    owners = tuple(record.user for record in records)
    number = len(set(owners))
    recipe = PrivateRecipe(Noise(1.0, 1.0), given.lot / number, given.steps, number, 1e-3, 128)
    training = Training("dp_sgd", tuple(r.text for r in records), recipe, 0, owners)
    stages = place / "stages"
    stages.mkdir()
    return Task(training, base, "cpu", given.threads, stages)


ENDS = ("bos", "eos")

if __name__ == "__main__":
    main()
