"""The words around a planted value, as "My code is #{value}." has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from audit.core.errors import UsageError

WORDED = ("code", "id", "name", "email", "phone", "key", "pattern")  # values within a sentence
SLOT = "{value}"
ALTERNATIVES = re.compile(r"\{([^{}]*\|[^{}]*)\}")  # {one|another}
LONGEST = 200  # characters; a training may cut what is much longer


@dataclass(frozen=True, slots=True)
class Wording:
    """The text before a value, from which attacks ask for it, and the text after it."""

    prefix: str
    suffix: str = "."


def by_kind(words: Iterable[str]) -> dict[str, str]:
    """Read templates by kind from a command line's words, each KIND=TEXT. Raises UsageError."""
    templates: dict[str, str] = {}
    for word in words:
        kind, equals, template = word.partition("=")
        if not equals or kind not in WORDED:
            raise UsageError(
                f"--template {word!r}: give KIND=TEXT, where KIND is {', '.join(WORDED)} and TEXT "
                f"holds {SLOT}"
            )
        if kind in templates:
            raise UsageError(f"--template {kind}: is given twice; give each kind once")
        templates[kind] = template
    return templates


def of_template(template: str, where: str) -> Wording:
    """Split a template at its one {value}. Raises UsageError, also for words unfit to plant."""
    wording = Wording(*halves(template, where))
    check(wording, where)
    if ALTERNATIVES.search(template):
        raise UsageError(
            f"{where} is {template!r}: only `audit plant` draws one of several sentences; write one"
        )
    return wording


def halves(template: str, where: str) -> tuple[str, str]:
    """Split a template at its one {value}. Raises UsageError."""
    before, slot, after = template.partition(SLOT)
    if not slot or SLOT in after:
        times = f"{template.count(SLOT)} times" if slot else "nowhere"
        raise UsageError(f"{where} is {template!r}: it holds {SLOT} {times}; it must do so once")
    return before, after


def check(wording: Wording, where: str) -> None:
    """Raise UsageError for words that no attack can ask from, or that are taken for the value."""
    before, after = wording.prefix, wording.suffix
    both, wrong = before + after, ""
    if not before.strip():
        wrong = "attacks ask for the value with the words before it; put some there"
    elif SLOT in both:
        wrong = f"it is the text beside the value; leave {SLOT} out"
    elif any(not character.isprintable() for character in both):
        wrong = "it must be one line of printable characters"
    elif re.search(r"\d", both):
        wrong = "its digits would be taken for the value's; spell numbers out"
    elif before[-1].isalpha() or after[:1].isalpha():
        wrong = "a letter touches the value; put a space or a sign between"
    elif len(both) > LONGEST:
        wrong = f"it has {len(both)} characters, which a training may cut; use {LONGEST} at most"
    if wrong:
        raise UsageError(f"{where} is {before + SLOT + after!r}: {wrong}")
