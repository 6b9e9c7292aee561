"""The embedded model and its tokenizer."""

from __future__ import annotations

from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.models.loading import describe, load_tokenizer, load_weights


@pytest.fixture(scope="session")
def base() -> Any:
    folder = describe("embedded", EMBEDDED_FOLDER)
    return load_weights(folder, "cpu"), load_tokenizer(folder)
