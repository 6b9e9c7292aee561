"""Copies in texts: alignments beside brute force, what is a copy, n-grams as closed forms."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.copies import Copies
from attacks.ngram import Counts, NGram
from attacks.texts.alignment import BETWEEN, as_characters, edits, longest_run
from audit.contract import toys
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Hits, Scores, Successes
from audit.core.predictor import Answer
from audit.core.secret import Secret, digits
from tests.attacks.scripted import Published

TOKENS = st.lists(st.integers(0, 3), max_size=9)


def brute_run(needle: list[int], text: list[int]) -> int:
    runs = {tuple(text[i:j]) for i in range(len(text)) for j in range(i, len(text) + 1)}
    own = [tuple(needle[i:j]) for i in range(len(needle)) for j in range(i, len(needle) + 1)]
    return max((len(run) for run in own if run in runs), default=0)


def brute_edits(needle: list[int], text: list[int]) -> int:
    @cache
    def distance(i: int, j: int, start: int) -> int:
        if i == 0:
            return j - start
        if j == start:
            return i
        swap = distance(i - 1, j - 1, start) + (needle[i - 1] != text[j - 1])
        return min(swap, distance(i - 1, j, start) + 1, distance(i, j - 1, start) + 1)

    spans = [(a, b) for a in range(len(text) + 1) for b in range(a, len(text) + 1)]
    return min(distance(len(needle), b, a) for a, b in spans)


@given(TOKENS, TOKENS)
@settings(max_examples=50, deadline=None)
def test_the_longest_run_is_that_of_brute_force(needle: list[int], text: list[int]) -> None:
    assert longest_run(needle, as_characters(text)) == brute_run(needle, text)


@given(TOKENS, st.lists(TOKENS, min_size=1, max_size=3), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_the_least_edits_are_those_of_brute_force_in_one_of_the_texts(
    needle: list[int], texts: list[list[int]], cut: int
) -> None:
    flat = np.array([one for text in texts for one in (*text, BETWEEN)], dtype=np.int64)
    least = min(brute_edits(needle, text) for text in texts)
    assert edits(needle, flat).min() == least
    assert edits(needle[cut:], flat, edits(needle[:cut], flat)).min() == least


@pytest.mark.parametrize("token", [0, 10, 0xD800 - 0x100, 0xDFFF, 50_256, 128_255, 256_000])
def test_every_token_is_a_character_of_its_own(token: int) -> None:
    alone = as_characters([token])
    assert len(alone) == 1
    assert alone not in as_characters([token - 1, token + 1])
    assert not "\ud800" <= alone <= "\udfff"
    assert alone != "\n"


class Bytes(toys.CharacterTokenizer):
    """Encodes line breaks, too."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


def attacked(
    attack: Attack, secrets: list[Secret], *texts: str, public: bool = False
) -> list[Evidence]:
    known = toys.knowledge(0, secrets, public)
    return list(attack.run(Published(texts), secrets, known))  # type: ignore[arg-type]


def code(value: str, slot: int = 0, owner: str = "ann") -> Secret:
    return Secret("code", "mycodeis#", value, "", digits(len(value)), 1, owner, slot)


def of(evidence: list[Evidence], kind: type[Evidence]) -> Any:
    (one,) = [e for e in evidence if isinstance(e, kind)]
    assert one.access == toys.Access.GENERATE
    return one


def scored(secrets: list[Secret], *texts: str) -> list[float]:
    """How near each value is to a part of a text."""
    values: list[float] = of(attacked(Copies(), secrets, *texts), Scores).values.tolist()
    return values


def test_a_code_after_its_words_is_a_guess_and_a_longer_number_is_another() -> None:
    secrets = [code("123"), code("456", 1)]
    texts = ("hello#mycodeis#123", "mycodeis#1234", "mycodeis#456#mycodeis#123", "123#456")
    hits = of(attacked(Copies(), secrets, *texts), Hits)
    assert hits.found.tolist() == [0, -1, 1]  # of a text that states two, the first
    assert sorted(hits.repeats) == [1, 1, 1]


