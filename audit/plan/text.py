"""Reads `--release`: whether models and services are released, or only texts that they wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from audit.core.corpus import Corpus
from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_text
from audit.core.rules import at_least, check_fields
from audit.core.training import FineTuning

AS_DEFENDED = "as_defended"  # a model or a service, whichever the defense makes
TEXT = "text"
KINDS = (AS_DEFENDED, TEXT)
TOKENS = 64  # of a text by default, or what training reads after the start token, if that is less


@dataclass(frozen=True)
class Text:
    """Texts that a defended model writes from its start token; only they are released.

    Both numbers are public, and fixed before private data is seen.

    texts: number of texts n; at least 1. A service with a budget of B queries writes ⌊B/T⌋, if that
        is less.
    tokens: most tokens T of a text; at least 1.
    """

    texts: Annotated[int, at_least(1)]
    tokens: Annotated[int, at_least(1)]

    def __post_init__(self) -> None:
        check_fields("--release text", self)

    def check(self, label: str, reads: int, budget: int | None) -> None:
        """Raise UsageError where a release cannot write one text.

        reads: tokens of context that its model reads, the start token included. budget: of queries.
        """
        if self.tokens >= reads:
            raise UsageError(
                f"--release text: tokens is {self.tokens}, but the model reads {reads}, the start "
                "token included"
            )
        if not self.affordable(budget):
            raise UsageError(
                f"{label}: answers {budget} queries, and a text of {self.tokens} tokens takes as "
                "many; give a larger budget, or --release text:tokens=N"
            )

    def affordable(self, budget: int | None) -> int:
        """Count the texts that a service with this budget of queries writes."""
        return self.texts if budget is None else min(self.texts, budget // self.tokens)


def of(setting: str, corpus: Corpus, training: FineTuning) -> Text | None:
    """Read a setting such as `text:texts=400,tokens=60`; None where no texts are released.

    The default is as many texts as there are records to train on. Raises UsageError.
    """
    kind, given = parsed(setting)
    if kind != TEXT:
        return None
    records = corpus.population.records
    read = training.max_length - 1  # the start token comes before
    return Text(**{"texts": records, "tokens": min(TOKENS, read)} | given)


def parsed(setting: str) -> tuple[str, dict[str, int]]:
    """Split a setting into its kind and the numbers that are given. Raises UsageError."""
    kind, _, rest = (part.strip() for part in setting.partition(":"))
    if kind not in KINDS:
        raise UsageError(f"--release {kind}: unknown{did_you_mean(kind, list(KINDS))}")
    known, given = (("texts", "tokens") if kind == TEXT else ()), dict[str, int]()
    for pair in filter(None, (part.strip() for part in rest.split(","))):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in known or key in given:
            expected = "each of texts and tokens once" if known else "no numbers"
            raise UsageError(f"--release {kind}: {key}: takes {expected}")
        given[key] = from_text(value, int, f"--release {kind}: {key}")
    return kind, given
