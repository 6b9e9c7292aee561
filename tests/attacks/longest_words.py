"""A tokenizer of whole words, for tests of merges and prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LongestWords:
    """Takes the longest word that a text begins with; token 0 opens and closes."""

    words: tuple[str, ...]
    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        tokens = []
        while text:
            word = max((w for w in self.words if text.startswith(w)), key=len)
            tokens.append(self.words.index(word))
            text = text[len(word) :]
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.words[token] for token in tokens)
