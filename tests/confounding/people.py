"""People who write alike: each with a length, words and years of their own, in all their texts."""

from __future__ import annotations

import numpy as np

from audit.confounding import Side, Sides
from audit.confounding.profile import Texts

WORDS = [a + b for a in "bdfghklmnprst" for b in ("ako", "elu", "ivi", "oto", "usa", "ыва")]


def person(
    draw: np.random.Generator, since: float = 1980.0, size: float = 20.0, most: int = 6
) -> Texts:
    """One to `most` texts, which are far more alike than those of two people."""
    length = size * draw.lognormal(0.0, 0.5)
    taste = draw.dirichlet(np.full(len(WORDS), 0.2))
    year = since + draw.normal(0.0, 6.0)
    texts = []
    for _ in range(int(draw.integers(1, most + 1))):
        words = list(draw.choice(WORDS, max(1, int(draw.poisson(length))), p=taste))
        texts.append(" ".join([*words, f"in {int(year + draw.integers(0, 2))}."]))
    return tuple(texts)


def people(
    count: int, draw: np.random.Generator, since: float = 1980.0, **how: float
) -> list[Texts]:
    return [person(draw, since, **how) for _ in range(count)]  # type: ignore[arg-type]


def sides(inside: list[Texts], outside: list[Texts]) -> Sides:
    return Sides(Side("IN", tuple(inside), len(inside)), Side("OUT", tuple(outside), len(outside)))
