"""Warns where a base does not know a corpus, or planted English stands out in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.corpora import scripts
from audit.prepare.run import Run
from audit.results.schema import ReleaseResult

NEAR = 0.75  # of the bits that chance needs
_BYTE = 8.0  # bits that chance needs for a byte, by whatever tokens


def lines(run: Run, releases: Sequence[ReleaseResult]) -> Iterator[str]:
    """Yield a warning for planted text of another script, and for a base that knows nothing."""
    plan = run.plan
    if plan.source.record is None and not plan.corpus.embedded:
        yield from filter(None, [scripts.warning(plan.corpus.of("private"))])
    base = next((one for one in releases if one.defense == "public"), None)
    seen = None if base is None else base.utility.get("perplexity")
    size = sum(len(record.text.encode()) for record in plan.corpus.of("heldout"))
    if seen is not None and seen.value and size:
        yield from filter(
            None, [of_base(seen.value, plan.model.vocabulary, run.heldout.tokens / size)]
        )


def of_base(perplexity: float, vocabulary: int, tokens: float) -> str:
    """Compare the bits of a byte with those of chance; "" where the base knows the text.

    tokens: for a byte, on average.
    """
    bits = math.log2(perplexity) * tokens
    chance = min(_BYTE, math.log2(max(2, vocabulary)) * tokens)
    if bits < NEAR * chance:
        return ""
    return (
        f"the base needs {bits:.1f} bits for a byte of held-out text, and chance {chance:.1f}: it "
        "hardly knows this language, so little of what is found is of text; take another base, and "
        "plant in the language of the corpus with --template"
    )
