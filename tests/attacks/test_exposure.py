"""Exposure: every column of Ranks against counting, sampled ranks, budgets, and the null."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from attacks import exposure
from attacks.exposure import Exposure
from attacks.search import prefix_tree
from attacks.search.prefix_tree import search, tree_of
from attacks.search.ranking import COLUMNS, TOLERANCE, counted, sampled
from audit.core.attack import Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Ranks
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Answer
from audit.core.secret import Secret, Space, digits
from audit.statistics import skew_normal
from tests.attacks.longest_words import LongestWords
from tests.simulations import repeats

FIVE = Space((tuple("01234"),) * 3)  # 125 candidates, for the fixture's default alphabet
MANY = settings(
    max_examples=settings().max_examples // 2,  # each runs a model
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Fake:
    """A session that counts queries, and may have a budget, STOP, or little to read."""

    inner: OpenSession
    remaining: int | None = None
    stops_after: int = 10**9
    readable: Access = Access.DISTRIBUTION
    asked: int = 0
    contexts: list[tuple[int, ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def score(
        self, prefixes: Sequence[Any], continuations: Sequence[Any], moments: bool = False
    ) -> list[Answer]:
        assert self.readable >= Access.SCORE
        answers = []
        for answer in self.inner.score(prefixes, continuations):
            answered = self._charge(len(answer.tokens))
            log_probs = np.where(np.arange(len(answer.tokens)) < answered, answer.log_probs, 0.0)
            answers.append(replace(answer, answered=answered, log_probs=log_probs))
        return answers

    def distribution(
        self, contexts: Sequence[Sequence[int]], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        assert self.readable >= Access.DISTRIBUTION
        rows, _ = self.inner.distribution(contexts, choices)
        answered = self._charge(len(contexts))
        rows[answered:] = 0.0  # not the release's: whoever reads it finds certain secrets
        self.contexts += map(tuple, contexts)
        return rows, answered

    def _charge(self, queries: int) -> int:
        """How many of so many queries are answered by the release."""
        answered = min(max(0, self.stops_after - self.asked), queries)
        self.asked += queries
        if self.remaining is not None:
            self.remaining -= queries
            assert self.remaining >= 0
        return answered


def opened(model: Any, **how: Any) -> Fake:
    return Fake(OpenSession(model, np.random.default_rng(0)), **how)


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
        path = [[tokenizer.start, *head][-1], *tail]
        totals[value] = math.fsum(model.log_table[a, b] for a, b in itertools.pairwise(path))
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


def with_ties(model: Any) -> Any:
    logits = np.round(1.5 * model.log_table)
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return type(model)(table, model.tokenizer)


models = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0, 3.0]), st.booleans())
digits_of_five = st.text("01234", min_size=3, max_size=3)


def made(bigram: Any, recipe: tuple[int, float, bool]) -> Any:
    seed, spread, tied = recipe
    return with_ties(bigram(seed, spread)) if tied else bigram(seed, spread)


# exact ranks


@pytest.mark.parametrize("tied", [False, True])
def test_every_secret_by_itself_has_its_exact_rank(bigram: Any, tied: bool) -> None:
    model = made(bigram, (11, 1.0, tied))
    totals = everything(model, FIVE)
    at_most = []
    for value in totals:
        ranks = ranked(opened(model), ids([value]))
        assert ranks.log_probs[0] == pytest.approx(totals[value])
        for name, expected in truth(totals, [value], 0).items():
            assert getattr(ranks, name)[0] == expected, name
        assert math.isnan(ranks.fitted[0])
        at_most.append(float(ranks.whole[0]))
    # over all values of a secret: P(whole <= t) <= t/|R|, exactly
    assert all(sum(w <= t for w in at_most) <= t for t in range(1, 126))


@MANY
@given(models, st.lists(digits_of_five, min_size=1, max_size=8))
def test_several_secrets_have_their_exact_ranks(
    bigram: Any, recipe: Any, values: list[str]
) -> None:
    model = made(bigram, recipe)
    totals = everything(model, FIVE)
    ranks = ranked(opened(model), ids(values))
    for i in range(len(values)):
        for name, expected in truth(totals, values, i).items():
            assert getattr(ranks, name)[i] == expected, name


def test_a_thousand_candidates_after_a_prefix(bigram: Any) -> None:
    model = bigram(5, 1.0, 13)  # an alphabet with the letters a and b
    values = ["123", "999", "000", "571"]
    totals = everything(model, digits(3), "ab")
    session = opened(model)
    ranks = ranked(session, ids(values, digits(3), "ab"))
    for i in range(4):
        for name, expected in truth(totals, values, i).items():
            assert getattr(ranks, name)[i] == expected, name
    assert set(session.contexts[0][:3]) == {0, 11, 12}


def test_places_may_have_different_symbols(bigram: Any) -> None:
    model = bigram(6, 1.0, 15)
    space = Space((tuple("abc"), ("7",), tuple("0123"), tuple("d9")))
    values = ["a70d", "c739", "b72d"]
    totals = everything(model, space)
    ranks = ranked(opened(model), ids(values, space))
    for i in range(3):
        for name, expected in truth(totals, values, i).items():
            assert getattr(ranks, name)[i] == expected, name


def memorising(bigram: Any, values: Sequence[str]) -> Any:
    """A model whose likeliest values are these; they must share no digit."""
    table = bigram(1, 0.2).log_table.copy()
    for value in values:
        path = [0, *(int(digit) + 1 for digit in value)]
        for a, b in itertools.pairwise(path):
            table[a, b] += 6.0
    table -= np.log(np.exp(table).sum(axis=1, keepdims=True))
    return type(bigram(1))(table, bigram(1).tokenizer)


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
    model = type(bigram(4))(table, bigram(4).tokenizer)
    totals = everything(model, FIVE)
    values = ["010", "333"]
    with patch.object(prefix_tree, "_AT_ONCE", 2):
        ranks = ranked(opened(model), ids(values), Exposure(budget=budget, samples=50))
    assert ranks.log_probs[0] == -math.inf
    assert ranks.worst[0] == ranks.spaces[0] == 124
    assert ranks.whole[0] == 125
    for i in range(2):
        expected = truth(totals, values, i)
        assert ranks.better[i] <= expected["better"] <= expected["worst"] <= ranks.worst[i]
    if budget == 1000:
        assert ranks.exact.tolist() == [1, 1]
        assert ranks.better[0] == truth(totals, values, 0)["better"]


# certified ranks


@MANY
@given(
    models,
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
    for i in range(len(values)):
        expected = truth(totals, values, i)
        assert 1 <= ranks.better[i] <= expected["better"]
        assert expected["worst"] <= ranks.worst[i] <= ranks.spaces[i] == expected["spaces"]
        assert expected["whole"] <= ranks.whole[i] <= 125
        assert ranks.better[i] <= ranks.middle[i] <= ranks.worst[i] or (
            counts and not ranks.exact[i] and math.isnan(ranks.middle[i])
        )
        assert math.isnan(ranks.fitted[i])
        if ranks.exact[i]:
            for name, value in expected.items():
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
    table = bigram(2, 0.5, 11).log_table + 0.0
    for a in range(11):
        table[a, a % 10 + 1] += 5.0  # counts upwards
    table -= np.log(np.exp(table).sum(axis=1, keepdims=True))
    model = type(bigram(2))(table, bigram(2, 0.5, 11).tokenizer)
    values = ["012345678901", "904418366207"]
    ranks = ranked(opened(model), ids(values, digits(12)), Exposure(budget=3000, samples=100))
    assert ranks.exact.tolist() == [1, 0]
    assert ranks.better[0] == ranks.worst[0] == ranks.middle[0] == 1
    assert 1 < ranks.better[1] < ranks.middle[1] < ranks.worst[1] <= 10**12 - 1


# spaces without a tree


MERGES = ("^", *"0123456789", "12", "77")


def merging(bigram: Any, seed: int = 3) -> Any:
    like = bigram(seed, 1.0, 13)
    return type(like)(like.log_table, LongestWords(MERGES))


def drawn(model: Any, space: Space, n: int) -> np.ndarray:
    """What the attack draws, in its order."""
    stream, totals = np.random.default_rng(8), everything(model, space)
    return np.array([totals[space.draw(stream)] for _ in range(n)])


def test_where_digits_merge_ranks_are_sampled(bigram: Any) -> None:
    model, values = merging(bigram), ["123", "770", "000", "555"]
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


def test_candidates_as_likely_as_a_secret_count_against_it() -> None:
    columns = sampled(np.zeros(50), np.zeros(1), 10**6, np.random.default_rng(0))
    assert columns["better"] == 1 and columns["worst"] == 51 and columns["middle"] == 26


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


def test_a_secret_whose_digits_merge_in_threes_has_no_tree(bigram: Any) -> None:
    like = bigram(3, 1.0, 12)
    model = type(like)(like.log_table, LongestWords(("^", *"0123456789", "123")))
    ranks = ranked(opened(model), ids(["123", "555"], digits(3)), Exposure(samples=30))
    assert np.isnan(ranks.exact).all() and ranks.spaces.tolist() == [31, 31]
    others = ranked(opened(model), ids(["124", "555"], digits(3)), Exposure(samples=30))
    assert np.isnan(others.exact).all()  # a path of three digits is not what 123 costs


def test_a_secret_that_is_no_path_of_the_tree_is_sampled(bigram: Any) -> None:
    like = bigram(3, 1.0, 12)
    model = type(like)(like.log_table, LongestWords(("^", *"0123456789", "123456")))
    assert tree_of(model.tokenizer, "", digits(6)) is not None
    ranks = ranked(opened(model), ids(["123456", "555555"], digits(6)), Exposure(samples=30))
    assert np.isnan(ranks.exact).all() and ranks.spaces.tolist() == [31, 31]


# access


def test_scores_alone_give_sampled_ranks(bigram: Any) -> None:
    session = opened(bigram(3), readable=Access.SCORE)
    ranks = ranked(session, ids(["012", "340"]), Exposure(samples=99))
    assert ranks.spaces.tolist() == [100, 100] and np.isnan(ranks.exact).all()
    assert session.asked == 3 * (2 + 99)


@pytest.mark.parametrize("remaining", [None, 100])
def test_without_scores_nothing_is_measured(bigram: Any, remaining: int | None) -> None:
    session = opened(bigram(3), readable=Access.GENERATE, remaining=remaining)
    ranks = ranked(session, ids(["012", "340"]))
    assert np.isnan(ranks.log_probs).all() and session.asked == 0
    assert all(np.isnan(getattr(ranks, name)).all() for name in COLUMNS)


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
    assert session.asked <= remaining
    assert (~np.isnan(ranks.log_probs)).tolist() == [i < read for i in range(3)]
    assert np.isnan(ranks.worst[read:]).all()
    for i in range(read):
        expected = truth(totals, values[:read], i)
        assert ranks.better[i] <= expected["better"] <= expected["worst"] <= ranks.worst[i]
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
    for i in range(read):
        expected = truth(totals, values[:read], i)
        assert ranks.better[i] <= expected["better"] <= expected["worst"] <= ranks.worst[i]
        assert expected["whole"] <= ranks.whole[i]


def test_without_a_tree_a_release_is_sampled_within_its_budget(bigram: Any) -> None:
    session = opened(merging(bigram), remaining=100)
    ranks = ranked(session, ids(["012", "340"], digits(3)))
    assert session.asked <= 100
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


def test_the_order_of_spaces_is_kept(bigram: Any) -> None:
    model = bigram(3, 1.0, 13)
    mixed = [*ids(["012"], digits(3), "a"), *ids(["04"], digits(2)), *ids(["99"], digits(2))]
    mixed.append(ids(["777"], digits(3), "a")[0])
    ranks = ranked(opened(model), mixed)
    for places in ([0, 3], [1, 2]):
        space, prefix = mixed[places[0]].space, mixed[places[0]].prefix
        assert space is not None
        values = [mixed[i].value for i in places]
        totals = everything(model, space, prefix)
        for j, i in enumerate(places):
            for name, expected in truth(totals, values, j).items():
                assert getattr(ranks, name)[i] == expected, name


def test_time_stops_the_search(bigram: Any) -> None:
    model, ticks = bigram(3), itertools.count()
    with patch.object(prefix_tree.time, "monotonic", lambda: float(next(ticks))):
        ranks = ranked(opened(model), ids(["012"]), Exposure(seconds=2.5, samples=20))
    totals = everything(model, FIVE)
    expected = truth(totals, ["012"], 0)
    assert ranks.better[0] <= expected["better"] <= expected["worst"] <= ranks.worst[0]
    assert ranks.exact[0] == 0
    assert ranked(opened(model), ids(["012"]), Exposure(seconds=1000)).exact[0] == 1
    two = [*ids(["012"]), *ids(["0123"], Space((tuple("01234"),) * 4))]
    with patch.object(prefix_tree.time, "monotonic", lambda: float(next(ticks))):
        assert ranked(opened(model), two, Exposure(seconds=6, samples=20)).exact.sum() == 0


def test_nothing_is_asked_about_no_secrets(bigram: Any) -> None:
    session = opened(bigram(3))
    assert ranked(session, []).worst.shape == (0,) and session.asked == 0


@pytest.mark.parametrize(
    "bad", [{"budget": 0}, {"samples": -1}, {"seconds": 0.0}, {"seconds": math.nan}]
)
def test_bad_parameters_are_named_in_one_line(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        Exposure(**bad)
    assert next(iter(bad)) in str(error.value) and "\n" not in str(error.value)


# arithmetic that does not repeat itself


@dataclass
class Coarse(Fake):
    """Reads everything a little less likely when asked for distributions."""

    off: float = 0.0

    def distribution(self, contexts: Any, choices: Any) -> tuple[np.ndarray, int]:
        rows, answered = super().distribution(contexts, choices)
        return rows - self.off, answered


def test_a_secret_that_is_read_a_little_otherwise_is_still_found(bigram: Any) -> None:
    model, values = bigram(3), ["012", "340", "222"]
    totals = everything(model, FIVE)
    session = Coarse(OpenSession(model, np.random.default_rng(0)), off=exposure._SLACK / 4)
    ranks = ranked(session, ids(values))
    for i in range(3):
        for name, expected in truth(totals, values, i).items():
            assert getattr(ranks, name)[i] == expected, name


def test_a_secret_that_is_pruned_says_nothing(bigram: Any) -> None:
    model = bigram(3)
    session = Coarse(OpenSession(model, np.random.default_rng(0)), off=1.0)
    ranks = ranked(session, ids(["012"]))
    assert ranks.exact[0] == 0 and ranks.worst[0] == ranks.spaces[0] == ranks.whole[0] == 125


# the null: values that the model has never seen


def null(model: Any, space: Space, budget: int | None, runs: int, n: int) -> Ranks:
    """Ranks of n uniform values each, in one session's search, `runs` times."""
    session, stream = opened(model), np.random.default_rng(12)
    tree = tree_of(model.tokenizer, "", space)
    assert tree is not None
    totals, found = everything(model, space), search(session, tree, budget=budget)
    rows = []
    for _ in range(runs):
        values = [space.draw(stream) for _ in range(n)]
        log_probs = np.array([totals[value] for value in values])
        symbols = [tree.symbols(model.tokenizer.encode(value)) for value in values]
        rows.append(counted(found, symbols, log_probs, None, space.size))
    columns = {name: np.array([row[name] for row in rows]) for name in COLUMNS}
    return Ranks(np.zeros(0), **columns)


