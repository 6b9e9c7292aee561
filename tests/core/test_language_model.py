"""Sampling, ensembles and open sessions, on models small enough to work out by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core import language_model
from audit.core.ensemble import Mean, Separate, log_mean
from audit.core.language_model import (
    Around,
    OpenSession,
    Tempered,
    answers_of,
    equal_length_batches,
    read_in_parts,
    read_tokens,
    runs_of,
    sample,
    temper,
)
from audit.core.predictor import Access

ALMOST_ONE = np.nextafter(1.0, 0.0)


def drawn(pmf: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """One token for each uniform, all from the same pmf."""
    log_pmf = torch.tensor(pmf, dtype=torch.float64).log().expand(len(uniforms), -1)
    return sample(log_pmf, uniforms).numpy()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 12))
def test_a_sample_is_the_inverse_of_exact_cumulative_sums(weights: list[int], at: int) -> None:
    """Weights over 1,024 and uniforms in the middle of each 1,024th: integers all the way."""
    weights = [*weights[:at], 1024 - sum(weights), *weights[at:]]
    places = np.arange(1024)
    tokens = drawn(np.array(weights) / 1024, (places + 0.5) / 1024)
    exact = np.searchsorted(np.cumsum(weights), places, side="right")
    np.testing.assert_array_equal(tokens, exact)
    assert np.bincount(tokens, minlength=len(weights)).tolist() == weights


@pytest.mark.parametrize("uniform", [0.0, np.finfo(float).tiny, 0.5, ALMOST_ONE])
def test_a_token_of_probability_zero_is_never_drawn(uniform: float) -> None:
    generator = np.random.default_rng(3)
    for size in (2, 3, 50, 1024):
        for _ in range(50):
            weights = generator.random(size) ** 8
            weights[generator.random(size) < 0.5] = 0.0
            weights[0] = weights[-1] = 0.0  # where u = 0 and u → 1 would fall
            weights[int(generator.integers(size - 1)) if size > 2 else 1] = 1e-9
            pmf = weights / weights.sum()
            assert pmf[drawn(pmf, np.array([uniform]))[0]] > 0


def test_the_ends_of_the_unit_interval_are_the_first_and_last_possible_tokens() -> None:
    pmf = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    assert drawn(pmf, np.array([0.0, 0.25, 0.75, ALMOST_ONE])).tolist() == [1, 3, 4, 4]


def test_each_text_is_drawn_from_its_own_row() -> None:
    log_pmf = torch.eye(4, dtype=torch.float64).log()
    assert sample(log_pmf, np.full(4, 0.5)).tolist() == [0, 1, 2, 3]


def by_hand(
    table: np.ndarray, prompts: list[list[int]], uniforms: np.ndarray
) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and log-probabilities of ancestral sampling from a bigram table, one by one."""
    texts, scores = [], []
    for prompt, row in zip(prompts, uniforms, strict=True):
        last, text, score = prompt[-1], [], []
        for u in row:
            token = int(np.searchsorted(np.cumsum(np.exp(table[last])), u, side="right"))
            text.append(token)
            score.append(float(table[last, token]))
            last = token
        texts.append(text)
        scores.append(score)
    return texts, scores


PROMPTS = [[0], [0, 3], [0], [0, 1, 2], [0, 5], [0], [0, 4], [0, 1, 1], [0]]


@pytest.mark.parametrize("batch", [1, 2, 3, 128])
def test_generations_follow_the_stream_whatever_the_batch_size(bigram: Any, batch: int) -> None:
    model = bigram(7)
    session = OpenSession(model, np.random.default_rng(5), batch=batch)
    answers = session.generate(PROMPTS, 6)
    uniforms = np.random.default_rng(5).random((len(PROMPTS), 6))
    texts, scores = by_hand(model.log_table, PROMPTS, uniforms)
    assert [list(answer.tokens) for answer in answers] == texts
    best = model.log_table.argmax(axis=1)
    for prompt, answer, score in zip(PROMPTS, answers, scores, strict=True):
        np.testing.assert_allclose(answer.log_probs, score)
        before = [prompt[-1], *answer.tokens[:-1]]
        assert answer.top1.tolist() == [
            best[b] == t for b, t in zip(before, answer.tokens, strict=True)
        ]
        assert answer.answered == 6


