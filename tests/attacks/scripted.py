"""Releases that say what they are told, or that published it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.contract.toys import CharacterTokenizer
from audit.core.predictor import Access, Answer


@dataclass
class Scripted:
    """Says what it is told, whatever it is asked: says(prompt, generation number) -> text.

    budget: queries before it raises; None: no end. stops: tokens it answers before STOP.
    """

    says: Callable[[str, int], str]
    budget: int | None = None
    stops: float = float("inf")
    asked: list[str] = field(default_factory=list)
    lengths: set[int] = field(default_factory=set)
    scored: list[tuple[str, str]] = field(default_factory=list)
    queries: int = 0
    tokenizer: Any = field(default_factory=CharacterTokenizer)
    access: Access = Access.DISTRIBUTION
    readable: Access = Access.DISTRIBUTION
    max_length: int = 64

    @property
    def remaining(self) -> int | None:
        return None if self.budget is None else self.budget - self.queries

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        answers = []
        for prompt in prompts:
            assert prompt[0] == self.tokenizer.start
            text = self.tokenizer.decode(prompt[1:])
            tokens = self.tokenizer.encode(self.says(text, len(self.asked)))
            self.asked.append(text)
            self.lengths.add(length)
            answers.append(self._answer(tokens, length))
        return answers

    def score(
        self,
        prefixes: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        moments: bool = False,
    ) -> list[Answer]:
        for head, tail in zip(prefixes, continuations, strict=True):
            decode = self.tokenizer.decode
            self.scored.append((decode(head[1:]), decode(tail)))
        return [self._answer(tail, len(tail)) for tail in continuations]

    def distribution(
        self, contexts: Sequence[Sequence[int]], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        even = np.full((len(contexts), len(choices)), -np.log(len(choices)))
        return even, self._asked(len(contexts))

    def _asked(self, length: int) -> int:
        answered = int(min(max(self.stops - self.queries, 0), length))
        self.queries += length
        assert self.budget is None or self.queries <= self.budget, "asked beyond its budget"
        return answered

    def _answer(self, tokens: Sequence[int], length: int) -> Answer:
        answered = self._asked(length)
        probs = np.full(len(tokens), -1.0)
        return Answer(tuple(tokens), probs, np.ones(len(tokens), dtype=bool), answered)


def says(*texts: str, **how: Any) -> Scripted:
    """A release that says these texts, in turn and over again."""
    return Scripted(lambda prompt, i: texts[i % len(texts)], **how)


@dataclass(frozen=True)
class Published:
    """A session whose model stands for published texts; nothing may be asked of it."""

    texts: tuple[str, ...]
    tokenizer: CharacterTokenizer = field(default_factory=CharacterTokenizer)
    access = readable = 3
    max_length = 64
    remaining = None
