"""The mechanism that a guarantee states, as coins that decide one unit each see it."""

from __future__ import annotations

from dataclasses import replace

from audit.accounting.mechanism import Gaussians, Mechanism
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
    """Derives the mechanism whose trade-off curve one coin must obey; the reason if there is none.

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
    """Names a mechanism: "DP-SGD, σ = 1.1, q = 0.01, T = 1000"."""
    return " and ".join(_described(term, mechanism) for term in mechanism.active)


def _described(term: Gaussians, mechanism: Mechanism) -> str:
    if not term.sampled:
        return f"Gaussian noise, μ = {mechanism.mu_of(term):.4g}"
    records = f", {term.records} records each" if term.records > 1 else ""
    return (
        f"DP-SGD, σ = {term.noise_multiplier:.4g}, q = {term.sampling_probability:.4g}, "
        f"T = {term.count}{records}"
    )


def _stated(guarantee: Guarantee) -> Mechanism | str:
    if guarantee.promises_nothing:
        return "no ε is claimed"
    if guarantee.basis != "worst case":
        return f"the claim is {guarantee.basis}, a curve holds for the worst case"
    if guarantee.accounting is None:
        return "an ε is claimed, and no mechanism of noisy sums"
    mechanism, _ = from_table(guarantee.accounting)
    if not 0.0 < mechanism.mu < float("inf"):
        return "the mechanism claimed releases nothing, or adds no noise"
    return mechanism


def _in_relation(mechanism: Mechanism, relation: str, also: tuple[str, ...]) -> Mechanism | str:
    """Puts the mechanism into the relation of the coins. also: where its profile is the same."""
    if relation == mechanism.relation or relation in also:
        return mechanism
    if relation != Relation.REPLACE:
        return "the mechanism covers units that are replaced, the coins let them come and go"
    if any(term.sampled and term.records > 1 for term in mechanism.terms):
        return _NO_PAIR
    return replace(mechanism, relation=Relation.REPLACE)


def _of_records(mechanism: Mechanism, relation: str, records: int) -> Mechanism | str:
    """Lets one coin decide so many of the claim's units."""
    if records > 1 and relation == Relation.REPLACE and any(t.sampled for t in mechanism.terms):
        return _NO_PAIR
    terms = (replace(term, records=term.records * records) for term in mechanism.terms)
    return replace(mechanism, terms=tuple(terms))


_NO_PAIR = (
    "a coin exchanges several records that are sampled one by one: no curve is known for that"
)
