"""Ledger: compares what a query reveals about a part with what the ledger charged for it.

A service that answers queries charges each part for each of them, and claims that a charge covers
the Rényi divergence D_α between its answer and the answer without that part, in both directions.
The auditor can open the service without a part (a neighbour), and asks both the same queries.
- Where both state the law of their answers, the divergence is computed exactly. One query that
  exceeds its charge refutes the ledger, without any statistics.
- Elsewhere tokens are drawn on one side and scored on both, and statistics bet on their log ratios
  (arXiv 2010.09686).
Charges are not seen here: they are joined to the evidence, as coins are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated

import numpy as np

from audit.core.attack import Attack, Knowledge, Neighbour
from audit.core.evidence import Divergences, Evidence, LogRatios
from audit.core.language_model import runs_of
from audit.core.law import Law, Lawful
from audit.core.predictor import Access, Predictor
from audit.core.rules import at_least
from audit.core.secret import KINDS, Secret
from audit.statistics import clamped_laplace, renyi

_NOTHING = Divergences((), (), 2.0, *np.empty((2, 0, 0)))
_AT_ONCE = 64  # queries whose laws are held together, of one neighbour after the other
_PIECE = 16  # most tokens asked of one text, so that several texts are asked

Words = tuple[str, str]  # a prefix, and the text after it
Question = tuple[list[int], list[int]]  # the same as tokens; each of the second is a query


@dataclass(frozen=True)
class LedgerCheck(Attack):
    """Compares each query of a prediction service with its neighbours', and with its charge.

    tokens: number of queries, on held-out texts and planted secrets by turns, fewer if the
        session's budget is too small; at least 1.
    precision: how far a log-probability that is read may be off, in nats; at least 1e-9, for a
        query that tells exactly its charge would be over it by rounding.
    """

    tokens: Annotated[int, at_least(1)] = 256
    precision: Annotated[float, at_least(1e-9)] = 1e-5
    kinds = KINDS
    access = Access.GENERATE
    neighbours = True

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        return [_NOTHING]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Compare laws where both sides state them, else draw tokens where both score them."""
        others, budget = knowledge.neighbours, self.tokens
        if predictor.remaining is not None:
            budget = min(budget, predictor.remaining)
        asked = _questions(predictor, secrets, knowledge, budget)
        lawful = all(_lawful(session) for session in (predictor, *(o.predictor for o in others)))
        if others and lawful and isinstance(predictor, Lawful) and knowledge.order is not None:
            return [self._compared(predictor, others, asked, knowledge.order)]
        if others and predictor.readable >= Access.SCORE:
            return [_drawn(predictor, others, asked, budget, self.precision)]
        return [_NOTHING]

    def _compared(
        self,
        predictor: Lawful,
        others: Sequence[Neighbour],
        asked: Sequence[Question],
        order: float,
    ) -> Divergences:
        """Compute both divergences of every query that the session answers."""
        pieces = []
        for run in runs_of([len(tokens) for _, tokens in asked], _AT_ONCE):
            some = asked[run]
            own = predictor.laws(*zip(*some, strict=True))
            n = len(own.log_pmfs)
            both = np.full((2, len(others), n), np.nan)
            for i, other in enumerate(others):
                assert isinstance(other.predictor, Lawful)
                its = other.predictor.laws(*zip(*some, strict=True))
                m = min(n, len(its.log_pmfs))
                both[0, i, :m] = self._least(own.first(m), its.first(m), order)
                both[1, i, :m] = self._least(its.first(m), own.first(m), order)
            pieces.append(both)
            if n < sum(len(tokens) for _, tokens in some):
                break
        forth, back = np.concatenate([np.empty((2, len(others), 0)), *pieces], axis=2)
        return Divergences(*_who(others), order, forth, back)

    def _least(self, p: Law, q: Law, order: float) -> np.ndarray:
        """Compute the least D_α(P‖Q) of n answers, nats, (n,)."""
        if p.noise is None:
            return renyi.least_divergence(p.log_pmfs, q.log_pmfs, order, self.precision)
        means = np.exp(p.log_pmfs), np.exp(q.log_pmfs)
        scale, floor = p.noise.scale, p.noise.floor
        return clamped_laplace.least_divergence(*means, scale, floor, order, self.precision)


