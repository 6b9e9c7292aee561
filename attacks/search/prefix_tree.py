"""Best-first search in the prefix tree of a space of secrets.

A prefix is at least as likely as any secret that begins with it. Once no unopened prefix is more
likely than a secret, all candidates above the secret have been visited, so its rank is exact. If
the search stops earlier, the unopened prefixes bound the rank from above.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.search.merges import around, pairs, telling
from audit.core.errors import UsageError
from audit.core.predictor import Predictor, Tokenizer, continuation
from audit.core.secret import Space

_AT_ONCE = 4096  # most prefixes opened together
_UNLIMITED = 1 << 62
_PAIRS = 20_000  # most pairs of neighbouring symbols to check


@dataclass(frozen=True)
class Tree:
    """All values of a space as tokens after `prompt`: one of `places[i]` at each place i."""

    prompt: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """The number of candidates |R|."""
        return math.prod(map(len, self.places))

    def below(self, length: int) -> int:
        """Count the candidates that share a prefix of this many symbols."""
        return math.prod(map(len, self.places[length:]))

    def holds(self, tokens: Sequence[int]) -> bool:
        """Decide whether the tree contains a value with these tokens."""
        both = zip(self.places, tokens, strict=False)
        return len(tokens) == len(self.places) and all(token in place for place, token in both)

    def symbols(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the symbol at each place of a value with these tokens."""
        places = zip(self.places, tokens, strict=True)
        return tuple(place.index(token) for place, token in places)

    def context(self, symbols: np.ndarray, length: int) -> tuple[int, ...]:
        """Return the tokens of the prompt and of a prefix of this many symbols."""
        chosen = zip(self.places[:length], symbols[:length].tolist(), strict=True)
        return (*self.prompt, *(place[symbol] for place, symbol in chosen))


def tree_of(tokenizer: Tokenizer, prefix: str, space: Space) -> Tree | None:
    """Build the tree of a space after a prefix; None if symbols are not single tokens.

    A tokenizer that merges any two digits, or only three in a row, has no tree of digits; see
    `telling` for the values that are checked.
    """
    symbols = space.symbols
    if not symbols or pairs(symbols) > _PAIRS:
        return None

    def tokens(value: Sequence[int]) -> list[int]:
        text = "".join(place[i] for place, i in zip(symbols, value, strict=True))
        return continuation(tokenizer, prefix, text)

    try:
        single = [
            [tokens(around((i,), place, len(symbols))) for i in range(len(symbols[place]))]
            for place in range(len(symbols))
        ]
        if any(len(t) != len(symbols) for place in single for t in place):
            return None
        places = [[t[i] for t in place] for i, place in enumerate(single)]
        for value in telling(tokenizer, symbols):
            if tokens(value) != [place[i] for place, i in zip(places, value, strict=True)]:
                return None
    except UsageError:  # the tokenizer does not decode some value correctly
        return None
    prompt = (tokenizer.start, *tokenizer.encode(prefix))
    return Tree(prompt, tuple(map(tuple, places)))


@dataclass(frozen=True)
class Visited:
    """The result of a search.

    log_probs: shape (n,), nats: visited candidates, the most likely first.
    symbols: shape (n, places): index of their symbol at each place.
    pending, below: shape (p,): log-probability (nats) of each unopened prefix, and the number of
        candidates that begin with it. Prefixes below the floor are left out.
    opened: number of opened prefixes.
    """

    log_probs: np.ndarray
    symbols: np.ndarray
    pending: np.ndarray
    below: np.ndarray
    opened: int

    def places(self, symbols: Sequence[Sequence[int]]) -> np.ndarray:
        """Locate secrets with these symbols in the arrays: shape (s,), int; −1 if not visited."""
        at = np.full(len(symbols), -1)
        if not len(self.symbols):
            return at
        powers = np.array(1_000_003, np.int64) ** np.arange(self.symbols.shape[1])  # modulo 2⁶⁴
        codes = self.symbols @ powers  # may collide, so equal codes are compared below
        for i, row in enumerate(np.array(symbols, dtype=np.int64).reshape(-1, len(powers))):
            alike = np.flatnonzero(codes == row @ powers)
            same = alike[(self.symbols[alike] == row).all(axis=1)]
            at[i] = same[0] if len(same) else -1
        return at

    def ranks(self, log_prob: float, tolerance: float) -> tuple[int, int]:
        """Certify the (best, worst) rank of a secret with this log-probability, above the floor.

        Differences up to `tolerance` (nats) are ties, and ties count against the secret. A prefix
        of probability P has at most P/p candidates of probability p or more.
        """
        better = int((self.log_probs > log_prob + tolerance).sum())
        as_good = int((self.log_probs >= log_prob - tolerance).sum())
        with np.errstate(invalid="ignore"):  # −∞ against −∞: all its candidates may be as likely
            room = np.exp(np.fmin(self.pending - (log_prob - tolerance), 700.0))
        hidden = float(np.minimum(self.below, np.floor(room)).sum())
        return better + 1, max(better + 1, as_good + int(hidden))


