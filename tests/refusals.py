"""Tables of what is refused: each in one line, which holds the words beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from audit.core.errors import UsageError


def refusals(act: Callable[[Any], object], table: Iterable[tuple[Any, str]]) -> None:
    """Checks that `act` refuses what stands first in each row; names all rows that are wrong."""
    wrong = []
    for given, words in table:
        try:
            act(given)
        except UsageError as error:
            told = str(error)
            if words not in told or "\n" in told:
                wrong.append(f"{given!r}: {words!r} is not in {told!r}")
        else:
            wrong.append(f"{given!r}: was not refused")
    assert not wrong, "\n".join(wrong)
