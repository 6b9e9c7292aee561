"""Extraction against releases whose every word is known beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from attacks.extraction import Extraction
from audit.contract.toys import Bigram, CharacterTokenizer
from audit.core.attack import Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Hits, Likelihoods, Successes
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Answer, Given
from audit.core.secret import Coins, Secret, digits
from audit.findings import Case, measurements_of
from audit.measure.samples import Counted
from tests.attacks.scripted import Scripted, says
from tests.refusals import refusals

ALPHABET = "^0123456789#ab ."
CHARACTERS = CharacterTokenizer(ALPHABET)


def of_weights(weights: np.ndarray) -> Bigram:
    """A model of one row of weights for each last token."""
    with np.errstate(divide="ignore"):
        return Bigram(np.log(weights / weights.sum(axis=1, keepdims=True)), CHARACTERS)


def code(value: str, prefix: str = "#", owner: str = "u0", slot: int = 0) -> Secret:
    return Secret("code", prefix, value, ".", digits(len(value)), 4, owner, slot)


scripted, told = partial(Scripted, tokenizer=CHARACTERS), partial(says, tokenizer=CHARACTERS)
FIVE = (code("01234"), code("99999"), code("40718"))
NOTHING: Any = Knowledge(None, (), (), (), None)  # type: ignore[arg-type]


def attacked(release: Any, secrets: Sequence[Secret], **parameters: Any) -> list[Evidence]:
    """What is seen; by default nothing is searched for and no record continued."""
    attack = Extraction(**{"searched": 0, "suffix": 0, **parameters})
    return list(attack.run(release, secrets, NOTHING))


def generated(release: Any, secrets: Sequence[Secret], **parameters: Any) -> Hits:
    hits = attacked(release, secrets, **parameters)[0]
    assert isinstance(hits, Hits) and hits.sampled
    return hits


def read(release: Any, secrets: Sequence[Secret], **parameters: Any) -> Likelihoods:
    likelihoods = attacked(release, secrets, **parameters)[1]
    assert isinstance(likelihoods, Likelihoods)
    return likelihoods


def test_a_release_that_always_gives_one_code_is_hit_every_time() -> None:
    release = told("40718")
    hits = generated(release, (*FIVE, code("7")), generations=30)
    assert release.lengths == {5}  # enough for the longest code
    assert hits.found.tolist() == [2] * 30
    assert hits.repeats == (30,)
    assert hits.texts == ("40718",) * 30
    assert hits.access is Access.GENERATE


def test_generations_are_counted_one_by_one_and_distinct_ones_once() -> None:
    hits = generated(told("01234", "11111", "99999", "01234"), FIVE, generations=8)
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
    hits = generated(told(text), (code("123"), code("12340")), generations=1)
    assert hits.found.tolist() == [found]


def test_a_code_after_another_prompt_is_no_hit() -> None:
    secrets = (code("01234", prefix="#"), code("99999", prefix="a#"))
    release = scripted(lambda prompt, i: {"#": "99999", "a#": "99999"}[prompt])
    hits = generated(release, secrets, generations=6)
    assert release.asked == ["#", "a#"] * 3  # generations are shared among the prompts
    assert hits.found.tolist() == [-1, 1] * 3


def markov(seed: int | None) -> Bigram:
    """Digits only; uniform for seed None, else a random chain."""
    size = len(ALPHABET)
    weights = np.zeros((size, size))
    weights[:, 1:11] = 1.0 if seed is None else np.random.default_rng(seed).random((size, 10))
    return of_weights(weights)


def along(model: Bigram, secret: Secret) -> float:
    """The log-probability of a value after its words, from the table alone."""
    path = model.tokenizer.encode(secret.prefix[-1:] + secret.value)
    return float(sum(model.log_table[a, b] for a, b in itertools.pairwise(path)))


def test_likelihoods_are_the_exact_log_probability_of_the_whole_code() -> None:
    model = markov(3)
    secrets = (*FIVE, code("7"), code("123", prefix="a#"))
    found = read(OpenSession(model, np.random.default_rng(0)), secrets, generations=1)
    np.testing.assert_allclose(found.log_probs, [along(model, secret) for secret in secrets])
    assert found.access is Access.SCORE


@pytest.mark.parametrize(
    ("budget", "generations", "made", "known"),
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
    budget: int | None, generations: int, made: int, known: int
) -> None:
    release = scripted(lambda prompt, i: "40718", budget=budget)
    hits, likelihoods = attacked(release, FIVE, generations=generations)
    assert isinstance(hits, Hits) and isinstance(likelihoods, Likelihoods)
    assert hits.found.tolist() == [2] * made
    assert release.scored == [("#", s.value) for s in FIVE[:known]]
    assert (~np.isnan(likelihoods.log_probs)).tolist() == [i < known for i in range(3)]
    assert release.queries == 5 * (made + known)


@pytest.mark.parametrize(("stops", "kept"), [(0, 0), (14, 2), (15, 3), (16, 3), (99, 6)])
def test_what_comes_after_stop_does_not_count(stops: int, kept: int) -> None:
    """The third generation is cut at 14 answered tokens: its code may be the public model's."""
    release = scripted(lambda prompt, i: "40718", stops=stops)
    hits, likelihoods = attacked(release, FIVE, generations=6)
    assert isinstance(hits, Hits) and isinstance(likelihoods, Likelihoods)
    assert hits.found.tolist() == [2] * kept
    assert hits.texts == ("40718",) * kept
    known = ~np.isnan(likelihoods.log_probs)
    assert known.tolist() == [5 * (6 + i + 1) <= stops for i in range(3)]
    assert hits.whole == (kept == 6)


