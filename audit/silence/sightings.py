"""Sight by beacons: what each attack finds of values that many users wrote, in this very model.

An attack runs in a session of its own on the beacons of a kind, as it ran on the people with coins.
Where it compares scores, other values that might have been drawn stand beside each beacon. Beacons
are never a leak, and no coin decides about them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from audit.core.attack import Attack
from audit.core.evidence import (
    Evidence,
    Hits,
    Likelihoods,
    Mentions,
    Ranks,
    Scores,
    Successes,
    from_json,
)
from audit.core.guarantee import Guarantee
from audit.core.predictor import Predictor
from audit.core.randomness import stream
from audit.core.secret import OWN, Secret, Space
from audit.findings import measurements_of
from audit.measure import rehearsal
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.knowledge import knowledge
from audit.measure.rehearsal import Rehearsal
from audit.measure.releases import Audited
from audit.measure.samples import Counted
from audit.measure.session import Looked, Session
from audit.plan.plan import Chosen
from audit.planting.beacons import Beacon
from audit.planting.coverage import lit
from audit.prepare.run import Run
from audit.results.silence import Link
from audit.silence.beacons import OTHERS, Rank, Sighting, hit, link, rank, ranked, tries, values_in
from audit.silence.drawn_words import ByTier, beacons_of
from audit.silence.spike import LEVEL, Key

_COMPARED = {Scores: "values", Likelihoods: "log_probs", Successes: "won"}
_AS_OWN = "record"  # the kind of beacon that is read as a record of a real user is
_CODE = ("audit.silence.sightings", "audit.silence.beacons")


def sight(bench: Bench, one: Audited, attacked: Sequence[Attacked]) -> dict[Key, Link]:
    """Show for each (attack, metric) whether it sees beacons of its kind; {} where none is planted.

    attacked: what every attack of the plan saw, in their order.
    """
    run, links = bench.run, dict[Key, Link]()
    lost = {each.kind: each.sentence for each in run.coverage if not each.whole}
    protected = protects(one.release.guarantee)
    for chosen, each in zip(run.plan.attacks, attacked, strict=True):
        for kind, tiers in aimed_at(run, chosen).items():
            own = [e for e in map(from_json, each.seen) if e.kind in (None, kind)]
            for evidence, seen in zip(own, _seen(bench, one, chosen, kind, tiers), strict=True):
                found = [Sighting(**tier) for tier in seen]
                made = link(
                    found, LEVEL, protected, lost.get(lit(_AS_OWN if kind == OWN else kind), "")
                )
                for m in measurements_of([evidence], each.case):
                    _keep(links, (m.attack, m.metric), made)
    return links


def _keep(links: dict[Key, Link], name: Key, made: Link) -> None:
    """Keep what was not shown: a measure of several kinds must see the beacons of each."""
    known = links.get(name)
    if known is None or known.shown:
        links[name] = made


def protects(guarantee: Guarantee) -> bool:
    """Return whether a promise may hide what few users share."""
    return guarantee.epsilon is not None and math.isfinite(guarantee.epsilon)


def aimed_at(run: Run, chosen: Chosen) -> dict[str, ByTier]:
    """Select the beacons of the kinds that an attack aims at; none for one on charges.

    Where it scores the records of real users, beacons of records stand for these, too.
    """
    if chosen.plugin.neighbours:
        return {}
    beacons = beacons_of(run)
    aimed = {k: tiers for k, tiers in beacons.items() if k in chosen.plugin.kinds}
    secrets = run.secrets_for(chosen.plugin)
    shape = chosen.plugin.shape(secrets, run.plan.source.base_known)
    if any(isinstance(one, Scores) and one.kind == OWN for one in shape):
        aimed |= {OWN: beacons[_AS_OWN]} if _AS_OWN in beacons else {}
    return aimed


@dataclass(frozen=True)
class Asked:
    """Beacons of one kind that an attack is asked about, each followed by as many other values."""

    tiers: ByTier
    others: int
    secrets: tuple[Secret, ...]

    @property
    def space(self) -> Space:
        """The space that all of them are of."""
        return next(iter(self.tiers.values()))[0].space

    def places(self) -> list[tuple[int, list[int]]]:
        """List the users of each tier, and the places of its beacons among the secrets."""
        each = iter(range(0, len(self.secrets), self.others + 1))
        return [(users, [next(each) for _ in some]) for users, some in self.tiers.items()]


def asked_of(run: Run, chosen: Chosen, kind: str, tiers: ByTier) -> Asked:
    """Make the candidates of an attack, with others beside them where it compares candidates."""
    lone = tuple(_secret(one, one.value, 0, kind) for some in tiers.values() for one in some)
    shape = chosen.plugin.shape(lone, run.plan.source.base_known)
    if any(isinstance(one, (Mentions, Ranks)) for one in shape):
        return Asked(tiers, 0, lone)  # names have decoys, and ranks are among all of a space
    secrets = [
        _secret(one, value, number, kind)
        for some in tiers.values()
        for one in some
        for number, value in enumerate(
            (one.value, *one.draw.others(OTHERS, stream(run.plan.seed, "beacons", one.value)))
        )
    ]
    return Asked(tiers, len(secrets) // len(lone) - 1, tuple(secrets))


def _secret(one: Beacon, value: str, number: int, kind: str) -> Secret:
    owner = f"{one.value} {number}"
    if kind == OWN:
        text = f"{one.prefix}{value}"
        return Secret(OWN, "", text, "", None, 1, owner, 0, (text,))
    return Secret(one.kind, one.prefix, value, one.suffix, one.space, 1, owner, 0)


def times(run: Run, chosen: Chosen, kind: str, tiers: ByTier) -> int | None:
    """Compute how often an attack asks the sentence of beacons; None where it asks no sentence.

    Each is asked for as often as each value with a coin, if the least share that matters leaks.
    """
    secrets, coins = run.secrets_for(chosen.plugin), run.planted.coins
    planted = {s.value for s in secrets if s.kind == kind and coins.planted(s)}
    shape = chosen.plugin.shape(secrets, run.plan.source.base_known)
    made = [len(e.found) for e in shape if isinstance(e, Hits) and e.sampled and e.kind == kind]
    if not made or not planted:
        return None
    leaking = Fraction(run.plan.reach.hits)
    return tries(made[0], len(planted), sum(map(len, tiers.values())), leaking)


def as_often(run: Run, chosen: Chosen, kind: str, tiers: ByTier) -> Attack:
    """Return an attack that asks the sentence of beacons as often."""
    attack: Attack = chosen.plugin
    asked = times(run, chosen, kind, tiers)
    return attack if asked is None else attack.asking(asked)


def _seen(
    bench: Bench, one: Audited, chosen: Chosen, kind: str, tiers: ByTier
) -> list[list[dict[str, Any]]]:
    """Load what an attack saw of the beacons of a kind, by its evidence and tier, or hold it."""
    values = [beacon.value for some in tiers.values() for beacon in some]
    asked = times(bench.run, chosen, kind, tiers)
    what = [chosen.name, chosen.parameters, kind, values, asked]
    code = (type(chosen.plugin).__module__, *_CODE)
    session = Session(bench, one, f"{chosen.label}/beacons of {kind}", what, code=code)
    look = partial(_look, bench.run, one, chosen, kind, tiers)
    seen: list[list[dict[str, Any]]] = session.stored(look)["seen"]["sightings"]
    return seen


def _look(
    run: Run, one: Audited, chosen: Chosen, kind: str, tiers: ByTier, session: Predictor
) -> Looked:
    counted, asked = Counted(session), asked_of(run, chosen, kind, tiers)
    knows = knowledge(run, one, chosen, f"{one.label}/{chosen.label}/beacons of {kind}")
    evidence = as_often(run, chosen, kind, tiers).run(counted, asked.secrets, knows)
    seen = [[asdict(tier) for tier in sightings(each, asked)] for each in evidence]
    return Looked({"sightings": seen}, counted.queries, counted.answered)


def rehearse(run: Run, session: Rehearsal) -> None:
    """Ask all that attacks ask of beacons."""
    for chosen in run.plan.attacks:
        for kind, tiers in aimed_at(run, chosen).items():
            secrets = asked_of(run, chosen, kind, tiers).secrets
            rehearsal.rehearse(run, as_often(run, chosen, kind, tiers), secrets, session)


def sightings(evidence: Evidence, asked: Asked) -> list[Sighting]:
    """Test the beacons of each tier, the largest first, by what an attack observed."""
    if isinstance(evidence, (Hits, Mentions)):
        return _came_up(evidence, asked)
    if isinstance(evidence, Ranks):
        size = asked.space.size
        return [ranked(n, [_rank(evidence, i, size) for i in tier]) for n, tier in asked.places()]
    if type(evidence) not in _COMPARED:
        return [Sighting(users, 1.0, "") for users in asked.tiers]
    scores = getattr(evidence, _COMPARED[type(evidence)])
    return [
        ranked(users, [rank(scores[i], scores[i + 1 : i + 1 + asked.others]) for i in tier])
        for users, tier in asked.places()
    ]


def _came_up(evidence: Hits | Mentions, asked: Asked) -> list[Sighting]:
    """Count the beacons that guesses hit, or that texts name, beside all values they could be."""
    named = [*evidence.found] if isinstance(evidence, Hits) else [*sum(evidence.named, ())]
    found = {asked.secrets[int(i)].value for i in named if i >= 0}
    tried = len(values_in(asked.space, evidence.texts) | found)
    if isinstance(evidence, Hits) and not evidence.sampled:
        tried = len(evidence.found)  # the most likely values, each once
    return [
        hit(users, sum(one.value in found for one in some), len(some), tried, asked.space)
        for users, some in asked.tiers.items()
    ]


def _rank(evidence: Ranks, place: int, size: int) -> Rank:
    """Read a rank among all values of a space, or among sampled ones; the last if not measured."""
    whole, sampled = evidence.whole[place], math.isnan(evidence.exact[place])
    of = evidence.spaces[place] if sampled else float(size)
    if math.isnan(whole) or math.isnan(of):
        return Rank(1, 1)
    return Rank(int(min(whole, of)), int(of))
