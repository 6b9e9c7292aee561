"""Templates: one place for the value, and words that are not taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.errors import UsageError
from audit.core.wording import LONGEST, SLOT, Wording, by_kind, of_template

words = st.text(st.characters(categories=("Lu", "Ll", "Zs", "Po"), max_codepoint=0x24F), max_size=9)


@given(words, words)
def test_a_template_is_what_stands_before_and_after_the_value(before: str, after: str) -> None:
    before, after = f"A{before}#".replace("\xa0", " "), f"!{after}".replace("\xa0", " ")
    assert of_template(f"{before}{SLOT}{after}", "here") == Wording(before, after)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("My PIN", "holds {value} nowhere; it must do so once"),
        ("{value} or {value}", "holds {value} 2 times"),
        ("{value} is my PIN", "attacks ask for the value with the words before it"),
        ("  {value}", "put some there"),
        ("My\nPIN {value}", "must be one line of printable characters"),
        ("My PIN\t{value}", "printable"),
        ("My PIN {value}\r", "printable"),
        ("PIN 2: {value}", "digits would be taken for the value's"),
        ("PIN {value} of ٣", "digits would be taken"),
        ("PIN{value}", "a letter touches the value"),
        ("PIN {value}th", "a letter touches the value"),
        ("P" * LONGEST + " {value}", f"has {LONGEST + 1} characters"),
    ],
)
def test_words_that_do_not_work_are_refused_in_one_line(template: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        of_template(template, "--template code")
    assert str(refused.value).startswith(f"--template code is {template!r}: ")
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_words_of_the_longest_length_are_accepted() -> None:
    assert of_template("P" * (LONGEST - 1) + " {value}", "here").suffix == ""


def test_a_template_may_hold_the_sign_that_ends_its_kind() -> None:
    assert by_kind(["code=a = {value}", "name=N {value}"]) == {
        "code": "a = {value}",
        "name": "N {value}",
    }


def test_trainings_of_this_tool_draw_no_alternatives() -> None:
    with pytest.raises(UsageError, match="only `audit plant` draws one of several sentences"):
        of_template("{My|Our} PIN {value}", "here")