@dataclass(frozen=True)
class _Nodes:
    """Prefixes or candidates.

    symbols: shape (n, places). lengths: shape (n,). log_probs: shape (n,), nats.
    eldest: shape (n,), nats: log-probability of the most likely sibling. Siblings share a context,
        so opening them together saves time, but no queries.
    """

    symbols: np.ndarray
    lengths: np.ndarray
    log_probs: np.ndarray
    eldest: np.ndarray

    def __len__(self) -> int:
        return len(self.log_probs)

    def take(self, which: np.ndarray) -> _Nodes:
        return _Nodes(*(column[which] for column in self._columns))

    def with_(self, other: _Nodes) -> _Nodes:
        both = zip(self._columns, other._columns, strict=True)
        return _Nodes(*(np.concatenate(pair) for pair in both))

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.symbols, self.lengths, self.log_probs, self.eldest


def search(
    predictor: Predictor,
    tree: Tree,
    floor: float = -math.inf,
    budget: int | None = None,
    enough: int | None = None,
    seconds: float | None = None,
) -> Visited:
    """Open the most likely prefixes first, until no candidate at or above `floor` (nats) is left.

    Prefixes are opened in batches, small enough that half the budget can follow a memorised secret
    to its end.
    budget: most prefixes to open.
    enough: stops when this many candidates are at least as likely as all unopened prefixes.
    seconds: stops after this time, at a place that differs between runs.
    """
    places = len(tree.places)
    until = math.inf if seconds is None else time.monotonic() + seconds
    limit = _UNLIMITED if budget is None else budget
    if predictor.remaining is not None:
        limit = min(limit, predictor.remaining)
    width = max(1, min(_AT_ONCE, limit // (2 * places)))
    waiting = _root(tree)
    leaves, opened = waiting.take(np.zeros(0, int)), 0
    while len(waiting) and opened < limit and time.monotonic() < until:
        likely = waiting.eldest if predictor.remaining is None else waiting.log_probs
        batch = np.argsort(-likely, kind="stable")[: min(width, limit - opened)]
        batch = batch[
            np.argsort(waiting.lengths[batch], kind="stable")
        ]  # few calls with many contexts
        children, answered = _open(predictor, tree, waiting.take(batch), floor)
        opened += answered
        waiting = waiting.take(np.delete(np.arange(len(waiting)), batch[:answered]))
        whole = children.lengths == places
        leaves = leaves.with_(children.take(whole))
        waiting = waiting.with_(children.take(~whole))
        if answered < len(batch):
            break  # STOP: the release did not answer the rest
        if enough is not None and _above(leaves, waiting) >= enough:
            break
    leaves = leaves.take(np.argsort(-leaves.log_probs, kind="stable"))
    below = np.array([float(tree.below(int(length))) for length in range(places + 1)])
    pending = below[waiting.lengths]
    return Visited(leaves.log_probs, leaves.symbols, waiting.log_probs, pending, opened)


def _root(tree: Tree) -> _Nodes:
    symbols = np.zeros((1, len(tree.places)), np.int32)  # small, for millions of rows
    return _Nodes(symbols, np.zeros(1, int), np.zeros(1), np.zeros(1))


def _open(predictor: Predictor, tree: Tree, nodes: _Nodes, floor: float) -> tuple[_Nodes, int]:
    """Open nodes; return their children at or above the floor, in order within each length, and
    the number of leading nodes that the release answered."""
    made, answered = nodes.take(np.zeros(0, int)), 0
    contexts = [tree.context(row, n) for row, n in zip(nodes.symbols, nodes.lengths, strict=True)]
    first = 0
    while first < len(nodes):
        length = int(nodes.lengths[first])
        stop = first + int(np.argmin(np.append(nodes.lengths[first:] == length, False)))
        log_probs, given = predictor.distribution(contexts[first:stop], tree.places[length])
        made = made.with_(_children(nodes.take(np.arange(first, first + given)), log_probs[:given]))
        answered += given
        if given < stop - first:
            break
        first = stop
    return made.take(made.log_probs >= floor), answered


def _children(parents: _Nodes, log_probs: np.ndarray) -> _Nodes:
    """Make all children of parents of equal length from log-probabilities (n, symbols), nats."""
    n, c = log_probs.shape
    total = parents.log_probs[:, None] + log_probs
    symbols = np.repeat(parents.symbols, c, axis=0)
    if n:
        symbols[:, parents.lengths[0]] = np.tile(np.arange(c), n)
    return _Nodes(
        symbols,
        np.repeat(parents.lengths + 1, c),
        total.ravel(),
        np.repeat(total.max(axis=1, initial=-np.inf), c),
    )


def _above(leaves: _Nodes, waiting: _Nodes) -> int:
    """Count the candidates that are at least as likely as all unopened prefixes."""
    most = waiting.log_probs.max(initial=-math.inf)
    return int((leaves.log_probs >= most).sum())


def beam(predictor: Predictor, tree: Tree, width: int) -> list[list[int]]:
    """Find likely candidates by beam search; return their symbols, the likeliest first.

    Queries at most `width` prefixes a place, and can miss candidates with an unlikely beginning.
    Gives an empty list if the budget or STOP ends the search early.
    """
    nodes = _root(tree)
    for _ in tree.places:
        if predictor.remaining is not None and predictor.remaining < len(nodes):
            return []
        children, answered = _open(predictor, tree, nodes, -math.inf)
        if answered < len(nodes):
            return []
        nodes = children.take(np.argsort(-children.log_probs, kind="stable")[:width])
    symbols: list[list[int]] = nodes.symbols.tolist()
    return symbols
