"""Profile of the dates that texts mention: years, months of years, months of a day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from audit.confounding.profile import Check, Profile, Texts, cumulative
from audit.statistics.unlike import Norm

_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_YEAR = r"(?:1[7-9]\d\d|20\d\d|2100)"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    rf"(?<![0-9a-z_])(?:(?P<iso>{_YEAR})-(?P<number>0[1-9]|1[0-2])(?![0-9])"
    rf"|(?:(?P<before>{_DAY})\ (?:of\ )?)?(?P<month>{_MONTH})\b\.?"
    rf"(?:\ (?P<after>{_DAY})\b)?(?:,?\ (?P<year>{_YEAR})\b)?"
    rf"|(?P<bare>{_YEAR})s?(?![0-9a-z_]))",
    re.IGNORECASE,
)


def profile(users: Sequence[Texts]) -> Profile:
    """Compute the shares of each user's dates up to each year and month: (users, moments).

    Columns of months without a year follow. A user without dates has a row of 0, so it counts,
    too, who writes dates at all.
    """
    found = [[date for text in texts for date in dates(text)] for texts in users]
    moments, of_years = cumulative([[at for at, known in own if known] for own in found])
    months, of_months = cumulative([[at for at, known in own if not known] for own in found])
    labels = [f"dates up to {_moment(at)}" for at in moments]
    labels += [f"days of months up to {_NAMES[int(at) - 1].capitalize()}" for at in months]
    return Profile(Check.DATES, np.hstack([of_years, of_months]), Norm.LARGEST, labels)


def dates(text: str) -> Iterator[tuple[float, bool]]:
    """Yield each date: a year with its months as twelfths and True, or a month and False.

    Years are those from 1700 to 2100; a year alone is its beginning. Months are English names with
    a day or a year, or numbers after a year and a hyphen.
    """
    for found in _DATE.finditer(text):
        iso, number, before, month, after, year, bare = found.groups()
        if bare or iso:
            yield float(bare or iso) + (int(number or 1) - 1) / 12, True
        elif year:
            yield float(year) + (_month(month) - 1) / 12, True
        elif before or after:
            yield float(_month(month)), False


def _month(name: str) -> int:
    """Return the number of a month; the pattern takes the long s of old prints for an s."""
    return _NAMES.index(name[:3].casefold()) + 1


def _moment(at: float) -> str:
    year, month = divmod(round(at * 12), 12)
    return f"{year}-{month + 1:02}" if month else str(year)
