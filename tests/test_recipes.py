"""Recipes of the docs, run to their end, as they stand there, on small runs that they share."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from audit.corpora import writing
from tests import builders, chat
from tests.models.test_chat_template import MARKED

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
SMALL = """
[tool.audit]
utility_tokens = 64
workers = 1
[tool.audit.planting]
users = 8
[tool.audit.training]
epochs = 1
"""
SWEEP = """
corpus = "own.jsonl"
attack = ["extraction:generations=10,searched=0"]
format = ["json", "csv"]
[sweep]
defense = ["submix", "gnmax:k=2"]
epsilon = [1, 8]
seeds = [0, 1]
[sweep.submix]
k = [2, 3]
"""


def block(page: str, name: str) -> str:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", text, re.S)
    return str(found)


def shell(folder: Path, lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run lines as a CI's runner does, with this checkout's `audit` and Python."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name, words in (("audit", "-W ignore -m audit "), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        (tools / name).chmod(0o755)
    path = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines],
        cwd=folder,
        env={**os.environ, **path, **variables},
        encoding="utf-8",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def tutorial() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorial", DOCS / "tutorial.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow  # trains 17 small models
def test_ci_recipe_gates_against_its_first_baseline(tmp_path: Path) -> None:
    """The repository of docs/ci.md: the workflow's steps, then the commands of the page."""
    for file, name in (("audit-plan.toml", "plan"), ("audit.toml", "policy")):
        (tmp_path / file).write_text(block("ci", name), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(SMALL, encoding="utf-8")
    workflow = yaml.safe_load(block("ci", "workflow"))["jobs"]["audit"]["steps"][-1]["with"]
    action = yaml.safe_load((PROJECT / "ci" / "action.yml").read_text(encoding="utf-8"))
    given = {name: one["default"] for name, one in action["inputs"].items()} | workflow
    given |= {"base": ""}  # no pull request
    steps = {step.get("name"): step for step in action["runs"]["steps"]}

    def step(name: str) -> str:
        known = re.findall(
            r"(\w+): \$\{\{ inputs\.([\w-]+) \}\}", yaml.safe_dump(steps[name]["env"])
        )
        return shell(
            tmp_path, steps[name]["run"], RULES="", **{k: given[v] for k, v in known}
        ).stdout

    step("Run the plan")
    assert "there is none; `audit baseline update" in step("Gate")
    update = [
        line for line in (DOCS / "ci.md").read_text().splitlines() if "first accepted" in line
    ]
    shell(tmp_path, f"git init -q .\n{update[0]}\ngit add audit-baseline.json")
    said = step("Gate")
    name = "extraction:generations=300"
    for rule in ("limit", "claim", "utility", "regression"):
        assert re.search(rf"^\w+ +{rule}/submix/?", said, re.M), said
    for metric in ("hit_rate", "recall"):
        compared = rf"^\w+ +regression/submix/{name}\.{metric}: .*before"
        assert re.search(compared, said, re.M), said
    assert "matches no" not in said and "waives nothing" not in said
    junit = (tmp_path / "audits/ci/junit.xml").read_text(encoding="utf-8")
    assert f'classname="audit.submix.limit" name="limit/{name}.hit_rate"' in junit


@pytest.fixture(scope="module")
def swept(shared: Callable[..., Path]) -> Path:
    """A folder with a small sweep in audits/tradeoff."""

    def make(folder: Path) -> None:
        (folder / "pyproject.toml").write_text(SMALL, encoding="utf-8")
        (folder / "plan.toml").write_text(SWEEP, encoding="utf-8")
        writing.write(builders.dialogs(20).records, folder / "own.jsonl")
        done = shell(folder, "audit sweep plan.toml --output audits/tradeoff")
        (folder / "stderr").write_text(done.stderr, encoding="utf-8")

    return shared("recipes", make)


@pytest.mark.slow  # runs a sweep of two seeds
def test_pandas_recipe_has_a_column_for_each_setting(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(swept)
    exec(block("sweeps", "pandas"), {})
    said = capsys.readouterr().out
    for name in ("gnmax", "submix k = 2", "submix k = 3"):
        assert name in said
    assert re.findall(r"^(\d\.\d) ", said, re.M) == ["1.0", "8.0"]
    assert "unprotected" not in said and "NaN" not in said


@pytest.mark.slow  # runs a sweep of two seeds
def test_figure_recipe_writes_its_files_and_next_names_it(swept: Path) -> None:
    line = block("sweeps", "figure")
    said = shell(swept, line).stdout.splitlines()
    assert said[0] == "perplexity over ε claimed (nats); n = 2 seeds."
    files = [swept / path for path in said[-4:]]
    assert [path.suffix for path in files] == [".svg", ".pdf", ".tex", ".csv"]
    rows = list(csv.DictReader(files[-1].read_text(encoding="utf-8").splitlines()))
    asked = {(row["panel"], row["setting"], row["epsilon"]) for row in rows if row["epsilon"]}
    assert ("submix", "k = 3", "8.0") in asked and ("gnmax", "", "1.0") in asked
    told = (swept / "stderr").read_text(encoding="utf-8")
    assert "audit figure audits/tradeoff" in told and "MINE.jsonl" not in told  # it was their own
    results = json.loads((swept / "audits/tradeoff/results.json").read_text(encoding="utf-8"))
    assert any(line.startswith("two seeds give intervals") for line in results["warnings"])


def test_tutorial_quotes_its_own_output() -> None:
    made = tutorial()
    page = made.PAGE.read_text(encoding="utf-8")
    assert len(made.QUOTED.findall(page)) > 5
    assert made.unquoted(page) == []
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (result,) = re.findall(r"```text\n(submix: .*?)```", readme, re.S)
    assert " ".join(result.split("\n")).strip() in page
    assert (
        made.unquoted(page.replace("(hit rate 0 of 100, und", "(hit rate 1 of 100, und", 1)) != []
    )


@pytest.mark.full  # two runs of the default size
def test_tutorial_shows_what_its_commands_print() -> None:
    done = subprocess.run([sys.executable, DOCS / "tutorial.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


LOOP = """
import json, torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("llama")
model = AutoModelForCausalLM.from_pretrained("llama")
rows = [json.loads(line) for line in open("planted.jsonl", encoding="utf-8")]
seen = []
for row in (row for row in rows if row.get("split", "private") == "private"):
    read = tokenizer.apply_chat_template(
        row["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    seen.append({name: read[name] for name in ("input_ids", "assistant_masks")})
open("seen.jsonl", "w").write("".join(json.dumps(row) + "\\n" for row in seen))
torch.manual_seed(0)
steps = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    for i in torch.randperm(len(seen)).tolist():
        ids, learned = (torch.tensor([seen[i][name]]) for name in ("input_ids", "assistant_masks"))
        loss = model(input_ids=ids, labels=ids.masked_fill(learned == 0, -100)).loss
        loss.backward()
        steps.step()
        steps.zero_grad()
model.save_pretrained("out")
tokenizer.save_pretrained("out")
"""


@pytest.mark.full  # trains the model, the positive control and a copy that shows what is seen
def test_chat_recipe_can_say_no_leak_found(tmp_path: Path) -> None:
    """A plain loop stands in for TRL, which tests/run/test_sft.py takes where it is installed."""
    chat.gpt2(tmp_path / "llama", MARKED)
    chat.corpus(tmp_path / "chats.jsonl", 160)
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    planted = "--kind code --count 100 --repetitions 1 --share 0.8 --seed 3"
    plant = "audit plant chats.jsonl --output planted.jsonl --manifest canaries.json"
    assert plant in (DOCS / "chat.md").read_text(encoding="utf-8")
    shell(tmp_path, f"{plant} {planted}\npython loop.py")
    line = block("chat", "audit").strip().replace("--attack all", "--attack extraction:searched=0")
    shell(tmp_path, f"{line} --output audits/chat --format json --workers 1")
    results: Any = json.loads((tmp_path / "audits/chat/results.json").read_text(encoding="utf-8"))
    assert [release["defense"] for release in results["releases"]] == ["as_is", "none", "public"]
    assert "no leak found by extraction" in results["headline"][0]
