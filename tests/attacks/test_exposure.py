"""Exposure: every column of Ranks against counting, sampled ranks, budgets, and the null."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks import exposure
from attacks.exposure import Exposure
from attacks.search import prefix_tree
from attacks.search.prefix_tree import tree_of
from attacks.search.ranking import COLUMNS, TOLERANCE, sampled
from audit.core.attack import Knowledge
from audit.core.evidence import Ranks
from audit.core.predictor import Access
from audit.core.secret import Secret, Space, digits
from audit.statistics import skew_normal
from tests.attacks.longest_words import LongestWords
from tests.attacks.noting import FIVE, MANY, RECIPES, along, made, of_logits, opened
from tests.refusals import refusals


def ids(values: Sequence[str], space: Space = FIVE, prefix: str = "") -> list[Secret]:
    return [Secret("id", prefix, v, ".", space, 1, f"u{i}", 0) for i, v in enumerate(values)]


def ranked(session: Any, secrets: Sequence[Secret], attack: Exposure | None = None) -> Ranks:
    knowledge = Knowledge(session, (), (), (), np.random.default_rng(8))
    (evidence,) = (attack or Exposure()).run(session, secrets, knowledge)
    sampled = np.isnan(evidence.exact).all()  # type: ignore[attr-defined]
    assert isinstance(evidence, Ranks)
    assert evidence.access == (Access.SCORE if sampled else Access.DISTRIBUTION)
    assert all(getattr(evidence, name).shape == (len(secrets),) for name in COLUMNS)
    return evidence


def values_of(space: Space) -> list[str]:
    return ["".join(symbols) for symbols in itertools.product(*space.symbols)]


def everything(model: Any, space: Space, prefix: str = "") -> dict[str, float]:
    """log-probability of every candidate."""
    tokenizer = model.tokenizer
    totals = {}
    for value in values_of(space):
        head, tail = tokenizer.encode(prefix), tokenizer.encode(value)
        totals[value] = along(model, [[tokenizer.start, *head][-1], *tail])
    return totals


def truth(totals: dict[str, float], values: Sequence[str], i: int) -> dict[str, float]:
    """The columns of an exact rank, by counting."""
    own, others = totals[values[i]], set(values) - {values[i]}
    rivals = np.array([p for value, p in totals.items() if value not in others])
    better = 1 + float((rivals > own + TOLERANCE).sum())
    worst = float((rivals >= own - TOLERANCE).sum())
    whole = float(sum(p >= own - TOLERANCE for p in totals.values()))
    twice = values.count(values[i]) > 1
    return {
        "better": better,
        "worst": len(rivals) if twice else worst,
        "middle": (better + worst) / 2,
        "spaces": len(rivals),
        "whole": whole,
        "exact": 1.0,
    }


digits_of_five = st.text("01234", min_size=3, max_size=3)


def agrees(ranks: Ranks, totals: dict[str, float], values: Sequence[str]) -> None:
    """All columns of exact ranks are as counted."""
    for i in range(len(values)):
        for name, expected in truth(totals, values, i).items():
            assert getattr(ranks, name)[i] == expected, (values[i], name)


def bounds(ranks: Ranks, totals: dict[str, float], values: Sequence[str]) -> None:
    """The truth about the first of the secrets is within the certified bounds."""
    for i in range(len(values)):
        expected = truth(totals, values, i)
        assert 1 <= ranks.better[i] <= expected["better"]
        assert expected["worst"] <= ranks.worst[i] <= ranks.spaces[i] == expected["spaces"]
        assert expected["whole"] <= ranks.whole[i] <= len(totals)


# exact ranks


@pytest.mark.parametrize("tied", [False, True])
def test_every_secret_by_itself_has_its_exact_rank(bigram: Any, tied: bool) -> None:
    model = made(bigram, (11, 1.0, tied))
    totals = everything(model, FIVE)
    at_most = []
    for value in totals:
        ranks = ranked(opened(model), ids([value]))
        assert ranks.log_probs[0] == pytest.approx(totals[value])
        agrees(ranks, totals, [value])
        assert math.isnan(ranks.fitted[0])
        at_most.append(float(ranks.whole[0]))
    # over all values of a secret: P(whole <= t) <= t/|R|, exactly
    assert all(sum(w <= t for w in at_most) <= t for t in range(1, 126))


@MANY
@given(RECIPES, st.lists(digits_of_five, min_size=1, max_size=8))
def test_several_secrets_have_their_exact_ranks(
    bigram: Any, recipe: Any, values: list[str]
) -> None:
    model = made(bigram, recipe)
    totals = everything(model, FIVE)
    ranks = ranked(opened(model), ids(values))
    agrees(ranks, totals, values)


def memorising(bigram: Any, values: Sequence[str]) -> Any:
    """A model whose likeliest values are these; they must share no digit."""
    like = bigram(1, 0.2)
    logits = like.log_table.copy()
    for value in values:
        path = [0, *(int(digit) + 1 for digit in value)]
        for a, b in itertools.pairwise(path):
            logits[a, b] += 6.0
    return of_logits(like, logits)


def test_secrets_that_are_all_memorised_are_all_first(bigram: Any) -> None:
    model = memorising(bigram, ["012", "340"])
    ranks = ranked(opened(model), ids(["012", "340", "222"]))
    assert ranks.better[:2].tolist() == ranks.worst[:2].tolist() == [1, 1]
    assert sorted(ranks.whole[:2].tolist()) == [1, 2]
    assert ranks.better[2] > 1
    assert ranks.spaces.tolist() == [123] * 3


def test_a_uniform_model_gives_the_middle_rank_and_ties_against_the_secret(bigram: Any) -> None:
    ranks = ranked(opened(bigram(0, 0.0)), ids(["012", "340"]))
    assert ranks.better.tolist() == [1, 1]
    assert ranks.spaces.tolist() == ranks.worst.tolist() == [124, 124]
    assert ranks.middle.tolist() == [62.5, 62.5]
    assert ranks.whole.tolist() == [125, 125]


def test_a_value_of_two_owners_says_nothing_sure(bigram: Any) -> None:
    model = memorising(bigram, ["012"])
    ranks = ranked(opened(model), ids(["012", "340", "012"]))
    assert ranks.worst[[0, 2]].tolist() == ranks.spaces[[0, 2]].tolist() == [124, 124]
    assert ranks.middle[[0, 2]].tolist() == ranks.whole[[0, 2]].tolist() == [1, 1]
    assert ranks.worst[1] < 124


@pytest.mark.parametrize("budget", [1, 3, 8, 1000])
def test_an_impossible_secret_is_last(bigram: Any, budget: int) -> None:
    table = bigram(4, 1.0).log_table.copy()
    table[:, 2] = -np.inf  # the digit 1
    model = replace(bigram(4), log_table=table)
    totals = everything(model, FIVE)
    values = ["010", "333"]
    with patch.object(prefix_tree, "_AT_ONCE", 2):
        ranks = ranked(opened(model), ids(values), Exposure(budget=budget, samples=50))
    assert ranks.log_probs[0] == -math.inf
    assert ranks.worst[0] == ranks.spaces[0] == 124
    assert ranks.whole[0] == 125
    bounds(ranks, totals, values)
    if budget == 1000:
        assert ranks.exact.tolist() == [1, 1]
        assert ranks.better[0] == truth(totals, values, 0)["better"]


# certified ranks


@MANY
@given(
    RECIPES,
    st.lists(digits_of_five, min_size=1, max_size=6),
    st.integers(1, 35),
    st.sampled_from([1, 3, 4096]),
    st.booleans(),
)
def test_whatever_the_budget_the_truth_is_within_bounds(
    bigram: Any, recipe: Any, values: list[str], budget: int, at_once: int, counts: bool
) -> None:
    model = made(bigram, recipe)
    totals = everything(model, FIVE)
    lengths = 3 * len(values)
    session = opened(model, remaining=lengths + budget if counts else None)
    with patch.object(prefix_tree, "_AT_ONCE", at_once):
        ranks = ranked(session, ids(values), Exposure(budget=budget, samples=1))
    assert len(session.contexts) <= budget
    bounds(ranks, totals, values)
    for i in range(len(values)):
        assert ranks.better[i] <= ranks.middle[i] <= ranks.worst[i] or (
            counts and not ranks.exact[i] and math.isnan(ranks.middle[i])
        )
        assert math.isnan(ranks.fitted[i])
        if ranks.exact[i]:
            for name, value in truth(totals, values, i).items():
                assert getattr(ranks, name)[i] == value, name


def test_between_bounds_there_is_a_guess_where_queries_are_free(bigram: Any) -> None:
    model = bigram(9, 1.0, 11)
    totals = everything(model, digits(3))
    value = sorted(totals, key=totals.__getitem__)[500]
    few = Exposure(budget=5, samples=400)
    free = ranked(opened(model), ids([value], digits(3)), few)
    assert free.exact[0] == 0 and free.better[0] < 300 and free.worst[0] > 700
    assert abs(free.middle[0] - 500) < 100
    dear = ranked(opened(model, remaining=8), ids([value], digits(3)), few)
    assert math.isnan(dear.middle[0]) and 1 <= dear.better[0] < dear.worst[0] <= 1000


def test_a_memorised_secret_of_twelve_digits_is_exact_and_another_within_bounds(
    bigram: Any,
) -> None:
    like = bigram(2, 0.5, 11)
    logits = like.log_table.copy()
    logits[range(11), [a % 10 + 1 for a in range(11)]] += 5.0  # counts upwards
    model = of_logits(like, logits)
    values = ["012345678901", "904418366207"]
    ranks = ranked(opened(model), ids(values, digits(12)), Exposure(budget=3000, samples=100))
    assert ranks.exact.tolist() == [1, 0]
    assert ranks.better[0] == ranks.worst[0] == ranks.middle[0] == 1
    assert 1 < ranks.better[1] < ranks.middle[1] < ranks.worst[1] <= 10**12 - 1


# spaces without a tree


def merging(bigram: Any, *merged: str) -> Any:
    words = ("^", *"0123456789", *merged)
    return replace(bigram(3, 1.0, len(words)), tokenizer=LongestWords(words))


def drawn(model: Any, space: Space, n: int) -> np.ndarray:
    """What the attack draws, in its order."""
    stream, totals = np.random.default_rng(8), everything(model, space)
    return np.array([totals[space.draw(stream)] for _ in range(n)])


def test_where_digits_merge_ranks_are_sampled(bigram: Any) -> None:
    model, values = merging(bigram, "12", "77"), ["123", "770", "000", "555"]
    ranks = ranked(opened(model), ids(values, digits(3)), Exposure(samples=300))
    references, totals = drawn(model, digits(3), 300), everything(model, digits(3))
    for i, value in enumerate(values):
        above = (references > totals[value] + TOLERANCE).sum()
        as_good = (references >= totals[value] - TOLERANCE).sum()
        assert ranks.better[i] == 1 + above
        assert ranks.worst[i] == ranks.whole[i] == 1 + as_good
        assert ranks.middle[i] == 1 + (above + as_good) / 2
    assert ranks.spaces.tolist() == [301] * 4
    assert np.isnan(ranks.exact).all()


def test_the_sampled_estimator_as_published() -> None:
    """Scores 1 to 16, secrets 0, 20 and 3.5: 4, −0.087 and 2 bits of log₂n − log₂(m + 1)."""
    columns = sampled(-np.arange(1.0, 17), -np.array([0, 20, 3.5]), 10**6, np.random.default_rng(0))
    bits = math.log2(16) - np.log2(columns["worst"])
    np.testing.assert_allclose(bits, [4, -0.0874628413, 2], atol=1e-9)
    assert columns["spaces"].tolist() == [17] * 3
    assert np.isnan(columns["fitted"]).all()  # 16 are too few


def test_a_fit_extrapolates_where_it_holds() -> None:
    draw = np.random.default_rng(5)
    references = draw.normal(-14, 1, 2000)
    columns = sampled(references, np.array([-14.0, -9.0, -4.0]), 10**9, np.random.default_rng(6))
    law = skew_normal.fit(-references, np.random.default_rng(6))
    assert law.acceptable
    expected = skew_normal.exposure_bits(law, [14.0, 9.0, 4.0], 10**9)
    np.testing.assert_allclose(columns["fitted"], expected)
    assert 0.8 < columns["fitted"][0] < 1.2 and columns["fitted"][2] > 20
    assert columns["worst"][2] == 1  # but no rank is made of it


def test_no_fit_no_extrapolation() -> None:
    two = np.repeat([-3.0, -40.0], 500)
    columns = sampled(two, np.array([-1.0]), 10**9, np.random.default_rng(0))
    assert np.isnan(columns["fitted"]).all() and columns["worst"] == 1


def test_a_secret_that_is_no_path_of_the_tree_is_sampled(bigram: Any) -> None:
    model = merging(bigram, "123456")
    assert tree_of(model.tokenizer, "", digits(6)) is not None
    ranks = ranked(opened(model), ids(["123456", "555555"], digits(6)), Exposure(samples=30))
    assert np.isnan(ranks.exact).all() and ranks.spaces.tolist() == [31, 31]


# access


def test_scores_alone_give_sampled_ranks(bigram: Any) -> None:
    session = opened(bigram(3), readable=Access.SCORE)
    ranks = ranked(session, ids(["012", "340"]), Exposure(samples=99))
    assert ranks.spaces.tolist() == [100, 100] and np.isnan(ranks.exact).all()
    assert session.queries == 3 * (2 + 99)


def test_a_secret_that_was_not_drawn_is_read_but_not_ranked(bigram: Any) -> None:
    secret = replace(ids(["012"])[0], space=None)
    ranks = ranked(opened(bigram(3)), [secret, *ids(["340"])])
    assert np.isnan(ranks.worst).tolist() == [True, False]
    assert not np.isnan(ranks.log_probs).any()


# budgets of a release


@pytest.mark.parametrize("remaining", [0, 2, 3, 8, 9, 10, 14, 30, 41, 75])
def test_a_release_is_asked_no_more_than_it_answers(bigram: Any, remaining: int) -> None:
    model, values = bigram(3), ["012", "340", "222"]
    totals = everything(model, FIVE)
    session = opened(model, remaining=remaining)
    with patch.object(prefix_tree, "_AT_ONCE", 4):
        ranks = ranked(session, ids(values))
    read = min(3, remaining // 3)
    assert session.queries <= remaining
    assert (~np.isnan(ranks.log_probs)).tolist() == [i < read for i in range(3)]
    assert np.isnan(ranks.worst[read:]).all()
    bounds(ranks, totals, values[:read])
    if remaining >= 9 + 2 * 31:  # one half is for samples
        assert ranks.exact.tolist() == [1, 1, 1]


@pytest.mark.parametrize("stops", [0, 1, 3, 7, 9, 10, 12, 20, 39])
@pytest.mark.parametrize("at_once", [3, 4096])
def test_after_stop_nothing_is_believed(bigram: Any, stops: int, at_once: int) -> None:
    model, values = bigram(3), ["012", "340", "222"]
    totals = everything(model, FIVE)
    with patch.object(prefix_tree, "_AT_ONCE", at_once):
        ranks = ranked(opened(model, remaining=1000, stops_after=stops), ids(values))
    read = min(3, stops // 3)
    assert (~np.isnan(ranks.worst)).tolist() == [i < read for i in range(3)]
    assert (~np.isnan(ranks.log_probs)).tolist() == [i < read for i in range(3)]
    bounds(ranks, totals, values[:read])


def test_without_a_tree_a_release_is_sampled_within_its_budget(bigram: Any) -> None:
    session = opened(merging(bigram, "12", "77"), remaining=100)
    ranks = ranked(session, ids(["012", "340"], digits(3)))
    assert session.queries <= 100
    assert np.isnan(ranks.exact).all() and not np.isnan(ranks.log_probs).any()
    assert (ranks.spaces == ranks.spaces[0]).all() and 20 < ranks.spaces[0] <= 1 + 95 // 2
    assert ((ranks.worst >= 1) & (ranks.worst <= ranks.spaces)).all()


@pytest.mark.parametrize(
    ("how", "budget"), [({}, 20), ({"remaining": 12 + 20}, 10**6), ({"remaining": 10**6}, 20)]
)
def test_prefixes_and_spaces_share_the_budget(
    bigram: Any, how: dict[str, int], budget: int
) -> None:
    model = bigram(3, 0.5, 13)
    space = Space((tuple("01234"),) * 4)
    secrets = [
        *ids(["012"], digits(3), "a"),
        *ids(["340"], digits(3), "b"),
        *ids(["0123"], space, "a"),
        *ids(["44"], digits(2), "b"),
    ]
    session = opened(model, **how)
    ranks = ranked(session, secrets, Exposure(budget=budget, samples=20))
    spent = {a: 0 for a in ("a", "b")}
    for context in session.contexts:
        spent[model.tokenizer.decode(context[1:2])] += 1
    assert spent == {"a": 10, "b": 8 if how else 10}  # one sampled value of two digits
    assert ranks.spaces.tolist() == [1000, 1000, 625, 100]
    for i, secret in enumerate(secrets):
        assert secret.space is not None
        expected = truth(everything(model, secret.space, secret.prefix), [secret.value], 0)
        assert ranks.better[i] <= expected["better"] <= expected["worst"] <= ranks.worst[i]
        assert ranks.worst[i] - ranks.better[i] > 1


def test_time_stops_the_search(bigram: Any) -> None:
    model, ticks = bigram(3), itertools.count()
    with patch.object(prefix_tree.time, "monotonic", lambda: float(next(ticks))):
        ranks = ranked(opened(model), ids(["012"]), Exposure(seconds=2.5, samples=20))
    bounds(ranks, everything(model, FIVE), ["012"])
    assert ranks.exact[0] == 0
    assert ranked(opened(model), ids(["012"]), Exposure(seconds=1000)).exact[0] == 1
    two = [*ids(["012"]), *ids(["0123"], Space((tuple("01234"),) * 4))]
    with patch.object(prefix_tree.time, "monotonic", lambda: float(next(ticks))):
        assert ranked(opened(model), two, Exposure(seconds=6, samples=20)).exact.sum() == 0


def test_bad_parameters_are_named_in_one_line() -> None:
    bad = [("budget", 0), ("samples", -1), ("seconds", 0.0), ("seconds", math.nan)]
    refusals(lambda one: Exposure(**dict([one])), [(one, one[0]) for one in bad])


# arithmetic that does not repeat itself


def test_a_secret_that_is_read_a_little_otherwise_is_still_found(bigram: Any) -> None:
    model, values = bigram(3), ["012", "340", "222"]
    totals = everything(model, FIVE)
    ranks = ranked(opened(model, off=exposure._SLACK / 4), ids(values))
    agrees(ranks, totals, values)


def test_a_secret_that_is_pruned_says_nothing(bigram: Any) -> None:
    ranks = ranked(opened(bigram(3), off=1.0), ids(["012"]))
    assert ranks.exact[0] == 0 and ranks.worst[0] == ranks.spaces[0] == ranks.whole[0] == 125
