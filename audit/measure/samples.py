"""Counts what a release is asked under attack, and writes its generations down, masked."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from audit.core.files import read_lines
from audit.core.law import Law, Lawful
from audit.core.ledger import LETTERS
from audit.core.predictor import Access, Answer, Predictor, Published, Tokenizer, Tokens
from audit.core.secret import Planted
from audit.core.writing import append_lines, write_atomically
from audit.results.folder import RunFolder


@dataclass
class Counted:
    """A Predictor that counts queries, and notes which go beyond the release.

    read: whether probabilities were read from a release that gives samples only.
    generated_after_reading: whether samples were drawn after that, and so may rest on it.
    """

    inner: Predictor
    queries: int = 0
    answered: int = 0
    read: bool = False
    generated_after_reading: bool = False
    tokenizer: Tokenizer = field(init=False)
    access: Access = field(init=False)
    readable: Access = field(init=False)
    max_length: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer = self.inner.tokenizer
        self.access = self.inner.access
        self.readable = self.inner.readable
        self.max_length = self.inner.max_length

    @property
    def remaining(self) -> int | None:
        return self.inner.remaining

    @property
    def texts(self) -> tuple[str, ...]:
        return self.inner.texts if isinstance(self.inner, Published) else ()

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """Generate; probabilities are withheld where a release gives samples only."""
        if self.read:
            self.generated_after_reading = True
        answers = self._counted(self.inner.generate(prompts, length))
        return answers if self.access >= Access.SCORE else [_blank(a) for a in answers]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        self.read = self.read or self.access < Access.SCORE
        return self._counted(self.inner.score(prefixes, continuations, moments))

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        self.read = self.read or self.access < Access.DISTRIBUTION
        log_probs, answered = self.inner.distribution(contexts, choices)
        self.queries += len(contexts)
        self.answered += answered
        return log_probs, answered

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        """Read the law of each answer, which only the auditor can."""
        assert isinstance(self.inner, Lawful)
        self.read = self.read or self.access < Access.DISTRIBUTION
        law = self.inner.laws(prefixes, continuations)
        self.queries += sum(map(len, continuations))
        self.answered += len(law.log_pmfs)
        return law

    def _counted(self, answers: list[Answer]) -> list[Answer]:
        self.queries += sum(len(answer.tokens) for answer in answers)
        self.answered += sum(answer.answered for answer in answers)
        return answers


def _blank(answer: Answer) -> Answer:
    nothing = np.full(len(answer.tokens), np.nan)
    return replace(answer, log_probs=nothing, top1=np.zeros(len(answer.tokens), dtype=bool))


def write(folder: RunFolder, session: str, texts: Sequence[str], reveal: bool) -> None:
    """Append the generations of a session to samples.jsonl, once, masked unless `reveal`."""
    path = folder.path / "samples.jsonl"
    there = sum(row.get("session") == session for row in read_lines(path))
    key = folder.key
    rows = [
        {"session": session, "generation": i, **({"text": text} if reveal else masked(text, key))}
        for i, text in enumerate(texts)
    ]
    append_lines(path, rows[there:])


def masked(text: str, key: bytes) -> dict[str, str | int]:
    """Mask a text as its length and keyed hash, in letters so that it holds no digits."""
    digest = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:16]
    return {"length": len(text), "hash": digest.translate(LETTERS)}


def reveal(folder: Path, planted: Planted) -> None:
    """Write secrets.jsonl, every candidate in the clear, readable by its owner only."""
    rows = [
        {"value": s.value, "kind": s.kind, "planted": planted.coins.planted(s)}
        for s in planted.secrets
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_atomically(folder / "secrets.jsonl", text, private=True)
