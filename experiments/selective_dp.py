"""Repeats S2 of arXiv 2108.12944 in small: Selective-DPSGD against DP-SGD, an LSTM from scratch.

    python experiments/selective_dp.py FOLDER [--seeds 0 1 2] [--epochs 8] [--epsilon 8]

It makes one `audit run` a seed on the simulated customersim, resumes finished seeds, and prints a
table. The two guarantees differ in unit and relation, so their ε cannot be ranked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PLAN = """
corpus = "customersim"
model = "lstm"
policy = "customersim"
attack = ["extraction", "exposure"]
[training]
epochs = 10
learning_rate = 0.005
batch_tokens = 1024
[planting]
code_prefix = "USR: My order number is "
id_prefix = "USR: My tracking number is "
code_digits = 5
kinds = ["code", "id", "record"]
"""
COLUMNS = ("perplexity", "private_token_perplexity", "top1_accuracy")


def run(folder: Path, seed: int, epochs: float, epsilon: float) -> dict[str, Any]:
    """Runs one seed and gives its results."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    output = folder / f"seed-{seed}"
    words = [sys.executable, "-m", "audit", "run", "--plan", str(plan), "--seed", str(seed)]
    words += ["--epsilon", str(epsilon), "--format", "json,html", "--output", str(output)]
    for defense in (f"dp_sgd:unit=record,epochs={epochs:g}", f"s_dpsgd:epochs={epochs:g}"):
        words += ["--defense", defense]
    subprocess.run([*words, "--defense", "redaction"], check=True)
    results: dict[str, Any] = json.loads((output / "results.json").read_text())
    return results


def row(seed: int, release: dict[str, Any]) -> str:
    """Formats one release as a line of the table."""
    claim, utility = release["guarantee"], release["utility"]
    values = [f"{utility[name]['value']:.3g}" for name in COLUMNS]
    leaks = [f"{f['metric']} {f['value']:.3g} ({f['verdict']})" for f in release["findings"]]
    scope = f"{claim['epsilon']} per {claim['unit']}, {claim['relation']}"
    return " | ".join([str(seed), release["defense"], scope, *values, "; ".join(leaks)])


def main() -> None:
    """Runs every seed and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=float, default=8.0)
    parser.add_argument("--epsilon", type=float, default=8.0)
    options = parser.parse_args()
    print(" | ".join(["seed", "defense", "claimed ε", *COLUMNS, "findings"]))
    for seed in options.seeds:
        for release in run(options.folder, seed, options.epochs, options.epsilon)["releases"]:
            print(row(seed, release), flush=True)


if __name__ == "__main__":
    main()
