"""Measures how often `audit check-data` finds a split by date, and how often it alarms without.

    python benchmarks/check_data.py [RUNS] [FOLDER]        tables of docs/methods/check-data.md

Users are invented: each writes one to six texts about a year of their own, drawn from ten; words
come into use and go out of it, and one text in three names a year. Early users are inside and late
ones outside; a share of the users is split so, the rest by coins. FOLDER: texts of one user each,
in files whose names begin with their year, split in the same ways.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from audit.confounding import Side, Sides, compare
from audit.confounding.comparison import LEVEL
from audit.confounding.profile import Check, Texts

USERS = (20, 60, 200)  # of both sides together
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of users who are split by date
_WORDS, _YEARS, _LENGTH = 600, 10.0, 40.0
_PEAKS = np.random.default_rng(0).uniform(-2.0, _YEARS + 2.0, _WORDS)
_COMMON = np.random.default_rng(1).dirichlet(np.full(_WORDS, 0.3))
Dated = tuple[float, Texts]


def person(draw: np.random.Generator) -> Dated:
    """Write the texts of one user, with a taste, a length and a date that they share."""
    at, length = draw.uniform(0.0, _YEARS), _LENGTH * draw.lognormal(0.0, 0.5)
    taste = _COMMON * draw.gamma(0.5, 2.0, _WORDS) * (1.0 + np.exp(-((at - _PEAKS) ** 2)))
    texts = []
    for _ in range(int(draw.integers(1, 7))):
        words = draw.choice(_WORDS, max(1, int(draw.poisson(length))), p=taste / taste.sum())
        year = f" in {2010 + int(at)}" if draw.random() < 1 / 3 else ""
        texts.append(" ".join(f"w{chr(97 + word % 26)}{word // 26:x}g" for word in words) + year)
    return at, tuple(texts)


def split(people: list[Dated], share: float, draw: np.random.Generator) -> Sides:
    """Split people at the median date, but for the rest, whom a coin splits."""
    middle = float(np.median([at for at, _ in people]))
    by_date = draw.random(len(people)) < share
    coins = draw.permutation(len(people)) % 2 == 0
    early = [at < middle if dated else bool(coin)
             for (at, _), dated, coin in zip(people, by_date, coins, strict=True)]  # fmt: skip
    sides = (
        tuple(texts for (_, texts), here in zip(people, early, strict=True) if here is side)
        for side in (True, False)
    )
    inside, outside = (Side(str(n), own, len(own)) for n, own in enumerate(sides))
    return Sides(inside, outside)


def row(name: str, all_sides: list[Sides]) -> str:
    """Measure how often each check is below 5 % by itself, and how often any fails, adjusted."""
    found: Counter[str] = Counter()
    for seed, sides in enumerate(all_sides):
        compared = compare(sides, seed, 199)
        found.update(str(o.check) for o in compared.outcomes if o.p is not None and o.p <= LEVEL)
        found["any"] += compared.exit_code
    rates = (f"{100 * found[check] / len(all_sides):.0f} %" for check in (*Check, "any"))
    return f"| {name} | " + " | ".join(rates) + " |"


def main() -> None:
    """Print a row for each number of users and each share that is split by date."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("| users | split by date | " + " | ".join(Check) + " | any, adjusted |")
    print("|---" * (len(Check) + 3) + "|")
    for users in USERS:
        for share in SHARES:
            draw = np.random.default_rng([users, int(100 * share)])
            drawn = [split([person(draw) for _ in range(users)], share, draw) for _ in range(runs)]
            print(row(f"{users} | {100 * share:.0f} %", drawn), flush=True)
    if len(sys.argv) > 2:
        files = sorted(Path(sys.argv[2]).glob("*.txt"))
        people = [
            (float(f.name[:4]), (f.read_text(encoding="utf-8", errors="replace"),)) for f in files
        ]
        for share in SHARES:
            draw = np.random.default_rng(int(100 * share))
            drawn = [split(people, share, draw) for _ in range(max(1, runs // 4))]
            print(row(f"{len(people)} speeches | {100 * share:.0f} %", drawn), flush=True)


if __name__ == "__main__":
    main()
