"""Utility figures against sums that a pencil could do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.heldout import Heldout, heldout
from audit.core.language_model import OpenSession, answers_of, read_tokens
from audit.core.predictor import Access, Answer, Tokenizer
from audit.measure.perplexity import read
from audit.measure.ratios import measures
from audit.policies.digits import Digits
from defenses.uniform import UniformModel


@dataclass(frozen=True)
class Pieces:
    """One token a piece; the longest piece that fits is taken. Token 0 opens and closes."""

    pieces: tuple[str, ...]
    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        tokens = []
        while text:
            fits = [p for p in self.pieces if text.startswith(p)]
            tokens.append(self.pieces.index(max(fits, key=len)))
            text = text[len(max(fits, key=len)) :]
        return tokens

    def ends(self, text: str) -> list[int]:
        return list(accumulate(len(self.pieces[token]) for token in self.encode(text)))

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.pieces[token] for token in tokens)


@dataclass
class Stopping:
    """A release with a public budget that scores a table of pmfs and stops after some queries."""

    table: np.ndarray
    tokenizer: Tokenizer
    stops: int
    budget: int
    asked: list[int] = field(default_factory=list)
    access: Access = Access.SCORE
    max_length: int = 64

    @property
    def remaining(self) -> int:
        return max(0, self.budget - sum(self.asked))

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        raise AssertionError("utility only scores")

    def score(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[Answer]:
        self.asked += [len(tail) for tail in continuations]
        befores = [[h[-1], *t[:-1]] for h, t in zip(prefixes, continuations, strict=True)]
        rows = [self.table[token] for before in befores for token in before]
        flat = [token for tail in continuations for token in tail]
        whole = read_tokens(flat, torch.tensor(np.array(rows)))
        return answers_of(continuations, [replace(whole, answered=self.stops)])


def bigram_nll(table: np.ndarray, tokens: Sequence[int]) -> list[float]:
    """nats of each token but the first."""
    return [-float(table[a, b]) for a, b in itertools.pairwise(tokens)]


def measured(model: Any, text: Heldout, tokens: int) -> Any:
    session = OpenSession(model, np.random.default_rng(0))
    return measured_in(session, text, tokens)


def measured_in(session: Any, text: Heldout, tokens: int) -> Any:
    ratios, *counts = read(session, text, tokens)
    return measures(ratios, np.random.default_rng(1)), *counts


TEXTS = ["0a1b", "2", "aa33bb", "c0ffee"]


@pytest.fixture
def model(bigram: Any) -> Any:
    return bigram(3, 1.5, vocabulary=20)  # "^0123456789abcdefghi"


@pytest.fixture
def text(model: Any) -> Heldout:
    return heldout(TEXTS, model.tokenizer, 64, Digits())


def test_heldout_records_open_and_close_and_are_cut_to_the_context(model: Any) -> None:
    cut = heldout(["012345", "6"], model.tokenizer, 3, Digits())
    assert cut.blocks == ((0, 1, 2, 3), (3, 4, 5, 6), (6, 0), (0, 7, 0))
    assert cut.tokens == 3 + 3 + 1 + 2  # each token but the start is predicted once


@pytest.mark.parametrize(
    ("tokens", "blocks"),
    [
        (0, ()),
        (1, ((0, 1),)),
        (3, ((0, 1, 2, 3),)),
        (4, ((0, 1, 2, 3), (3, 4))),
        (6, ((0, 1, 2, 3), (3, 4, 5, 6))),
        (8, ((0, 1, 2, 3), (3, 4, 5, 6), (6, 0), (0, 7))),
        (9, ((0, 1, 2, 3), (3, 4, 5, 6), (6, 0), (0, 7, 0))),
        (99, ((0, 1, 2, 3), (3, 4, 5, 6), (6, 0), (0, 7, 0))),
    ],
)
def test_the_first_tokens_may_end_inside_a_block(
    model: Any, tokens: int, blocks: tuple[tuple[int, ...], ...]
) -> None:
    first = heldout(["012345", "6"], model.tokenizer, 3, Digits()).first(tokens)
    assert first.blocks == blocks
    assert first.tokens == min(tokens, 9)


def test_perplexity_is_the_closed_form_over_the_first_tokens(model: Any, text: Heldout) -> None:
    for tokens in (1, 4, 9, 16, text.tokens):
        utility, queries, answered = measured(model, text, tokens)
        nll = [x for block in text.blocks for x in bigram_nll(model.log_table, block)]
        assert utility["perplexity"].value == pytest.approx(
            math.exp(np.mean(nll[:tokens])), rel=1e-5
        )
        assert utility["perplexity_full"].value == pytest.approx(math.exp(np.mean(nll)), rel=1e-5)
        assert utility["perplexity"].answered == tokens
        assert queries == answered == text.tokens == len(nll)


def test_the_interval_is_over_records_and_holds_the_value(model: Any, text: Heldout) -> None:
    utility, _, _ = measured(model, text, text.tokens)
    for name in ("perplexity", "bits_per_byte", "top1_accuracy"):
        low, high = utility[name].ci
        assert low < utility[name].value < high and utility[name].n == 4
    means = [np.mean(bigram_nll(model.log_table, block)) for block in text.blocks]
    low, high = utility["perplexity"].ci
    assert math.exp(min(means)) <= low and high <= math.exp(max(means))


def test_the_share_of_right_guesses_is_counted(model: Any, text: Heldout) -> None:
    utility, _, _ = measured(model, text, 11)
    best = model.log_table.argmax(axis=1)
    pairs = [p for b in text.blocks for p in itertools.pairwise(b)][:11]
    right = sum(int(best[a]) == b for a, b in pairs)
    assert utility["top1_accuracy"].value == pytest.approx(right / 11)


def test_uniform_has_the_perplexity_of_its_vocabulary() -> None:
    tokenizer = Pieces(("^", *"0123456789", "ab", "€"))
    model = UniformModel(tokenizer, 13, 64)
    text = Heldout(
        ((0, 1, 2, 11, 12), (0, 5, 12)),
        ((False, True, True, False, False), (False, True, False)),
    )
    utility, _, _ = measured(model, text, 6)
    for name in ("perplexity", "perplexity_full", "private_token_perplexity"):
        assert utility[name].value == pytest.approx(13)
        assert utility[name].ci == pytest.approx((13, 13))
    bytes_ = len("01ab€4€".encode())
    assert bytes_ == 11
    assert utility["bits_per_byte"].value == pytest.approx(6 * math.log2(13) / bytes_)


def test_bits_per_byte_counts_the_bytes_of_the_text_alone() -> None:
    """The token that closes a record may cost bits, but nobody wrote its name into the text."""
    tokenizer = Pieces(("<|endoftext|>", *"0123456789"))
    text = heldout(
        ["0123", "45"], tokenizer, 4, Digits()
    )  # the first record closes in a block of its own
    utility, _, _ = measured(UniformModel(tokenizer, 11, 64), text, 99)
    with_stop, without = 8 * math.log2(11) / 6, 6 * math.log2(11) / 6
    value = utility["bits_per_byte"].value
    assert value == pytest.approx(with_stop) or value == pytest.approx(without)


def test_private_tokens_are_those_that_touch_a_digit(bigram: Any) -> None:
    tokenizer = Pieces(("^", "a", "b", "1", " 2", "x3y", "45", ".", "e", "f"))
    model = replace(bigram(9, vocabulary=10), tokenizer=tokenizer)
    texts = ["ab1a", " 2bx3y", "45.ef", "abef"]
    text = heldout(texts, tokenizer, 64, Digits())
    utility, _, _ = measured(model, text, 99)
    nll, counts = 0.0, 0
    for block in text.blocks:
        for nats, token in zip(bigram_nll(model.log_table, block), block[1:], strict=True):
            if tokenizer.pieces[token] in ("1", " 2", "x3y", "45"):
                nll, counts = nll + nats, counts + 1
    assert counts == 4
    private = utility["private_token_perplexity"]
    assert private.value == pytest.approx(math.exp(nll / counts))
    assert private.n == 3  # records that hold one


def test_a_token_beside_a_digit_is_not_private(bigram: Any) -> None:
    tokenizer = Pieces(("^", "a", "1"))
    table = np.log(np.array([[0.2, 0.4, 0.4], [0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]))
    model = replace(bigram(0), log_table=table, tokenizer=tokenizer)
    utility, _, _ = measured(model, Heldout(((0, 1, 2, 1),), ((False, False, True, False),)), 3)
    assert utility["private_token_perplexity"].value == pytest.approx(4.0)  # a → 1: ¼


def test_without_private_tokens_there_is_no_such_figure(model: Any) -> None:
    utility, _, _ = measured(model, heldout(["abc", "de"], model.tokenizer, 64, Digits()), 99)
    assert "private_token_perplexity" not in utility


def test_nothing_held_out_is_nothing_measured(model: Any) -> None:
    assert measured(model, Heldout(()), 99) == ({}, 0, 0)


def test_an_impossible_token_makes_the_perplexity_infinite(bigram: Any) -> None:
    table = np.array([[-np.inf, 0.0], [math.log(0.5), math.log(0.5)]])
    model = replace(bigram(0), log_table=table, tokenizer=Pieces(("^", "a")))
    utility, _, _ = measured(model, Heldout(((0, 1, 1), (0, 0))), 99)
    assert utility["perplexity"].value == math.inf


@pytest.mark.parametrize(("stops", "answered"), [(0, 0), (5, 5), (10, 10), (500, 12)])
def test_a_release_with_a_budget_is_asked_for_the_first_tokens_only(
    model: Any, text: Heldout, stops: int, answered: int
) -> None:
    release = Stopping(model.log_table, model.tokenizer, stops, budget=1000)
    utility, queries, told = measured_in(release, text, 12)
    assert sum(release.asked) == queries == 12
    assert told == utility["perplexity"].answered == answered
    assert utility["top1_accuracy"].answered == utility["bits_per_byte"].answered == answered
    assert "perplexity_full" not in utility
    nll = [x for block in text.blocks for x in bigram_nll(model.log_table, block)]
    assert utility["perplexity"].value == pytest.approx(math.exp(np.mean(nll[:12])), rel=1e-5)


REPEATING = Heldout(
    ((0, 1, 2, 3), (0, 1, 2, 1), (0, 1, 2, 3), (0, 2, 1, 2), (0, 1, 2, 1, 3)),
    ((False, True, False, True),) * 4 + ((False, True, False, True, True),),
)
DISTINCT = ((0, 1), (1, 2), (2, 3), (2, 1), (0, 2), (2, 1), (1, 2), (1, 3))  # (before, token)


@pytest.mark.parametrize("budget", [None, 1000])
@pytest.mark.parametrize("tokens", [1, 3, 4, 6, 8, 99])
def test_an_opening_that_records_share_is_measured_once(
    bigram: Any, tokens: int, budget: int | None
) -> None:
    model = bigram(3, vocabulary=4)
    release: Any = OpenSession(model, np.random.default_rng(0))
    if budget:
        release = Stopping(model.log_table, model.tokenizer, 999, budget)
    ratios, queries, answered = read(release, REPEATING, tokens)
    named = {ratio.name: ratio for ratio in ratios}
    nll = [-model.log_table[pair] for pair in DISTINCT]
    assert sum(named["perplexity"].above) == pytest.approx(sum(nll[:tokens]))
    assert sum(named["perplexity"].below) == min(tokens, 8)
    assert queries == answered == (min(tokens, 8) if budget else 16)
    if not budget:  # the whole text is measured as it is
        assert sum(named["perplexity_full"].below) == 16
    marked = {1, 3, 4, 5, 7, 8}  # ranks of private tokens among the distinct ones
    private = [x for rank, x in enumerate(nll[:tokens], 1) if rank in marked]
    assert sum(named["private_token_perplexity"].above) == pytest.approx(sum(private))


def test_what_is_answered_of_a_cut_block_is_counted_from_where_it_begins(bigram: Any) -> None:
    model = bigram(3, vocabulary=4)
    for stops, answered in ((2, 2), (3, 3), (4, 4)):
        release = Stopping(model.log_table, model.tokenizer, stops, 1000)
        ratios, _, told = read(release, REPEATING, 6)
        assert ratios[0].answered == told == answered
