"""Language models h : Σ* → Δ^|Σ|, as in the papers, and an unlimited session with one."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch

from audit.core.predictor import Access, Answer, Tokenizer, Tokens

TOKENS_AT_ONCE = 2048  # scored in one forward pass
_CONTEXTS_AT_ONCE = 512  # whose next distribution is read in one forward pass
_NUMBERS_AT_ONCE = 1 << 26  # of distributions that are held at once, in float64: 512 MiB
_KEPT_AT_ONCE = 1 << 28  # of keys and values, in float32: 1 GiB
NOTHING = Answer((), np.empty(0), np.empty(0, dtype=bool), answered=0)
R = TypeVar("R")
Use = Callable[[torch.Tensor, slice], R]  # of rows of distributions, with their place among all


class Cursor(Protocol):
    """State of a model that reads n texts together, one token at a time."""

    def log_pmf(self) -> torch.Tensor:
        """Return the next-token distribution after each text: (n, V), float64, nats."""

    def append(self, tokens: torch.Tensor) -> None:
        """Append one token to each text; shape (n,)."""


class Reader(Protocol):
    """One language model that reads texts, or several that are queried together.

    vocabulary: number V of tokens. max_length: most tokens of context.
    """

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def max_length(self) -> int: ...


class LanguageModel(Reader, Protocol):
    """A model with next-token distributions after any context.

    A model that keeps keys and values has in `kept` how many numbers they are for each token.
    """

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        """Read prompts of *equal length*, to which tokens can then be appended."""

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        """Return the distributions of every text[start:], one text after the other: shape
        (Σ len(text) − start, V), float64, nats. Each start is at least 1."""


def read_in_parts(
    model: LanguageModel,
    texts: Sequence[Tokens],
    starts: Sequence[int],
    use: Use[R],
) -> list[R]:
    """Use the distributions that `log_pmfs` would return, some of their rows at a time.

    A model with a method `in_parts` holds few of them at once; others have one part.
    use: called with rows, and their place among all.
    """
    if hasattr(model, "in_parts"):
        parts: list[R] = model.in_parts(texts, starts, use)
        return parts
    log_pmfs = model.log_pmfs(texts, starts)
    return [use(log_pmfs, slice(0, len(log_pmfs)))]


def scored_at_once(model: LanguageModel) -> int:
    """Count the tokens to read together where `read_in_parts` reads them."""
    numbers = 1 if hasattr(model, "in_parts") else model.vocabulary
    return at_once(TOKENS_AT_ONCE, numbers, kept_of(model))


def at_once(most: int, numbers: int, kept: int = 0) -> int:
    """Decide how many texts (or tokens) are read together, so that memory suffices: 1 to `most`.

    numbers: of the distributions that are held for one of them: V, or m·V for m models.
    kept: of its keys and values.
    """
    return max(1, min(most, _NUMBERS_AT_ONCE // numbers, _KEPT_AT_ONCE // max(1, kept)))


def kept_of(model: Reader) -> int:
    """Count the keys and values that a model keeps of a token: its `kept`, 0 if it has none."""
    return int(getattr(model, "kept", 0))


def temper(log_pmf: torch.Tensor, temperature: float) -> torch.Tensor:
    """Compute log of pmf^(1/T), normalised along the last axis, nats."""
    if temperature == 1.0:
        return log_pmf
    return torch.log_softmax(log_pmf / temperature, dim=-1)


class Around(ABC):
    """Reads what the model or ensemble inside it reads."""

    inner: Reader

    @property
    def kept(self) -> int:
        return kept_of(self.inner)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def vocabulary(self) -> int:
        return self.inner.vocabulary

    @property
    def max_length(self) -> int:
        return self.inner.max_length


@dataclass(frozen=True)
class Tempered(Around):
    """A language model sampled at temperature T."""

    inner: LanguageModel
    temperature: float

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        return _TemperedCursor(self.inner.cursor(prompts), self.temperature)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return temper(self.inner.log_pmfs(texts, starts), self.temperature)

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        def use_tempered(log_pmfs: torch.Tensor, at: slice) -> R:
            return use(temper(log_pmfs, self.temperature), at)

        return read_in_parts(self.inner, texts, starts, use_tempered)


@dataclass(frozen=True)
class _TemperedCursor:
    inner: Cursor
    temperature: float

    def log_pmf(self) -> torch.Tensor:
        return temper(self.inner.log_pmf(), self.temperature)

    def append(self, tokens: torch.Tensor) -> None:
        self.inner.append(tokens)


def sample(log_pmf: torch.Tensor, uniform: np.ndarray) -> torch.Tensor:
    """Sample tokens (n,) from log_pmf (n, V) by inverse CDF, with uniforms (n,) in [0, 1).

    Each token has its own uniform number, fixed by its place in the session. So neither batching
    nor a replay can change which token a distribution gives.
    """
    cumulative = log_pmf.exp().cumsum(dim=-1)
    draws = torch.as_tensor(uniform, dtype=cumulative.dtype, device=cumulative.device)
    target = draws[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
    return tokens.clamp_(max=log_pmf.shape[-1] - 1)


def equal_length_batches(prompts: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Group indices of prompts into batches of equal length and at most `size`."""
    by_length: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    for indices in by_length.values():
        for first in range(0, len(indices), size):
            yield indices[first : first + size]


