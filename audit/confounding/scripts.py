"""Profile of scripts: which alphabets, capitals, digits and signs texts are written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from audit.confounding.profile import Check, Profile, Texts
from audit.statistics.unlike import Norm

_OTHERS = {
    "C": "controls",
    "M": "accents",
    "N": "digits",
    "P": "punctuation marks",
    "S": "symbols",
    "Z": "blanks",
}


def profile(users: Sequence[Texts]) -> Profile:
    """Compute the shares of scripts in each user's characters: (users, scripts)."""
    counts = [_counts(texts) for texts in users]
    found = sorted({script for own in counts for script in own})
    rows = np.array([[own[script] for script in found] for own in counts], dtype=float)
    rows /= np.maximum(1.0, rows.sum(axis=1, keepdims=True))
    return Profile(Check.SCRIPT, rows, Norm.HALF_SUM, found)


def _counts(texts: Texts) -> Counter[str]:
    counts: Counter[str] = Counter()
    for character, times in Counter("".join(texts)).items():
        counts[_script(character)] += times
    return counts


@cache
def _script(character: str) -> str:
    """Name the script of a character by the first word of its Unicode name, as in "Latin"."""
    category = unicodedata.category(character)
    if category[0] in _OTHERS:
        return _OTHERS[category[0]]
    script = unicodedata.name(character, "unnamed").split()[0].split("-")[0]
    script = script if script == "CJK" else script.capitalize()
    return f"{script} {'capitals' if category == 'Lu' else 'letters'}"
