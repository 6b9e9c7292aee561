"""SeqPATE's student: whom it hears, how, and how often; nothing private reaches it otherwise."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from audit.core.progress import ShareDone
from audit.core.training import Models, Training
from audit.models.seqpate import student as students_of_seqpate
from audit.models.seqpate.aggregation import Answers, Questions, aggregated, ranks
from audit.models.seqpate.losses import Loss, with_answers
from audit.models.seqpate.pseudo_data import PseudoData, PublicPrefixes
from audit.models.seqpate.student import Distillation
from audit.models.seqpate.teachers import NoisyTeachers, SumNoise, next_log_pmfs
from audit.models.training.fine_tuning import Recipe
from tests.models.alike import weights

TEXTS = ("Agent: Dalton Garden.\nCustomer: This is Ann.", "Good morning! My parcel is lost.")
RECIPE = Recipe(epochs=2, learning_rate=1e-3, batch_tokens=256, max_length=64)
TAUGHT = Distillation(
    noise=SumNoise(1e-3),
    queries=30,
    population=9,
    pseudo=PseudoData(sentences=12, longest=14),
    warmup=replace(RECIPE, epochs=1),
    recipe=RECIPE,
    hard_rank=2,
    top_p=None,
    top_k=8,
)


def shifted(model: Any, seed: int) -> Any:
    """Another model: a teacher."""
    teacher = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return teacher


def trained(
    base: Any,
    method: Distillation,
    teachers: Sequence[Any],
    seed: int = 1,
    progress: ShareDone | None = None,
) -> Any:
    model, tokenizer = base
    student = copy.deepcopy(model)
    training = Training("student", TEXTS, method, seed)
    method.train(student, tokenizer, training, progress, Models(teachers))
    return student


@pytest.fixture(scope="module")
def teachers(base: Any) -> list[Any]:
    return [shifted(base[0], seed) for seed in range(3)]


@pytest.fixture(scope="module")
def taught(base: Any, teachers: list[Any]) -> torch.Tensor:
    """The weights of a student that these teachers taught."""
    return weights(trained(base, TAUGHT, teachers))


def test_the_same_arguments_give_the_same_student(
    base: Any, teachers: list[Any], taught: torch.Tensor
) -> None:
    assert torch.equal(taught, weights(trained(base, TAUGHT, teachers)))
    assert not torch.equal(taught, weights(trained(base, TAUGHT, teachers, seed=2)))


@pytest.mark.parametrize(("rounds", "warmup"), [(2, 1), (1, 0)])
def test_progress_is_the_share_of_passes(
    base: Any, teachers: list[Any], rounds: int, warmup: int
) -> None:
    """The warm-up is one pass or none, and two follow each round of answers."""
    method = replace(TAUGHT, rounds=rounds, warmup=replace(RECIPE, epochs=warmup))
    shares: list[float] = []
    trained(base, method, teachers, progress=shares.append)
    passes = warmup + 2 * rounds
    assert shares == sorted(shares) and shares[-1] == 1.0
    for done in range(1, passes + 1):
        assert any(share == pytest.approx(done / passes) for share in shares)


def test_teachers_are_heard_through_their_noisy_answers_only(
    base: Any, teachers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same answers, other teachers make the same student, to the last bit."""

    def same(self: Any, questions: Questions, sentences: Any) -> Answers:
        return aggregated(questions, torch.ones(len(questions.rows), dtype=torch.float64))

    assert not torch.equal(
        weights(trained(base, TAUGHT, teachers[:1])), weights(trained(base, TAUGHT, teachers[1:2]))
    )
    monkeypatch.setattr(NoisyTeachers, "answer", same)
    students = [weights(trained(base, TAUGHT, some)) for some in (teachers[:1], teachers[1:2], [])]
    assert torch.equal(students[0], students[1]) and torch.equal(students[0], students[2])


