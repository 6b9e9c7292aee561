"""Hashes that name a result by everything that determines it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def key_of(*parts: Any) -> str:
    """A short hash of everything that determines a result."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
