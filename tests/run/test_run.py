"""The whole way through the house, on some of the embedded text, with too short a training."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from audit.corpora import writing
from audit.findings import stored
from audit.plan import resolve
from audit.results import schema, sums
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.verify import verify
from tests.builders import comparable, dialogs, without_digests
from tests.command_line import audit

PLAN = """
corpus = "some.jsonl"
defense = ["submix:k=2"]
attack = ["extraction:generations=20,searched=10"]
utility_tokens = 200
[planting]
users = 12
[training]
epochs = 1
"""


def command(folder: Path, *more: str) -> list[str]:
    """The words of one run; the plan file and the corpus stand beside the run folder."""
    plan = folder.parent / "plan.toml"
    plan.write_text(PLAN)
    if not (corpus := folder.parent / "some.jsonl").exists():
        some = dialogs(12)
        writing.write([*some.of("private"), *some.of("heldout")[:16]], corpus)
    return ["run", "--plan", str(plan), "--output", str(folder), *more]


def finish(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return audit(*command(folder, "--workers", "1", *more), cwd=folder.parent)


def process(folder: Path) -> list[str]:
    return [sys.executable, "-m", "audit", *command(folder)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("run") / "out"
    ran = finish(folder, "--reveal", "--author", "Ann Miller <ann@example.org>")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(folder / "report.html")
    return folder


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run once more, its secrets not revealed."""
    folder = tmp_path_factory.mktemp("again") / "out"
    assert finish(folder, "--format", "json,html").returncode == 0  # a PDF hides its text
    return folder


def by_name(folder: Path) -> dict[str, schema.ReleaseResult]:
    return {r.defense: r for r in stored.load(folder / "results.json").releases}


def test_the_results_carry_the_references_and_match_the_schema(done: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads((done / "results.json").read_text("utf-8"))
    jsonschema.validate(document, schema.schema())
    releases = by_name(done)
    assert [(name, r.reference) for name, r in releases.items()] == [
        ("submix", False), ("submix_unprotected", True), ("none", True), ("public", True),
    ]  # fmt: skip
    assert document["corpus"]["planted_users"] == 12
    assert (done / "report.html").exists() and (done / "report.pdf").exists()


def test_the_ledger_never_passes_epsilon_and_every_query_is_in_it(done: Path) -> None:
    submix = by_name(done)["submix"]
    assert submix.guarantee.epsilon == 2.0
    rows = [json.loads(line) for line in (done / "ledger.jsonl").read_text("utf-8").splitlines()]
    for session in submix.sessions:
        mine = [r["row"] for r in rows if r["session"] == f"submix:k=2/{session.purpose}"]
        charged = [row["charge"] for row in mine if not row["stopped"]]
        assert len(charged) == session.answered
        totals = [sum(part) for part in zip(*charged, strict=True)]
        assert all(total < 2.0 for total in totals)
        assert session.epsilon_spent == pytest.approx(totals, rel=1e-5)


def test_another_machines_threads_are_not_another_plan(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(done, tmp_path / "out")
    monkeypatch.setattr(resolve, "threads_of", lambda *_: 2)
    assert finish(tmp_path / "out", "--reveal").returncode == 0
    other = finish(tmp_path / "out", "--threads", "2")
    assert other.returncode == 2 and "another plan (threads: 1 there, 2 here)" in other.stderr


def test_every_release_is_measured_on_the_same_tokens(done: Path) -> None:
    for release in by_name(done).values():
        assert release.utility["perplexity"].answered is not None
        assert [s.purpose for s in release.sessions][:2] == ["utility", "completion"]
    for name in ("perplexity", "bleu3", "bleu4"):
        assert len({r.utility[name].n for r in by_name(done).values()}) == 1


def test_findings_travel_with_interval_control_and_power(done: Path) -> None:
    """Only SubMix's answers can end a session, and so choose the number of generations."""
    for name, release in by_name(done).items():
        rate = next(f for f in release.findings if f.metric == "hit_rate")
        assert rate.ci is not None and rate.control is not None
        assert (rate.cut is None) == (name != "submix")
        of_none = 1 - 0.05 ** (1 / rate.n)
        if rate.cut is not None:
            of_none = stopped_rate([Series(0, rate.n)]).high or 0.0
        assert rate.power.smallest_rate == pytest.approx(of_none, rel=1e-5)
        assert rate.sentence


def test_what_was_read_beyond_the_release_is_labelled_so(done: Path) -> None:
    """SubMix gives samples; its auditor may read, and that is no evidence on its claim."""
    for name, release in by_name(done).items():
        for finding in release.findings:
            most = {"submix": ("generate",), "submix_unprotected": ("generate", "score")}.get(name)
            beyond = most is not None and finding.access not in most
            assert finding.stronger_than_release == beyond, (name, finding.metric)
            assert finding.value is None or not beyond or name == "submix"
            assert not beyond or finding.claim in ("not testable", "nothing claimed")
    metrics = {f.metric for f in by_name(done)["submix"].findings}
    assert metrics >= {"hit_rate", "recall", "probability", "searched_rate", "verbatim"}


def test_the_same_seed_gives_the_same_bytes(done: Path, again: Path) -> None:
    assert comparable(again) == comparable(done)


@pytest.mark.slow
def test_two_processes_train_and_attack_to_the_same_bytes(done: Path, tmp_path: Path) -> None:
    """Releases are attacked side by side, and each as it would be alone."""
    ran = finish(tmp_path / "out", "--format", "json", "--workers", "2")
    assert ran.returncode == 0, ran.stderr
    assert comparable(tmp_path / "out") == comparable(done)


def test_a_finished_run_run_again_gives_the_same_results(done: Path) -> None:
    before = comparable(done)
    assert finish(done, "--format", "json").returncode == 0
    assert comparable(done) == before


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(7.0, marks=pytest.mark.slow),
        *(pytest.param(s, marks=pytest.mark.full) for s in (3.0, 11.0)),
    ],
)
def test_killed_at_any_moment_it_resumes_to_the_same_results(
    done: Path, tmp_path: Path, seconds: float
) -> None:
    folder = tmp_path / "killed"
    killed = subprocess.Popen(process(folder), cwd=tmp_path, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert finish(folder).returncode == 0
    assert comparable(folder) == comparable(done)


@pytest.mark.full  # by default the command line of a smaller process is interrupted
def test_an_interrupt_exits_130_and_names_the_command_that_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    running = subprocess.Popen(
        process(folder),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        # tests run in the background of a shell inherit that interrupts are ignored
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    while not (folder / "manifest.json").exists():
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"audit run --plan {tmp_path / 'plan.toml'}" in told.splitlines()[-1]
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["status"] == "interrupted"


def secrets_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "secrets.jsonl").read_text("utf-8").splitlines()]


