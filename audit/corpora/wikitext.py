"""Read WikiText (arXiv 1609.07843): articles ` = Title = ` with sections ` = = Section = = `.

A user is an article, a record is a paragraph of one line. Headings are left out: a title names the
user, and section titles recur in many articles. A heading stands alone between blank lines; inside
a paragraph, a line that looks like one is part of an equation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.core.corpus import Record
from audit.corpora.part import Part

_HEADING = re.compile(r"(=(?: =)*) (.+) \1")  # on one line, since . matches no line end


def recognises(part: Part) -> bool:
    """Return whether the part begins with the title of an article."""
    return _title(part.first) is not None


def records(part: Part) -> Iterator[Record]:
    """Read every paragraph of the part, by article.

    Adds to `part.titles`: a second article of the same title is another user, "Title (2)".
    """
    user = ""
    for number, block in part.blocks():
        title = _title(block)
        if title is not None:
            user = _unique(title, part.titles)
        elif _HEADING.fullmatch(block.strip()) is None:
            for place, line in enumerate(block.split("\n"), start=number):
                yield Record(user, line.strip(), split=part.split, where=part.where(place))


def _title(block: str) -> str | None:
    heading = _HEADING.fullmatch(block.strip())
    return None if heading is None or heading[1] != "=" else heading[2]


def _unique(title: str, taken: set[str]) -> str:
    user, times = title, 1
    while user in taken:
        times += 1
        user = f"{title} ({times})"
    taken.add(user)
    return user
