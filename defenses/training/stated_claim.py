"""The guarantee that a trainer states of a model trained elsewhere: an ε, or its mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.accounting import (
    BandedSums,
    Gaussians,
    Mechanism,
    Term,
    described,
    epsilon,
    terms_of,
    to_table,
    unknown_under,
)
from audit.accounting.banded import participations, square_root
from audit.core.errors import UsageError, first_line
from audit.core.files import read_json
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit

UNITS = (Unit.RECORD, Unit.USER)
RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)
_ROUNDED = 1.0 + 1e-5
_ADVICE = "write EPSILON:DELTA:UNIT:RELATION, such as 8:1e-5:user:add_or_remove"
_WITHOUT = (
    "with noise_multiplier, sampling_probability and steps EPSILON: may be left out, as in "
    "1e-5:user:add_or_remove"
)
UNKNOWN = Guarantee(
    epsilon=None,
    unit=Unit.USER,
    relation=Relation.ADD_OR_REMOVE,
    release="model",
    basis="worst case",
    theorem="its training is unknown",
)


@dataclass(frozen=True)
class Sums:
    """Noisy sums as a trainer states them: of DP-SGD, or of DP-FTRL by the banded square root.

    The fields are those of `as_is`; None: not stated.
    """

    noise_multiplier: float | None
    sampling_probability: float | None
    steps: int | None
    bands: int | None
    participations: int | None

    @property
    def given(self) -> list[str]:
        """Name what is stated."""
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Make the term of what is stated; none of nothing. Raises UsageError."""
        if not self.given:
            return ()
        sigma, q, steps = self.noise_multiplier, self.sampling_probability, self.steps
        bands, most = self.bands, self.participations
        if most is not None and (bands is None or q is not None):
            raise UsageError(
                "as_is: participations is a cap of DP-FTRL without sampling; give bands with it, "
                "and no sampling_probability"
            )
        q = q if most is None else 1.0
        stated = {"noise_multiplier": sigma, "sampling_probability": q, "steps": steps}
        if missing := [name for name, value in stated.items() if value is None]:
            raise UsageError(
                f"as_is: a mechanism is {', '.join(stated)}; add {' and '.join(missing)}"
            )
        assert sigma is not None and q is not None and steps is not None
        if bands is None or (bands == 1 and most is None):
            return (Gaussians(sigma, steps, q),)
        if bands > steps:
            raise UsageError(f"as_is: bands is {bands}, but steps is {steps}; lower bands")
        count = participations(steps, bands) if most is None else most
        try:
            return (BandedSums(sigma, count, steps, square_root(bands), q),)
        except ValueError as error:
            raise UsageError(f"as_is: {error}") from None


def terms_in(file: str) -> tuple[Term, ...]:
    """Read the terms that a trainer states: a JSON list, as in `accounting` of results.json."""
    try:
        return terms_of(read_json(Path(file)))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"as_is: mechanism={file} cannot be read ({first_line(error)}); write the terms of "
            '`accounting` in results.json, such as [{"kind": "gaussians", "noise_multiplier": 1.1, '
            '"count": 1000, "sampling_probability": 0.01}]'
        ) from None


def stated(claim: str | None, training: tuple[Term, ...]) -> Guarantee:
    """Read the trainer's claim; compute its ε where the trainer states the mechanism.

    claim: EPSILON:DELTA:UNIT:RELATION, or DELTA:UNIT:RELATION beside a mechanism. training: its
    terms, if any; their ε is the guarantee, and a condition states this where EPSILON is larger.
    Raises UsageError for a claim that cannot be read, and for an ε below that of the mechanism.
    """
    if claim is None and not training:
        return UNKNOWN
    if claim is None:
        raise UsageError(
            "as_is: noise_multiplier, sampling_probability and steps say how an ε comes about; "
            "say of what: claim=DELTA:UNIT:RELATION, such as 1e-5:user:add_or_remove"
        )
    claimed, delta, unit, relation = _parts(claim, bool(training))
    if not training:
        assert claimed is not None
        return _guarantee(claimed, delta, unit, relation)
    if not delta:
        raise UsageError(f"as_is: claim is {claim!r}: Gaussian noise needs a δ above 0")
    if reason := unknown_under(relation, training):
        raise UsageError(f"as_is: claim is {claim!r}: {reason}")
    mechanism = Mechanism(training, relation)
    if not mechanism.active:
        raise UsageError(
            f"as_is: claim is {claim!r}, but the mechanism that was stated releases nothing of a "
            "unit; correct count, records and sampling_probability, which must be above 0"
        )
    computed = _epsilon(mechanism, delta)
    if claimed is not None and claimed * _ROUNDED < computed:
        raise UsageError(
            f"as_is: claim states ε = {claimed:g}, but {described(mechanism)} gives "
            f"{math.ceil(computed * 1e4) / 1e4:g} at δ = {delta:g} ({relation}); correct one of "
            "them, or leave EPSILON: out"
        )
    more: tuple[str, ...] = ()
    if claimed is not None and claimed > computed * _ROUNDED:
        more = (f"ε = {claimed:g} was stated, and the mechanism that was stated gives less",)
    return _guarantee(computed, delta, unit, relation, mechanism, more)


def _guarantee(
    epsilon: float,
    delta: float,
    unit: str,
    relation: str,
    mechanism: Mechanism | None = None,
    more: tuple[str, ...] = (),
) -> Guarantee:
    theorem, how = "claimed by its trainer, not proved here", "as its trainer claims"
    if mechanism is not None:
        theorem = f"{described(mechanism)}: {theorem}; ε computed here (dp-accounting, pessimistic)"
        terms = "; ".join(term.condition for term in mechanism.terms)
        how += f": {terms}; what each {unit} adds is clipped before the noise is added"
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        relation=relation,
        release="model",
        basis="worst case",
        theorem=theorem,
        conditions=(f"assumed, not checked: the model was trained {how}", *more),
        accounting=None if mechanism is None else to_table(mechanism, delta),
    )


@lru_cache
def _epsilon(mechanism: Mechanism, delta: float) -> float:
    return epsilon(mechanism, delta)


def _parts(claim: str, has_mechanism: bool) -> tuple[float | None, float, str, str]:
    """Read (ε or None, δ, unit, relation). Raises UsageError."""
    advice = f"{_ADVICE}; {_WITHOUT}" if has_mechanism else _ADVICE
    words: list[Any] = claim.split(":")
    if has_mechanism and len(words) == 3:
        words = [None, *words]
    try:
        first, second, unit, relation = words
        epsilon, delta = None if first is None else float(first), float(second)
    except ValueError:
        raise UsageError(f"as_is: claim is {claim!r}; {advice}") from None
    if not (0 <= delta < 1 and (epsilon is None or epsilon >= 0)):
        raise UsageError(f"as_is: claim is {claim!r}: ε must be at least 0, δ in [0, 1); {advice}")
    if unit not in UNITS or relation not in RELATIONS:
        raise UsageError(
            f"as_is: claim is {claim!r}: the unit can be {' or '.join(UNITS)}, the relation "
            f"{' or '.join(RELATIONS)}; {advice}"
        )
    return epsilon, delta, unit, relation
