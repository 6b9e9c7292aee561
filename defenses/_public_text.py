"""The public texts of a corpus, for a defense whose guarantee does not cover what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from audit.corpus import Corpus, Record
from audit.errors import UsageError

_NUMBER = re.compile(r"[\w-]{7,}")  # a shorter one may stand in a public text by accident


def of(name: str, corpus: Corpus) -> tuple[str, ...]:
    """The public texts. Raises UsageError where there are none, or one holds private text.

    Private text is a private record whole, or a word of seven characters and more that has a digit
    and is marked by the policy.
    """
    records = corpus.of("public")
    if not records:
        raise UsageError(
            f'{name}: the corpus has no public record; mark some with "split": "public"'
        )
    owners = _owners(corpus.of("private"))
    for record in records:
        for value in (record.text, *_numbers(record.text)):
            if value in owners:
                raise UsageError(
                    f"{name}: {record.where or 'a public record'} holds private text of user "
                    f"{owners[value]!r}; remove it there, for public text is not protected"
                )
    return tuple(record.text for record in records)


def _owners(records: Sequence[Record]) -> dict[str, str]:
    """Who each private text and number belongs to."""
    found = {record.text: record.user for record in records}
    for record in records:
        for low, high in record.private:
            found |= dict.fromkeys(_numbers(record.text[low:high]), record.user)
    return found


def _numbers(text: str) -> list[str]:
    return [word for word in _NUMBER.findall(text) if any(c.isdigit() for c in word)]
