"""Guesses of a short value in a text: anything of the form that its kind has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from audit.core.secret import CODE_LIKE, Secret
from audit.core.words import SIGN

_END = rf"(?:(?<!{SIGN})|(?!{SIGN}))"  # a longer word or number is another value


def kinds_of(secrets: Iterable[Secret]) -> list[str]:
    """List the kinds of short values among the secrets, in the order of `CODE_LIKE`."""
    present = {secret.kind for secret in secrets}
    return [kind for kind in CODE_LIKE if kind in present]


def guess_in(form: re.Pattern[str], text: str, more: Iterable[str] = ()) -> tuple[str, bool]:
    """Return the value that a generation begins with, and True; else its whole text, and False.

    more: texts beside the generation, as of a reasoning. A value may begin them, or be within.
    """
    others = list(more)
    found = (form.match(one) for one in (text, *others))
    within = (form.search(one) for one in others)
    match = next((one for one in (*found, *within) if one is not None), None)
    return (text, False) if match is None else (match.group(1), True)


def form_of(kind: str, secrets: Sequence[Secret]) -> str:
    """Make the regular expression, with one group, of a value of this kind; blanks may precede it.

    A code may have any number of digits. A value of another kind is one of the spaces that those
    of its kind were drawn from.
    """
    if kind == "code":
        return r"\s*(\d+)"
    forms = dict.fromkeys(
        re.escape(s.value) if s.space is None else s.space.form for s in secrets if s.kind == kind
    )
    return rf"\s*({'|'.join(forms)}){_END}"
