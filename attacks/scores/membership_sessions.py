"""The sessions of the membership attack: the release, its base model, and shadow models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.scores.membership_targets import Target
from attacks.scores.token_readings import Piece, Reading, mean_log_probs, pieces_of, read
from audit.core.predictor import Access, Predictor, record_tokens


@dataclass(frozen=True)
class Sessions:
    """All read the same pieces of a text. public: None where the base model is unknown."""

    release: Predictor
    public: Predictor | None
    shadows: tuple[Predictor, ...]

    @property
    def limit(self) -> int | None:
        """The fewest queries left to the release or a shadow model; None for no limit."""
        sessions = (self.release, *self.shadows)
        return min((s.remaining for s in sessions if s.remaining is not None), default=None)

    @property
    def context(self) -> int:
        """The most tokens of context that all of them read."""
        sessions = (self.release, *self.shadows, *([self.public] if self.public else []))
        return min(session.max_length for session in sessions)

    def pieces(
        self, target: Target, chunk: Sequence[int], opened: bool = True
    ) -> list[list[Piece]]:
        """Cut these candidates into pieces; opened: whether the start token opens texts."""
        tokenizer, context = self.release.tokenizer, self.context
        return [pieces_of(*target.tokens(tokenizer, i, opened), context) for i in chunk]

    def read(
        self, texts: Sequence[Sequence[Piece]]
    ) -> tuple[Sequence[Reading], Sequence[Reading | None]]:
        """Read texts under the release and under the base model: None each where unknown."""
        moments = self.release.readable >= Access.DISTRIBUTION
        own = read(self.release, texts, moments)
        return own, [None] * len(texts) if self.public is None else read(
            self.public, texts, moments
        )

    def opens(self, target: Target, chunk: Sequence[int]) -> bool:
        """Return whether the training seems to have opened texts with the start token.

        A model knows texts best as it was trained on them. So these candidates, whatever their
        coins, are read both ways, and the way counts in which the release has gained more over the
        base model, on the same tokens. The words before values count, too: of the values alone, a
        model that knows some by heart gives those of other people less, the better it is read.
        """
        gains = []
        tokenizer = self.release.tokenizer
        both = [
            [[*head, *tail] for head, tail in (target.tokens(tokenizer, i, opened) for i in chunk)]
            for opened in (True, False)
        ]
        least = [len(text) - 1 for text in both[1]]
        for texts in both:
            cut = [pieces_of(text[:1], text[1:], self.context) for text in texts]
            readings = zip(*self.read(cut), least, strict=True)
            gains.append(
                sum(
                    own.log_probs[-n:].mean() - (base.log_probs[-n:].mean() if base else 0)
                    for own, base, n in readings
                )
            )
        return not gains[1] > gains[0]

    def population(self, heldout: Sequence[str]) -> np.ndarray:
        """Compute the mean log-probability of the first piece of each held-out text under the
        release and each shadow model, shape (1 + S, m), nats."""
        if not heldout:
            return np.empty((1 + len(self.shadows), 0))
        whole = [record_tokens(self.release.tokenizer, text) for text in heldout]
        texts = [pieces_of(tokens[:1], tokens[1:], self.context)[:1] for tokens in whole]
        sessions = (self.release, *self.shadows)
        return np.array([mean_log_probs(session, texts) for session in sessions])
