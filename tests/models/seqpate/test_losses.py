"""Equations 2 to 4 of SeqPATE against their literal sums."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from audit.models.seqpate.aggregation import Answers, Questions
from audit.models.seqpate.losses import Loss, with_answers
from tests.models.seqpate.test_teachers import Bigram

V = 5
SENTENCES = [[0, 1, 2, 3], [0, 4], [0, 2, 1]]
TABLE = torch.randn(V, V, generator=torch.Generator().manual_seed(4))
ASKED = Questions(
    torch.tensor([(2, 2), (0, 3), (0, 1)]),
    torch.tensor([0, 0, 1, 1, 1, 2, 2]),
    torch.tensor([1, 4, 0, 3, 2, 1, 2]),
)
P = [[0.75, 0.25], [0.0, 1.0, 0.0], [0.4, 0.6]]
ANSWERS = Answers(ASKED, torch.tensor([p for ps in P for p in ps], dtype=torch.float64))


def log_q(last: int, candidates: list[int]) -> torch.Tensor:
    """log p_θ after `last`, normalised over the candidates."""
    values = TABLE[last].log_softmax(-1)[candidates]
    return values - values.logsumexp(0)


def literal(kind: str, pseudo: bool, weight: float, texts: list[int]) -> float:
    total, tokens = 0.0, 0
    for i in texts:
        for t in range(1, len(SENTENCES[i])):
            tokens += 1
            last, label = SENTENCES[i][t - 1], SENTENCES[i][t]
            if pseudo:
                total -= float(TABLE[last].log_softmax(-1)[label])
            for row, place in enumerate(ASKED.pairs):
                if place == (i, t):
                    candidates = ASKED.tokens[ASKED.rows == row].tolist()
                    q = log_q(last, candidates)
                    if kind == "ce":
                        total -= weight * float(q[max(range(len(q)), key=lambda c: P[row][c])])
                    else:
                        for c, p in enumerate(P[row]):
                            total += weight * p * (math.log(p) - float(q[c])) if p else 0.0
    return total / tokens


@pytest.mark.parametrize("kind", ["kl", "ce"])
def test_the_loss_is_equation_4(kind: str) -> None:
    rows = with_answers(SENTENCES, [ANSWERS])
    for pseudo, weight, texts in product((True, False), (1.0, 20.0), ([0, 1, 2], [2, 0], [1])):
        loss = Loss(kind, pseudo, weight)(Bigram(TABLE), [rows[i] for i in texts])  # type: ignore[arg-type]
        assert float(loss) == pytest.approx(literal(kind, pseudo, weight, texts), abs=1e-5)


def test_answers_of_several_rounds_come_together() -> None:
    later = Questions(torch.tensor([(2, 1)]), torch.tensor([0]), torch.tensor([3]))
    rows = with_answers(SENTENCES, [ANSWERS, Answers(later, torch.ones(1, dtype=torch.float64))])
    assert [sorted(p.place for p in row.targets) for row in rows] == [[1, 3], [], [1, 2]]
    assert [len(row) for row in rows] == [4, 2, 3]


def test_an_agreeing_student_loses_nothing() -> None:
    q = log_q(0, [1, 4, 2]).exp().double()
    asked = Questions(torch.tensor([(1, 1)]), torch.zeros(3).long(), torch.tensor([1, 4, 2]))
    row = with_answers(SENTENCES, [Answers(asked, q)])[1]
    assert float(Loss("kl", False, 20.0)(Bigram(TABLE), [row])) == pytest.approx(0.0, abs=1e-6)  # type: ignore[arg-type]
