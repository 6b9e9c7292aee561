"""The kinds of secrets: the words before a value, and the space that it is drawn from.

A new kind is an entry of FORMS, and its name in `audit.core.secret.KINDS`. An attack that goes for
it names it in its `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faker.providers.lorem.en_US import Provider as Words
from faker.providers.person.en_US import Provider as Names

from audit.core.secret import NAME_PREFIX, Space, digits

WORDS = 12  # in a planted sentence


def names() -> Space:
    """All pairs of a first and a last name, for invented people."""
    first = tuple(sorted(set(Names.first_names)))
    last = tuple(f" {name}" for name in sorted(set(Names.last_names)))
    return Space((first, last))


def sentences() -> Space:
    """Sentences of uniform words, which are unlikely to a model that was not trained on them."""
    words = tuple(sorted(set(Words.word_list)))
    return Space((words, *[tuple(f" {word}" for word in words)] * (WORDS - 1)))


FORMS: Mapping[str, tuple[str, Callable[[], Space]]] = {
    "code": ("My code is #", lambda: digits(5)),  # is it extracted by sampling?
    "id": ("My ID is #", lambda: digits(6)),  # how high does it rank?
    "name": (NAME_PREFIX, names),  # is the user named?
    "record": ("", sentences),  # was it trained on?
}
