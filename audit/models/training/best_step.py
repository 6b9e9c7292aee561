"""Notes at which step of a training a model predicts held-out text best.

Fine-tuning without protection overfits: it goes on to memorise after it has stopped to improve. Its
utility is that of its best step, or protection would seem to improve a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import torch

from audit.core.checkpoint import State
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.predictor import record_tokens
from audit.core.progress import ShareDone
from audit.core.training import BestStep
from audit.models.adapters import own_weights
from audit.models.training.resume import Part

LOOKS = 8  # evenly spaced over the training, the last at its end
TOKENS = 1024  # of held-out text at each look, and the rest of the record that holds the last one
BATCH = 2048  # tokens scored at once, padding included

Batch = list[Sequence[int]]  # rows of token ids
Loss = Callable[[PreTrainedModel, Batch], torch.Tensor]


@final
class Watch(Part):
    """Looks at the held-out loss of a model as its training goes on."""

    def __init__(
        self, model: PreTrainedModel, batches: Sequence[Batch], loss: Loss, after: ShareDone
    ) -> None:
        """batches: rows of token ids to predict. loss: the mean of a batch in nats. after: is
        called with the share, too."""
        self._model, self._batches, self._loss, self._after = model, batches, loss, after
        self._looks, self._least = 0, float("inf")
        self._best: BestStep | None = None

    def step(self, share: float) -> None:
        """Record a step, after which this share of the training is done."""
        due = int(share * LOOKS + 1e-9)
        if due > self._looks:
            self._looks = due
            self._look(share)
        self._after(share)

    def state(self) -> State:
        best = self._best or BestStep({}, 0.0)
        seen = {"looks": self._looks, "least": self._least, "share": best.share}
        return {**seen, **{f"best.{name}": w for name, w in best.weights.items()}}

    def restore(self, state: State) -> None:
        self._looks, self._least = state["looks"], state["least"]
        kept = {n.removeprefix("best."): w for n, w in state.items() if n.startswith("best.")}
        self._best = BestStep(kept, state["share"]) if state["share"] else None

    @property
    def best(self) -> BestStep | None:
        """The best step; None where that is the last one."""
        return None if self._best is None or self._best.share == 1.0 else self._best

    def _look(self, share: float) -> None:
        loss = self._heldout_loss()
        if loss <= self._least:  # of equals the later, which saw more
            self._least = loss
            weights = {} if share == 1.0 else own_weights(self._model)
            self._best = BestStep({n: w.cpu().clone() for n, w in weights.items()}, share)

    def _heldout_loss(self) -> float:
        total, count = 0.0, 0
        self._model.eval()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for batch in self._batches:
                tokens = sum(len(row) - 1 for row in batch)
                total += float(self._loss(self._model, batch)) * tokens
                count += tokens
        self._model.train()
        return total / count


def opening(texts: Sequence[str], tokenizer: TextTokenizer) -> list[list[int]]:
    """Encode the first held-out texts, until they have TOKENS tokens."""
    rows: list[list[int]] = []
    count = 0
    for text in texts:
        if count >= TOKENS:
            break
        rows.append(record_tokens(tokenizer, text))
        count += len(rows[-1]) - 1
    return rows
