"""A run with words of one's own around the planted values, from the command line to the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

PLAN = """
attack = ["extraction:generations=40,searched=0,suffix=0"]
[planting]
users = 6
kinds = ["code"]
code_copies = 8
[training]
epochs = 30
learning_rate = 3e-3
batch_tokens = 512
"""
RUN = ("run", "--defense", "none", "--no-references", "--workers", "1", "--format", "json")
WORDS = "code=My access number is {value}, thanks."


@pytest.fixture
def run(tmp_path: Path) -> tuple[str | Path, ...]:
    """The words of a run on six users, short enough that the model memorises it in seconds."""
    texts = [{"user": f"u{i}", "text": f"Good day {i}.", "split": "private"} for i in range(6)]
    texts += [{"user": "h", "text": "Good morning.", "split": "heldout"}]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    (tmp_path / "plan.toml").write_text(PLAN)
    return (*RUN, "--corpus", tmp_path / "own.jsonl", "--plan", tmp_path / "plan.toml")


@pytest.mark.slow
def test_own_words_are_planted_and_asked_from(
    run: tuple[str | Path, ...], tmp_path: Path, audit: Callable[..., tuple[int, str, str]]
) -> None:
    out = tmp_path / "out"
    code, _, told = audit(*run, "--template", WORDS, "--output", out)
    assert code == 0, told
    results = json.loads((out / "results.json").read_text("utf-8"))
    planting = results["plan"]["planting"]
    assert planting["code_prefix"] == "My access number is "
    assert planting["code_suffix"] == ", thanks."
    rate = next(f for f in results["releases"][0]["findings"] if f["metric"] == "hit_rate")
    assert rate["value"] > 0.5  # the attack asks with the words that were trained on


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("code", "--template 'code': give KIND=TEXT"),
        ("pin=A {value}", "KIND is code, id, name"),
        ("code=A", "planting: code_template is 'A': it holds {value} nowhere"),
        ("code=A" + " very" * 30 + " {value}", "tokens, but training cuts at 24; shorten"),
    ],
)
def test_words_that_do_not_work_are_refused_in_one_line(
    run: tuple[str | Path, ...],
    tmp_path: Path,
    refused: Callable[..., str],
    words: str,
    told: str,
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + "max_length = 24\n")
    assert told in refused(*run, "--template", words, "--dry-run")
