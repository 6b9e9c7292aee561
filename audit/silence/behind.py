"""The words behind which a model knows more than attacks ask for; importing it loads no model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LEVEL = 0.05  # of "values of people in stand no higher behind any words", over all kinds


class Behind(NamedTuple):
    """Holds words behind which a model knows more than behind those that attacks ask with.

    p_value: of "the values of people in stand, or come up, no more there than others"; None: the
    drawn words themselves are far likelier there. as_asked: whether values of people in stand
    higher as attacks ask, too.
    """

    words: str
    p_value: float | None = None
    as_asked: bool = False

    @property
    def counts(self) -> bool:
        return self.p_value is None or self.p_value <= LEVEL

    def among(self, kinds: int) -> Behind:
        """Adjust for so many kinds, of which each had its chance."""
        p_value = self.p_value
        return self if p_value is None else self._replace(p_value=min(1.0, kinds * p_value))


def likeliest(found: Iterable[Behind | None]) -> Behind | None:
    """Choose among those of several kinds."""
    every = [one for one in found if one is not None]
    least = min(every, key=lambda one: one.p_value or 0.0, default=None)
    return None if least is None else least.among(len(every))
