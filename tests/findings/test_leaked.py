"""What leaked: the adjusted p-value alone decides, of a test or of its guesses."""

from __future__ import annotations

import pytest

from audit.results.schema import ClaimTest
from tests.findings.by_hand import HALF, NONE, finding, judged, promise


def on_curve(right: int, p: float) -> ClaimTest:
    return ClaimTest(
        mechanism="DP-SGD", m=100, r=80, v=right, p_value=p, least_p=1e-9, critical=70,
        noise_at_most=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("p", "tests", "word"),
    [
        (0.004, 10, "leak"),  # 0.04
        (0.006, 10, "inconclusive"),  # 0.06
        (0.0149, 10, "inconclusive"),
        (0.0151, 10, "no leak found"),
        (0.04, 10, "no leak found"),  # one of ten is below 0.05 in 40 % of runs
    ],
)
def test_grey_zone_lies_between_leak_and_silence(p: float, tests: int, word: str) -> None:
    (one,) = judged([finding(p, None)], promise(None), tests=tests)
    assert one.leaked == word
    shown = {"inconclusive": f"adjusted p = {p * tests:.2g}"}.get(word, f"p = {p:.2g}")
    said = "one of 10" in one.sentence and shown in one.sentence
    assert said == (word != "leak")


@pytest.mark.parametrize(("right", "claim", "word"), [
    (78, "refuted", "leak"),
    (40, "not refuted", "no leak found"),  # a p-value of the claim that its guesses contradict
])  # fmt: skip
def test_claim_falls_only_where_its_guesses_leak(right: int, claim: str, word: str) -> None:
    (one,) = judged([finding(NONE, HALF, claim_test=on_curve(right, 1e-6))], promise(2.0), claims=2)
    assert (one.leaked, one.claim) == (word, claim)


def test_bound_beside_silence_is_called_unadjusted() -> None:
    first, _ = judged([finding(NONE, 45), finding(NONE, 40, metric="b")], promise(None), tests=9)
    assert first.leaked == "no leak found"
    assert "is one of 2, unadjusted" in first.sentence
