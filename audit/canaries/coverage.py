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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, record_tokens
from audit.core.secret import Coins, Secret

IGNORED = -100  # the label that a trainer's loss leaves out
MASKS = ("completion_mask", "assistant_masks", "loss_mask")  # 1: in the loss; where no labels are
_RECOGNISED = 8  # characters of a sentence's beginning that no other one shares, but by accident


@dataclass(frozen=True)
class Row:
    """One sequence of the training stream. learned: whether each token is in the loss."""

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]


@dataclass(frozen=True)
class Reach:
    """Copies of the planted secrets of one kind: how many there should be, and what became of them;
    the others are missing from the stream. where: what was read: the training, or only a corpus."""

    kind: str
    copies: int
    trained: int
    masked: int
    cut: int
    where: str = "were trained on"

    @property
    def missing(self) -> int:
        return self.copies - self.trained - self.masked - self.cut

    @property
    def whole(self) -> bool:
        """Whether every copy was trained on."""
        return self.trained == self.copies

    @property
    def sentence(self) -> str:
        lost = {"masked from the loss": self.masked, "cut off": self.cut, "missing": self.missing}
        told = ", ".join(f"{n:,} {what}" for what, n in lost.items() if n)
        return f"Of {self.copies:,} planted {self.kind} copies {self.trained:,} {self.where}" + (
            f" ({told})" if told else ""
        )


def reaches(
    rows: Iterable[Row], secrets: Sequence[Secret], coins: Coins, tokenizer: Tokenizer
) -> tuple[Reach, ...]:
    """What became of the planted secrets, by kind."""
    survey = Survey(canaries(secrets, coins), tokenizer)
    for row in rows:
        survey.read(row)
    return survey.reaches()


@dataclass(frozen=True)
class Canary:
    """A planted text, prefix and value; where two owners have one value, it is one text.

    prefix: how long that is. copies: of all its owners.
    """

    kind: str
    prefix: int
    copies: int

    def tells(self, length: int) -> bool:
        """Whether a beginning of this length is of no other text, but by accident."""
        return length > self.prefix if self.prefix else length >= _RECOGNISED


def canaries(secrets: Sequence[Secret], coins: Coins) -> dict[str, Canary]:
    """What is planted, by text: prefix and value."""
    found: dict[str, Canary] = {}
    for secret in secrets:
        if coins.planted(secret):
            text = secret.prefix + secret.value
            copies = secret.copies + (found[text].copies if text in found else 0)
            found[text] = Canary(secret.kind, len(secret.prefix), copies)
    return found


