"""A rehearsal of sessions: attacks and utility ask, queries are counted, and no model answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audit.core.attack import Attack, Knowledge, Neighbour, Shadow
from audit.core.law import Law
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from audit.core.randomness import stream
from audit.core.terms import Relation
from audit.measure import bleu, perplexity
from audit.prepare.run import Run


@dataclass
class Rehearsal:
    """A Predictor that finds all tokens alike and counts what it is asked.

    queries: released, scored or read tokens. requests: to an endpoint, which stores its answers:
    a text that is scored again costs none. prompt_tokens: read by the endpoint. generated_tokens:
    generated at most.
    """

    tokenizer: Tokenizer
    vocabulary: int
    max_length: int
    access: Access
    queries: int = 0
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
        self.queries += len(prompts) * length
        self._request(map(len, prompts), length)
        return [self._answer([self.tokenizer.stop] * length) for _ in prompts]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        if self.access < Access.SCORE:
            return []
        self.queries += sum(map(len, continuations))
        texts = {(*head, *tail) for head, tail in zip(prefixes, continuations, strict=True)}
        self._request(map(len, texts - self.scored), 1)
        self.scored |= texts
        return [self._answer(tail) for tail in continuations]

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        self.queries += len(contexts)
        return np.full((len(contexts), len(choices)), self._alike), len(contexts)

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        count = sum(map(len, continuations))
        self.queries += count
        return Law(np.zeros((count, 1)))

    @property
    def _alike(self) -> float:
        return -float(np.log(self.vocabulary))

    def _request(self, lengths: Iterable[int], generated: int) -> None:
        for length in lengths:
            self.requests += 1
            self.prompt_tokens += length
            self.generated_tokens += generated

    def _answer(self, tokens: Tokens) -> Answer:
        log_probs = np.full(len(tokens), self._alike)
        return Answer(tuple(tokens), log_probs, log_probs > 0, answered=len(tokens))


def rehearsed(run: Run) -> dict[str, int]:
    """Count the queries of every attack of a run, by its label, in a session without a budget."""
    asked = {}
    for chosen in run.plan.attacks:
        session = _opened(run, Access.DISTRIBUTION)
        _attack(run, session, chosen.plugin)
        asked[chosen.label] = session.queries
    return asked


def of_endpoint(run: Run, access: Access) -> Rehearsal:
    """Count what all sessions of a run ask of one endpoint with this access."""
    session = _opened(run, access)
    texts = [record.text for record in run.plan.corpus.of("heldout")]
    blocks = run.heldout.first(perplexity.FULL_TOKENS).blocks
    session.score([block[:1] for block in blocks], [block[1:] for block in blocks])
    bleu.measure(session, texts, stream(run.plan.seed, "rehearsal", "completion"))
    for chosen in run.plan.attacks:
        _attack(run, session, chosen.plugin)
    return session


def _opened(run: Run, access: Access) -> Rehearsal:
    model = run.plan.model  # of a tokenizer alone, no vocabulary is known
    return Rehearsal(run.tokenizer, model.vocabulary or 2, model.max_length, access)


def _attack(run: Run, session: Rehearsal, attack: Attack) -> None:
    """Attack a rehearsal; what it asks of others than the release is not counted."""
    others = [replace(session, scored=set()) for _ in range(2 + attack.shadows)]
    secrets = run.secrets_for(attack)
    heldout = run.plan.corpus.of("heldout")
    attack.run(
        session,
        secrets,
        Knowledge(
            public=others[0] if run.plan.source.base_known else None,
            texts=tuple(record.text for record in heldout),
            names=tuple(dict.fromkeys(record.name for record in heldout if record.name)),
            shadows=tuple(Shadow(one, np.arange(len(secrets)) % 2 == 0) for one in others[2:]),
            stream=stream(run.plan.seed, "rehearsal"),
            opened=None if run.plan.source.model else True,
            neighbours=(Neighbour(others[1], 0, Relation.REMOVED),) if attack.neighbours else (),
            order=2.0 if attack.neighbours else None,
        ),
    )
