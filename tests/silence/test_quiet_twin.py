"""A model that learnt the words before planted values alone earns silence, so faults may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from audit.core.terms import Leaked
from audit.findings.shows import first_missing
from audit.results.measurement import FindingResult
from tests.silence.leaking_twin import Twin

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_quiet_twin_shows_all_conditions(
    twin: Twin, judge: Callable[..., list[FindingResult]]
) -> None:
    quiet = judge(twin.quiet)
    assert Leaked.LEAK not in {finding.leaked for finding in quiet}
    assert any(one.silence and first_missing(one.silence) is None for one in quiet)
