"""DP-SGD (arXiv 1607.00133): Poisson sampling, per-example clipping, Gaussian noise on the sum.

In a step, each sampled example is read once and no other example has any influence; an empty batch
still releases noise. The sum is divided by the *expected* batch size, which is public.

Several processes share the examples of a step, each example whole, so each is clipped once. The
first draws the lot and the noise; sums are added up.

DP-FTRL by banded matrix factorization is the same with several bands: the noise of a step cancels
a part of the noise before, and an example may be sampled in every b̂-th step only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any

import torch
from torch import Tensor, nn

from audit.accounting import BandedSums, Gaussians, Term
from audit.accounting.banded import participations
from audit.core.counts import Piece
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.noise import NoiseStream
from audit.core.processes import ALONE, Processes
from audit.core.progress import ShareDone
from audit.core.randomness import noise_stream
from audit.core.rules import UNSAID
from audit.core.training import NO_TEACHERS, Method, NotFiniteError, Teachers, Training
from audit.models.adapters import is_adapted, with_adapters
from audit.models.held_weights import computes_in_half, hold, let_go
from audit.models.layers import limited
from audit.models.training.correlated import PLAIN, Rows, group
from audit.models.training.examples import Example, collated, examples_of, lot
from audit.models.training.fine_tuning import stepped, warmed
from audit.models.training.per_example_gradients import (
    Batch,
    Block,
    check_supported,
    clipped_gradients,
    loop,
    trainable,
    worst_difference,
)
from audit.models.training.recomputation import recomputed
from audit.models.training.resume import Counting, Draws, Moments, Part, Resume, Weights

CHECKED = 16  # examples of the first batch, at most, whose gradients a plain loop computes as well
CHECKED_ROWS = 32  # their rows: the loop reads each alone, which a large model does slowly
LONELY = 3  # batches of one example, at most, that are checked before one of several
TOLERANCE = 1e-3  # of that comparison, relative, in float32
SPREAD, _B = 0.02, ".lora_B."  # adapters are moved by so much while they are compared


@dataclass(frozen=True)
class Noise:
    """Gaussian noise on a clipped sum, and where its randomness comes from.

    multiplier: σ; the standard deviation is σ·C. max_norm: C, the clipping norm. source: "seed",
        streams derived from everything that determines the training, or "system", the operating
        system's entropy.
    """

    multiplier: float
    max_norm: float
    source: str = "seed"

    def stream(self, training: Training, purpose: str) -> NoiseStream:
        """Open a stream that no other training or purpose shares."""
        return noise_stream(training.key or training.digest, purpose, self.source)

    def drawn(self, like: Tensor, stream: NoiseStream) -> Tensor:
        """Draw N(0, σ²C²) in the shape and on the device of `like`.

        Drawn in float64 and then rounded: float32 generators end before six standard deviations,
        and have so few values in their tails that these distinguish neighbouring sums.
        """
        values = stream.standard_normal(like.shape) * (self.multiplier * self.max_norm)
        return torch.from_numpy(values).to(device=like.device, dtype=like.dtype)


@dataclass(frozen=True)
class Units:
    """Protected units of several examples, each of which is sampled by itself (arXiv 2407.07737).

    number: the public number of units. examples: most examples of a unit.
    """

    number: int
    examples: int


@dataclass(frozen=True)
class PrivateRecipe(Method):
    """DP-SGD; an example is all data of one of the training's owners.

    sampling_probability: q, each owner's probability in each step of its group. steps: T.
    population: N, the public number of owners; the noisy sum is divided by the expected q·N/b̂.
    learning_rate: the optimizer's peak, after `warmup` (a share of the steps), zero at the end.
    optimizer: "adamw" or "sgd". max_length: input tokens per row; longer records are cut.
    layers: "all", or "top:N" for the last N blocks. lora: rank of adapters that are trained instead
        and then merged; 0: none.
    physical_tokens: tokens in memory at once, padding included. A batch of DP-SGD may be larger,
        and so may one owner's data; a single row is never divided.
    units: what is protected, where that is more than one owner; None: every owner by itself.
    bands: first column of C, b̂ numbers of norm 1 (see `correlated`). Step t samples, with
        probability q, among the owners of group t mod b̂ alone. One band where units are given.
    checkpoint_activations: whether blocks compute twice: less memory, the same sums.
    """

    partial = True
    divided = True
    sharded = True
    reads = ("texts", "owners")

    noise: Noise
    sampling_probability: float
    steps: int
    population: int
    learning_rate: float
    max_length: int
    optimizer: str = "adamw"
    warmup: float = 0.0
    layers: str = "all"
    lora: int = 0
    physical_tokens: int = 4096
    units: Units | None = None
    checkpoint_activations: bool = field(default=False, metadata=UNSAID)
    bands: tuple[float, ...] = field(default=PLAIN, metadata=UNSAID)

    def __post_init__(self) -> None:
        if self.units is not None and len(self.bands) > 1:
            raise ValueError("of several examples of one unit no ε is known with several bands")

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        groups = self._groups(training, examples_of(training, tokenizer, self.max_length))
        model.eval()  # type: ignore[no-untyped-call]  # dropout would make the norms random
        with (
            adapted(model, self.layers, self.lora, training.seed) as inner,
            recomputed(inner, self.checkpoint_activations),
        ):
            self.descend(inner, groups, training, progress or (lambda share: None))

    def descend(
        self,
        model: Any,
        groups: Sequence[Sequence[Example]],
        training: Training,
        after: ShareDone,
        **parts: Part,
    ) -> None:
        """Make all steps, each on examples of one group.

        after: called after each step with the share done. parts: what else it goes on from.
        """
        coins, noise = (self.noise.stream(training, of) for of in ("sampling", "noise"))
        together = training.processes
        release = NoisySum(model, self.noise, noise, self.bands, together)
        optimizer = make_optimizer(self.optimizer, model)
        streams = {"coins": Draws(coins), "noise": Draws(noise)}
        resume = Resume(training.checkpoint, together, **streams, **parts)
        done = resume.begin(
            weights=Weights(model),
            moments=Moments(optimizer),
            counts=Counting(training.counts),
            rows=release.rows,
        )
        expected = self.sampling_probability * self.population / len(groups)
        for step in range(done, self.steps):
            chosen = groups[step % len(groups)]
            drawn = lot(chosen, self.sampling_probability, coins, together)
            batches = collated(drawn, self.physical_tokens, model.device)
            pieces = release.into_gradients(batches, expected)
            rate = self.learning_rate * warmed(step, self.steps, self.warmup)
            training.counts.step(pieces, stepped(optimizer, rate))
            after((step + 1) / self.steps)
            resume.after(step + 1)

    def _groups(self, training: Training, examples: Sequence[Example]) -> list[list[Example]]:
        """Divide the examples by their owners' groups, one for each band."""
        groups: list[list[Example]] = [[] for _ in self.bands]
        for owner, example in zip(dict.fromkeys(training.owners), examples, strict=True):
            groups[group(owner, training.seed, len(groups))].append(example)
        return groups

    def idle(self, training: Training) -> bool:
        return self.steps == 0  # without texts noise is still added

    @property
    def settings(self) -> dict[str, Any]:
        """Leave out units that are the owners: then nothing is trained in another way."""
        every = super().settings
        return {name: value for name, value in every.items() if (name, value) != ("units", None)}

    @property
    def releases(self) -> tuple[Term, ...]:
        """The noisy sums that depend on a protected unit: with b̂ bands every b̂-th one."""
        sigma, q = self.noise.multiplier, self.sampling_probability
        if len(self.bands) > 1:
            own = participations(self.steps, len(self.bands))
            return (BandedSums(sigma, own, self.steps, self.bands, q),)
        return (Gaussians(sigma, self.steps, q, self.units.examples if self.units else 1),)

    @property
    def passes(self) -> float:
        return self.sampling_probability * self.steps / len(self.bands)


