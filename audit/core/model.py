"""Descriptions of public models, which do not load them, and their tokenizers."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from audit.core.predictor import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel as PreTrainedModel
else:  # importing it takes two seconds, and a dry run loads no model
    PreTrainedModel = object

_REMEMBERED = 32_768  # texts whose tokens are kept


@dataclass(frozen=True)
class ModelFolder:
    """Describes a model without loading it.

    path: folder with its weights and tokenizer; of an LSTM with its tokenizer only.
    sha256: hash of weights and tokenizer.
    kind: "transformer", or "lstm", whose weights are drawn from a seed.
    blocks: number of transformer blocks; 0 for an LSTM.
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


def _is_plain(inner: PreTrainedTokenizerBase) -> bool:
    """Tells whether the fast tokenizer behind it neither cuts nor pads by itself."""
    if not inner.is_fast:
        return False
    fast = inner.backend_tokenizer
    return fast.truncation is None and fast.padding is None


@lru_cache(maxsize=_REMEMBERED)
def _read(inner: PreTrainedTokenizerBase, text: str) -> tuple[array[int], array[int]]:
    """Reads (token ids, ends) at once: every record is asked for several times."""
    read = inner.backend_tokenizer.encode(text, add_special_tokens=False)
    ends = accumulate((end for _, end in read.offsets), max)
    return array("i", read.ids), array("i", ends)


@dataclass(frozen=True)
class TextTokenizer:
    """Wraps a Hugging Face tokenizer as a MarkingTokenizer and a ListingTokenizer."""

    inner: PreTrainedTokenizerBase
    start: int
    stop: int

    def encode(self, text: str) -> list[int]:
        if _is_plain(self.inner):
            return list(_read(self.inner, text)[0])
        return list(self.inner.encode(text, add_special_tokens=False))

    def ends(self, text: str) -> list[int]:
        """Gives the number of characters up to the end of each token of `encode(text)`."""
        if _is_plain(self.inner):
            return list(_read(self.inner, text)[1])
        if self.inner.is_fast:
            read = self.inner(text, add_special_tokens=False, return_offsets_mapping=True)
            return list(accumulate((end for _, end in read["offset_mapping"]), max))
        tokens = self.encode(text)
        lengths = [len(self.decode(tokens[: i + 1])) for i in range(len(tokens))]
        return list(accumulate((min(n, len(text)) for n in lengths), max))

    def decode(self, tokens: Tokens) -> str:
        return str(self.inner.decode(list(tokens), clean_up_tokenization_spaces=False))

    def vocabulary(self) -> Collection[str]:
        """Lists every word that can be a token, as the vocabulary writes it."""
        return self.inner.get_vocab().keys()
