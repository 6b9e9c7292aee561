"""Selective-DPSGD for an LSTM (arXiv 2108.12944): private steps with noise, public ones without.

A prediction x_t → x_{t+1} is private if either token is. Private steps are DP-SGD over whole
records, their loss counted at the private predictions only; public steps are ordinary ones over
public predictions, in batches of their own. What passes from private tokens into a public step is
the hidden and cell state of the run before it:

    reset  a public run starts from the zero state: no private token ever enters a public step.
    noise  h and c are clipped, noised and cut off from the gradient; each such release is charged.
           A record makes at most `transitions` of them an epoch; later runs start from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from audit.accounting import Gaussians, hidden_states
from audit.core.model import TextTokenizer
from audit.core.randomness import derived_seed
from audit.core.training import FineTuning, Method, NotFiniteError, Progress, Teachers, Training
from audit.models.lstm import State
from audit.models.training.dp_sgd import Noise, NoisySum, make_optimizer
from audit.models.training.examples import Marked, collated, marked_records, poisson
from audit.models.training.fine_tuning import (
    adamw,
    batches,
    cut,
    next_token_loss,
    pad,
    stepped,
    warmed,
)
from audit.models.training.noised_states import noised


@dataclass(frozen=True)
class SelectiveRecipe(Method):
    """schedule=independent: T private steps, with the public ones spread evenly among them.

    noise: of the private gradients. sampling_probability: q. steps: T. population: public N.
    learning_rate, optimizer: of the private steps. public: everything about the public ones.
    hidden: "reset" or "noise"; hidden_noise: σ_h and the clipping norm of h and of c, each.
    transitions: how many states a record releases an epoch, at most, with hidden=noise.
    """

    noise: Noise
    sampling_probability: float
    steps: int
    population: int
    learning_rate: float
    optimizer: str
    public: FineTuning
    hidden: str
    hidden_noise: Noise
    transitions: int
    physical_tokens: int = 4096

    def train(
        self,
        model: Any,
        tokenizer: TextTokenizer,
        training: Training,
        progress: Progress | None = None,
        teachers: Teachers = (),
    ) -> None:
        records = marked_records(training, tokenizer)
        length = self.public.max_length
        examples = [e for record in records if (e := record.private_example(length)) is not None]
        coins = self.noise.stream(training, "sampling")
        release = NoisySum(model, self.noise, self.noise.stream(training, "noise"))
        private = make_optimizer(self.optimizer, model)
        hidden = self.hidden_noise.stream(training, "hidden")
        public = PublicSteps(self, model, records, training.seed, hidden)
        for step in range(self.steps):
            drawn = poisson(examples, self.sampling_probability, coins)
            batch = collated(drawn, self.physical_tokens, model.device)
            release.into_gradients(batch, self.sampling_probability * self.population)
            stepped(private, self.learning_rate * warmed(step, self.steps, 0.0))
            public.until((step + 1) / self.steps)
            if progress is not None:
                progress((step + 1) / self.steps)

    def idle(self, training: Training) -> bool:
        return self.steps == 0

    @property
    def releases(self) -> tuple[Gaussians, ...]:
        """Every noisy sum that owes something to a record's private tokens, and every state."""
        sums = Gaussians(self.noise.multiplier, self.steps, self.sampling_probability)
        if self.hidden == "reset":
            return (sums,)
        states = self.public.epochs * self.transitions
        return sums, hidden_states(self.hidden_noise.multiplier, states)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("texts", "private")

    @property
    def passes(self) -> float:
        return self.sampling_probability * self.steps + self.public.epochs


class PublicSteps:
    """Ordinary training on public predictions, in batches that no private step knows of."""

    def __init__(
        self,
        recipe: SelectiveRecipe,
        model: Any,
        records: Sequence[Marked],
        seed: int,
        hidden: np.random.Generator,
    ) -> None:
        self._recipe = recipe
        self._model = model
        self._hidden = hidden
        order = torch.Generator().manual_seed(derived_seed(seed, "public order"))
        public, what = recipe.public, self._what(records)
        epochs = range(public.epochs if what else 0)
        self._batches = [b for _ in epochs for b in batches(what, public.batch_tokens, order)]
        self._optimizer = adamw(model, public)
        self._done = 0

    def _what(self, records: Sequence[Marked]) -> list[Any]:
        if self._recipe.hidden == "noise":
            return list(records)
        length = self._recipe.public.max_length
        return [row for record in records for row in public_rows(record, length)]

    def until(self, share: float) -> None:
        """Goes on until this share of all public steps is done."""
        total = len(self._batches)
        while self._done < round(share * total):
            loss = self._loss(self._batches[self._done])
            if not loss.isfinite():
                raise NotFiniteError("the public loss is no longer a number; lower learning_rate")
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            public = self._recipe.public
            rate = public.learning_rate * warmed(self._done, total, public.warmup)
            stepped(self._optimizer, rate)
            self._done += 1

    def _loss(self, batch: Any) -> Tensor:
        if self._recipe.hidden == "reset":
            return next_token_loss(self._model, batch)
        noise, most = self._recipe.hidden_noise, self._recipe.transitions
        return noised_loss(self._model, batch, noise, most, self._hidden)


def public_rows(record: Marked, max_length: int) -> list[Sequence[int]]:
    """The public runs of a record, each a text of its own that starts from nothing."""
    runs = [
        record.tokens[first : last + 1] for private, first, last in record.runs() if not private
    ]
    return [row for run in runs for row in cut(run, max_length)]


def noised_loss(
    model: Any,
    records: Sequence[Marked],
    noise: Noise,
    transitions: int,
    stream: np.random.Generator,
) -> Tensor:
    """Mean −log p of the public predictions, whole records read from their beginning.

    Where a public run follows a private one, the state that enters it is clipped, noised and cut
    off; from a record's run number `transitions` + 1 on, it is the zero state instead.
    """
    inputs, targets = (x.to(model.device) for x in pad([record.tokens for record in records]))
    width = inputs.shape[1]
    private = torch.ones(inputs.shape, dtype=torch.bool)
    for i, record in enumerate(records):
        private[i, : len(record.tokens) - 1] = torch.tensor(record.pairs)
    private = private.to(model.device)
    made = torch.zeros(len(records), dtype=torch.long, device=model.device)
    state: State | None = None
    logits = []
    for t in range(width):
        if state is not None and (entering := private[:, t - 1] & ~private[:, t]).any():
            made += entering
            released = noised(state, noise, stream, entering & (made <= transitions))
            state = released.where(entering, state)
        read, state = model.read(inputs[:, t : t + 1], state)
        logits.append(read[:, 0])
    public = ~private
    return cross_entropy(torch.stack(logits, dim=1)[public], targets[public])
