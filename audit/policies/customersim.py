"""The policy `customersim`: secrets of a simulated customer support (arXiv 2108.12944)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, disjoint

# Phrases around a secret. A name has no form of its own, so these phrases end it.
_PHRASE = (
    r"\b(?:Sure,|Yes,|Ok,|Yea sure,|Yep -|It's\b|it is\b|I am\b|I'm\b|You can reach me\b"
    r"|My name's\b|(?:[Mm]y|Shipping) address\b|(?:[Mm]y|Phone) number\b|[Mm]y order number\b)"
)
_OPENING = rf"(?:(?:{_PHRASE}(?: is\b)?) )*"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ]"
_WORD = rf"(?!I\b|{_PHRASE}){_CAPITAL}(?:\.|[\w'’-]*)"
_STATE_AND_ZIP = r"[A-Z]{2} \d{5}(?:-\d{4})?(?!\d)"

# Recognised anywhere, by their form.
FORMS = {
    "name": rf"(?<![\w'’-]){_WORD}(?: {_WORD})+",
    "street address": rf"(?<!\w)\d{{1,6}} {_CAPITAL}[^,\n]{{2,80}}, {_STATE_AND_ZIP}",
    "military address": (
        r"\b(?:PSC|Unit|USS|USNS|USNV|USCGC)\b[^\n]{1,50}? [AFD]PO " + _STATE_AND_ZIP
    ),
    "phone number": (
        r"(?<![\w-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-]?)\d{3}[ .-]?\d{4}"
        r"(?: ?(?:x|ext\.?) ?\d{1,6})?(?!\d)"
    ),
    "order number": r"(?<!\d)\d{3}-\d{5}-\d{4}(?!\d)",
    "tracking number": r"\b[A-Z0-9]{10}\b",
    "card number": r"(?<![\d-])(?:\d[ -]?){11,18}\d(?!\d)",
    "mail": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
}

# Recognised in the customer's answer to the agent's question, whatever its form.
ANSWERS = {
    "full name": rf"{_OPENING}((?:(?! ?{_PHRASE})[^\d.,!?\n])+(?<! ))",
    "shipping address": rf"{_OPENING}(\S.*?{_STATE_AND_ZIP}|\S.*\S)",
    "phone number": r"[^\d+(\n]*([\d+(][\d ().x+-]*\d)",
    "order number": r"[^\d\n]*(\d[\d -]*\d)",
}

_FORMS = tuple(re.compile(pattern) for pattern in FORMS.values())
_ANSWERS = {requested: re.compile(pattern) for requested, pattern in ANSWERS.items()}
_EXCHANGE = re.compile(r"^SYS:(?P<question>.*)\nUSR: *(?P<answer>.*?)[. \r]*$", re.MULTILINE)


@final
@dataclass(frozen=True)
class CustomerSim(Policy):
    """Names, addresses, phone, order, tracking and card numbers, mail in CustomerSim's dialogs.

    Two capitalised words anywhere are a name, and so is any answer to a question for one: the
    policy marks too much rather than too little. For whole dialogs, with turns of SYS and USR.
    """

    def __call__(self, text: str) -> list[Span]:
        forms = (match.span() for form in _FORMS for match in form.finditer(text))
        return disjoint([*forms, *_answers(text)])

    @property
    def label(self) -> str:
        return "customersim"

    @property
    def digest(self) -> str:
        return digest_of(
            "customersim", *FORMS.values(), *ANSWERS, *ANSWERS.values(), _EXCHANGE.pattern
        )


def _answers(text: str) -> Iterator[Span]:
    for exchange in _EXCHANGE.finditer(text):
        for requested, pattern in _ANSWERS.items():
            if requested in exchange["question"]:
                secret = pattern.match(text, *exchange.span("answer"))
                if secret:
                    yield secret.span(1)
