"""The page about engines: its code runs, and its table is that of the planted faults."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.check import Adapter, Claim
from audit.check.catalogue import Check
from audit.check.checks import exact, noise, sampling
from audit.check.runs import Examiner, nearly_empty_run, quiet_run
from tests.check import toy_ftrl
from tests.check.toy import PLANTED

PAGE = (Path(__file__).parents[2] / "docs" / "examine-an-engine.md").read_text(encoding="utf-8")


def test_the_table_lists_the_planted_faults() -> None:
    table = PAGE.partition("## What it finds")[2].partition("\n## ")[0]
    banded = re.findall(r"^\| (F\d) \| ([^|]+) \| ([^|]+) \|", table, re.M)
    due = [(fault.number, fault.name, ", ".join(fault.found_by)) for fault in toy_ftrl.PLANTED]
    assert [tuple(map(str.strip, row)) for row in banded] == due
    rows = re.findall(r"^\| (\d+\w?) \| ([^|]+) \| ([^|]+) \|", table, re.M)
    due = [(fault.number, fault.name, ", ".join(fault.found_by)) for fault in PLANTED]
    assert [tuple(map(str.strip, row)) for row in rows] == due
    assert len({re.sub(r"\D", "", fault.number) for fault in PLANTED}) == 24


def test_it_says_what_each_failure_usually_means() -> None:
    table = PAGE.partition("## What a failure usually means")[2].partition("\n## ")[0]
    named = {*re.findall(r"K\d+′?", table), "K10"}  # K9 to K11
    assert {check.code for check in Check if check != Check.CLAIM} <= named


def test_its_adapter_is_a_whole_training(blocks: Callable[..., list[str]]) -> None:
    pytest.importorskip("opacus")
    code, _ = blocks("examine-an-engine", "python")
    body = code[code.index("def adapter") :]
    assert len(body.splitlines()) <= 20
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "adapter", "exec"), names)
        examiner = Examiner(Adapter(names["adapter"]), Claim(), 0, lambda _: None)
        quiet, few = quiet_run(examiner), nearly_empty_run(examiner, "few")
    outcomes = (
        exact.inclusion(quiet),
        exact.norms(Check.CLIPPING, quiet),
        sampling.rate(quiet, True),
        sampling.poisson(quiet, True),
        exact.releases((quiet, few)),
        noise.scale(few, Check.EMPTY),
    )
    assert not any(outcome.failed for outcome in outcomes)


@pytest.mark.slow
def test_its_other_code_runs(
    blocks: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, code = blocks("examine-an-engine", "python")
    exec(compile(code, "page", "exec"), {})
    assert "own: every check passed" in capsys.readouterr().out
