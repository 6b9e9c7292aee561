"""The catalogue of silent faults, its row of evidence: what attacks saw of a leaking release.

Contact and sight are supposed. A stage of another run is put aside before it is read (see
tests/results), and coins of another manifest are a fault of training text.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from audit.core.evidence import Evidence, Hits, Scores, to_json
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, digits
from audit.core.terms import Leaked
from audit.findings import Case, family_of
from audit.findings.shows import Shows, shown
from audit.findings.verdict import judge
from audit.measure.attacked import Attacked, of_release
from audit.results.schema import GuaranteeResult

OWNERS = [f"customer {i}" for i in range(120)]
COINS = Coins({owner: i % 2 == 0 for i, owner in enumerate(OWNERS)}, dict.fromkeys(OWNERS, 0))
GENERATOR = np.random.default_rng(4)
SECRETS = tuple(
    Secret("code", "Her code is #", digits(9).draw(GENERATOR), ".", digits(9), 1, owner, slot)
    for owner in OWNERS
    for slot in (0, 1)
)
PLANTED = np.array([COINS.planted(secret) for secret in SECRETS])
CLAIM = no_guarantee("no protection")


def words(*seen: Evidence) -> set[Leaked]:
    """Judge what was seen of a release that everything planted reached, by measures that see."""
    case = Case("attack", SECRETS, COINS, 1e-5, 0, Access.DISTRIBUTION, guarantee=CLAIM)
    family = family_of(seen, SECRETS)
    measurements = of_release([Attacked(case, [to_json(one) for one in seen])], family)
    sight = {(m.attack, m.metric): shown("supposed", 1) for m in measurements}
    shows = Shows({"code": shown("supposed", 60)}, sight)
    found = judge(measurements, GuaranteeResult.of(CLAIM), shows, family)
    return {finding.leaked for finding in found}


def scores(change: Callable[[np.ndarray], np.ndarray], shift: float = 5.0) -> Scores:
    values = np.random.default_rng(1).normal(size=len(SECRETS)) + shift * PLANTED
    return Scores("loss", "span", change(values), named=True, kind="code")


def hits(tries: int, shift: float = 1.0) -> Hits:
    """All generations are planted secrets, or none."""
    places = np.flatnonzero(PLANTED)[:tries] if shift else np.full(tries, -1)
    return Hits(places, (1,) * tries)


def put(value: float, where: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.where(where, value, values)


EVERY = np.ones(len(SECRETS), dtype=bool)
FAULTS: dict[str, Evidence] = {
    "scores equal": scores(put(0.0, EVERY)),
    "scores NaN": scores(put(np.nan, EVERY)),
    "scores infinite": scores(put(-np.inf, EVERY)),
    "scores of members NaN": scores(put(np.nan, PLANTED)),
    "all but a few NaN": scores(put(np.nan, np.arange(len(SECRETS)) > 20)),
    "zero tries": hits(0),
}


def test_unharmed_evidence_leaks_and_quiet_is_silent() -> None:
    for leaking, quiet in (
        (scores(np.copy), scores(np.copy, shift=0.0)),
        (hits(60), hits(60, shift=0.0)),
    ):
        assert Leaked.LEAK in words(leaking)
        assert Leaked.NONE_FOUND in words(quiet)


@pytest.mark.parametrize("fault", FAULTS)
def test_spoilt_evidence_is_never_silent(fault: str) -> None:
    assert Leaked.NONE_FOUND not in words(FAULTS[fault])
