"""Kills runs of every kind at random moments, and compares what they end with.

    python tests/kills.py --kills 50 --terms 20 --seed 0

Each kind of run is done once in peace. Then the same run is killed at one to three random moments,
with SIGKILL to its process alone or to its whole group, or with SIGTERM, and run again to its end.
results.json must be the same but for environment and cost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
SERVER = PROJECT / "tests" / "models" / "endpoint" / "server.py"
MODEL = PROJECT / "fixtures" / "public_model"
SMALL = """utility_tokens = 64
format = ["json"]
[planting]
users = 12
[training]
epochs = 1
"""
SWEEP = """[sweep]
defense = ["submix:k=2", "none"]
seeds = [0, 1]
"""
ATTACKS = ("--attack", "membership", "--attack", "extraction:generations=20")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def kinds(place: Path, url: str) -> dict[str, tuple[str, ...]]:
    """Lists the kinds of runs, each with the words of its command but for its output.

    The files that they need are written to `place`.
    """
    (place / "plan.toml").write_text(SMALL, encoding="utf-8")
    (place / "sweep.toml").write_text(
        SMALL.replace("[planting]", 'attack = ["membership"]\n[planting]') + SWEEP, encoding="utf-8"
    )
    plan = ("run", "--plan", str(place / "plan.toml"), *ATTACKS)
    submix = (*plan, "--defense", "submix:k=2", "--defense", "dp_sgd:epochs=1")
    adapters = ("--defense", "submix:k=2", "--lora", "r=2", "--no-references")
    text = ("--release", "text:texts=20,tokens=20")
    private = ("--defense", "dp_sgd:epochs=1", "--no-references")
    secrets = ("--secrets", str(place / "manifest.json"), "--no-references")
    served = ("--defense", f"as_is:base={MODEL}", "--model", url)
    return {
        "one process": (*submix, "--workers", "1"),
        "pool": (*submix, "--workers", "2"),
        "ray": (*plan, "--defense", "seqpate:teachers=2", "--workers", "ray"),
        "sweep": ("sweep", str(place / "sweep.toml"), "--workers", "2"),
        "adapters": (*plan, *adapters, "--workers", "2"),
        "text": (*plan, *private, *text, "--workers", "2"),
        "as_is": (*plan, "--defense", "as_is", "--model", str(MODEL), *secrets),
        "endpoint": (*plan, *served, *secrets),
    }


def plant(place: Path) -> None:
    """Plants canaries into the embedded corpus, for models that were trained elsewhere."""
    corpus = ("plant", str(PROJECT / "fixtures" / "helpdesk.jsonl"), "--count", "12", "--seed", "1")
    out = ("--output", str(place / "planted.jsonl"), "--manifest", str(place / "manifest.json"))
    finished((*corpus, *out), place)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Serves the public model, and gives its URL."""
    words = [sys.executable, str(SERVER), str(MODEL)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.kill()


def started(words: Sequence[str], place: Path, **how: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "audit", *words]
    return subprocess.Popen(line, cwd=place, env=environment, encoding="utf-8", **how)


def finished(words: Sequence[str], place: Path) -> None:
    """Runs to the end. Raises RuntimeError with what it said where it failed."""
    process = started(words, place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{said[-2000:]}")


def killed(
    words: Sequence[str], place: Path, after: float, number: signal.Signals, group: bool
) -> bool:
    """Starts a run and sends it a signal after some seconds; tells whether it still ran."""
    process = started(words, place, start_new_session=True, **QUIET)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    alive = process.poll() is None
    if alive:
        (os.killpg if group else os.kill)(process.pid, number)
    process.wait(120)
    with contextlib.suppress(ProcessLookupError):  # workers of a killed run would disturb the next
        os.killpg(process.pid, signal.SIGKILL)
    return alive


def comparable(folder: Path) -> str:
    """results.json without the two places where runs may differ."""
    document = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    document.pop("environment")
    for release in document["releases"]:
        release.pop("cost")
    return json.dumps(document)


def tried(
    kinds: Mapping[str, tuple[str, ...]], place: Path, kills: int, terms: int, seed: int
) -> Iterator[str]:
    """Kills runs until every signal was sent, and says of each kind and run how it ended."""
    draw = random.Random(seed)
    peaceful: dict[str, tuple[str, float]] = {}
    for name, words in kinds.items():
        began = time.monotonic()
        finished((*words, "--output", str(place / name)), place)
        peaceful[name] = comparable(place / name), time.monotonic() - began
    signals = [signal.SIGKILL] * kills + [signal.SIGTERM] * terms
    draw.shuffle(signals)
    round_ = 0
    while signals:
        name = list(kinds)[round_ % len(kinds)]
        folder, (expected, seconds) = place / f"killed-{round_}", peaceful[name]
        words, sent = (*kinds[name], "--output", str(folder)), []
        for _ in range(draw.randint(1, 3)):
            if not signals:
                break
            after, group = draw.uniform(0, seconds), draw.random() < 0.5
            if killed(words, place, after, signals[-1], group):
                sent.append(f"{signals.pop().name} after {after:.1f} s")
        finished(words, place)
        same = comparable(folder) == expected
        yield f"{'same' if same else 'DIFFERS'}: {name}: {', '.join(sent) or 'not killed'}"
        if same:
            shutil.rmtree(folder)
        round_ += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="a kind of run; repeatable; default all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, server() as url:
        place, wrong = Path(name), 0
        plant(place)
        every = kinds(place, url)
        chosen = {name: every[name] for name in given.only or every}
        for line in tried(chosen, place, given.kills, given.terms, given.seed):
            print(line, flush=True)
            wrong += line.startswith("DIFFERS")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
