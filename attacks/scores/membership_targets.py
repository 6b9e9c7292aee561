"""The candidates of the membership attack, and the tokens of each that are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.scores.token_readings import Piece
from attacks.texts.naming import continuations
from audit.core.predictor import Access, Predictor, Tokenizer, affordable, record_tokens
from audit.core.secret import ON_REQUEST, Secret

# what is scored: its kind of secret
TARGETS = {"record": "record", "span": "code"} | {f"{kind}_span": kind for kind in ON_REQUEST}


@dataclass(frozen=True)
class Target:
    """The candidates of one kind. Secrets with equal text, as both slots of a record, are one.

    texts: (context, scored text) of each candidate; the context of a whole record is empty.
    places: shape (s,): index of the candidate of each secret; −1 for secrets of another kind.
    """

    name: str
    texts: tuple[tuple[str, str], ...]
    places: np.ndarray

    def tokens(self, tokenizer: Tokenizer, i: int, opened: bool = True) -> Piece:
        """Return context and scored tokens of candidate i: a whole record is scored with its stop
        token, any other secret without what follows it.

        opened: whether the start token opens the text; without it, a text's first token is context.
        """
        before, text = self.texts[i]
        if self.name == "record" and not before:
            head, tail = list[int](), record_tokens(tokenizer, text)[1:]
        else:
            head, (tail,) = continuations(tokenizer, before, [text])
        if opened or len(head) + len(tail) < 2:
            return [tokenizer.start, *head], tail
        whole, first = [*head, *tail], max(len(head), 1)
        return whole[:first], whole[first:]

    def reach(self, release: Predictor, budget: int | None) -> int:
        """Count the leading candidates that the budget allows, before any is read."""
        if release.readable < Access.SCORE:
            return 0
        if budget is None:
            return len(self.texts)
        each = (self.tokens(release.tokenizer, i) for i in range(len(self.texts)))
        return affordable([len(scored) for _, scored in each], budget)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Expand one value a candidate to one a secret, (s,); NaN for another kind."""
        spread: np.ndarray = np.append(values, np.nan)[self.places]
        return spread

    def present(self, present: np.ndarray) -> np.ndarray:
        """Reduce bools (s,) to one a candidate: present if any of its secrets is."""
        own = self.places >= 0
        any_present: np.ndarray = np.bincount(self.places[own], present[own], len(self.texts)) > 0
        return any_present


def targets_of(secrets: Sequence[Secret]) -> list[Target]:
    """Group secrets into targets; omit targets without secrets."""
    targets = []
    for name, kind in TARGETS.items():
        order: dict[tuple[str, str], int] = {}
        places = np.full(len(secrets), -1)
        for i, secret in enumerate(secrets):
            if secret.kind == kind:
                whole = kind == "record" and not secret.prefix
                text = ("", secret.text) if whole else (secret.prefix, secret.value)
                places[i] = order.setdefault(text, len(order))
        if order:
            targets.append(Target(name, tuple(order), places))
    return targets