class NoisySum:
    """Releases Σ_i clip(g_i) + N(0, σ²C²): examples reach the model in no other way.

    With several bands the noise of a step is a row of C⁻¹Z, kept in `rows`.

    The gradients of the first batch of several examples, and of some before it, are compared with a
    plain loop, which reads every example alone and without padding; a difference stops the
    training.
    """

    def __init__(
        self,
        model: nn.Module,
        noise: Noise,
        stream: NoiseStream,
        bands: tuple[float, ...] = PLAIN,
        processes: Processes = ALONE,
    ) -> None:
        if computes_in_half(model):
            raise UsageError(
                "this model computes in half precision, in which each example's gradient depends "
                "on the others in its batch; load it in float32"
            )
        check_supported(model)
        self._model = model
        self._noise = noise
        self._processes = processes
        self._parameters = trainable(model)
        self.rows = Rows(bands, lambda like: noise.drawn(like, stream))
        self._lonely, self._checked = LONELY, False
        # fresh adapters are zero on one side, and so are all gradients of the other
        self._zero = [p for name, p in model.named_parameters() if p.requires_grad and _B in name]

    def into_gradients(self, batches: Iterable[Batch], divisor: float) -> list[Piece]:
        """Set every trainable parameter's gradient to the noisy sum divided by `divisor`.

        batches: the examples of one release that this process reads, each in one batch; those of
            all processes are all.
        Returns, for the auditor only, the pieces of the examples that contribute to the sum.
        Raises NotFiniteError where a loss is not finite.
        """
        totals = [torch.zeros_like(parameter) for parameter in self._parameters]
        pieces = self._processes.in_step(lambda: self._add_clipped(batches, totals), self._idle)
        if self._processes.rank == 0:  # noise is added once
            for place, (parameter, total) in enumerate(zip(self._parameters, totals, strict=True)):
                total.add_(self.rows.drawn(place, parameter))
        self._processes.add(totals)
        for parameter, total in zip(self._parameters, totals, strict=True):
            parameter.grad = total.div_(divisor)
        return pieces

    def _add_clipped(self, batches: Iterable[Batch], totals: Sequence[Tensor]) -> list[Piece]:
        """Add the clipped gradients to `totals`; return the pieces of those that contribute."""
        pieces: list[Piece] = []
        for batch in batches:
            several = batch.examples > 1
            if not self._checked and (several or self._lonely):
                first = Batch(batch.blocks[:1]) if batch.chunked else batch.part(0, checked(batch))
                self._check(first)
                self._lonely, self._checked = self._lonely - 1, several
            clipped = clipped_gradients(self._model, batch, self._noise.max_norm)
            if not bool(clipped.losses.isfinite().all() and clipped.norms.isfinite().all()):
                raise NotFiniteError("a loss is not finite; lower learning_rate or clip")
            for total, part in zip(totals, clipped.sums, strict=True):
                total += part
            contributed = clipped.contributed(self._noise.max_norm) if batch.pieces else ()
            pieces += chain.from_iterable(compress(batch.pieces, contributed))
        return pieces

    def _idle(self) -> None:
        """Make one pass forward and back over a token that no loss depends on."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self._parameters[0].device)
        clipped_gradients(self._model, Batch((Block(token, token, token.float(), 1),)), 1.0)

    def _check(self, batch: Batch) -> None:
        kept = [parameter.detach().clone() for parameter in self._zero]
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self._zero:
                parameter.add_(SPREAD * torch.randn(parameter.shape, generator=draw).to(parameter))
        try:
            self._compare(batch)
        finally:
            with torch.no_grad():
                for parameter, before in zip(self._zero, kept, strict=True):
                    parameter.copy_(before)

    def _compare(self, batch: Batch) -> None:
        mine = clipped_gradients(self._model, batch, self._noise.max_norm)
        if not bool(mine.losses.isfinite().all() and mine.norms.isfinite().all()):
            return  # NotFiniteError follows in `_clipped`
        gap = worst_difference(mine, loop(self._model, batch, self._noise.max_norm))
        if not gap <= TOLERANCE:
            raise RuntimeError(
                f"per-example gradients differ from a plain loop by {gap:.1e}: they miss a part of "
                "this model, or it answers otherwise in a padded batch; nothing was trained"
            )


def checked(batch: Batch) -> int:
    """Count the examples to check: at least two, whose gradients might be mixed up."""
    rows = sum(block.rows for block in batch.blocks)
    return max(2, min(CHECKED, CHECKED_ROWS // rows))


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Make AdamW or plain SGD for the trainable parameters; it sees noised gradients only."""
    if name == "sgd":
        return torch.optim.SGD(trainable(model), lr=1.0)
    return torch.optim.AdamW(trainable(model), lr=1.0, weight_decay=0.0, fused=True)


@contextmanager
def adapted(model: nn.Module, layers: str, lora: int, seed: int) -> Iterator[nn.Module]:
    """Make only the chosen layers, or LoRA adapters on them, trainable; merge them on exit.

    Below adapters, weights that were stored in bfloat16 are held in it.
    """
    with limited(model, layers):
        if not lora:
            yield model
            return
        inner: Any = _with_lora(model, lora, seed)
        hold(inner)
        yield inner
        let_go(inner)
        inner.merge_and_unload()


def _with_lora(model: Any, rank: int, seed: int) -> Any:
    """Add adapters in place. Raises UsageError where no layer can have them."""
    if is_adapted(model):
        raise UsageError(f"lora={rank}: the run trains adapters already; leave lora out")
    try:
        return with_adapters(model, Lora(rank, 2 * rank), seed)
    except UsageError as error:
        raise UsageError(f"lora={rank}: {error}; {_without_lora(model)}") from None


def _without_lora(model: Any) -> str:
    """Explain whether a model that takes no adapters can be trained as it is."""
    try:
        check_supported(model)
    except UsageError:
        return "nor can it be trained without adapters; use another model"
    return "use lora=0"
