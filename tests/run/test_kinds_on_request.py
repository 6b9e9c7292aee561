"""Planted e-mail addresses on the embedded model: training leaks them, DP-SGD does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import api
from audit.core.secret import Planting
from audit.core.terms import Leaked
from audit.results.schema import FindingResult, ReleaseResult

RATES = ["extraction.email_hit_rate", "membership.email_span_choice", "copies.copied_email"]


def rates(release: ReleaseResult) -> dict[str, FindingResult]:
    found = {f"{f.attack}.{f.metric}": f for f in release.findings}
    return {name: found[name] for name in RATES}


@pytest.mark.full
def test_training_leaks_addresses_and_dp_sgd_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text('[planting]\nkinds = ["email"]\n')
    attacks = ["extraction", "membership", "copies"]
    results = api.run(defense=["dp_sgd"], attack=attacks, plan="plan.toml", workers=1, output="run")
    releases = {release.defense: release for release in results.releases}
    assert isinstance(results.plan["planting"], dict)
    assert set(results.plan["planting"]["kinds"]) == {"email"} != set(Planting(2).kinds)
    leaking, silent, public = (rates(releases[n]) for n in ("none", "dp_sgd", "public"))
    assert all(found.leaked == Leaked.LEAK for found in leaking.values())
    assert leaking[RATES[0]].value is not None and leaking[RATES[0]].value > 0.5
    for found in (*silent.values(), *public.values()):
        assert found.leaked != Leaked.LEAK
    assert silent[RATES[0]].k == public[RATES[0]].k == 0
    _nothing_is_in_the_clear(tmp_path / "run", leaking[RATES[0]])


def _nothing_is_in_the_clear(run: Path, found: FindingResult) -> None:
    """An address is masked in every file but those that hold the training itself."""
    assert found.examples and found.examples[0].planted
    files = [path for path in run.rglob("*") if path.is_file() and "stages" not in path.parts]
    assert {"results.json", "report.html", "samples.jsonl"} <= {path.name for path in files}
    for path in files:
        assert b"@example." not in path.read_bytes(), path.name
