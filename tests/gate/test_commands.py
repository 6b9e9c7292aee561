"""`audit gate`, `baseline update` and `compare` as a CI job meets them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from audit.cli import app
from audit.results.schema import Results, to_json
from tests.gate import make

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


Audit = Callable[..., Done]


@pytest.fixture
def audit(calm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Audit:
    """The command line in this process, in the working directory of `calm`."""
    monkeypatch.chdir(calm)
    for name in [name for name in os.environ if name.startswith(("AUDIT_", "GITHUB_"))]:
        monkeypatch.delenv(name)

    def called(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["audit", *words])
        capsys.readouterr()
        code: object = 0
        try:
            app.main()
        except SystemExit as left:
            code = left.code or 0
        out, err = capsys.readouterr()
        assert isinstance(code, int)
        return Done(code, out, err)

    return called


def written(folder: Path, results: Results) -> Path:
    folder.mkdir()
    (folder / "results.json").write_text(to_json(results), encoding="utf-8")
    return folder


@pytest.fixture
def calm(tmp_path: Path) -> Path:
    """A working directory with a silent run in `run`, and a leaky one in `leaky`."""
    tested = {
        "epsilon_lower": make.bound(0.0, m=100, guesses=[(66, 36)]), "claim": "not refuted",
    }  # fmt: skip
    loud = make.rate(200, 200, leaked="leak", p_value=1e-9, claim="nothing claimed")
    control = make.release("none", loud, reference=True, guarantee=make.claim(math.inf))
    quiet = make.rate(0, 200, least_p=1e-9, **tested)
    written(tmp_path / "run", make.run(make.release("dp_sgd", quiet), control))
    leaky = make.rate(40, 200, leaked="leak", p_value=1e-9, **tested)
    written(tmp_path / "leaky", make.run(make.release("dp_sgd", leaky)))
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_silent_run_passes_with_neither_policy_nor_baseline(calm: Path, audit: Audit) -> None:
    done = audit("gate", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["gate: PASS (2 passed)", "run/junit.xml"]
    assert names(calm / "run") == ["gate.json", "junit.xml", "results.json"]
    ElementTree.parse(calm / "run" / "junit.xml")


def test_page_one_shows_the_answer_of_the_gate(calm: Path, audit: Audit) -> None:
    for name, said in (("run", "gate: PASS (2 passed)"), ("leaky", "gate: FAIL (")):
        page = calm / name / "report.html"
        page.write_text("stale", encoding="utf-8")
        audit("gate", name)
        text = page.read_text(encoding="utf-8")
        assert said in text and "the gate was not run" not in text
        assert not (calm / name / "report.pdf").exists()


def test_a_leak_fails_with_one(calm: Path, audit: Audit) -> None:
    done = audit("gate", "leaky", "--format", "junit,sarif")
    assert done.returncode == 1
    assert "FAIL         leak/dp_sgd/extraction.hit_rate" in done.stdout
    assert names(calm / "leaky") == ["gate.json", "junit.xml", "report.sarif", "results.json"]


def test_exports_say_what_the_gate_says(calm: Path, audit: Audit) -> None:
    formats = "intoto,cyclonedx,model_index"
    for folder, result in (("run", "PASSED"), ("leaky", "FAILED")):
        done = audit("report", folder, "--format", formats)
        assert (done.returncode, done.stderr) == (0, "")
        made = ["model-index.md", "model.cdx.json", "results.json", "statement.intoto.json"]
        assert names(calm / folder) == made
        statement = json.loads((calm / folder / "statement.intoto.json").read_text("utf-8"))
        assert statement["predicate"]["result"] == result
    (calm / "audit.toml").write_text("leeks = true\n")
    done = audit("report", "run", "--format", "intoto")
    assert done.returncode == 2 and "audit.toml" in done.stderr and done.stderr.count("\n") == 1


def test_inconclusive_is_four_only_if_strict(calm: Path, audit: Audit) -> None:
    (calm / "audit.toml").write_text("[[limit]]\nmetric = 'hit_rate'\nmax = 0.01\n")
    done = audit("gate", "run")
    assert (done.returncode, "n = 299" in done.stdout) == (0, True)
    assert audit("gate", "run", "--strict").returncode == 4
    (calm / "other.toml").write_text("[[limit]]\nmetric = 'hit_rate'\nmax = 0.02\n")
    assert audit("gate", "run", "--strict", "--policy", "other.toml").returncode == 0


def test_the_baseline_in_the_working_directory_is_found(calm: Path, audit: Audit) -> None:
    done = audit("baseline", "update", "run", "--reason", "first")
    assert (done.returncode, done.stdout) == (0, "audit-baseline.json\n")
    assert json.loads((calm / "audit-baseline.json").read_text("utf-8"))["reason"] == "first"
    assert audit("gate", "run", "--strict").returncode == 0
    done = audit("gate", "leaky")
    assert done.returncode == 1
    assert "0 of 200 before, 40 of 200 now" in done.stdout


def test_a_leaky_baseline_is_held_not_condemned(calm: Path, audit: Audit) -> None:
    done = audit("baseline", "update", "leaky", "--reason", "known", "--output", "b.json")
    assert done.stdout.splitlines() == [
        "b.json",
        "accepts 1 leak: dp_sgd extraction.hit_rate (40 of 200)",
    ]
    assert audit("gate", "leaky", "--baseline", "b.json", "--strict").returncode == 0


def test_only_tighten_refuses_in_one_line(calm: Path, audit: Audit) -> None:
    audit("baseline", "update", "run", "--reason", "first")
    kept = (calm / "audit-baseline.json").read_bytes()
    done = audit("baseline", "update", "leaky", "--reason", "more", "--only-tighten")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "nothing was written" in done.stderr
    assert (calm / "audit-baseline.json").read_bytes() == kept


def test_the_summary_is_appended_where_github_asks(
    calm: Path, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(calm / "summary.md"))
    (calm / "summary.md").write_text("before\n")
    for _ in range(2):
        audit("gate", "run")
    text = (calm / "summary.md").read_text("utf-8")
    assert text.startswith("before\n**NO LEAK FOUND") and text.count("### gate") == 2


def refused(done: Done) -> str:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gate", "missing"), "missing/results.json: no results here"),
        (("gate", "run", "--policy", "missing.toml"), "missing.toml: no such policy"),
        (("gate", "run", "--baseline", "missing.json"), "missing.json: no such baseline"),
        (("gate", "run", "--format", "sarf"), "unknown report 'sarf'; did you mean 'sarif'?"),
        (("gate", "run", "--polcy", "x"), "--policy"),
        (("baseline", "updat", "run"), "did you mean 'update'?"),
        (("baseline", "update", "run"), "--reason"),
        (("baseline", "update", "run", "--reason", " "), "needs a reason"),
        (
            ("baseline", "update", "run", "--reason", "x", "--output", "no/b.json"),
            "cannot be written",
        ),
        (("compare", "run", "missing"), "missing/results.json: no results here"),
    ],
)
def test_bad_words_are_refused_in_one_line(
    words: tuple[str, ...], said: str, calm: Path, audit: Audit
) -> None:
    assert said in refused(audit(*words))
    assert names(calm) == ["leaky", "run"] and names(calm / "run") == ["results.json"]


def test_a_bad_policy_is_refused_with_its_line(calm: Path, audit: Audit) -> None:
    (calm / "audit.toml").write_text("leaks = true\n[[limit]]\nmx = 1\n")
    assert "audit.toml:3: unknown key 'mx'; did you mean 'max'?" in refused(audit("gate", "run"))


def test_a_run_that_is_not_complete_is_refused(calm: Path, audit: Audit) -> None:
    partial = make.run(make.release("x", make.rate(0, leaked="inconclusive"))).model_copy(
        update={"status": "partial"}
    )
    written(calm / "partial", partial)
    manifest: dict[str, Any] = {"schema_version": "1", "hash": "1f", "plan": {}}
    for folder in ("partial", "run"):
        text = json.dumps({**manifest, "status": "interrupted"})
        (calm / folder / "manifest.json").write_text(text)
        assert "not complete" in refused(audit("gate", folder))
        assert "not complete" in refused(audit("baseline", "update", folder, "--reason", "x"))
    assert not (calm / "run" / "junit.xml").exists()
    (calm / "empty").mkdir()
    (calm / "empty" / "manifest.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    said = refused(audit("gate", "empty"))  # no results yet
    assert "the run is interrupted, not complete; resume it" in said and "--output empty" in said
    again = "audit run --defense submix --plan 'my plan.toml' --output empty"
    for command in (again, "audit run --x; rm -rf .", "curl x", "audit 'run", f"{again} | sh", 7):
        text = json.dumps({**manifest, "status": "running", "command": command})
        (calm / "empty" / "manifest.json").write_text(text)
        said = refused(audit("gate", "empty"))
        assert "running, or was killed, not complete" in said
        assert said.endswith(f"resume it with: {again}\n") == (command == again)
        assert command == again or str(command) not in said  # a stranger's line is not passed on
    (calm / "run" / "manifest.json").write_text(json.dumps({**manifest, "status": "complete"}))
    assert audit("gate", "run").returncode == 0


def rewritten(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "results.json"
    document = json.loads(path.read_text("utf-8"))
    edit(document)
    path.write_text(json.dumps(document))


def finding(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["releases"][0]["findings"][0]
    return found


SESSION = {
    "purpose": "utility", "queries": 3, "answered": 2, "budget": 9, "remaining": 6,
    "stopped_at": 2, "epsilon_spent": [0.1], "spent_curve": [[1, 0.1]],
}  # fmt: skip


def session(document: dict[str, Any]) -> dict[str, Any]:
    """Gives the first release a session."""
    sessions = document["releases"][0]["sessions"]
    sessions.append(dict(SESSION))
    return sessions[-1]  # type: ignore[no-any-return]


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a release twice": lambda d: d["releases"].append(d["releases"][0]),
    "a finding twice": lambda d: d["releases"][0]["findings"].append(finding(d)),
    "outside its interval": lambda d: finding(d).update(value=0.9, ci=[0, 0], k=None),
    "negative n": lambda d: finding(d).update(n=-5),
    "k above n": lambda d: finding(d).update(k=1000),
    "other outcomes": lambda d: finding(d).update(outcomes="0" * 200, k=40, value=0.2),
    "reversed": lambda d: finding(d)["ci"].reverse(),
    "sure": lambda d: finding(d).update(confidence=1),
    "unsure": lambda d: finding(d).update(confidence=0),
    "negative ε": lambda d: d["releases"][0]["guarantee"].update(epsilon=-1),
    "beyond any double": lambda d: finding(d).update(value=10**400),
    "beyond any count": lambda d: finding(d).update(k=1e30, n=1e30),
    "a leak unsaid": lambda d: finding(d).update(leaked="inconclusive"),
    "a leak unsaid above": lambda d: d["releases"][0].update(leaked="no leak found"),
    "a refutation unsaid": lambda d: finding(d)["epsilon_lower"].update(guesses=[[66, 66]]),
    "a cost beyond any count": lambda d: d["releases"][0]["cost"].update(queries=10**400),
    "users below 0": lambda d: d["corpus"].update(users=-1),
    "a curve beyond any double": lambda d: session(d).update(spent_curve=[[10**400, 0.1]]),
    "a curve of 10^400 nats": lambda d: session(d).update(spent_curve=[[1, 10**400]]),
    "a falling account": lambda d: session(d).update(epsilon_spent=[-0.5]),
    "stopped beyond any query": lambda d: session(d).update(stopped_at=10**400),
    "no attacks": lambda d: d["plan"].update(attacks=None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_results_are_refused_in_one_line_by_every_command(
    damage: str, calm: Path, audit: Audit
) -> None:
    audit("baseline", "update", "run", "--reason", "first")
    kept = (calm / "audit-baseline.json").read_bytes()
    (calm / "audit.toml").write_text("leaks = true\n[[limit]]\nmax = 0.3\n")
    rewritten(calm / "leaky", DAMAGES[damage])
    for words in (
        ("gate", "leaky"),
        ("report", "leaky", "--format", "csv"),
        ("compare", "leaky", "run"),
        ("compare", "run", "leaky"),
        ("baseline", "update", "leaky", "--reason", "x"),
    ):
        assert "leaky/results.json: " in refused(audit(*words))
    assert names(calm / "leaky") == ["results.json"]
    assert (calm / "audit-baseline.json").read_bytes() == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"schema_version": "1", "status": "comp',
        "[]",
        "[" * 100_000,
        '{"schema_version": "1", "status": "complete", "plan": {}}',
        '{"schema_version": "1", "status": "complete", "plan": {}, "hash": ""}',
        '{"schema_version": "1", "plan": {}, "hash": "1f"}',
    ],
)
def test_a_damaged_manifest_is_no_complete_run(text: str, calm: Path, audit: Audit) -> None:
    (calm / "run" / "manifest.json").write_text(text)
    for words in (("gate", "run"), ("baseline", "update", "run", "--reason", "x")):
        assert "run/manifest.json: is damaged" in refused(audit(*words))


def test_a_vanished_baseline_is_missed(calm: Path, audit: Audit) -> None:
    (calm / "audit.toml").write_text("[regression]\nmin_delta = 0.02\n")
    done = audit("gate", "run")
    assert "INCONCLUSIVE regression: " in done.stdout
    assert "there is none; `audit baseline update DIR --reason TEXT` writes" in done.stdout
    assert audit("gate", "run", "--strict").returncode == 4
    assert audit("gate", "leaky").returncode == 1  # what was accepted is not known
    audit("baseline", "update", "leaky", "--reason", "known")
    assert audit("gate", "leaky", "--strict").returncode == 0


def test_a_policy_cannot_switch_leaks_off(calm: Path, audit: Audit) -> None:
    (calm / "audit.toml").write_text("confidence = 0.9\nleaks = false\n")
    assert "audit.toml:2: leaks cannot be switched off" in refused(audit("gate", "leaky"))


@pytest.mark.parametrize("name", ["audit.toml", "audit-baseline.json"])
def test_what_is_no_file_is_not_passed_over(name: str, calm: Path, audit: Audit) -> None:
    (calm / name).symlink_to("gone")
    assert f"{name}: is a link that leads to no file" in refused(audit("gate", "run"))
    (calm / name).unlink()
    (calm / name).mkdir()
    assert f"{name}: is not a file" in refused(audit("gate", "run"))


def test_only_tighten_does_not_write_over_a_link_to_nothing(calm: Path, audit: Audit) -> None:
    (calm / "audit-baseline.json").symlink_to("gone")
    words = ("baseline", "update", "run", "--reason", "x", "--only-tighten")
    assert "is a link that leads to no file" in refused(audit(*words))
    assert (calm / "audit-baseline.json").is_symlink()


def test_two_runs_side_by_side(calm: Path, audit: Audit) -> None:
    done = audit("compare", "run", "leaky")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("A: run\nB: leaky\n\nB against A: ")
    assert "Settings that differ" not in done.stdout
    values, answers = (
        next(line for line in table.splitlines() if "extraction.hit_rate" in line)
        for table in reversed(done.stdout.split("Measures told apart:"))
    )
    assert "0 of 200" in values and "40 of 200" in values and values.endswith("higher")
    assert "no leak found; claim not refuted" in answers and "leak;" in answers


def test_more_runs_are_each_compared_with_the_first(calm: Path, audit: Audit) -> None:
    done = audit("compare", "run", "leaky", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("A: run\nB: leaky\nC: run\n\nB against A: ")
    assert done.stdout.count("Nothing differs.") == 1
    many = audit("compare", "run", "leaky", "run", "--format", "html")
    assert "--format: a report compares two runs" in refused(many)
    assert "compare takes 2 to 26 run folders" in refused(audit("compare", "run"))
    assert "compare takes 2 to 26 run folders" in refused(audit("compare", *["run"] * 27))
    assert not list(calm.glob("comparison.*"))


def test_an_unknown_schema_version_is_named(calm: Path, audit: Audit) -> None:
    path = calm / "leaky" / "results.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "schema_version": "9"}), encoding="utf-8")
    assert "leaky/results.json: schema version '9'" in refused(audit("compare", "run", "leaky"))


def test_the_commands_are_light(calm: Path) -> None:
    code = (
        "import sys\n"
        "from audit.cli.app import main\n"
        "heavy = {'torch', 'transformers', 'spacy', 'peft'}\n"
        "drawing = {'matplotlib', 'typst'}\n"
        "for words, other in (('gate run', drawing), ('compare run leaky', drawing),\n"
        "                     ('report run --format annex', set())):\n"
        "    sys.argv = ['audit', *words.split()]\n"
        "    try: main()\n"
        "    except SystemExit as left: assert not left.code, words\n"
        "    loaded = (heavy | other) & sys.modules.keys()\n"
        "    assert 'click' in sys.modules and not loaded, (words, loaded)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=calm,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
