"""Bad input never ends in a traceback, an internal error or a hang.

Kept cases are run in every suite; fresh ones for about a minute in .ci/full. More:
`FUZZ_CASES=2000 pytest -m full tests/fuzz`, and `FUZZ_COMMANDS=300` for those of real processes.
A case that fails is printed as JSON; mended, it is kept in `cases/`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from audit.gate import baseline
from audit.results.schema import to_json
from tests.command_line import audit
from tests.fuzz import strategies
from tests.fuzz.strategies import Case
from tests.gate.make import TODAY
from tests.results.documents import document

CASES = int(os.environ.get("FUZZ_CASES", "60"))  # of each kind
COMMANDS = int(os.environ.get("FUZZ_COMMANDS", "8"))  # in processes of their own
LIMIT = 20.0  # seconds of a case
KEPT = sorted((Path(__file__).parent / "cases").glob("*.json"))
PROJECT = Path(__file__).parents[2]
FRESH = settings(
    max_examples=CASES, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink) if CASES < 1000 else (Phase.generate,),
)  # fmt: skip
counted: Counter[str] = Counter()


class HangError(BaseException):
    """Is caught by no command."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small corpus, a pipe and an endless link; copied for each case."""
    folder = tmp_path_factory.mktemp("fuzz") / "home"
    folder.mkdir()
    rows = [{"user": f"u{i}", "text": f"My parcel {i} has not arrived."} for i in range(24)]
    (folder / "tiny.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.fixture(scope="module")
def manifest(home: Path) -> dict[str, Any]:
    words = "plant tiny.jsonl --output p.jsonl --manifest m.json --count 4 --kind code --kind name"
    done = audit(*words.split(), cwd=home)
    assert done.returncode == 0, done.stderr
    (home / "p.jsonl").unlink()
    path = home / "m.json"
    whole: dict[str, Any] = json.loads(path.read_text("utf-8"))
    path.unlink()
    return whole


def laid_out(case: Case, home: Path) -> None:
    """Puts the files of a case there, and nothing else."""
    for path in home.iterdir():
        if path.name not in ("tiny.jsonl", "pipe", "loop"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in case.files.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(text.encode("utf-8", "surrogatepass"))


def judged(case: Case, code: int, out: str, err: str, seconds: float) -> None:
    """Fails with the case where a command did what none may do."""
    wrong = []
    if code not in (0, 1, 2, 3, 4):
        wrong.append(f"exit code {code}")
    for word in ("Traceback", "the run failed", "Fatal"):
        if word in out + err:
            wrong.append(word)
    lines = [line for line in err.splitlines() if not line.startswith(("[", "note:"))]
    ignored = [line for line in lines if "pyproject.toml: ignored" in line]
    if code in (2, 3) and len(lines) - len(ignored) != 1:
        wrong.append(f"{len(lines)} lines")
    if code in (2, 3) and max(map(len, lines), default=0) > 4000:
        wrong.append("an endless line")
    if seconds > LIMIT:
        wrong.append(f"{seconds:.0f} s")
    counted[str(code)] += 1
    if wrong:
        pytest.fail(f"{', '.join(wrong)}: {err[-600:]}\n{case.text[:3000]}", pytrace=False)


def tried(case: Case, home: Path) -> int:
    """Runs a case in this process, for a limited time; gives its exit code."""
    laid_out(case, home)

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    began = time.monotonic()
    try:
        done = audit(*case.words, cwd=home)
    except HangError:
        pytest.fail(f"hangs: {case.text[:3000]}", pytrace=False)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    judged(case, done.returncode, done.stdout, done.stderr, time.monotonic() - began)
    return done.returncode


def test_kept_cases_are_refused(home: Path) -> None:
    for path in KEPT:
        kept = json.loads(path.read_text("utf-8"))
        assert tried(Case(tuple(kept["words"]), kept["files"]), home) == 2, path.stem


def kinds(manifest: dict[str, Any]) -> dict[str, st.SearchStrategy[Case]]:
    run = document()
    accepted = json.loads(baseline.text(baseline.make(run, "fine", TODAY)))
    return {
        "command lines": strategies.command_lines(),
        "plantings": strategies.plantings(),
        "plans": strategies.plans(),
        "corpora": strategies.corpora(),
        "manifests": strategies.manifests(manifest),
        "results": strategies.results(json.loads(to_json(run))),
        "policies": strategies.policies(to_json(run), accepted),
        "texts": strategies.texts(json.dumps(manifest)),
    }


KINDS = (
    "command lines", "plantings", "plans", "corpora", "manifests", "results", "policies", "texts",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    yield
    print(f"\ncases by exit code: {dict(sorted(counted.items()))}", file=sys.__stderr__)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it would hide what failed
@pytest.mark.parametrize("kind", KINDS)
def test_fresh_cases(home: Path, manifest: dict[str, Any], kind: str) -> None:
    _each(kinds(manifest)[kind], lambda case: tried(case, home))


@pytest.mark.full
def test_fresh_cases_of_the_real_command(home: Path, manifest: dict[str, Any]) -> None:
    everything = st.one_of(*kinds(manifest).values()).filter(
        lambda case: not any("\0" in w or "\ud800" <= c <= "\udfff" for w in case.words for c in w)
    )
    _each(everything, lambda case: called(case, home), COMMANDS)


def _each(
    cases: st.SearchStrategy[Case], do: Callable[[Case], object], most: int | None = None
) -> None:
    @settings(FRESH, max_examples=CASES if most is None else most)
    @given(cases)
    def each(case: Case) -> None:
        do(case)

    each()


def called(case: Case, home: Path) -> None:
    """Runs a case as a user does."""
    laid_out(case, home)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AUDIT_")}
    before = _of_children()
    done = subprocess.run(
        [sys.executable, "-m", "audit", *case.words], cwd=home, capture_output=True, timeout=120,
        env={**kept, "PYTHONPATH": str(PROJECT)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    judged(case, done.returncode, out, err, _of_children() - before)


def _of_children() -> float:
    """Read the processor seconds of all children that ended: a machine may do other work beside."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
