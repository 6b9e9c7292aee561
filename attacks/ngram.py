"""N-gram: scores planted text by an n-gram model of the release's texts, beside the public model's.

Source: arXiv 2502.14921, which audits synthetic text so. The likelihood of a planted value after
its words, under counts of the release's texts, less the same under equally many texts of the public
model: a value that the texts echo in pieces scores high even where it is nowhere whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from attacks.scores.membership_targets import TARGETS, Target, targets_of
from attacks.texts.naming import until_stop
from attacks.texts.released import texts_of
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Scores
from audit.core.predictor import Access, Predictor, Tokenizer, record_tokens
from audit.core.rules import POSITIVE, at_least
from audit.core.secret import Secret


@dataclass(frozen=True)
class NGram(Attack):
    """Scores records, and codes after their words, by counts of the tokens in a release's texts.

    order: number of tokens n of an n-gram; at least 1.
    smoothing: how many counts a shorter n-gram's estimate is worth; above 0.
    texts: texts to generate where the release publishes none, fewer if the session's budget is too
        small; at least 1.
    length: tokens of each; at least 1.
    """

    order: Annotated[int, at_least(1)] = 2
    smoothing: Annotated[float, POSITIVE] = 1.0
    texts: Annotated[int, at_least(1)] = 100
    length: Annotated[int, at_least(1)] = 64
    kinds = tuple(TARGETS.values())
    access = Access.GENERATE
    on_texts = True

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        unread = np.full(len(secrets), np.nan)
        return [_scores(target, unread) for target in targets_of(secrets)]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Score values without the public model by the release's texts alone."""
        tokenizer = predictor.tokenizer
        own = [record_tokens(tokenizer, t) for t in texts_of(predictor, self.texts, self.length)]
        public = _public(knowledge.public, own) if knowledge.public is not None else []
        return [self._scored(target, own, public, tokenizer) for target in targets_of(secrets)]

    def _scored(
        self,
        target: Target,
        own: Sequence[Sequence[int]],
        public: Sequence[Sequence[int]],
        tokenizer: Tokenizer,
    ) -> Scores:
        pieces = [target.tokens(tokenizer, i) for i in range(len(target.texts))]
        seen = {t for text in (*own, *public) for t in text}
        vocabulary = len(seen.union(*([*before, *after] for before, after in pieces)))
        values = np.zeros(len(pieces)) if own else np.full(len(pieces), np.nan)
        for texts, sign in ((own, 1), (public, -1)):
            if texts:
                counts = Counts(texts, self.order, self.smoothing, vocabulary)
                values += sign * np.array([counts.log_probability(*piece) for piece in pieces])
        return _scores(target, target.spread(values))


def _scores(target: Target, values: np.ndarray) -> Scores:
    kind = TARGETS[target.name]
    return Scores("ngram", target.name, values, access=Access.GENERATE, kind=kind)


def _public(session: Predictor, own: Sequence[Sequence[int]]) -> list[list[int]]:
    """Sample as many texts of the public model, as long as the longest of the release's, or as the
    model writes."""
    tokenizer, longest = session.tokenizer, max((len(text) - 2 for text in own), default=0)
    length = min(longest, session.max_length - 1)
    if not length:
        return []
    answers = session.generate([[tokenizer.start]] * len(own), length)
    whole = (until_stop(tokenizer, answer.tokens) for answer in answers)
    return [[tokenizer.start, *tokens, tokenizer.stop] for tokens in whole]


@dataclass(frozen=True)
class Counts:
    """An n-gram model of tokens, smoothed by that of the next shorter order.

    texts: each with start and stop token. vocabulary: number of tokens V; the estimate of order 0
        is 1/V.
    """

    texts: Sequence[Sequence[int]]
    order: int
    smoothing: float
    vocabulary: int

    @cached_property
    def _runs(self) -> Counter[tuple[int, ...]]:
        """Count every run of up to n tokens."""
        return Counter(run for text in self.texts for run in _runs(text, self.order))

    @cached_property
    def _before(self) -> Counter[tuple[int, ...]]:
        """Count every run of less than n tokens that another token follows."""
        return Counter(run[:-1] for run in self._runs.elements())

    def log_probability(self, before: Sequence[int], after: Sequence[int]) -> float:
        """Compute log of the probability of `after`, given `before`, in nats."""
        whole = [*before, *after]
        places = range(len(before), len(whole))
        return float(sum(np.log(self._next(tuple(whole[: i + 1]), self.order)) for i in places))

    def _next(self, run: tuple[int, ...], order: int) -> float:
        """Compute the probability of the last token after those before it.

        (count + smoothing · estimate of order n − 1) / (count of the context + smoothing).
        """
        if order == 0:
            return 1 / self.vocabulary
        run = run[-order:]
        shorter = self._next(run, min(order, len(run)) - 1)
        here, context = self._runs[run], self._before[run[:-1]]
        return (here + self.smoothing * shorter) / (context + self.smoothing)


def _runs(text: Sequence[int], most: int) -> Iterable[tuple[int, ...]]:
    return (
        tuple(text[end - size : end])
        for end in range(1, len(text) + 1)
        for size in range(1, min(most, end) + 1)
    )