def test_a_second_call_goes_on_in_the_stream(bigram: Any) -> None:
    model, stream = bigram(7), np.random.default_rng(5)
    session = OpenSession(model, np.random.default_rng(5))
    for prompts, length in ((PROMPTS[:4], 3), (PROMPTS[4:], 2)):
        texts, _ = by_hand(model.log_table, prompts, stream.random((len(prompts), length)))
        assert [list(a.tokens) for a in session.generate(prompts, length)] == texts


def test_an_open_session_has_no_budget_and_hides_nothing(bigram: Any) -> None:
    session = OpenSession(bigram(1), np.random.default_rng(0))
    assert session.remaining is None
    assert session.access is Access.DISTRIBUTION
    assert session.max_length == 64
    assert session.generate([], 3) == [] and session.score([], []) == []


@pytest.mark.parametrize(
    ("numbers", "kept", "expected"),
    [(54, 0, 9), (59, 0, 9), (60, 0, 10), (1, 0, 1), (600, 0, 20), (600, 10, 10), (600, 101, 1)],
)
def test_as_many_are_read_together_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, numbers: int, kept: int, expected: int
) -> None:
    monkeypatch.setattr(language_model, "_NUMBERS_AT_ONCE", numbers)
    monkeypatch.setattr(language_model, "_KEPT_AT_ONCE", 100)
    assert language_model.at_once(20, 6, kept) == expected


@dataclass(frozen=True)
class Watched(Separate):
    """Three models; keeps how many distributions it has given at once."""

    held: list[int]

    def log_pmfs(self, texts: Any, starts: Any) -> torch.Tensor:
        given = super().log_pmfs(texts, starts)
        self.held.append(given.numel())
        return given

    def cursor(self, prompts: Any) -> Any:
        self.held.append(3 * 6 * len(prompts))
        return super().cursor(prompts)


def test_a_mean_never_holds_more_distributions_than_that(
    bigram: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_model, "_NUMBERS_AT_ONCE", 180)
    members = Watched([bigram(seed) for seed in range(3)], [])
    session = OpenSession(Mean(members), np.random.default_rng(0))
    assert len(session.score([[0]] * 20, [[1, 2]] * 20)) == 20
    assert len(session.generate([[0]] * 25, 2)) == 25
    assert session.distribution([[0]] * 25, [1, 2])[0].shape == (25, 2)
    assert max(members.held) <= 180 and sum(members.held) >= 18 * (40 + 25 + 25)


