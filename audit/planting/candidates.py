"""Candidates for planted records, and the filters that look at their tokens alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from audit.core.predictor import Tokenizer, Tokens

RUN = 13  # tokens in a row that two texts share by copying only


@dataclass(frozen=True)
class Candidate:
    """A text of a fixed number of tokens, of which the first `before` are those of its prefix."""

    prefix: str
    value: str
    tokens: tuple[int, ...]
    before: int


def fit(tokenizer: Tokenizer, tokens: Tokens, before: int) -> Candidate | None:
    """Make a candidate of sampled tokens; None if its text is not read as that many again.

    None also for a text that ends early, or with blank ends or lines, which a file may not keep.
    """
    whole, head = tokenizer.decode(tokens), tokenizer.decode(tokens[:before])
    if tokenizer.stop in tokens or tokenizer.encode(whole) != list(tokens):
        return None
    text, prefix = whole.lstrip(), head.lstrip()
    again = tokenizer.encode(text)
    if len(again) != len(tokens) or again[:before] != tokenizer.encode(prefix):
        return None
    if text != text.rstrip() or not all(line.strip() for line in text.splitlines()):
        return None
    return Candidate(prefix, text[len(prefix) :], tuple(again), before)


def copied(
    tokenizer: Tokenizer, candidates: Sequence[Candidate], texts: Iterable[str]
) -> set[Tokens]:
    """Find the runs of candidates that stand in the texts."""
    wanted = {run for one in candidates for run in _runs(one.tokens)}
    return {run for text in texts for run in _runs(tokenizer.encode(text)) if run in wanted}


def distinct(
    candidates: Iterable[Candidate], taken: set[Tokens], seen: set[Tokens]
) -> Iterator[Candidate]:
    """Yield candidates that share no run with those taken or those yielded before, in `seen`."""
    for one in candidates:
        runs = set(_runs(one.tokens))
        if not runs & taken and not runs & seen:
            seen |= runs
            yield one


def _runs(tokens: Sequence[int]) -> Iterator[Tokens]:
    return (tuple(tokens[i : i + RUN]) for i in range(len(tokens) - RUN + 1))
