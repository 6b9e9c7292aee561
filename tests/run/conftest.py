"""Makes the runs of this folder cheaper where they do not differ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")  # a package ends with the session
def _few_other_sentences() -> Iterator[None]:
    """A drawn sentence is compared with 255 others; tests/silence compares it with 3,999."""
    from audit.silence import weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "MOST", 255)
        yield
