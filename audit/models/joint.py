"""The models of an ensemble, put together so that what they share is computed once."""

from __future__ import annotations

from collections.abc import Sequence

from audit.ensemble import Ensemble, Separate
from audit.language_model import LanguageModel


def joint(members: Sequence[LanguageModel]) -> Ensemble:
    """The members as one ensemble, in their order."""
    return Separate(members)
