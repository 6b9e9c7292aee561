"""Patterns of one's own: which values they have, each equally likely, and what is refused."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.canaries.kinds import values
from audit.canaries.pattern import FEWEST, space_of
from audit.core.errors import UsageError
from audit.core.randomness import stream


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


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ("EMP-[0-9]{6}", 10**6),
        (r"\d{3}", 1000),
        ("[0-90-9]{3}", 1000),  # a character is counted once, however often it is named
        ("[aab-db]{5}", 4**5),
        (r"[A-Z][a-z]\.\d\d", 26 * 26 * 100),
    ],
)
def test_the_chance_of_a_guess_is_one_of_all_values(expression: str, size: int) -> None:
    assert space_of(expression, "here").size == size


def test_all_strings_that_match_are_values_and_no_others() -> None:
    """By brute force over every string of the alphabet."""
    expression = "[ab][a-c]{6}b"
    space = space_of(expression, "here")
    drawable = {"".join(symbols) for symbols in product(*space.symbols)}
    every = map("".join, product("abc", repeat=8))
    assert drawable == {text for text in every if re.fullmatch(expression, text)}
    assert len(drawable) == space.size


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("EMP-(0|1){6}", r"it has '\('"),
        ("[0-9]*", r"it has '\*'"),
        ("[0-9]+x", r"it has '\+'"),
        ("a?[0-9]{6}", r"it has '\?'"),
        ("^[0-9]{6}", r"it has '\^'"),
        (".{6}", r"it has '\.'"),
        (r"\w{6}", r"it has '\\\\w'"),
        ("[^0-9]{6}", "its class .* cannot be read"),
        ("[0-9", "its class .* cannot be read"),
        ("[]{6}", "its class .* cannot be read"),
        (r"[\d]{6}", "its class .* cannot be read"),
        ("[9-0]{6}", "9-0 is no range"),
        ("[A-z]{6}", "A-z is no range"),
        ("[0-9]{2,6}", r"it has '\{'"),
        ("[0-9]{6", r"it has '\{'"),
        ("[0-9]{3}{2}", r"it has '\{'"),
        ("[0-9]{100}", r"it has '\{'"),
        ("[0-9]{65}", "its values have 65 characters"),
        ("EMP-[0-9]{2}", "it has 100 values"),
        ("", "it has 0 values"),
        ("[0-9]{6}-", "its values must end in a letter or digit"),
        ("é[0-9]{6}", "it has 'é', which is no"),
        ("[0-9]{6} x", "it has ' ', which is no"),
        ("[0-9]{6}\\", r"it has '\\\\'"),
    ],
)
def test_anything_else_is_refused_in_one_line(expression: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"^--pattern is .*: {why}") as told:
        values("pattern", expression, "--pattern")
    assert "\n" not in str(told.value)


def test_the_fewest_values_are_enough() -> None:
    assert space_of(r"\d{3}", "here").size == FEWEST


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


def test_an_address_is_made_of_its_parts_in_one_way() -> None:
    """So all addresses are equally likely, and the chance of a guess is 1/|R|."""
    first, dot, last, at, domains = values("email").symbols
    assert (dot, at) == ((".",), ("@",))
    for names in (first, last):
        assert len(set(names)) == len(names) > 500
        assert all(name.isalpha() and name.islower() for name in names)
    assert len(set(domains)) == 3