def _lawful(session: Predictor) -> bool:
    """Return whether the law of every answer can be read."""
    return session.readable >= Access.DISTRIBUTION and isinstance(session, Lawful)


def _who(others: Sequence[Neighbour]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return tuple(o.unit for o in others), tuple(str(o.relation) for o in others)


def _questions(
    predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge, budget: int
) -> list[Question]:
    """Choose what to ask before any query: a held-out text and two secrets by turns, cut so that
    they come to at most `budget` queries."""
    tokenizer = predictor.tokenizer
    lot = iter(knowledge.stream.permutation(len(secrets)).tolist())
    planted = ((secrets[i].prefix, secrets[i].value) for i in lot)
    texts = (("", text) for text in knowledge.texts)
    asked: list[Question] = []
    for prefix, value in _by_turns(texts, planted, planted):
        head = tokenizer.encode(prefix)
        most = min(_PIECE, budget, predictor.max_length - 1 - len(head))
        tokens = tokenizer.encode(prefix + value)[len(head) :][: max(0, most)]
        if tokens:
            asked.append(([tokenizer.start, *head], tokens))
            budget -= len(tokens)
        if not budget:
            break
    return asked


def _by_turns(*sources: Iterator[Words]) -> Iterator[Words]:
    """Take one of each source after the other, until all are at an end."""
    for turn in zip_longest(*sources):
        yield from (one for one in turn if one is not None)


def _drawn(
    predictor: Predictor,
    others: Sequence[Neighbour],
    asked: Sequence[Question],
    budget: int,
    precision: float,
) -> LogRatios:
    """Draw a token at every place, in the session and in each neighbour, and score it on both.

    The session is asked for its own tokens first, then for a score of these, then for a score of
    each neighbour's: its queries are numbered in this order. Ratios are lowered by what both
    log-probabilities may be off.
    """
    places = [[*head, *tail[:i]] for head, tail in asked for i in range(len(tail))]
    places = places[: budget // (2 + len(others))]
    n = len(places)
    tokens, drawn, _ = _draws(predictor, places)
    own = _scores(predictor, places, tokens)
    shape = len(others), n
    forth, back = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, other in enumerate(others):
        its = _scores(other.predictor, places, tokens)
        back[i] = np.where(drawn, its - own - 2 * precision, np.nan)
        theirs, answered, log_probs = _draws(other.predictor, places)
        scored = _scores(predictor, places, theirs)
        forth[i] = np.where(answered, scored - log_probs - 2 * precision, np.nan)
    rows = np.arange(len(others))[:, None]
    forth_queries = (2 + rows) * n + np.arange(n)
    back_queries = np.broadcast_to(np.arange(n), shape)
    return LogRatios(*_who(others), forth, forth_queries, back, back_queries)


def _draws(
    predictor: Predictor, places: Sequence[list[int]]
) -> tuple[list[list[int]], np.ndarray, np.ndarray]:
    """Draw a token at each place: (tokens, whether the service itself answered, their
    log-probabilities, nats)."""
    answers = predictor.generate(places, 1)
    answered = np.array([answer.answered == 1 for answer in answers], dtype=bool)
    log_probs = np.array([answer.log_probs[0] for answer in answers])
    return [list(answer.tokens) for answer in answers], answered, log_probs


def _scores(
    predictor: Predictor, places: Sequence[list[int]], tokens: Sequence[list[int]]
) -> np.ndarray:
    """Read log-probabilities of one token at each place, nats; NaN after STOP."""
    answers = predictor.score(places, tokens)
    return np.array([a.log_probs[0] if a.answered == 1 else np.nan for a in answers])
