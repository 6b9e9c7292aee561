"""What texts share is read once: always, or where it pays."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from audit.models import causal


@pytest.fixture(params=[1, 64], ids=["always shared", "shared where it pays"])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    with patch.object(causal, "_FEW", request.param):
        yield
