"""Names the sentences of a manifest of which it is known that they were drawn."""

from __future__ import annotations

from audit.core.secret import Draw
from audit.planting.kinds import FORMS, wording
from audit.planting.manifest import Manifest


def sentences(manifest: Manifest) -> dict[str, Draw]:
    """Return by kind the words before all its values, and the space they were drawn from.

    Records have none, nor has a kind with one sentence of a user's own: it may stand in any corpus.
    An earlier manifest does not state its draws, but its seed repeats them.
    """
    if manifest.source is not None:
        return dict(manifest.sentences)
    before = {s.kind: s.prefix for s in manifest.secrets if FORMS[s.kind].prefixes.symbols}
    return {
        kind: Draw(FORMS[kind].prefixes, prefix)
        for kind, prefix in before.items()
        if prefix == wording(kind, manifest.seed).prefix
    }
