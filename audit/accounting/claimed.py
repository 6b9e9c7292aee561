"""The mechanism that a guarantee states, as coins that decide one unit each see it."""

from __future__ import annotations

from dataclasses import replace

from audit.accounting.mechanism import Mechanism, unknown_under
from audit.accounting.table import from_table
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit

_MARKED = (Unit.ATTRIBUTES, Unit.ATTRIBUTES_OF_USER)
_WHOLE = (Unit.RECORD, Unit.ONE_RECORD, Unit.USER)
_COVERED: dict[str, tuple[str, ...]] = {  # what a claim covers when its units come and go
    Unit.USER: (Unit.USER, Unit.ONE_RECORD),
    Unit.RECORD: _WHOLE,
}
_EXCHANGED: dict[str, tuple[str, ...]] = {  # and when they are replaced
    Unit.USER: (*_WHOLE, *_MARKED),
    Unit.RECORD: (*_WHOLE, *_MARKED),
    Unit.ATTRIBUTES_OF_USER: _MARKED,
    Unit.ATTRIBUTES: _MARKED,
}


def claimed_mechanism(
    guarantee: Guarantee, unit: str, relation: str, records: int = 1
) -> Mechanism | str:
    """Derive the mechanism whose trade-off curve one coin must obey; the reason if there is none.

    unit, relation: what one coin decides, and whether it comes and goes ("add_or_remove") or one of
    two takes its place ("replace"). "private attributes of …" also says that the two values are
    marked alike and have as many tokens. records: the most rows of the trainer's sampler that one
    coin decides (copies times pieces of a text), none shared with other text. A claim per user
    covers them together; of a claim per record it takes so many.

    The result is to be tested on `curve_of`. It holds for a claim with a known mechanism only:
    δ plays no part.
    """
    stated = _stated(guarantee)
    if isinstance(stated, str):
        return stated
    covered = (_COVERED if relation == Relation.ADD_OR_REMOVE else _EXCHANGED).get(guarantee.unit)
    if covered is None or unit not in covered:
        return f"the claim is per {guarantee.unit}, a coin decides: {unit} ({relation})"
    if records < 1:
        return "a coin decides no record"
    in_relation = _in_relation(stated, relation, guarantee.also)
    if isinstance(in_relation, str):
        return in_relation
    together = guarantee.unit in (Unit.USER, Unit.ATTRIBUTES_OF_USER)
    return _of_records(in_relation, relation, 1 if together else records)


def described(mechanism: Mechanism) -> str:
    """Name a mechanism: "DP-SGD, σ = 1.1, q = 0.01, T = 1000"."""
    return " and ".join(term.described(mechanism.relation) for term in mechanism.active)


def _stated(guarantee: Guarantee) -> Mechanism | str:
    if guarantee.promises_nothing:
        return "no ε is claimed"
    if guarantee.basis != "worst case":
        return f"the claim is {guarantee.basis}, a curve holds for the worst case"
    if guarantee.accounting is None:
        return "an ε is claimed, and no mechanism of noisy sums"
    mechanism, _ = from_table(guarantee.accounting)
    if mechanism.noiseless or not mechanism.active:
        return "the mechanism claimed releases nothing, or adds no noise"
    return mechanism


def _in_relation(mechanism: Mechanism, relation: str, also: tuple[str, ...]) -> Mechanism | str:
    """Put the mechanism into the relation of the coins. also: where its profile is the same."""
    if relation == mechanism.relation or relation in also:
        return mechanism
    if relation != Relation.REPLACE:
        return "the mechanism covers units that are replaced, the coins let them come and go"
    return unknown_under(relation, mechanism.terms) or replace(mechanism, relation=relation)


def _of_records(mechanism: Mechanism, relation: str, records: int) -> Mechanism | str:
    """Let one coin decide so many of the claim's units."""
    if records == 1:
        return mechanism
    terms = tuple(replace(term, records=term.records * records) for term in mechanism.terms)
    return unknown_under(relation, terms) or replace(mechanism, terms=terms)
