"""Contact of real users with coins: were their own records trained on elsewhere?

A difference between heads and tails is its own contact. A training of this tool is counted. Of one
elsewhere nothing shows it: these users wrote no drawn word that a model could be asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from audit.core.secret import OWN
from audit.findings.shows import not_shown
from audit.measure.releases import Audited
from audit.prepare.run import Run
from audit.results.measurement import Link

_UNSEEN = "It is not shown that the records of real users with coins were trained on."


def contact(run: Run, one: Audited) -> Mapping[str, Link]:
    """Find whether the records of real users reached a release of a training elsewhere."""
    if not one.external or OWN not in run.plan.source.kinds:
        return {}
    return {OWN: not_shown(_UNSEEN)}
