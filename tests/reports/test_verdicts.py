"""Labels of verdicts: made from the words of results.json, each with a meaning and a shape."""

from __future__ import annotations

import math

import pytest

from audit.core.terms import Verdict
from reports._content import verdicts


@pytest.mark.parametrize(
    ("verdict", "epsilon", "label"),
    [
        ("refuted", 8.0, "claim refuted"),
        ("consistent", 8.0, "leak, within the claim"),
        ("consistent", math.inf, "leak (nothing was promised)"),
        ("not comparable", 8.0, "leak, no test of the claim"),
        ("not comparable", None, "leak, no test of the claim"),
        ("silent", math.inf, "no leak found"),
        ("inconclusive", 8.0, "inconclusive"),
        ("not measured", None, "not measured"),
    ],
)
def test_labels(verdict: str, epsilon: float | None, label: str) -> None:
    assert verdicts.label(verdict, epsilon) == label


def test_every_label_has_a_meaning_and_a_shape() -> None:
    labels = {verdicts.label(v, epsilon) for v in Verdict for epsilon in (None, 1.0, math.inf)}
    assert labels == set(verdicts.MEANINGS)
    assert labels == set(verdicts.on_screen()) == set(verdicts.on_paper())


def test_an_unknown_verdict_is_no_label() -> None:
    with pytest.raises(ValueError, match="fine"):
        verdicts.label("fine", None)
