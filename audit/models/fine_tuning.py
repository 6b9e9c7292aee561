"""Fine-tuning of a causal language model on token sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from audit.errors import UsageError
from audit.models.gradients import trainable
from audit.models.layers import ALL, is_layers, limited
from audit.models.method import Method, NotFiniteError, Progress, Teachers
from audit.predictor import record_tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from audit.defense import Training
    from audit.models.loading import TextTokenizer

R = TypeVar("R", bound=Sized)
IGNORED = -100  # the target at padding, which cross-entropy skips


@dataclass(frozen=True)
class Recipe(Method):
    """How a model is fine-tuned without protection; every field changes the weights.

    epochs: passes over all sequences.
    learning_rate: AdamW's peak, reached after warm-up, zero after the last step.
    batch_tokens: input tokens per step, padding included; a longer sequence is a batch of its own.
    max_length: input tokens per row; longer sequences are cut.
    warmup: share of the steps in which the learning rate rises, 0 to 1.
    weight_decay: AdamW's, on every parameter that is trained.
    beta2: AdamW's memory of squared gradients, 0 to 1; shorter for small batches.
    layers: "all", or "top:N": of a transformer, only the last N blocks are trained.
    """

    epochs: int
    learning_rate: float
    batch_tokens: int
    max_length: int
    warmup: float = 0.1
    weight_decay: float = 0.0
    beta2: float = 0.999
    layers: str = ALL

    def __post_init__(self) -> None:
        rules = {
            "epochs": self.epochs >= 0,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "batch_tokens": self.batch_tokens >= 1,
            "max_length": self.max_length >= 1,
            "warmup": 0 <= self.warmup <= 1,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "beta2": 0 <= self.beta2 < 1,
            "layers": is_layers(self.layers),
        }
        for name, kept in rules.items():
            if not kept:
                raise UsageError(f"training: {name} cannot be {getattr(self, name)}")

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of step 0 ≤ step < steps: linear up, then linear down."""
        return self.learning_rate * warmed(step, steps, self.warmup)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """AdamW on every trainable parameter; each step says its own learning rate."""
        import torch

        return torch.optim.AdamW(
            trainable(model),
            betas=(0.9, self.beta2),
            weight_decay=self.weight_decay,
            fused=True,
        )

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: Progress | None = None,
        teachers: Teachers = (),
    ) -> None:
        sequences = [record_tokens(tokenizer, text) for text in training.texts]
        fine_tune(model, sequences, self, training.seed, progress)

    def idle(self, training: Training) -> bool:
        return not training.texts

    @property
    def reads(self) -> tuple[str, ...]:
        return ("texts",)

    @property
    def passes(self) -> float:
        return self.epochs


def stepped(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """One step at this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()


def warmed(step: int, steps: int, warmup: float) -> float:
    """Share of the peak learning rate at step 0 ≤ step < steps: linear up, then linear down."""
    rising = warmup * steps
    return min((step + 1) / (rising + 1), (steps - step) / (steps - rising + 1))


def fine_tune(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    recipe: Recipe,
    seed: int,
    progress: Progress | None = None,
) -> int:
    """Trains `model` in place on `sequences` and returns the number of tokens predicted.

    sequences: token ids, from bos to eos; each token but the first is predicted once an epoch.
    seed: decides the order of batches and dropout; the global random state is left as it was.
    progress: told the share of the steps done, 0 to 1, after each.
    On a CPU with a fixed number of threads, the same arguments give the same bytes; CUDA computes
    in bfloat16.
    """
    rows = [row for sequence in sequences for row in cut(sequence, recipe.max_length)]
    descend(model, rows, next_token_loss, recipe, seed, progress)
    return recipe.epochs * sum(len(row) - 1 for row in rows)


def descend(
    model: PreTrainedModel,
    rows: Sequence[R],
    loss_of: Callable[[PreTrainedModel, list[R]], Tensor],
    recipe: Recipe,
    seed: int,
    progress: Progress | None = None,
) -> None:
    """Minimises the mean of `loss_of` over batches of rows; as `fine_tune`, which see."""
    import torch

    if not rows or recipe.epochs == 0:
        return
    device = model.device
    order = torch.Generator().manual_seed(seed)
    steps = recipe.epochs * sum(1 for _ in batches(rows, recipe.batch_tokens, order))
    step = 0
    with (
        limited(model, recipe.layers),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        optimizer = recipe.optimizer(model)
        torch.manual_seed(seed)
        model.train()
        for _ in range(recipe.epochs):
            for batch in batches(rows, recipe.batch_tokens, order):
                loss = loss_of(model, batch)
                if not loss.isfinite():
                    raise NotFiniteError(
                        f"the loss is {loss.item()} at step {step + 1} of {steps}; "
                        "lower training.learning_rate"
                    )
                loss.backward()  # type: ignore[no-untyped-call]
                stepped(optimizer, recipe.rate(step, steps))
                optimizer.zero_grad()
                step += 1
                if progress is not None:
                    progress(step / steps)
        model.eval()  # type: ignore[no-untyped-call]


def next_token_loss(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> Tensor:
    """Mean −log p over all tokens of the rows but the first of each."""
    import torch
    from torch.nn.functional import cross_entropy

    kind = model.device.type
    inputs, targets = (tensor.to(model.device) for tensor in pad(rows))
    with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        logits = model(input_ids=inputs, use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)


def cut(sequence: Sequence[int], max_length: int) -> list[Sequence[int]]:
    """Rows of at most `max_length` inputs and their targets; neighbours share one token."""
    return [
        sequence[start : start + max_length + 1]
        for start in range(0, len(sequence) - 1, max_length)
    ]


def batches(rows: Sequence[R], batch_tokens: int, generator: torch.Generator) -> Iterator[list[R]]:
    """All rows once, rows of like length together, in random order.

    How many batches there are depends on the lengths alone.
    """
    import torch

    shuffled = torch.randperm(len(rows), generator=generator).tolist()
    groups: list[list[R]] = [[]]
    for row in sorted((rows[index] for index in shuffled), key=len, reverse=True):
        group = groups[-1]
        if group and (len(group) + 1) * (len(group[0]) - 1) > batch_tokens:
            groups.append(group := [])
        group.append(row)
    for index in torch.randperm(len(groups), generator=generator).tolist():
        yield groups[index]


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Inputs and targets, each (rows, longest − 1), padded where causal attention never looks."""
    import torch

    width = max(len(row) for row in rows) - 1
    inputs = [[*row[:-1], *[0] * (width + 1 - len(row))] for row in rows]
    targets = [[*row[1:], *[IGNORED] * (width + 1 - len(row))] for row in rows]
    return torch.tensor(inputs), torch.tensor(targets)
