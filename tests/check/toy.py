"""A small DP-SGD engine, right as it stands, with a switch for each planted fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from audit.check.dirac import Tied
from audit.check.engine import Engine, Steps, Trial
from audit.check.units import Floats, plain_gradients
from audit.core.terms import Unit

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Toy(Engine):
    """Trains in float64. training: `Training`, or one of its faulty subclasses."""

    training: type[Training]

    def run(self, trial: Trial) -> Steps:
        with np.errstate(all="ignore"):  # of infinite gradients
            return self.training(trial).run()


def known(model: torch.nn.Module, record: torch.Tensor) -> Floats:
    """A record's gradient, once: every model of a kind begins with the same parameters."""
    key = (type(model), record.numpy().tobytes())
    if key not in GRADIENTS:
        GRADIENTS[key] = plain_gradients(model, record[None])[0].double().numpy()
    return GRADIENTS[key]


GRADIENTS: dict[tuple[type, bytes], Floats] = {}


class Training:
    """DP-SGD by the book; a fault overrides one method."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.random = np.random.default_rng(trial.seed)
        self.sizes = [p.numel() for p in trial.model.parameters()]
        each = np.array([known(trial.model, one) for one in trial.records.flatten(0, 1)])
        self.units = self.grouped(each)
        self.norms = np.linalg.norm(self.units, axis=1)
        self.clipped = self.clip(self.units)
        self.deviation = trial.noise_multiplier * trial.max_norm

    def run(self) -> Steps:
        start = np.concatenate([p.detach().flatten() for p in self.trial.model.parameters()])
        sums, path = [], [start.astype(np.float32)]
        for step, batch in enumerate(self.batches()):
            for noisy in self.released(step, batch):
                sums.append(noisy)
                move = self.trial.learning_rate * self.update(noisy, batch)
                path.append(path[-1] - move.astype(np.float32))
        return Steps(
            torch.tensor(np.array(sums)),
            weights=torch.tensor(np.array(path)),
            resumed=self.trial.resume_after > 0,
        )

    def grouped(self, each: Floats) -> Floats:
        """One row a unit: its records' mean."""
        shape = self.trial.records.shape
        if self.trial.unit == Unit.RECORD:
            return each
        return np.asarray(each.reshape(shape[0], shape[1], -1).mean(axis=1))

    def clip(self, gradients: Floats) -> Floats:
        """Each to norm C; nothing is left of what is not finite."""
        norms = np.linalg.norm(gradients, axis=1)
        factors = np.minimum(1.0, self.trial.max_norm / np.maximum(norms, 1e-30))
        return np.where(np.isfinite(norms)[:, None], gradients, 0.0) * factors[:, None]

    def batches(self) -> Iterator[Rows]:
        for step in range(self.trial.steps):
            if step and step == self.trial.resume_after:
                self.resume()
            yield self.sample()

    def resume(self) -> None:
        """All that a checkpoint has to hold is held."""

    def sample(self, share: float = 1.0) -> Rows:
        q = self.trial.sampling_probability * share
        return np.flatnonzero(self.random.random(len(self.units)) < q)

    def released(self, step: int, batch: Rows) -> Iterator[Floats]:
        yield self.total(batch) + self.noise(step, batch)

    def total(self, batch: Rows) -> Floats:
        return np.asarray(self.clipped[batch].sum(axis=0))

    def noise(self, step: int, batch: Rows) -> Floats:
        return self.deviation * self.random.standard_normal(sum(self.sizes))

    def update(self, noisy: Floats, batch: Rows) -> Floats:
        return noisy / self.trial.expected_batch

    def parts(self, batch: Rows) -> list[Rows]:
        """The batch as it is in memory, a few units at a time."""
        size = self.trial.physical_batch
        return [batch[i : i + size] for i in range(0, len(batch), size)]


