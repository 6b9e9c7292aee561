"""Sessions with batches of references: prompt number p is answered from batch p mod n.

Each batch has an account of its own. Every token of a batch costs the same, so when an account is
spent is public; the public model then answers the batch's prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from audit.core.ledger import Ledger
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from defenses.ensembles.session import EnsembleSession

Item = TypeVar("Item")


@dataclass(frozen=True)
class Fees:
    """What a batch's account is charged, nats of ε.

    once: with the first token, for the conversion to (ε, δ). each: with every token. tokens: T.
    """

    once: float
    each: float
    tokens: int

    @property
    def total(self) -> float:
        """The charges of T tokens, and half of one: T fit strictly, T + 1 do not."""
        return self.once + (self.tokens + 0.5) * self.each


class Account:
    """The account of one batch, kept in the ledger of all."""

    def __init__(self, shared: Ledger, batch: int, fees: Fees) -> None:
        self._shared = shared
        self._batch = batch
        self._fees = fees
        self.mark = shared.mark
        self.skip = shared.skip
        self.flush = shared.flush

    @property
    def queries(self) -> int:
        return self._shared.queries

    @property
    def stopped(self) -> bool:
        return self.remaining == 0

    @property
    def _spent(self) -> float:
        return self._shared.spent[self._batch]

    @property
    def remaining(self) -> int:
        """Tokens left of T; those that a killed process answered are spent, too."""
        if self._shared.stopped:
            return 0
        paid = max(0.0, self._spent - self._fees.once)
        return max(0, self._fees.tokens - round(paid / self._fees.each))

    def admit(
        self,
        charges: np.ndarray,
        lambdas: np.ndarray,
        marks: Sequence[str],
        local: np.ndarray | None = None,
    ) -> int:
        """Charges the batch for queries in order, as many as are left; returns their number."""
        n = min(self.remaining, len(marks))
        table = np.zeros((n, len(self._shared.spent)))
        table[:, self._batch] = charges[:n, 0]
        if n and not self._spent:
            table[0, self._batch] += self._fees.once
        admitted = self._shared.admit(table, lambdas[:n], marks[:n])
        self.skip(len(marks) - n)
        return admitted


class NoAccount:
    """Charges nothing: for the references without protection."""

    remaining = None
    stopped = False

    def __init__(self) -> None:
        self.queries = 0

    def mark(self, query: Sequence[int | float]) -> str:
        return ""

    def admit(
        self,
        charges: np.ndarray,
        lambdas: np.ndarray,
        marks: Sequence[str],
        local: np.ndarray | None = None,
    ) -> int:
        self.skip(len(marks))
        return len(marks)

    def skip(self, queries: int) -> None:
        self.queries += queries

    def flush(self) -> None:
        return None


class BatchedSession:
    """Deals prompts to the sessions of n batches in turn (a Predictor).

    The prompts of one call are answered batch by batch.
    """

    def __init__(self, batches: Sequence[EnsembleSession], readable: Access) -> None:
        self._batches = batches
        self._dealt = 0
        first = batches[0]
        self.access = first.access
        self.readable = readable
        self.tokenizer: Tokenizer = first.tokenizer
        self.max_length = first.max_length

    @property
    def remaining(self) -> int | None:
        """Tokens left in all accounts; None without accounts."""
        left = [batch.remaining for batch in self._batches]
        return None if None in left else sum(each or 0 for each in left)

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        return self._each(prompts, lambda batch, some: batch.generate(some, length))

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        pairs = list(zip(prefixes, continuations, strict=True))
        return self._each(pairs, lambda batch, some: batch.score(*_columns(some), moments))

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        log_probs = np.empty((len(contexts), len(choices)))
        answered = np.zeros(len(contexts) + 1, dtype=bool)
        for batch, places in self._deal(len(contexts)):
            some = [contexts[i] for i in places]
            log_probs[places], leading = batch.distribution(some, choices)
            answered[places[:leading]] = True
        return log_probs, int(answered.argmin())  # the first that was not answered

    def _each(
        self,
        items: Sequence[Item],
        ask: Callable[[EnsembleSession, list[Item]], list[Answer]],
    ) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for batch, places in self._deal(len(items)):
            some = ask(batch, [items[i] for i in places])
            answers.update(zip(places, some, strict=True))
        return [answers[i] for i in range(len(items))]

    def _deal(self, count: int) -> Iterator[tuple[EnsembleSession, list[int]]]:
        """Gives each batch that has prompts among the next `count`, and their places."""
        n, first = len(self._batches), self._dealt
        self._dealt += count
        for b, batch in enumerate(self._batches):
            places = list(range((b - first) % n, count, n))
            if places:
                yield batch, places


def _columns(pairs: Sequence[tuple[Tokens, Tokens]]) -> tuple[list[Tokens], list[Tokens]]:
    return [head for head, _ in pairs], [tail for _, tail in pairs]
