"""Collects what one release has shown: that secrets reached it, and that measures see in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.core.release import ModelRelease
from audit.findings.shows import NO_CONTROL, Shows, not_shown
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.results.measurement import Link
from audit.silence import answers, counted, spike, weights


def shows(
    bench: Bench, one: Audited, lost: Mapping[str, str], attacked: Sequence[Attacked]
) -> Shows:
    """Collect what a release has shown by itself, without any control.

    lost: by kind, as a sentence, what is not known to have reached its training; nothing but a
    fault of an endpoint is named before it. attacked: what every attack saw.
    """
    missing = {kind: not_shown(f"{why}.") for kind, why in lost.items()}
    served = answers.contact(bench, one, attacked, lost)
    contact = {**_contact(bench, one), **missing, **served}
    if not one.external or one.release.origin is not None:
        return Shows(contact)
    return Shows(contact, spike.sight(bench, one), spike.unspikable(one) or NO_CONTROL)


def _contact(bench: Bench, one: Audited) -> Mapping[str, Link]:
    """Show contact by kind, as this release allows: counted, or tested on its weights."""
    if not one.external:
        return counted.contact(bench.run, one)
    if isinstance(one.release, ModelRelease):
        return weights.contact(bench, one)
    return {}
