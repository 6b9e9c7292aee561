"""Chooses where tasks are trained, from what `--workers` says."""

from __future__ import annotations

import contextlib
import os

from audit.plan.execution import RAY
from audit.train.workers.place import Workers
from audit.train.workers.pool import pool
from audit.train.workers.ray import cluster, here
from audit.train.workers.serial import Serial


def opened(workers: int | str) -> contextlib.AbstractContextManager[Workers]:
    """The place that `parsed` names. Raises UsageError where a cluster cannot be reached."""
    if isinstance(workers, str):
        return here() if workers == RAY else cluster(workers)
    count = workers or os.cpu_count() or 1
    if count == 1:
        return contextlib.nullcontext(Serial())
    return pool(count)
