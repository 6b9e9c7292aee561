"""docs/ci.md and the CI kit: what they show works, and what they say was measured is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from audit.cli.app import cli
from audit.gate import baseline, increase_test, policy, verdict
from tests.gate import make

PROJECT = Path(__file__).parents[2]
DOC = (PROJECT / "docs" / "ci.md").read_text(encoding="utf-8")
ACTION = (PROJECT / "ci" / "action.yml").read_text(encoding="utf-8")
GITLAB = (PROJECT / "ci" / "gitlab.yml").read_text(encoding="utf-8")
HOOKS = (PROJECT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")


def block(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", DOC, re.S)
    assert found
    return found[1]


def understood(line: str) -> None:
    """Parses a command line with the real parser, and runs nothing."""
    words = shlex.split(line)[1:]
    command: Any = cli
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command is not None, line
    command.make_context(line, words)


LINES = [line for line in DOC.splitlines() if line.startswith("audit ")]
LINES += re.findall(r"`(audit [^`]* audits/[^`]*)`", DOC)


def test_its_command_lines_are_understood() -> None:
    assert LINES
    for line in LINES:
        understood(line)


def test_its_policy_is_read_and_its_checks_exist(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(block("policy"), encoding="utf-8")
    found = policy.load(tmp_path / "audit.toml")
    claim = make.claim(2.0, unit="part", relation="removed", basis="data-dependent", alpha=2.0,
                       delta=None)  # fmt: skip
    used = {"perplexity": make.measure(10, 9, 11)}
    public = make.release(
        "public", reference=True, utility={"perplexity": make.measure(20, 19, 21)}
    )
    name = "extraction:generations=300"  # as the page's plan calls it
    rates = (make.rate(0, 200, attack=name), make.rate(0, metric="recall", attack=name))
    submix = make.release("submix", *rates, guarantee=claim, utility=used)
    run = make.run(submix, public)
    accepted = baseline.make(run, "first accepted run", make.TODAY)
    outcome = verdict(run, found, accepted, make.TODAY)
    compared = [c.subject for c in outcome.checks if c.rule == "regression" and c.subject]
    assert {f"{name}.hit_rate", f"{name}.recall"} <= set(compared)
    assert not any("waives nothing" in note for note in outcome.notes)
    assert outcome.state == "INCONCLUSIVE" or outcome.exit_code == 0
    rules = {check.rule: check.state for check in outcome.checks}
    assert rules["claim"] == rules["utility"] == "PASS"
    assert rules["limit"] == "WAIVED"


def test_its_plan_holds_known_settings(tmp_path: Path) -> None:
    from audit.plan.settings import gather

    (tmp_path / "plan.toml").write_text(block("plan"), encoding="utf-8")
    assert gather({}, tmp_path / "plan.toml")["defense"] == ("submix:k=8",)


def test_every_key_of_a_policy_is_told() -> None:
    import dataclasses

    tables = (
        policy.Limit,
        policy.ClaimLimit,
        policy.UtilityLimit,
        policy.Waiver,
        policy.Regression,
    )
    for cls in (*tables, policy.Policy):
        for field in dataclasses.fields(cls):
            assert field.name in ("line", "name") or field.name in DOC, field.name


def test_the_workflow_gives_the_action_inputs_it_has() -> None:
    steps = yaml.safe_load(block("workflow"))["jobs"]["audit"]["steps"]
    inputs = yaml.safe_load(ACTION)["inputs"]
    assert set(steps[-1]["with"]) <= set(inputs)


def test_the_action_takes_no_input_into_a_script() -> None:
    """`${{ inputs.x }}` inside `run` would let a branch name run code."""
    action = yaml.safe_load(ACTION)
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "uses" in step or step["shell"] == "bash"
    asked = set(re.findall(r"inputs\.([\w-]+)", ACTION))
    assert asked == set(action["inputs"])


def test_no_kit_uploads_stages() -> None:
    job = yaml.safe_load(GITLAB)[".audit-gate"]
    steps = yaml.safe_load(ACTION)["runs"]["steps"]
    uploaded = [step["with"]["path"] for step in steps if "path" in step.get("with", {})]
    for path in [*job["artifacts"]["paths"], *"".join(uploaded).splitlines()]:
        assert path.rsplit("/", 1)[-1].startswith(("results", "report", "junit"))


def test_the_kits_command_lines_are_understood() -> None:
    (hook,) = yaml.safe_load(HOOKS)
    understood(shlex.join([*hook["entry"].split(), *hook["args"]]))
    understood('audit gate "$RUN" --format junit,sarif --policy p --baseline b --strict')
    for line in yaml.safe_load(GITLAB)[".audit-gate"]["script"]:
        if command := re.search(r"audit [a-z][^;]*", line):
            understood(re.sub(r"\$GATE_FLAGS|\$\{[^}]*\}", "", command[0]))


TABLE = re.findall(
    r"^\| ([\d,]+) of ([\d,]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|", DOC, re.M
)


def test_the_table_of_power_is_computed() -> None:
    assert len(TABLE) == 4
    for row in TABLE:
        k, n, *shown = (float(cell.replace(",", "")) for cell in row)
        metric = make.rate(int(k), int(n))
        least = [increase_test.detectable(metric, metric, 0.05 / many, 0.0) for many in (1, 6, 20)]
        assert shown == pytest.approx([100 * (rate or 0) for rate in least], abs=0.051)
