"""Engines by name: own, opacus, or `module:adapter` for any other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from audit.check.engine import Adapter, Engine
from audit.core.errors import UsageError, did_you_mean, first_line

BUILT_IN = {"own": "Own", "opacus": "Opacus"}


def load(name: str) -> Engine:
    """Find an engine: one of `BUILT_IN`, or an attribute of a module that can be imported.

    The attribute is an Engine, a class of one without parameters, or a function of a Trial. Modules
    are also looked for in the working directory. Raises UsageError.
    """
    module, colon, attribute = name.partition(":")
    if colon:
        return _adapter(module, attribute)
    if name not in BUILT_IN:
        hint = did_you_mean(name, [*BUILT_IN])
        raise UsageError(f"unknown engine {name!r}{hint}; any other is given as module:adapter")
    try:
        found = importlib.import_module(f"audit.check.{name}")
    except ImportError as error:
        why = first_line(error)
        raise UsageError(f"engine {name!r}: {why}; run: pip install {name}") from None
    engine: Engine = getattr(found, BUILT_IN[name])()
    return engine


def _adapter(module: str, attribute: str) -> Engine:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
        made = found() if isinstance(found, type) else found
    except Exception as error:  # another's module may raise anything
        why = f"{type(error).__name__}: {first_line(error)}"
        raise UsageError(f"engine {module}:{attribute}: {why}") from error
    finally:
        sys.path.remove(here)
    if isinstance(made, Engine):
        return made
    if callable(made):
        return Adapter(made)
    raise UsageError(f"engine {module}:{attribute}: expected an Engine, or a function of a Trial")
