"""DP-SGD's ε for phrases: all units that hold one, removed together (arXiv 2310.15526).

How many units hold a phrase is itself private: these figures are for the auditor.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.accounting import phrase_distribution
from audit.defense import Training
from audit.errors import UsageError
from audit.models.private_training import PrivateRecipe

RELATIONS = ("add_or_remove", "replace")  # the second stands beside SeqPATE's figures


def read(file: str) -> tuple[str, ...]:
    """The phrases of a file, one a line. Raises UsageError."""
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"dp_sgd: phrases={file} cannot be read ({error})") from None
    phrases = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not phrases:
        raise UsageError(f"dp_sgd: phrases={file} is empty; write one phrase a line")
    return phrases


def holders(phrase: str, training: Training) -> int:
    """How many protected units hold the phrase, as whole words."""
    words = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
    found = zip(training.owners, training.texts, strict=True)
    return len({owner for owner, text in found if words.search(text)})


def over(file: str, training: Training, delta: float) -> tuple[dict[str, Any], ...]:
    """The distribution of ε (nats) over the phrases, one entry for each relation."""
    method = training.method
    assert isinstance(method, PrivateRecipe)
    counts = [holders(phrase, training) for phrase in read(file)]
    sigma, steps, q = method.noise.multiplier, method.steps, method.sampling_probability
    return tuple(
        {
            "relation": relation,
            "delta": delta,
            **asdict(phrase_distribution(sigma, steps, q, delta, counts, relation)),
        }
        for relation in RELATIONS
    )
