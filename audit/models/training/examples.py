"""Turn a training's texts into examples, one per protected unit, and examples into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch

from audit.core.counts import Piece
from audit.core.model import TextTokenizer
from audit.core.noise import NoiseStream
from audit.core.predictor import record_marks, record_tokens
from audit.core.processes import Processes
from audit.core.training import Training
from audit.models.training.fine_tuning import cut
from audit.models.training.learned_tokens import Tokens, is_learned, sequences_of
from audit.models.training.per_example_gradients import Batch, Block

T = TypeVar("T")
_BORDERS = 16  # widths, at most, that are tried to separate narrow from wide rows
_PASS = 128  # tokens in whose time a further pass begins and ends, whatever it reads
Row = tuple[Sequence[int], Sequence[float]]  # T + 1 token ids, and T weights in the loss
_Shapes = list[tuple[int, int]]  # rows and width, of narrow and of wide rows
_NONE: _Shapes = [(0, 0), (0, 0)]


@dataclass(frozen=True)
class Example:
    """All rows of one protected unit: of one record, or of all records of a user."""

    rows: tuple[Row, ...]

    @property
    def width(self) -> int:
        return max((len(tokens) - 1 for tokens, _ in self.rows), default=0)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """List its pieces of the training texts, with the weight of each token."""
        rows = ((tokens, weights) for tokens, weights in self.rows if isinstance(tokens, Tokens))
        return tuple(tokens.weighted(weights) for tokens, weights in rows)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, width)."""
        return len(self.rows), self.width

    def apart(self, border: int) -> tuple[Example, Example]:
        """Separate rows up to `border` tokens wide from wider rows; either may be empty."""
        narrow = tuple(row for row in self.rows if len(row[0]) - 1 <= border)
        wide = tuple(row for row in self.rows if len(row[0]) - 1 > border)
        return Example(narrow), Example(wide)

    def padded(self, border: int) -> int:
        """Count the tokens of both parts of `apart`, each padded to its widest row."""
        return sum(len(part.rows) * part.width for part in self.apart(border))


def examples_of(training: Training, tokenizer: TextTokenizer, max_length: int) -> list[Example]:
    """Make one example per owner, in order of appearance; its loss is the mean over its learned
    tokens.

    No example's loss or gradient depends on another example's length.
    """
    owned: dict[str, list[Tokens]] = {}
    for owner, sequence in zip(training.owners, sequences_of(training, tokenizer), strict=True):
        owned.setdefault(owner, []).append(sequence)
    examples = []
    for mine in owned.values():
        weight = 1 / max(1, sum(is_learned(t) for sequence in mine for t in sequence[1:]))
        rows = [row for sequence in mine for row in cut(sequence, max_length)]
        weighted = ((row.read(), [weight * is_learned(t) for t in row[1:]]) for row in rows)
        examples.append(Example(tuple(weighted)))
    return examples


def marked_records(training: Training, tokenizer: TextTokenizer) -> list[Marked]:
    """Tokenize every text and mark its private tokens."""
    return [
        Marked(
            Tokens(record_tokens(tokenizer, text), place),
            tuple(record_marks(tokenizer, text, spans)),
        )
        for place, (text, spans) in enumerate(zip(training.texts, training.private, strict=True))
    ]


@dataclass(frozen=True)
class Marked:
    """A record's tokens, start and stop included, and which of them are private."""

    tokens: tuple[int, ...]
    marks: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, predictions: int) -> Marked:
        """Cut the record after this number of predictions."""
        return Marked(self.tokens[: predictions + 1], self.marks[: predictions + 1])

    @cached_property
    def public_piece(self) -> tuple[Piece, ...]:
        """List its predicted tokens where only public predictions are learned."""
        public = [not private for private in self.pairs]
        return (self.tokens.weighted(public),) if isinstance(self.tokens, Tokens) else ()

    @property
    def pairs(self) -> list[bool]:
        """Return whether each prediction x_t → x_{t+1} is private: whether either token is."""
        return [a or b for a, b in zip(self.marks, self.marks[1:], strict=False)]

    def runs(self) -> list[tuple[bool, int, int]]:
        """List maximal runs of one kind: (private, first, last), with first ≤ t < last."""
        runs: list[tuple[bool, int, int]] = []
        for t, private in enumerate(self.pairs):
            if runs and runs[-1][0] == private:
                runs[-1] = (private, runs[-1][1], t + 1)
            else:
                runs.append((private, t, t + 1))
        return runs

    def private_example(self, max_length: int) -> Example | None:
        """Make an example whose loss is the mean over private predictions; None without any."""
        pairs = self.pairs
        if not any(pairs):
            return None
        weights = [private / sum(pairs) for private in pairs]
        rows = [
            (row, weights[start : start + max_length])
            for start, row in zip(
                range(0, len(pairs), max_length), cut(self.tokens, max_length), strict=True
            )
        ]
        return Example(tuple(rows))


