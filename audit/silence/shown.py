"""Collects what one release has shown: that secrets reached it, and that measures see in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from audit.core.release import ModelRelease
from audit.findings import bets
from audit.findings.shows import NO_CONTROL, Shows, not_shown, shown
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.release import Measured, lost
from audit.measure.releases import Audited
from audit.results.silence import Link
from audit.silence import again, answers, counted, own, sightings, spike, weights
from audit.silence.spike import Key

UNLIT = "Through an endpoint only beacons show what a measure sees; none of its kind were planted."


def examined(bench: Bench, one: Audited, measured: Measured) -> Measured:
    """Add what a measured release has shown by itself, and the time that it took to show it.

    Of one that was asked until a leak was decided, nothing more is asked: no silence is said of it.
    """
    if bets.stopped(measured.measurements, measured.family.lots):
        kinds = {secret.kind for secret in bench.run.planted.secrets}
        unasked = dict.fromkeys(sorted(kinds), not_shown(bets.STOPPED))
        return replace(measured, shows=Shows(unasked, unseen=bets.STOPPED))
    began = time.monotonic()
    found = shows(bench, one, lost(bench.run, one), measured.attacked)
    return replace(measured, shows=found, seconds=measured.seconds + time.monotonic() - began)


def shows(
    bench: Bench, one: Audited, missed: Mapping[str, str], attacked: Sequence[Attacked]
) -> Shows:
    """Collect what a release has shown by itself, without any control.

    missed: by kind, as a sentence, what is not known to have reached its training; nothing but a
    fault of an endpoint is named before it. attacked: what every attack saw.
    """
    missing = {
        kind: not_shown(f"{why}.") for kind, why in {**_framed(bench, one), **missed}.items()
    }
    served = answers.contact(bench, one, attacked)
    contact = {**_contact(bench, one), **missing, **served}
    if not one.external:
        return Shows(contact)
    beacons = sightings.sight(bench, one, attacked)
    contact |= own.contact(bench.run, one, beacons)
    if one.release.origin is not None:
        again.check(bench, one, attacked)
        return Shows(contact, beacons, UNLIT)
    spiked = spike.sight(bench, one)
    sight = {name: _either(name, spiked, beacons) for name in {**spiked, **beacons}}
    return Shows(contact, sight, spike.unspikable(one) or NO_CONTROL)


def _either(name: Key, spiked: Mapping[Key, Link], beacons: Mapping[Key, Link]) -> Link:
    """Join what a copy and what beacons show of a measure: each is enough."""
    found = [each[name] for each in (spiked, beacons) if name in each]
    seen = [link for link in found if link.shown] or found
    return Link(state=seen[0].state, by="; ".join(link.by for link in seen), n=seen[0].n)


def _framed(bench: Bench, one: Audited) -> Mapping[str, str]:
    """Name the kinds that were trained on behind other words than attacks ask with.

    A conversation has words of its own, which trainers write in many ways.
    """
    if not one.external or bench.run.plan.source.turn is not None:
        return {}
    kinds = {secret.kind for secret in bench.run.planted.secrets}
    return {c.kind: c.framing for c in bench.run.coverage if c.kind in kinds and c.framing}


def _contact(bench: Bench, one: Audited) -> Mapping[str, Link]:
    """Show contact by kind, as this release allows: counted, or tested on its weights."""
    if not one.external:
        found = counted.contact(bench.run, one)
        null = one.role == "null control"  # it is there to be silent: nothing can leak from it
        return {
            k: shown(link.by, 0) if null and link.by == counted.NOTHING else link
            for k, link in found.items()
        }
    if isinstance(one.release, ModelRelease):
        return weights.contact(bench, one)
    return {}
