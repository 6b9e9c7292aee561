"""Measure what it takes to ask a release, before its models are trained: the public one is each,
with adapters or weights of its own, as trained ones have, so that no two are computed as one.

Runs that differ in their texts alone are measured once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from audit.core.language_model import TOKENS_AT_ONCE, at_once
from audit.core.model import ModelFolder, PreTrainedModel
from audit.core.predictor import Access, Predictor
from audit.core.randomness import stream
from audit.core.release import ModelRelease, NoJournal, Release
from audit.core.training import Trained
from audit.measure.rehearsal import Asked
from audit.models.adapters import fresh, own_weights
from audit.models.causal import CausalLM
from audit.models.ensembles.stacked_gpt2 import is_known
from audit.models.measuring import Peak, measured
from audit.plan.plan import Chosen
from audit.prepare.run import Run

TIMED = 256  # tokens that are asked for of each kind, to time them
LENGTH = 8  # tokens of a text
WRITTEN = 2  # tokens that are generated after each: many texts at once, as attacks ask for them
LONG = 0.5  # seconds of a call that is long enough


@dataclass(frozen=True)
class Asking:
    """Cost of a session with a release: seconds of a query of each kind, and bytes of tensors.

    readable, remaining: as of a `Predictor`.
    """

    readable: Access
    remaining: int | None
    generated: float
    scored: float
    read: float
    memory: float

    def seconds(self, asked: Asked) -> float:
        """Compute the seconds of so many queries."""
        return (
            self.generated * asked.generated + self.scored * asked.scored + self.read * asked.read
        )


def askings(run: Run) -> dict[Chosen, list[Asking]]:
    """Measure the release of each defense, and its unprotected mixture where a run attacks it, once
    in a process."""
    plan = run.plan
    members = tuple(
        (chosen, len(tasks), chosen in run.mixed) for chosen, tasks in run.tasks.items()
    )
    kind = (plan.references, plan.text is None, members)
    return _measured(_Shape(plan.model, plan.device, plan.threads, kind, run))


@dataclass(frozen=True)
class _Shape:
    """Facts that the cost of asking follows from, and one run of this shape."""

    model: ModelFolder
    device: str
    threads: int
    kind: tuple[object, ...]
    run: Run = field(compare=False)


@lru_cache(maxsize=4)
def _measured(shape: _Shape) -> dict[Chosen, list[Asking]]:
    """Measure each release; those that are the public model as a whole are measured once."""
    run, opened = shape.run, dict[Chosen, list[tuple[Access, int | None]]]()

    def work(inner: PreTrainedModel) -> list[float]:
        public = CausalLM(inner, run.tokenizer, shape.model.max_length)
        members = _members(run, public)
        known: dict[tuple[object, ...], list[float]] = {}
        numbers: list[float] = []
        for chosen, tasks in run.tasks.items():
            opened[chosen] = []
            for release in _releases(run, chosen, public, members):
                session = _session(release)
                most = _most(session, run, len(tasks))
                opened[chosen].append((session.readable, session.remaining))
                whole = _is_one_model(release, (public, *members))
                key = (most, session.readable) if whole else (chosen, session.remaining)
                if key not in known:
                    known[key] = _numbers(run, release, most)
                numbers += known[key]
        return numbers

    numbers = measured(shape.model, shape.device, shape.threads, work)
    rows = (numbers[first : first + 4] for first in range(0, len(numbers), 4))
    return {
        chosen: [Asking(*facts, *next(rows)) for facts in some] for chosen, some in opened.items()
    }


def _members(run: Run, public: CausalLM) -> list[CausalLM]:
    """Make as many models as the largest ensemble has, of which no two are alike where that counts:
    models without adapters that are never stacked all are the public one."""
    lora, most = run.plan.model.lora, max(map(len, run.tasks.values()))
    if lora is None and (most < 2 or not is_known(public.inner)):
        return [public] * most
    return [replace(public, inner=_own(fresh(public.inner, lora, i), i)) for i in range(most)]


def _own(model: Any, place: int) -> Any:
    """Move what would be trained, a little and by its place."""
    with torch.no_grad():
        for weight in own_weights(model).values():
            weight.mul_(1 + (place + 1) / 1024)
    return model


def _is_one_model(release: Release, models: Sequence[CausalLM]) -> bool:
    """Return whether a release is one of these models as a whole."""
    return isinstance(release, ModelRelease) and any(release.model is one for one in models)


def _releases(
    run: Run, chosen: Chosen, public: CausalLM, members: Sequence[CausalLM]
) -> list[Release]:
    """Assemble what is attacked, a reader or a model from elsewhere as the public model."""
    if chosen.plugin.external or run.plan.text:
        bare: Any = None
        return [ModelRelease(public, promise=bare)] * (1 + (chosen in run.mixed))
    tasks = zip(run.tasks[chosen], members, strict=False)
    release = chosen.plugin.release(public, [Trained(task.training, one) for task, one in tasks])
    mixture = release.unprotected() if run.plan.references else None
    return [release, *([mixture] if mixture is not None else [])]


def _session(release: Release) -> Predictor:
    return release.open(stream(0, "asking"), NoJournal())


def _most(session: Predictor, run: Run, members: int) -> int:
    """Count the tokens of the largest call to a session, of two parts where it has a size of its
    own for them: the second is read while the first is held."""
    most = at_once(TOKENS_AT_ONCE, run.plan.model.vocabulary * (members + 1))
    return min(most, 2 * getattr(session, "at_once", most))


def _numbers(run: Run, release: Release, most: int) -> list[float]:
    """Time one query of each kind that the release answers; watch the largest call for memory."""
    start = run.tokenizer.start
    prompts = [b[:LENGTH] for b in run.heldout.blocks if len(b) > LENGTH] or [(start, start)]
    with Peak() as peak:
        _score(_session(release), prompts, most)
    calls = (_generate, _score, _read)
    return [*(_timed(call, _session(release), prompts) for call in calls), float(peak.most)]


Call = Callable[[Predictor, Sequence[Sequence[int]], int], int]


def _timed(call: Call, session: Predictor, prompts: Sequence[Sequence[int]]) -> float:
    """Time a call of few tokens; of more, while that does not take long."""
    took, queries = 0.0, 0
    for tokens in (LENGTH, TIMED // 8, TIMED):
        began = time.perf_counter()
        if asked := call(session, prompts, tokens):
            took, queries = time.perf_counter() - began, asked
        if took > LONG:
            break
    return took / queries if queries else 0.0


def _generate(session: Predictor, prompts: Sequence[Sequence[int]], queries: int) -> int:
    """Make a session write texts; return the number of queries."""
    texts = _allowed(session, queries) // WRITTEN
    answers = session.generate([prompts[0]] * texts, WRITTEN)
    return sum(answer.answered for answer in answers)


def _score(session: Predictor, prompts: Sequence[Sequence[int]], queries: int) -> int:
    if session.readable < Access.SCORE:
        return 0
    texts = _allowed(session, queries) // LENGTH
    chosen = [prompts[i % len(prompts)] for i in range(texts)]
    tails = [[*one[1:], *one][:LENGTH] for one in chosen]
    answers = session.score([one[:1] for one in chosen], tails)
    return sum(answer.answered for answer in answers)


def _read(session: Predictor, prompts: Sequence[Sequence[int]], queries: int) -> int:
    if session.readable < Access.DISTRIBUTION:
        return 0
    count = _allowed(session, queries)
    return session.distribution([prompts[i % len(prompts)] for i in range(count)], [0])[1]


def _allowed(session: Predictor, queries: int) -> int:
    return queries if session.remaining is None else min(queries, session.remaining)
