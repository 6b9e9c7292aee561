"""Did the canaries reach the training? What was dropped, cut or masked cannot leak, and its silence
is no safety.

The tokenised stream is read as the trainer saw it. A pipeline that drops a canary is a part of what
is audited, so no coin is left out of any test: what was dropped only takes away what silence could
have meant.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import UsageError
from audit.predictor import Tokenizer, record_tokens
from audit.secrets import Coins, Secret

IGNORED = -100  # the label that a trainer's loss leaves out
_RECOGNISED = 8  # characters of a sentence's beginning that no other one shares, but by accident


@dataclass(frozen=True)
class Row:
    """One sequence of the training stream. learned: whether each token is in the loss."""

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]


@dataclass(frozen=True)
class Reach:
    """Copies of the planted secrets of one kind: how many there should be, and what became of them;
    the others are missing from the stream."""

    kind: str
    copies: int
    trained: int
    masked: int
    cut: int

    @property
    def missing(self) -> int:
        return max(0, self.copies - self.trained - self.masked - self.cut)

    @property
    def whole(self) -> bool:
        """Whether every copy was trained on."""
        return self.trained >= self.copies

    @property
    def sentence(self) -> str:
        lost = {"masked from the loss": self.masked, "cut off": self.cut, "missing": self.missing}
        told = ", ".join(f"{n:,} {what}" for what, n in lost.items() if n)
        return f"Of {self.copies:,} planted {self.kind} copies {self.trained:,} were trained on" + (
            f" ({told})" if told else ""
        )


def reaches(
    rows: Iterable[Row], secrets: Sequence[Secret], coins: Coins, tokenizer: Tokenizer
) -> tuple[Reach, ...]:
    """What became of the planted secrets, by kind."""
    planted = [secret for secret in secrets if coins.planted(secret)]
    seen: dict[str, Counter[str]] = {secret.kind: Counter() for secret in planted}
    for row in rows:
        text = tokenizer.decode(row.tokens)
        for secret in planted:
            for state in _states(row, text, secret, tokenizer):
                seen[secret.kind][state] += 1
    copies: Counter[str] = Counter()
    for secret in planted:
        copies[secret.kind] += secret.copies
    return tuple(
        Reach(kind, copies[kind], found["trained"], found["masked"], found["cut"])
        for kind, found in seen.items()
    )


def _states(row: Row, text: str, secret: Secret, tokenizer: Tokenizer) -> Iterator[str]:
    """What became of each copy in one row: "trained", "masked" or "cut"."""
    place = text.find(secret.prefix + secret.value)
    while place >= 0:
        low = place + len(secret.prefix)
        high = low + len(secret.value)
        first, last = (_token(row, end, tokenizer) for end in (low + 1, high))
        yield "trained" if all(row.learned[first : last + 1]) else "masked"
        place = text.find(secret.prefix + secret.value, high)
    if _begun(text, secret):
        yield "cut"


def _token(row: Row, end: int, tokenizer: Tokenizer) -> int:
    """The place of the token that holds character `end` − 1 of the row's text."""

    def characters(count: int) -> int:
        return len(tokenizer.decode(row.tokens[: count + 1]))

    return bisect_left(range(len(row.tokens)), end, key=characters)


def _begun(text: str, secret: Secret) -> bool:
    """Whether the row ends inside this secret, so far in that it must be this one."""
    whole = secret.prefix + secret.value
    least = len(secret.prefix) + (1 if secret.prefix else _RECOGNISED)
    tail = text[-len(whole) :]
    return any(tail.endswith(whole[:length]) for length in range(least, len(whole)))


def of_texts(texts: Iterable[str], tokenizer: Tokenizer, context: int) -> Iterator[Row]:
    """Records as they are trained on where nobody says more: each by itself, cut at the context."""
    for text in texts:
        tokens = tuple(record_tokens(tokenizer, text))[: context + 1]
        yield Row(tokens, (True,) * len(tokens))


def of_file(path: Path, tokenizer: Tokenizer, context: int) -> Iterator[Row]:
    """A training file: JSONL with `input_ids` (and `labels`, `attention_mask`), or with `text`.

    Raises UsageError with file and line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield from _rows(line, f"{path}:{number}", tokenizer, context)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def _rows(line: str, where: str, tokenizer: Tokenizer, context: int) -> Iterator[Row]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise UsageError(f"{where}: broken JSON") from None
    if isinstance(entry, dict) and isinstance(entry.get("text"), str):
        yield from of_texts([entry["text"]], tokenizer, context)
        return
    try:
        yield of_example(entry)
    except (TypeError, KeyError, ValueError):
        raise UsageError(f"{where}: has neither a 'text' nor 'input_ids' with 'labels'") from None


def of_example(entry: Any) -> Row:
    """One example as a trainer's data set holds it. Raises TypeError, KeyError or ValueError."""
    tokens = [int(token) for token in entry["input_ids"]]
    labels = entry.get("labels", tokens)
    read = entry.get("attention_mask", [1] * len(tokens))
    pairs = list(zip(tokens, labels, read, strict=True))
    return Row(
        tuple(token for token, _, here in pairs if here),
        tuple(int(label) != IGNORED for _, label, here in pairs if here),
    )
