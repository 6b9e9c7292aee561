"""ε of a phrase when every unit (or teacher) that contains it changes at once.

The number of units that contain a phrase is itself private: these figures are for the auditor only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.accounting import EpsilonDistribution
from audit.core.errors import UsageError
from audit.core.terms import Relation

RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)  # SeqPATE's paper reports the second


def read(name: str, file: str) -> tuple[str, ...]:
    """Reads the phrases of a file, one a line. Raises UsageError."""
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: phrases={file} cannot be read ({error})") from None
    phrases = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not phrases:
        raise UsageError(f"{name}: phrases={file} is empty; write one phrase a line")
    return phrases


def counts(name: str, file: str, owners: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Counts the owners of texts that contain each phrase of the file as whole words."""
    numbers = []
    for phrase in read(name, file):
        words = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
        pairs = zip(owners, texts, strict=True)
        numbers.append(len({owner for owner, text in pairs if words.search(text)}))
    return numbers


def table(relation: str, delta: float, spread: EpsilonDistribution) -> dict[str, Any]:
    """Writes the distribution of ε (nats) over phrases as an entry of `Guarantee.phrases`."""
    return {"relation": relation, "delta": delta, **asdict(spread)}
