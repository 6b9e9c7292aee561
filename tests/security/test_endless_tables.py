"""Accounting tables of a stranger end in seconds: with a bound, or with one line."""

from __future__ import annotations

import math

import pytest

from audit.accounting import Gaussians, Mechanism, epsilon, gaussian_epsilon, pld
from audit.accounting.table import from_table
from audit.core.errors import UsageError
from audit.core.terms import Relation

HUGE = {"kind": "gaussians", "noise_multiplier": 100.0, "count": 10**9}


@pytest.mark.parametrize("q", [0.5, 0.9999])
def test_endless_composition_has_a_bound(q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PLD would take billions of intervals; the closed form without sampling still holds."""
    sizes: list[int] = []
    real = pld.fft.irfft
    monkeypatch.setattr(pld.fft, "irfft", lambda *given: sizes.append(given[1]) or real(*given))
    mechanism = Mechanism((Gaussians(100.0, 10**9, q),), Relation.ADD_OR_REMOVE)
    bound = epsilon(mechanism, 1e-5)
    unsampled = gaussian_epsilon(math.sqrt(10**9) / 100.0, math.log(1e-5))
    assert unsampled * q * q / 2 < bound <= unsampled
    assert max(sizes, default=0) <= 2 * 10**7


@pytest.mark.parametrize(
    "row",
    [
        HUGE | {"noise_multiplier": 1e-300},
        HUGE | {"sampling_probability": 1e-300},
        HUGE | {"count": -1},
        HUGE | {"records": "many"},
    ],
)
def test_terms_beyond_arithmetic_are_refused(row: dict[str, object]) -> None:
    table = {"relation": "add_or_remove", "delta": 1e-5, "terms": [row]}
    with pytest.raises(UsageError, match="accounting table"):
        from_table(table)
