"""Compares the designs of planted records over paired seeds: which are told apart best?

    python benchmarks/record_designs.py [--seeds 6] [--users 100] [--copies 1] [--rate 5e-4]

For each seed and design the same users are planted by the same coins into the embedded corpus, and
the embedded model is fine-tuned on it, undefended and for one epoch, so that no attack is perfect.
Shown is the mean over seeds of each membership score's AUC and TPR at 10 % FPR, then the difference
from random words on the same seeds with a 95 % t-interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
import torch
from scipy.stats import rankdata, t

from attacks.membership import Membership
from audit.core.attack import Knowledge
from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.predictor import record_tokens
from audit.core.randomness import stream
from audit.corpora import loading
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe, fine_tune
from audit.planting import designs
from audit.planting.designs import DESIGNS, RANDOM, Base
from audit.planting.insertion import Canaries, plant_into
from audit.planting.manifest import Manifest

AT_FPR = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("seeds", 6), ("users", 100), ("copies", 1), ("rate", 5e-4)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = (RANDOM, *DESIGNS)
    aucs: dict[str, list[Mapping[str, float]]] = {name: [] for name in names}
    tprs: dict[str, list[Mapping[str, float]]] = {name: [] for name in names}
    for seed in range(given.seeds):
        for name in names:
            scores, members = audited(name, seed, given.users, given.copies, given.rate)
            aucs[name].append({score: auc(*split) for score, split in sides(scores, members)})
            tprs[name].append({score: tpr(*split) for score, split in sides(scores, members)})
            shown = " ".join(f"{score} {value:.3f}" for score, value in aucs[name][-1].items())
            print(f"seed {seed} {name:<7}{shown}", flush=True)
    for title, table in (("AUC", aucs), (f"TPR at {AT_FPR:.0%} FPR", tprs)):
        print(f"\n{title:<27}" + "".join(f"{name:>8}" for name in names) + "   less random")
        for score in table[RANDOM][0]:
            columns = {name: np.array([row[score] for row in table[name]]) for name in names}
            means = "".join(f"{columns[name].mean():8.3f}" for name in names)
            gains = "".join(
                f"   {name} {gain(columns[name] - columns[RANDOM])}" for name in DESIGNS
            )
            print(f"{score:<27}{means}{gains}")


def audited(
    name: str, seed: int, users: int, copies: int, rate: float
) -> tuple[list[Scores], np.ndarray]:
    """Plants, trains and attacks once.

    Returns every score, and for each candidate 1 (trained on), 0 (twin) or -1 (neither).
    """
    folder = describe("embedded", EMBEDDED_FOLDER)
    tokenizer = load_tokenizer(folder)
    public = CausalLM(load_weights(folder, "cpu"), tokenizer, folder.max_length)
    own = loading.read("helpdesk", EMBEDDED_FOLDER)
    manifest, texts = planted(
        name, own, Base(folder.name, folder.sha256, public), seed, users, copies
    )
    weights = load_weights(folder, "cpu")
    recipe = Recipe(1, learning_rate=rate, batch_tokens=128, max_length=folder.max_length)
    fine_tune(weights, [record_tokens(tokenizer, text) for text in texts], recipe, seed)
    release = OpenSession(CausalLM(weights, tokenizer, folder.max_length), stream(seed, "release"))
    knowledge = Knowledge(
        OpenSession(public, stream(seed, "public")), (), (), (), stream(seed, "attacker")
    )
    evidence = Membership().run(release, manifest.secrets, knowledge)
    coins = manifest.coins
    members = [1 if coins.planted(s) else 0 if coins.twin(s) else -1 for s in manifest.secrets]
    return [e for e in evidence if isinstance(e, Scores)], np.array(members)


def planted(
    name: str, own: Corpus, base: Base, seed: int, users: int, copies: int
) -> tuple[Manifest, list[str]]:
    """Plants records of a design; returns the manifest and the texts to train on."""
    private = Corpus(own.name, own.of("private"))
    texts = [record.text for record in own.records]
    prompts = [record.text for record in own.of("public")]
    designed = None if name == RANDOM else designs.make(name, base, texts, prompts, 2 * users, seed)
    canaries = Canaries(kinds=("record",), count=users, repetitions=(copies,))
    whole, manifest = plant_into(private, canaries, seed, designed)
    return manifest, [record.text for record in whole.records]


def sides(
    scores: list[Scores], members: np.ndarray
) -> list[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """Split each score into those of members and those of twins."""
    return [(s.score, (s.values[members == 1], s.values[members == 0])) for s in scores]


def auc(inside: np.ndarray, outside: np.ndarray) -> float:
    ranks = rankdata(np.concatenate([inside, outside]))[: len(inside)]
    return float((ranks.mean() - (len(inside) + 1) / 2) / len(outside))


def tpr(inside: np.ndarray, outside: np.ndarray) -> float:
    return float((inside > np.quantile(outside, 1 - AT_FPR)).mean())


def gain(differences: np.ndarray) -> str:
    """Mean and 95 % t-interval of paired differences."""
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
    mean = differences.mean()
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


if __name__ == "__main__":
    main()