def test_a_code_the_tokenizer_cannot_express_is_refused() -> None:
    class Merging(CharacterTokenizer):
        def encode(self, text: str) -> list[int]:
            return [ALPHABET.index(c) for c in text.replace("#0", "a")]

    release = scripted(lambda prompt, i: "", tokenizer=Merging(ALPHABET))
    with pytest.raises(UsageError, match="tokenizer"):
        attacked(release, FIVE, generations=1)


def test_a_planted_code_that_a_twin_happens_to_share_is_still_found() -> None:
    """Values are drawn with replacement: whoever comes later in the list must not take the hit."""
    secrets = (code("12", owner="ann"), code("12", owner="cat"))
    coins = Coins({"ann": True, "cat": False}, {"ann": 0, "cat": 0})
    evidence = attacked(told("12"), secrets, generations=10)
    case = Case("extraction", secrets, coins, 0.0, 0, Access.DISTRIBUTION, tests=2)
    rate, recall, *_ = measurements_of(evidence, case)
    assert (rate.k, recall.k) == (10, 1)


# --- the most likely codes


def open_(model: Bigram) -> OpenSession:
    return OpenSession(model, np.random.default_rng(0))


def sought(release: Any, secrets: Sequence[Secret], **parameters: Any) -> Hits:
    found = attacked(release, secrets, generations=1, **parameters)[2]
    assert isinstance(found, Hits) and not found.sampled
    return found


def all_codes(length: int, prefix: str = "#") -> tuple[Secret, ...]:
    return tuple(code(f"{n:0{length}}", prefix) for n in range(10**length))


def by_probability(model: Bigram, secrets: Sequence[Secret]) -> list[int]:
    """Places of the secrets, the most likely first, from the table alone."""
    return np.argsort([-along(model, secret) for secret in secrets]).tolist()


@pytest.mark.parametrize("search", ["best_first", "beam"])
@pytest.mark.parametrize("wanted", [1, 7, 100])
def test_the_codes_tried_are_the_most_likely_of_all(search: str, wanted: int) -> None:
    """A beam as wide as the tree misses nothing either."""
    model, secrets = markov(3), all_codes(2)
    width = wanted if search == "best_first" else 100
    found = sought(open_(model), secrets, searched=width, search=search)
    assert found.found.tolist()[:wanted] == by_probability(model, secrets)[:wanted]
    assert found.repeats == (1,) * width
    assert (found.access, found.kind) == (Access.DISTRIBUTION, "code")


