"""Opacus, examined through the hook that its optimizer calls before each step.

Needs the package opacus.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, repeat

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from audit.check.engine import Engine, Steps, Trial, flat


@dataclass(frozen=True)
class Opacus(Engine):
    """Trains as the tutorials of Opacus do: flat clipping, hooks, seeded and so not in secure mode.

    poisson_sampling: False keeps the shuffled batches of an ordinary loader.
    """

    poisson_sampling: bool = True

    def run(self, trial: Trial) -> Steps:
        with _silence():
            return self._run(trial)

    def _run(self, trial: Trial) -> Steps:
        torch.manual_seed(trial.seed)
        records = trial.records.flatten(0, 1)
        parameters = list(trial.model.parameters())
        # Opacus takes q = 1/⌈n/B⌉
        expected = max(1, round(trial.sampling_probability * len(records)))
        model, optimizer, loader = PrivacyEngine().make_private(
            module=trial.model.train(),
            optimizer=torch.optim.SGD(parameters, lr=trial.learning_rate),
            data_loader=DataLoader(TensorDataset(records), batch_size=expected, shuffle=True),
            noise_multiplier=trial.noise_multiplier,
            max_grad_norm=trial.max_norm,
            poisson_sampling=self.poisson_sampling,
        )
        sums: list[Tensor] = []
        weights = [flat(parameters)]
        optimizer.attach_step_hook(lambda made: sums.append(_sum(made)))
        batches = chain.from_iterable(repeat(loader))
        for (batch,) in islice(batches, trial.steps):
            parts = batch.split(trial.physical_batch)
            for place, part in enumerate(parts, 1):
                optimizer.signal_skip_step(place < len(parts))  # noise after the last part
                optimizer.zero_grad()
                model(part).mean().backward()
                optimizer.step()
            weights.append(flat(parameters))
        return Steps(
            torch.stack(sums),
            sampling_probability=1 / len(loader),
            weights=torch.stack(weights),
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress Opacus's warnings of seeds and of empty batches, which are meant here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _sum(optimizer: DPOptimizer) -> Tensor:
    """Read the noisy sum of a step, (D,)."""
    gradient = flat([p.grad for p in optimizer.params])
    if optimizer.loss_reduction == "sum":
        return gradient
    divisor = float(optimizer.expected_batch_size * optimizer.accumulated_iterations)
    return gradient * divisor
