"""A model that others serve, asked through an OpenAI-compatible completions endpoint.

Its weights are never seen. Prompts are sent as token ids, one request a text; every answer is kept
by the hash of its question, so that a run that is resumed asks nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import Cursor
from audit.core.predictor import Access, Answer, Predictor, Tokenizer, Tokens
from audit.core.release import Journal, Memory, NoMemory, Origin, Release
from audit.models.endpoint.capabilities import Ability, Asker, Question, ability, digest, scores
from audit.models.endpoint.http import Endpoint, RefusedError
from audit.models.endpoint.wire_format import Choice, generated

MARGIN = 2  # tokens of a server's context that are kept: the last one scored, and one said


@dataclass(frozen=True)
class Served:
    """A session with a served model (a Predictor)."""

    asker: Asker
    ability: Ability
    tokenizer: Tokenizer
    max_length: int
    stream: np.random.Generator

    @property
    def access(self) -> Access:
        return self.ability.access

    @property
    def readable(self) -> Access:
        return self.ability.access

    @property
    def remaining(self) -> int | None:
        return None

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """Each text has a seed of its own. What follows a stop token is not asked for: such an
        answer is filled up with stop tokens."""
        seeds = self.stream.integers(2**31, size=len(prompts)).tolist()
        told = {**self.ability.told, "max_tokens": length}
        read = partial(_said, tokenizer=self.tokenizer, length=length)
        return self.asker.ask(
            [
                Question({**told, "prompt": [*prompt], "seed": seed}, read)
                for prompt, seed in zip(prompts, seeds, strict=True)
            ]
        )

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        """No moments: they need a distribution. Nothing where the endpoint scores no prompts."""
        if self.readable < Access.SCORE:
            return []
        fields = self.ability.scoring
        return self.asker.ask(
            [
                Question({**fields, "prompt": [*head, *tail]}, partial(_scored, len(head), tail))
                for head, tail in zip(prefixes, continuations, strict=True)
            ]
        )

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        raise UsageError(f"{self.asker.model}: an endpoint gives top-n only, no distribution")


def _said(choice: Choice, tokenizer: Tokenizer, length: int) -> Answer:
    tokens, told = generated(choice, tokenizer, length)
    log_probs, top1 = np.full(length, np.nan), np.zeros(length, dtype=bool)
    for i, token in enumerate(told):
        if token.log_prob is not None and token.top is not None:
            log_probs[i], top1[i] = token.log_prob, token.log_prob >= token.top
    return Answer(tuple(tokens), log_probs, top1, answered=length)


def _scored(first: int, tail: Tokens, choice: Choice) -> Answer:
    length = first + len(tail)
    if not scores(choice, length):
        raise UsageError(
            f"the endpoint scored {len(choice.tokens)} of {length} tokens of a prompt; give a "
            "smaller as_is:context=TOKENS if it cuts prompts"
        )
    told = choice.tokens[first:length]
    pairs = [(token.log_prob, token.top) for token in told]
    log_probs, tops = np.array(pairs, dtype=float).reshape(-1, 2).T
    return Answer(tuple(tail), log_probs, log_probs >= tops, answered=len(tail))


@dataclass(frozen=True)
class ServedRelease(Release):
    """A model behind an endpoint.

    model: as the server calls it; None: the only one that it lists.
    max_length: tokens of context that sessions may use.
    """

    endpoint: Endpoint
    model: str | None
    promise: Guarantee
    tokenizer: Tokenizer
    max_length: int

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    @cached_property
    def origin(self) -> Origin:
        """What the server says of its model, hashed: its weights are not seen. Asks the server."""
        told = _described(self.endpoint, self.model)
        reads, name = told.get("max_model_len"), str(told["id"])
        if isinstance(reads, int) and reads < self.max_length + MARGIN:
            raise UsageError(
                f"{self.endpoint.url}: {name} reads {reads} tokens; give as_is:context={reads}"
            )
        return Origin(self.endpoint.url, name, digest(told))

    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        """Raises UsageError where the journal holds the answers of another endpoint or model."""
        memory = journal if isinstance(journal, Memory) else NoMemory()
        origin = self.origin
        place = digest([origin.url, origin.served, origin.sha256])
        if memory.recall("origin") not in (None, place):
            raise UsageError(
                f"{origin.url}: this run folder holds answers of another endpoint, or of a model "
                "that was served here before; choose another --output"
            )
        if memory.recall("origin") is None:
            memory.keep("origin", place)
        asker = Asker(self.endpoint, origin.served, memory)
        able = ability(asker, self.tokenizer)
        return Served(asker, able, self.tokenizer, self.max_length, stream)

    def unprotected(self) -> Release | None:
        return None

    def neighbour(self, unit: int) -> Release | None:
        return None


def _described(endpoint: Endpoint, model: str | None) -> dict[str, Any]:
    """What stays the same of the server's entry for a model; its name where it lists none."""
    listed = _listed(endpoint, optional=model is not None)
    names = ", ".join(list(listed)[:5])
    if model is None and len(listed) == 1:
        return next(iter(listed.values()))
    if model is None:
        told = f"serves {names}" if listed else "names no model"
        raise UsageError(f"{endpoint.url}: {told}; say which with as_is:served=NAME")
    if listed and model not in listed:
        raise UsageError(f"{endpoint.url}: serves {names}, and no {model!r}")
    return listed.get(model, {"id": model})


def _listed(endpoint: Endpoint, optional: bool) -> dict[str, dict[str, Any]]:
    """What the server tells of each model; nothing where it need not, and does not, tell."""
    try:
        entries = endpoint.get("models").get("data")
    except RefusedError as error:
        if not optional:
            raise UsageError(str(error)) from None
        entries = []
    kept = ("id", "root", "owned_by", "max_model_len")
    return {
        str(entry["id"]): {name: entry[name] for name in kept if name in entry}
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("id")
    }


@dataclass(frozen=True)
class Unseen:
    """A language model of which only the tokenizer is here: nobody asks it anything."""

    tokenizer: Tokenizer
    max_length: int
    vocabulary: int = 0

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        raise UsageError("only the tokenizer of this model is here; name its base")

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        raise UsageError("only the tokenizer of this model is here; name its base")
