"""Algorithm 1 of Selective-DPSGD (arXiv 2108.12944) exactly as published, for reproduction.

Each batch is cut into alternating runs of public and private predictions. A public run is an
ordinary step; a private run is a DP-SGD step, after which hidden and cell state are clipped and
noised. All runs belong to the *same* batch, and its un-noised public gradients reveal who is in it:
no amplification by sampling may be claimed, and every noised state is charged as a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch

from audit.accounting import Gaussians, hidden_states
from audit.core.counts import Counts
from audit.core.model import TextTokenizer
from audit.core.noise import NoiseStream
from audit.core.progress import ShareDone
from audit.core.randomness import derived_seed
from audit.core.training import NO_TEACHERS, Method, NotFiniteError, Teachers, Training
from audit.models.lstm import State
from audit.models.training.dp_sgd import Noise, NoisySum, make_optimizer
from audit.models.training.examples import Example, Marked, collate, marked_records
from audit.models.training.fine_tuning import stepped, warmed
from audit.models.training.per_example_gradients import Batch, Block, loss
from audit.models.training.resume import Counting, Draws, Moments, Resume, Weights
from audit.models.training.selective import noised


@dataclass(frozen=True)
class AlternatingRecipe(Method):
    """schedule=paper: every record once an epoch, in shuffled batches of `batch` records.

    noise: of the private gradients. hidden_noise: σ_h, and the clipping norm of h and of c, each.
    private_runs: the most private runs of any record, which are charged; more raise RuntimeError.
    population: the public number of records.
    learning_rate, public_learning_rate: of private and public steps, both falling to zero.
    max_length: predictions read of a record; the rest is ignored.
    """

    first_piece_only = True
    reads = ("texts", "private")

    noise: Noise
    hidden_noise: Noise
    batch: int
    epochs: int
    private_runs: int
    population: int
    learning_rate: float
    public_learning_rate: float
    optimizer: str
    max_length: int

    def train(
        self,
        model: Any,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        records = [r.first(self.max_length) for r in marked_records(training, tokenizer)]
        runs = max((sum(private for private, _, _ in r.runs()) for r in records), default=0)
        if runs > self.private_runs:
            raise RuntimeError(f"a record has {runs} private runs; {self.private_runs} are charged")
        order = torch.Generator().manual_seed(derived_seed(training.seed, "order"))
        noise, hidden = (self.noise.stream(training, of) for of in ("noise", "hidden"))
        private, public = (make_optimizer(self.optimizer, model) for _ in range(2))
        release = NoisySum(model, self.noise, noise)
        alternating = Alternating(self, model, release, hidden, training.counts, private, public)
        resume = Resume(training.checkpoint, noise=Draws(noise), hidden=Draws(hidden))
        done = resume.begin(
            weights=Weights(model),
            private=Moments(private),
            public=Moments(public),
            counts=Counting(training.counts),
        )
        per_epoch = -(-len(records) // self.batch)
        for epoch in range(self.epochs):
            shuffled = torch.randperm(len(records), generator=order).tolist()
            for place in range(per_epoch):
                some = shuffled[place * self.batch : (place + 1) * self.batch]
                step = epoch * per_epoch + place
                if step < done:
                    continue
                alternating.batch([records[i] for i in some], step, self.epochs * per_epoch)
                if progress is not None:
                    progress((step + 1) / (self.epochs * per_epoch))
                resume.after(step + 1)

    @property
    def releases(self) -> tuple[Gaussians, ...]:
        """The gradient of every private run and the state after it, without amplification."""
        runs = self.epochs * self.private_runs
        sums = Gaussians(self.noise.multiplier, runs)
        return sums, hidden_states(self.hidden_noise.multiplier, runs)

    def idle(self, training: Training) -> bool:
        return not training.texts or self.epochs == 0

    @property
    def passes(self) -> float:
        return self.epochs


@dataclass(frozen=True)
class Alternating:
    """Takes public and private steps on the runs of one batch after the other.

    hidden: the stream of the states' noise. private, public: the optimizers.
    """

    recipe: AlternatingRecipe
    model: Any
    release: NoisySum
    hidden: NoiseStream
    counts: Counts
    private: torch.optim.Optimizer
    public: torch.optim.Optimizer

    def batch(self, records: Sequence[Marked], step: int, steps: int) -> None:
        """Step on each run of a batch, in order: the first is public, and may be empty."""
        falling = warmed(step, steps, 0.0)
        runs = [turns(record) for record in records]
        zero = torch.zeros(len(records), self.model.config.hidden, device=self.model.device)
        state = State(zero, zero)
        for turn in range(max(map(len, runs))):
            here = [
                i for i, its in enumerate(runs) if turn < len(its) and its[turn][0] < its[turn][1]
            ]
            if not here:
                continue
            rows = torch.tensor(here, device=self.model.device)
            spans = [(records[i], *runs[i][turn]) for i in here]
            private = turn % 2 == 1
            batch = run_batch(spans, state.rows(rows), by_record=private)
            (block,) = batch.blocks
            after = state_after(self.model, block)
            if private:
                pieces = self.release.into_gradients([batch], self.recipe.batch)
                moved = stepped(self.private, self.recipe.learning_rate * falling)
                self.counts.step(pieces, moved)
                every = torch.ones(len(here), dtype=torch.bool, device=self.model.device)
                after = noised(after, self.recipe.hidden_noise, self.hidden, every)
            else:
                self._public_step(batch, self.recipe.public_learning_rate * falling)
            state = State(
                state.h.index_copy(0, rows, after.h), state.c.index_copy(0, rows, after.c)
            )

    def _public_step(self, batch: Batch, learning_rate: float) -> None:
        (block,) = batch.blocks
        value = loss(self.model, block).sum()
        if not value.isfinite():
            raise NotFiniteError("the public loss is not finite; lower learning_rate")
        self.public.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        moved = stepped(self.public, learning_rate)
        self.counts.step(chain.from_iterable(batch.pieces), moved)


def turns(record: Marked) -> list[tuple[int, int]]:
    """List [first, last) of each run: public, private, public, …; the first may be empty."""
    runs = record.runs()
    spans = [(first, last) for _, first, last in runs]
    return [(0, 0), *spans] if runs and runs[0][0] else spans


def run_batch(spans: Sequence[tuple[Marked, int, int]], state: State, by_record: bool) -> Batch:
    """Make one batch of the runs [first, last) of some records, starting from `state`.

    by_record: each record's loss is the mean over its run; else all tokens of the batch have equal
        weight.
    """
    total = sum(last - first for _, first, last in spans)
    examples = []
    for record, first, last in spans:
        counts = [1 / (last - first if by_record else total)] * (last - first)
        examples.append(Example(((record.tokens[first : last + 1], counts),)))
    batch = collate(examples, state.h.device)
    (block,) = batch.blocks
    return replace(batch, blocks=(replace(block, state=state),))


def state_after(model: Any, block: Block) -> State:
    """Compute h and c after the last token of each row, without gradients."""
    with torch.no_grad():
        h, c = model.unroll(block.inputs, block.state)
    last = (block.weights > 0).sum(dim=1) - 1
    rows = torch.arange(len(last), device=last.device)
    return State(h[rows, last], c[rows, last])
