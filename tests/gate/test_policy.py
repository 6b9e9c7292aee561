"""audit.toml: what is read, and what is refused with its line."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from audit.core.errors import UsageError
from audit.gate import policy
from tests.refusals import refusals

WHOLE = """\
confidence = 0.9
leaks = true
empirical = false

[regression]
level = 0.01
min_delta = 0.02
metrics = ["extraction.*", "membership.record_loss_auc"]

[[limit]]
defense = "submix"
metric = "hit_rate"
max = 0.01

[[limit]]          # whole numbers are numbers, too
max = 1

[[claim]]
max_epsilon = 8
unit = "user"
relation = "add_or_remove"
max_delta = 1e-5
noise = "system"
max_total = 16

[[utility]]
max_ratio = 1.5

[[waiver]]
check = "leak/submix/*"
expires = 2030-12-31
reason = "known"
"""


def read(tmp_path: Path, text: str) -> policy.Policy:
    path = tmp_path / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return policy.load(path)


def test_everything_is_read_with_its_line(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert (found.confidence, found.leaks, found.empirical) == (0.9, True, False)
    assert found.regression is not None
    assert found.regression.metrics == ("extraction.*", "membership.record_loss_auc")
    assert found.regression.gates("extraction.recall")
    assert not found.regression.gates("membership.span_loss_auc")
    assert [(limit.max, limit.metric, limit.line) for limit in found.limit] == [
        (0.01, "hit_rate", 10),
        (1.0, "*", 15),
    ]
    assert (found.claim[0].max_epsilon, found.claim[0].line) == (8.0, 18)
    assert (found.claim[0].noise, found.claim[0].max_total) == ("system", 16.0)
    assert (found.utility[0].of, found.waiver[0].expires) == ("public", datetime.date(2030, 12, 31))


@pytest.mark.parametrize("text", ["[regression]", "regression = {}", "regression.level = 0.05"])
def test_a_policy_that_names_regression_asks_for_a_baseline(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).regression is not None
    assert read(tmp_path, "leaks = true").regression is None


def test_an_empty_policy_is_the_default_one(tmp_path: Path) -> None:
    assert read(tmp_path, "") == policy.Policy(name=str(tmp_path / "audit.toml"))


BAD: list[tuple[str, str]] = [
    ("leeks = true", "audit.toml:1: unknown key 'leeks'; did you mean 'leaks'?"),
    ("\n[[limits]]\nmax = 1", "audit.toml:2: unknown key 'limits'; did you mean 'limit'?"),
    ("name = 'x'", "audit.toml:1: unknown key 'name'"),
    ("line = 3", "audit.toml:1: unknown key 'line'"),
    ("[[limit]]\nmax = 1\n[[limit]]\nmaxx = 2", "audit.toml:4: unknown key 'maxx'; did you"),
    ("[[limit]]\nmax = 1\nline = 3", "audit.toml:3: unknown key 'line'"),
    ("[[limit]]\nmax = '1 %'", "audit.toml:2: max is '1 %'; expected a number"),
    ("[[limit]]\nmax = true", "audit.toml:2: max is 'True'; expected a number"),
    ("[[limit]]\nmax = nan", "audit.toml:2: max is nan"),
    ("[[limit]]\nmax = -1", "audit.toml:2: max must be 0 or more"),
    ("\n[[limit]]\nmetric = 'x'", "audit.toml:2: [[limit]] has no 'max'"),
    ("limit = 3", "audit.toml:1: write each limit as [[limit]]"),
    ("[limit]\nmax = 1", "audit.toml:1: write each limit as [[limit]]"),
    ("regression = 1", "audit.toml:1: regression must be a table"),
    ("[regression]\nmin_dleta = 1", "audit.toml:2: unknown key 'min_dleta'; did you mean"),
    ("[regression]\nmetrics = 'x'", "audit.toml:2: metrics is 'x'; expected a list"),
    ("[regression]\nmetrics = [1]", "audit.toml:2: metrics is '1'; expected a string"),
    ("[regression]\nlevel = 0", "audit.toml:2: level must be above 0"),
    ("confidence = 1", "audit.toml:1: confidence must be"),
    ("leaks = 'yes'", "audit.toml:1: leaks is 'yes'; expected true or false"),
    ("confidence = 0.9\nleaks = false", "audit.toml:2: leaks cannot be switched off; name one"),
    (
        "[[claim]]\nmax_epsilon = 2\nunit = 'user'\nrelation = 'replace'\nnoise = 'sytem'",
        "audit.toml:5: noise is one of seed, system",
    ),
    (
        "[[claim]]\nmax_epsilon = 2\nunit = 'user'\nrelation = 'replace'\nmax_total = -1",
        "audit.toml:5: max_total must be 0 or more",
    ),
    (
        "[[claim]]\nmax_epsilon = 2\nunit = 'user'\nrelation = 'replace'\nmax_total = nan",
        "audit.toml:5: max_total is nan",
    ),
    ("[[claim]]\nmax_epsilon = 2\nunit = 'user'", "audit.toml:1: [[claim]] has no 'relation'"),
    ("[[utility]]\nof = 'none'", "audit.toml:1: give one of max_ratio and min_ratio"),
    ("[[utility]]\nmax_ratio = 0", "audit.toml:1: a ratio must be above 0"),
    (
        "[[waiver]]\ncheck = '*'\nexpires = '2030-01-01'\nreason = 'x'",
        "audit.toml:3: expires is '2030-01-01'; expected a day, such as 2030-12-31",
    ),
    (
        "[[waiver]]\ncheck = '*'\nexpires = 2030-01-01T00:00:00\nreason = 'x'",
        "audit.toml:3: expires is '2030-01-01 00:00:00'; expected a day",
    ),
    (
        "[[waiver]]\ncheck = '*'\nexpires = 2030-01-01\nreason = ' '",
        "audit.toml:4: a waiver needs a reason",
    ),
    *(
        (
            f"[[waiver]]\ncheck = '*'\nexpires = 2030-01-01\nreason = '{blank}'",
            "audit.toml:4: a waiver needs a reason",
        )
        for blank in ("\u200b", "\u00a0\u2060", "\u3164", "\u2800")
    ),
    ("[[limit]]\nmax = inf", "audit.toml:2: max must be 0 or more, and finite"),
    ("[[utility]]\nmax_ratio = inf", "audit.toml:1: a ratio must be above 0, and finite"),
    ("[regression]\nmin_delta = inf", "audit.toml:2: min_delta must be 0 or more, and fin"),
    (
        "[[claim]]\nmax_epsilon = inf\nunit = 'user'\nrelation = 'replace'",
        "audit.toml:2: max_epsilon must be 0 or more, and finite",
    ),
    ("[[waiver]]\ncheck = '*'\nexpires = 2030-01-01", "audit.toml:1: [[waiver]] has no"),
    ("x =", "cannot be read as TOML"),
]


def test_a_bad_policy_is_refused_with_its_line(tmp_path: Path) -> None:
    refusals(lambda text: read(tmp_path, text), BAD)


def test_no_policy_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such policy"):
        policy.load(tmp_path / "x.toml")
    (tmp_path / "audit.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read as TOML"):
        policy.load(tmp_path / "audit.toml")
