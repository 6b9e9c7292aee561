"""Sight of a model whose weights are here: does each measure see memorised text in a copy of it?

A copy of the audited weights memorises invented text of a third of the people in of a reserve. Then
every attack runs on the copy as it ran on the release, with the secrets and coins of the reserve. A
measure whose own test does not find that is blind in this model, and its silence shows nothing.
Nothing of this reaches utility, ledger or samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from audit.core.code import code_digest
from audit.core.digest import key_of
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Scores
from audit.core.randomness import derived_seed, stream
from audit.core.release import ModelRelease, NoJournal
from audit.core.terms import Shown
from audit.findings import Case, measurements_of
from audit.measure.bench import Bench
from audit.measure.knowledge import knowledge
from audit.measure.releases import Audited
from audit.models import this_process
from audit.models.causal import CausalLM
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.results.silence import Link
from audit.silence.memorise import memorise, trainable
from audit.silence.reserve import Reserve, reserve_of
from audit.statistics import top_test

LEVEL = 0.001  # at which a measure's own test must find the memorised text

Key = tuple[str, str]  # attack and metric


def sight(bench: Bench, one: Audited) -> dict[Key, Link]:
    """Show for each (attack, metric) of a release whether it sees memorised text in these weights.

    Empty where there is nothing to train, which `unspikable` explains.
    """
    if unspikable(one):
        return {}
    stored = bench.folder.stored(f"spike-{_key(bench.run, one)}", partial(_made, bench.run, one))
    spike = Spike(**stored["spike"])
    return {(attack, metric): spike.link(p) for attack, metric, p in stored["seen"]}


def unspikable(one: Audited) -> str:
    """Return why no copy of a release can be trained; "" where one can."""
    release = one.release
    if not isinstance(release, ModelRelease) or not isinstance(release.model, CausalLM):
        return "The weights are not here, so no copy of them can memorise text."
    if release.texts:
        return "Texts are released, so there are no weights that could memorise others."
    try:
        trainable(release.model.inner, 0)
    except UsageError as error:
        return f"{error}, so no copy of them can memorise text."
    return ""


@dataclass(frozen=True)
class Spike:
    """A copy that was trained. people: of whom it memorised text; steps: of the training.

    above: whether every memorised value stands above all controls.
    """

    people: int
    steps: int
    above: bool

    def link(self, p: float | None) -> Link:
        """Judge a measure by the smallest p-value of its own tests on the copy; None: no test."""
        state = Shown.SHOWN if p is not None and p <= LEVEL else Shown.NOT_SHOWN
        return Link(state=state, by=self._sentence(p, state), n=self.people)

    def _sentence(self, p: float | None, state: Shown) -> str:
        copy = f"a copy of these weights that learnt text of {self.people} invented people"
        steps = f"in {self.steps} steps"
        if p is None:
            return f"in {copy} {steps} this measure has no test"
        if state == Shown.SHOWN:
            return f"this measure sees the text in {copy} {steps} (p = {p:.1g})"
        unlearnt = "" if self.above else ", which these steps did not make it memorise"
        return f"this measure does not see the text in {copy} {steps}{unlearnt} (p = {p:.2g})"


def _key(run: Run, one: Audited) -> str:
    """Hash everything that determines the copy and what is seen in it."""
    plan = run.plan
    modules = {"audit.silence.spike", type(one.release).__module__, *one.code}
    return key_of(
        "spike 1",
        code_digest(*sorted(modules | {type(c.plugin).__module__ for c in plan.attacks})),
        [*one.determined, *plan.source.model.values()],
        [[c.name, c.parameters] for c in plan.attacks],
        [plan.model.sha256, plan.corpus.sha256, plan.seed, plan.device, plan.threads],
        [plan.model.max_length, plan.reach.scores],
        [(s.value, s.copies) for s in run.planted.secrets],
        [version(library) for library in ("torch", "transformers", "peft")],
    )


def _made(run: Run, one: Audited) -> dict[str, Any]:
    """Train the copy and run every attack on it."""
    release = one.release
    assert isinstance(release, ModelRelease) and isinstance(release.model, CausalLM)
    this_process.prepare(run.plan.threads)
    reserve = reserve_of(run)
    seed = derived_seed(run.plan.seed, one.determined[0], "spike")
    copy = memorise(release.model, reserve.memorised, reserve.controls, seed)
    seen = found(run, replace(one, release=replace(release, model=copy.model)), reserve)
    people = len({secret.owner for secret in reserve.memorised})
    return {
        "spike": {"people": people, "steps": copy.steps, "above": copy.above},
        "seen": [[attack, metric, p] for (attack, metric), p in seen.items()],
    }


def found(run: Run, copy: Audited, reserve: Reserve) -> dict[Key, float | None]:
    """Compute by (attack, metric) the smallest p-value of a measure's own tests on the copy."""
    seen: dict[Key, float | None] = {}
    for chosen in run.plan.attacks:
        if chosen.plugin.neighbours:
            continue  # it is about charges, not about text
        case = _case(run, copy, chosen, reserve)
        if case.secrets:
            seen |= {(chosen.label, m): p for m, p in _attack(run, copy, chosen, case).items()}
    return seen


def _case(run: Run, copy: Audited, chosen: Chosen, reserve: Reserve) -> Case:
    assert isinstance(copy.release, ModelRelease)
    return Case(
        attack=chosen.label,
        secrets=tuple(s for s in reserve.secrets if s.kind in chosen.plugin.kinds),
        coins=reserve.coins,
        delta=run.plan.delta,
        seed=derived_seed(run.plan.seed, "spike"),
        access=copy.release.access,
        unit=run.plan.source.unit,
        guarantee=copy.release.guarantee,
    )


def _attack(run: Run, copy: Audited, chosen: Chosen, case: Case) -> Mapping[str, float | None]:
    """Run one attack on the copy, with as many tries as on the release."""
    name = f"{copy.label}/{chosen.label}/spike"
    session = copy.release.open(stream(run.plan.seed, name), NoJournal())
    knows = knowledge(run, copy, chosen, name)
    return p_values(chosen.plugin.run(session, case.secrets, knows), case)


def p_values(evidence: Sequence[Evidence], case: Case) -> dict[str, float | None]:
    """Compute by metric the smallest p-value of the metric's own tests; None where it has none."""
    seen: dict[str, float | None] = {}
    for one in evidence:
        top = _top(one, case) if isinstance(one, Scores) else None
        for m in measurements_of([one], case):
            tests = [m.p_value]
            if isinstance(one, Scores) and m.test == f"{case.attack} {one.target}_{one.score}":
                tests.append(top)
            seen[m.metric] = min((p for p in tests if p is not None), default=None)
    return seen


def _top(scores: Scores, case: Case) -> float | None:
    """Compute the p-value of the top test beside the rank test of a score."""
    about = [scores.kind in (None, secret.kind) for secret in case.secrets]
    members, others = case.sides(np.where(about, scores.values, np.nan))
    if not len(members) or not len(others):
        return None
    share = top_test.best_share(len(members), len(others), LEVEL)
    return top_test.p_value(members, others, share)
