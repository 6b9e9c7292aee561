"""ε of teachers' answers: k sums of M pmfs, each noised once (arXiv 2210.05281, section 5).

A unit heard by n of the teachers moves a sum by at most √2·n in L2, and by 2n in L1, whatever is
asked: any two pmfs are at most √2, and 2, apart. Replacing the unit's records moves it no further
than removing them, for a teacher without them still answers with a pmf.
"""

from __future__ import annotations

import math

from audit.accounting import (
    Gaussians,
    Mechanism,
    calibrate,
    epsilon,
    laplace_epsilon,
    laplace_scale,
    to_table,
)
from audit.core.guarantee import Guarantee
from audit.models.seqpate.student import Distillation
from defenses._public_text import CHECKED

APART = math.sqrt(2.0)  # ‖p − q‖₂ of two pmfs, at most
RELATION = "add_or_remove"  # and under "replace" just the same


def mechanism(scale: float, queries: int, teachers: int) -> Mechanism:
    """k answers with Gaussian noise of this σ on the sum, for a unit that `teachers` hear."""
    return Mechanism((Gaussians(scale / APART, queries, records=teachers),), RELATION)


def epsilon_of(noise: str, scale: float, queries: int, delta: float, teachers: int) -> float:
    """ε (nats) at δ of k answers, for a unit that so many teachers hear, add, remove or replace.

    noise: "gaussian", whose μ = √(2k)·teachers/σ gives ε in closed form, or "laplace". Not linear
    in the number of teachers: nine teachers at ε = 2.85 each are 41.2, not 25.6.
    """
    if noise == "laplace":
        return laplace_epsilon(scale, queries, delta, teachers)
    return epsilon(mechanism(scale, queries, teachers), delta)


def scale_for(noise: str, target: float, queries: int, delta: float, teachers: int) -> float:
    """The least σ, or b, with `epsilon_of` at most the target (nats)."""
    if noise == "laplace":
        return laplace_scale(target, queries, delta, teachers)
    return APART * teachers * calibrate(target, delta, 1.0, queries, RELATION)


def promised(method: Distillation, delta: float, teachers: int) -> Guarantee:
    """The guarantee of a student for users that `teachers` of its teachers hear, at most."""
    scale, queries, noise = method.noise.scale, method.queries, method.noise.kind
    gaussian = noise == "gaussian"
    return Guarantee(
        epsilon=epsilon_of(noise, scale, queries, delta, teachers),
        delta=delta,
        unit="user",
        relation=RELATION,
        also=("replace",),
        release="model",
        basis="worst case",
        theorem="SeqPATE (arXiv 2210.05281, section 5): "
        + (
            f"{queries} Gaussian answers, Δ₂ = √2·{teachers}, composed in closed form"
            if gaussian
            else f"{queries} Laplace answers, Δ₁ = 2·{teachers}, composed by Rényi divergences"
        ),
        conditions=_conditions(method, teachers),
        accounting=to_table(mechanism(scale, queries, teachers), delta) if gaussian else None,
        population=method.population,
    )


def _conditions(method: Distillation, teachers: int) -> tuple[str, ...]:
    noise = method.noise
    sign = "σ" if noise.kind == "gaussian" else "b"
    spread = (
        "one teacher hears all records of a user, chosen by a keyed hash of the user's id"
        if teachers == 1
        else f"at most {teachers} teachers hear a user, chosen by a keyed hash of the user's id "
        "and of a record's place among the user's records"
    )
    return (
        f"{method.queries} questions at most, counted as asked; each sum of the teachers' "
        f"distributions gets noise of its own, {sign} = {noise.scale:.4g}",
        spread,
        "ε and δ hold as well for records replaced by others of the same user and places; who "
        "changes the user's id changes twice as many teachers",
        CHECKED,
        f"N = {method.population} is the public number of users, before any coin; M, the number of "
        f"questions, {sign} and δ follow from it and from the settings",
        "noise follows from the run's seed, which results.json holds: against those who have "
        "neither; release a model trained with source=system"
        if noise.source == "seed"
        else "noise comes from the operating system",
        "noise is drawn in float64, not on the real line; a training that stops with an error is "
        "outside the guarantee",
    )
