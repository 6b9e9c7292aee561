"""A home whose files a stranger is after."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """Files of the user; `unharmed` is whether they are as they were."""

    path: Path
    before: dict[str, tuple[str, int]]

    @property
    def unharmed(self) -> bool:
        return seen(self.path) == self.before


def seen(folder: Path) -> dict[str, tuple[str, int]]:
    """Content and mode of everything in a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_text("utf-8") if path.is_file() else "",
            path.lstat().st_mode,
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }
