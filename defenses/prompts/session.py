"""Sessions with batches of references: prompt number p is answered from batch p mod n.

Each batch has an account of its own. Every token of a batch costs the same, so when an account is
spent is public; the public model then answers the batch's prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.ledger import Ledger
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from defenses.ensembles.accounts import Account, Admitted
from defenses.ensembles.mechanism import Mixed
from defenses.ensembles.session import EnsembleSession


@dataclass(frozen=True)
class Fees:
    """Charges of a batch's account, nats of ε.

    once: with the first token, for the conversion to (ε, δ). each: with every token. tokens: T.
    """

    once: float
    each: float
    tokens: int

    @property
    def total(self) -> float:
        """The charges of T tokens, and half of one: T fit strictly, T + 1 do not."""
        return self.once + (self.tokens + 0.5) * self.each


@dataclass(frozen=True)
class BatchAccount(Account):
    """The account of one batch, kept in the ledger of all.

    batch: its place in the ledger.
    """

    batch: int
    fees: Fees

    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        """Charge the batch for queries in order, as many as are left."""
        n = min(self.remaining(ledger), len(marks))
        table = np.zeros((n, len(ledger.spent)))
        table[:, self.batch] = self.fees.each
        if n and not ledger.spent[self.batch]:
            table[0, self.batch] += self.fees.once
        admitted = ledger.admit(table, np.empty((n, 0)), marks[:n])
        ledger.skip(len(marks) - n)
        return Admitted(admitted)

    def stopped(self, ledger: Ledger) -> bool:
        return self.remaining(ledger) == 0

    def remaining(self, ledger: Ledger) -> int:
        """Count the tokens left of T; those that a killed process answered are spent, too."""
        if ledger.stopped:
            return 0
        paid = max(0.0, ledger.spent[self.batch] - self.fees.once)
        return max(0, self.fees.tokens - round(paid / self.fees.each))


@dataclass(frozen=True)
class NoAccount(Account):
    """Charges nothing: for the references without protection."""

    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        ledger.skip(len(marks))
        return Admitted(len(marks))

    def remaining(self, ledger: Ledger) -> None:
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
        answers: dict[int, Answer] = {}
        for batch, places in self._deal(len(prompts)):
            some = batch.generate([prompts[i] for i in places], length)
            answers.update(zip(places, some, strict=True))
        return [answers[i] for i in range(len(prompts))]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for batch, places in self._deal(len(prefixes)):
            heads, tails = ([some[i] for i in places] for some in (prefixes, continuations))
            answers.update(zip(places, batch.score(heads, tails, moments), strict=True))
        return [answers[i] for i in range(len(prefixes))]

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

    def _deal(self, count: int) -> Iterator[tuple[EnsembleSession, list[int]]]:
        """Return each batch that has prompts among the next `count`, and their places."""
        n, first = len(self._batches), self._dealt
        self._dealt += count
        for b, batch in enumerate(self._batches):
            places = list(range((b - first) % n, count, n))
            if places:
                yield batch, places
