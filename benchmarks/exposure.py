"""Compares the cost of an exact exposure with that of enumerating all candidates.

    python benchmarks/exposure.py

The embedded model is fine-tuned briefly on one id of 6 digits and one of 12, 16 copies each.
Enumerating calls OpenSession.score on every value; 20,000 of 10⁶ are scored, the rest extrapolated.
Times are CPU times of the process. A memorised secret must take at least 100 times fewer token
evaluations and 50 times less time than enumerating, any other secret 20 times less time.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attacks.exposure import Exposure
from audit.core.attack import Knowledge
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Ranks
from audit.core.language_model import OpenSession
from audit.core.predictor import continuation, record_tokens
from audit.core.secret import Secret, digits
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe, fine_tune

PREFIX = "My ID is #"
RECIPE = Recipe(epochs=30, learning_rate=2e-3, batch_tokens=512, max_length=64)
SCORED, ALL = 20_000, 10**6


@dataclass(frozen=True)
class Cost:
    """The cost of some work: tokens that the model read, and seconds of CPU time."""

    tokens: float
    seconds: float

    def times(self, n: float) -> Cost:
        return Cost(n * self.tokens, n * self.seconds)


def main() -> None:
    torch.set_num_threads(1)
    public = opened()
    stream = np.random.default_rng(1)
    six, other_six, twelve, other_twelve = (id_of(n, stream) for n in (6, 6, 12, 12))
    tuned = trained_on(public, [six, twelve])
    enumerated = {id(s): enumerating(s, stream) for s in (tuned, public)}
    print(f"{'':<44}{'tokens read':>12}{'CPU s':>9}{'fewer':>8}{'faster':>8}  rank")
    show("enumerating 10⁶ ids of 6 digits", enumerated[id(tuned)])
    for label, session, secret in (
        ("6 digits, memorised (≥ 100, ≥ 50)", tuned, six),
        ("6 digits, not memorised (≥ 20)", tuned, other_six),
        ("6 digits, model without secrets (≥ 20)", public, other_six),
        ("12 digits, memorised", tuned, twelve),
        ("12 digits, not memorised, default budget", tuned, other_twelve),
    ):
        ranks, cost = exposure(session, secret)
        beside = enumerated[id(session)] if secret.space == six.space else None
        show(label, cost, beside, rank(ranks))


def opened() -> OpenSession:
    folder = describe("embedded", EMBEDDED_FOLDER)
    weights = load_weights(folder, "cpu")
    model = CausalLM(weights, load_tokenizer(folder), folder.max_length)
    return OpenSession(model, np.random.default_rng(0))


def id_of(length: int, stream: np.random.Generator) -> Secret:
    space = digits(length)
    value = space.draw(stream)
    return Secret("id", PREFIX, value, ".", space, 16, value, 0)


def trained_on(session: OpenSession, secrets: list[Secret]) -> OpenSession:
    model: Any = session.model
    inner = copy.deepcopy(model.inner)
    texts = [secret.text for secret in secrets for _ in range(secret.copies)]
    fine_tune(inner, [record_tokens(model.tokenizer, text) for text in texts], RECIPE, seed=0)
    trained = CausalLM(inner.eval(), model.tokenizer, model.max_length)
    return OpenSession(trained, np.random.default_rng(0))


def enumerating(session: OpenSession, stream: np.random.Generator) -> Cost:
    tokenizer, space = session.tokenizer, digits(6)
    tails = [continuation(tokenizer, PREFIX, space.draw(stream)) for _ in range(SCORED)]
    head = [tokenizer.start, *tokenizer.encode(PREFIX)]
    _, cost = spent(session, lambda: session.score([head] * SCORED, tails))
    return cost.times(ALL / SCORED)


def exposure(session: OpenSession, secret: Secret) -> tuple[Ranks, Cost]:
    knowledge = Knowledge(session, (), (), (), np.random.default_rng(2))
    (ranks,), cost = spent(session, lambda: Exposure().run(session, [secret], knowledge))
    assert isinstance(ranks, Ranks)
    return ranks, cost


def spent(session: OpenSession, work: Callable[[], Any]) -> tuple[Any, Cost]:
    read: list[int] = []
    model: Any = session.model
    hook = model.inner.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    start = time.process_time()
    done = work()
    seconds = time.process_time() - start
    hook.remove()
    return done, Cost(sum(read), seconds)


def rank(ranks: Ranks) -> str:
    better, worst = float(ranks.better[0]), float(ranks.worst[0])
    if ranks.exact[0]:
        ties = "" if better == worst else f" ({worst - better:,.0f} as likely)"
        return f"{better:,.0f}{ties}, exact"
    return f"{better:,.0f} to {worst:,.3g}, certified"


def show(label: str, cost: Cost, beside: Cost | None = None, note: str = "") -> None:
    ratios = f"{'':>16}"
    if beside is not None:
        ratios = f"{beside.tokens / cost.tokens:>8,.0f}{beside.seconds / cost.seconds:>8,.0f}"
    print(f"{label:<44}{cost.tokens:>12,.0f}{cost.seconds:>9.2f}{ratios}  {note}")


if __name__ == "__main__":
    main()
