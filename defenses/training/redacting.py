"""Trains on redacted text, alone or as the first of two phases."""

from __future__ import annotations

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.randomness import derived_seed
from audit.core.spans import redacted
from audit.core.training import FineTuning, Training


def redacting(label: str, corpus: Corpus, recipe: FineTuning, mask: str, seed: int) -> Training:
    """Return a training on the private records with every private span masked.

    Defenses with the same mask and seed share it.
    """
    return Training(
        f"{label}, on redacted text",
        tuple(redacted(record.text, record.private, mask) for record in corpus.of("private")),
        recipe,
        derived_seed(seed, "redaction", "training"),
    )


def check_marks(name: str, corpus: Corpus) -> None:
    """Raise UsageError for a policy that marks none or all of the private text."""
    records = corpus.of("private")
    marked = sum(high - low for record in records for low, high in record.private)
    if not marked:
        raise UsageError(
            f"{name}: the policy marks nothing in the private text, so there is nothing to "
            "protect; choose another --policy"
        )
    if marked == sum(len(record.text) for record in records):
        raise UsageError(
            f"{name}: the policy marks all of the private text; choose another --policy, or dp_sgd"
        )
