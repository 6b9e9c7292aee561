"""Membership inference: scores whether a record, or a code, was in the training text.

One pass of the release and one of the public model give the scores of Yeom et al. (arXiv
1709.01604: loss), Carlini et al. (arXiv 2012.07805: reference ratio, zlib), Shi et al. (arXiv
2310.16789: Min-K%) and Zhang et al. (arXiv 2404.02936: Min-K%++). Shadow models add those of
Carlini et al. (arXiv 2112.03570: LiRA) and Zarifzadeh et al. (arXiv 2312.03262: RMIA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from attacks import _membership_scores as scores
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Scores
from audit.core.predictor import (
    Access,
    Answer,
    Predictor,
    Tokenizer,
    Tokens,
    affordable,
    continuation,
    record_tokens,
)
from audit.core.rules import POSITIVE, SHARE, Rule, check_fields
from audit.core.secret import Secret

ONE_PASS = ("loss", "ratio", "zlib", "min_k", "min_k_plus_plus")
WITH_SHADOWS = ("lira_offline", "lira_online", "rmia")
TARGETS = {"record": "record", "span": "code"}  # what is scored: its kind of secret

_AT_ONCE = 256  # candidates in memory at a time
_POPULATION = 256  # held-out texts with which RMIA compares

Piece = tuple[Tokens, Tokens]  # a context, and the tokens to score after it


@dataclass(frozen=True)
class Membership(Attack):
    """Scores whole records and code spans: loss, ratio, zlib, Min-K%, Min-K%++, LiRA, RMIA.

    shadows: number of shadow models for LiRA and RMIA; even; 0 skips both.
    k: share of the least likely tokens that Min-K% and Min-K%++ average; above 0 and at most 1.
    gamma: least likelihood ratio γ with which RMIA counts a held-out text as beaten; above 0.
    """

    shadows: Annotated[int, Rule("even, or 0 (none)", lambda n: n >= 0 and n % 2 == 0)] = 0
    k: Annotated[float, SHARE] = 0.2
    gamma: Annotated[float, POSITIVE] = 1.0
    kinds = tuple(TARGETS.values())
    access = Access.SCORE

    def __post_init__(self) -> None:
        check_fields("membership", self)

    @property
    def _names(self) -> tuple[str, ...]:
        """All scores; the ratio is left out later without a public model."""
        return ONE_PASS + (WITH_SHADOWS if self.shadows else ())

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """Counts all scored tokens, except RMIA's held-out texts, which need unlimited sessions."""
        return sum(sum(target.lengths(tokenizer)) for target in _targets(secrets))

    def trials(self) -> int:
        return 1

    def tests(self, secrets: Sequence[Secret]) -> int:
        """Counts one test for each score of a target, and one for the choice between two codes."""
        return len(self._names) * len(_targets(secrets)) + 1

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Splits a limited budget equally among targets, and then leaves RMIA out."""
        shadows = knowledge.shadows if self.shadows else ()
        sessions = [predictor, *(shadow.predictor for shadow in shadows)]
        limits = [session.remaining for session in sessions if session.remaining is not None]
        targets = _targets(secrets)
        budget = min(limits) // max(len(targets), 1) if limits else None
        compared = shadows and not limits and predictor.readable >= Access.SCORE
        population = _population(sessions, knowledge.texts[:_POPULATION] if compared else ())
        evidence: list[Evidence] = []
        for target in targets:
            table, windowed = self._table(target, sessions, knowledge.public, budget)
            rows = list(table[: len(ONE_PASS)])
            if shadows:
                present = np.array([target.present(shadow.present) for shadow in shadows])
                phi = table[0], table[len(ONE_PASS) :]
                rows += [scores.lira_offline(*phi, present), scores.lira_online(*phi, present)]
                rows += [scores.rmia(*phi, population[0], population[1:], self.gamma)]
            for name, row in zip(self._names, rows, strict=True):
                if name == "ratio" and knowledge.public is None:
                    continue
                access = Access.DISTRIBUTION if name == "min_k_plus_plus" else Access.SCORE
                kind, values = TARGETS[target.name], target.spread(row)
                evidence.append(Scores(name, target.name, values, windowed, access, kind))
        return evidence

    def _table(
        self,
        target: _Target,
        sessions: Sequence[Predictor],
        public: Predictor | None,
        budget: int | None,
    ) -> tuple[np.ndarray, int]:
        """Computes a table of scores, and the number of candidates read in windows.

        The table has a row for each of ONE_PASS, then φ of each shadow, and a column for each
        candidate, NaN if not read. sessions: the release, then the shadows.
        """
        release, *shadows = sessions
        readers = sessions if public is None else (*sessions, public)
        context = min(session.max_length for session in readers)
        table = np.full((len(ONE_PASS) + len(shadows), len(target.texts)), np.nan)
        count, windowed = target.reach(release, budget), 0
        for first in range(0, count, _AT_ONCE):
            chunk = range(first, min(first + _AT_ONCE, count))
            texts = [_windows(*target.tokens(release.tokenizer, i), context) for i in chunk]
            windowed += sum(len(pieces) > 1 for pieces in texts)
            read = _read(release, texts, moments=release.readable >= Access.DISTRIBUTION)
            beside = _read(public, texts) if public is not None else read
            for i, one, reference in zip(chunk, read, beside, strict=True):
                table[: len(ONE_PASS), i] = self._one_pass(one, reference, target.texts[i][1])
            for row, shadow in enumerate(shadows, len(ONE_PASS)):
                table[row, chunk] = _phi(shadow, texts)
        return table, windowed

    def _one_pass(self, read: np.ndarray, reference: np.ndarray, text: str) -> tuple[float, ...]:
        """Computes the scores of ONE_PASS from the result of `_read` for one candidate."""
        log_probs, moments = read[0], read[1:]
        loss = float(log_probs.mean())
        return (
            loss,
            loss - float(reference[0].mean()),
            scores.zlib(log_probs, text),
            scores.min_k(log_probs, self.k),
            scores.min_k_plus_plus(log_probs, moments, self.k),
        )


@dataclass(frozen=True)
class _Target:
    """The candidates of one kind. Secrets with equal text, as both slots of a record, are one.

    texts: (prefix, scored text) of each candidate.
    places: shape (s,): index of the candidate of each secret; −1 for secrets of another kind.
    """

    name: str
    texts: tuple[tuple[str, str], ...]
    places: np.ndarray

    def tokens(self, tokenizer: Tokenizer, i: int) -> Piece:
        """Gives context and scored tokens of candidate i."""
        prefix, text = self.texts[i]
        if self.name == "record":
            start, *rest = record_tokens(tokenizer, text)
            return [start], rest
        return [tokenizer.start, *tokenizer.encode(prefix)], continuation(tokenizer, prefix, text)

    def lengths(self, tokenizer: Tokenizer) -> list[int]:
        """Counts the scored tokens of each candidate."""
        return [len(self.tokens(tokenizer, i)[1]) for i in range(len(self.texts))]

    def reach(self, release: Predictor, budget: int | None) -> int:
        """Counts the leading candidates that the budget allows, before any is read."""
        if release.readable < Access.SCORE:
            return 0
        if budget is None:
            return len(self.texts)
        return affordable(self.lengths(release.tokenizer), budget)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Expands one value a candidate to one a secret, (s,); NaN for another kind."""
        spread: np.ndarray = np.append(values, np.nan)[self.places]
        return spread

    def present(self, present: np.ndarray) -> np.ndarray:
        """Reduces bools (s,) to one a candidate: present if any of its secrets is."""
        own = self.places >= 0
        any_present: np.ndarray = np.bincount(self.places[own], present[own], len(self.texts)) > 0
        return any_present


