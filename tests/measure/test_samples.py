"""What is written about generations: counted, masked, and readable by whom it should be."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.files import read_lines
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Answer
from audit.core.secret import Coins, Planted, Secret, digits
from audit.measure import samples
from audit.measure.samples import Counted, masked
from audit.results.folder import RunFolder

TEXTS = ["40718", "I am 40718, and you?", "<b>7</b>", "", "40718"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run", "hash")
    with made.held({}):
        pass
    return made


def written(folder: RunFolder) -> list[dict[str, Any]]:
    return read_lines(folder.path / "samples.jsonl")


def test_masked_rows_hold_neither_the_text_nor_a_digit_of_it(folder: RunFolder) -> None:
    samples.write(folder, "submix/extraction", TEXTS, reveal=False)
    rows = written(folder)
    assert [row["generation"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["length"] for row in rows] == [5, 20, 8, 0, 5]
    assert all(set(row) == {"session", "generation", "length", "hash"} for row in rows)
    assert all(row["hash"].isalpha() and len(row["hash"]) == 16 for row in rows)
    raw = (folder.path / "samples.jsonl").read_text("utf-8")
    assert "40718" not in raw and "<b>" not in raw and "I am" not in raw


def test_equal_texts_have_equal_hashes_in_one_folder_only(
    folder: RunFolder, tmp_path: Path
) -> None:
    samples.write(folder, "a", TEXTS, reveal=False)
    hashes = [row["hash"] for row in written(folder)]
    assert hashes[0] == hashes[4] and len(set(hashes)) == 4
    other = RunFolder(tmp_path / "other", "hash")
    with other.held({}):
        samples.write(other, "a", TEXTS, reveal=False)
    assert not {row["hash"] for row in written(other)} & set(hashes)


def test_the_key_of_the_masks_is_random_kept_and_the_owners_alone(folder: RunFolder) -> None:
    samples.write(folder, "a", TEXTS, reveal=False)
    key = folder.stages / "mask.key"
    before = key.read_bytes()
    assert len(before) >= 32 and os.stat(key).st_mode & 0o077 == 0
    samples.write(folder, "b", TEXTS, reveal=False)
    assert key.read_bytes() == before


def test_a_process_killed_between_making_the_key_file_and_filling_it_leaves_no_empty_key(
    folder: RunFolder,
) -> None:
    """Under an empty key all hundred thousand codes are hashed in a second."""
    (folder.stages / "mask.key").touch()
    try:
        samples.write(folder, "a", ["40718"], reveal=False)
    except UsageError:
        return
    assert written(folder)[0]["hash"] != masked("40718", b"")["hash"]


def test_revealed_rows_hold_the_text(folder: RunFolder) -> None:
    samples.write(folder, "a", TEXTS, reveal=True)
    assert [row["text"] for row in written(folder)] == TEXTS


def test_a_session_written_in_part_is_completed_and_never_doubled(folder: RunFolder) -> None:
    samples.write(folder, "a", TEXTS, reveal=False)
    whole = (folder.path / "samples.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (folder.path / "samples.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:9])
    samples.write(folder, "a", TEXTS, reveal=False)
    assert (folder.path / "samples.jsonl").read_bytes() == whole
    samples.write(folder, "a", TEXTS, reveal=False)
    assert (folder.path / "samples.jsonl").read_bytes() == whole
    samples.write(folder, "b", TEXTS[:1], reveal=False)
    assert [row["session"] for row in written(folder)] == ["a"] * 5 + ["b"]


def planted() -> Planted:
    pairs = [("ann", "40718", 0), ("ann", "11111", 1), ("ben", "22222", 0), ("ben", "33333", 1)]
    secrets = tuple(
        Secret("code", "#", value, ".", digits(5), 4, owner, slot) for owner, value, slot in pairs
    )
    coins = Coins({"ann": True, "ben": False}, {"ann": 0, "ben": 1})
    return Planted(Corpus("toy", ()), secrets, coins)


def test_the_revealed_secrets_are_one_a_line_with_their_coins(folder: RunFolder) -> None:
    samples.reveal(folder.path, planted())
    rows = [
        json.loads(line) for line in (folder.path / "secrets.jsonl").read_text("utf-8").splitlines()
    ]
    assert rows == [
        {"value": "40718", "kind": "code", "planted": True},
        {"value": "11111", "kind": "code", "planted": False},
        {"value": "22222", "kind": "code", "planted": False},
        {"value": "33333", "kind": "code", "planted": False},
    ]


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_the_revealed_secrets_are_never_readable_by_others(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """Not at the end, and not while they are being written either."""
    modes: list[int] = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    before = os.umask(umask)
    try:
        samples.reveal(folder.path, planted())
        samples.reveal(folder.path, planted())
    finally:
        os.umask(before)
    assert os.stat(folder.path / "secrets.jsonl").st_mode & 0o777 == 0o600
    assert modes == [0o600, 0o600]


# --- Counted


class Stopped:
    """Answers three tokens of every query list and then no more."""

    tokenizer: Any = object()
    access = Access.SCORE
    readable = Access.DISTRIBUTION
    max_length = 17
    remaining = 5
    moments = False

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        return [self._answer(range(length)) for _ in prompts]

    def score(
        self,
        prefixes: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        moments: bool = False,
    ) -> list[Answer]:
        self.moments = moments
        return [self._answer(tail) for tail in continuations]

    def distribution(
        self, contexts: Sequence[Sequence[int]], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        return np.full((len(contexts), len(choices)), -2.5), min(3, len(contexts))

    def _answer(self, tokens: Sequence[int]) -> Answer:
        empty = np.zeros(len(tokens))
        return Answer(tuple(tokens), empty, empty.astype(bool), min(3, len(tokens)))


def test_every_token_asked_and_answered_is_counted() -> None:
    inner = Stopped()
    counted = Counted(inner)
    generated = counted.generate([[0], [0], [0]], 5)
    assert (counted.queries, counted.answered) == (15, 9)
    counted.score([[0], [0]], [[1, 2], [1, 2, 3, 4]])
    assert (counted.queries, counted.answered) == (15 + 6, 9 + 5)
    log_probs, answered = counted.distribution([[0]] * 4, [7, 8])  # a query a context
    assert (counted.queries, counted.answered) == (15 + 6 + 4, 9 + 5 + 3)
    assert (answered, log_probs.tolist()) == (3, [[-2.5, -2.5]] * 4)
    assert [answer.tokens for answer in generated] == [tuple(range(5))] * 3
    assert (counted.remaining, counted.max_length) == (5, 17)
    assert counted.access is Access.SCORE and counted.tokenizer is inner.tokenizer
    assert counted.readable is Access.DISTRIBUTION


def test_moments_are_asked_for_where_they_are_wanted() -> None:
    inner = Stopped()
    for wanted in (True, False):
        Counted(inner).score([[0]], [[1]], moments=wanted)
        assert inner.moments is wanted


def test_counting_changes_no_answer(bigram: Any) -> None:
    plain = OpenSession(bigram(1), np.random.default_rng(0)).generate([[0]] * 4, 5)
    counted = Counted(OpenSession(bigram(1), np.random.default_rng(0))).generate([[0]] * 4, 5)
    assert [a.tokens for a in plain] == [a.tokens for a in counted]


def generating(bigram: Any) -> Counted:
    """A session with a release that gives samples only."""
    session = OpenSession(bigram(1), np.random.default_rng(0), access=Access.GENERATE)
    return Counted(session)


def test_a_release_of_samples_gives_no_probability_away_with_them(bigram: Any) -> None:
    counted = generating(bigram)
    answers = counted.generate([[0]] * 4, 5)
    plain = OpenSession(bigram(1), np.random.default_rng(0)).generate([[0]] * 4, 5)
    assert [a.tokens for a in answers] == [a.tokens for a in plain]
    assert all(np.isnan(a.log_probs).all() and len(a.log_probs) == 5 for a in answers)
    assert not any(a.top1.any() for a in answers)
    assert (counted.read, counted.generated_after_reading) == (False, False)


def test_samples_drawn_after_reading_probabilities_are_noted(bigram: Any) -> None:
    counted = generating(bigram)
    counted.generate([[0]], 2)
    scored = counted.score([[0]], [[1, 2]])
    assert np.isfinite(scored[0].log_probs).all()  # the evaluator may read them
    assert (counted.read, counted.generated_after_reading) == (True, False)
    counted.generate([[0]], 2)
    assert counted.generated_after_reading


def test_where_probabilities_are_released_reading_them_is_nothing_special(bigram: Any) -> None:
    session = OpenSession(bigram(1), np.random.default_rng(0), access=Access.SCORE)
    counted = Counted(session)
    counted.score([[0]], [[1, 2]])
    counted.generate([[0]], 2)
    assert (counted.read, counted.generated_after_reading) == (False, False)


@pytest.mark.parametrize("access", list(Access))
def test_whatever_is_asked_beyond_the_release_is_noted(bigram: Any, access: Access) -> None:
    """Scores go beyond samples, whole distributions beyond scores."""
    for needed in (Access.SCORE, Access.DISTRIBUTION):
        counted = Counted(OpenSession(bigram(1), np.random.default_rng(0), access=access))
        if needed is Access.SCORE:
            counted.score([[0]], [[1, 2]])
        else:
            counted.distribution([[0]], [1, 2])
        assert counted.read == (access < needed)
        counted.generate([[0]], 2)
        assert counted.generated_after_reading == (access < needed)
