"""Counts the planted copies that were trained on, by reading the tokens as the trainer saw them.

A copy that was dropped, cut or masked cannot leak, so its absence from the output is not a sign of
safety. Still no coin is left out of a test: a pipeline that drops canaries is part of what is
audited.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from audit.core.predictor import Tokenizer
from audit.core.secret import Coins, Secret
from audit.core.words import continues
from audit.planting.beacons import Beacon
from audit.planting.training_rows import TokenRow

_UNSIGNED = re.compile(r"[^\w]+$")  # signs at the end of words, which may go with a value
_RECOGNISED = 8  # first characters of a sentence, which others share only by accident


@dataclass(frozen=True)
class Coverage:
    """Copies of the planted secrets of one kind: how many were planted, trained on, masked or cut.

    The rest is missing from the stream. where: what the stream is: the training, or only a corpus.
    shifted: whether labels of the stream name the next token. people: number of different values
    of which a copy was trained on. words: how often the words before values stand in the stream,
    whatever follows them. framed: how many copies stand behind the same other words, as those of a
    prompt's template. rewritten: how many of the missing stand there in another form.
    """

    kind: str
    copies: int
    trained: int
    masked: int
    cut: int
    where: str = "were trained on"
    shifted: bool = False
    people: int = 0
    words: int = 0
    framed: int = 0
    rewritten: int = 0

    @property
    def missing(self) -> int:
        return self.copies - self.trained - self.masked - self.cut

    @property
    def whole(self) -> bool:
        """Return whether every copy was trained on."""
        return self.trained == self.copies

    @property
    def removed(self) -> bool:
        """Return whether the words before values are there, and no value is, in any form."""
        return self.words > 0 and self.missing == self.copies and not self.rewritten

    @property
    def absent(self) -> bool:
        """Return whether neither values nor the words before them are there."""
        return self.words == 0 and self.missing == self.copies

    @property
    def framing(self) -> str:
        """Explain that attacks ask without the words that most copies stand behind; else empty."""
        if 2 * self.framed <= self.copies:
            return ""
        return (
            f"{self.framed:,} of {self.copies:,} planted {self.kind} copies stand behind the same "
            "other words, which attacks do not ask with; plant into the text as it is trained on"
        )

    @property
    def sentence(self) -> str:
        lost = {
            "masked from the loss": self.masked,
            "cut off": self.cut,
            "in another form": self.rewritten,
            "missing": self.missing - self.rewritten,
        }
        parts = ", ".join(f"{n:,} {what}" for what, n in lost.items() if n)
        sentence = f"Of {self.copies:,} planted {self.kind} copies {self.trained:,} {self.where}"
        note = "; each label names the next token" if self.shifted else ""
        return f"{sentence} ({parts}){note}" if parts else f"{sentence}{note}"


def by_kind(
    rows: Iterable[TokenRow],
    secrets: Sequence[Secret],
    coins: Coins,
    tokenizer: Tokenizer,
    beacons: Iterable[Beacon] = (),
) -> tuple[Coverage, ...]:
    """Count the copies of the planted secrets in a stream by kind, then those of beacons."""
    reader = StreamReader(canaries(secrets, coins, beacons), tokenizer)
    for row in rows:
        reader.read(row)
    return reader.coverage()


@dataclass(frozen=True)
class Canary:
    """A planted text, prefix and value. Two owners of the same value share one text.

    prefix: its length in characters. copies: of all owners together.
    """

    kind: str
    prefix: int
    copies: int

    def identifies(self, length: int) -> bool:
        """Return whether a beginning of this length belongs to another text only by accident."""
        return length > self.prefix if self.prefix else length >= _RECOGNISED


def canaries(
    secrets: Sequence[Secret], coins: Coins, beacons: Iterable[Beacon] = ()
) -> dict[str, Canary]:
    """Return the planted canaries by their text, prefix and value; beacons are kinds apart."""
    planted: dict[str, Canary] = {}
    for secret in secrets:
        if coins.planted(secret):
            text = secret.prefix + secret.value
            copies = secret.copies + (planted[text].copies if text in planted else 0)
            planted[text] = Canary(secret.kind, len(secret.prefix), copies)
    lit_ones = {b.prefix + b.value: Canary(lit(b.kind), len(b.prefix), b.tier) for b in beacons}
    return planted | lit_ones


def lit(kind: str) -> str:
    """Name the beacons of a kind where they are counted beside its secrets."""
    return f"{kind} beacon"


def _as_read(text: str, canary: Canary, tokenizer: Tokenizer) -> tuple[str, Canary]:
    """Return a planted text as it is read from its tokens, with the length of its words.

    A tokenizer may lower letters, or set digits apart: then no row of tokens holds the text itself.
    """
    read = tokenizer.decode(tokenizer.encode(text))
    if read == text or not read.strip():
        return text, canary
    before = tokenizer.decode(tokenizer.encode(text[: canary.prefix])).rstrip()
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, read, strict=False))
    return read, replace(canary, prefix=len(list(alike)))


class StreamReader:
    """Reads the rows of a stream in order, and counts the planted copies in them.

    with_canaries: the rows that hold a canary or a part of one, or the words before its value.
    """

    def __init__(self, planted: Mapping[str, Canary], tokenizer: Tokenizer) -> None:
        planted = dict(_as_read(text, one, tokenizer) for text, one in planted.items())
        self._planted, self._tokenizer = planted, tokenizer
        self._longest = max(map(len, planted), default=0)
        self._beginnings = {
            text[:length]: canary.kind if canary.identifies(length) else ""
            for text, canary in planted.items()
            for length in range(1, len(text))
        }
        self._anchors = _anchors_of(planted)
        with_words = [text for text, canary in planted.items() if canary.prefix]
        self._bare = {_bare(text): text for text in with_words}
        self._bare_anchors = _anchors(
            (_bare(text[: planted[text].prefix]), _bare(text)) for text in with_words
        )
        self._rewritten: Counter[str] = Counter()  # by text
        self._states: Counter[tuple[str, str]] = Counter()  # (text, trained, masked or cut)
        words = {(one.kind, text[: one.prefix]) for text, one in planted.items() if one.prefix}
        self._words = [(kind, _UNSIGNED.sub("", before) or before) for kind, before in words]
        self._said: Counter[str] = Counter()  # the words before values, by kind
        self._ends = [e for e in map(tokenizer.decode, ([tokenizer.start], [tokenizer.stop])) if e]
        self._frames = {canary.kind: Counter[str]() for canary in planted.values()}
        self._begun: Counter[str] = Counter()  # rows that end inside a canary, by kind
        self._open: list[str] = []  # ends of the row before that begin a planted text
        self._before = TokenRow((), ())
        self._shifted = False
        self.with_canaries: list[TokenRow] = []

    def read(self, row: TokenRow) -> None:
        """Read the next row."""
        self._shifted |= row.shifted
        text = self._tokenizer.decode(row.tokens)
        said = {kind: n for kind, words in self._words if (n := text.count(words))}
        self._said.update(said)
        rest = self._continued(text)
        inside = list(_inside(text, self._anchors, self._planted))
        for place, whole in inside:
            low, high = place + self._planted[whole].prefix, place + len(whole)
            self._states[whole, self._state(row, low, high)] += 1
            self._frames[self._planted[whole].kind][self._frame(text[:place])] += 1
        if len(inside) < sum(said.values()):
            self._rewritten.update(self._otherwise(text))
        tails = (text[i:] for i in range(max(0, len(text) - self._longest), len(text)))
        self._open = [tail for tail in tails if tail in self._beginnings]
        if rest and self.with_canaries[-1:] != [self._before]:
            self.with_canaries.append(self._before)
        if rest or inside or said or any(self._beginnings[begun] for begun in self._open):
            self.with_canaries.append(row)
        self._before = row

    def coverage(self) -> tuple[Coverage, ...]:
        """Count the copies by kind, after the last row.

        A text counts at most as often as it was planted: copies that a pipeline repeats do not make
        up for those that it drops.
        """
        self._continued("")
        self._open = []
        counts = {canary.kind: Counter[str]() for canary in self._planted.values()}
        for text, canary in self._planted.items():
            count, left = counts[canary.kind], canary.copies
            for state in ("trained", "masked", "cut"):
                share = min(left, self._states[text, state])
                count[state] += share
                left -= share
            count["copies"] += canary.copies
            count["people"] += self._states[text, "trained"] > 0
            count["left"] += left
            count["rewritten"] += min(left, self._rewritten[text])
        return tuple(
            Coverage(
                kind,
                count["copies"],
                count["trained"],
                count["masked"],
                count["cut"] + min(count["left"], self._begun[kind]),
                shifted=self._shifted,
                people=count["people"],
                words=self._said[kind],
                framed=max((n for frame, n in self._frames[kind].items() if frame), default=0),
                rewritten=min(count["rewritten"], max(0, count["left"] - self._begun[kind])),
            )
            for kind, count in counts.items()
        )

    def _frame(self, before: str) -> str:
        """Return the end of what stands before a planted text in its record; "" for nothing."""
        for end in self._ends:
            before = before.rpartition(end)[2]
        return before.strip()[-_RECOGNISED:]

    def _continued(self, head: str) -> bool:
        """Count the text that the row before began; return whether this row continues it.

        A continued text is known as a whole. Otherwise only its kind is, so one of the kind counts.
        """
        for begun in self._open:
            joined = begun + head[: self._longest]
            ends = range(len(joined), len(begun), -1)
            whole = next((joined[:end] for end in ends if joined[:end] in self._planted), None)
            if whole is not None:
                self._states[whole, "cut"] += 1
                return True
        halves = [begun for begun in self._open if begun not in self._planted]
        kinds = [kind for begun in halves if (kind := self._beginnings[begun])]
        self._begun.update(kinds[:1])
        return False

    def _otherwise(self, text: str) -> Iterator[str]:
        """Yield the planted texts that stand in a row in another form: "40,917", "4 0 9 1 7"."""
        kept = _kept(text)
        for place, bare in _found(_joined(kept), self._bare_anchors, self._bare):
            whole = self._bare[bare]
            first, last = kept[place][1], kept[place + len(bare) - 1][1]
            usual = text.find(whole, max(0, first - len(whole)), last + len(whole)) >= 0
            if not usual and not continues(text, last + 1):
                yield whole

    def _state(self, row: TokenRow, low: int, high: int) -> str:
        """Decide whether characters from `low` to `high` of a row's text were trained or masked."""
        if all(row.learned):
            return "trained"
        first, last = (self._token(row, end) for end in (low + 1, high))
        return "trained" if all(row.learned[first : last + 1]) else "masked"

    def _token(self, row: TokenRow, end: int) -> int:
        """Return the index of the token that holds character `end` − 1 of the row's text."""

        def characters(count: int) -> int:
            return len(self._tokenizer.decode(row.tokens[: count + 1]))

        return bisect_left(range(len(row.tokens)), end, key=characters)


