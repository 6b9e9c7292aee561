"""The kinds of secrets: the sentences around a value, and the space that it is drawn from.

A new kind is an entry of FORMS, and its name in `audit.core.secret.KINDS`. An attack that goes for
it names it in its `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faker.providers.lorem.en_US import Provider as Words
from faker.providers.person.en_US import Provider as Names

from audit.core.randomness import stream
from audit.core.secret import Space, digits
from audit.core.wording import Wording

WORDS = 12  # in a planted sentence

_WHOSE = ("My", "Our", "Your", "His", "Her", "The", "This")
_WHICH = ("", " new", " old", " last", " first", " second", " other", " main", " usual", " spare")
_THING = (
    *("", " bank", " card", " door", " garden", " house", " key", " letter", " office", " order"),
    *(" room", " shop", " table"),
)
_PERSON = (
    *(" clerk", " cook", " customer", " doctor", " driver", " friend", " gardener", " guest"),
    *(" name", " neighbour", " partner", " teacher"),
)
_IS = (" is", " was", " is now", " is still", " will be", " is always")
# a sign before digits, so that no tokenizer makes one token of a digit and what is before it
_SIGN = (" #", ": #", " no.", " *", ": *", " =", " -", ":", " (", ": (")
_GREETING = (
    *("Hello, ", "Yes, ", "Sorry, ", "Thank you, ", "Good morning, ", "Good afternoon, "),
    *("Good evening, ", "One moment, ", "Of course, ", "Please note, ", "As before, ", "Again, "),
)


@dataclass(frozen=True)
class Form:
    """A kind of secret. prefixes: what may stand before a value. values: what it is drawn from."""

    prefixes: Space
    values: Callable[[], Space]


def names() -> Space:
    """All pairs of a first and a last name, for invented people."""
    first = tuple(sorted(set(Names.first_names)))
    last = tuple(f" {name}" for name in sorted(set(Names.last_names)))
    return Space((first, last))


def sentences() -> Space:
    """Sentences of uniform words, which are unlikely to a model that was not trained on them."""
    words = tuple(sorted(set(Words.word_list)))
    return Space((words, *[tuple(f" {word}" for word in words)] * (WORDS - 1)))


FORMS: Mapping[str, Form] = {
    "code": Form(  # is it extracted by sampling?
        Space((_WHOSE, _WHICH, _THING, (" code",), _IS, _SIGN)), lambda: digits(5)
    ),
    "id": Form(  # how high does it rank?
        Space((_WHOSE, _WHICH, _THING, (" number", " ID"), _IS, _SIGN)), lambda: digits(6)
    ),
    "name": Form(  # is the user named?
        Space((_GREETING, tuple(map(str.lower, _WHOSE)), _WHICH, _PERSON, _IS, (" ",))), names
    ),
    "record": Form(Space(()), sentences),  # was it trained on?
}


def wording(kind: str, seed: int, prefix: str | None = None, suffix: str = ".") -> Wording:
    """Makes the words around the values of a kind; draws those before them where none are given.

    One wording a run: attacks compare values after equal words. There are thousands, so a release
    that behaves well after a list of known beginnings is still attacked after others.
    """
    if prefix is None:
        prefix = FORMS[kind].prefixes.draw(stream(seed, "planting", "wording", kind))
    return Wording(prefix, suffix)
