"""The crudest lie: DP-SGD whose noise was deleted, under the claim that it has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from audit import api
from audit.core.terms import Leaked, OnClaim
from audit.models.training.dp_sgd import Noise


@pytest.mark.slow
def test_the_default_audit_refutes_dp_sgd_without_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of less ε is easier to refute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Noise, "drawn", lambda self, like, stream: torch.zeros_like(like))
    results = api.run(
        defense=["dp_sgd:epsilon=2"], attack=["membership"], workers=1, format=["json"]
    )
    (release,) = [r for r in results.releases if not r.reference]
    assert (release.leaked, release.claim) == (Leaked.LEAK, OnClaim.REFUTED)
    refuting = [f for f in release.findings if f.claim == OnClaim.REFUTED]
    assert all(f.claim_test is not None for f in refuting)
    assert release.guarantee.accounting is not None
    (sums,) = release.guarantee.accounting["terms"]
    most = min(f.claim_test.noise_at_most for f in refuting if f.claim_test)
    assert most is not None and most < sums["noise_multiplier"]
    assert api.gate(results).exit_code == 1
