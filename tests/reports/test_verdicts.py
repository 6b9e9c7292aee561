"""Labels of both answers: made from the words of results.json, each with a meaning and a shape."""

from __future__ import annotations

import pytest

from audit.core.terms import Leaked, OnClaim
from audit.findings.shows import not_shown
from audit.results.badge import Badge
from audit.results.schema import ChargeTest
from reports._content import verdicts
from tests import by_hand as make


def test_every_label_has_a_meaning_and_a_shape() -> None:
    found = [make.finding(0.4, leaked=word, claim=claim) for word in Leaked for claim in OnClaim]
    charges = make.finding(0.4, leaked="not measured").model_copy(
        update={"charge_test": ChargeTest(queries=3, exceeded=0)}
    )
    gone = make.SILENCE.changed(contact=not_shown("Removed before training: 0 of 9."))
    removed = make.finding(0.4, leaked="not measured", silence=gone)
    found += [charges, removed]
    assert verdicts.leaked(charges) == verdicts.NO_SEARCH
    assert verdicts.leaked(removed) == verdicts.REMOVED
    labels = {verdicts.leaked(f) for f in found} | {verdicts.claim(f) for f in found}
    assert labels == set(verdicts.MEANINGS)
    labels |= set(Badge)
    assert labels == set(verdicts.on_screen()) == set(verdicts.on_paper())
    assert set(verdicts.badges_on_paper()) == set(Badge)


def test_leaks_and_refutations_alarm_and_nothing_else_does() -> None:
    words = {"leak", "leak to insiders", "claim refuted"}
    badges = {b for b in Badge if b.rank < Badge.INCONCLUSIVE.rank}
    assert set(verdicts.ALARMS) == words | badges
    red = {label for label, shape in verdicts.on_paper().items() if "#9b2c1f" in shape}
    assert red == set(verdicts.ALARMS)
    found = {word for word, shape in verdicts.badges_on_paper().items() if "#9b2c1f" in shape}
    assert found == badges


def test_no_two_answers_share_a_shape() -> None:
    """So that none needs its colour."""
    claims = ("claim refuted", "claim not refuted", "claim not tested")
    for words in (Badge, Leaked, claims):
        assert len({verdicts.SHAPES[word] for word in words}) == len(words)


@pytest.mark.parametrize(
    ("words", "tally"),
    [
        ([("leak", "refuted")], ""),
        ([("leak", "not refuted")] * 2, "2 measures, all: leak"),
        ([("leak", "refuted"), ("leak", "not testable")],
         "2 measures, all: leak; 1 refutes the claim"),
        ([("inconclusive", "unknown"), ("leak", "unknown"), ("leak", "unknown")],
         "3 measures: 2 × leak · 1 × inconclusive"),
    ],
)  # fmt: skip
def test_a_tally_counts_leaks_first(words: list[tuple[str, str]], tally: str) -> None:
    found = [make.finding(0.4, leaked=word, claim=claim) for word, claim in words]
    assert verdicts.tally(found).replace("\u00a0", " ") == tally


def test_a_leak_without_a_value_is_not_called_unmeasured() -> None:
    for word in Leaked:
        found = make.finding(None, leaked=word)
        assert (verdicts.measured(found) == "not measured") is not word.detected
