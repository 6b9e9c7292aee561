"""Best-first search in the prefix tree of a space of secrets.

A prefix is at least as likely as any secret that begins with it. So once no unopened prefix is more
likely than a secret, every candidate above that secret has been seen, and its rank is exact; where
the search stops earlier, what is unopened bounds the rank from above.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from audit.core.errors import UsageError
from audit.core.predictor import Predictor, Tokenizer, continuation
from audit.core.secret import Space

_AT_ONCE = 4096  # prefixes opened together, at most
_UNLIMITED = 1 << 62
_PAIRS = 20_000  # of neighbouring symbols that are checked, at most


@dataclass(frozen=True)
class Tree:
    """All values of a space, as tokens after `prompt`: one of `places[i]` at each place i."""

    prompt: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """|R|."""
        return math.prod(map(len, self.places))

    def below(self, length: int) -> int:
        """How many candidates share a prefix of so many symbols."""
        return math.prod(map(len, self.places[length:]))

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether a value of these tokens stands in the tree."""
        both = zip(self.places, tokens, strict=False)
        return len(tokens) == len(self.places) and all(token in place for place, token in both)

    def symbols(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Which symbol a value has at each place, given its tokens."""
        places = zip(self.places, tokens, strict=True)
        return tuple(place.index(token) for place, token in places)

    def context(self, symbols: np.ndarray, length: int) -> tuple[int, ...]:
        """The tokens of a prefix of so many symbols, after the prompt."""
        chosen = zip(self.places[:length], symbols[:length].tolist(), strict=True)
        return (*self.prompt, *(place[symbol] for place, symbol in chosen))


def tree_of(tokenizer: Tokenizer, prefix: str, space: Space) -> Tree | None:
    """The tree of a space after a prefix; None where symbols are not single tokens.

    Checked on every pair of neighbouring symbols: a tokenizer that merges two digits anywhere
    has no tree of digits.
    """
    symbols = space.symbols
    pairs = sum(len(a) * len(b) for a, b in pairwise(symbols))
    if not symbols or pairs > _PAIRS:
        return None
    first = [place[0] for place in symbols]

    def tokens(changed: dict[int, str]) -> list[int]:
        text = "".join(changed.get(i, symbol) for i, symbol in enumerate(first))
        return continuation(tokenizer, prefix, text)

    try:
        base = tokens({})
        single = [[tokens({i: s}) for s in place] for i, place in enumerate(symbols)]
        if any(len(t) != len(symbols) for place in single for t in place):
            return None
        places = [[t[i] for t in place] for i, place in enumerate(single)]
        for i in range(len(symbols) - 1):
            for (j, a), (k, b) in product(enumerate(symbols[i]), enumerate(symbols[i + 1])):
                expected = [*base[:i], places[i][j], places[i + 1][k], *base[i + 2 :]]
                if tokens({i: a, i + 1: b}) != expected:
                    return None
    except UsageError:  # the tokenizer does not give some value back
        return None
    prompt = (tokenizer.start, *tokenizer.encode(prefix))
    return Tree(prompt, tuple(map(tuple, places)))


@dataclass(frozen=True)
class Found:
    """What a search saw.

    log_probs: shape (n,), nats, of the candidates found, the most likely first.
    symbols: shape (n, places): which symbol they have at each place.
    pending, below: shape (p,): log-probability of each unopened prefix, and how many candidates
        begin with it. Whatever was below the floor is in neither.
    opened: how many prefixes were asked about.
    """

    log_probs: np.ndarray
    symbols: np.ndarray
    pending: np.ndarray
    below: np.ndarray
    opened: int

    def places(self, symbols: Sequence[Sequence[int]]) -> np.ndarray:
        """(s,), int: where in the arrays each secret with these symbols is; −1: not found."""
        at = np.full(len(symbols), -1)
        if not len(self.symbols):
            return at
        powers = np.array(1_000_003, np.int64) ** np.arange(self.symbols.shape[1])  # modulo 2⁶⁴
        codes = self.symbols @ powers  # may collide: equal ones are looked at again
        for i, row in enumerate(np.array(symbols, dtype=np.int64).reshape(-1, len(powers))):
            alike = np.flatnonzero(codes == row @ powers)
            same = alike[(self.symbols[alike] == row).all(axis=1)]
            at[i] = same[0] if len(same) else -1
        return at

    def ranks(self, log_prob: float, tolerance: float) -> tuple[int, int]:
        """Certified (best, worst) rank of a secret of this log-probability at or above the floor.

        Differences up to `tolerance` (nats) count as ties, and ties against the secret. Under a
        prefix of probability P at most P/p candidates can be as likely as p.
        """
        better = int((self.log_probs > log_prob + tolerance).sum())
        as_good = int((self.log_probs >= log_prob - tolerance).sum())
        with np.errstate(invalid="ignore"):  # −∞ under −∞: as good as all that begin with it
            room = np.exp(np.fmin(self.pending - (log_prob - tolerance), 700.0))
        hidden = float(np.minimum(self.below, np.floor(room)).sum())
        return better + 1, max(better + 1, as_good + int(hidden))


@dataclass(frozen=True)
class _Nodes:
    """Prefixes, or candidates: symbols (n, places), length (n,), log-probability (n,) in nats, and
    that of the most likely sibling (n,): siblings share their context, so that opening them
    together saves time (but no queries, where they are counted)."""

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
) -> Found:
    """Opens the most likely prefixes first, until no candidate at or above `floor` (nats) is left.

    Many at a time, but few enough that half the budget follows a memorised secret to its end.
    budget: prefixes opened at most. enough: stops once so many candidates are more likely than
    anything unopened. seconds: stops after so long, where another run will not stop again.
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
        batch = batch[np.argsort(waiting.lengths[batch], kind="stable")]  # few calls, many in each
        children, answered = _open(predictor, tree, waiting.take(batch), floor)
        opened += answered
        waiting = waiting.take(np.delete(np.arange(len(waiting)), batch[:answered]))
        whole = children.lengths == places
        leaves = leaves.with_(children.take(whole))
        waiting = waiting.with_(children.take(~whole))
        if answered < len(batch):
            break  # STOP: what came after was not answered by the release
        if enough is not None and _above(leaves, waiting) >= enough:
            break
    leaves = leaves.take(np.argsort(-leaves.log_probs, kind="stable"))
    below = np.array([float(tree.below(int(length))) for length in range(places + 1)])
    pending = below[waiting.lengths]
    return Found(leaves.log_probs, leaves.symbols, waiting.log_probs, pending, opened)


def _root(tree: Tree) -> _Nodes:
    symbols = np.zeros((1, len(tree.places)), np.int32)  # there can be millions
    return _Nodes(symbols, np.zeros(1, int), np.zeros(1), np.zeros(1))


def _open(predictor: Predictor, tree: Tree, nodes: _Nodes, floor: float) -> tuple[_Nodes, int]:
    """The children, at or above the floor, of the nodes that were answered, in the nodes' order
    within each length; and how many nodes that were."""
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
    """All children of parents of one length, given the log-probabilities (n, symbols) of each."""
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
    """How many candidates are at least as likely as anything unopened."""
    most = waiting.log_probs.max(initial=-math.inf)
    return int((leaves.log_probs >= most).sum())


def beam(predictor: Predictor, tree: Tree, width: int) -> list[list[int]]:
    """The symbols of the likeliest candidates that a beam of this width finds, likeliest first.

    Asks about at most `width` prefixes a place, and may miss what a worse beginning leads to.
    Nothing where the budget or STOP cuts it short.
    """
    nodes = _root(tree)
    for _ in tree.places:
        if predictor.remaining is not None and predictor.remaining < len(nodes):
            return []
        children, answered = _open(predictor, tree, nodes, -math.inf)
        if answered < len(nodes):
            return []
        nodes = children.take(np.argsort(-children.log_probs, kind="stable")[:width])
    found: list[list[int]] = nodes.symbols.tolist()
    return found
