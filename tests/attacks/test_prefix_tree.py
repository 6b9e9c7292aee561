"""The search in the tree of a space, against looking at every candidate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.search import prefix_tree
from attacks.search.prefix_tree import Tree, Visited, beam, search, tree_of
from audit.core.secret import Space, digits
from tests.attacks.longest_words import LongestWords
from tests.attacks.noting import FIVE, MANY, RECIPES, along, made, opened, with_ties

TIE = 1e-9  # nats


def tree_for(model: Any, space: Space, prefix: str = "") -> Tree:
    tree = tree_of(model.tokenizer, prefix, space)
    assert tree is not None
    return tree


def everything(model: Any, tree: Tree) -> dict[tuple[int, ...], float]:
    """log-probability of every candidate, by its symbols."""
    totals = {}
    for symbols in itertools.product(*(range(len(place)) for place in tree.places)):
        path = [tree.prompt[-1], *(p[s] for p, s in zip(tree.places, symbols, strict=True))]
        totals[symbols] = along(model, path)
    return totals


def ranks(totals: dict[Any, float], log_prob: float, tie: float = TIE) -> tuple[int, int]:
    """(better, worst) rank, by counting."""
    values = np.array(list(totals.values()))
    return int((values > log_prob + tie).sum()) + 1, int((values >= log_prob - tie).sum())


spaces = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(
    lambda sizes: Space(tuple(tuple("01234"[:size]) for size in sizes))
)


# what is found


@pytest.mark.parametrize("tied", [False, True])
def test_every_rank_of_three_digits_is_exact(bigram: Any, tied: bool) -> None:
    model = bigram(3, 1.0, 11)
    model = with_ties(model) if tied else model
    tree = tree_for(model, digits(3))
    totals = everything(model, tree)
    found = search(opened(model), tree)
    assert found.opened == 1 + 10 + 100 and not len(found.pending)
    seen = dict(zip(map(tuple, found.symbols.tolist()), found.log_probs, strict=True))
    assert seen == pytest.approx(totals, abs=1e-12)
    assert (np.diff(found.log_probs) <= 0).all()
    for log_prob in totals.values():
        assert found.ranks(log_prob, TIE) == ranks(totals, log_prob)
    assert tied == any(high > low for low, high in (ranks(totals, p) for p in totals.values()))


@MANY
@given(RECIPES, spaces, st.data())
def test_wherever_it_stops_the_truth_is_within_bounds(
    bigram: Any, recipe: Any, space: Space, data: st.DataObject
) -> None:
    model = made(bigram, recipe)
    tree = tree_for(model, space)
    totals = everything(model, tree)
    secret = data.draw(st.sampled_from(sorted(totals.values())))
    floor = data.draw(st.sampled_from([-math.inf, secret - 0.1, secret - TIE]))
    budget = data.draw(st.integers(0, 160) | st.none())
    with patch.object(prefix_tree, "_AT_ONCE", data.draw(st.sampled_from([1, 3, 20, 4096]))):
        found = search(opened(model), tree, floor, budget)
    assert found.opened <= (math.inf if budget is None else budget)
    low, high = ranks(totals, secret)
    better, worst = found.ranks(secret, TIE)
    assert 1 <= better <= low <= high <= worst
    if not len(found.pending):
        assert (better, worst) == (low, high)
        seen = set(map(tuple, found.symbols.tolist()))
        assert seen == {symbols for symbols, p in totals.items() if p >= floor}
    if floor == -math.inf:
        assert len(found.log_probs) + found.below.sum() == tree.size


@MANY
@given(RECIPES, spaces, st.integers(1, 30), st.sampled_from([1, 7, 4096]))
def test_enough_gives_exactly_the_most_likely(
    bigram: Any, recipe: Any, space: Space, n: int, at_once: int
) -> None:
    model = made(bigram, recipe)
    tree = tree_for(model, space)
    with patch.object(prefix_tree, "_AT_ONCE", at_once):
        found = search(opened(model), tree, enough=n)
    sure = found.log_probs[found.log_probs >= found.pending.max(initial=-math.inf)]
    expected = sorted(everything(model, tree).values(), reverse=True)[:n]
    np.testing.assert_allclose(sure[:n], expected, atol=1e-12)


def test_enough_is_found_without_looking_everywhere(bigram: Any) -> None:
    model = bigram(0, 4.0, 11)
    tree = tree_for(model, digits(5))
    with patch.object(prefix_tree, "_AT_ONCE", 10):
        assert search(opened(model), tree, enough=3).opened < 500


def test_the_most_likely_prefix_is_opened_first(bigram: Any) -> None:
    model = bigram(1, 1.0)
    tree, session = tree_for(model, FIVE), opened(model)
    with patch.object(prefix_tree, "_AT_ONCE", 1):
        search(session, tree)
        metered = opened(model, remaining=1000)
        search(metered, tree)
    first = session.contexts[: 1 + 5]
    best = int(np.argmax(model.log_table[0, list(tree.places[0])]))
    assert first[0] == (0,) and (0, tree.places[0][best]) in first[1:]
    likely = [along(model, context) for context in metered.contexts]
    assert likely == sorted(likely, reverse=True)
    for contexts in (session.contexts, metered.contexts):
        assert len(set(contexts)) == len(contexts) == 1 + 5 + 25


@pytest.mark.parametrize("places", [6, 12])
def test_a_small_budget_reaches_the_last_place(bigram: Any, places: int) -> None:
    law = Classes((1, 3, 6), (math.log(0.9), math.log(0.09 / 3), math.log(0.01 / 6)))
    model, log_prob = law.model(bigram), places * math.log(0.9)
    tree = tree_for(model, digits(places))
    assert search(opened(model, remaining=2 * places), tree).ranks(log_prob, TIE) == (1, 1)
    for budget in (300, 1000, 4000):
        assert search(opened(model), tree, budget=budget).ranks(log_prob, TIE) == (1, 1)


def test_a_round_asks_once_for_each_length(bigram: Any) -> None:
    """Each question is a batch: prefixes of many lengths in a muddle would be asked singly."""
    model = bigram(2, 2.0, 11)
    session = opened(model)
    search(session, tree_for(model, digits(6)), budget=20_000)
    assert sum(session.batches) == 20_000 and len(session.batches) <= 100
    families = opened(bigram(0, 1.0, 11))  # where queries are free, siblings are opened together
    with patch.object(prefix_tree, "_AT_ONCE", 10):
        search(families, tree_for(families.model, digits(3)))
    parents = [context[:-1] for context in families.contexts[1:]]
    assert all(len(set(parents[i : i + 10])) == 1 for i in range(0, 110, 10))


# 12 digits: what cannot be enumerated can be counted


@dataclass(frozen=True)
class Classes:
    """Digits in three classes of equal probability, wherever they stand: ranks by multinomials."""

    sizes: tuple[int, int, int]
    log_probs: tuple[float, float, float]

    def model(self, bigram: Any) -> Any:
        like = bigram(0, 0.0, 11)
        row = [-80.0, *np.repeat(self.log_probs, self.sizes)]
        return type(like)(np.tile(row, (11, 1)), like.tokenizer)

    def log_prob(self, symbols: Sequence[int]) -> float:
        return math.fsum(np.repeat(self.log_probs, self.sizes)[list(symbols)])

    def ranks(self, log_prob: float, places: int = 12) -> tuple[int, int]:
        better = as_good = 0
        for i in range(places + 1):
            for j in range(places + 1 - i):
                counts = (i, j, places - i - j)
                ways = math.factorial(places)
                for count, size in zip(counts, self.sizes, strict=True):
                    ways = ways // math.factorial(count) * size**count
                total = math.fsum(c * p for c, p in zip(counts, self.log_probs, strict=True))
                better += ways * (total > log_prob + TIE)
                as_good += ways * (total >= log_prob - TIE)
        return better + 1, as_good


def test_a_memorised_twelve_digit_secret_has_an_exact_rank(bigram: Any) -> None:
    law = Classes((1, 3, 6), (math.log(0.9), math.log(0.09 / 3), math.log(0.01 / 6)))
    model = law.model(bigram)
    tree = tree_for(model, digits(12))
    for secret in ([0] * 12, [*[0] * 11, 1], [1, *[0] * 10, 2], [*[0] * 11, 9]):
        log_prob = law.log_prob(secret)
        found = search(opened(model), tree, log_prob - 0.01)
        assert not len(found.pending) and found.opened < 10_000
        assert found.ranks(log_prob, TIE) == law.ranks(log_prob)
    totals = everything(model, tree_for(model, digits(3)))  # what is counted is right
    assert all(law.ranks(p, 3) == ranks(totals, p) for p in totals.values())


# ties and impossible candidates


def test_what_is_below_the_floor_by_rounding_only_is_a_tie(bigram: Any) -> None:
    found = Visited(np.array([-1.0, -1.00005, -2.0]), np.zeros((3, 1)), *2 * [np.zeros(0)], 1)
    assert found.ranks(-1.0, 1e-4) == found.ranks(-1.00005, 1e-4) == (1, 2)
    assert found.ranks(-2.0, 1e-4) == (3, 3)


def test_under_a_prefix_of_probability_p_at_most_so_many_are_as_likely() -> None:
    pending, below = np.log([0.35, 0.2, 0.0999]), np.array([100.0, 1.0, 100.0])
    found = Visited(np.zeros(0), np.zeros((0, 2)), pending, below, 1)
    assert found.ranks(math.log(0.1), TIE) == (1, 3 + 1)
    assert found.ranks(math.log(0.1), 0.15) == (1, 4 + 1 + 1)  # what may be a tie is one


# beam


def test_a_beam_finds_what_a_greedy_search_misses(bigram: Any) -> None:
    table = bigram(0, 0.0, 11).log_table.copy()
    table[0, 1:3] = math.log(0.5), math.log(0.4)  # 0 is likelier than 1, but 19 likelier than any
    table[2] = -9.0
    table[2, 10] = math.log(0.9)
    model = type(bigram(0))(table, bigram(0, 0.0, 11).tokenizer)
    tree = tree_for(model, digits(2))
    best = max(everything(model, tree).items(), key=lambda item: item[1])[0]
    assert best == (1, 9)
    assert beam(opened(model), tree, 1)[0][0] == 0
    assert beam(opened(model), tree, 2)[0] == [1, 9]


@MANY
@given(RECIPES, spaces, st.integers(1, 200))
def test_a_wide_beam_finds_everything_in_order(
    bigram: Any, recipe: Any, space: Space, width: int
) -> None:
    model = made(bigram, recipe)
    tree, session = tree_for(model, space), opened(model)
    totals = everything(model, tree)
    found = beam(session, tree, width)
    assert len(found) == min(width, tree.size)
    likely = [totals[tuple(symbols)] for symbols in found]
    assert likely == pytest.approx(sorted(likely, reverse=True))
    assert len(session.contexts) <= width * len(tree.places)
    widest = max(tree.size // tree.below(n) for n in range(1, len(tree.places) + 1))
    if width >= widest:
        assert likely == pytest.approx(sorted(totals.values(), reverse=True))


@pytest.mark.parametrize("how", [{"stops_after": 8}, {"remaining": 8}])
def test_a_beam_that_is_cut_short_finds_nothing(bigram: Any, how: dict[str, int]) -> None:
    model = bigram(0, 1.0, 11)
    assert beam(opened(model, **how), tree_for(model, digits(3)), 5) == []
    assert len(beam(opened(model, **{k: 11 for k in how}), tree_for(model, digits(3)), 5)) == 5


# which spaces have a tree


def test_symbols_may_be_words_and_places_may_differ(bigram: Any) -> None:
    like = bigram(7, 1.0, 9)
    tokenizer = LongestWords(("^", "red", "blue", "green", "-", "cat", "dog", "my ", "x"))
    model = type(like)(like.log_table, tokenizer)
    space = Space((("red", "blue", "green"), ("-",), ("dog", "cat")))
    tree = tree_for(model, space, "my ")
    assert tree == Tree((0, 7), ((1, 2, 3), (4,), (6, 5)))
    assert tree.size == space.size == 6
    assert [tree.below(n) for n in range(4)] == [6, 2, 2, 1]
    assert tree.symbols([3, 4, 5]) == (2, 0, 1)
    assert tree.context(np.array([2, 0, 1]), 2) == (0, 7, 3, 4)
    totals = everything(model, tree)
    found = search(opened(model), tree)
    for log_prob in totals.values():
        assert found.ranks(log_prob, TIE) == ranks(totals, log_prob)


def test_a_tokenizer_that_merges_symbols_has_no_tree() -> None:
    """Two digits, the prefix and a digit, the end of a value, or a symbol in several tokens."""
    plain, space = ("^", *"0123456789#ab"), Space((tuple("ab"), tuple("12"), tuple("34")))
    for one in (digits(3), space):
        assert tree_of(LongestWords(plain), "#", one) is not None
    for merged in ("12", "99", "#0", "00"):
        assert tree_of(LongestWords((*plain, merged)), "#", digits(3)) is None
    assert tree_of(LongestWords((*plain, "24")), "#", space) is None
    assert tree_of(LongestWords(plain), "#", Space((("10", "11"),) * 2)) is None


def test_too_many_pairs_to_check_have_no_tree() -> None:
    words = tuple(chr(0x4E00 + i) for i in range(150))
    assert tree_of(LongestWords(("^", *words)), "", Space((words[:100],) * 2)) is not None
    assert tree_of(LongestWords(("^", *words)), "", Space((words,) * 2)) is None


def test_values_out_of_the_tree_are_known() -> None:
    """Six digits that merge only together, in a vocabulary that is not listed, are not noticed."""
    tokenizer = LongestWords(("^", *"0123456789", "123456"))
    tree = tree_of(tokenizer, "", digits(6))
    assert tree is not None
    assert tree.holds(tokenizer.encode("123457")) and not tree.holds(tokenizer.encode("123456"))
    assert not tree.holds([11, 1, 1, 1, 1, 1]) and not tree.holds([1, 1])


def test_secrets_are_found_again_however_long() -> None:
    """More symbols than a number has digits."""
    draw = np.random.default_rng(0).integers(0, 10, (50, 24))
    near = draw.copy()
    near[:, 0] = (near[:, 0] + 1) % 10
    found = Visited(np.zeros(100), np.concatenate([near, draw]), *2 * [np.zeros(0)], 1)
    absent = (draw[0] + 1) % 10
    at = found.places([*draw.tolist(), absent.tolist()])
    assert at.tolist() == [*range(50, 100), -1]
    alike = np.array([[1_000_003, 0], [0, 1]])  # two that the first look cannot tell apart
    assert Visited(np.zeros(2), alike, *2 * [np.zeros(0)], 1).places(alike.tolist()).tolist() == [
        0,
        1,
    ]
