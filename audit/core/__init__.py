"""The nouns of the field: the only package from which authors of plugins import.

    from audit.core import Defense, Release, Training

Their names stand in `__init__.pyi`, for type checkers as well. Each is loaded from its file on
first use, so light commands stay light.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
HOME = {
    noun: file for file, noun in re.findall(r"^from audit\.core\.(\w+) import (\w+)", _STUB, re.M)
}


def __getattr__(name: str) -> Any:
    """Load a noun from its file."""
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOME[name]}"), name)
