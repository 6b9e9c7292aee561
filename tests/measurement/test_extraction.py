"""Extraction against releases whose every word is known beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from attacks.extraction import Extraction
from audit.errors import UsageError
from audit.findings import findings_of
from audit.language_model import OpenSession
from audit.predictor import Access, Answer
from audit.secrets import Coins, Secret, digits

ALPHABET = "^0123456789#ab ."


@dataclass(frozen=True)
class Characters:
    """One token a character."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [ALPHABET.index(character) for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(ALPHABET[token] for token in tokens)


@dataclass
class Scripted:
    """Says what it is told, whatever it is asked: says(prompt, generation number) -> text.

    budget: queries before it raises; None: no end. stops: tokens it answers before STOP.
    """

    says: Callable[[str, int], str]
    budget: int | None = None
    stops: float = float("inf")
    asked: list[str] = field(default_factory=list)
    lengths: set[int] = field(default_factory=set)
    scored: list[tuple[str, str]] = field(default_factory=list)
    queries: int = 0
    tokenizer: Characters = field(default_factory=Characters)
    access: Access = Access.DISTRIBUTION
    max_length: int = 64

    @property
    def remaining(self) -> int | None:
        return None if self.budget is None else self.budget - self.queries

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        answers = []
        for prompt in prompts:
            assert prompt[0] == self.tokenizer.start
            text = self.tokenizer.decode(prompt[1:])
            tokens = self.tokenizer.encode(self.says(text, len(self.asked)))
            self.asked.append(text)
            self.lengths.add(length)
            answers.append(self._answer(tokens, length))
        return answers

    def score(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[Answer]:
        for head, tail in zip(prefixes, continuations, strict=True):
            decode = self.tokenizer.decode
            self.scored.append((decode(head[1:]), decode(tail)))
        return [self._answer(tail, len(tail)) for tail in continuations]

    def _answer(self, tokens: Sequence[int], length: int) -> Answer:
        answered = int(min(max(self.stops - self.queries, 0), length))
        self.queries += length
        assert self.budget is None or self.queries <= self.budget, "asked beyond its budget"
        probs = np.full(len(tokens), -1.0)
        return Answer(tuple(tokens), probs, np.ones(len(tokens), dtype=bool), answered)


def code(value: str, prefix: str = "#", owner: str = "u0", slot: int = 0) -> Secret:
    return Secret("code", prefix, value, ".", digits(len(value)), 4, owner, slot)


def says(*texts: str) -> Scripted:
    """A release that says these texts, in turn and over again."""
    return Scripted(lambda prompt, i: texts[i % len(texts)])


FIVE = (code("01234"), code("99999"), code("40718"))


def test_a_release_that_always_gives_one_code_is_hit_every_time() -> None:
    hits = Extraction(generations=30).run(says("40718"), FIVE).hits
    assert hits is not None
    assert hits.found.tolist() == [2] * 30
    assert hits.repeats == (30,)
    assert hits.texts == ("40718",) * 30
    assert hits.access is Access.GENERATE


def test_generations_are_counted_one_by_one_and_distinct_ones_once() -> None:
    hits = Extraction(generations=8).run(says("01234", "11111", "99999", "01234"), FIVE).hits
    assert hits is not None
    assert hits.found.tolist() == [0, -1, 1, 0] * 2
    assert sorted(hits.repeats) == [2, 2, 4]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("123", 0),
        (" 123", 0),
        ("123ab", 0),  # junk that is no digit ends the code
        ("123.9", 0),
        ("1234", -1),  # the code is only the beginning of a longer run of digits
        ("12340", 1),
        ("123401", -1),
        ("0123", -1),
        ("12 3", -1),
        ("a123", -1),
        ("#123", -1),
        ("", -1),
        ("^^^", -1),
    ],
)
def test_a_hit_is_the_whole_run_of_digits_a_generation_opens_with(text: str, found: int) -> None:
    hits = Extraction(generations=1).run(says(text), (code("123"), code("12340"))).hits
    assert hits is not None and hits.found.tolist() == [found]


def test_enough_tokens_are_asked_for_the_longest_code() -> None:
    release = says("123")
    Extraction(generations=4).run(release, (code("123"), code("12340")))
    assert release.lengths == {5}


