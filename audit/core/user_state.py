"""Locate the folder of this user's own state, which no run folder and no checkout contains."""

from __future__ import annotations

import os
from pathlib import Path

from audit.core.errors import UsageError


def user_state(purpose: str) -> Path:
    """Return the folder of this user's state for one purpose, created with mode 0700.

    It lies in XDG_STATE_HOME, by default ~/.local/state. Raises UsageError if it cannot be made.
    """
    home = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
        folder = base / "llm-audit" / purpose
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"the user's state folder cannot be written ({error}); set XDG_STATE_HOME to a folder "
            "that outlives this process"
        ) from None
    return folder
