"""What leaked: silence of one test says nothing where another one of the same finding speaks."""

from __future__ import annotations

import pytest

from audit.findings.leaked import suspicious
from audit.results.schema import ClaimTest
from tests.findings.by_hand import HALF, NONE, finding, judged, promise


def on_curve(p: float) -> ClaimTest:
    return ClaimTest(
        mechanism="DP-SGD", m=100, r=80, v=70, p_value=p, least_p=1e-9, critical=77,
        noise_at_most=None,
    )  # fmt: skip


@pytest.mark.parametrize(("p", "word"), [(0.04, "inconclusive"), (0.06, "no leak found")])
def test_a_test_of_the_claim_that_rejects_unadjusted_is_no_silence(p: float, word: str) -> None:
    """Whatever refutes a claim refutes chance, which is the claim ε = 0."""
    given = finding(NONE, HALF, claim_test=on_curve(p))
    assert suspicious(given) == (p < 0.05)
    (one,) = judged([given], promise(2.0), claims=10)
    assert (one.leaked, one.claim) == (word, "not refuted")
