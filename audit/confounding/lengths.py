"""Profile of the lengths of texts, in characters."""

from __future__ import annotations

from collections.abc import Sequence

from audit.confounding.profile import Check, Profile, Texts, cumulative
from audit.statistics.unlike import Norm


def profile(users: Sequence[Texts]) -> Profile:
    """Compute the share of each user's texts up to each length: (users, lengths)."""
    lengths, rows = cumulative([[len(text) for text in texts] for texts in users])
    labels = [f"texts of at most {length:,.0f} characters" for length in lengths]
    return Profile(Check.LENGTH, rows, Norm.LARGEST, labels)
