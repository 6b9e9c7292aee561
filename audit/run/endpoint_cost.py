"""Counts what a run would ask of an endpoint, by going through every session without asking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from audit.core.attack import Knowledge
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from audit.core.randomness import stream
from audit.measure import bleu, perplexity
from audit.train.prepare import Prepared


@dataclass
class EndpointCost:
    """A Predictor that answers every query alike and counts requests and tokens.

    A text that is scored again costs nothing: answers are stored.

    prompt_tokens: read by the endpoint. generated_tokens: generated at most.
    """

    tokenizer: Tokenizer
    max_length: int
    access: Access
    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    scored: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def readable(self) -> Access:
        return self.access

    @property
    def remaining(self) -> int | None:
        return None

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        self._count(map(len, prompts), length)
        return [_answer([self.tokenizer.stop] * length) for _ in prompts]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        if self.access < Access.SCORE:
            return []
        texts = {(*head, *tail) for head, tail in zip(prefixes, continuations, strict=True)}
        self._count(map(len, texts - self.scored), 1)
        self.scored |= texts
        return [_answer(tail) for tail in continuations]

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        raise NotImplementedError("an endpoint gives no distribution")

    def _count(self, lengths: Iterable[int], generated: int) -> None:
        for length in lengths:
            self.requests += 1
            self.prompt_tokens += length
            self.generated_tokens += generated


def _answer(tokens: Tokens) -> Answer:
    nothing = np.zeros(len(tokens))
    return Answer(tuple(tokens), nothing, nothing > 0, answered=len(tokens))


def endpoint_cost(prepared: Prepared, access: Access) -> EndpointCost:
    """Adds up all sessions of a run with one release of this access."""
    plan = prepared.plan
    counted = EndpointCost(prepared.tokenizer, plan.model.max_length, access)
    draws = stream(plan.seed, "rehearsal")
    texts = tuple(record.text for record in plan.corpus.of("heldout"))
    names = tuple(dict.fromkeys(r.name for r in plan.corpus.of("heldout") if r.name))
    blocks = prepared.heldout.first(perplexity.FULL_TOKENS).blocks
    counted.score([block[:1] for block in blocks], [block[1:] for block in blocks])
    bleu.measure(counted, texts, draws)
    for attack in plan.attacks:
        knowledge = Knowledge(None, texts, names, (), draws, opened=None)
        attack.plugin.run(counted, prepared.secrets_for(attack.plugin), knowledge)
    return counted
