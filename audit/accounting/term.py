"""The interface of a term: some releases of one kind, each with fresh noise.

A new kind of term is one file with a subclass of `Term`, and one line in `table.KINDS`. Bounds on
ε, trade-off curves, tables and `audit verify` read terms through this interface alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, ClassVar

from audit.accounting.privacy_loss import Losses, Pair

LEAST_NOISE = 1e-9  # below it ε has no meaning, and floats overflow


class Term(ABC):
    """`count` releases of one kind. Subclasses are frozen dataclasses with these fields and more.

    kind: its name in accounting tables.
    noise_multiplier: scale of the noise over the most that one record moves a release.
    count: how many releases are composed.
    records: how many records the protected unit holds.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    noise_multiplier: float
    count: int
    records: int

    def __post_init__(self) -> None:
        """Raise ValueError for fields that no release has."""
        if not 0.0 <= self.noise_multiplier < math.inf:
            raise ValueError(
                f"noise_multiplier must be finite, at least 0; got {self.noise_multiplier}"
            )
        if 0.0 < self.noise_multiplier < LEAST_NOISE:
            raise ValueError(
                f"noise_multiplier must be 0 or at least {LEAST_NOISE}; got {self.noise_multiplier}"
            )
        if not all(isinstance(n, Integral) and n >= 0 for n in (self.count, self.records)):
            raise ValueError(
                "count and records must be whole numbers of at least 0; got "
                f"{self.count}, {self.records}"
            )

    @abstractmethod
    def event(self) -> Any:
        """Make dp-accounting's DpEvent of one release; its accountants know the relations."""

    @abstractmethod
    def described(self, relation: str) -> str:
        """Name the releases in a few words."""

    @property
    @abstractmethod
    def condition(self) -> str:
        """State what must hold of the releases, as a condition of a guarantee."""

    @property
    def inactive(self) -> bool:
        """Test whether nothing of the unit is in any release."""
        return self.count == 0 or self.records == 0

    @property
    def is_gaussian(self) -> bool:
        """Test whether all releases together are exactly one Gaussian, at distance `mu`."""
        return False

    def mu(self, relation: str) -> float:
        """Compute μ of one Gaussian that dominates all releases together; inf: none is known."""
        return 0.0 if self.inactive else math.inf

    def unknown_under(self, relation: str) -> str:
        """State why no worst-case pair of a release is known in this relation; "": it is known."""
        return ""

    def losses(self, relation: str, interval: float) -> tuple[Losses, ...]:
        """Discretise the loss of one release, of removing and of adding; (): as its event's."""
        return ()

    def spread(self, relation: str) -> tuple[float, float] | None:
        """Estimate width (nats) and variance of the loss of one release; None: as its event's."""
        return None

    def pair(self, relation: str) -> Pair | None:
        """Compute the worst-case pair of one release, for Rényi divergences; None: not known."""
        return None

    def known_coins_moment(self, order: float) -> float:
        """Compute (order - 1)·D_order of one release (nats) that also reveals which records of the
        unit are in it, all of them replaced; inf: not known."""
        return math.inf
