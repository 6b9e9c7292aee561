"""Read and write texts by a tokenizer of strangers in a process of its own.

A few hundred bytes of its settings may make a text of ten letters larger than any memory, and no
signal reaches its library.
"""

from __future__ import annotations

import os
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from tokenizers import Tokenizer

from audit.core.errors import UsageError
from audit.core.limited_process import LimitedProcess, serve

_SECONDS, _CHARACTERS_A_SECOND = 60.0, 2000  # far slower than any tokenizer in use
MEMORY = 1 << 30  # bytes, and more for long texts
Reading = tuple["array[int]", "array[int]"]  # token ids, and the ends of the tokens


def time_for(texts: Sequence[str]) -> float:
    """Return the seconds that reading texts may take."""
    return _SECONDS + sum(map(len, texts)) / _CHARACTERS_A_SECOND


def readings(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Reading]:
    """Read texts together, on all cores."""
    batch = tokenizer.encode_batch(texts, add_special_tokens=False)
    ends = (accumulate((end for _, end in read.offsets), max) for read in batch)
    return [(array("i", read.ids), array("i", own)) for read, own in zip(batch, ends, strict=True)]


class TokenizerProcess(LimitedProcess):
    """A process that reads and writes by one tokenizer; it neither cuts nor pads."""

    def __init__(self, tokenizer: Tokenizer | str) -> None:
        setup = tokenizer if isinstance(tokenizer, str) else tokenizer.to_str()
        super().__init__(__name__, setup, MEMORY)

    def read(self, texts: Sequence[str]) -> list[Reading]:
        """Read texts together. Raises UsageError where it takes too much time or memory."""
        counts, *packed = self._asked({"texts": list(texts)}, time_for(texts))
        ids, ends = (array("i", b64decode(one)) for one in packed)
        stops = list(accumulate(counts))
        places = [slice(stop - n, stop) for stop, n in zip(stops, counts, strict=True)]
        return [(ids[place], ends[place]) for place in places]

    def decode(self, tokens: Sequence[int]) -> str:
        """Write tokens as text. Raises UsageError as `read` does."""
        return str(self._asked({"tokens": list(map(int, tokens))}, _SECONDS))

    def normalized(self, texts: Sequence[str]) -> int:
        """Count the characters of texts once normalized. Raises UsageError as `read` does."""
        return int(self._asked({"normalized": list(texts)}, time_for(texts)))

    def _asked(self, question: Any, seconds: float) -> Any:
        try:
            return self.ask(question, seconds)
        except UsageError as error:
            raise UsageError(f"the model's tokenizer: {error}; give another tokenizer") from None


@lru_cache(maxsize=4)
def _of(tokenizer: Tokenizer, process: int) -> TokenizerProcess:
    return TokenizerProcess(tokenizer)


@lru_cache(maxsize=1 << 16)  # attacks write the same tokens often
def written(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    """Write tokens as text by the process of a tokenizer. Raises UsageError."""
    return process_of(tokenizer).decode(tokens)


def process_of(tokenizer: Tokenizer) -> TokenizerProcess:
    """Share the process of a tokenizer; a fork of this process has one of its own."""
    return _of(tokenizer, os.getpid())


def _answerer(setup: str) -> Callable[[Any], Any]:
    tokenizer = Tokenizer.from_str(setup)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def answer(question: dict[str, Any]) -> Any:
        if "tokens" in question:
            return tokenizer.decode(question["tokens"], skip_special_tokens=False)
        if "normalized" in question:
            return sum(len(tokenizer.normalizer.normalize_str(t)) for t in question["normalized"])
        ids, ends, counts = array("i"), array("i"), []
        for read, stops in readings(tokenizer, question["texts"]):
            ids.extend(read)
            ends.extend(stops)
            counts.append(len(read))
        return [counts, *(b64encode(one.tobytes()).decode() for one in (ids, ends))]

    return answer


if __name__ == "__main__":
    serve(_answerer)
