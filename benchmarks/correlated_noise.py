"""Compares DP-FTRL with DP-SGD at equal ε: which learns more from the same private text?

    python benchmarks/correlated_noise.py [--corpus FILE] [--seeds 0 1 2 3 4] [--epsilon 8 2]
        [--setting NAME:… …] [--rates 0.006 0.012 --tuned-on 9]

The embedded model is trained on the private users of a corpus, under the same (ε, δ) per user,
add-or-remove; δ is the defenses' default. The seed decides coins, groups and noise alone. With
--rates, each setting has the learning rate that learns most with another seed, chosen by held-out
loss, which no ε covers. Shown is the held-out loss of the finished model in nats a token: its mean
over seeds, and the difference from the first setting, both with 95 % intervals (Student's,
Welch's). Below 0 a setting is better than the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.stats import t, ttest_ind
from torch.nn.functional import cross_entropy

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.predictor import record_tokens
from audit.corpora import loading
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.dp_sgd import PrivateRecipe
from audit.plan.resolve import default_recipe
from audit.plugins import registry

# of the embedded corpus's 120 users, half and an eighth are in a step; one band is dp_sgd
SETTINGS = [
    "dp_sgd",
    "dp_sgd:batch=15",
    *(f"dp_ftrl:batch=15,bands={bands}" for bands in (2, 4, 8)),
]


@dataclass(frozen=True)
class Outcome:
    """One training: its held-out loss in nats a token, and its recipe."""

    loss: float
    recipe: PrivateRecipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="helpdesk", help="FILE with splits, or a name")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[8.0, 2.0])
    parser.add_argument("--setting", nargs="+", default=SETTINGS, metavar="NAME:…")
    parser.add_argument("--rates", type=float, nargs="+", default=[])
    parser.add_argument("--tuned-on", type=int, default=9, metavar="SEED")
    given = parser.parse_args()
    torch.set_num_threads(1)
    corpus = loading.read(given.corpus, EMBEDDED_FOLDER)
    public = load_weights(describe("embedded", EMBEDDED_FOLDER), "cpu")
    print(f"public model: {heldout_loss(public, corpus):.4f}", flush=True)
    for epsilon in given.epsilon:
        found: dict[str, list[Outcome]] = {}
        for setting in given.setting:
            train = partial(outcome, setting, epsilon, corpus)
            rate = best(train, given.rates, given.tuned_on) if given.rates else None
            named = setting if rate is None else f"{setting} at {rate:g}"
            for seed in given.seeds:
                found.setdefault(named, []).append(train(rate, seed))
                print(
                    f"seed {seed}  ε = {epsilon:g}  {named}  {found[named][-1].loss:.4f}",
                    flush=True,
                )
        show(epsilon, found)


def show(epsilon: float, found: dict[str, list[Outcome]]) -> None:
    """Print each setting's loss, and what it has less or more than the first."""
    first = np.array([one.loss for one in next(iter(found.values()))])
    for i, (name, every) in enumerate(found.items()):
        losses, recipe = np.array([one.loss for one in every]), every[0].recipe
        print(
            f"ε = {epsilon:g}  {name:<44}σ = {recipe.noise.multiplier:.3f}  "
            f"q = {recipe.sampling_probability:.3f}  T = {recipe.steps:<4}"
            f"{interval(losses)}  {difference(losses, first) if i else ''}",
            flush=True,
        )


def best(train: Callable[[float, int], Outcome], rates: Sequence[float], seed: int) -> float:
    """Return the learning rate of least held-out loss with a seed."""
    losses = [train(rate, seed).loss for rate in rates]
    print("tuned:", *(f"{r:g}: {x:.4f}" for r, x in zip(rates, losses, strict=True)), flush=True)
    return rates[int(np.argmin(losses))]


def outcome(setting: str, epsilon: float, corpus: Corpus, rate: float | None, seed: int) -> Outcome:
    """Train the embedded model by a defense at ε; rate: None for the defense's own."""
    own = {"epsilon": epsilon, "learning_rate": rate}
    _, defense = registry.build("defenses", setting, Defense, own)
    folder = describe("embedded", EMBEDDED_FOLDER)
    recipe = default_recipe(folder, corpus)
    (training,) = defense.trainings(corpus, folder, recipe, seed)
    weights, method = load_weights(folder, "cpu"), training.method
    assert isinstance(method, PrivateRecipe)
    method.train(weights, load_tokenizer(folder), training)
    return Outcome(heldout_loss(weights, corpus), method)


@torch.no_grad()
def heldout_loss(model: torch.nn.Module, corpus: Corpus) -> float:
    """Compute the mean −log p of a held-out token, in nats."""
    folder = describe("embedded", EMBEDDED_FOLDER)
    tokenizer = load_tokenizer(folder)
    model.eval()
    total, count = 0.0, 0
    for record in corpus.of("heldout"):
        tokens = torch.tensor(record_tokens(tokenizer, record.text)[: folder.max_length + 1])
        logits = model(tokens[None, :-1]).logits[0]
        total += float(cross_entropy(logits, tokens[1:], reduction="sum"))
        count += len(tokens) - 1
    return total / count


def interval(values: np.ndarray) -> str:
    """Write a mean with its 95 % t-interval."""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.4f} [{values.mean() - half:.4f}, {values.mean() + half:.4f}]"


def difference(values: np.ndarray, beside: np.ndarray) -> str:
    """Write the difference of two means with its 95 % Welch interval."""
    low, high = ttest_ind(values, beside, equal_var=False).confidence_interval(0.95)
    return f"{values.mean() - beside.mean():+.4f} [{low:+.4f}, {high:+.4f}]"


if __name__ == "__main__":
    main()
