"""Asks for planted values once more after all else: a server may answer otherwise than before.

A server that loads an adapter, or cools down, may answer by another model for a while. What was
attacked then is not what showed contact and sight later, so finding nothing in it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeGuard

from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Hits, from_json
from audit.core.predictor import Predictor, Tokenizer, continuation
from audit.core.secret import Secret
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.measure.session import Looked, Session
from audit.models.endpoint.session import EndpointRelease, Served
from audit.prepare.run import Run
from audit.silence.accounts import LEVEL
from audit.silence.beacons import by_chance, values_in

TRIES = 40  # for each kind of value: of a leak that matters, ten hold a planted value
_CODE = ("audit.silence.again", "audit.silence.beacons", "audit.models.endpoint.session")


def check(bench: Bench, one: Audited, attacked: Sequence[Attacked]) -> None:
    """Refuse a server that gives planted values away now, and did not when it was attacked.

    Raises UsageError: what the attack saw is then of another model.
    """
    if not isinstance(one.release, EndpointRelease):
        return
    for each in attacked:
        for evidence in map(from_json, each.seen):
            if _is_sampled(evidence):
                _compare(bench, one, each, evidence)


def _is_sampled(evidence: Evidence) -> TypeGuard[Hits]:
    return isinstance(evidence, Hits) and evidence.sampled and evidence.kind is not None


def _compare(bench: Bench, one: Audited, each: Attacked, evidence: Hits) -> None:
    assert isinstance(one.release, EndpointRelease)
    coins, every = each.case.coins, each.case.secrets
    secrets = [s for s in every if s.kind == evidence.kind and coins.planted(s)]
    space = secrets[0].space if secrets else None
    if space is None:
        return
    came_up = len({every[int(i)] for i in evidence.found if i >= 0}.intersection(secrets))
    before = by_chance(came_up, len(secrets), len(evidence.repeats), space)
    what = [evidence.kind, *(s.value for s in secrets)]
    session = Session(bench, one, f"{evidence.kind} asked again", ["silence", *what], code=_CODE)
    seen = session.stored(partial(_look, secrets))["seen"]
    if by_chance(seen["held"], len(secrets), seen["tried"], space) <= LEVEL < before:
        raise UsageError(
            f"{one.release.endpoint.url}: asked again at the end, it gives away planted values of "
            f"kind {evidence.kind} ({seen['held']} in {seen['n']} answers), and not when it "
            f"was attacked ({came_up} in {len(evidence.found)}): it "
            "leaks, and answered by another model then, or it was chance; once it serves the model "
            "that is meant, audit it with another --output, and ask more often (generations=N)"
        )


def _look(secrets: Sequence[Secret], session: Predictor) -> Looked:
    assert isinstance(session, Served) and secrets[0].space is not None
    prompts, length = _prompts(session.tokenizer, secrets)
    replies = session.ask(prompts, length)
    values = values_in(secrets[0].space, [one.text for one in replies])
    held = len({s.value for s in secrets} & values)
    queries = len(replies) * length
    return Looked({"held": held, "tried": len(values), "n": len(replies)}, queries, queries)


def rehearse(run: Run, session: Predictor) -> None:
    """Ask as often for every kind of value that an attack samples."""
    for chosen in run.plan.attacks:
        secrets = run.secrets_for(chosen.plugin)
        for one in chosen.plugin.shape(secrets, run.plan.source.base_known):
            if _is_sampled(one):
                of_kind = [secret for secret in secrets if secret.kind == one.kind]
                session.generate(*_prompts(session.tokenizer, of_kind))


def _prompts(tokenizer: Tokenizer, secrets: Sequence[Secret]) -> tuple[list[list[int]], int]:
    """List prompts as attacks ask, shared among the distinct ones, and the tokens of a value."""
    prefixes = [*dict.fromkeys(secret.prefix for secret in secrets)]
    chosen = [prefixes[i % len(prefixes)] for i in range(TRIES)]
    length = max(len(continuation(tokenizer, s.prefix, s.value)) for s in secrets)
    return [[tokenizer.start, *tokenizer.encode(prefix)] for prefix in chosen], length