def test_page_one_names_who_ran_it_only_where_told(done: Path, again: Path) -> None:
    assert "run by Ann Miller &lt;ann@example.org&gt;" in (done / "report.html").read_text("utf-8")
    assert "run by" not in (again / "report.html").read_text("utf-8")


def test_no_planted_secret_stands_in_any_file_unless_revealed(done: Path, again: Path) -> None:
    folder = again
    assert not (folder / "secrets.jsonl").exists()
    drawn = [s["value"] for s in secrets_of(done) if s["kind"] in ("code", "id") and s["planted"]]
    names = [s["value"] for s in secrets_of(done) if s["kind"] == "name"]
    assert len(drawn) > 5 and len(names) > 5
    pattern = re.compile(r"(?<![\d.])(" + "|".join(drawn) + r")(?!\d)|" + "|".join(names))
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors" and path.name != "SHA256SUMS":
            assert not pattern.search(without_digests(path)), path


def test_what_is_private_is_readable_by_its_owner_only(done: Path) -> None:
    assert os.stat(done / "secrets.jsonl").st_mode & 0o077 == 0
    assert os.stat(done / "stages").st_mode & 0o077 == 0
    assert (done / "stages" / ".gitignore").read_text("utf-8") == "*\n"


def test_it_verifies_and_without_its_stages_less_is_compared(done: Path, tmp_path: Path) -> None:
    assert audit("verify", done).returncode == 0
    assert os.stat(done / "evidence.json").st_mode & 0o077 == 0
    copy = tmp_path / "copy"
    shutil.copytree(done, copy)
    whole = verify(copy)
    assert audit("clean", copy).returncode == 0
    cleaned = verify(copy)
    assert whole.holds and cleaned.holds
    (less,) = set(whole.verified) - set(cleaned.verified)
    assert less.startswith("stages/: ") and set(cleaned.verified) < set(whole.verified)
    (more,) = set(cleaned.not_verifiable) - set(whole.not_verifiable)
    assert more.startswith("stages/ is not here")


def test_evidence_that_no_session_has_stored_is_found(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done, copy)
    evidence = json.loads((copy / "evidence.json").read_text("utf-8"))
    (attack,) = evidence["releases"][0]["attacks"]
    attack["tainted"] = not attack["tainted"]
    (copy / "evidence.json").write_text(json.dumps(evidence))
    sums.write(copy)
    (line, *_) = verify(copy).differences
    assert line.endswith("saw of submix:k=2 stands in no session of stages/")


def test_another_plan_may_not_move_into_the_folder(done: Path) -> None:
    ran = finish(done, "--seed", "1")
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1 and "another plan" in ran.stderr


def test_a_dry_run_writes_nothing_and_names_the_smallest_leak(tmp_path: Path) -> None:
    ran = finish(tmp_path / "dry", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "dry").exists()
    planted = int(re.findall(r"(\d+) trained on", ran.stdout)[0])  # one of them, in 20 tries
    smallest = 100 * planted * (1 - 0.2 ** (1 / (20 * planted)))  # missed in 20 runs of 100
    assert f"rate of {smallest:.3g} %" in ran.stdout
