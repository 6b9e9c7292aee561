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


CLAIM = "[[claim]]\nmax_epsilon = 2\nunit = 'user'\nrelation = 'replace'\n"
WAIVER = "[[waiver]]\ncheck = '*'\n"
BLANKS = (" ", "\u200b", "\u00a0\u2060", "\u3164", "\u2800")
BAD: list[tuple[str, str]] = [  # the policy, and from which line on it is refused with which words
    ("leeks = true", "1: unknown key 'leeks'; did you mean 'leaks'?"),
    ("\n[[limits]]\nmax = 1", "2: unknown key 'limits'; did you mean 'limit'?"),
    ("name = 'x'", "1: unknown key 'name'"),
    ("line = 3", "1: unknown key 'line'"),
    ("[[limit]]\nmax = 1\n[[limit]]\nmaxx = 2", "4: unknown key 'maxx'; did you"),
    ("[[limit]]\nmax = 1\nline = 3", "3: unknown key 'line'"),
    ("[[limit]]\nmax = '1 %'", "2: max is '1 %'; expected a number"),
    ("[[limit]]\nmax = true", "2: max is 'True'; expected a number"),
    ("[[limit]]\nmax = nan", "2: max is nan"),
    ("[[limit]]\nmax = -1", "2: max must be 0 or more"),
    ("[[limit]]\nmax = inf", "2: max must be 0 or more, and finite"),
    ("\n[[limit]]\nmetric = 'x'", "2: [[limit]] has no 'max'"),
    ("limit = 3", "1: write each limit as [[limit]]"),
    ("[limit]\nmax = 1", "1: write each limit as [[limit]]"),
    ("regression = 1", "1: regression must be a table"),
    ("[regression]\nmin_dleta = 1", "2: unknown key 'min_dleta'; did you mean"),
    ("[regression]\nmetrics = 'x'", "2: metrics is 'x'; expected a list"),
    ("[regression]\nmetrics = [1]", "2: metrics is '1'; expected a string"),
    ("[regression]\nmetrics = []", "2: metrics is empty"),
    ("[regression]\nlevel = 0", "2: level must be above 0"),
    ("[regression]\nmin_delta = inf", "2: min_delta must be 0 or more, and fin"),
    ("confidence = 1", "1: confidence must be"),
    ("leaks = 'yes'", "1: leaks is 'yes'; expected true or false"),
    ("confidence = 0.9\nleaks = false", "2: leaks cannot be switched off; name one"),
    (f"{CLAIM}noise = 'sytem'", "5: noise is one of seed, system"),
    (f"{CLAIM}max_total = -1", "5: max_total must be 0 or more"),
    (f"{CLAIM}max_total = nan", "5: max_total is nan"),
    (CLAIM.replace("2", "inf"), "2: max_epsilon must be 0 or more, and finite"),
    (CLAIM.replace("relation = 'replace'", ""), "1: [[claim]] has no 'relation'"),
    ("[[utility]]\nof = 'none'", "1: give one of max_ratio and min_ratio"),
    ("[[utility]]\nmax_ratio = 0", "1: a ratio must be above 0"),
    ("[[utility]]\nmax_ratio = inf", "1: a ratio must be above 0, and finite"),
    (f"{WAIVER}expires = '2030-01-01'\nreason = 'x'",
     "3: expires is '2030-01-01'; expected a day, such as 2030-12-31"),
    (f"{WAIVER}expires = 2030-01-01T00:00:00\nreason = 'x'",
     "3: expires is '2030-01-01 00:00:00'; expected a day"),
    *((f"{WAIVER}expires = 2030-01-01\nreason = '{blank}'", "4: a waiver needs a reason")
      for blank in BLANKS),
    (f"{WAIVER}expires = 2030-01-01", "1: [[waiver]] has no"),
    ("x =", " cannot be read as TOML"),
]  # fmt: skip


def test_bad_policy_is_refused_with_its_line(tmp_path: Path) -> None:
    refusals(
        lambda text: read(tmp_path, text), [(text, f"audit.toml:{said}") for text, said in BAD]
    )


def test_no_policy_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such policy"):
        policy.load(tmp_path / "x.toml")
    (tmp_path / "audit.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read as TOML"):
        policy.load(tmp_path / "audit.toml")
