"""The public texts of a corpus, for a defense whose guarantee does not cover what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError

_NUMBER = re.compile(r"[\w-]{7,}")  # a shorter one may stand in a public text by accident
_HEAD = 24  # characters by which a private record is found inside a public text

CHECKED = (
    "the public texts, and so the pseudo-sentences, hold nothing private; refused were only those "
    "that hold a private record whole, or a number of 7 signs that the policy marks"
)


def of(name: str, corpus: Corpus) -> tuple[str, ...]:
    """The public texts, or the embedded ones where the corpus has none.

    Raises UsageError where there are none at all, or one holds private text.
    Private text is a private record whole, spaces aside, or a word of seven characters and more
    that has a digit and is marked by the policy.
    """
    records = corpus.of("public")
    if not records and corpus.spare:
        return corpus.spare
    if not records:
        raise UsageError(
            f'{name}: the corpus has no public record; mark some with "split": "public"'
        )
    private = corpus.of("private")
    texts, numbers = _texts(private), _numbers_of(private)
    for record in records:
        owner = _owner(_spaced(record.text), texts)
        owner = owner or next((numbers[n] for n in _numbers(record.text) if n in numbers), None)
        if owner is not None:
            raise UsageError(
                f"{name}: {record.where or 'a public record'} holds private text of user "
                f"{owner!r}; remove it there, for public text is not protected"
            )
    return tuple(record.text for record in records)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(records: Sequence[Record]) -> dict[str, list[tuple[str, str]]]:
    """(text, user) of private records, by the first characters of the text."""
    found: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        text = _spaced(record.text)
        found.setdefault(text[:_HEAD], []).append((text, record.user))
    return found


def _owner(public: str, texts: dict[str, list[tuple[str, str]]]) -> str | None:
    """Whose record stands in a public text; one shorter than a head must be all of it."""
    for start in range(max(1, len(public) - _HEAD + 1)):
        for text, user in texts.get(public[start : start + _HEAD], ()):
            if public == text or (len(text) >= _HEAD and public.startswith(text, start)):
                return user
    return None


def _numbers_of(records: Sequence[Record]) -> dict[str, str]:
    """Whose each marked number is."""
    return {
        number: record.user
        for record in records
        for low, high in record.private
        for number in _numbers(record.text[low:high])
    }


def _numbers(text: str) -> list[str]:
    return [word for word in _NUMBER.findall(text) if any(c.isdigit() for c in word)]
