"""Times the way of a corpus of 100,000 records: plant, dry run, audit of the embedded model.

    python benchmarks/large_corpus.py OUTPUT [--kill SECONDS]

The records are dialogs of invented users, all private, about 14 MB. One epoch, each planted code 32
times, `dp_sgd` and its controls, extraction and membership. Prints wall and CPU time of each
command, and the memory of all its processes together at its highest.

--kill SECONDS: kills the audit again and again after so many seconds (SIGKILL to all of it), until
it ends by itself. The digest of the results is printed either way, to be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from itertools import chain
from pathlib import Path

MAKER = Path(__file__).parents[1] / "fixtures" / "helpdesk.py"
USERS = 7_900  # private ones as the script counts; 26,333 people in all
PLAN = """
[training]
epochs = 1

[planting]
code_copies = 32
"""
DEFENSES = ["--defense", "dp_sgd:epochs=1"]
ATTACKS = ["--attack", "extraction", "--attack", "membership"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--kill", type=float, default=None, metavar="SECONDS")
    given = parser.parse_args()
    folder = given.output
    folder.mkdir(parents=True, exist_ok=True)
    corpus, plan, run = folder / "corpus.jsonl", folder / "plan.toml", folder / "run"
    made, planted, manifest = (folder / name for name in ("all.jsonl", "planted.jsonl", "m.json"))
    size = ["--users", str(USERS), "--output", str(made)]
    subprocess.run([sys.executable, str(MAKER), *size], check=True)
    with made.open() as source, corpus.open("w") as file:
        every = map(json.loads, source)
        file.writelines(json.dumps({n: r[n] for n in ("user", "text")}) + "\n" for r in every)
    plan.write_text(PLAN)

    for old in (planted, manifest):
        old.unlink(missing_ok=True)
    files = ["--output", str(planted), "--manifest", str(manifest), "--seed", "0"]
    timed("plant", ["plant", str(corpus), *files])
    words = ["--corpus", str(corpus), "--plan", str(plan), "--output", str(run)]
    timed("dry run", ["run", *DEFENSES, *ATTACKS, *words, "--dry-run"])
    while timed("audit", ["run", *DEFENSES, *ATTACKS, *words], given.kill) < 0:
        print("killed; again")
    print("results without times:", digest(run / "results.json"))


def digest(results: Path) -> str:
    """Hashes what two runs of one plan must have in common: all but machine and times."""
    document = json.loads(results.read_text(encoding="utf-8"))
    del document["environment"]
    for release in document["releases"]:
        del release["cost"]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def timed(name: str, words: list[str], kill: float | None = None) -> int:
    """Run a command of the audit, print its time and memory, return its exit code."""
    before, began = used(), time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "audit", *words], start_new_session=True)
    highest = [0]
    ended = threading.Event()
    watch = threading.Thread(target=watched, args=(process.pid, highest, ended))
    watch.start()
    try:
        code = process.wait(kill)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    ended.set()
    watch.join()
    wall, cpu = time.monotonic() - began, used() - before
    at_most = f"{highest[0] / 2**20:.2f} GiB in all"
    print(f"{name}: exit {code}, wall {wall:,.0f} s, CPU {cpu:,.0f} s, {at_most}", flush=True)
    return code


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def watched(pid: int, highest: list[int], ended: threading.Event) -> None:
    """Keep the most memory, in KiB, that the process and its children had at once.

    Pages that they share count once: their proportional set sizes are added.
    """
    while not ended.wait(1):
        highest[0] = max(highest[0], sum(map(size, family(pid))))


def family(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = chain.from_iterable((t / "children").read_text().split() for t in tasks)
        return [pid, *chain.from_iterable(family(int(child)) for child in children)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def size(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
