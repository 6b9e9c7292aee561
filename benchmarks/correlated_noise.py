"""Compares DP-FTRL with DP-SGD at equal ε: which learns more from the same private text?

    python benchmarks/correlated_noise.py [--seeds 0 1 2 3 4] [--epsilon 8 2] [--setting NAME …]

The embedded model is trained on the private users of the embedded corpus, under the same (ε, δ) per
user, add-or-remove; δ is the defenses' default. The seed decides coins, groups and noise alone.
Shown is the held-out loss of the finished model in nats a token: its mean over seeds, and the
difference from DP-SGD in its own default batch, both with 95 % intervals (Student's, Welch's).
Below 0 a setting is better than DP-SGD.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

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
from defenses.dp_ftrl import DPFTRL
from defenses.dp_sgd import DPSGD

BESIDE = "dp_sgd"  # in its own default batch, half of the users
BATCH = 15  # an eighth of the users, dp_ftrl's default
BANDS = (2, 4, 8)  # one band is dp_sgd
RATES = (1.2e-2, 2e-2)  # instead of 6e-3: AdamW's steps are shorter where a step has more noise


@dataclass(frozen=True)
class Outcome:
    """One training: its held-out loss in nats a token, and its recipe."""

    loss: float
    recipe: PrivateRecipe


def settings(epsilon: float) -> dict[str, Defense]:
    """Return what is compared, by name."""
    return {
        BESIDE: DPSGD(epsilon=epsilon),
        f"dp_sgd:batch={BATCH}": DPSGD(epsilon=epsilon, batch=BATCH),
        **{f"dp_ftrl:bands={b}": DPFTRL(epsilon=epsilon, batch=BATCH, bands=b) for b in BANDS},
        **{
            f"dp_sgd:batch={BATCH},learning_rate={rate}": DPSGD(
                epsilon=epsilon, batch=BATCH, learning_rate=rate
            )
            for rate in RATES
        },
        **{
            f"dp_ftrl:bands={b},learning_rate={rate}": DPFTRL(
                epsilon=epsilon, batch=BATCH, bands=b, learning_rate=rate
            )
            for b in BANDS
            for rate in RATES
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[8.0, 2.0])
    parser.add_argument("--setting", nargs="+", choices=settings(8.0), default=[*settings(8.0)])
    given = parser.parse_args()
    torch.set_num_threads(1)
    corpus = loading.read("helpdesk", EMBEDDED_FOLDER)
    public = load_weights(describe("embedded", EMBEDDED_FOLDER), "cpu")
    print(f"public model: {heldout_loss(public, corpus):.4f}", flush=True)
    found: dict[tuple[float, str], list[Outcome]] = {}
    for seed in given.seeds:
        for epsilon in given.epsilon:
            for name in given.setting:
                one = outcome(settings(epsilon)[name], corpus, seed)
                found.setdefault((epsilon, name), []).append(one)
                print(f"seed {seed}  ε = {epsilon:g}  {name:<36}{one.loss:.4f}", flush=True)
    for (epsilon, name), every in found.items():
        beside = found.get((epsilon, BESIDE), every)
        losses, others = (np.array([o.loss for o in m]) for m in (every, beside))
        recipe = every[0].recipe
        print(
            f"ε = {epsilon:g}  {name:<36}σ = {recipe.noise.multiplier:.3f}  "
            f"q = {recipe.sampling_probability:.3f}  T = {recipe.steps:<4}"
            f"{interval(losses)}  {'' if beside is every else difference(losses, others)}"
        )


def outcome(defense: Defense, corpus: Corpus, seed: int) -> Outcome:
    """Train the embedded model by the defense."""
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
    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    model.eval()
    total, count = 0.0, 0
    for record in corpus.of("heldout"):
        tokens = torch.tensor(record_tokens(tokenizer, record.text))
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