class NoiseTenPercentLow(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        return 0.9 * super().noise(step, batch)


class NoiseDividedAgain(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        return super().noise(step, batch) / self.trial.expected_batch


class NoiseForgetsTheNorm(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        return super().noise(step, batch) / self.trial.max_norm


class FirstTensorNoised(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        drawn = super().noise(step, batch)
        if len(self.sizes) > 1:
            drawn[self.sizes[0] :] = 0.0
        return drawn


class SeedResetEachStep(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        again = np.random.default_rng(self.trial.seed)
        return self.deviation * again.standard_normal(sum(self.sizes))


class OneDrawForTwoTensors(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        drawn = self.deviation * self.random.standard_normal(max(self.sizes))
        return np.concatenate([drawn[:size] for size in self.sizes])


class ConstantSeed(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        fixed = np.random.default_rng(step)
        return self.deviation * fixed.standard_normal(sum(self.sizes))


class CorrelatedNoise(Training):
    """Each step takes back a tenth of the noise before it."""

    before: Any = 0.0

    def noise(self, step: int, batch: Rows) -> Floats:
        fresh = self.random.standard_normal(sum(self.sizes))
        drawn = (fresh - 0.1 * self.before) / np.sqrt(1.01)
        self.before = fresh
        return self.deviation * np.asarray(drawn)


class UniformNoise(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        return self.deviation * np.sqrt(3.0) * self.random.uniform(-1.0, 1.0, sum(self.sizes))


class TruncatedNoise(Training):
    """Cut at 2.5 deviations, and scaled to the variance due."""

    def noise(self, step: int, batch: Rows) -> Floats:
        drawn = self.random.standard_normal(sum(self.sizes))
        while (far := np.abs(drawn) > 2.5).any():
            drawn[far] = self.random.standard_normal(int(far.sum()))
        return self.deviation * drawn / 0.9547


class NoiseForEachPart(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        draws = max(1, len(self.parts(batch)))
        return np.asarray(
            sum(super(NoiseForEachPart, self).noise(step, batch) for _ in range(draws))
        )


class EmptyBatchSkipped(Training):
    def released(self, step: int, batch: Rows) -> Iterator[Floats]:
        return super().released(step, batch) if len(batch) else iter(())


class EmptyBatchWithoutNoise(Training):
    def noise(self, step: int, batch: Rows) -> Floats:
        return super().noise(step, batch) if len(batch) else np.zeros(sum(self.sizes))


class ClippingIgnored(Training):
    def clip(self, gradients: Floats) -> Floats:
        return gradients


class SumClipped(Training):
    """The sum is clipped, to C times the number of its units."""

    def total(self, batch: Rows) -> Floats:
        total = self.units[batch].sum(axis=0)
        return np.asarray(total * _factor(total, len(batch) * self.trial.max_norm))


class MeansClipped(Training):
    """The mean of each part is clipped, and then counts for all of them."""

    def total(self, batch: Rows) -> Floats:
        parts = [self.units[part] for part in self.parts(batch)]
        means = [
            part.mean(axis=0) * len(part) * _factor(part.mean(axis=0), self.trial.max_norm)
            for part in parts
        ]
        return np.asarray(sum(means, np.zeros(sum(self.sizes))))


class ClippedByTensor(Training):
    def clip(self, gradients: Floats) -> Floats:
        edges = np.cumsum(self.sizes)[:-1]
        tensors = np.split(gradients, edges, axis=1)
        return np.concatenate([super(ClippedByTensor, self).clip(part) for part in tensors], axis=1)


class ClippedAtTheMedian(Training):
    """The batch's median norm is the clipping norm where it is smaller than C."""

    def total(self, batch: Rows) -> Floats:
        median = np.median(self.norms[batch]) if len(batch) else 0.0
        factors = np.minimum(
            1.0, min(median, self.trial.max_norm) / np.maximum(self.norms[batch], 1e-30)
        )
        return np.asarray((self.units[batch] * factors[:, None]).sum(axis=0))


class SmallGradientsScaledUp(Training):
    def clip(self, gradients: Floats) -> Floats:
        norms = np.maximum(np.linalg.norm(gradients, axis=1), 1e-30)
        return gradients * (self.trial.max_norm / norms)[:, None]


class TiedWithoutCrossTerm(Training):
    """The squared norm of a sum of two equal gradients is taken for twice that of one."""

    def clip(self, gradients: Floats) -> Floats:
        clipped = super().clip(gradients)
        return clipped * np.sqrt(2.0) if isinstance(self.trial.model, Tied) else clipped


class ClippedByRecord(Training):
    def grouped(self, each: Floats) -> Floats:
        shape = self.trial.records.shape
        return super().clip(each).reshape(shape[0], shape[1], -1).sum(axis=1)

    def clip(self, gradients: Floats) -> Floats:
        return gradients


class RawMeanLeftIn(Training):
    def total(self, batch: Rows) -> Floats:
        clean = super().total(batch)
        return (
            clean + self.trial.expected_batch * self.units[batch].mean(axis=0)
            if len(batch)
            else clean
        )


class LastBatchCountedAgain(Training):
    before = np.array([], dtype=np.int64)

    def total(self, batch: Rows) -> Floats:
        total = super().total(batch) + super().total(self.before)
        self.before = batch
        return total


class DividedByTheBatch(Training):
    def released(self, step: int, batch: Rows) -> Iterator[Floats]:
        for noisy in super().released(step, batch):
            yield noisy * self.trial.expected_batch / max(1, len(batch))


class ShuffledEpochs(Training):
    def batches(self) -> Iterator[Rows]:
        size, order = max(1, round(self.trial.expected_batch)), np.array([], dtype=np.int64)
        for _ in range(self.trial.steps):
            if len(order) < size:
                order = self.random.permutation(len(self.units))
            yield order[:size]
            order = order[size:]


class FixedSize(Training):
    def sample(self, share: float = 1.0) -> Rows:
        size = max(1, round(self.trial.expected_batch))
        return self.random.choice(len(self.units), size, replace=False)


class WithReplacement(Training):
    def sample(self, share: float = 1.0) -> Rows:
        return self.random.integers(len(self.units), size=max(1, round(self.trial.expected_batch)))


class HalfAgainAsOften(Training):
    def sample(self, share: float = 1.0) -> Rows:
        return super().sample(1.5)


class CutBatch(Training):
    """A batch above its expected size is cut."""

    def sample(self, share: float = 1.0) -> Rows:
        drawn = super().sample()
        return self.random.permutation(drawn)[: max(1, round(self.trial.expected_batch))]


def _factor(gradient: Floats, largest: float) -> float:
    return float(min(1.0, largest / max(float(np.linalg.norm(gradient)), 1e-30)))


class InfiniteTimesZero(Training):
    """The factor of an infinite gradient is 0, and 0·∞ is NaN."""

    def clip(self, gradients: Floats) -> Floats:
        norms = np.linalg.norm(gradients, axis=1)
        factors = np.minimum(1.0, self.trial.max_norm / np.maximum(norms, 1e-30))
        return np.asarray(gradients * factors[:, None])


class NoiseFollowsTheBatch(Training):
    """Larger batches get more noise; on average it is as much as is due."""

    def noise(self, step: int, batch: Rows) -> Floats:
        share = len(batch) / self.trial.expected_batch
        return super().noise(step, batch) * np.sqrt((1.0 + share) / 2.0)


class EarlierDataKept(Training):
    """A tenth of a unit's gradient stays in a buffer that an earlier run has filled."""

    def total(self, batch: Rows) -> Floats:
        kept = np.zeros(sum(self.sizes))
        kept[:96] = 0.1 * self.trial.max_norm
        return super().total(batch) + kept


class RawUpdate(Training):
    """What is noised is recorded, and something else steps."""

    def update(self, noisy: Floats, batch: Rows) -> Floats:
        return self.total(batch) / self.trial.expected_batch


class WeightDecay(Training):
    decay: Any = 0.0

    def update(self, noisy: Floats, batch: Rows) -> Floats:
        moved = super().update(noisy, batch)
        self.decay = self.decay + moved
        return np.asarray(moved - 1e-3 * self.decay)


class UsersByTheirRecords(Training):
    """A user is in a batch where any of the user's records is."""

    def sample(self, share: float = 1.0) -> Rows:
        coins = self.random.random(self.trial.records.shape[:2])
        return np.flatnonzero((coins < self.trial.sampling_probability).any(axis=1))


class SameCoins(Training):
    """The sampler has a seed of its own, which no run changes."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.coins = np.random.default_rng(0)

    def sample(self, share: float = 1.0) -> Rows:
        coins = self.coins.random(len(self.units))
        return np.flatnonzero(coins < self.trial.sampling_probability)


class CoinsAgainOnResume(SameCoins):
    """The sampler is not in the checkpoint."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.resume()

    def resume(self) -> None:
        self.coins = np.random.default_rng([self.trial.seed, 1])


class NoiseAgainOnResume(Training):
    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.resume()

    def resume(self) -> None:
        self.draws = np.random.default_rng([self.trial.seed, 1])

    def noise(self, step: int, batch: Rows) -> Floats:
        return self.deviation * self.draws.standard_normal(sum(self.sizes))


@dataclass(frozen=True)
class Fault:
    """number: in docs/examine-an-engine.md. found_by: codes of the checks that must fail."""

    number: str
    name: str
    training: type[Training]
    found_by: tuple[str, ...]


PLANTED = (
    Fault("1", "noise 10 % low", NoiseTenPercentLow, ("K7",)),
    Fault("2", "σ divided by the batch once more", NoiseDividedAgain, ("K7",)),
    Fault("3", "noise forgets C", NoiseForgetsTheNorm, ("K7",)),
    Fault("4", "only the first tensor is noised", FirstTensorNoised, ("K7", "K8")),
    Fault("5", "seed reset in each step", SeedResetEachStep, ("K9",)),
    Fault("6", "one draw for two tensors", OneDrawForTwoTensors, ("K10",)),
    Fault("7", "constant seed over runs", ConstantSeed, ("K11",)),
    Fault("8", "correlated noise accounted as independent", CorrelatedNoise, ("K9",)),
    Fault("9a", "uniform noise", UniformNoise, ("K8",)),
    Fault("9b", "truncated noise", TruncatedNoise, ("K8",)),
    Fault("10", "noise once per microbatch", NoiseForEachPart, ("K7",)),
    Fault("11a", "empty batch skipped", EmptyBatchSkipped, ("K6",)),
    Fault("11b", "empty batch without noise", EmptyBatchWithoutNoise, ("K6′",)),
    Fault("12", "clipping ignored", ClippingIgnored, ("K2",)),
    Fault("13", "sum clipped, not examples", SumClipped, ("K2",)),
    Fault("14", "means of microbatches clipped", MeansClipped, ("K2",)),
    Fault("15", "clipped by tensor", ClippedByTensor, ("K2",)),
    Fault("16", "C from the batch's median", ClippedAtTheMedian, ("K1",)),
    Fault("17", "small gradients scaled up", SmallGradientsScaledUp, ("K1",)),
    Fault("18", "tied norm without cross term", TiedWithoutCrossTerm, ("K17",)),
    Fault("19", "clipped by record, claimed by user", ClippedByRecord, ("K15",)),
    Fault("20", "raw mean left in the gradient", RawMeanLeftIn, ("K1", "K2")),
    Fault("21", "last step's samples counted again", LastBatchCountedAgain, ("K1",)),
    Fault("22", "divided by the batch that was drawn", DividedByTheBatch, ("K1", "K7")),
    Fault("23a", "shuffled epochs", ShuffledEpochs, ("K5",)),
    Fault("23b", "batches of a fixed size", FixedSize, ("K5",)),
    Fault("23c", "drawn with replacement", WithReplacement, ("K1",)),
    Fault("24a", "q half as large again", HalfAgainAsOften, ("K4",)),
    Fault("24b", "batch cut at its expected size", CutBatch, ("K5",)),
)
MORE = (  # not in the table: what the remaining checks are there for
    Fault("+", "0·∞", InfiniteTimesZero, ("K16",)),
    Fault("+", "noise follows the batch", NoiseFollowsTheBatch, ("K12",)),
    Fault("+", "earlier data kept", EarlierDataKept, ("K3",)),
    Fault("+", "another update", RawUpdate, ("K13",)),
    Fault("+", "weight decay", WeightDecay, ("K13",)),
    Fault("+", "users sampled by their records", UsersByTheirRecords, ("K4",)),
    Fault("+", "the same coins in every run", SameCoins, ("K22",)),
    Fault("+", "coins drawn again on resume", CoinsAgainOnResume, ("K21",)),
    Fault("+", "noise drawn again on resume", NoiseAgainOnResume, ("K21",)),
)
