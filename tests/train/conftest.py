"""What trainings share: the embedded base, and progress that nobody reads."""

from __future__ import annotations

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.model import ModelFolder
from audit.models.loading import describe


def silent(label: str, share: float) -> None:
    return None


@pytest.fixture(scope="session")
def base() -> ModelFolder:
    return describe("embedded", EMBEDDED_FOLDER)