def _targets(secrets: Sequence[Secret]) -> list[_Target]:
    """Groups secrets into targets; omits targets without secrets."""
    targets = []
    for name, kind in TARGETS.items():
        order: dict[tuple[str, str], int] = {}
        places = np.full(len(secrets), -1)
        for i, secret in enumerate(secrets):
            if secret.kind == kind:
                text = ("", secret.text) if name == "record" else (secret.prefix, secret.value)
                places[i] = order.setdefault(text, len(order))
        if order:
            targets.append(_Target(name, tuple(order), places))
    return targets


def _windows(head: Tokens, tail: Tokens, context: int) -> list[Piece]:
    """Cuts a text into pieces that fit the context: the first sees as much of the head as fits,
    the next ones the last token of the piece before."""
    seen = head[-max(1, context + 1 - len(tail)) :]
    return [
        (tail[first - 1 : first] if first else seen, tail[first : first + context])
        for first in range(0, len(tail), context)
    ]


def _read(
    session: Predictor, texts: Sequence[Sequence[Piece]], moments: bool = False
) -> list[np.ndarray]:
    """Reads log-probability, μ and σ of each token in one pass: (3, t) for each text, nats.

    NaN: texts not fully answered before STOP; moments that were not requested.
    """
    pieces = [piece for text in texts for piece in text]
    heads, tails = [head for head, _ in pieces], [tail for _, tail in pieces]
    answers = iter(session.score(heads, tails, moments))
    return [_joined([next(answers) for _ in text]) for text in texts]


def _joined(answers: Sequence[Answer]) -> np.ndarray:
    read = np.full((3, sum(len(answer.tokens) for answer in answers)), np.nan)
    if all(answer.answered == len(answer.tokens) for answer in answers):
        read[0] = np.concatenate([answer.log_probs for answer in answers])
        moments = [answer.moments for answer in answers if answer.moments is not None]
        read[1:] = np.concatenate(moments, axis=1) if moments else np.nan
    return read


def _phi(session: Predictor, texts: Sequence[Sequence[Piece]]) -> np.ndarray:
    """Computes φ of each text, shape (n,), nats."""
    return np.array([read[0].mean() for read in _read(session, texts)])


def _population(sessions: Sequence[Predictor], heldout: Sequence[str]) -> np.ndarray:
    """Computes φ of the first window of each held-out text, shape (sessions, m), nats."""
    if not heldout:
        return np.empty((len(sessions), 0))
    whole = [record_tokens(sessions[0].tokenizer, text) for text in heldout]
    context = min(session.max_length for session in sessions)
    texts = [_windows(tokens[:1], tokens[1:], context)[:1] for tokens in whole]
    return np.array([_phi(session, texts) for session in sessions])