def test_what_several_texts_state_alike_is_one_value_with_its_repeats() -> None:
    """The test of hits counts it as one coincidence."""
    texts = ("mycodeis#123", "mycodeis#77", "so#mycodeis#123", "mycodeis#123")
    hits = of(attacked(Copies(), [code("123"), code("456", 1)], *texts), Hits)
    assert hits.found.tolist() == [0, -1, 0, 0]
    assert sorted(hits.repeats) == [1, 3]


def test_signs_in_the_words_stand_for_themselves() -> None:
    secret = Secret("code", "code(s)+?#", "123", "", digits(3), 1, "ann", 0)
    for text, found in (("my#code(s)+?#123", [0]), ("my#codes#123", [])):
        session: Any = Published((text,), Bytes())
        known = toys.knowledge(0, [secret], False)
        hits = of(list(Copies().run(session, [secret], known)), Hits)
        assert hits.found.tolist() == found


def test_the_words_before_a_name_that_was_not_drawn_do_not_count() -> None:
    """They are text of the owner's, and a name may stand anywhere."""
    name = Secret("name", "regardsfrom", "annlee", "", None, 1, "ann", 0)
    assert scored([name], "thisisannlee") == [0.0]


@pytest.mark.parametrize(
    ("text", "copied"),
    [("a#123#b", 1.0), ("123", 1.0), ("1234", 0.0), ("0123", 0.0), ("x123", 0.0), ("12#3", 0.0),
     ("番号は123です", 1.0), ("123입니다", 1.0), ("คือ123ค่ะ", 1.0), ("é123", 0.0),
     ("は1234です", 0.0)],
)  # fmt: skip
def test_a_copy_is_whole_words_only(text: str, copied: float) -> None:
    won = of(attacked(Copies(), [code("123")], text), Successes)
    assert won.won.tolist() == [copied]


def test_a_copy_across_two_texts_is_none() -> None:
    record = Secret("record", "", "abcdef", "", None, 1, "ann", 0)
    evidence = attacked(Copies(), [record], "xxabc", "defxx")
    run, won = of(evidence, Scores), of(evidence, Successes)
    assert run.values.tolist() == [3.0]
    assert won.won.tolist() == [0.0]


@pytest.mark.parametrize(
    ("texts", "copied"), [(("abc", "def"), 0.0), (("x", "abc\ndef"), 1.0), (("abc\n", "def"), 0.0)]
)
def test_a_record_of_two_lines_is_no_copy_of_two_texts(
    texts: tuple[str, ...], copied: float
) -> None:
    record = Secret("record", "", "abc\ndef", "", None, 1, "ann", 0)
    session: Any = Published(texts, Bytes())
    won = of(list(Copies().run(session, [record], toys.knowledge(0, [record], False))), Successes)
    assert won.won.tolist() == [copied]


@pytest.mark.parametrize(
    "written",
    [
        "1 2 3",
        "1-2-3",
        "*1*2*3*",
        "\uff11\uff12\uff13",
        "\u0661\u0662\u0663",
        "1\u200b2\u200b3",
        "1\n2,3",
    ],
)
@pytest.mark.parametrize("words", ["mycodeis#", "My CODE is: "])
def test_separators_case_and_scripts_of_digits_hide_no_copy(words: str, written: str) -> None:
    assert scored([code("123"), code("987", 1)], words + written) == [0.0, -3.0]


def test_near_copies_score_by_edits_of_words_and_value_in_one_text() -> None:
    secrets = [code("123"), code("129"), code("789")]
    assert scored(secrets, "so#mycodeis#128#") == [-1.0, -1.0, -3.0]
    assert scored([code("123456")], "mycodeis#123", "456") == [-3.0]


def test_no_texts_means_not_measured_and_never_zero() -> None:
    def nothing(attack: Attack) -> list[Evidence]:
        session = toys.session(toys.Access.GENERATE, toys.Access.GENERATE, 0)
        return list(attack.run(session, [code("123")], toys.knowledge(0, [], False)))

    for one in (*nothing(Copies()), *nothing(NGram())):
        if isinstance(one, Hits):
            assert not len(one.found)
        else:
            values = one.won if isinstance(one, Successes) else one.values  # type: ignore[attr-defined]
            assert np.isnan(values).all()


