"""WikiText (arXiv 1609.07843): articles under ` = Title = `, sections under ` = = Section = = `.

A user is an article, a record a paragraph: one line. Headings are left out: a title names the
user, and section titles are alike everywhere. A heading stands alone between blank lines; what
looks like one inside a paragraph, where equations are broken into lines, is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.core.corpus import Record
from audit.corpora.part import Part

_HEADING = re.compile(r"(=(?: =)*) (.+) \1")  # of one line, since . is no line end


def is_one(part: Part) -> bool:
    """Whether the part begins with the title of an article."""
    return _title(part.first) is not None


def records(part: Part, taken: set[str]) -> Iterator[Record]:
    """Every paragraph of the part, by article.

    taken: the users of the parts before, added to here: a second article of one title is another
        user, "Title (2)".
    """
    user = ""
    for number, block in part.blocks():
        title = _title(block)
        if title is not None:
            user = _unique(title, taken)
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
