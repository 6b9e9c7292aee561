"""Selective-DPSGD for an LSTM (arXiv 2108.12944): private steps with noise, public ones without.

A prediction x_t → x_{t+1} is private if either token is. Private steps are DP-SGD over whole
records, with a loss over private predictions only. Public steps are ordinary ones over public
predictions, in separate batches. A run is a maximal sequence of predictions of one kind. The hidden
and cell state after a private run can carry private tokens into the public run that follows:

    reset  a public run starts from the zero state: no private token ever enters a public step.
    noise  h and c are clipped, noised and detached; each such release is charged. A record
           releases at most `transitions` states per epoch; later public runs start from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from audit.accounting import Gaussians, hidden_states
from audit.core.checkpoint import State as Saved
from audit.core.counts import Counts, Piece
from audit.core.model import TextTokenizer
from audit.core.noise import NoiseStream
from audit.core.progress import ShareDone
from audit.core.randomness import derived_seed
from audit.core.training import NO_TEACHERS, FineTuning, Method, NotFiniteError, Teachers, Training
from audit.models.lstm import State
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.examples import Marked, marked_records
from audit.models.training.fine_tuning import (
    adamw,
    batches,
    cut,
    next_token_loss,
    pad,
    stepped,
    warmed,
)
from audit.models.training.learned_tokens import pieces_of
from audit.models.training.per_example_gradients import clip_factors
from audit.models.training.resume import Draws, Moments, Part


@dataclass(frozen=True)
class SelectiveRecipe(Method):
    """schedule=independent: T private steps, with the public ones spread evenly among them.

    noise: of the private gradients. sampling_probability: q. steps: T. population: public N.
    learning_rate, optimizer: of the private steps. public: the recipe of the public steps.
    hidden: "reset" or "noise"; hidden_noise: σ_h, and the clipping norm of h and of c, each.
    transitions: the most states that a record releases per epoch with hidden=noise.
    """

    divided = True
    reads = ("texts", "private")

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
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        records = marked_records(training, tokenizer)
        length = self.public.max_length
        examples = [e for record in records if (e := record.private_example(length)) is not None]
        hidden = self.hidden_noise.stream(training, "hidden")
        public = PublicSteps(self, model, records, training.seed, hidden, training.counts)

        def after(share: float) -> None:
            if training.processes.rank == 0:  # ordinary steps: the others take the outcome
                public.until(share)
            with torch.no_grad():
                training.processes.align(list(model.parameters()))
            if progress is not None:
                progress(share)

        private = PrivateRecipe(
            self.noise,
            self.sampling_probability,
            self.steps,
            self.population,
            self.learning_rate,
            length,
            self.optimizer,
            physical_tokens=self.physical_tokens,
        )
        private.descend(model, [examples], training, after, hidden=Draws(hidden), public=public)

    def idle(self, training: Training) -> bool:
        return self.steps == 0

    @property
    def releases(self) -> tuple[Gaussians, ...]:
        """The noisy sums and the noised states that depend on a record's private tokens."""
        sums = Gaussians(self.noise.multiplier, self.steps, self.sampling_probability)
        if self.hidden == "reset":
            return (sums,)
        states = self.public.epochs * self.transitions
        return sums, hidden_states(self.hidden_noise.multiplier, states)

    @property
    def passes(self) -> float:
        return self.sampling_probability * self.steps + self.public.epochs


