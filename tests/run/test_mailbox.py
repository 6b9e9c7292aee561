"""A mailbox, from its export to a verdict about its senders, by the commands of the page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.verify import verify
from tests import command_line, mails

PROJECT = Path(__file__).parents[2]
BASE = EMBEDDED_FOLDER / "public_model"
PEOPLE = 160


def commands() -> list[str]:
    """The lines of the page, comments included."""
    page = (PROJECT / "docs" / "your-own-data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- real users -->\n```sh\n(.*?)^```$", page, re.S | re.M)
    return str(block).splitlines()


def train() -> None:
    """Anywhere, with anything: a plain script of the transformers Trainer."""
    trainer = PROJECT / "tests" / "run" / "plain_trainer.py"
    words = [sys.executable, str(trainer), str(BASE), "planted.jsonl", "out"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder in which the page was followed, and what each command left with, by its name."""
    folder, left = tmp_path_factory.mktemp("mail"), dict[str, Any]()
    mails.write(folder / "mail.mbox", PEOPLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands():
            if line.startswith("#"):
                train()
                continue
            words = shlex.split(line.replace("BASE", str(BASE)))[1:]
            more = ["--workers", "1", "--reveal"] if words[0] == "run" else []
            left[words[0]] = command_line.audit(*words, *more)
    return folder, left


@pytest.mark.slow
def test_page_on_real_users_leads_from_mailbox_to_verdict(
    audited: tuple[Path, dict[str, Any]],
) -> None:
    folder, left = audited
    assert [name for name in left] == ["plant", "run", "gate", "report"]
    codes = {name: done.returncode for name, done in left.items()}
    assert codes == {"plant": 0, "run": 0, "gate": 1, "report": 0}, left["run"].stderr
    results = json.loads((folder / "audits" / "mail" / "results.json").read_text("utf-8"))
    of = {
        (release["defense"], f["metric"]): f
        for release in results["releases"]
        for f in release["findings"]
    }
    assert of["as_is", "own_mean_ratio_auc"]["leaked"] == "leak"
    assert of["as_is", "own_mean_ratio_auc"]["value"] > 0.7
    assert of["public", "own_mean_ratio_auc"]["leaked"] != "leak"
    assert of["public", "own_exhibits"]["leaked"] != "leak"
    assert "own_mean_ratio_auc" in left["gate"].stdout
    said = " ".join(results["warnings"])
    assert "a model trained again on all is another release" in said
    assert "a user is one sender of mail" in said and "another user" in said
    assert verify(folder / "audits" / "mail").differences == ()


@pytest.mark.slow
def test_nobody_is_named_but_where_it_was_asked_for(
    audited: tuple[Path, dict[str, Any]],
) -> None:
    """Users and their words stand in what --reveal wrote, and `clean --personal` removes that."""
    folder, _ = audited
    run, users = folder / "audits" / "mail", {mail["From"] for mail in mails.mails(PEOPLE)}
    names = {user.partition(" <")[0] for user in users}
    addresses = {user.partition("<")[2].rstrip(">") for user in users}
    files = {path for path in run.rglob("*") if path.is_file() and "stages" not in path.parts}
    named = {
        path.name
        for path in files
        if any(one in path.read_text(errors="replace") for one in names | addresses)
    }
    assert named <= {"exposed.jsonl", "samples.jsonl", "secrets.jsonl"}
    rows = [json.loads(line) for line in (run / "exposed.jsonl").read_text("utf-8").splitlines()]
    of_model = [row for row in rows if row["release"].startswith("as_is")]
    assert {row["user"] for row in of_model} <= addresses
    assert [row["score"] for row in of_model] == sorted(
        (r["score"] for r in of_model), reverse=True
    )
    quarter = len(of_model) // 4
    top, last = of_model[:quarter], of_model[-quarter:]
    assert sum(row["stayed"] for row in top) > sum(row["stayed"] for row in last) + quarter / 4
    assert all(re.fullmatch(r"mail\.mbox:\d+", place) for row in top for place in row["records"])
    assert command_line.audit("clean", run, "--personal").returncode == 0
    left = {path.name for path in run.rglob("*") if path.is_file()}
    assert not left & {"exposed.jsonl", "samples.jsonl", "secrets.jsonl", "evidence.json"}
    assert {"results.json", "report.html"} <= left
