"""A public model, described without loading it, and the tokenizer beside its weights."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from audit.core.predictor import Tokens


@dataclass(frozen=True)
class ModelFolder:
    """A model described without loading it. `sha256` is of its weights and tokenizer.

    kind: "transformer", whose weights lie in `path`, or "lstm", whose weights are drawn from a
        seed and of which only the tokenizer lies there. blocks: a transformer's layers.
    """

    name: str
    path: Path
    sha256: str
    parameters: int
    vocabulary: int
    max_length: int
    embedded: bool = False
    kind: str = "transformer"
    blocks: int = 0


@dataclass(frozen=True)
class TextTokenizer:
    """A Hugging Face tokenizer as the project's Tokenizer."""

    inner: PreTrainedTokenizerBase
    start: int
    stop: int

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=False))

    def ends(self, text: str) -> list[int]:
        """Characters of the text up to and with each token of `encode(text)`."""
        if self.inner.is_fast:
            read = self.inner(text, add_special_tokens=False, return_offsets_mapping=True)
            return list(accumulate((end for _, end in read["offset_mapping"]), max))
        tokens = self.encode(text)
        lengths = [len(self.decode(tokens[: i + 1])) for i in range(len(tokens))]
        return list(accumulate((min(n, len(text)) for n in lengths), max))

    def decode(self, tokens: Tokens) -> str:
        return str(self.inner.decode(list(tokens), clean_up_tokenization_spaces=False))
