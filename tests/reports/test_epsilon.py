"""Empirical beside claimed ε: nothing is concluded that answer, unit and relation do not carry."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.core.terms import OnClaim
from audit.results.schema import Results
from reports._content import claims
from reports._content.figure import Figure
from reports._figures import epsilon, svg
from tests import by_hand as make

ONE_RUN, RANK = make.bound(2.6), make.by_rank(2.6)


@pytest.mark.parametrize(
    ("claimed", "claim", "found", "said"),
    [
        (1.0, {}, {"claim": "refuted"}, "Refuted"),
        (8.0, {}, {"claim": "not refuted"}, "no proof of safety"),
        (1.0, {}, {"claim": "not refuted"}, "not once adjusted for all tests"),
        (1.0, {"delta": 1e-3}, {"claim": "not refuted"}, "at a smaller δ than it allows"),
        (8.0, {}, {"stronger_than_release": True}, "for or against"),
        (None, {}, {"claim": "unknown"}, "unknown"),
        (math.inf, {}, {"claim": "nothing claimed"}, "contradicts nothing"),
        (8.0, {"unit": "record"}, {}, "Not comparable, in either direction. The claim is per rec"),
        (8.0, {"relation": "replace"}, {}, "the bound is per user (add or"),
        (2.0, {"alpha": 2.0}, {}, "Rényi divergence of order 2"),
        (2.0, {"basis": "data-dependent"}, {}, "data-dependent; the bound"),
    ],
)
def test_conclusion_follows_answer_unit_and_relation(
    claimed: float | None, claim: dict[str, Any], found: dict[str, Any], said: str
) -> None:
    finding = make.finding(0.9, epsilon_lower=ONE_RUN, **found)
    told = claims.conclusion(make.guarantee(claimed, **claim), finding, ONE_RUN)
    assert said in told
    assert ("safety" in told) == (said == "no proof of safety")


def test_only_a_refutation_is_called_refuted() -> None:
    for word in set(OnClaim) - {OnClaim.REFUTED}:
        finding = make.finding(0.9, leaked="leak", claim=word)
        assert "Refuted" not in claims.conclusion(make.guarantee(0.1), finding, ONE_RUN)


def test_every_bound_above_zero_has_its_row(four: Results) -> None:
    found = claims.comparisons(make.named(four.releases, [r.defense for r in four.releases]))
    assert [(c.name, c.count) for c in found] == [
        ("submix", 10), ("submix_unprotected", 23), ("none", 23)
    ]  # fmt: skip
    for comparison in found:
        tables = [table for _, tables in comparison.grounds for table in tables]
        assert sum(len(table.rows) for table in tables) == comparison.count
        assert all("per user" in table.caption and "95" in table.caption for table in tables)


def test_audited_release_without_a_bound_is_shown() -> None:
    quiet = make.release("quiet", make.guarantee(1.0), make.finding(0.0))
    control = make.release("public", make.guarantee(0.0), make.finding(0.0), reference=True)
    (found,) = claims.comparisons(make.named([quiet, control], ["quiet", "public"]))
    assert found.count == 0 and "no proof of safety" in found.grounds[0][0]


def test_bound_is_explained_by_its_method() -> None:
    four = ONE_RUN.changed(m=500, guesses=[(332, 250), (82, 80), (41, 41)])
    for bound, told in (
        (ONE_RUN, "by one run: 71 of 80 guesses right on 120 coins"),
        (four, "by one run: 250 of 332, 80 of 82, 41 of 41 guesses right"),
        (RANK, "by rank: lower median 153 of 1,000,000 candidates, 20 secrets"),
        (RANK, "ε ≥ 2.6 nats per user (add or remove) at δ = 1 × 10⁻⁵"),
        (ONE_RUN.changed(value=0.0), "nothing above ε = 0 per user (add or remove)"),
        (None, "no bound"),
    ):
        assert told in claims.explained(bound)


def drawn(*releases: Any) -> Figure:
    (figure,) = epsilon.figures(make.named(releases, "abc"))
    return figure


def test_figure_has_the_claim_beside_its_bounds() -> None:
    refuted = make.finding(0.9, leaked="leak", claim="refuted", epsilon_lower=ONE_RUN)
    beyond = make.finding(0.9, stronger_than_release=True, epsilon_lower=RANK)
    loud = make.release("dp_sgd", make.guarantee(1.0, delta=1e-5), refuted, beyond)
    quiet = make.release("quiet", make.guarantee(1.0), make.finding(0.0))
    figure = drawn(loud, quiet)
    assert figure.svg.count("claimed 1 per user") == 2
    assert [row[2] for row in figure.table.rows] == ["2.6, 2.6", "none above 0"]
    assert svg.ALARM in figure.svg and ">claim refuted<" in figure.svg
    figure = drawn(quiet)  # a claim is shown without any bound
    assert "claimed 1 per user" in figure.svg
    assert svg.ALARM not in figure.svg and "claim refuted" not in figure.svg


def test_listed_bound_is_rounded_down() -> None:
    found = make.finding(0.9, leaked="leak", epsilon_lower=ONE_RUN.changed(value=2.9996))
    assert drawn(make.release("d", make.guarantee(3.0), found)).table.rows[0][2] == "2.99"


def test_infinite_bound_is_drawn() -> None:
    endless = ONE_RUN.changed(value=math.inf)
    found = make.finding(1.0, leaked="leak", claim="refuted", epsilon_lower=endless)
    assert drawn(make.release("d", make.guarantee(0.0), found)).table.rows[0][2] == "∞"
