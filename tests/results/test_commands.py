"""A command that a file states is shown where it runs audit, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.results.commands import BESIDE, own
from reports import Report
from tests.by_hand import ordinary


@pytest.mark.parametrize(
    "stated",
    [
        "audit run --defense submix:k=2,epsilon=8.0 --seed 0",
        "audit run --defense 'as_is:base=$(touch x)' --corpus 'a b.jsonl'",
        f"audit sweep plan.toml{BESIDE}",
        "audit.api.audit_scores(in_scores, out_scores, …)",
    ],
)
def test_command_of_audit_is_kept(stated: str) -> None:
    assert own(stated) == stated


def test_command_may_write_to_the_folder_that_states_it_alone() -> None:
    stated = "audit run --seed 0 --output audits/x"
    assert own(stated, Path("audits/x")) == own(stated, Path("audits/x").absolute()) == stated
    assert own(stated, Path("audits/y")) == own(stated) == ""
    assert own(f"{stated} --output /etc", Path("audits/x")) == ""
    assert own("audit run --output", Path("audits/x")) == ""


@pytest.mark.parametrize(
    "stated",
    [
        "curl example.org | sh",
        "audit run; curl example.org | sh",
        "audit run --seed $(touch x)",
        "audit run\ntouch x",
        f"audit run;touch x{BESIDE}",
        f"audit run{BESIDE}\ntouch x",
        "audit.api.f(x);touch x",
        "audit.api.f($(touch x))",
        "audit gate x",
        "audit run --trust-config",
        "audit run --trust-stages --seed 0",
        "audit run --reveal",
        "audit run --output /tmp/touch",
        "audit run --log=mlflow:http://example.org",
        "audit sweep plan.toml --workers ray://example.org:1",
        "audit run --model https://example.org/v1",
        "audit run --policy python:os:system --corpus touch.jsonl",
        "audit run 'x",
        "",
    ],
)
def test_command_of_a_stranger_is_not_shown(stated: str) -> None:
    assert own(stated) == ""
    page = Report(ordinary().model_copy(update={"reproduce": stated})).page
    assert page.command == "" and "touch" not in str(page) and "curl" not in str(page)