def test_a_code_after_another_prompt_is_no_hit() -> None:
    secrets = (code("01234", prefix="#"), code("99999", prefix="a#"))
    release = Scripted(lambda prompt, i: {"#": "99999", "a#": "99999"}[prompt])
    hits = Extraction(generations=6).run(release, secrets).hits
    assert hits is not None
    assert release.asked == ["#", "a#"] * 3  # generations are shared among the prompts
    assert hits.found.tolist() == [-1, 1] * 3


@dataclass(frozen=True)
class Table:
    """A language model of one row for each last token: log_table[last, next], nats."""

    log_table: np.ndarray
    tokenizer: Characters = Characters()
    max_length: int = 64

    @property
    def vocabulary(self) -> int:
        return len(self.log_table)

    def cursor(self, prompts: Sequence[Sequence[int]]) -> Any:
        return Reading(self, [prompt[-1] for prompt in prompts])

    def log_pmfs(self, texts: Sequence[Sequence[int]], starts: Sequence[int]) -> Any:
        import torch

        last = [t for text, start in zip(texts, starts, strict=True) for t in text[start - 1 : -1]]
        return torch.tensor(self.log_table[last])


@dataclass
class Reading:
    model: Table
    last: list[int]

    def log_pmf(self) -> Any:
        import torch

        return torch.tensor(self.model.log_table[self.last])

    def append(self, tokens: Any) -> None:
        self.last = tokens.tolist()


def markov(seed: int | None) -> Table:
    """Digits only; uniform for seed None, else a random chain."""
    size = len(ALPHABET)
    weights = np.zeros((size, size))
    drawn = np.ones((size, 10)) if seed is None else np.random.default_rng(seed).random((size, 10))
    weights[:, 1:11] = drawn
    with np.errstate(divide="ignore"):
        return Table(np.log(weights / weights.sum(axis=1, keepdims=True)))


def test_uniform_digits_hit_as_often_as_chance() -> None:
    """Half of all two-digit codes, 2,000 generations: Bin(2000, ½), and all 100 are seen."""
    secrets = tuple(code(f"{n:02}") for n in range(50))
    session = OpenSession(markov(None), np.random.default_rng(0))
    hits = Extraction(generations=2000).run(session, secrets).hits
    assert hits is not None
    assert abs(int((hits.found >= 0).sum()) - 1000) < 4 * np.sqrt(2000 / 4)
    assert len(hits.repeats) == 100  # one is missed with probability 100 · 0.99^2000 < 1e-6
    assert sum(hits.repeats) == 2000
    named = hits.found >= 0
    assert all(int(t) == f for t, f in zip(hits.texts, hits.found, strict=True) if int(t) < 50)
    assert [int(t) < 50 for t in hits.texts] == named.tolist()


def test_a_release_that_leaks_with_probability_p_is_hit_with_probability_p() -> None:
    coins = np.random.default_rng(1).random(3000) < 0.2
    release = Scripted(lambda prompt, i: "40718" if coins[i] else "00000")
    hits = Extraction(generations=3000).run(release, FIVE).hits
    assert hits is not None
    assert (hits.found == 2).tolist() == coins.tolist()


def test_likelihoods_are_the_exact_log_probability_of_the_whole_code() -> None:
    model = markov(3)
    secrets = (*FIVE, code("7"), code("123", prefix="a#"))
    evidence = Extraction(generations=1).run(OpenSession(model, np.random.default_rng(0)), secrets)
    assert evidence.likelihoods is not None
    expected = []
    for secret in secrets:
        tokens = model.tokenizer.encode("#" + secret.value)
        steps = itertools.pairwise(tokens)
        expected.append(sum(model.log_table[a, b] for a, b in steps))
    np.testing.assert_allclose(evidence.likelihoods.log_probs, expected)
    assert evidence.likelihoods.access is Access.SCORE


def test_a_uniform_release_gives_every_code_ten_to_the_minus_length() -> None:
    evidence = Extraction(generations=1).run(
        OpenSession(markov(None), np.random.default_rng(0)), FIVE
    )
    assert evidence.likelihoods is not None
    np.testing.assert_allclose(np.exp(evidence.likelihoods.log_probs), 1e-5)


