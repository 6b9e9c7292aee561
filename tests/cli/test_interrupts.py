"""SIGTERM and SIGHUP interrupt a command as Ctrl-C does; none is swallowed, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITS = """
import time
from audit.cli import interrupts
interrupts.listen()
report = interrupts.checking(lambda label, share: print(label, flush=True))
try:
    report("waits", 0.0)
    time.sleep(20)
except KeyboardInterrupt:
    print("closing", flush=True)
    time.sleep(0.5)
    print("closed")
    raise SystemExit(130)
"""
SWALLOWS = """
import os, time
try:
    print("imports", flush=True)
    while not os.path.exists("sent"):
        time.sleep(0.01)
except BaseException:
    print("swallowed")
"""
IN_A_RUN = """
from audit.cli import interrupts
interrupts.listen()
report = interrupts.checking(lambda label, share: print(label))
try:
    import swallows
    report("never", 1.0)
except KeyboardInterrupt:
    print("closed")
"""


def default_signals() -> None:
    """Restores the default handlers: a suite in a script's background ignores SIGINT, and a child
    inherits that."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def started(code: str, cwd: Path, *before: str) -> subprocess.Popen[str]:
    """A process of its own that has printed its first line."""
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}:{cwd}"}
    process = subprocess.Popen(
        [*before, sys.executable, "-c", code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=cwd, env=environment,
        preexec_fn=default_signals,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize(
    "number", [SIGNALS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SIGNALS[1:])]
)
def test_each_signal_interrupts(tmp_path: Path, number: signal.Signals) -> None:
    process = started(WAITS, tmp_path)
    process.send_signal(number)
    assert process.communicate() == ("closing\nclosed\n", "")
    assert process.returncode == 130


@pytest.mark.slow
def test_a_hang_up_after_a_termination_disturbs_no_closing(tmp_path: Path) -> None:
    process = started(WAITS, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "closing\n"
    process.send_signal(signal.SIGHUP)
    assert process.communicate() == ("closed\n", "")


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    process = started(WAITS, tmp_path, "nohup")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == "closing\nclosed\n"


@pytest.mark.parametrize(
    "number", [SIGNALS[0], *(pytest.param(n, marks=pytest.mark.full) for n in SIGNALS[1:])]
)
def test_an_import_in_a_run_swallows_no_interrupt(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    process = started(IN_A_RUN, tmp_path)
    process.send_signal(number)
    (tmp_path / "sent").touch()
    assert process.communicate() == ("closed\n", "")


def test_an_import_before_a_run_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    process = started("from audit.cli import interrupts\ninterrupts.listen()\nimport swallows",
                      tmp_path)  # fmt: skip
    process.send_signal(signal.SIGINT)
    (tmp_path / "sent").touch()
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == "audit: interrupted; run the same command again\n"


def of_a_run(number: signal.Signals, whole_group: bool) -> Any:
    """A case of the next test; two of the four are enough for every change."""
    quick = (number, whole_group) in ((signal.SIGINT, True), (signal.SIGTERM, False))
    return pytest.param(number, whole_group, marks=pytest.mark.slow if quick else pytest.mark.full)


@pytest.mark.parametrize(
    ("number", "whole_group"),  # to its process alone, all signals are handled alike
    [of_a_run(signal.SIGTERM, False), *(of_a_run(n, True) for n in SIGNALS)],
)
def test_a_run_is_closed_as_interrupted_and_resumes(
    tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    words = "run --defense submix:k=2 --attack extraction --device cpu --workers 2 --format json"
    command = [sys.executable, "-m", "audit", *words.split(), "--output", "out"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, encoding="utf-8",
        start_new_session=True, preexec_fn=default_signals,
    )  # fmt: skip
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any("part" in line or "%" in line for line in lines)  # processes train
    time.sleep(1)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    left = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "interrupted; resume with: audit run" in left
    assert not any(word in left for word in ("Traceback", "leaked", "Error"))
    record = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert record["status"] == "interrupted"
    time.sleep(1)
    living = subprocess.run(["pgrep", "-g", str(process.pid), "-r", "R,S,D"], capture_output=True)
    assert living.stdout == b""


def test_a_process_that_waits_for_the_first_says_so_and_ends_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        launch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        process = subprocess.Popen(
            [sys.executable, "-m", "audit", "run"], cwd=tmp_path, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(PROJECT), **launch}, encoding="utf-8",
            preexec_fn=default_signals,
        )  # fmt: skip
        assert process.stderr is not None
        assert "RANK=1: trains with the process of RANK=0" in process.stderr.readline()
        with silent.accept()[0]:  # it is in native code, which no handler in Python leaves
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=5)
        assert process.returncode == -signal.SIGTERM
