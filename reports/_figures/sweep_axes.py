"""The axes of a sweep's figures: ε of one kind of guarantee, or a parameter of one defense."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.results import words
from audit.results.schema import ReleaseResult
from reports._content import wording
from reports._content.releases import setting_labels

Member = tuple[float, ReleaseResult]  # a place on the axis, and what stands there


@dataclass(frozen=True)
class Axis:
    """An axis and the settings that have a place on it.

    name: its label. title: the same, with all that its members share. parameter: the swept one.
    """

    name: str
    title: str
    parameter: str
    members: tuple[Member, ...]

    @property
    def lines(self) -> list[tuple[str, list[Member]]]:
        """The members of each line, in the order of the axis; a line shares what is not swept."""
        names = setting_labels([release for _, release in self.members], self.parameter)
        lines: dict[str, list[Member]] = {}
        for name, member in zip(names, self.members, strict=True):
            lines.setdefault(name, []).append(member)
        return [(name, sorted(line, key=lambda m: m[0])) for name, line in lines.items()]


def epsilon_axes(settings: Sequence[ReleaseResult]) -> Iterator[Axis]:
    """Make an axis for each kind of guarantee: kinds never share an axis."""
    kinds: dict[str, list[Member]] = {}
    for release in settings:
        epsilon = wording.finite(release.guarantee)
        if not release.reference and epsilon:
            kinds.setdefault(kind(release), []).append((epsilon, release))
    for scope, members in kinds.items():
        claim = members[0][1].guarantee
        name = f"ε claimed, nats {wording.per_unit(claim.unit, claim.relation)}"
        yield Axis(name, f"ε {scope}", "epsilon", tuple(members))


def kind(release: ReleaseResult) -> str:
    """Describe what two guarantees must share before their ε may be ranked."""
    claim = release.guarantee
    parts = [wording.per_unit(claim.unit, claim.relation)]
    if claim.alpha is not None:
        parts.append(f"Rényi order {words.number(claim.alpha)}")
    if claim.delta is not None:
        parts.append(f"δ = {words.at_most(claim.delta)}")
    return ", ".join([*parts, claim.basis])


def parameter_axes(settings: Sequence[ReleaseResult]) -> Iterator[Axis]:
    """Make an axis for each numeric parameter but ε that the grid varies within one defense."""
    audited = [release for release in settings if not release.reference]
    for defense in dict.fromkeys(release.defense for release in audited):
        mine = [release for release in audited if release.defense == defense]
        for name in mine[0].parameters:
            values = [release.parameters.get(name) for release in mine]
            numbers = [float(v) for v in values if _is_number(v)]  # type: ignore[arg-type]
            varied = len(numbers) == len(values) and len(set(numbers)) > 1
            if name != "epsilon" and varied:
                members = tuple(zip(numbers, mine, strict=True))
                title = f"{wording.spelled(name)} of {defense}"
                yield Axis(title, title, name, members)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def identifier(*parts: str) -> str:
    """Name a drawing uniquely, safe in an id."""
    return f"sweep-{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:10]}"
