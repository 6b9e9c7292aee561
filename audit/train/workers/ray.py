"""Opens Ray: on this machine, or a cluster that shares no disk with it."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit

from audit.core.errors import UsageError
from audit.core.safe_path import children_leave_it_out
from audit.core.scratch import SHORT, scratch
from audit.train.workers.on_ray import Ray

CONNECTIONS = 3  # attempts to connect to a cluster
REACHED_IN = 10.0  # seconds in which a cluster must accept a connection


@contextlib.contextmanager
def here() -> Iterator[Ray]:
    """Start Ray on this machine; one that this process runs already is used and left running.

    Tasks in flight end with a Ray started here, and go on otherwise. They are not cancelled: Ray
    2.60 can abort this process when a running task is cancelled. A Ray started here ends with this
    process, also by a kill, within two minutes.
    """
    _be_quiet()
    _require_a_token()
    import ray

    if ray.is_initialized():
        yield Ray()
        return
    # Ray's own folder is readable by all users
    with scratch(SHORT) as private:
        try:
            # workers import from where Ray is started: from an empty folder, not a stranger's
            with _own_signals(), children_leave_it_out(), contextlib.chdir(private):
                ray.init(
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=str(private / "ray"),
                )
            yield Ray(private)
        finally:
            ray.shutdown()


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Ray]:
    """Connect to a cluster through its client server, ray://HOST:PORT. Raises UsageError."""
    _be_quiet()
    import ray

    try:
        _check_listening(address)
        with warnings.catch_warnings(action="ignore"):  # Ray warns of errors that it then raises
            _connect(address)
    except Exception as error:  # Ray raises errors of any class; nothing is trained yet
        raise UsageError(
            f"--workers {address}: the cluster cannot be reached ({_reason(error)}); check that "
            "its client server runs, and that RAY_AUTH_MODE and RAY_AUTH_TOKEN are the cluster's"
        ) from None
    try:
        yield Ray()
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Connect, with retries: the cluster starts a server process for each connection, which may
    fail to start."""
    import ray

    for left in reversed(range(CONNECTIONS)):
        try:
            with _own_signals():
                ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
            return
        except ConnectionError:
            if not left:
                raise
            ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what SIGTERM means to this process: Ray exits at once, and closes no run folder."""
    meaning = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, meaning)


def _reason(error: Exception) -> str:
    """Shorten an error to one line: its first and, of a traceback from the server, its last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or type(error).__name__


def _be_quiet() -> None:
    """Switch off usage statistics and a warning about CUDA_VISIBLE_DEVICES in later versions."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def _require_a_token() -> None:
    """Make Ray require a token: it listens on every interface, and runs code for any client."""
    if "ray" not in sys.modules:  # these are read on import
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _check_listening(address: str) -> None:
    """Raise OSError where nothing listens; Ray's own attempts would take minutes."""
    place = urlsplit(address)
    socket.create_connection((place.hostname, place.port), timeout=REACHED_IN).close()
