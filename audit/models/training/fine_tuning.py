"""Fine-tunes a causal language model on token sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from audit.core.counts import Counts
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.progress import ShareDone
from audit.core.training import (
    NO_TEACHERS,
    BestStep,
    FineTuning,
    NotFiniteError,
    Teachers,
    Training,
)
from audit.models.head import head_for
from audit.models.layers import limited
from audit.models.training.best_step import BATCH, Watch, opening
from audit.models.training.head_loss import head_loss
from audit.models.training.learned_tokens import is_learned, pieces_of, plain, sequences_of
from audit.models.training.per_example_gradients import trainable
from audit.models.training.recomputation import recomputed
from audit.models.training.resume import Counting, GlobalRandomness, Moments, Resume, Weights

R = TypeVar("R", bound=Sized)
S = TypeVar("S", bound=Sequence[int])
IGNORED = -100  # the target at padding, which cross-entropy ignores


@dataclass(frozen=True)
class Recipe(FineTuning):
    """Fine-tunes on next-token loss, with AdamW."""

    partial = True
    reads = ("texts",)

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> BestStep | None:
        sequences = sequences_of(training, tokenizer)
        heldout = opening(training.heldout, tokenizer)
        if not heldout:
            resume = Resume(training.checkpoint)
            fine_tune(model, sequences, self, training.seed, progress, resume, training.counts)
            return None
        rows: list[Sequence[int]] = [
            row for sequence in heldout for row in cut(sequence, self.max_length)
        ]
        order = torch.Generator().manual_seed(training.seed)
        groups = list(batches(rows, BATCH, order))
        watch = Watch(model, groups, next_token_loss, progress or (lambda _: None))
        resume = Resume(training.checkpoint, watch=watch)
        fine_tune(model, sequences, self, training.seed, watch.step, resume, training.counts)
        return watch.best

    def idle(self, training: Training) -> bool:
        return not training.texts

    @property
    def passes(self) -> float:
        return self.epochs


def adamw(model: nn.Module, recipe: FineTuning) -> torch.optim.Optimizer:
    """Make AdamW for every trainable parameter; each step sets its own learning rate."""
    return torch.optim.AdamW(
        trainable(model),
        betas=(0.9, recipe.beta2),
        weight_decay=recipe.weight_decay,
        fused=True,
    )


def stepped(optimizer: torch.optim.Optimizer, learning_rate: float) -> bool:
    """Make one step at this learning rate; return whether its gradient moved the weights.

    That is looked for in the smallest tensor with a gradient that is not 0, which costs next to
    nothing.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    tensors = sorted((p for g in optimizer.param_groups for p in g["params"]), key=Tensor.numel)
    pulled = (one for one in tensors if one.grad is not None and bool(one.grad.any()))
    watched = next(pulled, None)
    before = None if watched is None else watched.detach().clone()
    optimizer.step()
    if watched is None or before is None:
        return False
    return bool(watched.isfinite().all()) and not torch.equal(before, watched)


def warmed(step: int, steps: int, warmup: float) -> float:
    """Compute the share of the peak learning rate at 0 ≤ step < steps: linear up, then down."""
    rising = warmup * steps
    return min((step + 1) / (rising + 1), (steps - step) / (steps - rising + 1))


def fine_tune(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    recipe: FineTuning,
    seed: int,
    progress: ShareDone | None = None,
    resume: Resume | None = None,
    counts: Counts | None = None,
) -> int:
    """Train `model` in place on `sequences` and return the number of tokens predicted.

    sequences: token ids, from bos to eos; each token but the first is predicted once an epoch, and
        complements ~t are read only.
    seed: determines the order of batches and dropout; the global random state is left unchanged.
    progress: called with the share of the steps done, 0 to 1, after each step.
    resume: what a killed training goes on from, with the same arguments and a fresh model.
    counts: where steps note what they learnt from, in sequences that are `Tokens`.
    On a CPU with a fixed number of threads, equal arguments give equal bytes; CUDA computes in
    bfloat16.
    """
    rows = [row for sequence in sequences for row in cut(sequence, recipe.max_length)]
    rows = [row for row in rows if any(map(is_learned, row[1:]))]
    descend(model, rows, next_token_loss, recipe, seed, progress, resume, counts)
    return recipe.epochs * sum(len(row) - 1 for row in rows)


