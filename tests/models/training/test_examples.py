"""What one protected unit trains on: its own rows and weights, whoever else is in the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core.training import Training
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.examples import (
    Example,
    Marked,
    collated,
    examples_of,
    marked_records,
    physical_batches,
    poisson,
)

CPU = torch.device("cpu")
METHOD = PrivateRecipe(Noise(1.0, 1.0), 0.5, 1, 10, 0.1, max_length=4)


@dataclass(frozen=True)
class Pairs:
    """Two characters a token, the last one perhaps alone; 0 opens and 1 closes."""

    start: int = 0
    stop: int = 1

    def encode(self, text: str) -> list[int]:
        return [2 + sum(map(ord, text[i : i + 2])) for i in range(0, len(text), 2)]

    def ends(self, text: str) -> list[int]:
        return [min(i + 2, len(text)) for i in range(0, len(text), 2)]


def training(texts: Sequence[str], owners: Sequence[str]) -> Training:
    return Training("dp_sgd", tuple(texts), METHOD, 0, tuple(owners))


# --- examples of owners


@given(
    st.lists(st.tuples(st.text("abc", max_size=20), st.sampled_from("xyz")), min_size=1),
    st.integers(1, 9),
)
def test_an_example_is_its_owners_mean(told: list[tuple[str, str]], max_length: int) -> None:
    texts, owners = zip(*told, strict=True)
    found = examples_of(training(texts, owners), Pairs(), max_length)
    assert len(found) == len(set(owners))
    for owner, example in zip(dict.fromkeys(owners), found, strict=True):
        mine = [[0, *Pairs().encode(t), 1] for t, who in told if who == owner]
        predictions = Counter(pair for tokens in mine for pair in pairwise(tokens))
        rows = [pair for tokens, _ in example.rows for pair in pairwise(tokens)]
        assert Counter(rows) == predictions  # a cut loses none and repeats none
        weights = [w for _, weights in example.rows for w in weights]
        assert sum(weights) == pytest.approx(1) and len(set(weights)) == 1
        assert len(weights) == len(rows)
        assert example.width <= max_length


def test_no_example_depends_on_the_others() -> None:
    long = examples_of(training(["abcdef", "u" * 40], ["a", "b"]), Pairs(), 8)
    short = examples_of(training(["abcdef", "u"], ["a", "b"]), Pairs(), 8)
    alone = examples_of(training(["abcdef"], ["a"]), Pairs(), 8)
    assert long[0] == short[0] == alone[0] and long[1] != short[1]


def test_texts_without_an_owner_each_are_an_error() -> None:
    with pytest.raises(ValueError):
        examples_of(training(["ab", "cd"], ["a"]), Pairs(), 8)


# --- marked records


def test_a_token_with_private_characters_is_private() -> None:
    texts, spans = ("abcdefgh", "ab", ""), (((3, 5),), (), ())
    selective = replace(training(texts, ["a", "b", "c"]), private=spans)
    spoken, plain, empty = marked_records(selective, Pairs())
    assert spoken.tokens == (0, *Pairs().encode("abcdefgh"), 1)
    #                        ^      ab     cd    ef    gh     $
    assert spoken.marks == (False, False, True, True, False, False)
    assert plain.marks == (False, False, False) and empty.marks == (False, False)


@st.composite
def marked(draw: st.DrawFn) -> Marked:
    marks = draw(st.lists(st.booleans(), min_size=2, max_size=30))
    return Marked(tuple(range(len(marks))), tuple(marks))


@given(marked())
def test_a_prediction_with_private_tokens_is_private(record: Marked) -> None:
    assert len(record.pairs) == len(record) - 1
    for t, private in enumerate(record.pairs):
        assert private == (record.marks[t] or record.marks[t + 1])


@given(marked())
def test_runs_alternate_and_cover_all_predictions(record: Marked) -> None:
    runs = record.runs()
    covered = [t for _, first, last in runs for t in range(first, last)]
    assert covered == list(range(len(record) - 1))
    assert all(first < last for _, first, last in runs)
    assert all(one[0] != other[0] for one, other in pairwise(runs))  # each is maximal
    for private, first, last in runs:
        assert record.pairs[first:last] == [private] * (last - first)


@given(marked(), st.integers(1, 40))
def test_a_record_cut_off_keeps_its_first_predictions(record: Marked, n: int) -> None:
    short = record.first(n)
    assert len(short.pairs) == min(n, len(record.pairs))
    assert short.pairs == record.pairs[:n] and short.tokens == record.tokens[: n + 1]


def test_an_example_by_hand() -> None:
    record = Marked((0, 5, 6, 7, 8, 1), (False, False, True, False, False, False))
    assert record.pairs == [False, True, True, False, False]
    assert record.runs() == [(False, 0, 1), (True, 1, 3), (False, 3, 5)]
    example = record.private_example(3)
    assert example is not None
    assert [(list(t), list(w)) for t, w in example.rows] == [
        ([0, 5, 6, 7], [0, 0.5, 0.5]),
        ([7, 8, 1], [0, 0]),
    ]


@given(marked(), st.integers(1, 12))
def test_a_private_example_counts_private_predictions_only(record: Marked, length: int) -> None:
    example = record.private_example(length)
    if example is None:
        assert not any(record.marks)
        return
    counted = [
        (pair, weight)
        for tokens, weights in example.rows
        for pair, weight in zip(pairwise(tokens), weights, strict=True)
    ]
    assert [pair for pair, _ in counted] == list(pairwise(record.tokens))
    assert [weight > 0 for _, weight in counted] == record.pairs
    assert sum(weight for _, weight in counted) == pytest.approx(1)
    assert len({weight for _, weight in counted if weight > 0}) == 1
    assert example.width <= length


# --- who is drawn


def some(count: int) -> list[Example]:
    return [Example((((0, i, 1), (0.5, 0.5)),)) for i in range(count)]


def test_nobody_and_everybody() -> None:
    coins = np.random.default_rng(0)
    assert poisson(some(50), 0.0, coins) == []
    assert poisson(some(50), 1.0, coins) == some(50)
    assert poisson([], 0.5, coins) == []


def test_each_example_has_a_coin_of_its_own() -> None:
    coins: Any = SimpleNamespace(random=lambda count: np.array([0.1, 0.5, 0.19, 0.2])[:count])
    assert poisson(some(4), 0.2, coins) == [some(4)[0], some(4)[2]]


# --- batches

shapes = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=4), max_size=25)


def of_widths(widths: Sequence[Sequence[int]]) -> list[Example]:
    """One example for each list, with a row of each width; every token and weight is its own."""
    count, examples = 1, []
    for mine in widths:
        rows = []
        for width in mine:
            rows.append(
                (range(count, count + width + 1), [1.0 / (count + t) for t in range(width)])
            )
            count += width + 1
        examples.append(Example(tuple(rows)))
    return examples


@given(shapes, st.integers(1, 120))
def test_physical_batches_hold_all_within_size(widths: list[list[int]], tokens: int) -> None:
    examples = of_widths(widths)
    groups = list(physical_batches(examples, tokens))
    assert Counter(id(e) for group in groups for e in group) == Counter(map(id, examples))
    for group in groups:
        rows, width = max(len(e.rows) for e in group), max(e.width for e in group)
        assert len(group) == 1 or len(group) * rows * width <= tokens
        padding = len(group) * rows * width - sum(len(e.rows) * e.width for e in group)
        assert padding <= 128  # tokens in whose time a further pass begins


def test_unlike_shapes_are_batched_apart() -> None:
    many_short, few_long = [[15] * 12] * 10, [[60] * 2] * 10
    groups = list(physical_batches(of_widths([*few_long, *many_short]), 100_000))
    assert [len(e.rows) for group in groups for e in group] == [12] * 10 + [2] * 10
    assert list(map(len, groups)) == [10, 10]


def test_short_examples_of_different_lengths_are_read_together() -> None:
    examples = of_widths([[width] for width in (1, 2, 3, 5, 8, 13, 21)])
    assert len(list(physical_batches(examples, 4096))) == 1


@given(shapes, st.integers(1, 120))
def test_a_batch_gives_back_each_example(widths: list[list[int]], tokens: int) -> None:
    examples = of_widths(widths)
    seen: list[list[tuple[int, int, float]]] = []
    for batch in collated(examples, tokens, CPU):
        for i in range(batch.examples):
            rows: list[tuple[int, int, float]] = []
            for block in batch.part(i, i + 1).blocks:
                assert block.inputs.shape == block.targets.shape == block.weights.shape
                assert len(block.inputs) == block.rows and block.inputs.numel()
                real = block.weights > 0
                read = (block.inputs[real], block.targets[real], block.weights[real])
                rows += zip(*(x.tolist() for x in read), strict=True)
            seen.append(sorted(rows))
    told = [
        sorted(
            (a, b, torch.tensor(w).item())
            for row, weights in example.rows
            for (a, b), w in zip(pairwise(row), weights, strict=True)
        )
        for example in examples
    ]
    assert sorted(seen) == sorted(told)


@given(shapes, st.integers(1, 60))
def test_no_block_exceeds_its_size(widths: list[list[int]], tokens: int) -> None:
    for batch in collated(of_widths(widths), tokens, CPU):
        sizes = [block.inputs.numel() for block in batch.blocks]
        if batch.chunked:
            assert batch.examples == 1
            pairs = zip(sizes, batch.blocks, strict=True)
            assert all(size <= tokens or len(block.inputs) == 1 for size, block in pairs)
        else:
            assert sum(sizes) <= tokens


def test_short_and_long_rows_are_padded_apart() -> None:
    people = of_widths([[60, 3, 3, 3, 3, 3], [58, 4, 3, 3], [4, 62]])
    (batch,) = collated(people, 4096, CPU)
    shapes = sorted((block.rows, block.inputs.shape[1]) for block in batch.blocks)
    assert shapes == [(1, 62), (5, 4)]
    assert sum(block.inputs.numel() for block in batch.blocks) == 3 * (62 + 5 * 4)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_records_of_one_row_stand_in_one_block(widths: list[int]) -> None:
    for batch in collated(of_widths([[width] for width in widths]), 50, CPU):
        assert len(batch.blocks) == 1
