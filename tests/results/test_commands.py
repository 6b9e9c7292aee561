"""A command that a file states is shown where it runs audit, and nothing else."""

from __future__ import annotations

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
        "audit run 'x",
        "",
    ],
)
def test_command_of_a_stranger_is_not_shown(stated: str) -> None:
    assert own(stated) == ""
    page = Report(ordinary().model_copy(update={"reproduce": stated})).page
    assert page.command == "" and "touch" not in str(page) and "curl" not in str(page)
