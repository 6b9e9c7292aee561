"""ε of teachers' answers: k sums of M pmfs, each noised once (arXiv 2210.05281, section 5).

A unit whose records reach n teachers moves a sum by at most √2·n in L2, and by 2n in L1, because
any two pmfs are at most √2, and 2, apart. Replacing the unit's records moves it no further than
removing them: a teacher without them still answers with a pmf.
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
from audit.core.terms import Relation, Unit
from audit.models.seqpate.student import Distillation
from defenses.training import phrases
from defenses.training.public_text import CHECKED

APART = math.sqrt(2.0)  # ‖p − q‖₂ of two pmfs, at most
RELATION = Relation.ADD_OR_REMOVE  # ε is the same under replace


def mechanism(scale: float, queries: int, teachers: int) -> Mechanism:
    """Describe k answers with Gaussian noise σ on the sum, for a unit in so many teachers."""
    return Mechanism((Gaussians(scale / APART, queries, records=teachers),), RELATION)


def epsilon_of(noise: str, scale: float, queries: int, delta: float, teachers: int) -> float:
    """Compute ε (nats) at δ of k answers, for a unit in so many teachers, add, remove or replace.

    noise: "gaussian", where μ = √(2k)·teachers/σ gives ε in closed form, or "laplace".
    ε is not linear in the number of teachers: nine teachers at ε = 2.85 each give 41.2, not 25.6.
    """
    if noise == "laplace":
        return laplace_epsilon(scale, queries, delta, teachers)
    return epsilon(mechanism(scale, queries, teachers), delta)


def scale_for(noise: str, target: float, queries: int, delta: float, teachers: int) -> float:
    """Find the least σ, or b, for which `epsilon_of` is at most the target (nats)."""
    if noise == "laplace":
        return laplace_scale(target, queries, delta, teachers)
    return APART * teachers * calibrate(target, delta, mechanism(APART, queries, 1))


def promised(
    method: Distillation, delta: float, teachers: int, average: float | None = None
) -> Guarantee:
    """State the guarantee of a student for users whose records reach at most `teachers`.

    average: mean of ε over phrases by which the noise was chosen, in nats; then ε is
        data-dependent.
    """
    scale, queries, noise = method.noise.scale, method.queries, method.noise.kind
    gaussian = noise == "gaussian"
    return Guarantee(
        epsilon=epsilon_of(noise, scale, queries, delta, teachers),
        delta=delta,
        unit=Unit.USER,
        relation=RELATION,
        also=(Relation.REPLACE,),
        release="model",
        basis="worst case" if average is None else "data-dependent",
        theorem="SeqPATE (arXiv 2210.05281, section 5): "
        + (
            f"{queries} Gaussian answers, Δ₂ = √2·{teachers}, composed in closed form"
            if gaussian
            else f"{queries} Laplace answers, Δ₁ = 2·{teachers}, composed by Rényi divergences"
        ),
        conditions=_conditions(method, teachers, average),
        accounting=to_table(mechanism(scale, queries, teachers), delta) if gaussian else None,
        population=method.population,
    )


def _conditions(method: Distillation, teachers: int, average: float | None) -> tuple[str, ...]:
    noise = method.noise
    sign = "σ" if noise.kind == "gaussian" else "b"
    spread = (
        "one teacher learns from all records of a user, chosen by a keyed hash of the user's id"
        if teachers == 1
        else f"at most {teachers} teachers learn from a user, chosen by a keyed hash of the user's "
        "id and of a record's place among the user's records"
    )
    return (
        f"at most {method.queries} questions, and ε is accounted for all of them; each sum of the "
        f"teachers' distributions gets fresh noise, {sign} = {noise.scale:.4g}",
        spread,
        "ε and δ also hold when a user's records are replaced by new ones with the same user id "
        "and places; changing the user id affects twice as many teachers",
        CHECKED,
        f"N = {method.population} is the public number of users, independent of all coins; M, the "
        f"number of questions{f', {sign}' if average is None else ''} and δ follow from it and "
        "from the settings",
        *(() if average is None else (phrases.chosen(average),)),
        "Noise is derived from the seed stored in results.json, so the guarantee holds only "
        "against someone who does not have that file. For a real release use source=system."
        if noise.source == "seed"
        else "noise comes from SHAKE-256 under the operating system's entropy",
        "noise is drawn in float64, not on the real line; a training that stops with an error is "
        "outside the guarantee",
    )