class Log:
    """Every question that is put to the teachers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Questions] = []
        self.answers: list[Answers] = []
        self.sentences: Sequence[Sequence[int]] = ()
        answer = NoisyTeachers.answer

        def logged(teachers: Any, questions: Questions, sentences: Any) -> Answers:
            self.asked.append(questions)
            self.sentences = sentences
            self.answers.append(answer(teachers, questions, sentences))
            return self.answers[-1]

        monkeypatch.setattr(NoisyTeachers, "answer", logged)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [pair for questions in self.asked for pair in questions.pairs]


@pytest.mark.parametrize("rounds", [1, 4])
def test_nothing_is_asked_twice_or_beyond_cap(
    base: Any, teachers: list[Any], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    trained(base, replace(TAUGHT, rounds=rounds), teachers)
    assert len(log.asked) == rounds
    assert len(log.pairs) == len(set(log.pairs)) == 30
    assert all(place >= 1 for _, place in log.pairs)


def test_hard_places_are_asked_over_likely_candidates(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    still = replace(TAUGHT, warmup=replace(RECIPE, epochs=0), recipe=replace(RECIPE, epochs=0))
    trained(base, still, [shifted(base[0], 0)])  # the student stays the public model
    (asked,) = log.asked
    for some, log_pmf in next_log_pmfs(base[0], log.sentences, asked.places):
        labels = torch.tensor([log.sentences[i][t] for i, t in asked.places[some].tolist()])
        assert (ranks(log_pmf, labels) > 2).all()
        for row, pmf in zip(some.tolist(), log_pmf, strict=True):
            mine = asked.tokens[asked.rows == row]
            assert sorted(mine.tolist()) == sorted(pmf.topk(8).indices.tolist())


def test_the_rank_filter_decides_what_is_asked(
    base: Any, teachers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    trained(base, replace(TAUGHT, hard_rank=2000), teachers)
    assert log.asked == []
    trained(base, replace(TAUGHT, hard_rank=0, queries=10_000), teachers)
    places = sum(len(sentence) - 1 for sentence in log.sentences)
    assert len(log.pairs) == len(set(log.pairs)) == places


def test_a_student_learns_what_its_teachers_agree_on(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    method = replace(TAUGHT, recipe=replace(RECIPE, epochs=30), weight=20.0)
    student = trained(base, method, [shifted(base[0], 7)] * 3)
    rows = [row for row in with_answers(log.sentences, log.answers) if row.targets]
    loss = Loss("kl", False, 1.0)
    before, after = (loss(model, rows).item() for model in (base[0], student))
    assert after < 0.3 * before


def test_without_the_pseudo_loss_only_taught_sentences_count(
    base: Any, teachers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    descend = students_of_seqpate.descend

    def spied(model: Any, rows: Any, *others: Any) -> None:
        seen.append(len(rows))
        assert all(row.targets for row in rows)
        descend(model, rows, *others)

    monkeypatch.setattr(students_of_seqpate, "descend", spied)
    trained(base, replace(TAUGHT, pseudo_loss=False, queries=3), teachers)
    assert 1 <= seen[0] <= 3


@pytest.mark.parametrize("change", [{"aggregation": "vote"}, {"loss": "ce"}, {"top_k": None}])
def test_every_ablation_changes_the_student(
    base: Any, teachers: list[Any], taught: torch.Tensor, change: dict[str, Any]
) -> None:
    assert not torch.equal(weights(trained(base, replace(TAUGHT, **change), teachers)), taught)


# without pseudo-data

ALONE = replace(
    TAUGHT,
    pseudo=PublicPrefixes(most=12, prefix=4),
    warmup=replace(RECIPE, epochs=0),
    pseudo_loss=False,
    hard_rank=0,
)


def test_without_pseudo_data_only_prefixes_are_asked(
    base: Any, teachers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    trained(base, ALONE, teachers)
    tokenizer = base[1]
    assert {tuple(s) for s in log.sentences} == {
        (tokenizer.start, *tokenizer.encode(text)[:4]) for text in TEXTS
    }
    assert sorted(log.pairs) == [(text, place) for text in (0, 1) for place in (1, 2, 3, 4)]


def test_without_pseudo_data_answers_alone_teach(base: Any, teachers: list[Any]) -> None:
    """Where nobody is asked it stays the public model, and its prefixes teach it nothing."""
    silent = trained(base, replace(ALONE, hard_rank=2000), teachers)
    assert torch.equal(weights(silent), weights(base[0]))
    assert not torch.equal(weights(trained(base, ALONE, teachers)), weights(base[0]))
