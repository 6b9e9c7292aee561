"""A new kind of term: one class and one entry in KINDS, and all of accounting follows."""

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from dp_accounting import dp_event

from audit.accounting import (
    Gaussians,
    Mechanism,
    Term,
    calibrate,
    claimed_mechanism,
    curve_of,
    described,
    epsilon,
    recompute,
    sigma_upper,
    table,
    to_table,
)
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit
from audit.findings.stored import _of_accounting
from audit.statistics.claim_curve import EPSILONS, p_value
from defenses.as_is import AsIs


@dataclass(frozen=True, slots=True)
class Laplaces(Term):
    """Counts with Laplace noise of scale `noise_multiplier`; a record moves each by at most 1."""

    kind: ClassVar[str] = "laplaces"
    noise_multiplier: float
    count: int
    records: int = 1

    def event(self):
        return dp_event.LaplaceDpEvent(self.noise_multiplier / self.records)

    def described(self, relation):
        return f"Laplace noise, b = {self.noise_multiplier:.4g}, T = {self.count}"

    @property
    def condition(self):
        return f"{self.count} counts with Laplace noise"

    def unknown_under(self, relation):
        return "" if relation == Relation.ADD_OR_REMOVE else "replaced counts are not known"


@dataclass(frozen=True, slots=True)
class Tree(Term):
    """All prefix sums of 2^(height − 1) steps, by a binary tree: a record is in `height` nodes."""

    kind: ClassVar[str] = "tree"
    noise_multiplier: float
    count: int
    height: int
    records: int = 1

    is_gaussian = True

    def mu(self, relation):
        if self.inactive:
            return 0.0
        moved = self.records * (2.0 if relation == Relation.REPLACE else 1.0)
        return moved * math.sqrt(self.count * self.height) / self.noise_multiplier

    def event(self):
        return dp_event.GaussianDpEvent(self.noise_multiplier / math.sqrt(self.height))

    def described(self, relation):
        return f"tree of height {self.height}"

    @property
    def condition(self):
        return f"{self.count} trees of height {self.height}"


@dataclass(frozen=True, slots=True)
class Plain(Term):
    """Sampled Gaussian sums as an author without any fast code would write them."""

    kind: ClassVar[str] = "plain"
    noise_multiplier: float
    count: int
    q: float
    records: int = 1

    def event(self):
        return dp_event.PoissonSampledDpEvent(
            self.q, dp_event.GaussianDpEvent(self.noise_multiplier)
        )

    def described(self, relation):
        return "plain"

    condition = "plain"


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for kind in (Laplaces, Tree):
        monkeypatch.setitem(table.KINDS, kind.kind, kind)


def laplaces(b, count=1, records=1):
    return Mechanism((Laplaces(b, count, records),), "add_or_remove")


def delta_of(b, e):
    """δ(ε) of one Laplace release at distance 1: 1 − e^((ε − 1/b)/2) up to ε = 1/b."""
    return max(0.0, 1 - math.exp((e - 1 / b) / 2))


@pytest.mark.parametrize("b", [0.2, 7.0])
def test_laplace_epsilon_is_its_closed_form(b):
    delta = 0.01
    exact = max(0.0, 1 / b + 2 * math.log1p(-delta))
    assert exact <= epsilon(laplaces(b), delta) <= exact * (1 + 1e-4) + 1e-4
    pure = epsilon(laplaces(b), 1e-9)  # the largest loss, which a grid rounds up
    assert 1 / b + 2 * math.log1p(-1e-9) <= pure <= 1.02 / b
    four = epsilon(laplaces(4 * b, records=4), delta)
    assert four == pytest.approx(epsilon(laplaces(b), delta), rel=1e-4)


def test_laplace_curve_is_its_closed_form():
    found, exact = curve_of(laplaces(2.0)).deltas, [delta_of(2.0, e) for e in EPSILONS]
    assert (found >= exact).all() and found == pytest.approx(exact, abs=1e-4)
    assert curve_of(laplaces(2.0, 3)).advantage > curve_of(laplaces(2.0)).advantage


def test_many_laplaces_cost_at_most_their_pure_epsilons():
    """And at least what one Gaussian of the same variance does, in its limit of many."""
    many = laplaces(20.0, 100)
    assert 0.3 * 5.0 < epsilon(many, 1e-5) < 5.0
    both = replace(many, terms=(*many.terms, Gaussians(1.0, 200, 0.05)))
    alone = epsilon(replace(both, terms=both.terms[1:]), 1e-5)
    assert max(alone, epsilon(many, 1e-5)) < epsilon(both, 1e-5) < alone + 5.0


def test_tree_is_one_gaussian():
    tree = Mechanism((Tree(8.0, 1, 4),), "replace")
    assert epsilon(tree, 1e-5) == epsilon(Mechanism((Gaussians(8.0, 4),), "replace"), 1e-5)
    assert curve_of(tree).deltas == pytest.approx(
        curve_of(Mechanism((Gaussians(4.0, 1),), "replace")).deltas, rel=1e-12
    )


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
def test_event_alone_gives_what_fast_code_does(relation):
    """Removing and adding a sampled unit are not alike: ε takes the larger, the curve both."""
    slow, fast = (Mechanism((kind(1.1, 50, 0.05),), relation) for kind in (Plain, Gaussians))
    assert 0.999 <= epsilon(slow, 1e-5, 1e-3) / epsilon(fast, 1e-5, 1e-3) <= 1.02
    near = curve_of(fast).deltas[:150]
    assert curve_of(slow, points=2e4).deltas[:150] == pytest.approx(near, rel=2e-2, abs=1e-5)