class Survey:
    """Reads the rows of a stream, one after the other, and counts what is planted in them.

    bearing: the rows that any of it was found in, whole or not; all others may be forgotten.
    """

    def __init__(self, planted: Mapping[str, Canary], tokenizer: Tokenizer) -> None:
        self._planted, self._tokenizer = planted, tokenizer
        self._longest = max(map(len, planted), default=0)
        self._beginnings = {
            text[:length]: canary.kind if canary.tells(length) else ""
            for text, canary in planted.items()
            for length in range(1, len(text))
        }
        anchors: dict[str, set[int]] = {}
        for text, canary in planted.items():
            anchors.setdefault(text[: canary.prefix or _RECOGNISED], set()).add(len(text))
        self._anchors = {anchor: sorted(n, reverse=True) for anchor, n in anchors.items()}
        self._found: Counter[tuple[str, str]] = Counter()  # (text, what became of it)
        self._begun: Counter[str] = Counter()  # rows that end inside one of this kind
        self._open: list[str] = []  # what the row before ends with and a planted text begins with
        self._before = Row((), ())
        self.bearing: list[Row] = []

    def read(self, row: Row) -> None:
        """Reads the next row."""
        text = self._tokenizer.decode(row.tokens)
        rest = self._continued(text)
        inside = list(self._inside(text))
        for place, whole in inside:
            low, high = place + self._planted[whole].prefix, place + len(whole)
            self._found[whole, self._state(row, low, high)] += 1
        tails = (text[i:] for i in range(max(0, len(text) - self._longest), len(text)))
        self._open = [tail for tail in tails if tail in self._beginnings]
        if rest and self.bearing[-1:] != [self._before]:
            self.bearing.append(self._before)
        if rest or inside or any(self._beginnings[begun] for begun in self._open):
            self.bearing.append(row)
        self._before = row

    def reaches(self) -> tuple[Reach, ...]:
        """What became of the copies, after the last row. No text has more than it was planted in:
        what a pipeline repeats does not stand for what it drops."""
        self._continued("")
        self._open = []
        counts = {canary.kind: Counter[str]() for canary in self._planted.values()}
        for text, canary in self._planted.items():
            count, left = counts[canary.kind], canary.copies
            for state in ("trained", "masked", "cut"):
                share = min(left, self._found[text, state])
                count[state] += share
                left -= share
            count["copies"] += canary.copies
            count["left"] += left
        return tuple(
            Reach(
                kind,
                count["copies"],
                count["trained"],
                count["masked"],
                count["cut"] + min(count["left"], self._begun[kind]),
            )
            for kind, count in counts.items()
        )

    def _continued(self, head: str) -> bool:
        """Counts what the row before began, once it is known how this one goes on: a text that is
        split over both, or else one of a kind, whichever. Whether it was the former."""
        for begun in self._open:
            joined = begun + head[: self._longest]
            ends = range(len(joined), len(begun), -1)
            whole = next((joined[:end] for end in ends if joined[:end] in self._planted), None)
            if whole is not None:
                self._found[whole, "cut"] += 1
                return True
        halves = [begun for begun in self._open if begun not in self._planted]
        kinds = [kind for begun in halves if (kind := self._beginnings[begun])]
        self._begun.update(kinds[:1])
        return False

    def _inside(self, text: str) -> Iterator[tuple[int, str]]:
        """Where in a row which planted texts stand; of two that begin alike, the longer."""
        for anchor, lengths in self._anchors.items():
            place = text.find(anchor)
            while place >= 0:
                read = (text[place : place + length] for length in lengths)
                whole = next((found for found in read if found in self._planted), "")
                if whole and not _goes_on(text, place + len(whole)):
                    yield place, whole
                place = text.find(anchor, place + max(1, len(whole)))

    def _state(self, row: Row, low: int, high: int) -> str:
        """What became of the characters from `low` to `high` of a row's text."""
        if all(row.learned):
            return "trained"
        first, last = (self._token(row, end) for end in (low + 1, high))
        return "trained" if all(row.learned[first : last + 1]) else "masked"

    def _token(self, row: Row, end: int) -> int:
        """The place of the token that holds character `end` − 1 of the row's text."""

        def characters(count: int) -> int:
            return len(self._tokenizer.decode(row.tokens[: count + 1]))

        return bisect_left(range(len(row.tokens)), end, key=characters)


def _goes_on(text: str, end: int) -> bool:
    """Whether a word or number that ends here is the beginning of a longer one, and another."""
    return text[end - 1 : end].isalnum() and text[end : end + 1].isalnum()


def of_texts(texts: Iterable[str], tokenizer: Tokenizer, context: int) -> Iterator[Row]:
    """Records as they are trained on where nobody says more: each by itself, cut at the context."""
    for text in texts:
        tokens = tuple(record_tokens(tokenizer, text))[: context + 1]
        yield Row(tokens, (True,) * len(tokens))


def of_file(path: Path, tokenizer: Tokenizer, context: int) -> Iterator[Row]:
    """A training file: JSONL with `input_ids` (and `labels`, `attention_mask`), or with `text`, and
    then perhaps a `split`, of which only the private one is trained on.

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
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: broken JSON") from None
    if isinstance(entry, dict) and "input_ids" not in entry and isinstance(entry.get("text"), str):
        if entry.get("split") in (None, "", "private"):
            yield from of_texts([entry["text"]], tokenizer, context)
        return
    try:
        yield of_example(entry)
    except (TypeError, KeyError, ValueError, OverflowError):
        raise UsageError(
            f"{where}: has neither a 'text' nor 'input_ids' with 'labels' as long as they are"
        ) from None


def of_example(entry: Any) -> Row:
    """One example as a trainer's data set holds it: learned is a token that is its own label.

    Raises TypeError, KeyError, ValueError or OverflowError.
    """
    tokens = [int(token) for token in entry["input_ids"]]
    labels = entry.get("labels") if "labels" in entry else _unmasked(entry, tokens)
    read = entry.get("attention_mask", [1] * len(tokens))
    if not all(0 <= token < 1 << 31 for token in tokens):
        raise ValueError("no token has such a number")
    pairs = list(zip(tokens, labels, read, strict=True))
    return Row(
        tuple(token for token, _, here in pairs if here),
        tuple(int(label) == token for token, label, here in pairs if here),
    )


def _unmasked(entry: Any, tokens: Sequence[int]) -> list[int]:
    """The labels of an example that has a mask in their place, or nothing."""
    mask = next((entry[name] for name in MASKS if name in entry), [1] * len(tokens))
    pairs = zip(tokens, mask, strict=True)
    return [token if learned else IGNORED for token, learned in pairs]
