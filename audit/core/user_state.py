"""Locate the folder of this user's own state, which no run folder and no checkout contains."""

from __future__ import annotations

import os
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.writing import make_folder


def state_path(purpose: str) -> Path:
    """Return the path of that folder, which may not be there. Raises RuntimeError for no home."""
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "llm-audit" / purpose


def user_state(purpose: str) -> Path:
    """Return the folder of this user's state for one purpose, created with mode 0700.

    It lies in XDG_STATE_HOME, by default ~/.local/state. Raises UsageError if it cannot be made.
    """
    try:
        folder = state_path(purpose)
        make_folder(folder, private=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"the user's state folder cannot be written ({error}); set XDG_STATE_HOME to a folder "
            "that outlives this process"
        ) from None
    return folder
