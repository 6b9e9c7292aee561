"""Results made by hand, each built once."""

from __future__ import annotations

import pytest

from audit.results.schema import Results
from tests import by_hand


@pytest.fixture(scope="session")
def results() -> Results:
    return by_hand.EVERY["results"]()


@pytest.fixture(scope="session")
def four() -> Results:
    return by_hand.EVERY["four"]()


@pytest.fixture(scope="session")
def hostile() -> Results:
    return by_hand.EVERY["hostile"]()


@pytest.fixture(scope="session")
def hostile_four() -> Results:
    return by_hand.EVERY["hostile_four"]()


@pytest.fixture(scope="session")
def unfinished() -> Results:
    return by_hand.EVERY["unfinished"]()
