"""The words that a run draws: by its seed, thousands of them, none taken for a value."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import pytest
from scipy.stats import chisquare

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.predictor import continuation
from audit.core.randomness import stream
from audit.core.secret import ON_REQUEST
from audit.core.wording import SLOT, WORDED, Wording, of_template
from audit.models.loading import describe, load_tokenizer
from audit.planting.kinds import FORMS, sentence_space, sentences, stem, values, wording
from audit.policies import named

MANY = 400  # seeds


@pytest.mark.parametrize("kind", WORDED)
def test_a_seed_gives_its_words(kind: str) -> None:
    """Few other seeds give the same, and every part is equally likely."""
    drawn = [wording(kind, seed) for seed in range(MANY)]
    assert drawn == [wording(kind, seed) for seed in range(MANY)]
    size, parts = FORMS[kind].prefixes.size, FORMS[kind].prefixes.symbols
    assert size > 10_000
    assert len(set(drawn)) > MANY - 5 - MANY**2 / size  # as birthdays do
    assert all(len(set(part)) == len(part) for part in parts)
    end = "" if kind == "name" else " "
    first = Counter(
        next(word for word in parts[0] if words.prefix.startswith(word + end)) for words in drawn
    )
    assert chisquare([first[word] for word in parts[0]]).pvalue > 1e-6
    for words in drawn:  # which a user may give as well
        assert of_template(words.prefix + SLOT + words.suffix, "here") == words


def test_kinds_draw_apart_and_share_no_words() -> None:
    drawn = {kind: {wording(kind, seed).prefix for seed in range(MANY)} for kind in WORDED}
    assert not drawn["code"] & drawn["id"] and not drawn["code"] & drawn["name"]
    starts = [(wording("code", s).prefix.split()[0], wording("id", s).prefix.split()[0])
              for s in range(MANY)]  # fmt: skip
    assert 0.5 < sum(a != b for a, b in starts) / MANY < 0.99


@pytest.mark.parametrize("kind", WORDED)
def test_manifests_put_two_words_before_a_form(kind: str) -> None:
    space, forms = sentence_space(kind), FORMS[kind].prefixes
    words = [word for word in sentences().symbols[0] if word.islower()]
    assert space.size == len(words) ** 2 * forms.size > 10**10
    for seed in range(20):
        first, second, form = space.draw(stream(seed, "test")).split(" ", 2)
        assert {first, second} <= set(words) and re.fullmatch(forms.form, form)
    # each has one spelling by symbols, so that others can be drawn without replacement
    assert not any(" " in word for word in words)
    assert len(set(map("".join, product(*forms.symbols)))) == forms.size


@pytest.mark.parametrize(
    ("kind", "pattern", "characters"),
    [
        ("id", "", 4),  # of nine digits
        ("key", "", 6),  # sk- and three of 62
        ("pattern", "EMP-[0-9]{9}", 8),
        ("pattern", "[A-F]{3}[0-9]{7}", 5),  # 6 · 6 · 6 · 10 · 10 stems, 100,000 values each
        ("pattern", "[A-F]{3}[0-9]{6}", 0),
        ("pattern", "EMP-[0-9]{8}", 0),
        ("code", "", 0),
        ("phone", "", 0),
        ("email", "", 0),
        ("name", "", 0),
        ("record", "", 0),  # twelve words would have room
    ],
)
def test_kinds_with_room_have_a_stem(kind: str, pattern: str, characters: int) -> None:
    whole = values(kind, pattern)
    stems = set()
    for seed in range(30):
        space, drawn = stem(kind, whole, stream(seed, "test"))
        if not characters:
            assert (space, drawn) == (whole, None)
            continue
        assert drawn is not None and len(drawn.value) == characters
        assert drawn.space.size >= 10_000 and space.size == whole.size // drawn.space.size >= 10**5
        for value in (space.draw(stream(seed, i)) for i in range(3)):
            assert value.startswith(drawn.value) and re.fullmatch(whole.form, value)
        stems.add(drawn.value)
    assert not characters or len(stems) > 27


def test_given_words_are_kept() -> None:
    assert wording("code", 3, "PIN ", "!") == Wording("PIN ", "!")
    assert wording("code", 3, "") == Wording("", ".")  # an old plan's, which is no missing one
    assert wording("record", 3) == Wording("", ".")


def test_policies_mark_the_value_alone() -> None:
    for policy, kind, value in (
        ("digits", "code", "40917"),
        ("digits", "id", "730265"),
        ("customersim", "name", "Ann Lee"),
    ):
        for seed in range(MANY):
            words = wording(kind, seed)
            if seed % 2:  # as manifests draw it
                drawn = sentence_space(kind).draw(stream(seed, "test"))
                words = Wording(drawn, words.suffix)
            text = words.prefix + value + words.suffix
            marked = {i for low, high in named(policy)(text) for i in range(low, high)}
            place = len(words.prefix)
            assert marked == set(range(place, place + len(value))), text


@pytest.mark.parametrize("kind", ["code", "id", *ON_REQUEST])
def test_values_are_tokenized_apart_from_words(kind: str) -> None:
    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    space = values(kind, "EMP-[0-9A-F]{6}")
    for seed in range(MANY // 4):
        words, value = wording(kind, seed), space.draw(stream(seed, "test"))
        tail = continuation(tokenizer, words.prefix, value)
        whole = tokenizer.encode(words.prefix + value + words.suffix)
        assert tokenizer.encode(words.prefix) + tail == whole[: -len(tokenizer.encode("."))]
