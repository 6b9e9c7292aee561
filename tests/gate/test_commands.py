"""`audit gate`, `baseline update` and `compare` as a CI job meets them."""

from __future__ import annotations

import json
import math
import os
import shlex
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


def test_silence_passes_and_a_leak_fails(calm: Path, audit: Audit) -> None:
    """With neither policy nor baseline; page one shows the answer of the gate."""
    for name, code, formats, said, report in (
        ("run", 0, "junit", "gate: PASS (2 passed)", "junit.xml"),
        ("leaky", 1, "junit,sarif", "gate: FAIL (", "report.sarif"),
    ):
        page = calm / name / "report.html"
        page.write_text("stale", encoding="utf-8")
        done = audit("gate", name, "--format", formats)
        assert (done.returncode, done.stderr) == (code, "")
        assert said in done.stdout and done.stdout.splitlines()[-1].endswith(report)
        text = page.read_text(encoding="utf-8")
        assert said in text and "the gate was not run" not in text
        expected = {"gate.json", "junit.xml", "report.html", "results.json", report}
        assert set(names(calm / name)) == expected
    assert "FAIL         leak/dp_sgd/extraction.hit_rate" in done.stdout
    ElementTree.parse(calm / "run" / "junit.xml")
    assert audit("gate", "run").stdout.splitlines()[-1] == "run/junit.xml"  # by default


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


def test_baseline_is_found_and_held(calm: Path, audit: Audit) -> None:
    """Of a silent run in the working directory, of a leaky one where it is named."""
    done = audit("baseline", "update", "run", "--reason", "first")
    assert (done.returncode, done.stdout) == (0, "audit-baseline.json\n")
    kept = (calm / "audit-baseline.json").read_bytes()
    assert json.loads(kept)["reason"] == "first"
    assert audit("gate", "run", "--strict").returncode == 0
    done = audit("gate", "leaky")
    assert done.returncode == 1 and "0 of 200 before, 40 of 200 now" in done.stdout
    done = audit("baseline", "update", "leaky", "--reason", "more", "--only-tighten")
    assert "nothing was written" in refused(done)
    assert (calm / "audit-baseline.json").read_bytes() == kept
    done = audit("baseline", "update", "leaky", "--reason", "known", "--output", "b.json")
    accepts = "accepts 1 leak: dp_sgd extraction.hit_rate (40 of 200)"
    assert done.stdout.splitlines() == ["b.json", accepts]
    assert audit("gate", "leaky", "--baseline", "b.json", "--strict").returncode == 0


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


REFUSED = {
    "gate missing": "missing/results.json: no results here",
    "gate run --policy missing.toml": "missing.toml: no such policy",
    "gate run --baseline missing.json": "missing.json: no such baseline",
    "gate run --format sarf": "unknown report 'sarf'; did you mean 'sarif'?",
    "gate run --polcy x": "--policy",
    "baseline updat run": "did you mean 'update'?",
    "baseline update run": "--reason",
    "baseline update run --reason ' '": "needs a reason",
    "baseline update run --reason x --output no/b.json": "cannot be written",
    "compare run missing": "missing/results.json: no results here",
    "compare run": "compare takes 2 to 26 run folders",
    "compare" + " run" * 27: "compare takes 2 to 26 run folders",
    "compare run leaky run --format html": "--format: a report compares two runs",
}


def test_bad_words_are_refused_in_one_line(calm: Path, audit: Audit) -> None:
    for words, said in REFUSED.items():
        assert said in refused(audit(*shlex.split(words)))
    assert names(calm) == ["leaky", "run"] and names(calm / "run") == ["results.json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leaks = true\n[[limit]]\nmx = 1\n", "3: unknown key 'mx'; did you mean 'max'?"),
        ("confidence = 0.9\nleaks = false\n", "2: leaks cannot be switched off"),
    ],
)
def test_bad_policy_is_refused_with_its_line(
    text: str, said: str, calm: Path, audit: Audit
) -> None:
    (calm / "audit.toml").write_text(text)
    assert f"audit.toml:{said}" in refused(audit("gate", "leaky"))