def descend(
    model: PreTrainedModel,
    rows: Sequence[R],
    loss_of: Callable[[PreTrainedModel, list[R]], Tensor],
    recipe: FineTuning,
    seed: int,
    progress: ShareDone | None = None,
    resume: Resume | None = None,
    counts: Counts | None = None,
) -> None:
    """Minimise the mean of `loss_of` over batches of rows; arguments as of `fine_tune`."""
    if not rows or recipe.epochs == 0:
        return
    device = model.device
    order = torch.Generator().manual_seed(seed)
    steps = recipe.epochs * sum(1 for _ in batches(rows, recipe.batch_tokens, order))
    every = (
        batch for _ in range(recipe.epochs) for batch in batches(rows, recipe.batch_tokens, order)
    )
    with (
        limited(model, recipe.layers),
        recomputed(model, recipe.checkpoint_activations),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        optimizer = adamw(model, recipe)
        torch.manual_seed(seed)
        model.train()
        resume, counts = resume or Resume(), counts or Counts()
        done = resume.begin(
            weights=Weights(model),
            moments=Moments(optimizer),
            dropout=GlobalRandomness(device),
            counts=Counting(counts),
        )
        for step, batch in islice(enumerate(every), done, None):
            loss = loss_of(model, batch)
            if not loss.isfinite():
                raise NotFiniteError(
                    f"the loss is {loss.item()} at step {step + 1} of {steps}; "
                    "lower training.learning_rate"
                )
            loss.backward()  # type: ignore[no-untyped-call]
            rate = recipe.learning_rate * warmed(step, steps, recipe.warmup)
            counts.loss(float(loss.detach()))
            counts.step(pieces_of(batch), stepped(optimizer, rate))
            optimizer.zero_grad()
            if progress is not None:
                progress((step + 1) / steps)
            resume.after(step + 1)
        model.eval()  # type: ignore[no-untyped-call]


def next_token_loss(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> Tensor:
    """Compute the mean −log p, nats, over the learned tokens of the rows but the first of each."""
    kind = model.device.type
    inputs, targets = (tensor.to(model.device) for tensor in pad(rows))
    head = head_for(model, inputs.numel())
    with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        if head is not None:
            learned = (targets != IGNORED).float()
            vectors = head.vectors(input_ids=inputs, use_cache=False)
            return head_loss(head, vectors, targets.clamp(min=0), learned / learned.sum()).sum()
        logits = model(input_ids=inputs, use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)


def cut(sequence: S, max_length: int) -> list[S]:
    """Cut a sequence into rows of at most `max_length` inputs; consecutive rows share a token."""
    return [
        sequence[start : start + max_length + 1]  # type: ignore[misc]  # a slice is of its kind
        for start in range(0, len(sequence) - 1, max_length)
    ]


def batches(rows: Sequence[R], batch_tokens: int, generator: torch.Generator) -> Iterator[list[R]]:
    """Yield all rows once, grouped by similar length, in random order.

    The number of batches depends on the lengths alone.
    """
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
    """Make inputs and targets, each (rows, longest − 1), padded on the right."""
    width = max(len(row) for row in rows) - 1
    inputs = [[*plain(row[:-1]), *[0] * (width + 1 - len(row))] for row in rows]
    targets = [[*map(_target, row[1:]), *[IGNORED] * (width + 1 - len(row))] for row in rows]
    return torch.tensor(inputs), torch.tensor(targets)


def _target(token: int) -> int:
    return token if is_learned(token) else IGNORED