@pytest.mark.parametrize("first", [Laplaces(1.0, 5), Tree(1.0, 5, 3)], ids=lambda t: t.kind)
def test_noise_is_calibrated(first):
    mechanism = Mechanism((first,), "add_or_remove")
    sigma = calibrate(2.0, 1e-5, mechanism)
    for noise, kept in ((sigma, True), (0.995 * sigma, False)):
        terms = (replace(first, noise_multiplier=noise),)
        assert (epsilon(replace(mechanism, terms=terms), 1e-5) <= 2.0) == kept


def claim(mechanism, **changes):
    stated = Guarantee(
        epsilon=epsilon(mechanism, 1e-5),
        unit=Unit.USER,
        relation=mechanism.relation,
        release="model",
        basis="worst case",
        theorem="t",
        delta=1e-5,
        accounting=to_table(mechanism, 1e-5),
    )
    return replace(stated, **changes)


@pytest.mark.parametrize("first", [Laplaces(2.0, 5), Tree(4.0, 5, 3)], ids=lambda t: t.kind)
def test_table_is_recomputed_and_the_claim_tested(first):
    mechanism = Mechanism((first, Gaussians(3.0, 4)), "add_or_remove")
    stated = claim(mechanism)
    assert recompute(stated.accounting) == stated.epsilon
    assert claimed_mechanism(stated, Unit.USER, Relation.ADD_OR_REMOVE) == mechanism
    assert _of_accounting(stated) == ""
    lower = replace(stated, epsilon=0.9 * stated.epsilon)
    assert "its own accounting gives" in _of_accounting(lower)
    of_record = claimed_mechanism(claim(mechanism, unit=Unit.RECORD), Unit.USER, "add_or_remove", 3)
    assert [term.records for term in of_record.terms] == [3, 3]
    assert described(mechanism).endswith("and Gaussian noise, μ = 0.6667")


def test_claim_is_refuted_on_its_curve():
    mechanism = laplaces(10.0, 5)
    assert p_value(curve_of(mechanism), 120, 80, 78) < 0.05
    assert sigma_upper(mechanism, 120, 80, 78) < 10.0


def test_relation_without_a_known_pair_is_refused():
    with pytest.raises(ValueError, match="replaced counts are not known"):
        Mechanism((Laplaces(1.0, 1),), "replace")
    reason = claimed_mechanism(claim(laplaces(20.0, 100)), Unit.USER, Relation.REPLACE)
    assert reason == "replaced counts are not known"


def test_no_noise_has_no_epsilon():
    assert epsilon(laplaces(0.0), 1e-5) == math.inf
    assert epsilon(laplaces(1.0, 0), 1e-5) == 0.0
    with pytest.raises(ValueError, match="mu must be above 0"):
        curve_of(laplaces(0.0))


def test_an_unknown_kind_is_named(monkeypatch):
    written = to_table(laplaces(1.0), 1e-5)
    monkeypatch.delitem(table.KINDS, "laplaces")
    with pytest.raises(UsageError, match="'laplaces'"):
        recompute(written)


def test_a_trainer_states_its_terms_in_a_file(tmp_path):
    mechanism, file = Mechanism((Laplaces(2.0, 5), Tree(4.0, 5, 3)), "add_or_remove"), "terms.json"
    (tmp_path / file).write_text(json.dumps(to_table(mechanism, 1e-5)["terms"]))
    promise = AsIs(claim="1e-5:user:add_or_remove", mechanism=str(tmp_path / file)).promise
    assert promise.epsilon == epsilon(mechanism, 1e-5) == recompute(promise.accounting)
    assert "5 counts with Laplace noise; 5 trees of height 3" in promise.conditions[0]
    with pytest.raises(UsageError, match="replaced counts are not known"):
        AsIs(claim="1e-5:user:replace", mechanism=str(tmp_path / file))
    with pytest.raises(UsageError, match="leave out noise_multiplier, "):
        AsIs(
            claim="1e-5:user:add_or_remove",
            mechanism=str(tmp_path / file),
            noise_multiplier=1.0,
            sampling_probability=0.5,
            steps=3,
        )


def test_a_file_without_terms_is_refused_in_one_line(tmp_path):
    for text in ("", "3", "[3]", '[{"count": 1}]', '[{"kind": []}]', '[{"kind": "x"}]'):
        (tmp_path / "terms.json").write_text(text)
        with pytest.raises(UsageError, match="mechanism=") as refused:
            AsIs(claim="1e-5:user:add_or_remove", mechanism=str(tmp_path / "terms.json"))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"count": math.nan}, "whole numbers"),
        ({"count": 10.5}, "whole numbers"),
        ({"records": math.nan}, "whole numbers"),
        ({"count": 0}, "releases nothing of a unit"),
        ({"records": 0}, "releases nothing of a unit"),
        ({"sampling_probability": 0}, "releases nothing of a unit"),
    ],
)
def test_a_mechanism_without_releases_states_no_epsilon(tmp_path, field, why):
    term = {"kind": "gaussians", "noise_multiplier": 1.1, "count": 10} | field
    (tmp_path / "terms.json").write_text(json.dumps([term]))
    with pytest.raises(UsageError, match=why) as refused:
        AsIs(claim="1e-5:user:add_or_remove", mechanism=str(tmp_path / "terms.json"))
    assert "\n" not in str(refused.value)
