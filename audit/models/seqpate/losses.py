"""Equations 2 to 4 of SeqPATE (arXiv 2210.05281): what a student loses on taught sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from audit.models.seqpate.aggregation import Answers
from audit.models.training.fine_tuning import IGNORED, pad


@dataclass(frozen=True)
class Point:
    """p_agg for one place of a sentence: the candidates' ids and probabilities, (C,) each."""

    place: int
    tokens: Tensor
    probabilities: Tensor


@dataclass(frozen=True)
class Taught:
    """A sentence, and what the teachers answered about some of its places."""

    tokens: Sequence[int]
    points: tuple[Point, ...]

    def __len__(self) -> int:
        return len(self.tokens)


def taught(sentences: Sequence[Sequence[int]], known: Sequence[Answers]) -> list[Taught]:
    """Every sentence with all answers about it."""
    points: dict[int, list[Point]] = {}
    for answers in known:
        asked = answers.questions
        first = 0
        counts = asked.rows.bincount(minlength=len(asked)).tolist()
        for (text, place), count in zip(asked.pairs, counts, strict=True):
            here = slice(first, first + count)
            point = Point(place, asked.tokens[here], answers.probabilities[here])
            points.setdefault(text, []).append(point)
            first += count
    return [Taught(s, tuple(points.get(i, ()))) for i, s in enumerate(sentences)]


@dataclass(frozen=True)
class Loss:
    """(Σ −log p_θ(w|c) + λ Σ KL(p_agg(·|c) ‖ p_θ(·|c))) / unpadded tokens, nats a token.

    The second sum runs over the places asked about, with p_agg and p_θ both normalised over the
    candidates there. kind: "kl", or "ce": −log p_θ of the most likely answer. pseudo: whether the
    first sum counts. weight: λ.
    """

    kind: str
    pseudo: bool
    weight: float

    def __call__(self, model: PreTrainedModel, rows: Sequence[Taught]) -> Tensor:
        kind = model.device.type
        inputs, targets = (t.to(model.device) for t in pad([row.tokens for row in rows]))
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            logits = model(input_ids=inputs, use_cache=False).logits.float()
        total = self.weight * self._teacher(logits, rows)
        if self.pseudo:
            total = total + cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
            )
        return total / (targets != IGNORED).sum()

    def _teacher(self, logits: Tensor, rows: Sequence[Taught]) -> Tensor:
        """Σ L_teacher over the batch's answered places."""
        total = logits.sum() * 0.0
        for i, row in enumerate(rows):
            for point in row.points:
                chosen = logits[i, point.place - 1, point.tokens.to(logits.device)]
                log_q = torch.log_softmax(chosen, dim=0)
                p = point.probabilities.to(log_q)
                if self.kind == "ce":
                    total = total - log_q[p.argmax()]
                else:
                    total = total + (torch.xlogy(p, p) - p * log_q).sum()
        return total