def test_texts_whose_keys_and_values_are_large_are_generated_few_at_a_time(
    bigram: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten numbers a token, three models, and texts of 2 + 3 tokens: 150 numbers a text."""
    monkeypatch.setattr(language_model, "_KEPT_AT_ONCE", 600)
    members = Watched([Keeping(bigram(seed)) for seed in range(3)], [])
    session = OpenSession(Mean(members), np.random.default_rng(0))
    assert len(session.generate([[0, 1]] * 10, 3)) == 10
    assert [held // 18 for held in members.held] == [4, 4, 2]


class Keeping:
    """A model that keeps ten numbers of each token."""

    kept = 10

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_scores_are_exact_whatever_the_batch_size(
    bigram: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(language_model, "TOKENS_AT_ONCE", at_once)
    model = bigram(3)
    table = model.log_table
    prefixes = [[0], [0, 2, 2], [5], [0]]
    continuations = [[1, 2, 3], [4], [5, 5], [0, 1, 0, 2]]
    answers = OpenSession(model, np.random.default_rng(0)).score(prefixes, continuations)
    for head, tail, answer in zip(prefixes, continuations, answers, strict=True):
        pairs = list(zip([head[-1], *tail[:-1]], tail, strict=False))
        assert answer.tokens == tuple(tail)
        np.testing.assert_allclose(answer.log_probs, [table[a, b] for a, b in pairs])
        assert answer.top1.tolist() == [table[a].argmax() == b for a, b in pairs]
        assert answer.answered == len(tail)


@pytest.mark.parametrize("numbers", [1, 40, 1 << 26])
def test_the_mean_of_models_is_the_mean_of_their_pmfs_however_many_are_held(
    bigram: Any, monkeypatch: pytest.MonkeyPatch, numbers: int
) -> None:
    monkeypatch.setattr(language_model, "_NUMBERS_AT_ONCE", numbers)
    members = [bigram(seed, 3.0) for seed in range(3)]
    expected = np.mean([np.exp(m.log_table) for m in members], axis=0)
    mean = Mean(Separate(members))
    texts, starts = [[0, 1, 2, 3], [4, 5]], [2, 1]
    rows = mean.log_pmfs(texts, starts).exp().numpy()
    np.testing.assert_allclose(rows, expected[[1, 2, 4]])
    cursor = mean.cursor([[0, 1], [0, 2], [0, 0]])
    np.testing.assert_allclose(cursor.log_pmf().exp().numpy(), expected[[1, 2, 0]])
    cursor.append(torch.tensor([5, 3, 4]))
    np.testing.assert_allclose(cursor.log_pmf().exp().numpy(), expected[[5, 3, 4]])
    assert mean.vocabulary == 6 and mean.max_length == 64


def test_the_mean_takes_the_shortest_context(bigram: Any) -> None:
    assert Mean(Separate([bigram(0), replace(bigram(1), max_length=9), bigram(2)])).max_length == 9


def test_the_log_of_a_mean_copes_with_zeros_and_leaves_its_arguments_alone() -> None:
    one = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    other = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64).log()
    before = one.clone()
    assert log_mean(torch.stack([one, other], dim=1)).exp().tolist() == [[0.75, 0.25, 0.0]]
    assert torch.equal(one, before)


@dataclass(frozen=True)
class InTwos(Around):
    """Reads two rows at a time."""

    inner: Any

    def log_pmfs(self, texts: Any, starts: Any) -> torch.Tensor:
        rows: torch.Tensor = self.inner.log_pmfs(texts, starts)
        return rows

    def in_parts(self, texts: Any, starts: Any, use: Any) -> list[Any]:
        rows = self.log_pmfs(texts, starts)
        return [
            use(rows[i : i + 2], slice(i, min(i + 2, len(rows)))) for i in range(0, len(rows), 2)
        ]


def test_parts_of_a_mean_have_their_places(bigram: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, starts = [[0, 1, 2, 3], [2, 1], [1, 3, 0], [2, 0, 1, 1]], [1, 1, 2, 2]
    members = Separate([bigram(1), bigram(2)])
    expected = log_mean(members.log_pmfs(texts, starts))
    monkeypatch.setattr(language_model, "_NUMBERS_AT_ONCE", 6 * 2 * members.vocabulary)
    found = Mean(members).in_parts(texts, starts, lambda rows, at: (rows, at))
    assert [(at.start, at.stop) for _, at in found] == [(0, 4), (4, 5), (5, 7)]
    for rows, at in found:
        assert torch.equal(rows, expected[at])


def test_a_tempered_model_reads_as_few_rows_as_its_own(bigram: Any) -> None:
    texts, starts = [[0, 1, 2, 3], [2, 1]], [1, 1]
    for inner, parts in ((InTwos(bigram(1)), 2), (bigram(1), 1)):
        found = read_in_parts(Tempered(inner, 0.5), texts, starts, lambda rows, at: (rows, at))
        expected = temper(inner.log_pmfs(texts, starts), 0.5)
        assert len(found) == parts
        for rows, at in found:
            assert torch.equal(rows, expected[at])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 45), st.integers(1, 9))
def test_what_was_answered_is_counted_from_the_first_token_on(
    lengths: list[int], answered: int, step: int
) -> None:
    total = sum(lengths)
    answered = min(answered, total)
    generator = np.random.default_rng(total)
    tokens = [generator.integers(4, size=n).tolist() for n in lengths]
    pmfs = generator.dirichlet(np.ones(4), size=total)
    logs = torch.tensor(pmfs.reshape(total, 4)).log()
    caps, flat = logs / 2, [token for text in tokens for token in text]
    parts = []
    for first in range(0, max(total, 1), step):
        at, held = slice(first, first + step), min(max(answered - first, 0), step)
        read = read_tokens(flat[at], logs[at], log_caps=caps[at] if first == 0 else None)
        parts.append(replace(read, answered=held))
    found = answers_of(tokens, parts)
    marks = [i < answered for i in range(total)]
    place = 0
    for text, answer in zip(tokens, found, strict=True):
        here = slice(place, place + len(text))
        assert answer.answered == sum(marks[here])
        expected = [math.log(row[t]) for row, t in zip(pmfs[here], text, strict=True)]
        np.testing.assert_allclose(answer.log_probs, expected)
        halves = [p / 2 if i < step else p for i, p in enumerate(expected, place)]
        np.testing.assert_allclose(answer.log_caps, halves)
        assert answer.top1.tolist() == [
            int(row.argmax()) == t for row, t in zip(pmfs[here], text, strict=True)
        ]
        place += len(text)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_runs_hold_every_text_once_and_no_more_than_they_may(lengths: list[int], most: int) -> None:
    runs = [list(range(len(lengths)))[run] for run in runs_of(lengths, most)]
    assert [i for run in runs for i in run] == list(range(len(lengths)))
    for run in runs:
        assert len(run) == 1 or sum(lengths[i] for i in run) <= most
    for run, after in itertools.pairwise(runs):  # and none is cut before it is full
        assert sum(lengths[i] for i in run) + lengths[after[0]] > most


@given(st.lists(st.integers(1, 4), max_size=30), st.integers(1, 7))
def test_batches_hold_every_prompt_once_among_its_equals(lengths: list[int], size: int) -> None:
    batches = list(equal_length_batches([[0] * n for n in lengths], size))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len({lengths[i] for i in batch}) == 1


# --- whole distributions, and their moments


@pytest.mark.parametrize("at_once", [1, 2, 512])
def test_a_distribution_is_read_after_each_context(
    bigram: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(language_model, "_CONTEXTS_AT_ONCE", at_once)
    model = bigram(4)
    session = OpenSession(model, np.random.default_rng(0))
    found, answered = session.distribution(PROMPTS, [5, 1, 3])
    expected = [[model.log_table[prompt[-1], token] for token in (5, 1, 3)] for prompt in PROMPTS]
    np.testing.assert_allclose(found, expected)
    assert answered == len(PROMPTS)
    nothing, answered = session.distribution([], [5, 1, 3])
    assert nothing.shape == (0, 3) and answered == 0


def test_moments_are_the_mean_and_deviation_of_the_log_probability(bigram: Any) -> None:
    """Written out as sums over the six tokens; only where they are asked for."""
    model = bigram(4)
    session = OpenSession(model, np.random.default_rng(0))
    (plain,) = session.score([[0, 2]], [[1, 4, 3]])
    (answer,) = session.score([[0, 2]], [[1, 4, 3]], moments=True)
    assert plain.moments is None and answer.moments is not None
    for place, last in enumerate([2, 1, 4]):
        logs = model.log_table[last]
        mean = sum(math.exp(x) * x for x in logs)
        variance = sum(math.exp(x) * (x - mean) ** 2 for x in logs)
        np.testing.assert_allclose(answer.moments[:, place], [mean, variance**0.5], atol=1e-5)
    np.testing.assert_array_equal(answer.log_probs, plain.log_probs)
