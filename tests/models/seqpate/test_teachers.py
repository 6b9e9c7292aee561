"""Teachers behind their noise: what is summed, how often they may be asked, fresh noise each."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.training import Models, Question, Teachers, Training
from audit.models.seqpate.aggregation import Questions
from audit.models.seqpate.teachers import (
    Contribution,
    NoisyTeachers,
    SumNoise,
    next_log_pmfs,
)
from audit.models.training.fine_tuning import Recipe

V = 6
SENTENCES = [[0, 1, 2, 3], [0, 4], [0, 5, 1]]
RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=16, max_length=32)


@dataclass(frozen=True)
class Bigram:
    """p(next | last): a table of logits, read as a Hugging Face model is."""

    table: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.table.device

    def __call__(self, input_ids: torch.Tensor, use_cache: bool) -> Any:
        return SimpleNamespace(logits=self.table[input_ids])


def bigram(seed: int) -> Bigram:
    return Bigram(torch.randn(V, V, generator=torch.Generator().manual_seed(seed)).double())


PLACES = torch.tensor([(2, 2), (0, 1), (0, 3), (1, 1)])
ASKED = Questions(PLACES, torch.tensor([0, 0, 1, 2, 2, 2, 3]), torch.tensor([5, 1, 2, 0, 3, 4, 4]))


def expected(model: Bigram, text: int, place: int) -> torch.Tensor:
    return model.table[SENTENCES[text][place - 1]].softmax(-1)


def test_a_place_is_the_token_that_is_predicted() -> None:
    model = bigram(0)
    read: dict[int, torch.Tensor] = {}
    for asked, log_pmf in next_log_pmfs(model, SENTENCES, PLACES):
        read.update(zip(asked.tolist(), log_pmf.exp(), strict=True))
    assert sorted(read) == [0, 1, 2, 3]
    for i, (text, place) in enumerate(PLACES.tolist()):
        torch.testing.assert_close(read[i], expected(model, text, place))


def test_a_teacher_answers_on_candidates() -> None:
    model = bigram(1)
    said = Contribution(ASKED, SENTENCES, "mean")(model)
    for value, row, token in zip(said, ASKED.rows, ASKED.tokens, strict=True):
        text, place = PLACES[row].tolist()
        assert value.item() == pytest.approx(expected(model, text, place)[token].item())


def test_a_vote_is_for_the_likeliest_token() -> None:
    model = bigram(1)
    said = Contribution(ASKED, SENTENCES, "vote")(model)
    for value, row, token in zip(said, ASKED.rows, ASKED.tokens, strict=True):
        text, place = PLACES[row].tolist()
        assert value.item() == float(expected(model, text, place).argmax() == token)


@pytest.mark.parametrize("aggregation", ["mean", "vote"])
def test_a_broken_teachers_answer_is_bounded(aggregation: str) -> None:
    broken = Bigram(torch.full((V, V), float("nan")).double())
    said = Contribution(ASKED, SENTENCES, aggregation)(broken)
    assert said.isfinite().all() and (said >= 0).all() and (said <= 1).all()


def test_every_part_of_a_question_changes_its_digest() -> None:
    """Answers are stored under it: two questions with one digest would share an answer."""
    asked = Contribution(ASKED, SENTENCES, "mean")
    others = {
        "other places": replace(asked, questions=replace(ASKED, places=PLACES.flip(0))),
        "other rows": replace(asked, questions=replace(ASKED, rows=ASKED.rows.clamp(min=1))),
        "other tokens": replace(asked, questions=replace(ASKED, tokens=ASKED.tokens.flip(0))),
        "other sentences": replace(asked, sentences=[[0, 1, 2, 5], *SENTENCES[1:]]),
        "a vote": replace(asked, aggregation="vote"),
    }
    assert len({asked.digest, *(other.digest for other in others.values())}) == len(others) + 1
    assert pickle.loads(pickle.dumps(asked)).digest == asked.digest


class Spy(Teachers):
    """Counts how often the teachers are asked."""

    def __init__(self, *models: Bigram) -> None:
        self.models, self.rounds = models, 0

    def answers(self, question: Question) -> Iterator[torch.Tensor]:
        self.rounds += 1
        return Models(self.models).answers(question)


def asked_of(spy: Spy, queries: int, scale: float = 1e-9, seed: int = 0) -> NoisyTeachers:
    return NoisyTeachers(spy, SumNoise(scale), np.random.default_rng(seed), queries, "mean")


def test_the_answer_is_the_teachers_mean() -> None:
    models = [bigram(i) for i in range(3)]
    answer = asked_of(Spy(*models), 4).answer(ASKED, SENTENCES).probabilities
    for row, (text, place) in enumerate(PLACES.tolist()):
        mine = ASKED.rows == row
        total = sum(expected(m, text, place) for m in models)[ASKED.tokens[mine]]  # type: ignore[index]
        torch.testing.assert_close(answer[mine], total / total.sum(), atol=1e-7, rtol=0)


def test_questions_beyond_the_cap_are_refused() -> None:
    spy = Spy(bigram(0))
    teachers = asked_of(spy, 7)
    teachers.answer(ASKED, SENTENCES)
    assert (teachers.remaining, spy.rounds) == (3, 1)
    with pytest.raises(RuntimeError, match="4 questions, but only 3"):
        teachers.answer(ASKED, SENTENCES)
    assert (teachers.remaining, spy.rounds) == (3, 1)


def test_no_draw_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    draws = SumNoise.draws

    def spied(self: SumNoise, count: int, stream: np.random.Generator) -> torch.Tensor:
        fresh = draws(self, count, stream)
        drawn.extend(fresh.tolist())
        return fresh

    monkeypatch.setattr(SumNoise, "draws", spied)
    teachers = asked_of(Spy(bigram(0)), 12, scale=3.0)
    said = [teachers.answer(ASKED, SENTENCES).probabilities for _ in range(3)]
    assert len(drawn) == len(set(drawn)) == 3 * len(ASKED.rows)
    assert not torch.equal(said[0], said[1])


def test_a_scale_that_is_not_positive_is_refused() -> None:
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="scale"):
            SumNoise(scale)


def test_noise_has_its_scale() -> None:
    stream = np.random.default_rng(0)
    gaussian, laplace = (SumNoise(3.0, kind).draws(9, stream) for kind in ("gaussian", "laplace"))
    again = np.random.default_rng(0)
    assert gaussian.tolist() == (again.standard_normal(9) * 3.0).tolist()
    assert laplace.tolist() == again.laplace(0.0, 3.0, 9).tolist()


def test_noise_is_of_the_whole_training() -> None:
    teachers = [Training(name, (name,), RECIPE, 0) for name in "tu"]
    ways = [Training("x", ("a",), RECIPE, 0, teachers=tuple(teachers[:n])) for n in range(3)]
    sources = (SumNoise(1.0), SumNoise(1.0, source="system"), SumNoise(1.0, source="system"))
    firsts = [float(noise.stream(way).random(1)[0]) for noise in sources for way in ways]
    assert len(set(firsts)) == len(firsts)
    assert sources[0].stream(replace(ways[0], label="y")).random(1)[0] == firsts[0]
