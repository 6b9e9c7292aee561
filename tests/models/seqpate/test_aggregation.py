"""Sums of teachers' answers: candidates, order of operations, sensitivity, and what noise is."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from audit.models.seqpate.aggregation import Questions, aggregated, ranks, top_k, top_p

PMF = [0.5, 0.3, 0.1, 0.06, 0.04]


def log(pmf: list[list[float]]) -> torch.Tensor:
    return torch.tensor(pmf, dtype=torch.float64).log()


def test_top_p_is_the_smallest_set_holding_p() -> None:
    order = [3, 0, 4, 1, 2]  # where each value of PMF lies
    shuffled = [PMF[order.index(place)] for place in range(5)]
    bounds = ((0.2, 1), (0.5, 1), (0.50001, 2), (0.8, 2), (0.95, 4), (0.97, 5), (1.0, 5))
    for p, kept in bounds:
        assert top_p(log([shuffled]), p)[0].tolist() == [i in order[:kept] for i in range(5)]


def test_top_k_takes_the_first_of_equals() -> None:
    mask = top_k(log([[0.2, 0.4, 0.2, 0.2]]), 2)
    assert mask.tolist() == [[True, True, False, False]]


def test_a_rank_counts_the_likelier_tokens() -> None:
    pmfs = log([[0.1, 0.5, 0.3, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.5, 0.3, 0.1]])
    assert ranks(pmfs, torch.tensor([1, 2, 3])).tolist() == [1, 2, 3]


def questions(*sets: list[int]) -> Questions:
    rows = torch.tensor([i for i, tokens in enumerate(sets) for _ in tokens])
    tokens = torch.tensor([t for tokens in sets for t in tokens])
    return Questions(torch.tensor([(i, 1) for i in range(len(sets))]), rows, tokens)


def test_where_all_is_clamped_the_answer_is_uniform() -> None:
    asked = questions([4, 7], [0, 1, 2, 3])
    noised = torch.tensor([-3.0, -1.0, -2.0, -0.5, -6.0, -1e-9], dtype=torch.float64)
    assert aggregated(asked, noised).probabilities.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def test_noise_and_sums_are_left_as_they_are() -> None:
    noised = torch.tensor([3.0, -1.0], dtype=torch.float64)
    aggregated(questions([0, 1]), noised)
    assert noised.tolist() == [3.0, -1.0]


def literal(
    teachers: NDArray[np.float64], noise: NDArray[np.float64], kept: list[int]
) -> NDArray[np.float64]:
    """Section 4.2 with section 5's noise, word by word: sum, restrict, noise, clamp, normalise."""
    total = teachers.sum(axis=0)
    values = [(total[v] + noise[i]) / len(teachers) for i, v in enumerate(kept)]
    values = [max(0.0, value) for value in values]
    if sum(values) == 0:
        return np.full(len(kept), 1 / len(kept))
    return np.array([value / sum(values) for value in values])


@given(
    arrays.arrays(float, (4, 6), elements=st.floats(0.01, 1.0)),
    arrays.arrays(float, 3, elements=st.floats(-5, 5)),
)
def test_it_is_the_paper_s_formula(
    weights: NDArray[np.float64], noise: NDArray[np.float64]
) -> None:
    teachers = weights / weights.sum(axis=1, keepdims=True)
    kept = [1, 3, 5]
    total = torch.from_numpy(teachers.sum(axis=0)[kept] + noise)
    answer = aggregated(questions(kept), total).probabilities.numpy()
    np.testing.assert_allclose(answer, literal(teachers, noise, kept), atol=1e-12)
