"""Errors a user can act on; each is one line that says what, where and what to do."""

from __future__ import annotations

import difflib


class UsageError(Exception):
    """Bad input or bad usage. The command line prints it on one line and exits with 2."""


def first_line(error: Exception) -> str:
    """What another library says of its error, on one line; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def did_you_mean(word: str, known: list[str]) -> str:
    """A suggestion such as `; did you mean 'submix'?`, or the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known))}" if known else ""
