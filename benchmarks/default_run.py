"""Times whole audits: the README's first command, and every attack on two defenses.

    python benchmarks/default_run.py [--times 5] [--audit .venv/bin/audit] [--audit OTHER/bin/audit]
        [--beside "memaudit demo"] [--beside "python benchmarks/plain_loops.py"]

Each run is a process of its own in a new folder. Several versions take turns, so that a machine
which slows down slows all of them. Shown are the medians of wall and CPU time, in seconds, with the
least and the largest, on cores that should be idle otherwise.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

RUNS = {
    "default": ["--defense", "submix", "--attack", "extraction"],
    "all attacks, two defenses": ["--defense", "submix", "--defense", "dp_sgd", "--attack", "all"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--audit", action="append", help="an audit command; default the one here")
    parser.add_argument("--run", choices=RUNS, action="append", help="which; default all")
    parser.add_argument("--beside", action="append", default=[], help="other commands to time")
    given = parser.parse_args()
    for other in given.beside:
        program, *words = shlex.split(other)
        words = [str(Path(word).resolve()) if Path(word).exists() else word for word in words]
        figures = [timed([shutil.which(program) or program, *words]) for _ in range(given.times)]
        tell(other, figures)
    commands = given.audit or [shutil.which("audit") or ".venv/bin/audit"]
    for name in given.run or RUNS:
        seen: dict[str, list[tuple[float, float]]] = {command: [] for command in commands}
        for _ in range(given.times):
            for command in commands:
                seen[command].append(timed([command, "run", *RUNS[name]]))
        for command, figures in seen.items():
            tell(f"{name}, {command}", figures)


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command in a new folder: (wall, CPU of it and its children), seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(command[0]).absolute()), *command[1:]]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tell(what: str, figures: list[tuple[float, float]]) -> None:
    """Print the medians of what was timed."""
    wall, cpu = zip(*figures, strict=True)
    print(f"{what}: wall {shown(wall)}, CPU {shown(cpu)}", flush=True)


def shown(values: tuple[float, ...]) -> str:
    return f"{statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
