"""Patterns of one's own: which values they have, each equally likely, and what is refused."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.randomness import stream
from audit.core.secret import Space
from audit.planting.kinds import values
from audit.planting.pattern import FEWEST, space_of
from tests.refusals import refusals


def piece() -> st.SearchStrategy[str]:
    one = st.sampled_from(["a", "Z", "-", "_", r"\.", r"\d", "[0-9]", "[A-Fx]", "[b-da-c]", "[a-]"])
    return st.tuples(one, st.sampled_from(["", "{1}", "{2}"])).map("".join)


@given(st.lists(piece(), max_size=5).map("".join))
def test_the_values_are_those_of_the_regular_expression(inner: str) -> None:
    """Every drawn value matches the expression as `re` reads it, and the space's own form."""
    expression = inner + "[0-9]{3}"
    space = space_of(expression, "here")
    for seed in range(5):
        value = space.draw(stream(seed, "test"))
        assert re.fullmatch(expression, value) and re.fullmatch(space.form, value)


def test_a_space_has_as_many_values_as_match() -> None:
    for expression, size in (
        ("EMP-[0-9]{6}", 10**6),
        (r"\d{3}", FEWEST),
        ("[0-90-9]{3}", 1000),  # a character is counted once, however often it is named
        ("[aab-db]{5}", 4**5),
        (r"[A-Z][a-z]\.\d\d", 26 * 26 * 100),
    ):
        assert space_of(expression, "here").size == size
    assert FEWEST == 1000


@given(st.text("abx", max_size=5))
def test_a_text_begins_a_value_or_is_begun_by_one(text: str) -> None:
    """By brute force; some symbols begin with another."""
    space = Space((("ab", "b", "a"), ("b", "aa"), ("xa",)))
    values = ["".join(symbols) for symbols in product(*space.symbols)]
    known = any(one.startswith(text) or text.startswith(one) for one in values)
    assert space.begins(text) == (known and text != "")


REFUSED = [
    ("EMP-(0|1){6}", "it has '('"),
    ("[0-9]*", "it has '*'"),
    ("[0-9]+x", "it has '+'"),
    ("a?[0-9]{6}", "it has '?'"),
    ("^[0-9]{6}", "it has '^'"),
    (".{6}", "it has '.'"),
    (r"\w{6}", r"it has '\\w'"),
    *((text, "cannot be read") for text in ("[^0-9]{6}", "[0-9", "[]{6}", r"[\d]{6}")),
    ("[9-0]{6}", "9-0 is no range"),
    ("[A-z]{6}", "A-z is no range"),
    *((text, "it has '{'") for text in ("[0-9]{2,6}", "[0-9]{6", "[0-9]{3}{2}", "[0-9]{100}")),
    ("[0-9]{65}", "its values have 65 characters"),
    ("EMP-[0-9]{2}", "it has 100 values"),
    ("", "it has 0 values"),
    ("[0-9]{6}-", "must end in a letter or digit"),
    ("é[0-9]{6}", "it has 'é', which is no"),
    ("[0-9]{6} x", "it has ' ', which is no"),
    ("[0-9]{6}\\", r"it has '\\'"),
]


def test_any_other_expression_is_refused() -> None:
    refusals(
        lambda text: values("pattern", text, "--pattern"),
        [(text, ("--pattern is ", words)) for text, words in REFUSED],
    )


@pytest.mark.parametrize(
    ("kind", "form", "size"),
    [
        ("email", r"[a-z]+\.[a-z]+@example\.(com|net|org)", None),
        ("phone", r"[2-9]\d\d-555-01\d\d", 80_000),
        ("key", r"sk-[A-Za-z0-9]{20}", 62**20),
    ],
)
def test_no_value_can_be_a_real_one(kind: str, form: str, size: int | None) -> None:
    space = values(kind)
    assert size is None or space.size == size
    for seed in range(50):
        value = space.draw(stream(seed, "test"))
        assert re.fullmatch(form, value) and re.fullmatch(space.form, value)
        for i, sign in enumerate(value):  # a sign stands for itself alone
            assert sign.isalnum() or not re.fullmatch(space.form, f"{value[:i]}X{value[i + 1 :]}")


def test_an_address_has_one_set_of_parts() -> None:
    """So all addresses are equally likely, and the chance of a guess is 1/|R|."""
    first, dot, last, at, domains = values("email").symbols
    assert (dot, at) == ((".",), ("@",))
    for names in (first, last):
        assert len(set(names)) == len(names) > 500
        assert all(name.isalpha() and name.islower() for name in names)
    assert len(set(domains)) == 3
