"""Scratch folders of Ray: removed at the end, or after a kill by whoever next looks for them."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from audit.core.writing import held_folder, remove_if_abandoned

SHORT = Path("/tmp")  # a socket's path must be short; $TMPDIR may be long
_NAME = re.compile(r"audit-ray-[0-9a-f]{16}")


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Make a folder that only its owner can read, and remove it when the block ends."""
    with held_folder(lambda: parent / f"audit-ray-{secrets.token_hex(8)}") as folder:
        yield folder


def remove_abandoned(parent: Path = SHORT) -> int:
    """Remove the scratch folders whose process was killed; return their size in bytes."""
    ours = (path for path in parent.glob("audit-ray-*") if _NAME.fullmatch(path.name))
    folders = (path for path in ours if path.is_dir() and not path.is_symlink())
    return sum(map(remove_if_abandoned, folders))