def poisson(examples: Sequence[T], probability: float, coins: NoiseStream) -> list[T]:
    """Sample each example independently; the batch's size is random, and may be 0."""
    draws = coins.random(len(examples))
    return [example for example, draw in zip(examples, draws, strict=True) if draw < probability]


def lot(
    examples: Sequence[T], probability: float, coins: NoiseStream, processes: Processes
) -> list[T]:
    """Sample in the first process, and return the part of the sample that this one reads."""
    places = processes.first(lambda: poisson(range(len(examples)), probability, coins))
    return [examples[place] for place in processes.share(places)]


def collated(examples: Sequence[Example], tokens: int, device: torch.device) -> Iterator[Batch]:
    """Yield all examples once, in batches of at most `tokens` tokens, padding included.

    An example with more tokens is a batch by itself, of blocks of at most `tokens` tokens. Only a
    single row may be longer: what it predicts depends on all of it.
    """
    border = _border(examples)
    fitting = [example for example in examples if example.padded(border) <= tokens]
    for group in physical_batches(fitting, tokens, border):
        yield collate(group, device, border)
    for example in examples:
        if example.padded(border) > tokens:
            yield _chunked(example, tokens, device)


def physical_batches(
    examples: Sequence[Example], tokens: int, border: int = 0
) -> Iterator[list[Example]]:
    """Group examples of similar shape, at most `tokens` tokens with padding in each group.

    A group ends where its padding would take longer than a further pass.
    border: rows up to this width are padded separately from wider rows.
    """
    group: list[Example] = []
    shapes, filled = _NONE, 0
    for example in sorted(examples, key=lambda e: (len(e.rows), e.width), reverse=True):
        own: _Shapes = [part.shape for part in example.apart(border)]
        grown = [(max(a, c), max(b, d)) for (a, b), (c, d) in zip(shapes, own, strict=True)]
        together = _area(grown) * (len(group) + 1)
        if group and (together > tokens or together - filled - _area(own) > _PASS):
            yield group
            group, grown, filled = [], own, 0
        group.append(example)
        shapes, filled = grown, filled + _area(own)
    if group:
        yield group


def _area(shapes: _Shapes) -> int:
    """Count the tokens of an example of these shapes, padding included."""
    return sum(rows * width for rows, width in shapes)


def _border(examples: Sequence[Example]) -> int:
    """Find the width that separates rows with the least padding; 0: no separation."""
    widths = sorted({len(tokens) - 1 for example in examples for tokens, _ in example.rows})
    borders = [0, *widths[: -1 : 1 + len(widths) // _BORDERS]]
    return min(borders, key=lambda border: sum(example.padded(border) for example in examples))


def collate(examples: Sequence[Example], device: torch.device, border: int = 0) -> Batch:
    """Make one batch; shorter rows are padded on the right, where causal models never look."""
    parts = zip(*(example.apart(border) for example in examples), strict=True)
    blocks = tuple(_block(part, device) for part in parts if any(one.rows for one in part))
    return Batch(blocks, pieces=tuple(one.pieces for one in examples))


def _chunked(example: Example, tokens: int, device: torch.device) -> Batch:
    """Make a batch of one example, in blocks of at most `tokens` tokens, padding included."""
    rows = [Example((row,)) for row in example.rows]
    groups = physical_batches(rows, tokens)
    blocks = tuple(_block([_together(group)], device) for group in groups)
    return Batch(blocks, chunked=True, pieces=(example.pieces,))


def _together(parts: Sequence[Example]) -> Example:
    return Example(tuple(row for part in parts for row in part.rows))


def _block(examples: Sequence[Example], device: torch.device) -> Block:
    rows, width = (max(sizes) for sizes in zip(*(e.shape for e in examples), strict=True))
    inputs = torch.zeros(len(examples) * rows, width, dtype=torch.long)
    targets, weights = torch.zeros_like(inputs), torch.zeros(inputs.shape)
    for i, example in enumerate(examples):
        for j, (tokens, counts) in enumerate(example.rows):
            place, length = i * rows + j, len(tokens) - 1
            whole = torch.tensor(tokens)
            inputs[place, :length], targets[place, :length] = whole[:-1], whole[1:]
            weights[place, :length] = torch.tensor(counts)
    own = tuple(sum(len(tokens) - 1 for tokens, _ in example.rows) for example in examples)
    return Block(inputs.to(device), targets.to(device), weights.to(device), rows, own=own)
