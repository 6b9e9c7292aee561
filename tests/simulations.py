"""Sizes of simulations: small in the default suite, large under the `calibration` marker."""

from __future__ import annotations

import pytest


def repeats(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrises `runs`; an exact test or a bound that `few` runs keep stands for `many`."""
    large = pytest.param(many, marks=pytest.mark.calibration)
    return pytest.mark.parametrize("runs", [few, large])
