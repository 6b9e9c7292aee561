"""Descriptions of public models, which do not load them, and their tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from transformers import PreTrainedTokenizerBase

from audit.core.lora import Lora
from audit.core.predictor import Tokens
from audit.core.time_limit import in_time
from audit.core.tokenizer_process import Reading, process_of, readings, time_for, written

if TYPE_CHECKING:
    from transformers import PreTrainedModel as PreTrainedModel
else:  # importing it takes two seconds, and a dry run loads no model
    PreTrainedModel = object

_REMEMBERED = 1 << 24  # tokens that are kept, at 8 bytes each
_TOGETHER = 1024  # texts that are read together
_MOST_LENGTHS = 1 << 22
T = TypeVar("T")


@dataclass(frozen=True)
class ModelFolder:
    """Describes a model without loading it.

    path: folder with its weights and tokenizer; of an LSTM with its tokenizer only.
    sha256: hash of weights and tokenizer.
    kind: "transformer", or "lstm", whose weights are drawn from a seed.
    blocks: number of transformer blocks; 0 for an LSTM.
    lora: adapters that are trained in place of its weights; None: the weights are trained.
    max_length: tokens that are read at once here. context: tokens that the model was made for,
        which may be more; 0: no more than max_length.
    chat: whether its texts are conversations, of which stop may close every turn.
    precision: in which its weights were stored before they were unpacked, as "Q4_K"; "": as here.
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
    lora: Lora | None = None
    context: int = 0
    chat: bool = False
    precision: str = ""

    @property
    def longest(self) -> int:
        """The most tokens that can be read at once, where a plan asks for it."""
        return max(self.max_length, self.context)

    @property
    def identity(self) -> str:
        """Its hash, with the adapters that are trained where there are any."""
        return self.sha256 if self.lora is None else f"{self.sha256} with {self.lora}"


def _is_plain(inner: PreTrainedTokenizerBase) -> bool:
    """Return whether the fast tokenizer behind it neither cuts nor pads by itself."""
    if not inner.is_fast:
        return False
    fast = inner.backend_tokenizer
    return fast.truncation is None and fast.padding is None


def _in_time(read: Callable[[], T], texts: Sequence[str]) -> T:
    """Read texts by code of the tokenizer's author. Raises UsageError where it takes too long."""
    return in_time(
        read, time_for(texts), "reading texts by this tokenizer", "give another tokenizer"
    )


def _together(inner: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Reading]:
    return _in_time(lambda: readings(inner.backend_tokenizer, texts), texts)


Reader = Callable[[PreTrainedTokenizerBase, Sequence[str]], list[Reading]]


class _Readings(dict[tuple[PreTrainedTokenizerBase, str], Reading]):
    """Keeps how texts are read; once it has too many tokens it begins anew.

    tokens: those that it has, where a text counts as 32 more.
    """

    tokens = 0

    def add(self, inner: PreTrainedTokenizerBase, texts: Sequence[str], reader: Reader) -> None:
        """Read texts together."""
        batch = reader(inner, texts)
        size = sum(len(ids) + 32 for ids, _ in batch)
        if self.tokens + size > _REMEMBERED:
            self.clear()
            self.tokens = 0
        self.tokens += size
        self.update({(inner, text): read for text, read in zip(texts, batch, strict=True)})


_known = _Readings()
_lengths: dict[tuple[PreTrainedTokenizerBase, bytes], int] = {}  # in tokens, by a text's hash


def _apart(inner: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Reading]:
    return process_of(inner.backend_tokenizer).read(texts)


@dataclass(frozen=True)
class TextTokenizer:
    """Wraps a Hugging Face tokenizer as a MarkingTokenizer and a ListingTokenizer.

    goes_on: whether a text may go on after stop, which closes every turn of a conversation.
    strange: whether strangers may have made it, so that it reads and writes in a limited process.
    """

    inner: PreTrainedTokenizerBase
    start: int
    stop: int
    goes_on: bool = False
    strange: bool = False

    @property
    def _reader(self) -> Reader:
        return _apart if self.strange else _together

    def _read(self, text: str) -> Reading:
        """Read a text once, however often it is asked for."""
        if (self.inner, text) not in _known:
            _known.add(self.inner, [text], self._reader)
        return _known[self.inner, text]

    def read(self, texts: Sequence[str]) -> None:
        """Read texts together where that is faster; `encode` and `ends` then look them up."""
        if not _is_plain(self.inner):
            return
        new = [text for text in dict.fromkeys(texts) if (self.inner, text) not in _known]
        for start in range(0, len(new), _TOGETHER):
            if _known.tokens < _REMEMBERED // 2:
                _known.add(self.inner, new[start : start + _TOGETHER], self._reader)

    def encode(self, text: str) -> list[int]:
        if _is_plain(self.inner):
            return list(self._read(text)[0])
        inner = self.inner
        return _in_time(lambda: list(inner.encode(text, add_special_tokens=False)), [text])

    def predicted(self, text: str) -> int:
        """Count the tokens of a record that a model predicts: those of the text, and stop.

        It is remembered of far more texts than how they are read: each seed asks anew.
        """
        key = self.inner, blake2b(text.encode(), digest_size=16).digest()
        if key not in _lengths:
            if len(_lengths) == _MOST_LENGTHS:
                _lengths.clear()
            _lengths[key] = len(self.encode(text))
        return 1 + _lengths[key]

    def ends(self, text: str) -> list[int]:
        """Return the number of characters up to the end of each token of `encode(text)`."""
        if _is_plain(self.inner):
            return list(self._read(text)[1])
        if self.inner.is_fast:
            inner, more = self.inner, {"return_offsets_mapping": True}
            read = _in_time(lambda: inner(text, add_special_tokens=False, **more), [text])
            return list(accumulate((end for _, end in read["offset_mapping"]), max))
        tokens = self.encode(text)
        lengths = [len(self.decode(tokens[: i + 1])) for i in range(len(tokens))]
        return list(accumulate((min(n, len(text)) for n in lengths), max))

    def decode(self, tokens: Tokens) -> str:
        if self.strange and self.inner.is_fast:
            return written(self.inner.backend_tokenizer, tuple(tokens))
        return str(self.inner.decode(list(tokens), clean_up_tokenization_spaces=False))

    def vocabulary(self) -> Collection[str]:
        """List every word that can be a token, as the vocabulary writes it."""
        return self.inner.get_vocab().keys()
