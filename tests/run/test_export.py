"""Handing over a release of a run, and serving it with a ledger that outlives its process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.files import read_lines
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.results import digests
from audit.results.folder import clean
from audit.results.schema import Results
from reports import Report
from reports.exports import intoto
from tests.builders import hellos, planned, run_of

BUDGET = 12
SUBMIX = f"submix:epsilon=1000.0,k=2,budget={BUDGET}"
CAPPED = f"capped_submix:epsilon=0.001,k=2,budget={BUDGET},multiple=5"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder for each test, so that each may serve the module's service anew."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of a service, of a model and of a list of private values."""
    folder = tmp_path_factory.mktemp("export")
    plan = planned(
        hellos(folder),
        defense=[SUBMIX, CAPPED, "none", "blacklist"],
        attack=["name_leak:generations=4,length=4,decoys=2"],
        planting={"users": 8, "kinds": ["name"]},
    )
    return run_of(plan, folder / "run")


@pytest.fixture(scope="module")
def service(run: Path) -> Path:
    out = run.parent / "service"
    assert api.export(run, "submix", out).startswith("a service of 4 models in ")
    assert api.export(run, SUBMIX, out.with_name("again")) == api.export(
        run, "submix", out.with_name("more")
    ).replace("more", "again")
    return out


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


# a model


def test_a_model_becomes_a_folder_that_others_load(run: Path, tmp_path: Path) -> None:
    api.export(run, "none", tmp_path / "model")
    described = describe(str(tmp_path / "model"), EMBEDDED_FOLDER)
    weights = load_weights(described, "cpu").state_dict()
    note = json.loads(next((run / "stages").glob("releases-*.json")).read_text("utf-8"))
    (member,) = note["releases"]["none"]["members"]
    for name, value in load_file(run / "stages" / member["weights"]).items():
        assert torch.equal(weights[name], value)
    assert load_tokenizer(described).decode([5, 6, 7])


def test_its_promise_and_what_was_found_stand_beside_it(run: Path, tmp_path: Path) -> None:
    api.export(run, "none", tmp_path / "model")
    beside = json.loads((tmp_path / "model" / "guarantee.json").read_text("utf-8"))
    (release,) = (r for r in api.load(run).releases if r.defense == "none")
    private = ("phrases", "teachers_per_user")
    public = {k: v for k, v in release.guarantee.as_json().items() if k not in private}
    assert beside["guarantee"] == public
    assert next(iter(beside)) == "per_user" and "utility" not in beside["audit"]
    assert beside["audit"]["leaked"] == str(release.leaked)
    assert beside["audit"]["plan_hash"] == api.load(run).plan["hash"]
    assert "number 7" not in json.dumps(beside)


def sha256sum(folder: Path, words: str) -> str:
    """What a reader computes by hand, in the shell."""
    done = subprocess.run(["sh", "-c", words], cwd=folder, capture_output=True, encoding="utf-8")
    return done.stdout.split()[0]


def test_the_digest_of_a_model_is_that_of_the_file_that_is_handed_over(
    run: Path, tmp_path: Path
) -> None:
    results = api.load(run)
    (none,) = (r for r in results.releases if r.defense == "none")
    api.export(run, "none", tmp_path / "model")
    assert digests.weights(run, results, none) == {
        "model.safetensors": sha256sum(tmp_path / "model", "sha256sum model.safetensors")
    }


def test_the_digest_of_a_service_is_of_all_its_members(run: Path, service: Path) -> None:
    results = api.load(run)
    (submix,) = (r for r in results.releases if r.defense == "submix")
    found = digests.weights(run, results, submix)
    # as the specification of `dirHash` has it
    listed = "find . -type f | cut -c3- | LC_ALL=C sort | xargs -r sha256sum | sha256sum"
    assert digests.of_members(found) == sha256sum(service / "members", listed)
    assert len(found) > 1
    names = {path.name for path in (service / "members").iterdir()}
    assert {name.removeprefix("members/") for name in found} == names
    one = dict(list(found.items())[:-1])
    assert digests.of_members(one) != digests.of_members(found)


