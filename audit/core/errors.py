"""Errors that a user can fix; each is one line that states what, where and what to do."""

from __future__ import annotations

import difflib


class UsageError(Exception):
    """Bad input or usage. The command line prints it on one line and exits with 2."""


class DamagedError(Exception):
    """A file of a run folder is damaged. The command line reports it in one line; exit code 3."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error message; its class name if it is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def did_you_mean(word: str, known: list[str]) -> str:
    """Suggest a close match, such as `; did you mean 'submix'?`, or list the known words."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known))}" if known else ""