def runs_of(lengths: Sequence[int], tokens: int) -> Iterator[slice]:
    """Group consecutive texts of at most `tokens` tokens together; a longer text is alone."""
    first, total = 0, 0
    for i, length in enumerate(lengths):
        if i > first and total + length > tokens:
            yield slice(first, i)
            first, total = i, 0
        total += length
    if lengths:
        yield slice(first, len(lengths))


@dataclass(frozen=True)
class OpenSession:
    """An unlimited session with a language model (a Predictor).

    readable: what an auditor may read beside what the release gives away. texts: published in place
        of the model, which is then one that a reader trained on them; () for none.
    """

    model: LanguageModel
    stream: np.random.Generator
    batch: int = 128
    access: Access = Access.DISTRIBUTION
    readable: Access = Access.DISTRIBUTION
    texts: tuple[str, ...] = ()
    remaining = None

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def max_length(self) -> int:
        return self.model.max_length

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        uniforms = self.stream.random((len(prompts), length))
        answers: dict[int, Answer] = {}
        kept = kept_of(self.model) * (max(map(len, prompts), default=0) + length)
        size = at_once(self.batch, self.model.vocabulary, kept)
        for batch in equal_length_batches(prompts, size):
            drawn = draw(self.model, [prompts[i] for i in batch], uniforms[batch])
            answers.update(zip(batch, drawn, strict=True))
        return [answers[i] for i in range(len(prompts))]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
        answers: dict[int, Answer] = {}
        for some in runs_of([len(texts[i]) for i in order], scored_at_once(self.model)):
            run = order[some]
            tails = [continuations[i] for i in run]
            flat = [token for tail in tails for token in tail]
            parts = read_in_parts(
                self.model,
                [texts[i] for i in run],
                [len(prefixes[i]) for i in run],
                lambda log_pmfs, at, flat=flat: read_tokens(flat[at], log_pmfs, moments),  # type: ignore[misc]
            )
            answers.update(zip(run, answers_of(tails, parts), strict=True))
        return [answers[i] for i in range(len(texts))]

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        read = np.empty((len(contexts), len(choices)))
        kept = kept_of(self.model) * max(map(len, contexts), default=0)
        size = at_once(_CONTEXTS_AT_ONCE, self.model.vocabulary, kept)
        for batch in equal_length_batches(contexts, size):
            log_pmf = self.model.cursor([contexts[i] for i in batch]).log_pmf()
            read[batch] = log_pmf[:, list(choices)].cpu().numpy()
        return read, len(contexts)


