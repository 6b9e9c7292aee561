"""The attack on a ledger in a whole run: what a session charged reaches what its queries tell."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.terms import Leaked, OnClaim
from audit.results.schema import FindingResult, Results
from audit.verify import verify
from defenses.ensembles.mechanisms.mixing import Mixing
from tests.builders import hellos, planned, run_of


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., Results]:
    """ran(output) -> results of SubMix on eight users; trainings are shared between outputs."""
    plan = planned(
        hellos(tmp_path),
        defense=["submix:k=2,budget=300,epsilon=1000"],
        attack=["ledger:tokens=60"],
        planting={"users": 8, "kinds": ["code", "name"]},
        training={"epochs": 3},
    )
    return lambda output: api.load(run_of(plan, output))


def found(results: Results) -> dict[str, FindingResult]:
    return {release.defense: release.findings[0] for release in results.releases}


@pytest.mark.slow
def test_an_honest_ledger_stands_and_one_that_charges_half_falls(
    ran: Callable[..., Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ran(tmp_path / "honest")
    assert verify(tmp_path / "honest").differences == ()
    findings = found(honest)
    assert set(findings) == {"submix", "submix_unprotected", "none", "public"}
    for name, finding in findings.items():
        if name != "submix":
            assert (finding.value, finding.n) == (None, 0)
            assert finding.method.startswith("needs a prediction service")
    finding = findings["submix"]
    assert (finding.metric, finding.n) == ("largest_share_of_charge", 60)
    assert finding.value == pytest.approx(0.9995, abs=5e-4)  # never above 1
    assert "each within its charge" in finding.sentence
    assert finding.claim == OnClaim.NOT_REFUTED and finding.leaked != Leaked.LEAK

    charges = Mixing.mix

    def half(self: Mixing, *arguments: Any) -> Any:
        mixed = charges(self, *arguments)
        return replace(mixed, costs=mixed.costs / 2)

    monkeypatch.setattr(Mixing, "mix", half)
    trained = shutil.ignore_patterns("session-*", "spike-*", "mask.key", "owner-*")
    shutil.copytree(tmp_path / "honest" / "stages", tmp_path / "false" / "stages", ignore=trained)
    finding = found(ran(tmp_path / "false"))["submix"]
    assert finding.value == pytest.approx(2.0, abs=2e-3)
    assert f"{finding.n} queries" in finding.sentence and "beyond their charge" in finding.sentence
    assert finding.claim == OnClaim.REFUTED