def never_more_often(ranks: np.ndarray, spaces: np.ndarray) -> None:
    """P(rank <= t) <= t/space, for every t; up to one false alarm in a million."""
    shares = np.sort(ranks / spaces)
    seen = np.searchsorted(shares, shares, side="right")
    assert (seen <= binom.ppf(1 - 1e-6, len(shares), shares)).all()


@repeats(200, 2000)
@pytest.mark.parametrize(
    ("budget", "tied"), [(0, True), (1, False), (4, True), (13, True), (None, True), (None, False)]
)
def test_under_the_null_ranks_are_no_better_than_uniform(
    bigram: Any, budget: int | None, tied: bool, runs: int
) -> None:
    space = Space((tuple("0123"),) * 3)
    ranks = null(made(bigram, (21, 1.0, tied)), space, budget, runs, 5)
    for i in (0, 4):
        never_more_often(ranks.whole[:, i], np.full(runs, 64))
        never_more_often(ranks.worst[:, i], ranks.spaces[:, i])
    medians, t = np.sort(ranks.whole, axis=1)[:, 2], np.arange(1, 65)
    law = binom.sf(2, 5, t / 64)  # of the median of five independent uniform ranks
    assert ((medians <= t[:, None]).sum(axis=1) <= binom.ppf(1 - 1e-6, runs, law)).all()
    if budget is None and not tied:  # and not much worse either
        quarter = (ranks.whole[:, 0] <= 16).sum()
        assert binom.ppf(1e-6, runs, 0.25) <= quarter
        assert (ranks.worst == ranks.spaces).sum() > 0  # values drawn twice


