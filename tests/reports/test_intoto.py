"""statement.intoto.json: the gate's answer, about what is released."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.gate import files
from audit.results import digests
from audit.results.schema import Results
from reports import Report
from reports.exports import intoto as report
from tests import by_hand as make


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, so that no policy but the test's own applies."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stated(results: Results) -> Any:
    return report.statement(Report(results))


def predicate(results: Results) -> Any:
    return stated(results)["predicate"]


def test_every_check_that_applies_is_in_one_list(results: Results, workplace: Path) -> None:
    found = predicate(results)
    outcome = files.judged(results, None, None, strict=False)
    states = {
        "passedTests": {"PASS"}, "warnedTests": {"INCONCLUSIVE"}, "failedTests": {"FAIL"},
    }  # fmt: skip
    for name, wanted in states.items():
        assert found[name] == [check.id for check in outcome.checks if check.state in wanted]
        assert found[name]
    assert found["result"] == "FAILED"


INSIDERS = "leak to insiders"
WAIVED = '[[waiver]]\ncheck = "leak/*"\nexpires = 2030-12-31\nreason = "until then"\n'
ALLOWED = '[[limit]]\nmetric = "hit_rate"\nmax = 0.6\n'


def release(leaked: str, epsilon: float | None = None, **changes: Any) -> Any:
    p = {"leak": 1e-9, INSIDERS: 1e-9}.get(leaked, 0.25)
    inside = {"stronger_than_release": leaked == INSIDERS, **changes}
    found = make.finding(0.4 if p < 0.05 else 0.0, leaked=leaked, p_value=p, **inside)
    return make.release("dp_sgd", make.guarantee(epsilon), found)


LEAK, REFUTED = release("leak"), release("no leak found", 1.0, claim="refuted")
CHECK, CLAIM = "leak/dp_sgd/extraction.hit_rate", "empirical/dp_sgd"


@pytest.mark.parametrize(
    ("one", "policy", "result", "check"),
    [
        (release("no leak found"), "", "PASSED", CHECK),
        (release("inconclusive"), "", "WARNED", CHECK),
        (release(INSIDERS), "", "WARNED", CHECK),
        (LEAK, "", "FAILED", CHECK),
        (LEAK, WAIVED, "WARNED", CHECK),
        (LEAK, ALLOWED, "WARNED", CHECK),
        (REFUTED, "", "FAILED", CLAIM),
        (REFUTED, "empirical = false\n", "WARNED", CLAIM),
    ],
)
def test_result_is_the_gates_and_never_passes_a_leak(
    workplace: Path, one: Any, policy: str, result: str, check: str
) -> None:
    (workplace / "audit.toml").write_text(policy)
    found = predicate(make.run(one))
    assert found["result"] == result
    assert check in found[f"{result.lower()}Tests"]
    assert result == "FAILED" or found["failedTests"] == []


def test_where_nothing_was_checked_nothing_has_passed(workplace: Path) -> None:
    found = predicate(make.run())
    assert (found["result"], found["passedTests"]) == ("WARNED", [])


def test_its_configuration_is_the_policy_the_baseline_and_the_plan(workplace: Path) -> None:
    run = make.run(release("no leak found"), plan={"hash": "0f" * 32})
    default = predicate(run)["configuration"]
    assert [one["name"] for one in default] == ["default policy", "plan"]
    (workplace / "audit.toml").write_text("leaks = true\n")
    own, plan = predicate(run)["configuration"]
    printed = subprocess.run(["sha256sum", "audit.toml"], capture_output=True, encoding="utf-8")
    assert own == {"name": "audit.toml", "digest": {"sha256": printed.stdout.split()[0]}}
    assert plan == {"name": "plan", "digest": {"auditDigest": "0f" * 32}}
    (workplace / "audit.toml").write_text("leaks = true \n")
    assert predicate(run)["configuration"][0] != own


def test_without_weights_its_subject_is_the_file_of_results(workplace: Path) -> None:
    run = make.run(release("no leak found"))
    (workplace / "results.json").write_text("as it lies there")
    (one,) = stated(run)["subject"]
    assert one["name"] == "results.json"
    assert one["digest"]["sha256"] == hashlib.sha256(b"as it lies there").hexdigest()
    finished = {"name": "mine", "sha256": "ab" * 32}  # a model of elsewhere
    run = make.run(release("no leak found"), plan={"finished": finished, "hash": "x"})
    first, _ = stated(run)["subject"]
    assert first == {"name": "mine", "digest": {"auditDigest": "ab" * 32}}


def test_nothing_is_attested_of_a_part_of_a_run(workplace: Path) -> None:
    partial = make.run(release("no leak found"), status="partial")
    for name in ("intoto", "junit", "sarif"):
        with pytest.raises(UsageError, match="partial, not complete"):
            make.files(name, partial)


DEPLOY = Path(__file__).parents[2] / "docs" / "ci.md"


def deployed(folder: Path, statement: Any, signed: bool = True) -> int:
    """Runs the deploy job of the docs, with a stand-in for cosign; gives its exit code."""
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    bundle = json.dumps({"dsseEnvelope": {"payload": payload}})
    (folder / "attestation.json").write_text(bundle)
    program = folder / "cosign"
    program.write_text(f"#!/bin/sh\nexit {int(not signed)}\n")
    program.chmod(0o755)
    script = re.search(r"<!-- deploy -->\n```sh\n(.*?)```", DEPLOY.read_text("utf-8"), re.S)
    assert script
    path = f"{folder}:{os.environ['PATH']}"
    environment = {"PATH": path, "SIGNER": "me", "ISSUER": "us"}
    done = subprocess.run(["sh", "-c", script[1]], cwd=folder, env=environment, capture_output=True)
    return done.returncode


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_deploy_job_of_the_docs_takes_these_weights_and_no_others(workplace: Path) -> None:
    (workplace / "audit.toml").write_text("leaks = true\n")
    (workplace / "defended").mkdir()
    weights = workplace / "defended" / "model.safetensors"
    weights.write_bytes(b"weights")
    subject = {"digest": {"sha256": hashlib.sha256(b"weights").hexdigest()}}
    good, open_, leak = (
        {**stated(make.run(release(word))), "subject": [subject]}
        for word in ("no leak found", "inconclusive", "leak")
    )
    assert deployed(workplace, good) == 0
    assert deployed(workplace, good, signed=False) == 1
    assert [deployed(workplace, one) for one in (open_, leak)] == [1, 1]
    weights.write_bytes(b"others")
    assert deployed(workplace, good) == 1
    weights.write_bytes(b"weights")
    (workplace / "audit.toml").write_text("leaks = true # changed\n")
    assert deployed(workplace, good) == 1


@pytest.mark.parametrize("members", [1, 2])
def test_no_member_of_a_service_is_what_is_released(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    known = {f"members/{i:03}.safetensors": f"{i}" * 64 for i in range(members)}
    monkeypatch.setattr(digests, "weights", lambda *given: known)
    claim = make.guarantee(2.0, release="predictions")
    found = stated(make.run(make.release("submix", claim, make.finding())))
    names = {one["name"]: list(one["digest"]) for one in found["subject"]}
    assert names == {"submix/members": ["dirHash"], "results.json": ["sha256"]}
    inside = make.finding(0.4, leaked=INSIDERS, stronger_than_release=True)
    loud = predicate(make.run(make.release("submix", claim, inside)))
    assert loud["failedTests"] == ["leak/submix/extraction.hit_rate"]  # who holds the subject
    assert (loud["result"], loud["warnedTests"]) == ("FAILED", ["empirical/submix"])