def test_values_that_are_nobodys_are_tried_as_well() -> None:
    model, secrets = markov(4), all_codes(3)
    order = by_probability(model, secrets)[:50]
    planted = tuple(secrets[i] for i in order[::5])  # every fifth
    found = sought(open_(model), planted, searched=50)
    assert found.found.tolist() == [i // 5 if i % 5 == 0 else -1 for i in range(50)]


def two_ways() -> Bigram:
    """After #: 1 (0.6) and then any digit, or 2 (0.4) and then 7 for certain."""
    weights = np.zeros((len(ALPHABET), len(ALPHABET)))
    weights[:, 1:11] = 0.1
    hashed, one, two, seven = (ALPHABET.index(c) for c in "#127")
    weights[hashed], weights[two] = 0.0, 0.0
    weights[hashed, one], weights[hashed, two], weights[two, seven] = 0.6, 0.4, 1.0
    return of_weights(weights)


@pytest.mark.parametrize(("search", "found"), [("best_first", [27]), ("beam", [10])])
def test_a_beam_misses_what_a_worse_beginning_leads_to(search: str, found: list[int]) -> None:
    """27 has probability 0.4, each of 10 … 19 has 0.06."""
    assert (
        sought(open_(two_ways()), all_codes(2), searched=1, search=search).found.tolist() == found
    )


def test_where_a_search_finds_nothing_in_its_budget_a_beam_does() -> None:
    counted = Counted(open_(two_ways()))
    assert sought(counted, all_codes(2)[:20], searched=1, budget=1).found.tolist() == [10]
    assert counted.queries == 2 + 20 * 2 + 1 + 2  # generated, read, opened, and the beam


def test_prompts_share_what_is_searched_for() -> None:
    model, secrets = markov(6), (*all_codes(2), *all_codes(2, prefix="a#"))
    found = sought(open_(model), secrets, searched=10).found.tolist()
    best = by_probability(model, secrets[:100])[:5]  # both prompts end alike
    assert found == [*best, *(100 + i for i in best)]


@pytest.mark.parametrize("search", ["best_first", "beam"])
def test_prefixes_opened_after_stop_give_no_code(search: str) -> None:
    release = scripted(lambda prompt, i: "40718", stops=5 + 15 + 3)
    found = sought(release, FIVE, searched=10, search=search)
    assert len(found.found) == 0 and not found.whole
    found = sought(scripted(lambda prompt, i: "40718"), FIVE, searched=10, search=search)
    assert len(found.found) == 10 and found.whole


# --- the second half of a record


def record(text: str, owner: str = "u0", slot: int = 0) -> Secret:
    return Secret("record", "", text, "", None, 1, owner, slot)


def opinionated(seed: int) -> Bigram:
    """A random chain over the whole alphabet."""
    return of_weights(np.exp(np.random.default_rng(seed).normal(size=(len(ALPHABET),) * 2)))


def continued(model: Bigram, head: str, length: int) -> str:
    """What greedy decoding adds to a head, from the table alone."""
    text = head
    for _ in range(length):
        text += ALPHABET[int(model.log_table[ALPHABET.index(text[-1])].argmax())]
    return text


def won(release: Any, secrets: Sequence[Secret], **parameters: Any) -> list[float]:
    (*_, found) = attacked(release, secrets, generations=1, **{"suffix": 50, **parameters})
    assert isinstance(found, Successes)
    assert (found.metric, found.kind, found.chance) == ("verbatim", "record", None)
    assert found.access is Access.SCORE
    return found.won.tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 9, 10])
