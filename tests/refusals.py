"""Tables of what is refused: each in one line, which holds the words beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from audit.core.errors import UsageError


def refusals(
    act: Callable[[Any], object], table: Iterable[tuple[Any, str | tuple[str, ...]]]
) -> None:
    """Checks that `act` refuses what stands first in each row; names all rows that are wrong."""
    wrong = []
    for given, words in table:
        try:
            act(given)
        except UsageError as error:
            told, due = str(error), (words,) if isinstance(words, str) else words
            if "\n" in told or not all(word in told for word in due):
                wrong.append(f"{given!r}: {due} is not in {told!r}")
        else:
            wrong.append(f"{given!r}: was not refused")
    assert not wrong, "\n".join(wrong)
