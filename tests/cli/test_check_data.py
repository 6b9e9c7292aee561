"""`audit check-data` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audit import api
from tests.command_line import audit
from tests.confounding.people import people


def write(path: Path, seed: int, since: float = 1980.0, count: int = 15) -> Path:
    rows = [
        {"text": text, "user": f"{path.stem} {number}"}
        for number, texts in enumerate(people(count, np.random.default_rng(seed), since))
        for text in texts
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("in", "out", "more")):
        write(tmp_path / f"{name}.jsonl", number)
    write(tmp_path / "late.jsonl", 5, since=1999.0)
    return tmp_path


def test_sides_that_are_alike_exit_with_0(folder: Path) -> None:
    done = audit("check-data", "in.jsonl", "out.jsonl", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *checks, last = done.stdout.splitlines()
    assert first.startswith("in.jsonl: ") and "999 permutations of users" in first
    assert [line.split()[1] for line in checks] == [
        "length", "vocabulary", "script", "dates", "classifier",
    ]  # fmt: skip
    assert "not proof" in last


def test_split_by_date_exits_with_1_and_is_named(folder: Path) -> None:
    done = audit("check-data", "in.jsonl", "late.jsonl", "--permutations", 199, cwd=folder)
    assert done.returncode == 1, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("FAIL  dates"))
    assert "p = 0.005" in row and "most: dates up to 199" in row
    verdict = done.stdout.splitlines()[-1]
    assert " dates: membership" in verdict and verdict.endswith("inconclusive: confounded.")


def test_no_private_word_is_printed(folder: Path) -> None:
    done = audit("check-data", "in.jsonl", "late.jsonl", cwd=folder)
    texts = " ".join((folder / f"{name}.jsonl").read_text() for name in ("in", "late"))
    words = {word for word in texts.split() if len(word) == 4 and word.isalpha()}
    assert len(words) > 20 and not words & set(done.stdout.split()) - {"most", "text", "user"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument"),
        (("in.jsonl",), "give one of the two"),
        (("in.jsonl", "out.jsonl", "--secrets", "m.json"), "give one of the two"),
        (("in.jsonl", "out.jsonl", "--kind", "own"), "add --secrets MANIFEST"),
        (("in.jsonl", "--secrets", "m.json"), "m.json: cannot be read"),
        (("in.jsonl", "--secrets", "in.jsonl"), "is not a manifest"),
        (("in.jsonl", "in.jsonl"), "user 'in 0' has texts in in.jsonl, too, as have 15 in all"),
        (("in.jsonl", "empty.jsonl"), "the corpus is empty"),
        (("in.jsonl", "one.jsonl"), "15 users and 1 user are too few"),
        (("same.jsonl", "same.jsonl"), "all users are alike"),
        (("in.jsonl", "nowhere.jsonl"), "no such file"),
        (("in.jsonl", "out.jsonl", "--text", "body"), "no column 'body'"),
        (("in.jsonl", "out.jsonl", "--permutations", "9"), "at least 199"),
        (("in.jsonl", "tokens.jsonl"), "has no 'text'"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    words: tuple[str, ...], said: str, folder: Path
) -> None:
    (folder / "empty.jsonl").write_text("")
    (folder / "one.jsonl").write_text('{"text": "alone"}\n')
    (folder / "same.jsonl").write_text('{"text": "same"}\n' * 9)
    (folder / "tokens.jsonl").write_text('{"input_ids": [1, 2]}\n')
    done = audit("check-data", *words, cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_neither_form_imports_torch(folder: Path) -> None:
    manifest, planted = folder / "m.json", folder / "planted.jsonl"
    api.plant(str(folder / "in.jsonl"), planted, manifest, kind=("code",), count=20, share=0.9)
    code = (
        "import sys\nfrom audit.cli.app import main\n"
        "for words in (['in.jsonl', 'out.jsonl'], ['planted.jsonl', '--secrets', 'm.json']):\n"
        "    sys.argv = ['audit', 'check-data', *words]\n"
        "    try: main()\n"
        "    except SystemExit as left: print('LEFT', left.code)\n"
        "print('HEAVY', *sorted(sys.modules.keys() & {'torch', 'transformers', 'matplotlib'}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=folder, check=True
    )
    told = [line for line in ran.stdout.splitlines() if line.startswith(("LEFT", "HEAVY"))]
    assert told[0] == "LEFT 0" and told[1] in ("LEFT 0", "LEFT 1") and told[2] == "HEAVY", ran
