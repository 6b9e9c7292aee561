"""An imperfect policy, for experiments on what a policy's misses cost."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, runs


@final
@dataclass(frozen=True)
class Missing(Policy):
    """Another policy that misses a share of the values: the same ones in every text.

    A value is the text of a run of touching spans (a whole number, not one digit), missed or found
    as a whole. What is missed at one rate is missed at every higher one.
    """

    policy: Policy
    rate: float
    seed: int = 0

    def __call__(self, text: str) -> list[Span]:
        return self._found(text, self.policy(text))

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        found = zip(texts, self.policy.many(texts), strict=True)
        return [self._found(text, spans) for text, spans in found]

    def _found(self, text: str, spans: Sequence[Span]) -> list[Span]:
        return [
            span
            for run in runs(spans)
            if _place(text[run[0][0] : run[-1][1]], self.seed) >= self.rate
            for span in run
        ]

    @property
    def label(self) -> str:
        return f"{self.policy.label},miss={self.rate:g}"

    @property
    def digest(self) -> str:
        return digest_of("miss", self.policy.digest, repr(self.rate), str(self.seed))


def _place(value: str, seed: int) -> float:
    """A place in [0, 1), uniform over values: a hash, so that nothing has to be remembered."""
    keyed = f"{seed}:{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(keyed).digest()[:6], "big") / 2**48
