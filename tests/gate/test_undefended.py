"""An undefended model under a claim of ε = 8, more than any outcome of so few coins can refute.

Every attack alone fails the gate: what leaks is a leak, whatever was promised.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from audit import api
from audit.core.evidence import (
    Evidence,
    Hits,
    Likelihoods,
    Mentions,
    Ranks,
    Scores,
    Successes,
)
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, digits
from audit.findings import Case, measurements_of
from audit.findings.rejections import Family
from audit.findings.shows import Shows
from audit.findings.verdict import claim_overall, judge
from audit.gate import verdict
from audit.gate.outcome import State
from audit.gate.policy import Policy
from audit.results.joined import leaked_overall
from tests.findings.by_hand import by_holm, shows
from tests.gate import make

USERS, FIVE = 100, digits(5)
DRAW = np.random.default_rng(11)
OWNERS = [f"user {i}" for i in range(USERS)]
COINS = Coins(
    present={
        owner: bool(side) for owner, side in zip(OWNERS, DRAW.integers(0, 2, USERS), strict=True)
    },
    slot=dict.fromkeys(OWNERS, 0),
)
SECRETS = tuple(
    Secret("code", "#", f"{10_000 + 2 * i + slot}", ".", FIVE, 4, owner, slot)
    for i, owner in enumerate(OWNERS)
    for slot in (0, 1)
)
PLANTED = np.array([COINS.planted(secret) for secret in SECRETS])
NAMED = [int(i) for i in np.flatnonzero(PLANTED)]
LOUD = np.where(PLANTED, 0.0, -9.0) + DRAW.normal(size=len(SECRETS))


def ranks() -> Ranks:
    """Every planted secret is the first of its 100,000, and no other stands out."""
    rank = np.where(PLANTED, 1.0, DRAW.integers(1, 100_000, len(SECRETS)))
    full, none = np.full(len(rank), 100_000.0), np.full(len(rank), np.nan)
    return Ranks(-rank, rank, rank, rank, full, rank, np.ones(len(rank)), none)


ATTACKS: dict[str, Callable[[], Evidence]] = {
    "extraction": lambda: Hits(np.array(NAMED), (1,) * len(NAMED)),
    "most likely values": lambda: Hits(
        np.array(NAMED), (1,) * len(NAMED), sampled=False, access=Access.DISTRIBUTION
    ),
    "likelihoods": lambda: Likelihoods(LOUD - 5),
    "exposure": ranks,
    "membership": lambda: Scores("loss", "record", LOUD),
    "spans": lambda: Scores("loss", "span", LOUD, named=True),
    "names": lambda: Mentions(tuple((i,) for i in NAMED), np.full(len(NAMED), np.nan)),
    "reconstruction": lambda: Successes(
        won=PLANTED.astype(float), metric="targeted", unit="share of secrets", chance=None
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_alone_fails_the_gate(attack: str) -> None:
    """Whether there are no references, or references that found nothing."""
    claim = make.claim(8.0)
    for tests, sensitive in product((1, 30), (None, {})):
        case = Case(
            attack, SECRETS, COINS, delta=1e-5, seed=0, access=Access.DISTRIBUTION,
            tests=tests, claim_tests=tests,
        )  # fmt: skip
        found = measurements_of([ATTACKS[attack]()], case)
        family = Family(tests, tests)
        judged = judge(by_holm(found, claim, family), claim, shows(sensitive), family)
        assert leaked_overall(judged) == "leak"
        if attack != "exposure":  # a rank among 100,000 refutes more than coins do
            assert claim_overall(judged, claim) == "not testable"
        release = make.release("as_is", *judged, guarantee=claim, tests=tests, claim_tests=tests)
        outcome = verdict(make.run(release), Policy(), None, make.TODAY)
        assert (outcome.state, outcome.exit_code) == (State.FAIL, 1)
        assert any(c.rule == "leak" and c.state == State.FAIL for c in outcome.checks)


@pytest.mark.full
def test_so_does_a_model_that_was_trained(tmp_path: Path) -> None:
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
