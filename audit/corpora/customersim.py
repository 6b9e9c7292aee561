"""Read CustomerSim (arXiv 2108.12944): dialogs of `SYS:` and `USR:` turns, between blank lines.

A dialog is one record of one user, as in the paper. The user's name is the answer to the turn that
asks for the full name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.core.corpus import Record
from audit.corpora.part import Part

_EXCHANGE = re.compile(r"^SYS:.*\bfull name\b.*\nUSR:(.*)$", re.MULTILINE | re.IGNORECASE)
_OPENING = r"\s*(?:(?:sure|yes|yep|ok)\b\W*)?(?:(?:i'm|i am|my name is|my name's|it's|it is)\b)?\W*"
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"
# the whole answer, or the first two words of a longer one ("Ann Lee My number is …")
_NAME = re.compile(rf"(?i:{_OPENING})({_WORD}(?: {_WORD})+(?=\W*$)|{_WORD} {_WORD})")


def recognises(part: Part) -> bool:
    """Return whether the part begins with a turn of a dialog."""
    return part.first.startswith(("SYS:", "USR:"))


def records(part: Part) -> Iterator[Record]:
    """Read every dialog of the part."""
    for number, text in part.blocks():
        user = part.owner or f"{part.name}-{number}"
        where = part.where(number)
        yield Record(user=user, text=text, name=name_in(text), split=part.split, where=where)


def name_in(dialog: str) -> str | None:
    """Return the customer's full name, if the dialog asks for it and gets it, else None."""
    exchange = _EXCHANGE.search(dialog)
    name = None if exchange is None else _NAME.match(exchange[1])
    return None if name is None else name[1]