def test_under_the_null_sampled_ranks_are_no_better_than_uniform(bigram: Any) -> None:
    space = Space((tuple("0123"),) * 3)
    totals, stream = everything(made(bigram, (21, 1.0, True)), space), np.random.default_rng(13)
    worst = []
    for _ in range(600):
        references, own = (
            np.array([totals[space.draw(stream)] for _ in range(n)]) for n in (19, 1)
        )
        worst.append(sampled(references, own, space.size, stream)["worst"][0])
    never_more_often(np.array(worst), np.full(600, 20))


@repeats(150, 2000)
def test_under_the_null_whole_attacks_are_no_better_than_uniform(bigram: Any, runs: int) -> None:
    """End to end: floors and budgets that depend on the very secrets."""
    space = Space((tuple("0123"),) * 2)
    model, stream = made(bigram, (22, 1.5, True)), np.random.default_rng(14)
    whole, worst, spaces = [], [], []
    for _ in range(runs):
        values = [space.draw(stream) for _ in range(3)]
        ranks = ranked(opened(model), ids(values, space), Exposure(budget=4, samples=1))
        whole.append(ranks.whole[0])
        worst.append(ranks.worst[0])
        spaces.append(ranks.spaces[0])
    never_more_often(np.array(whole), np.full(runs, 16))
    never_more_often(np.array(worst), np.array(spaces))
