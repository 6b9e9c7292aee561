"""Collects what one release has shown: that secrets reached it, and that measures see in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.findings.shows import Shows, not_shown, shown
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.results.measurement import Link
from audit.silence import answers


def shows(
    bench: Bench, one: Audited, lost: Mapping[str, str], attacked: Sequence[Attacked]
) -> Shows:
    """Collect what a release has shown by itself, without any control.

    lost: by kind, as a sentence, what is not known to have reached its training. attacked: what
    every attack saw.
    """
    own = {kind: _contact(bench, one, kind, lost) for kind in _kinds(bench)}
    return Shows(contact={**own, **answers.contact(bench, one, attacked, lost)})


def _kinds(bench: Bench) -> list[str]:
    return list(dict.fromkeys(secret.kind for secret in bench.run.planted.secrets))


def _contact(bench: Bench, one: Audited, kind: str, lost: Mapping[str, str]) -> Link:
    secrets, coins = bench.run.planted.secrets, bench.run.planted.coins
    n = sum(secret.kind == kind and coins.planted(secret) for secret in secrets)
    if kind in lost:
        return not_shown(f"{lost[kind]}.", n)
    return shown("the training file" if one.external else "trained by this tool", n)
