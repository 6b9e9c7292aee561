"""ε of a phrase when every unit (or teacher) that contains it changes at once.

The number of units that contain a phrase is itself private: these figures are for the auditor only.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.accounting import EpsilonDistribution, least_noise
from audit.core.errors import UsageError
from audit.core.files import read_text
from audit.core.terms import Relation

AVERAGED = Relation.REPLACE  # where noise is chosen by an average: both papers' defenses have it
RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)  # SeqPATE's paper reports the second


def check(name: str, file: str | None, average: float | None) -> None:
    """Raise UsageError for a file that cannot be read, or for an average without a file."""
    if average is not None and file is None:
        raise UsageError(
            f"{name}: phrase_epsilon={average:g} is an average over phrases; name their file in "
            "phrases"
        )
    if file is not None:
        read(name, file)


def read(name: str, file: str) -> tuple[str, ...]:
    """Read the phrases of a file, one a line. Raises UsageError."""
    try:
        lines = read_text(Path(file)).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: phrases={file} cannot be read ({error})") from None
    phrases = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not phrases:
        raise UsageError(f"{name}: phrases={file} is empty; write one phrase a line")
    return phrases


def counts(name: str, file: str, owners: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Count the owners of texts that contain each phrase of the file as whole words."""
    numbers = []
    for phrase in read(name, file):
        words = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
        pairs = zip(owners, texts, strict=True)
        numbers.append(len({owner for owner, text in pairs if words.search(text)}))
    return numbers


def noise_for(
    name: str,
    average: float,
    occurrences: Sequence[int],
    epsilon_of: Callable[[float, int], float],
    bounds: tuple[float, float],
) -> float:
    """Find the least noise for which ε averages at most `average` nats over the phrases.

    occurrences: one entry a phrase. epsilon_of: ε (nats) of a noise, for a phrase with so many. It
    is not linear in them, so every number has its own. bounds: the least and the largest noise.
    Raises UsageError where no phrase occurs, or no noise comes to the average.
    """
    numbers = Counter(occurrences)
    if not any(numbers):
        raise UsageError(
            f"{name}: no phrase of the file occurs in private text, so no noise makes their "
            f"average ε {average:g}; write phrases that do, one a line"
        )

    def mean(noise: float) -> float:
        terms = (times * epsilon_of(noise, number) for number, times in numbers.items())
        return math.fsum(terms) / len(occurrences)

    try:
        return least_noise(mean, average, bounds)
    except UsageError as error:
        raise UsageError(f"{name}: phrase_epsilon: {error}; choose another average") from None


def chosen(average: float) -> str:
    """State the condition of noise that was chosen from private counts."""
    return (
        f"the noise was chosen from private counts, so that ε averages {average:g} nats under "
        f"{AVERAGED} over the phrases of a file: with other data it would have been another, which "
        "ε does not cover; to compare with the paper, and not for a release"
    )


def table(relation: str, delta: float, spread: EpsilonDistribution) -> dict[str, Any]:
    """Write the distribution of ε (nats) over phrases as an entry of `Guarantee.phrases`."""
    return {"relation": relation, "delta": delta, **asdict(spread)}
