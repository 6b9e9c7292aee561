"""The share of the training's gain that a defense leaves: public keeps 0 %, undefended 100 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.results.schema import ReleaseResult


def perplexity(defense: str, releases: Sequence[ReleaseResult]) -> float | None:
    """Return the perplexity of the first release of a defense, if it has one to take a log of."""
    for release in releases:
        measure = release.utility.get("perplexity")
        if release.defense == defense and measure is not None and 0 < measure.value < math.inf:
            return measure.value
    return None


def kept(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> float | None:
    """Compute the share that a release keeps of the fall of the log-perplexity by training.

    None where a reference is missing, or training gained nothing.
    """
    own = release.utility.get("perplexity")
    return None if own is None else _share(own.value, releases)


def interval(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    """Write the shares at the ends of the interval of the perplexity; "" where there is none.

    The references' own intervals are not in it.
    """
    own = release.utility.get("perplexity")
    if own is None or own.ci is None or release.defense in ("none", "public"):
        return ""
    ends = [_share(end, releases) for end in reversed(own.ci)]
    return "" if None in ends else f"[{', '.join(map(written, ends))}]"


def _share(value: float, releases: Sequence[ReleaseResult]) -> float | None:
    public, undefended = perplexity("public", releases), perplexity("none", releases)
    if public is None or undefended is None or not 0 < value < math.inf or public <= undefended:
        return None
    gained = math.log(public) - math.log(undefended)
    return (math.log(public) - math.log(value)) / gained


def written(share: float | None) -> str:
    """Write the share in whole percent, 0 and 100 only where it is that; a dash for none known.

    Below 0 the release is worse than the public model.
    """
    if share is None:
        return "—"
    if share < 0.005 and share:
        return "<\u00a00\u00a0%" if share < 0 else "<\u00a01\u00a0%"
    return ">\u00a099\u00a0%" if 0.995 <= share < 1 else f"{round(100 * share)}\u00a0%"


def sentence(share: float, between: str) -> str:
    """State the share in words. between: its interval, or ""."""
    much = f"{written(share)} {between}".rstrip() if share or between else "nothing"
    worse = ": worse than the public model" if share < 0 else ""
    return f"keeps {much} of what training gains{worse}"
