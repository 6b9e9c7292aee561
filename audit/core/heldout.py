"""Cuts held-out text into blocks that fit the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.policy import Policy
from audit.core.predictor import (
    MarkingTokenizer,
    record_marks,
    record_tokens,
)


@dataclass(frozen=True)
class Heldout:
    """Held-out text cut into blocks that fit the context: `blocks[i]` opens with a start token.

    marks: for each block, whether its tokens are private; () where no policy was asked.
    """

    blocks: tuple[tuple[int, ...], ...]
    marks: tuple[tuple[bool, ...], ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens to be predicted, the queries a full pass asks."""
        return sum(len(block) - 1 for block in self.blocks)

    def first(self, tokens: int) -> Heldout:
        """The blocks that hold the first `tokens` predicted tokens; the last may be cut."""
        kept: list[tuple[int, ...]] = []
        for block in self.blocks:
            if tokens <= 0:
                break
            kept.append(block[: tokens + 1])
            tokens -= len(kept[-1]) - 1
        marks = zip(self.marks, kept, strict=False)
        return Heldout(tuple(kept), tuple(mark[: len(block)] for mark, block in marks))


def heldout(
    texts: Sequence[str], tokenizer: MarkingTokenizer, max_length: int, policy: Policy
) -> Heldout:
    """Held-out records as blocks of at most `max_length` predicted tokens.

    policy: asked about whole records, for what it finds may depend on all of the text.
    """
    blocks, marks = [], []
    for text, spans in zip(texts, policy.many(texts), strict=True):
        tokens = record_tokens(tokenizer, text)
        private = record_marks(tokenizer, text, spans)
        for first in range(0, len(tokens) - 1, max_length):
            blocks.append(tuple(tokens[first : first + max_length + 1]))
            marks.append(tuple(private[first : first + max_length + 1]))
    return Heldout(tuple(blocks), tuple(marks))
