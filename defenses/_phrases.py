"""ε for phrases: all units, or teachers, that hold one, changed together (arXiv 2310.15526).

How many hold a phrase is itself private: these figures are for the auditor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.accounting import EpsilonDistribution
from audit.core.errors import UsageError

RELATIONS = ("add_or_remove", "replace")  # the second stands beside SeqPATE's figures


def read(name: str, file: str) -> tuple[str, ...]:
    """The phrases of a file, one a line. Raises UsageError."""
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: phrases={file} cannot be read ({error})") from None
    phrases = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not phrases:
        raise UsageError(f"{name}: phrases={file} is empty; write one phrase a line")
    return phrases


def counts(name: str, file: str, owners: Sequence[str], texts: Sequence[str]) -> list[int]:
    """How many owners hold each phrase of the file in one of their texts, as whole words."""
    held = []
    for phrase in read(name, file):
        words = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
        found = zip(owners, texts, strict=True)
        held.append(len({owner for owner, text in found if words.search(text)}))
    return held


def table(relation: str, delta: float, found: EpsilonDistribution) -> dict[str, Any]:
    """The distribution of ε (nats) over the phrases, as a guarantee holds it."""
    return {"relation": relation, "delta": delta, **asdict(found)}
