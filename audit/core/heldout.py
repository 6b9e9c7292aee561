"""Cut held-out text into blocks that fit the context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.policy import Policy
from audit.core.predictor import MarkingTokenizer, record_marks, record_tokens


@dataclass(frozen=True)
class Part:
    """Predicted tokens of one block: those at the places from `start` to before `stop`."""

    block: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Heldout:
    """Held-out text cut into blocks that fit the context.

    blocks: tokens of each block, its first token being context only.
    marks: for each block, whether its tokens are private; () without a policy.
    """

    blocks: tuple[tuple[int, ...], ...]
    marks: tuple[tuple[bool, ...], ...] = ()

    @property
    def tokens(self) -> int:
        """Number of predicted tokens, which is the number of queries of a full pass."""
        return sum(len(block) - 1 for block in self.blocks)

    def first(self, tokens: int) -> Heldout:
        """Cut to the first `tokens` predicted tokens."""
        blocks: list[tuple[int, ...]] = []
        for block in self.blocks:
            if tokens <= 0:
                break
            blocks.append(block[: tokens + 1])
            tokens -= len(blocks[-1]) - 1
        marks = zip(self.marks, blocks, strict=False)
        return Heldout(tuple(blocks), tuple(mark[: len(block)] for mark, block in marks))

    def once(self, tokens: int) -> list[Part]:
        """List the first `tokens` predicted tokens, an opening that several blocks share once.

        The same token after the same context is the same query, whose answer is known already.
        """
        parts: list[Part] = []
        for place, known in enumerate(_known(self.blocks)):
            if tokens <= 0:
                break
            stop = min(len(self.blocks[place]), known + tokens)
            if known < stop:
                parts.append(Part(place, known, stop))
                tokens -= stop - known
        return parts


def _known(blocks: Iterable[tuple[int, ...]]) -> Iterator[int]:
    """Count the first tokens of each block that an earlier block begins with; at least 1."""
    earlier: dict[int, Any] = {}  # a tree: the tokens that follow, each with what follows it
    for block in blocks:
        node, known = earlier, 0
        for place, token in enumerate(block):
            known = place + 1 if token in node and known == place else known
            node = node.setdefault(token, {})
        yield max(known, 1)


def heldout(
    texts: Sequence[str], tokenizer: MarkingTokenizer, max_length: int, policy: Policy
) -> Heldout:
    """Cut held-out records into blocks of at most `max_length` predicted tokens.

    policy: applied to whole records, because its spans may depend on all of the text.
    """
    blocks, marks = [], []
    for text, spans in zip(texts, policy.many(texts), strict=True):
        tokens = record_tokens(tokenizer, text)
        private = record_marks(tokenizer, text, spans)
        for first in range(0, len(tokens) - 1, max_length):
            blocks.append(tuple(tokens[first : first + max_length + 1]))
            marks.append(tuple(private[first : first + max_length + 1]))
    return Heldout(tuple(blocks), tuple(marks))