def test_members_of_a_service_are_no_subjects_of_their_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is unprotected; only the service was audited."""
    monkeypatch.chdir(tmp_path)
    results = api.load(run)
    subjects = {one["name"]: one["digest"] for one in _subjects(results, run)}
    (submix,) = (r for r in results.releases if r.defense == "submix")
    members = digests.weights(run, results, submix)
    assert set(subjects["submix/members"]) == {"dirHash"}
    assert not {d for digest in subjects.values() for d in digest.values()} & set(members.values())
    assert subjects["none/model.safetensors"]["sha256"] not in members.values()


def _subjects(results: Results, run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = intoto.statement(Report(results, run))["subject"]
    return found


def test_after_a_clean_or_of_another_plan_no_weights_are_known(run: Path, tmp_path: Path) -> None:
    results = api.load(run)
    kept = tmp_path / "kept"
    shutil.copytree(run, kept)
    changed = results.model_copy(update={"plan": {**results.plan, "hash": "0" * 64}})
    for release in results.releases:
        assert digests.weights(kept, changed, release) == {}
    clean(kept)
    assert all(digests.weights(kept, results, one) == {} for one in results.releases)
    assert [one["name"] for one in _subjects(results, kept)] == ["results.json"]


# a service


def test_a_budget_is_spent_once_in_however_many_processes(service: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with api.serve(service, ledger) as first:
        assert first.remaining == BUDGET
        first.complete("Hello", 5)
        assert first.remaining == BUDGET - 5
    with api.serve(service, ledger) as second:
        assert second.remaining == BUDGET - 5  # known before anything is asked
        second.complete("Hello", 5)
        assert second.remaining == BUDGET - 10
    with api.serve(service, ledger) as third:
        third.complete("Hello", 5)
        assert third.remaining == 0
    rows = [row["row"] for row in read_lines(ledger / "ledger.jsonl")]
    assert sum(not row["stopped"] for row in rows) == BUDGET
    with api.serve(service, ledger) as fourth:
        assert fourth.remaining == 0 and fourth.complete("Hello", 3)  # the public model's
    assert len(read_lines(ledger / "ledger.jsonl")) == len(rows)


def test_the_accounts_of_the_parts_go_on_in_the_next_process(run: Path, tmp_path: Path) -> None:
    """Where they began anew, every process would spend ε."""
    out, ledger = tmp_path / "service", tmp_path / "ledger"
    api.export(run, "capped_submix", out)
    for process in range(3):
        with api.serve(out, ledger) as one:
            assert one.remaining == BUDGET - 4 * process
            one.complete("Hello", 4)
    rows = [row["row"] for row in read_lines(ledger / "ledger.jsonl")]
    assert len(rows) == BUDGET
    heard, heard_later = ([r for r in some if len(r["silent"]) < 2] for some in (rows, rows[4:]))
    assert heard and len(heard_later) < len(rows[4:])
    assert all(0 < sum(part) < 0.001 for part in zip(*(r["charge"] for r in rows), strict=True))
    last = {i: [r["charge"][i] for r in rows if i not in r["silent"]] for i in range(2)}
    assert all(max(charges) > 2 * 0.001 / BUDGET for charges in last.values())


def test_the_same_question_in_a_new_process_is_no_replay(service: Path, tmp_path: Path) -> None:
    """It costs as much as any other, and is drawn anew."""
    said = []
    for _ in range(2):
        with api.serve(service, tmp_path / "ledger") as one:
            said.append(one.complete("Hello", 6))
            left = one.remaining
    assert left == 0 and said[0] != said[1]


def test_its_randomness_is_the_operating_systems(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api.serve(service, tmp_path / "ledger") as one:
        assert "operating system's entropy" in " ".join(one.guarantee.conditions)
        promised = json.loads((service / "guarantee.json").read_text("utf-8"))["guarantee"]
        assert promised["conditions"] == list(one.guarantee.conditions)
        first = one.complete("Hello", 6)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    with api.serve(service, tmp_path / "other") as two:
        assert two.complete("Hello", 6) != first


def test_one_ledger_serves_one_process_and_one_service(
    run: Path, service: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    with api.serve(service, ledger) as one:
        one.complete("Hello", 1)
        assert "another process serves" in refused(lambda: api.serve(service, ledger).__enter__())
    other = shutil.copytree(service, tmp_path / "other")
    document = json.loads((other / "service.json").read_text("utf-8"))
    document["parameters"]["budget"] = 10**6
    (other / "service.json").write_text(json.dumps(document))
    said = refused(lambda: api.serve(other, ledger).__enter__())
    assert "promises other than this version computes" in said
    del document["guarantee"]
    (other / "service.json").write_text(json.dumps(document))
    assert "belongs to another service" in refused(lambda: api.serve(other, ledger).__enter__())


@pytest.mark.parametrize(
    ("text", "tokens", "why"),
    [("Hello", 0, "tokens is 0; it must be at least 1"), ("Hello " * 600, 5, "it exceeds the ")],
)
def test_what_cannot_be_answered_costs_nothing(
    text: str, tokens: int, why: str, service: Path, tmp_path: Path
) -> None:
    with api.serve(service, tmp_path / "ledger") as one:
        assert why in refused(lambda: one.complete(text, tokens))
        assert one.remaining == BUDGET


@pytest.mark.slow
def test_what_a_killed_process_has_said_is_spent(run: Path, tmp_path: Path) -> None:
    """However early the process ends: what left it was charged before."""
    with_budget = resolve_service(run, tmp_path / "service", budget=400)
    ledger, said = tmp_path / "ledger", 0
    for wait in (0.0, 0.05, 0.2, 0.5):
        words = [sys.executable, "-c", _ASKS, str(with_budget), str(ledger)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            said += len(process.stdout.readline().split())  # the first answer is out
            time.sleep(wait)
            process.kill()
            said += sum(len(line.split()) for line in process.stdout)
        spent = [row["row"] for row in read_lines(ledger / "ledger.jsonl")]
        assert said <= sum(not row["stopped"] for row in spent)
        with api.serve(with_budget, ledger) as next_one:
            assert next_one.remaining is not None and next_one.remaining <= 400 - said
    assert said > 4


_ASKS = """
import sys
from pathlib import Path
from audit import api
with api.serve(Path(sys.argv[1]), ledger=Path(sys.argv[2])) as service:
    for i in range(50):
        service.complete(f"Hello {i}", 2)
        print("token token", flush=True)  # after the answer: two tokens have left
