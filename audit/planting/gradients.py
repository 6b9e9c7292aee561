"""Records of random words whose gradients on the base are large and overlap least.

A model moves by the sum of all clipped gradients, so what is read of one record is disturbed by
those that point where its own does: of other records, and of what most text has in common. Nearly
orthogonal gradients disturb each other least (Nasr et al., arXiv 2302.07956, of gradients that
need not be those of a text).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.planting.designs import Base, Designed
from audit.planting.kinds import values

GRADIENT = "gradient"
_SURPLUS = 4  # candidates for each that is wanted
_COMMON = 200  # public texts, whose mean gradient is what most text has in common


def make(base: Base, public: Sequence[str], wanted: int, seed: int) -> Designed:
    """Make `wanted` records; depends on no coin. Raises UsageError where a text has no gradient."""
    if base.sketch is None:
        raise UsageError(f"--base {base.name}: has no gradients; give the folder of a model")
    draws, space = stream(seed, "canaries", "records"), values("record")
    drawn: dict[str, None] = {}
    while len(drawn) < _SURPLUS * wanted:
        drawn[space.draw(draws)] = None
    texts, sketch = list(drawn), base.sketch()
    common = np.mean([sketch(text) for text in public[:_COMMON]], axis=0)
    kept = least_overlapping(np.array([sketch(text) for text in texts]), common, wanted)
    order = stream(seed, "canaries", "choice").permutation(wanted)
    document: dict[str, Any] = {
        "name": GRADIENT,
        "base": base.name,
        "base_sha256": base.sha256,
        "rule": "of the larger half of gradients, those that overlap least with all others and "
        "with the mean gradient of public texts",
        "drawn": len(texts),
    }
    return Designed(tuple(("", texts[kept[i]]) for i in order), document)


def least_overlapping(gradients: np.ndarray, common: np.ndarray, wanted: int) -> np.ndarray:
    """Return the places of `wanted` gradients of the larger half, by rising overlap, (wanted,).

    The overlap of one: its mean squared cosine with all of them, and that with `common`, (d,).
    gradients: (n, d), of which at least 2·wanted are needed.
    """
    norms = np.linalg.norm(gradients, axis=1)
    if not (norms.all() and np.isfinite([*norms, *common]).all()):
        raise UsageError("--design gradient: a text has no gradient on --base; give another one")
    unit = gradients / norms[:, None]
    overlap = np.square(unit @ unit.T).mean(axis=1)
    overlap += np.square(unit @ common) / max(float(common @ common), np.finfo(float).tiny)
    overlap[norms < np.median(norms)] = np.inf
    return np.argsort(overlap, kind="stable")[:wanted]
