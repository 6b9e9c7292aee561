"""A rehearsal of sessions: attacks and utility ask, queries are counted, and no model answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from audit.core.attack import Attack, Neighbour, Shadow
from audit.core.law import Law
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from audit.core.randomness import stream
from audit.core.secret import Secret
from audit.core.terms import Relation
from audit.measure import bleu, perplexity
from audit.measure.knowledge import with_texts
from audit.prepare.run import Run


@dataclass
class Asked:
    """Queries of a session: tokens generated, tokens scored, and distributions read."""

    generated: int = 0
    scored: int = 0
    read: int = 0

    @property
    def queries(self) -> int:
        return self.generated + self.scored + self.read


@dataclass
class Rehearsal:
    """A Predictor that finds all tokens alike and counts what it is asked.

    budget: queries that it answers; None: no limit. requests: to an endpoint, which stores its
    answers: a text that is scored again costs none. prompt_tokens: read by the endpoint.
    """

    tokenizer: Tokenizer
    vocabulary: int
    max_length: int
    access: Access
    budget: int | None = None
    asked: Asked = field(default_factory=Asked)
    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    scored: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def readable(self) -> Access:
        return self.access

    @property
    def remaining(self) -> int | None:
        return None if self.budget is None else max(0, self.budget - self.asked.queries)

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        self.asked.generated += len(prompts) * length
        self._request(map(len, prompts), length)
        return [self._answer([self.tokenizer.stop] * length) for _ in prompts]

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        if self.access < Access.SCORE:
            return []
        self.asked.scored += sum(map(len, continuations))
        texts = {(*head, *tail) for head, tail in zip(prefixes, continuations, strict=True)}
        self._request(map(len, texts - self.scored), 1)
        self.scored |= texts
        return [self._answer(tail) for tail in continuations]

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        self.asked.read += len(contexts)
        return np.full((len(contexts), len(choices)), self._alike), len(contexts)

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        count = sum(map(len, continuations))
        self.asked.scored += count
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


def rehearsed(
    run: Run, access: Access = Access.DISTRIBUTION, budget: int | None = None
) -> dict[str, Asked]:
    """Count the queries of every session of a run with one release, by its purpose."""
    looks: dict[str, Callable[[Rehearsal], object]] = {
        "utility": lambda s: perplexity.read(s, run.heldout, run.plan.utility_tokens),
        "completion": lambda s: bleu.measure(s, *_completed(run)),
        **{c.label: partial(_attack, run, c.plugin) for c in run.plan.attacks},
    }
    asked = {}
    for purpose, look in looks.items():
        session = opened(run, access, budget)
        look(session)
        asked[purpose] = session.asked
    return asked


def of_endpoint(run: Run, access: Access) -> Rehearsal:
    """Count what all sessions of a run ask of one endpoint with this access."""
    session = opened(run, access)
    perplexity.read(session, run.heldout, run.plan.utility_tokens)
    bleu.measure(session, *_completed(run))
    for chosen in run.plan.attacks:
        _attack(run, chosen.plugin, session)
    return session


def _completed(run: Run) -> tuple[list[str], np.random.Generator]:
    texts = [record.text for record in run.plan.corpus.of("heldout")]
    return texts, stream(run.plan.seed, "rehearsal", "completion")


def opened(run: Run, access: Access, budget: int | None = None) -> Rehearsal:
    """Open a rehearsal with a release of a run. budget: queries that it answers; None: all."""
    model = run.plan.model  # of a tokenizer alone, no vocabulary is known
    return Rehearsal(run.tokenizer, model.vocabulary or 2, model.max_length, access, budget)


def _attack(run: Run, attack: Attack, session: Rehearsal) -> None:
    rehearse(run, attack, run.secrets_for(attack), session)


def rehearse(run: Run, attack: Attack, secrets: Sequence[Secret], session: Rehearsal) -> None:
    """Attack a rehearsal; what it asks of others than the release is not counted."""
    others = [replace(session, asked=Asked(), scored=set()) for _ in range(2 + attack.shadows)]
    attack.run(
        session,
        secrets,
        with_texts(
            run,
            public=others[0] if run.plan.source.base_known else None,
            shadows=tuple(Shadow(one, np.arange(len(secrets)) % 2 == 0) for one in others[2:]),
            stream=stream(run.plan.seed, "rehearsal"),
            opened=None if run.plan.source.model else True,
            neighbours=(Neighbour(others[1], 0, Relation.REMOVED),) if attack.neighbours else (),
            order=2.0 if attack.neighbours else None,
        ),
    )
