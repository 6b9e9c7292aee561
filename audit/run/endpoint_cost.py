"""What a run would ask of an endpoint: every session is gone through, and nobody is asked."""

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
class Rehearsal:
    """A Predictor that answers every question alike, and counts requests and tokens; a text that is
    scored again is none, since answers are kept.

    prompt_tokens: read by the endpoint. said_tokens: generated at most.
    """

    tokenizer: Tokenizer
    max_length: int
    access: Access
    requests: int = 0
    prompt_tokens: int = 0
    said_tokens: int = 0
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

    def _count(self, lengths: Iterable[int], said: int) -> None:
        for length in lengths:
            self.requests += 1
            self.prompt_tokens += length
            self.said_tokens += said


def _answer(tokens: Tokens) -> Answer:
    nothing = np.zeros(len(tokens))
    return Answer(tuple(tokens), nothing, nothing > 0, answered=len(tokens))


def rehearse(prepared: Prepared, access: Access) -> Rehearsal:
    """All sessions of a run with one release of this access, counted together."""
    plan = prepared.plan
    played = Rehearsal(prepared.tokenizer, plan.model.max_length, access)
    draws = stream(plan.seed, "rehearsal")
    texts = tuple(record.text for record in plan.corpus.of("heldout"))
    names = tuple(dict.fromkeys(r.name for r in plan.corpus.of("heldout") if r.name))
    blocks = prepared.text.first(perplexity.FULL_TOKENS).blocks
    played.score([block[:1] for block in blocks], [block[1:] for block in blocks])
    bleu.measure(played, texts, draws)
    for attack in plan.attacks:
        knowledge = Knowledge(None, texts, names, (), draws)
        attack.plugin.run(played, prepared.secrets_for(attack.plugin), knowledge)
    return played
