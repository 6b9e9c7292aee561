"""What a plan declares before it is carried out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from attacks.exposure import Exposure
from attacks.membership import Membership
from audit.contract import toys
from audit.core.corpus import Corpus
from audit.core.secret import PLANTED, Planted
from audit.train.prepare import Prepared


@pytest.mark.parametrize(("base_known", "fewer"), [(True, 0), (False, 8)])
def test_tests_of_the_base_are_declared(base_known: bool, fewer: int) -> None:
    """Four scores of records, and four of codes, compare with the base model."""
    attacks = (Membership(), Exposure())
    plan = SimpleNamespace(
        attacks=tuple(SimpleNamespace(plugin=attack) for attack in attacks),
        source=SimpleNamespace(base_known=base_known),
    )
    secrets = toys.secrets(PLANTED)
    planted = Planted(Corpus("toy", ()), secrets, toys.COINS)
    rest: Any = None
    prepared = Prepared(cast(Any, plan), planted, rest, rest, rest, {}, (), {})
    own = [tuple(s for s in secrets if s.kind in attack.kinds) for attack in attacks]
    every = sum(attack.tests(some) for attack, some in zip(attacks, own, strict=True))
    claims = sum(attack.claim_tests(some) for attack, some in zip(attacks, own, strict=True))
    assert (prepared.tests, prepared.claim_tests) == (every - fewer, claims - fewer)
