"""The kinds of secrets: the sentences around a value, and the space that it is drawn from.

A new kind is an entry of FORMS, its name in `ON_REQUEST` of `audit.core.secret`, with its fields in
`Planting`, and its name in `WORDED` of `audit.core.wording`. No value can be a real one: addresses
are at example domains (RFC 2606), phone numbers among those kept for fiction (555-0100 to
555-0199).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from faker.providers.lorem.en_US import Provider as Words
from faker.providers.person.en_US import Provider as Names

from audit.core.randomness import stream
from audit.core.secret import DIGITS, Draw, Space, digits
from audit.core.wording import Wording
from audit.planting import pattern

WORDS = 12  # in a planted sentence
FEWEST_OTHERS = 10_000  # sentences or stems to draw from, so that the one drawn can be told
FEWEST_VALUES = 100_000  # after a stem: as many as codes have

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
# a sign before letters: after a space, for some tokenizers join a single sign with what follows
_MARK = (" #", ": #", " *", ": *", " =", " -", " (", ": (", " <", ": <", " [", ": [")
_GREETING = (
    *("Hello, ", "Yes, ", "Sorry, ", "Thank you, ", "Good morning, ", "Good afternoon, "),
    *("Good evening, ", "One moment, ", "Of course, ", "Please note, ", "As before, ", "Again, "),
)


@dataclass(frozen=True)
class Form:
    """A kind of secret. prefixes: what may stand before a value. values: what it is drawn from, if
    the kind alone decides it.
    """

    prefixes: Space
    values: Callable[[], Space] | None


@cache
def names() -> Space:
    """Return all pairs of a first and a last name, for invented people."""
    first = tuple(sorted(set(Names.first_names)))
    last = tuple(f" {name}" for name in sorted(set(Names.last_names)))
    return Space((first, last))


@cache
def sentences() -> Space:
    """Return sentences of uniform words, unlikely to a model that was not trained on them."""
    return Space(_in_a_row(sorted(set(Words.word_list)), WORDS))


def _in_a_row(words: Sequence[str], count: int) -> tuple[tuple[str, ...], ...]:
    return (tuple(words), *[tuple(f" {word}" for word in words)] * (count - 1))


@cache
def plain_words() -> tuple[str, ...]:
    """Return the words without a capital, which no policy takes for a name."""
    return tuple(sorted({word for word in Words.word_list if word.islower()}))


@cache
def emails() -> Space:
    """Return e-mail addresses of invented people: first.last@ and an example domain."""
    first, last = (
        tuple(sorted({name.lower() for name in names if name.isascii() and name.isalpha()}))
        for names in (Names.first_names, Names.last_names)
    )
    return Space((first, (".",), last, ("@",), ("example.com", "example.net", "example.org")))


def phones() -> Space:
    """Return phone numbers of ten digits that are kept for fiction, as 212-555-0143."""
    any_digit, middle = tuple(DIGITS), tuple((sign,) for sign in "-555-01")
    return Space((tuple(DIGITS[2:]), any_digit, any_digit, *middle, any_digit, any_digit))


def keys() -> Space:
    """Return API keys: sk- and 20 letters or digits."""
    return Space((("s",), ("k",), ("-",), *[tuple(string.ascii_letters + DIGITS)] * 20))


FORMS: Mapping[str, Form] = {
    "code": Form(  # is it extracted by sampling?
        Space((_WHOSE, _WHICH, _THING, (" code",), _IS, _SIGN)), lambda: digits(5)
    ),
    "id": Form(  # how high does it rank? nine digits have room for a stem
        Space((_WHOSE, _WHICH, _THING, (" number", " ID"), _IS, _SIGN)), lambda: digits(9)
    ),
    "name": Form(  # is the user named?
        Space((_GREETING, tuple(map(str.lower, _WHOSE)), _WHICH, _PERSON, _IS, (" ",))), names
    ),
    "record": Form(Space(()), sentences),  # was it trained on?
    # as for codes: is it extracted by sampling?
    "email": Form(Space((_WHOSE, _WHICH, _THING, (" email", " mail address"), _IS, _MARK)), emails),
    "phone": Form(Space((_WHOSE, _WHICH, _THING, (" phone", " telephone"), _IS, _SIGN)), phones),
    "key": Form(Space((_WHOSE, _WHICH, _THING, (" API key", " token"), _IS, _MARK)), keys),
    "pattern": Form(Space((_WHOSE, _WHICH, _THING, (" entry", " label"), _IS, _MARK)), None),
}


def values(kind: str, expression: str = "", where: str = "pattern") -> Space:
    """Return the space of a kind. Raises UsageError for a pattern that is none.

    expression: of the kind "pattern". where: the setting that gives it, for the message.
    """
    of_kind = FORMS[kind].values
    return pattern.space_of(expression, where) if of_kind is None else of_kind()


def wording(kind: str, seed: int, prefix: str | None = None, suffix: str = ".") -> Wording:
    """Make the words around the values of a kind; draw those before them where none are given.

    One wording a run: attacks compare values after equal words. There are thousands, so a release
    that behaves well after a list of known beginnings is still attacked after others.
    """
    if prefix is None:
        prefix = FORMS[kind].prefixes.draw(stream(seed, "planting", "wording", kind))
    return Wording(prefix, suffix)


@cache
def sentence_space(kind: str) -> Space:
    """Return the sentences that a manifest draws one of, to put before the values of a kind.

    Two words of the generator of records stand before the sentence of a form: so the sentence that
    was drawn is told from tens of billions of others. None has a capital: what looks like a name is
    private to some policies. Records have no sentence.
    """
    if not FORMS[kind].prefixes.symbols:
        return Space(())
    first, *rest = FORMS[kind].prefixes.symbols
    return Space((*_in_a_row(plain_words(), 2), tuple(f" {word}" for word in first), *rest))


def stem(kind: str, space: Space, generator: np.random.Generator) -> tuple[Space, Draw | None]:
    """Draw the first characters of all values of a kind, where their space has room for both.

    Returns the space of the values that begin so, and the stem; the space as it is, without room.
    """
    sizes = [Space(space.symbols[:places]).size for places in range(len(space.symbols))]
    places = next((i for i, size in enumerate(sizes) if size >= FEWEST_OTHERS), len(sizes))
    rest = space.symbols[places:]
    if kind == "record" or Space(rest).size < FEWEST_VALUES:
        return space, None
    drawn = Draw(Space(space.symbols[:places]), Space(space.symbols[:places]).draw(generator))
    return Space((*((character,) for character in drawn.value), *rest)), drawn
