"""Chooses the workers that `--workers` names."""

from __future__ import annotations

import contextlib

from audit.core.machine import cores
from audit.plan.execution import RAY
from audit.train.workers.place import Workers
from audit.train.workers.pool import pool
from audit.train.workers.ray import cluster, here
from audit.train.workers.serial import Serial


def open_workers(workers: int | str) -> contextlib.AbstractContextManager[Workers]:
    """Open workers: a number of processes, or Ray. Raises UsageError without a cluster."""
    if isinstance(workers, str):
        return here() if workers == RAY else cluster(workers)
    count = workers or cores()
    if count == 1:
        return contextlib.nullcontext(Serial())
    return pool(count)
