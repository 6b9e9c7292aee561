"""Prompts from users' records, and the runs of a user's own words in the answers to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attacks.texts.standing import Words, stands_in, users_of, whole_words, words_of
from audit.core.corpus import Record
from audit.core.predictor import Tokenizer, Tokens, is_chat

_SHARED = 8  # tokens in a row that others wrote, too: as in a form that everybody fills in
_LOOKED_AT = 4  # records of a user for each that is tried; others may be of shared words


@dataclass(frozen=True)
class Prompt:
    """The beginning of a record of a user, with the start token, and how the record goes on."""

    user: str
    head: tuple[int, ...]
    tail: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A run of tokens that stands in records of the prompted user. before: all tokens before it.

    users: in how many users' records it stands; 1: in this user's alone.
    """

    user: str
    before: tuple[int, ...]
    run: tuple[int, ...]
    users: int


@dataclass(frozen=True)
class OwnRuns:
    """Records of users by their id, and the corpus in which a run of k tokens may stand.

    texts: of the users who are prompted. corpus: of everybody, before any coin.
    """

    k: int
    tokenizer: Tokenizer
    texts: Mapping[str, Sequence[str]]
    corpus: Sequence[Record]

    def prompts(self, prefix: int, records: int, length: int, longest: int) -> list[Prompt]:
        """Choose prompts of which the next k tokens are the user's own, by the order of records.

        prefix: tokens of each. records: most of a user. length: tokens of the tail. longest: tokens
        that are read at once.
        """
        found: dict[str, list[Prompt]] = {}
        for one in self._candidates(prefix, records * _LOOKED_AT, length, longest):
            found.setdefault(one.user, []).append(one)
        pieces = {one: self._piece(one.tail[: self.k]) for own in found.values() for one in own}
        stands = users_of(set(pieces.values()), self.corpus)
        chosen = []
        for own in found.values():
            mine = [one for one in own if self._is_own(pieces[one], one, stands)]
            chosen += mine[:records]
        return chosen

    def _candidates(self, prefix: int, most: int, length: int, longest: int) -> Iterator[Prompt]:
        """Cut records that are long enough; of a conversation the first half is given."""
        for user, records in self._tokens.items():
            long = [tokens for tokens in records if len(tokens) >= prefix + self.k]
            for tokens in long[:most]:
                given = max(prefix, len(tokens) // 2 if is_chat(self.tokenizer) else 0)
                given = min(given, len(tokens) - self.k)
                head = (self.tokenizer.start, *tokens[:given])
                tail = tuple(tokens[given : given + length])
                if len(head) + len(tail) <= longest:
                    yield Prompt(user, head, tail)

    @cached_property
    def _tokens(self) -> Mapping[str, list[list[int]]]:
        encode = self.tokenizer.encode
        return {user: [encode(text) for text in texts] for user, texts in self.texts.items()}

    def _piece(self, run: Tokens) -> Words:
        return whole_words(self.tokenizer.decode(run))

    def _is_own(self, piece: Words, of: Prompt, stands: Mapping[Words, set[str]]) -> bool:
        if not piece or not stands[piece] <= {of.user}:
            return False
        return not stands_in(piece, self._given(of))

    def _given(self, of: Prompt) -> Words:
        return words_of(self.tokenizer.decode(of.head[1:]))

    def copies(self, answers: Sequence[tuple[Prompt, Tokens]]) -> list[Copy]:
        """Find a run of at least k tokens in each answer that has any: the user's own go first.

        answers: to each prompt, which may have several.
        """
        runs = [list(self._runs(of.user, tokens)) for of, tokens in answers]
        pieces = {
            (i, place): self._piece(answers[i][1][place : place + self.k])
            for i, found in enumerate(runs)
            for low, high in found
            for place in range(low, high)
        }
        stands = users_of(set(pieces.values()), self.corpus)
        given = {of: self._given(of) for (of, _), own in zip(answers, runs, strict=True) if own}
        copies = []
        for i, ((of, tokens), found) in enumerate(zip(answers, runs, strict=True)):
            seen = [
                (0 if stands[piece] <= {of.user} else 1, low, high, place)
                for low, high in found
                for place in range(low, high)
                if (piece := pieces[i, place]) and not stands_in(piece, given[of])
            ]
            if seen:
                shared, low, high, place = min(seen)
                users = len(stands[pieces[i, place]] | {of.user}) if shared else 1
                before = (*of.head, *tokens[:low])
                copies.append(Copy(of.user, before, tuple(tokens[low : high + self.k - 1]), users))
        return copies

    def unshared(self, copies: Sequence[Copy]) -> list[np.ndarray]:
        """Mark the tokens of each run that are in no few tokens in a row of another user's.

        A form that everybody fills in differently stands with one user as a whole, and what a model
        learnt of it from others is not that user's.
        """
        pieces = [
            [self._piece(copy.run[i : i + _SHARED]) for i in range(len(copy.run) - _SHARED + 1)]
            for copy in copies
        ]
        stands = users_of({piece for some in pieces for piece in some}, self.corpus)
        masks = []
        for copy, some in zip(copies, pieces, strict=True):
            own = np.ones(len(copy.run), dtype=bool)
            for i, piece in enumerate(some):
                if stands.get(piece, set()) - {copy.user}:
                    own[i : i + _SHARED] = False
            masks.append(own)
        return masks

    def _runs(self, user: str, tokens: Tokens) -> Iterator[tuple[int, int]]:
        """Yield the ranges of places in an answer at which k tokens of the user's records begin."""
        tokens, k = tuple(tokens), self.k
        places: dict[tuple[int, ...], list[int]] = {}
        for i in range(len(tokens) - k + 1):
            places.setdefault(tokens[i : i + k], []).append(i)
        there = {
            place
            for record in (self._tokens[user] if places else ())
            for i in range(len(record) - k + 1)
            for place in places.get(tuple(record[i : i + k]), ())
        }
        for low in sorted(there):
            if low - 1 not in there:
                high = low
                while high in there:
                    high += 1
                yield low, high