class PublicSteps(Part):
    """Trains on public predictions, in batches independent of the private steps."""

    def __init__(
        self,
        recipe: SelectiveRecipe,
        model: Any,
        records: Sequence[Marked],
        seed: int,
        hidden: NoiseStream,
        counts: Counts | None = None,
    ) -> None:
        self._recipe = recipe
        self._model = model
        self._hidden = hidden
        self._counts = counts or Counts()
        order = torch.Generator().manual_seed(derived_seed(seed, "public order"))
        public, rows = recipe.public, self._rows(records)
        epochs = range(public.epochs if rows else 0)
        self._batches = [b for _ in epochs for b in batches(rows, public.batch_tokens, order)]
        self._optimizer = adamw(model, public)
        self._moments = Moments(self._optimizer)
        self._done = 0

    def state(self) -> Saved:
        return {"done": self._done, **self._moments.state()}

    def restore(self, state: Saved) -> None:
        self._done = state["done"]
        self._moments.restore({name: value for name, value in state.items() if name != "done"})

    def _rows(self, records: Sequence[Marked]) -> list[Any]:
        if self._recipe.hidden == "noise":
            return list(records)
        length = self._recipe.public.max_length
        return [row for record in records for row in public_rows(record, length)]

    def until(self, share: float) -> None:
        """Step until this share of all public steps is done."""
        total = len(self._batches)
        while self._done < round(share * total):
            loss = self._loss(self._batches[self._done])
            if not loss.isfinite():
                raise NotFiniteError("the public loss is not finite; lower learning_rate")
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            public = self._recipe.public
            rate = public.learning_rate * warmed(self._done, total, public.warmup)
            pieces = self._pieces(self._batches[self._done])
            self._counts.step(pieces, stepped(self._optimizer, rate))
            self._done += 1

    def _pieces(self, batch: Any) -> list[Piece]:
        if self._recipe.hidden == "reset":
            return pieces_of(batch)
        return [piece for record in batch for piece in record.public_piece]

    def _loss(self, batch: Any) -> Tensor:
        if self._recipe.hidden == "reset":
            return next_token_loss(self._model, batch)
        noise, most = self._recipe.hidden_noise, self._recipe.transitions
        return noised_loss(self._model, batch, noise, most, self._hidden)


def public_rows(record: Marked, max_length: int) -> list[Sequence[int]]:
    """Cut out the public runs of a record, each as a text that starts from the zero state."""
    runs = [
        record.tokens[first : last + 1] for private, first, last in record.runs() if not private
    ]
    return [row for run in runs for row in cut(run, max_length)]


def noised_loss(
    model: Any,
    records: Sequence[Marked],
    noise: Noise,
    transitions: int,
    stream: NoiseStream,
) -> Tensor:
    """Compute the mean −log p, nats, of the public predictions; records are read whole.

    The state that enters a public run after a private one is clipped, noised and detached; after
    `transitions` such states of a record, it is the zero state instead.
    """
    inputs, targets = (x.to(model.device) for x in pad([record.tokens for record in records]))
    width = inputs.shape[1]
    private = torch.ones(inputs.shape, dtype=torch.bool)
    for i, record in enumerate(records):
        private[i, : len(record.tokens) - 1] = torch.tensor(record.pairs)
    enters = private[:, :-1] & ~private[:, 1:]  # on the host, which asks for every token
    entered = enters.cumsum(dim=1).to(model.device)
    state: State | None = None
    logits = []
    for t in range(width):
        if state is not None and enters[:, t - 1].any():
            entering, made = enters[:, t - 1].to(model.device), entered[:, t - 1]
            released = noised(state, noise, stream, entering & (made <= transitions))
            state = released.where(entering, state)
        read, state = model.read(inputs[:, t : t + 1], state)
        logits.append(read[:, 0])
    public = ~private.to(model.device)
    return cross_entropy(torch.stack(logits, dim=1)[public], targets[public])


def noised(state: State, noise: Noise, stream: NoiseStream, released: Tensor) -> State:
    """Clip each row of h and of c to C and add N(0, σ²C²); gradients do not flow through.

    released: (n,), bool: the rows to release; all other rows become the zero state.
    """

    def one(x: Tensor) -> Tensor:
        x = x.detach()
        clipped = x * clip_factors(x.norm(dim=1), noise.max_norm)[:, None]
        return torch.where(released[:, None], clipped + noise.drawn(x, stream), torch.zeros_like(x))

    return State(one(state.h), one(state.c))
