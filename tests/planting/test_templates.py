"""Templates of `audit plant`: alternatives, of which one is drawn."""

from __future__ import annotations

import pytest

from audit.planting.templates import template_of
from tests.refusals import refusals

TEN = "{" + "|".join("abcdefghij") + "}"


def test_alternatives_make_their_sentences() -> None:
    template = template_of(f"{TEN}{TEN}{TEN}{{My|Our}} {TEN[:-1]}|}} PIN {{value}}!", "here")
    assert template.before.size == 10**3 * 2 * 11 and template.after == "!"
    assert template.before.symbols[3:] == (("My", "Our"), (" ",), (*"abcdefghij", ""), (" PIN ",))


@pytest.mark.parametrize("text", ["PIN {value}", '{"pin": "{value}"', "a {b} {value}"])
def test_other_braces_are_text(text: str) -> None:
    before, after = text.split("{value}")
    template = template_of(text, "here")
    assert (template.before.symbols, template.after) == (((before,),), after)


def test_unfit_alternatives_are_refused() -> None:
    refusals(
        lambda text: template_of(text, "here"),
        [
            (f"{TEN}{TEN}{TEN} {{value}}", "make 1,000 sentences; use 10,000 to 200,000"),
            (f"{TEN * 6} {{value}}", "make 1,000,000 sentences"),
            (f"{TEN * 4}{{a|ab}}{{bc|c}} {{value}}", "two choices make the same sentence"),
            (f"{TEN * 3}{{1|2|{'|'.join('klmnopqr')}}} {{value}}", "its digits would be taken"),
            (f"{TEN * 4}{{ | a}}{{value}}", "a letter touches the value"),
            (f"{TEN * 4} {{value}} {{a|b}}", "alternatives stand before {value} only"),
            (f"{TEN * 4}", "holds {value} nowhere"),
            ("{value} {value}", "holds {value} 2 times"),
        ],
    )