def copies_in(texts: Iterable[str], planted: Mapping[str, Canary]) -> Counter[str]:
    """Count each planted text in texts as they are written, before any tokenizer."""
    anchors = _anchors_of(planted)
    return Counter(whole for text in texts for _, whole in _inside(text, anchors, planted))


def _inside(
    text: str, anchors: Mapping[str, Sequence[int]], planted: Container[str]
) -> Iterator[tuple[int, str]]:
    """Yield (place, planted text) where one stands that is not a part of a longer word."""
    for place, whole in _found(text, anchors, planted):
        if not continues(text, place + len(whole)):
            yield place, whole


def _anchors_of(planted: Mapping[str, Canary]) -> dict[str, list[int]]:
    return _anchors((text[: one.prefix or _RECOGNISED], text) for text, one in planted.items())


def _anchors(texts: Iterable[tuple[str, str]]) -> dict[str, list[int]]:
    """List the lengths of texts by their beginnings, the longest first: of (beginning, text)."""
    lengths: dict[str, set[int]] = {}
    for anchor, text in texts:
        lengths.setdefault(anchor, set()).add(len(text))
    return {anchor: sorted(found, reverse=True) for anchor, found in lengths.items()}


def _found(
    text: str, anchors: Mapping[str, Sequence[int]], known: Container[str]
) -> Iterator[tuple[int, str]]:
    """Yield (place, known text) where one stands; of two that begin alike, the longer."""
    for anchor, lengths in anchors.items():
        place = text.find(anchor)
        while place >= 0:
            candidates = (text[place : place + length] for length in lengths)
            whole = next((one for one in candidates if one in known), "")
            if whole:
                yield place, whole
            place = text.find(anchor, place + max(1, len(whole)))


def _bare(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return _joined(_kept(text))


def _kept(text: str) -> list[tuple[str, int]]:
    """List the letters and digits of a text, in lower case, and where each stands."""
    return [(c, i) for i, sign in enumerate(text) for c in sign.casefold() if c.isalnum()]


def _joined(kept: Sequence[tuple[str, int]]) -> str:
    return "".join(sign for sign, _ in kept)
