"""The leak that must have been found before finding none means something: a setting of a plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from audit.core.rules import Rule, check_fields

# a leak of more than half of the people is no small one, and a coin finds it in half of the runs
EFFECT = Rule("above 0 and at most 0.5", lambda share: 0 < share <= 0.5)
POWER = Rule("at least 0.5 and below 1", lambda power: 0.5 <= power < 1)


@dataclass(frozen=True)
class Reach:
    """The smallest leak that must be found, by how it is measured.

    hits, scores: share of the people who leak wholly, the others not at all, where values come up
    and where people are scored. power: probability that such a leak is found.
    """

    hits: Annotated[float, EFFECT] = 1 / 4
    scores: Annotated[float, EFFECT] = 1 / 3
    power: Annotated[float, POWER] = 0.8

    def __post_init__(self) -> None:
        check_fields("silence", self)

    @property
    def changed(self) -> dict[str, float]:
        """Return the settings that differ from the default, for a plan and its report."""
        usual = asdict(Reach())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}