def draw(model: LanguageModel, prompts: Sequence[Tokens], uniforms: np.ndarray) -> list[Answer]:
    """Sample uniforms.shape[1] tokens after each of the equally long prompts."""
    cursor = model.cursor(prompts)
    length = uniforms.shape[1]
    columns = []
    for step in range(length):
        log_pmf = cursor.log_pmf()
        tokens = sample(log_pmf, uniforms[:, step])
        chosen = log_pmf.gather(1, tokens[:, None])[:, 0]
        columns.append((tokens, chosen, log_pmf.argmax(dim=1) == tokens))
        if step + 1 < length:
            cursor.append(tokens)
    stacked = [torch.stack(column, dim=1).cpu().numpy() for column in zip(*columns, strict=True)]
    return [
        Answer(tuple(int(t) for t in row), log_probs, top1, answered=length)
        for row, log_probs, top1 in zip(*stacked, strict=True)
    ]


def answers_of(continuations: Sequence[Tokens], parts: Sequence[Answer]) -> list[Answer]:
    """Make one Answer for each continuation from what was read of all their tokens in order.

    Tokens that the release answered come before all that it did not.
    """
    return _split(continuations, _joined(parts) if parts else NOTHING)


def read_tokens(
    tokens: Sequence[int],
    log_pmfs: torch.Tensor,
    moments: bool = False,
    log_caps: torch.Tensor | None = None,
) -> Answer:
    """Read tokens (n,) from the distributions (n, V) that they follow, nats.

    log_caps: shape of log_pmfs, nats: upper bounds that a paper reports instead, or None.
    """
    flat = torch.tensor(tokens, dtype=torch.long, device=log_pmfs.device)

    def of_tokens(logs: torch.Tensor) -> np.ndarray:
        chosen: np.ndarray = logs.gather(1, flat[:, None])[:, 0].cpu().numpy()
        return chosen

    return Answer(
        tuple(tokens),
        log_probs=of_tokens(log_pmfs),
        top1=(log_pmfs.argmax(dim=1) == flat).cpu().numpy(),
        answered=len(tokens),
        moments=moments_of(log_pmfs).cpu().numpy() if moments else None,
        log_caps=None if log_caps is None else of_tokens(log_caps),
    )


def _joined(parts: Sequence[Answer]) -> Answer:
    """Join the answers for consecutive tokens; the cap of a token without one is its own value."""
    moments = [part.moments for part in parts if part.moments is not None]
    caps = [part.log_probs if part.log_caps is None else part.log_caps for part in parts]
    capped = any(part.log_caps is not None for part in parts)
    return Answer(
        tuple(token for part in parts for token in part.tokens),
        np.concatenate([part.log_probs for part in parts]),
        np.concatenate([part.top1 for part in parts]),
        answered=sum(part.answered for part in parts),
        moments=np.concatenate(moments, axis=1) if moments else None,
        log_caps=np.concatenate(caps) if capped else None,
    )


def _split(continuations: Sequence[Tokens], whole: Answer) -> list[Answer]:
    """Split the answer for all tokens into one for each continuation."""
    answers, first = [], 0
    for tokens in continuations:
        here = slice(first, first + len(tokens))
        answers.append(
            Answer(
                tokens=tuple(tokens),
                log_probs=whole.log_probs[here],
                top1=whole.top1[here],
                answered=min(max(whole.answered - first, 0), len(tokens)),
                moments=None if whole.moments is None else whole.moments[:, here],
                log_caps=None if whole.log_caps is None else whole.log_caps[here],
            )
        )
        first += len(tokens)
    return answers


def moments_of(log_pmfs: torch.Tensor) -> torch.Tensor:
    """Compute mean and standard deviation of log p(z), z ~ p: (n, V) to (2, n), nats.

    Accurate to 1e-5 nats: float32 takes half the time, and values are centred before squaring.
    """
    logs = log_pmfs.float().clamp_(min=-200)  # so that 0 · log 0 is 0
    pmf = logs.exp()
    mean = (pmf * logs).sum(dim=1)
    logs -= mean[:, None]
    variance = pmf.mul_(logs).mul_(logs).sum(dim=1)
    return torch.stack([mean, variance.sqrt_()]).double()
