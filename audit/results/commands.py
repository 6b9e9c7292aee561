"""Read the commands that files of a run state; a stranger may have written others there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

BESIDE = "  # which lies beside results.json"
_OUTPUT = "--output"
_STATED = {  # options that `_command` of a plan writes, and `--epsilon`, which a proposal adds
    *("--defense", "--attack", "--corpus", "--text", "--user", "--messages", "--split"),
    *("--records", "--user-form", "--model", "--secrets", "--delta", "--epsilon", "--device"),
    *("--threads", "--policy", "--plan", "--lora", "--release", "--coin-users", "--seed"),
    "--no-references",
}
_LEADS = re.compile(r"://|\bpython:")  # to a server, or to a function of any module
_CALL = re.compile(r"audit\.api\.\w+\([\w, …]*\)")


def own(stated: str, folder: Path | None = None) -> str:
    """Return a command that runs audit with what audit states itself; "" for any other text.

    folder: the only one that it may write to, where it names one.
    """
    if _CALL.fullmatch(stated):
        return stated
    bare = stated.removesuffix(BESIDE)
    try:
        words = shlex.split(bare)
    except ValueError:  # quotes that do not close
        return ""
    ours = words[:2] in (["audit", "run"], ["audit", "sweep"]) and shlex.join(words) == bare
    return stated if ours and _harmless(words, folder) else ""


def _harmless(words: Sequence[str], folder: Path | None) -> bool:
    """Return whether words trust nobody, reveal and send nothing, and write to a folder alone."""
    led = [to for name, to in pairwise(words) if name == _OUTPUT]
    options = {word for word in words if word.startswith("-")} - ({_OUTPUT} if led else set())
    own_folder = folder and os.path.abspath(folder)
    elsewhere = any(os.path.abspath(to) != own_folder for to in led)
    return options <= _STATED and not elsewhere and not any(map(_LEADS.search, words))
