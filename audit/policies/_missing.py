"""An imperfect policy, for experiments on the cost of missed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from audit.core.digest import sha256_of
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, runs

_SEED = "0"  # of the choice of missed values


@final
@dataclass(frozen=True)
class Missing(Policy):
    """A policy that misses a share of another policy's values: the same values in every text.

    A value is the text of a run of touching spans (a whole number, not one digit), and is missed as
    a whole. A value that is missed at one rate is missed at every higher rate.
    """

    policy: Policy
    rate: float

    def __call__(self, text: str) -> list[Span]:
        return self._marked(text, self.policy(text))

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        marked = zip(texts, self.policy.many(texts), strict=True)
        return [self._marked(text, spans) for text, spans in marked]

    def _marked(self, text: str, spans: Sequence[Span]) -> list[Span]:
        return [
            span
            for run in runs(spans)
            if _place(text[run[0][0] : run[-1][1]]) >= self.rate
            for span in run
        ]

    @property
    def label(self) -> str:
        return f"{self.policy.label},miss={self.rate:g}"

    @property
    def digest(self) -> str:
        return digest_of("miss", self.policy.digest, repr(self.rate), _SEED)


def _place(value: str) -> float:
    """Hash a value to a number that is uniform in [0, 1)."""
    keyed = f"{_SEED}:{value}".encode("utf-8", "surrogatepass")
    return int(sha256_of(keyed)[:12], 16) / 2**48
