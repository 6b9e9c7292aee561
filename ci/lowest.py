"""Prints the lowest versions that pyproject.toml allows: `python ci/lowest.py > ci/lowest.txt`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
HEAD = "# The lowest versions that pyproject.toml allows; python ci/lowest.py > ci/lowest.txt"


def lowest(requirements: list[str]) -> str:
    """Return one `NAME==VERSION` a line, for requirements of the form `NAME[EXTRAS]>=VERSION…`."""
    parts = (re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)(?:,.*)?", one) for one in requirements)
    return "\n".join([HEAD, *(f"{part[1]}=={part[2]}" for part in parts if part)]) + "\n"


if __name__ == "__main__":
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    print(lowest(tomllib.loads(text)["project"]["dependencies"]), end="")