def finding(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["releases"][0]["findings"][0]
    return found


def test_damaged_results_are_refused_by_every_command(calm: Path, audit: Audit) -> None:
    """What no schema allows, what contradicts itself, what does not follow, what is beyond any
    number, another version; all other edits: tests/findings/test_stored.py."""
    audit("baseline", "update", "run", "--reason", "first")
    kept = (calm / "audit-baseline.json").read_bytes()
    (calm / "audit.toml").write_text("leaks = true\n[[limit]]\nmax = 0.3\n")
    whole = (calm / "leaky" / "results.json").read_bytes()
    damages: list[Callable[[dict[str, Any]], object]] = [
        lambda d: finding(d).update(n=-5),
        lambda d: finding(d)["ci"].reverse(),
        lambda d: finding(d).update(leaked="inconclusive"),
        lambda d: finding(d).update(value=10**400),
        lambda d: d.update(schema_version="9"),
    ]
    for damage in damages:
        document = json.loads(whole)
        damage(document)
        (calm / "leaky" / "results.json").write_text(json.dumps(document))
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


MANIFEST = {"schema_version": "1", "hash": "1f", "plan": {}}
DAMAGED = (
    "", '{"schema_version": "1", "status": "comp', "[]", "[" * 100_000,
    '{"schema_version": "1", "status": "complete", "plan": {}}',
    '{"schema_version": "1", "status": "complete", "plan": {}, "hash": ""}',
    json.dumps(MANIFEST),
)  # fmt: skip


def manifest(folder: Path, text: str = "", **fields: Any) -> None:
    folder.mkdir(exist_ok=True)
    text = text or json.dumps({**MANIFEST, **fields})
    (folder / "manifest.json").write_text(text)


def test_damaged_manifest_is_no_complete_run(calm: Path, audit: Audit) -> None:
    for text in DAMAGED:
        (calm / "run" / "manifest.json").write_text(text)
        for words in (("gate", "run"), ("baseline", "update", "run", "--reason", "x")):
            assert "run/manifest.json: is damaged" in refused(audit(*words))


def test_incomplete_run_is_refused(calm: Path, audit: Audit) -> None:
    run = make.run(make.release("x", make.rate(0, leaked="inconclusive")), status="partial")
    written(calm / "partial", run)
    for folder in ("partial", "run"):
        manifest(calm / folder, status="interrupted")
        assert "not complete" in refused(audit("gate", folder))
        assert "not complete" in refused(audit("baseline", "update", folder, "--reason", "x"))
    assert not (calm / "run" / "junit.xml").exists()
    manifest(calm / "run", status="complete")
    assert audit("gate", "run").returncode == 0


def test_interrupted_run_without_results_is_resumed_by_its_command(
    calm: Path, audit: Audit
) -> None:
    """A stranger's line is not passed on."""
    manifest(calm / "empty", status="interrupted")
    said = refused(audit("gate", "empty"))
    assert "the run is interrupted, not complete; resume it" in said and "--output empty" in said
    again = "audit run --defense submix --plan 'my plan.toml' --output empty"
    for command in (again, "audit run --x; rm -rf .", "curl x", "audit 'run", f"{again} | sh", 7):
        manifest(calm / "empty", status="running", command=command)
        said = refused(audit("gate", "empty"))
        assert "running, or was killed, not complete" in said
        assert said.endswith(f"resume it with: {again}\n") == (command == again)
        assert command == again or str(command) not in said


def test_a_vanished_baseline_is_missed(calm: Path, audit: Audit) -> None:
    (calm / "audit.toml").write_text("[regression]\nmin_delta = 0.02\n")
    done = audit("gate", "run")
    assert "INCONCLUSIVE regression: " in done.stdout
    assert "there is none; `audit baseline update DIR --reason TEXT` writes" in done.stdout
    assert audit("gate", "run", "--strict").returncode == 4
    assert audit("gate", "leaky").returncode == 1  # what was accepted is not known
    audit("baseline", "update", "leaky", "--reason", "known")
    assert audit("gate", "leaky", "--strict").returncode == 0


def test_link_or_folder_is_not_passed_over(calm: Path, audit: Audit) -> None:
    update = ("baseline", "update", "run", "--reason", "x", "--only-tighten")
    for name in ("audit.toml", "audit-baseline.json"):
        (calm / name).symlink_to("gone")
        for words in (("gate", "run"), *([update] if name != "audit.toml" else [])):
            assert f"{name}: is a link that leads to no file" in refused(audit(*words))
        assert (calm / name).is_symlink()
        (calm / name).unlink()
        (calm / name).mkdir()
        assert f"{name}: is not a file" in refused(audit("gate", "run"))
        (calm / name).rmdir()


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
    assert not list(calm.glob("comparison.*"))


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