"""


def resolve_service(run: Path, out: Path, budget: int) -> Path:
    """The service of a run with a larger budget, which is another service."""
    api.export(run, "submix", out)
    document = json.loads((out / "service.json").read_text("utf-8"))
    document["parameters"]["budget"] = budget
    del document["guarantee"]
    (out / "service.json").write_text(json.dumps(document))
    return out


# bad input


def test_what_cannot_be_handed_over_leaves_nothing(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for label, why in (
        ("submix:k=2", "run: no release 'submix:k=2'"),
        ("submix_unprotected", "no release"),
        ("blacklist", "blacklist: cannot be served from its weights alone"),
    ):
        assert why in refused(lambda label=label: api.export(run, label, out))  # type: ignore[misc]
        assert not out.exists()
    out.mkdir()
    assert "is there already" in refused(lambda: api.export(run, "none", out))
    assert "no results here" in refused(lambda: api.export(out, "none", tmp_path / "new"))


def test_without_its_models_a_run_has_nothing_to_hand_over(run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    for path in (copied / "stages").glob("trained-*.safetensors"):
        path.unlink()
    assert "run its plan again" in refused(lambda: api.export(copied, "none", tmp_path / "out"))
    clean(copied)
    assert "run its plan again" in refused(lambda: api.export(copied, "none", tmp_path / "out"))


def test_a_service_without_a_member_or_settings_is_refused(service: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(service, tmp_path / "service")
    (copied / "members" / "002.safetensors").unlink()
    ledger = tmp_path / "ledger"
    said = refused(lambda: api.serve(copied, ledger).__enter__())
    assert "002.safetensors: is not there; export it again" in said
    (copied / "service.json").write_text("{")
    assert "is no exported service" in refused(lambda: api.serve(copied, ledger).__enter__())
    assert not ledger.exists()
