"""The toolkit's own engine, examined through the training that `dp_sgd` and `dp_ftrl` run."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, final

import torch
from torch import Tensor, nn

from audit.check.causal_lm import START, STOP, CausalLM
from audit.check.engine import Engine, Steps, Trial, flat
from audit.core.checkpoint import Checkpoint, State
from audit.core.terms import Unit
from audit.core.training import Training
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.fine_tuning import warmed


@dataclass(frozen=True)
class Own(Engine):
    """Trains by `PrivateRecipe`, unchanged: G is read off the gradients after each step."""

    def run(self, trial: Trial) -> Steps:
        model, texts = _as_language_model(trial)
        parameters = list(trial.model.parameters())
        sums: list[Tensor] = []
        weights = [flat(parameters)]

        def seen(_: float) -> None:
            sums.append(flat([p.grad for p in parameters if p.grad is not None]))
            weights.append(flat(parameters))

        width = max(len(text.split()) for text in texts) + 1
        recipe = PrivateRecipe(
            noise=Noise(trial.noise_multiplier, trial.max_norm),
            sampling_probability=trial.sampling_probability,
            steps=trial.steps,
            population=trial.population,
            learning_rate=trial.learning_rate,
            max_length=width,
            optimizer="sgd",
            physical_tokens=width * trial.physical_batch,
            bands=trial.column,
        )
        training = Training(
            "check",
            tuple(texts),
            recipe,
            trial.seed,
            owners=_owners(trial),
            checkpoint=Stopping(trial.resume_after),
        )
        tokenizer: Any = Numbers()
        with suppress(_Stopped):
            recipe.train(model, tokenizer, training, seen)
        if trial.resume_after:
            recipe.train(model, tokenizer, training, seen)
        rates = [trial.learning_rate * warmed(t, trial.steps, 0.0) for t in range(trial.steps)]
        return Steps(
            torch.stack(sums) * trial.expected_batch,
            weights=torch.stack(weights),
            learning_rates=rates,
            resumed=trial.resume_after > 0,
        )


class _Stopped(Exception):  # noqa: N818
    """A training has saved its state and stops."""


@final
class Stopping(Checkpoint):
    """Stops a training after so many steps, and lets it go on from there; after 0, never."""

    def __init__(self, after: int) -> None:
        self._left = after
        self._state: State | None = None

    def load(self) -> State | None:
        return self._state

    def due(self) -> bool:
        self._left -= 1
        return self._left == 0

    def save(self, state: State) -> None:
        self._state = deepcopy(state)
        raise _Stopped


@dataclass(frozen=True)
class Numbers:
    """A tokenizer whose texts are token ids with spaces between them."""

    start: int = START
    stop: int = STOP

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


class OneToken(nn.Module):
    """A language model in which token 2 + i is the i-th record of a trial.

    After that token, its logit of the stop token is proportional to the record's loss; all other
    logits are 0, so that the gradient of −log p is the record's own, times a constant. The
    constant makes a unit's gradient, the mean over its tokens, the mean over its records'.
    """

    def __init__(self, inner: nn.Module, records: Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.device = records.device
        blank = torch.zeros_like(records[:1])
        self._table = torch.cat([blank, blank, records])  # no loss follows from start and stop
        vocabulary = len(self._table)
        self._scale = -2.0 / (1.0 - 1.0 / vocabulary)

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        logits = torch.zeros(*input_ids.shape, len(self._table))
        losses = self.inner(self._table[input_ids])
        stop = torch.arange(len(self._table)) == STOP
        return SimpleNamespace(logits=logits + self._scale * losses[..., None] * stop)


def _as_language_model(trial: Trial) -> tuple[Any, list[str]]:
    """Make (a causal language model, a text for each record) of a trial."""
    records = trial.records.flatten(0, 1)
    if isinstance(trial.model, CausalLM):
        return trial.model.inner, [" ".join(map(str, row[1:-1].tolist())) for row in records]
    return OneToken(trial.model, records), [str(2 + i) for i in range(len(records))]


def _owners(trial: Trial) -> tuple[str, ...]:
    """Name the unit of each record."""
    units, each = trial.records.shape[:2]
    if trial.unit == Unit.RECORD:
        return tuple(map(str, range(units * each)))
    return tuple(str(unit) for unit in range(units) for _ in range(each))
