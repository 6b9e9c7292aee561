"""The public texts of a corpus, for a defense whose guarantee does not cover them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit

_NUMBER = re.compile(r"[\w-]{7,}")  # shorter ones occur in public texts by accident
_HEAD = 24  # leading characters by which private records are looked up

NEVER_READ = Guarantee(
    epsilon=0.0,
    unit=Unit.USER,
    relation=Relation.ADD_OR_REMOVE,
    release="model",
    basis="worst case",
    delta=0.0,
    theorem="the private text is never read",
    conditions=("the public model was not trained on the private text",),
)

CHECKED = (
    "the public texts, and so the pseudo-sentences, contain nothing private; checked only for "
    "whole private records and for marked words of at least 7 characters with a digit"
)


def of(name: str, corpus: Corpus) -> tuple[str, ...]:
    """Gives the public texts, or the embedded ones if the corpus has none.

    Raises UsageError if there are none at all, or if one contains private text: a whole private
    record (spaces aside), or a word of at least seven characters with a digit that the policy
    marks.
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
                f"{name}: {record.where or 'a public record'} contains private text of user "
                f"{owner!r}; remove it there, because public text is not protected"
            )
    return tuple(record.text for record in records)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(records: Sequence[Record]) -> dict[str, list[tuple[str, str]]]:
    """Indexes (text, user) of private records by the first characters of the text."""
    by_head: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        text = _spaced(record.text)
        by_head.setdefault(text[:_HEAD], []).append((text, record.user))
    return by_head


def _owner(public: str, texts: dict[str, list[tuple[str, str]]]) -> str | None:
    """Finds whose record is in a public text; a record shorter than a head must equal it."""
    for start in range(max(1, len(public) - _HEAD + 1)):
        for text, user in texts.get(public[start : start + _HEAD], ()):
            if public == text or (len(text) >= _HEAD and public.startswith(text, start)):
                return user
    return None


def _numbers_of(records: Sequence[Record]) -> dict[str, str]:
    """Maps each marked number to its user."""
    return {
        number: record.user
        for record in records
        for low, high in record.private
        for number in _numbers(record.text[low:high])
    }


def _numbers(text: str) -> list[str]:
    return [word for word in _NUMBER.findall(text) if any(c.isdigit() for c in word)]
