"""An undefended model under a claim of ε = 8, more than any outcome of so few coins can refute.

Every attack alone fails the gate: what leaks is a leak, whatever was promised.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import api
from audit.findings.rejections import Family
from audit.findings.shows import Shows
from audit.findings.verdict import claim_overall, judge
from audit.gate import verdict
from audit.gate.policy import Policy
from audit.results.joined import leaked_overall
from tests.gate import make


@pytest.mark.full
def test_every_attack_alone_fails_an_undefended_model(tmp_path: Path) -> None:
    """`none`, asked for as a defense: as it is, and as if somebody called it (8, 1e-5)-DP."""
    attacks = ["extraction", "exposure", "membership", "name_leak"]
    done = api.run(
        defense="none", attack=attacks, output=tmp_path, format="json", workers=1, references=False
    )
    (undefended,) = done.releases
    assert verdict(done, Policy(), None, make.TODAY).exit_code == 1
    family, claim = Family(undefended.tests, undefended.claim_tests), make.claim(8.0)
    for attack in attacks:
        found = [f for f in undefended.findings if f.attack == attack]
        judged = judge(found, claim, Shows(), family)
        words = {"leaked": leaked_overall(judged), "claim": claim_overall(judged, claim)}
        update = {"guarantee": claim, "findings": judged, **words}
        release = undefended.model_copy(update=update)
        outcome = verdict(make.run(release), Policy(), None, make.TODAY)
        assert (attack, outcome.exit_code) == (attack, 1)
