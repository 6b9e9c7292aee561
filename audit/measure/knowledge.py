"""Collects what an attacker knows besides the release."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.attack import Knowledge, Shadow
from audit.core.language_model import OpenSession
from audit.core.predictor import Predictor
from audit.core.randomness import stream
from audit.core.release import NoJournal
from audit.measure.neighbours import neighbours
from audit.measure.releases import Audited
from audit.plan.plan import Chosen
from audit.prepare.run import Run


def knowledge(run: Run, one: Audited, chosen: Chosen, name: str) -> Knowledge:
    """Collect what one attack knows of a release. name: of the session, for its streams."""
    seed = run.plan.seed
    return with_texts(
        run,
        public=_public(run, one, name),
        shadows=_shadows(run, one, chosen, name) if chosen.plugin.shadows else (),
        stream=stream(seed, name, "attacker"),
        opened=None if one.external else True,
        neighbours=neighbours(one.release, seed, name) if chosen.plugin.neighbours else (),
        order=one.release.guarantee.alpha if chosen.plugin.neighbours else None,
    )


def with_texts(run: Run, **known: Any) -> Knowledge:
    """Add to what is known of a release the texts that every attacker of a run has."""
    heldout = run.plan.corpus.of("heldout")
    return Knowledge(
        texts=tuple(record.text for record in heldout),
        names=tuple(dict.fromkeys(record.name for record in heldout if record.name)),
        corpus=run.before_coins,
        **known,
    )


def _public(run: Run, one: Audited, name: str) -> Predictor | None:
    if not run.plan.source.base_known:
        return None
    return OpenSession(one.public, stream(run.plan.seed, name, "public"))


def _shadows(run: Run, one: Audited, chosen: Chosen, name: str) -> tuple[Shadow, ...]:
    secrets = run.secrets_for(chosen.plugin)
    releases = one.shadows()[: chosen.plugin.shadows]
    return tuple(
        Shadow(
            release.open(stream(run.plan.seed, name, "shadow", j), NoJournal()),
            np.array([coins.planted(secret) for secret in secrets]),
        )
        for j, (release, coins) in enumerate(zip(releases, run.shadow_coins, strict=False))
    )
