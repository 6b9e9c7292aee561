"""Makes the runs of this folder cheaper where they do not differ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest


@pytest.fixture(autouse=True, scope="module")  # a package ends with the session
def _few_looks() -> Iterator[None]:
    """Each way compares with 128 others, values are read behind one template, 16 tokens show how a
    model begins, and a copy learns for 8 steps; tests/silence has 1,250, 6, 64, 200."""
    from audit.silence import memorise, surroundings, weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "EACH", 128)
        patch.setattr(weights, "Surroundings", partial(surroundings.Surroundings, most=1))
        patch.setattr(surroundings, "_TOKENS", 16)
        patch.setattr(memorise, "STEPS", 8)
        yield
