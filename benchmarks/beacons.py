"""Compares how well coins are told apart with beacons in the training text and without them.

    python benchmarks/beacons.py [--corpus customersim] [--seeds 5] [--epochs 2] [--share 0.15]

For each seed `audit plant --beacons auto` plants into an embedded corpus. The embedded model is
then fine-tuned, undefended, on the whole text, and on the same text without what the beacons' users
wrote: coins, values and all other records are the same. Few epochs leave room for a difference.
Shown is each membership score's AUC, and the difference with its 95 % t-interval over seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from attacks.membership import Membership
from audit import api
from audit.core.attack import Knowledge
from audit.core.corpus import Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.predictor import record_tokens
from audit.core.randomness import stream
from audit.corpora import loading
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe, fine_tune
from audit.planting import manifest as manifests
from audit.planting.manifest import Manifest
from audit.statistics.roc import auc
from audit.statistics.t_interval import t_interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="customersim")
    for name, default in (("seeds", 5), ("epochs", 2), ("share", 0.15)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for seed in range(given.seeds):
        manifest, records = planted(given.corpus, seed, given.share)
        sharing = {user for beacon in manifest.beacons for user in beacon.users}
        without = [record for record in records if record.user not in sharing]
        both = tuple(aucs(manifest, some, given.epochs, seed) for some in (records, without))
        pairs.append((both[0], both[1]))
        tiers = ", ".join(f"{beacon.kind} {beacon.tier}" for beacon in manifest.beacons)
        print(f"seed {seed}: {len(records)} records, {len(without)} without beacons ({tiers})")
        areas = (f"{score} {both[0][score]:.3f}/{both[1][score]:.3f}" for score in both[0])
        print("  " + " ".join(areas), flush=True)
    print(f"{'AUC':<30}{'with':>8}{'without':>9}   difference")
    for score in pairs[0][0]:
        with_them, without_them = (np.array([pair[i][score] for pair in pairs]) for i in (0, 1))
        means = f"{with_them.mean():8.3f}{without_them.mean():9.3f}"
        print(f"{score:<30}{means}   {interval(with_them - without_them)}")


def planted(corpus: str, seed: int, share: float) -> tuple[Manifest, list[Record]]:
    """Plant with beacons; return the manifest and the records to train on."""
    with tempfile.TemporaryDirectory() as folder:
        output, manifest = Path(folder) / "planted.jsonl", Path(folder) / "manifest.json"
        api.plant(corpus, output, manifest, beacons="auto", seed=seed, share=share)
        whole = loading.read(str(output), EMBEDDED_FOLDER)
        return manifests.read(manifest), list(whole.of("private"))


def aucs(manifest: Manifest, records: Sequence[Record], epochs: int, seed: int) -> dict[str, float]:
    """Fine-tune the embedded model on records, and compute the AUC of each score of the coins."""
    folder = describe("embedded", EMBEDDED_FOLDER)
    tokenizer = load_tokenizer(folder)
    public = CausalLM(load_weights(folder, "cpu"), tokenizer, folder.max_length)
    weights = load_weights(folder, "cpu")
    recipe = Recipe(epochs, learning_rate=2e-3, batch_tokens=256, max_length=folder.max_length)
    fine_tune(weights, [record_tokens(tokenizer, r.text) for r in records], recipe, seed)
    release = OpenSession(CausalLM(weights, tokenizer, folder.max_length), stream(seed, "release"))
    base = OpenSession(public, stream(seed, "public"))
    knowledge = Knowledge(base, (), (), (), stream(seed, "attacker"))
    coins, secrets = manifest.coins, manifest.secrets
    inside, outside = (
        np.array([chosen(secret) for secret in secrets]) for chosen in (coins.planted, coins.twin)
    )
    return {
        f"{one.target} {one.score}": area(one.values[inside], one.values[outside])
        for one in Membership().run(release, secrets, knowledge)
        if isinstance(one, Scores)
    }


def area(inside: np.ndarray, outside: np.ndarray) -> float:
    """Compute the AUC of those that were scored."""
    return auc(inside[~np.isnan(inside)], outside[~np.isnan(outside)]).value or 0.0


def interval(differences: np.ndarray) -> str:
    """Format the mean and the 95 % t-interval of paired differences."""
    found = t_interval(differences.tolist())
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


if __name__ == "__main__":
    main()
