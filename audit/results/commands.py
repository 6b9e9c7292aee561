"""Read the commands that files of a run state; a stranger may have written others there."""

from __future__ import annotations

import re
import shlex

BESIDE = "  # which lies beside results.json"
_CALL = re.compile(r"audit\.api\.\w+\([\w, …]*\)")


def own(stated: str) -> str:
    """Return a command that runs audit, and nothing else; "" for any other text."""
    if _CALL.fullmatch(stated):
        return stated
    try:
        words = shlex.split(stated.removesuffix(BESIDE))
    except ValueError:  # quotes that do not close
        return ""
    ours = words[:2] in (["audit", "run"], ["audit", "sweep"])
    return stated if ours and shlex.join(words) == stated.removesuffix(BESIDE) else ""
