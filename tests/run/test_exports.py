"""Exports as people have them, from the file to a verdict on its users, by the page's commands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.verify import verify
from tests import chat, command_line, exports

PROJECT = Path(__file__).parents[2]
PEOPLE = {"mail.mbox": 160, "tickets.csv": 110, "chats.json": 110}
LONGEST = pytest.param("chats.json", marks=pytest.mark.full)  # it trains on a model of its own


def commands(source: str) -> list[str]:
    """The lines of the page that begin with an export, comments included."""
    page = (PROJECT / "docs" / "your-own-data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- real users -->\n```sh\n(.*?)^```$", page, re.S | re.M)
    (block,) = [block for block in blocks if f" {source} " in block]
    return str(block).splitlines()


def train(base: Path) -> None:
    """Anywhere, with anything: a plain script of the transformers Trainer."""
    trainer = PROJECT / "tests" / "run" / "plain_trainer.py"
    words = [sys.executable, str(trainer), str(base), "planted.jsonl", "out"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@dataclass(frozen=True)
class Followed:
    """The folder in which the page was followed, and what each command left with, by its name."""

    source: str
    folder: Path
    left: dict[str, Any]

    @property
    def run(self) -> Path:
        return self.folder / "audits" / Path(self.source).stem

    @property
    def results(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.run / "results.json").read_text("utf-8"))
        return read


@pytest.fixture(scope="module", params=["mail.mbox", "tickets.csv", LONGEST])
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    source = str(request.param)
    folder, left = tmp_path_factory.mktemp("export"), dict[str, Any]()
    base = EMBEDDED_FOLDER / "public_model"
    if source == "chats.json":
        base = chat.gpt2(folder / "base")
    exports.write(folder / source, PEOPLE[source])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(source):
            if line.startswith("#"):
                train(base)
                continue
            words = shlex.split(line.replace("BASE", str(base)))[1:]
            more = ["--workers", "1", "--reveal"] if words[0] == "run" else []
            left[words[0]] = command_line.audit(*words, *more)
    return Followed(source, folder, left)


@pytest.mark.slow
def test_page_leads_from_export_to_verdict(audited: Followed) -> None:
    left = audited.left
    codes = {name: done.returncode for name, done in left.items()}
    assert codes == {"plant": 0, "run": 0, "gate": 1, "report": 0}, left["run"].stderr
    results = audited.results
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
    assert "a user is one" in said
    remedy = next(w for w in results["warnings"] if "--defense none:dedup=near" in w)
    assert "--defense dp_sgd" in remedy and "none:dedup=near" in left["run"].stderr
    assert verify(audited.run).differences == ()


@pytest.mark.slow
def test_nobody_is_named_but_where_it_was_asked_for(audited: Followed) -> None:
    """Users and their words stand in what --reveal wrote, and `clean --personal` removes that."""
    run = audited.run
    names = {mail["From"].partition(" <")[0] for mail in exports.mails(PEOPLE[audited.source])}
    addresses = set(map(exports.address_of, names))
    files = {path for path in run.rglob("*") if path.is_file() and "stages" not in path.parts}
    named = {
        path.name
        for path in files
        if any(one in path.read_text(errors="replace") for one in names | addresses)
    }
    assert named <= {"exposed.jsonl", "samples.jsonl", "secrets.jsonl"}
    rows = [json.loads(line) for line in (run / "exposed.jsonl").read_text("utf-8").splitlines()]
    of_model = [row for row in rows if row["release"].startswith("as_is")]
    assert all(any(one in row["user"] for one in names | addresses) for row in of_model)
    assert [row["score"] for row in of_model] == sorted(
        (r["score"] for r in of_model), reverse=True
    )
    quarter = len(of_model) // 4
    top, last = of_model[:quarter], of_model[-quarter:]
    assert sum(row["stayed"] for row in top) > sum(row["stayed"] for row in last) + quarter / 4
    place = re.escape(audited.source) + r":\d+"
    assert all(re.fullmatch(place, one) for row in top for one in row["records"])
    assert command_line.audit("clean", run, "--personal").returncode == 0
    left = {path.name for path in run.rglob("*") if path.is_file()}
    assert not left & {"exposed.jsonl", "samples.jsonl", "secrets.jsonl", "evidence.json"}
    assert {"results.json", "report.html"} <= left
