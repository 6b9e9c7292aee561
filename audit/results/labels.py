"""Names releases by their defense, and by the parameters in which those of one defense differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

# the defense of a model that was trained elsewhere: it is audited, and no remedy
ELSEWHERE = "as_is"


class Named(Protocol):
    """A release of a run or of a baseline."""

    @property
    def defense(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def seed(self) -> int: ...


def labels(releases: Sequence[Named]) -> list[str]:
    """Write `submix`, or `submix:k=4` where several releases are of one defense."""
    return [_label(one, [r for r in releases if r.defense == one.defense]) for one in releases]


def _label(one: Named, same: Sequence[Named]) -> str:
    names = sorted({name for release in same for name in release.parameters})
    values = {name: one.parameters.get(name) for name in names}
    differing = [
        f"{name}={value}"
        for name, value in values.items()
        if name in one.parameters and any(release.parameters.get(name) != value for release in same)
    ]
    if any(release.seed != one.seed for release in same):
        differing.append(f"seed={one.seed}")
    return one.defense + (":" + ",".join(differing) if differing else "")