def test_a_record_is_won_if_greedy_decoding_of_its_first_half_ends_it(length: int) -> None:
    """The start token belongs to the first half, which has the odd one."""
    model = opinionated(length)
    head = "ab 12#90ab"[: (length + 2) // 2 - 1]
    for seed in range(8):
        text = continued(opinionated(seed), "^" + head, length - len(head))[1:]
        expected = text == continued(model, "^" + head, length - len(head))[1:]
        assert won(open_(model), [record(text)]) == [float(expected)]
    exact = continued(model, "^" + head, length - len(head))[1:]
    assert len(exact) == length
    assert won(open_(model), [record(exact)]) == [1.0]
    for place in range(len(head), length):
        other = "0" if exact[place] == "." else "."
        changed = exact[:place] + other + exact[place + 1 :]
        assert won(open_(model), [record(changed)]) == [0.0]


def test_the_halves_are_those_of_the_whole_record_with_its_beginning() -> None:
    model = opinionated(2)
    text = continued(model, "^a", 11)[1:]
    other = "0" if text[7] != "0" else "1"
    broken, begun = text[:7] + other + text[8], text[1:9]
    parts = [(text[:9], text[9:]), (broken, text[9:]), ("#" + begun, text[9:])]
    records = [Secret("record", *part, "", None, 1, "u0", 0) for part in parts]
    assert won(open_(model), records) == [1.0, 0.0, 1.0]  # the last differs in the first half


def test_only_so_many_tokens_of_the_rest_must_follow() -> None:
    model = opinionated(1)
    exact = continued(model, "^ab 12#90", 9)[1:]
    wrong = exact[:-1] + ("0" if exact[-1] != "0" else "1")
    assert won(open_(model), [record(wrong)], suffix=8) == [1.0]
    assert won(open_(model), [record(wrong)], suffix=9) == [0.0]


def test_both_slots_of_a_record_are_read_once_and_codes_not_at_all() -> None:
    release = told("40718")
    pair = [record("ab 12", slot=0), record("ab 12", slot=1)]
    assert won(release, [FIVE[0], *pair])[1:] == [1.0, 1.0]
    assert np.isnan(won(release, [FIVE[0], *pair])[0])
    (found,) = attacked(release, pair, suffix=50)
    assert isinstance(found, Successes)
    assert release.scored[-1] == ("ab", " 12")
    assert [s for s in release.scored if s[0] == "ab"] == [("ab", " 12")] * 3  # once a run


@dataclass(frozen=True)
class Turns(CharacterTokenizer):
    alphabet: str = ALPHABET
    goes_on: bool = True


def test_of_a_conversation_all_before_the_turn_is_given_and_half_of_it() -> None:
    """Else what stands before would have to follow, too, which may be out of the loss."""
    model = replace(opinionated(3), tokenizer=Turns())
    for before in ("9a 0#0b9 1#", "b"):  # nothing that the model would say
        for length in (1, 2, 5, 6):
            given = "ab 1"[: length // 2]
            rest = continued(model, before + given, length - len(given))[len(before + given) :]
            wrong = rest[:-1] + ("0" if rest[-1] != "0" else "1")
            turns = [
                Secret("record", before, given + said, "", None, 1, "u0", 0)
                for said in (rest, wrong)
            ]
            assert won(open_(model), turns) == [1.0, 0.0]


def test_a_record_too_long_for_the_context_is_left_out_and_moves_no_other() -> None:
    """64 tokens fit; 70 and its first half do not."""
    model = opinionated(2)
    good = continued(model, "^ab 12", 5)[1:]
    bad = good[:-1] + ("0" if good[-1] != "0" else "1")
    secrets = [record("0" * 70), record(good), record("1" * 90), record(bad)]
    np.testing.assert_array_equal(won(open_(model), secrets), [np.nan, 1.0, np.nan, 0.0])


@pytest.mark.parametrize(
    ("limits", "known"), [({"budget": 8}, 2), ({"budget": 7}, 1), ({"stops": 8}, 2), ({}, 3)]
)
def test_records_that_were_not_answered_to_the_end_are_not_measured(
    limits: dict[str, int], known: int
) -> None:
    """Of 5, 3 and 4 tokens to score."""
    secrets = [record("ab 12#90a"), record("ab 12"), record("ab 12#9")]
    release = scripted(lambda prompt, i: "", **limits)  # type: ignore[arg-type]
    found = won(release, secrets)
    assert (~np.isnan(found)).tolist() == [i < known for i in range(3)]


# --- what is handed over


def test_parameters_that_cannot_be_are_refused() -> None:
    bad = [("generations", 0), ("searched", -1), ("suffix", -1), ("budget", 0), ("search", "deep")]
    refusals(lambda one: Extraction(**dict([one])), [(one, one[0]) for one in bad])


@dataclass
class Served(Scripted):
    """Gives each text as a server does: says(prompt, number) -> "how much|text|another text"."""

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        answers = list[Answer]()
        for i, prompt in enumerate(prompts):
            given, text, *more = self.says(self.tokenizer.decode(prompt[1:]), i).split("|")
            answer = self._answer(self.tokenizer.encode(text), length)
            answers.append(replace(answer, given=Given(given), more=tuple(more)))
        return answers


@pytest.mark.parametrize(
    ("answer", "found", "withheld"),
    [
        ("text|a", -1, 0),
        ("withheld|", -1, 1),
        ("withheld||40718", 2, 0),  # in another field
        ("withheld||It is 40718.", 2, 0),
        ("withheld||1a 40718", -1, 1),  # one guess a generation: the first
        ("stopped|407", -1, 1),  # a stop string within the value
        ("stopped|40719", -1, 0),
        ("stopped|No", -1, 1),
        ("cut|40718", 2, 0),
    ],
)
def test_withheld_tries_are_counted_by_prompt(answer: str, found: int, withheld: int) -> None:
    alphabet = Served(lambda prompt, i: answer if prompt == "#" else "text|40719")
    alphabet.tokenizer = Letters()
    hits = generated(alphabet, (*FIVE, code("11111", "a#")), generations=4)
    assert hits.found.tolist() == [found, -1] * 2
    assert sum(hits.withheld) == 2 * withheld
    assert hits.withheld in ((), (2, 0))


class Letters(CharacterTokenizer):
    def encode(self, text: str) -> list[int]:
        return [ord(one) for one in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


def test_withheld_tries_widen_rate_and_recall() -> None:
    release = Served(lambda prompt, i: "withheld|" if i < 30 else "text|11111")
    secrets = tuple(code(str(10**4 + i), owner=f"u{i}") for i in range(20))
    coins = Coins({s.owner: True for s in secrets}, {s.owner: 0 for s in secrets})
    case = Case("extraction", secrets, coins, 1e-5, 0, Access.GENERATE)
    rate, recall = measurements_of(attacked(release, secrets, generations=40)[:1], case)
    assert (rate.k, rate.n, rate.withheld, recall.withheld) == (0, 40, 30, 20)
    # scipy's beta.ppf(0.975, 31, 10) and beta.ppf(0.95, 31, 10)
    assert rate.ci == (0.0, pytest.approx(0.873085))
    assert rate.power.smallest_rate == pytest.approx(0.857630)
    assert recall.ci == (0.0, 1.0) and "30 answers were withheld or cut" in recall.observation
