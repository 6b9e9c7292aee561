"""The student's loss on sentences with teachers' answers (SeqPATE, arXiv 2210.05281, eq. 2–4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from audit.core.model import PreTrainedModel
from audit.models.seqpate.aggregation import Answers
from audit.models.training.fine_tuning import IGNORED, pad


@dataclass(frozen=True)
class SoftTarget:
    """p_agg for one token of a sentence: the candidates' ids and probabilities, (C,) each."""

    place: int
    tokens: Tensor
    probabilities: Tensor


@dataclass(frozen=True)
class AnsweredSentence:
    """A sentence, and the teachers' answers for some of its tokens."""

    tokens: Sequence[int]
    targets: tuple[SoftTarget, ...]

    def __len__(self) -> int:
        return len(self.tokens)


def with_answers(
    sentences: Sequence[Sequence[int]], released: Sequence[Answers]
) -> list[AnsweredSentence]:
    """Join every sentence with all answers released for it."""
    targets: dict[int, list[SoftTarget]] = {}
    for answers in released:
        questions = answers.questions
        first = 0
        counts = questions.rows.bincount(minlength=len(questions)).tolist()
        for (text, place), count in zip(questions.pairs, counts, strict=True):
            here = slice(first, first + count)
            target = SoftTarget(place, questions.tokens[here], answers.probabilities[here])
            targets.setdefault(text, []).append(target)
            first += count
    return [AnsweredSentence(s, tuple(targets.get(i, ()))) for i, s in enumerate(sentences)]


@dataclass(frozen=True)
class Loss:
    """(Σ −log p_θ(w|c) + λ Σ KL(p_agg(·|c) ‖ p_θ(·|c))) / unpadded tokens, nats a token.

    The second sum runs over the tokens with answers; p_agg and p_θ are normalised over their
    candidates. kind: "kl", or "ce", which is −log p_θ of the most likely answer. pseudo: whether
    the first sum counts. weight: λ.
    """

    kind: str
    pseudo: bool
    weight: float

    def __call__(self, model: PreTrainedModel, rows: Sequence[AnsweredSentence]) -> Tensor:
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

    def _teacher(self, logits: Tensor, rows: Sequence[AnsweredSentence]) -> Tensor:
        """Sum L_teacher over the tokens with answers."""
        total = logits.sum() * 0.0
        for i, row in enumerate(rows):
            for target in row.targets:
                chosen = logits[i, target.place - 1, target.tokens.to(logits.device)]
                log_q = torch.log_softmax(chosen, dim=0)
                p = target.probabilities.to(log_q)
                if self.kind == "ce":
                    total = total - log_q[p.argmax()]
                else:
                    total = total + (torch.xlogy(p, p) - p * log_q).sum()
        return total
