"""Shows which faults of a DP-SGD engine an audit from outside finds, at the default size.

    python benchmarks/faults_from_outside.py [--epsilon 2] [--seeds 3] [--fault NAME …]
    python benchmarks/faults_from_outside.py --epsilon 8 --seeds 1 --fault "noise deleted" \
        --corpus customersim --users 1000 --parameters batch=64,epochs=25

Each fault is planted into the toolkit's own engine. The embedded model is trained on the embedded
corpus under a claim of ε nats per user, which the fault makes false, and the finished model is
attacked as `audit run --attack membership` does. Shown is, for each seed, what leaked, what that
says about the claim, the least p-value of the claim, unadjusted, and the number of its tests.
`audit check` finds all of these faults from inside (docs/examine-an-engine.md).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from audit import api
from audit.findings.rejections import claim_p_value
from audit.models.training import dp_sgd
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import poisson
from audit.models.training.per_example_gradients import clipped_gradients
from audit.results.schema import ReleaseResult

Patch = AbstractContextManager[Any]
drawn = Noise.drawn


def noise_times(factor: float) -> list[Patch]:
    """Multiplies the noise by `factor`."""

    def less(self: Noise, like: Tensor, stream: np.random.Generator) -> Tensor:
        return factor * drawn(self, like, stream)

    return [patch.object(Noise, "drawn", less)]


def _noise_of(change: Callable[[int, Tensor, float], Tensor | float]) -> list[Patch]:
    """Add changed noise. change: takes a parameter's place, its noise, and the divisor."""

    def wrong(self: NoisySum, batches: Iterable[Any], divisor: float) -> Any:
        totals, pieces = self._clipped(batches)
        for place, (parameter, total) in enumerate(zip(self._parameters, totals, strict=True)):
            noise = change(place, self.rows.drawn(place, parameter), divisor)
            parameter.grad = (total + noise) / divisor
        return pieces

    return [patch.object(NoisySum, "into_gradients", wrong)]


def noise_divided_again() -> list[Patch]:
    """Divides the noise by the expected batch before the sum is divided by it."""
    return _noise_of(lambda place, noise, divisor: noise / divisor)


def first_tensor_noised() -> list[Patch]:
    """Add noise to the first tensor alone."""
    return _noise_of(lambda place, noise, divisor: 0.0 if place else noise)


def clipping_ignored() -> list[Patch]:
    """Clips no gradient; the noise stays what it is for the norm that is claimed."""

    def unclipped(model: Any, batch: Any, max_norm: float) -> Any:
        return clipped_gradients(model, batch, 1e9)

    return [
        patch.object(dp_sgd, "clipped_gradients", unclipped),
        patch.object(NoisySum, "_check", lambda self, batch: None),
    ]


def sampled_too_often() -> list[Patch]:
    """Sample with one and a half times the probability that is accounted."""

    def more(examples: Any, probability: float, coins: np.random.Generator) -> Any:
        return poisson(examples, min(1.0, 1.5 * probability), coins)

    return [patch.object(dp_sgd, "poisson", more)]


FAULTS: dict[str, Callable[[], list[Patch]]] = {
    "none: the engine as it is": list,
    "noise 10 % low": lambda: noise_times(0.9),
    "noise divided by the batch again": noise_divided_again,
    "only the first tensor noised": first_tensor_noised,
    "clipping ignored": clipping_ignored,
    "q half as large again": sampled_too_often,
    "noise deleted": lambda: noise_times(0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fault", nargs="*", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--users", type=int, default=None, help="planted users, if not the default")
    parser.add_argument("--corpus", default="helpdesk", help="one with enough users for --users")
    parser.add_argument("--parameters", default="", help="more of dp_sgd, such as batch=64")
    given = parser.parse_args()
    defense = f"dp_sgd:epsilon={given.epsilon:g},{given.parameters}".rstrip(",")
    torch.set_num_threads(2)
    for name in given.fault:
        for seed in range(given.seeds):
            releases = audited(FAULTS[name](), defense, seed, given.users, given.corpus)
            print(f"{name:<34} seed {seed}", *map(words, releases), sep="  ", flush=True)


def audited(
    patches: list[Patch], defense: str, seed: int, users: int | None, corpus: str
) -> list[ReleaseResult]:
    """Trains with a fault and attacks; returns the release under the claim, then the controls."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as faults:
        for one in patches:
            faults.enter_context(one)
        plan = None if users is None else Path(folder) / "plan.toml"
        if plan is not None:
            plan.write_text(f"[planting]\nusers = {users}\n", encoding="utf-8")
        results = api.run(
            plan,
            defense=[defense],
            attack=["membership"],
            corpus=corpus,
            seed=seed,
            workers=1,
            output=str(Path(folder) / "run"),
            format=["json"],
        )
    return sorted(results.releases, key=lambda release: release.reference)


def words(release: ReleaseResult) -> str:
    """Both answers, and what the claim's tests came to; of a control, what leaked."""
    if release.reference:
        return f"{release.defense}: {release.leaked}"
    tested = [(claim_p_value(f, release.guarantee), f.metric) for f in release.findings]
    p, metric = min(((p, metric) for p, metric in tested if p is not None), default=(1.0, "none"))
    area = next(f.value or 0.0 for f in release.findings if f.metric == "record_loss_auc")
    claim = f"claim {release.claim}, least p {p:.2g} ({metric}) of {release.claim_tests} tests"
    return f"{release.leaked}; {claim}; record_loss_auc {area:.3f}"


if __name__ == "__main__":
    main()