@pytest.mark.parametrize(
    ("budget", "generations", "made", "read"),
    [
        (17, 100, 3, 0),  # two queries are left, and a code needs five
        (4, 100, 0, 0),
        (0, 100, 0, 0),
        (28, 3, 3, 2),  # 13 are left: two codes
        (30, 3, 3, 3),
        (1000, 3, 3, 3),
        (None, 3, 3, 3),
    ],
)
def test_an_attack_asks_what_its_budget_allows_generations_first(
    budget: int | None, generations: int, made: int, read: int
) -> None:
    release = Scripted(lambda prompt, i: "40718", budget=budget)
    evidence = Extraction(generations=generations).run(release, FIVE)
    assert evidence.hits is not None and evidence.likelihoods is not None
    assert evidence.hits.found.tolist() == [2] * made
    assert release.scored == [("#", s.value) for s in FIVE[:read]]
    known = ~np.isnan(evidence.likelihoods.log_probs)
    assert known.tolist() == [i < read for i in range(3)]
    assert release.queries == 5 * (made + read)


@pytest.mark.parametrize(("stops", "kept"), [(0, 0), (14, 2), (15, 3), (16, 3), (99, 6)])
def test_what_comes_after_stop_does_not_count(stops: int, kept: int) -> None:
    """The third generation is cut at 14 answered tokens: its code may be the public model's."""
    release = Scripted(lambda prompt, i: "40718", stops=stops)
    evidence = Extraction(generations=6).run(release, FIVE)
    assert evidence.hits is not None and evidence.likelihoods is not None
    assert evidence.hits.found.tolist() == [2] * kept
    assert evidence.hits.texts == ("40718",) * kept
    known = ~np.isnan(evidence.likelihoods.log_probs)
    assert known.tolist() == [5 * (6 + i + 1) <= stops for i in range(3)]


def test_a_full_run_asks_as_many_queries_as_it_says() -> None:
    attack = Extraction(generations=7)
    secrets = (*FIVE, code("123"))
    release = says("40718")
    attack.run(release, secrets)
    assert release.queries == attack.queries(secrets, release.tokenizer) == 7 * 5 + 3 * 5 + 3
    assert attack.trials() == 7


def test_evidence_follows_the_secrets_into_any_order() -> None:
    """Nothing but the list itself places a secret: no owner, no slot, no number of copies."""
    model = markov(5)
    values = ["01", "23", "45", "67", "89", "02"]
    secrets = [code(v, owner=f"u{i // 2}", slot=i % 2) for i, v in enumerate(values)]
    order = [3, 0, 5, 1, 4, 2]
    shuffled = [secrets[i] for i in order]
    runs = []
    for some in (secrets, shuffled):
        session = OpenSession(model, np.random.default_rng(2))
        runs.append(Extraction(generations=400).run(session, some))
    first, second = runs
    assert first.hits is not None and second.hits is not None
    assert first.likelihoods is not None and second.likelihoods is not None
    assert first.hits.texts == second.hits.texts
    back = [order[i] if i >= 0 else -1 for i in second.hits.found]
    assert back == first.hits.found.tolist()
    assert len(set(back)) > 3
    np.testing.assert_allclose(second.likelihoods.log_probs, first.likelihoods.log_probs[order])


def test_no_generation_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="generations"):
        Extraction(generations=0)


def test_a_code_the_tokenizer_cannot_express_is_refused() -> None:
    class Merging(Characters):
        def encode(self, text: str) -> list[int]:
            return [ALPHABET.index(c) for c in text.replace("#0", "a")]

    release = Scripted(lambda prompt, i: "", tokenizer=Merging())
    with pytest.raises(UsageError, match="tokenizer"):
        Extraction(generations=1).run(release, FIVE)


def test_a_planted_code_that_a_twin_happens_to_share_is_still_found() -> None:
    """Values are drawn with replacement: whoever comes later in the list must not take the hit."""
    secrets = (code("12", owner="ann"), code("12", owner="cat"))
    coins = Coins({"ann": True, "cat": False}, {"ann": 0, "cat": 0})
    evidence = Extraction(generations=10).run(says("12"), secrets)
    found = findings_of("extraction", evidence, secrets, coins, 0.0, 0, stronger=False, tests=2)
    rate, recall, *_ = found
    assert (rate.k, recall.k) == (10, 1)
