"""A process that runs what strangers wrote ends with its time, though whoever asked was killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
ASKER = f"""
from audit.models.template_process import TemplateProcess
asked = TemplateProcess({ENDLESS!r}, {{}})
print(asked._started().pid, flush=True)
asked.ask([], 0.5)
"""
LATEST = 30.0  # seconds until it must be gone, on a busy machine


def runs(pid: int) -> bool:
    """Whether a process is there, and no mere entry whose end nobody has read."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text("ascii").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_process_ends_itself_once_its_asker_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ASKER], stdout=subprocess.PIPE) as asker:
        assert asker.stdout is not None
        pid = int(asker.stdout.readline())
        time.sleep(0.2)  # the question is read
        asker.kill()
    until = time.monotonic() + LATEST
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not runs(pid)
