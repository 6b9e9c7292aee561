"""What a run declares before it is carried out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from attacks.exposure import Exposure
from attacks.membership import Membership
from audit.contract import toys
from audit.core.corpus import Corpus
from audit.core.secret import PLANTED, Planted
from audit.findings.rejections import Family
from audit.prepare.run import Run


@pytest.mark.parametrize(("base_known", "scores"), [(True, 8), (False, 4)])
def test_family_adds_up_attacks_without_scores_beside_unknown_base(
    base_known: bool, scores: int
) -> None:
    """Of records and of codes; the choice of a code; the low ends; two tiers of ids."""
    plugins = (Membership(), Exposure())
    plan: Any = SimpleNamespace(
        attacks=tuple(SimpleNamespace(plugin=attack) for attack in plugins),
        source=SimpleNamespace(base_known=base_known),
        looks=1,
        lots=1,
    )
    planted, rest = Planted(Corpus("toy", ()), toys.secrets(PLANTED), toys.COINS), Any
    run = Run(plan, planted, rest, rest, rest, {}, (), {})  # type: ignore[arg-type]
    claims = 2 * scores + 1 + 2
    tossed = 3 * 2 * scores + 2 * 2  # a rank test, a top and guesses each; two low ends each
    assert run.family == Family(tossed + 1 + 2 * 2, claims, tossed, bets=2 * scores)
