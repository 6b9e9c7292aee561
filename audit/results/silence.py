"""The conditions of "no leak found", and what shows each of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from audit.core.terms import Shown
from audit.results.numbers import Count
from audit.results.part import Strict, words_of

REMOVED = "removed before training"  # how such a contact begins


class Link(Strict):
    """One condition of "no leak found", and the evidence for it."""

    state: Annotated[Shown, words_of(Shown)] = Field(description="whether it was shown")
    by: str = Field(description="what shows it, or the reason why it was not shown")
    n: Count = Field(description="number of observations behind it")

    @property
    def shown(self) -> bool:
        """Return whether the condition was shown."""
        return self.state == Shown.SHOWN

    @property
    def removed(self) -> bool:
        """Return whether the planted text was removed before training, so nothing was measured."""
        return self.state == Shown.NOT_SHOWN and self.by.lower().startswith(REMOVED)


class Silence(Strict):
    """The three conditions of "no leak found".

    contact: the planted secrets reached the measured weights. sight: the measure detects memorised
    text in this model. reach: a leak of the size that matters would have been called a leak.
    """

    contact: Link
    sight: Link
    reach: Link

    @property
    def links(self) -> tuple[Link, Link, Link]:
        """The three conditions, in this order."""
        return self.contact, self.sight, self.reach
