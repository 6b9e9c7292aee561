"""Count the cores and the memory that this process may use, limits of a container included."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_MEMORY = ("memory.max", "memory/memory.limit_in_bytes")  # of cgroup 2 and of cgroup 1
_CPU = "cpu.max"  # a quota and its period, in µs
_LAUNCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CPU_1 = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")


def cores() -> int:
    """Count the cores that this process may use, at least 1."""
    here = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        here = len(os.sched_getaffinity(0))
    quota = _words(_CPU) or [word for name in _CPU_1 for word in _words(name)]
    if len(quota) == 2 and all(word.isdecimal() for word in quota) and int(quota[1]):
        here = min(here, int(quota[0]) // int(quota[1]))
    return max(1, here)


def memory() -> float:
    """Return the bytes of memory that this process may use."""
    here = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limits = (word for name in _MEMORY for word in _words(name))
    return min([here, *(float(word) for word in limits if word.isdecimal())])


def launched() -> int | None:
    """Return this process's rank where torchrun or `accelerate launch` started several.

    They say also where to meet. Schedulers and images that set a part of this have started one.
    """
    rank, number, *meeting = (os.environ.get(name, "") for name in _LAUNCH)
    if not (rank.isdecimal() and number.isdecimal() and all(meeting)) or int(number) < 2:
        return None
    return int(rank)


def launched_here() -> int:
    """Count the processes that a launcher has started on this machine; 0 where none has."""
    number = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(number) if launched() is not None and number.isdecimal() else 0


def _words(name: str) -> list[str]:
    """Read the words of a file of the control group; none where it has no such limit."""
    try:
        return (CGROUP / name).read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return []