def test_ngrams_have_the_closed_form_of_their_counts() -> None:
    texts = [[0, 1, 2, 0], [0, 1, 1, 0]]
    counts = Counts(texts, order=2, smoothing=0.5, vocabulary=4)
    # order 1: (count + ½ · ¼) / (8 + ½); order 2: (count + ½ · order 1) / (count of context + ½)
    unigram = (3 + 0.5 / 4) / 8.5
    assert counts.log_probability([0], [1]) == pytest.approx(math.log((2 + 0.5 * unigram) / 2.5))
    unseen = (0 + 0.5 / 4) / 8.5
    assert counts.log_probability([2], [3]) == pytest.approx(math.log(0.5 * unseen / 1.5))


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=8), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.floats(0.1, 5),
)
@settings(max_examples=40, deadline=None)
def test_ngrams_give_a_distribution_after_every_context(
    texts: list[list[int]], before: list[int], order: int, smoothing: float
) -> None:
    counts = Counts(texts, order, smoothing, vocabulary=5)
    total = sum(math.exp(counts.log_probability(before, [token])) for token in range(5))
    assert total == pytest.approx(1.0)


def test_what_the_texts_echo_in_pieces_scores_above_what_they_do_not() -> None:
    secrets = [code("1234"), code("9876", 1)]
    for public in (False, True):
        scores = of(attacked(NGram(), secrets, "a12b", "b23c", "c34a", public=public), Scores)
        assert scores.values[0] > scores.values[1] + 1


class Writes:
    """A public model that writes one text, whatever it is asked, and notes how much."""

    tokenizer, max_length = toys.CharacterTokenizer(), 64

    def __init__(self, text: str) -> None:
        self.tokens, self.asked = self.tokenizer.encode(text), list[int]()

    def generate(self, prompts: list[list[int]], length: int) -> list[Answer]:
        self.asked.append(max(map(len, prompts)) + length)
        tokens, nothing = tuple(self.tokens[:length]), np.zeros(0)
        return [Answer(tokens, nothing, nothing > 0, length) for _ in prompts]


def beside(public: Writes, secrets: list[Secret], *texts: str) -> list[float]:
    known = Knowledge(public, (), (), (), np.random.default_rng(0))  # type: ignore[arg-type]
    (one,) = NGram().run(Published(texts), secrets, known)  # type: ignore[arg-type]
    assert isinstance(one, Scores)
    values: list[float] = one.values.tolist()
    return values


def test_the_public_models_own_habits_are_taken_off() -> None:
    """A value that the public model writes by itself gains nothing from texts that do so, too."""
    secrets, habit = [code("1212"), code("7878", 1)], ("mycodeis#1212",) * 20
    (alone,) = attacked(NGram(), secrets, *habit)
    assert isinstance(alone, Scores) and alone.values[0] > alone.values[1] + 5
    assert beside(Writes(habit[0]), secrets, *habit) == pytest.approx([0.0, 0.0], abs=1e-9)


def test_the_public_model_is_read_up_to_its_stop_token() -> None:
    one, other = (
        beside(Writes(f"hi^{after}"), [code("123")], "mycodeis#9") for after in ("123", "mmm")
    )
    assert one == other


def test_the_public_model_is_asked_for_no_more_than_it_writes() -> None:
    """Texts of others may be longer than the model that they are compared with can read."""
    public = Writes("a" * 64)
    for longest in (20, 500):
        beside(public, [code("123")], "a" * longest)
    assert public.asked == [21, 64]


def test_what_the_public_model_writes_after_stop_is_no_text_of_the_release() -> None:
    class Stops:
        tokenizer, max_length, remaining = toys.CharacterTokenizer(), 64, None

        def generate(self, prompts: list[list[int]], length: int) -> list[object]:
            tokens = tuple(self.tokenizer.encode("mycodeis#123"))
            return [type("A", (), {"tokens": tokens, "answered": n})() for n in (length, 5)]

    session: Any = Stops()
    hits = of(list(Copies().run(session, [code("123")], toys.knowledge(0, [], False))), Hits)
    assert hits.found.tolist() == [0]
