"""The words before planted values that a manifest drew, and others that it might have drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.predictor import Tokenizer
from audit.core.secret import Secret, Space
from audit.planting.kinds import FORMS


@dataclass(frozen=True)
class Sentence:
    """The words before the values of a kind, which were drawn, and the text before them."""

    frame: str
    space: Space
    words: str

    def prompt(self, tokenizer: Tokenizer, words: str) -> list[int]:
        """Encode other words in their place."""
        return [tokenizer.start, *tokenizer.encode(self.frame + words)]

    def others(self, wanted: int, draws: np.random.Generator) -> list[str]:
        """Draw other words of the space, all different."""
        found: dict[str, None] = {}
        while len(found) < wanted:
            words = self.space.draw(draws)
            if words != self.words:
                found[words] = None
        return list(found)


def sentence_of(secrets: Sequence[Secret], kind: str) -> Sentence | None:
    """Find the drawn words before the values of a kind; None where they were not drawn."""
    space = FORMS[kind].prefixes
    prefixes = {secret.prefix for secret in secrets if secret.kind == kind}
    if not space.symbols or len(prefixes) != 1:
        return None
    (prefix,) = prefixes
    match = re.search(rf"{space.form}$", prefix)
    return None if match is None else Sentence(prefix[: match.start()], space, match.group(0))


def frame_of(secrets: Sequence[Secret]) -> str:
    """Return what comes before every sentence, such as the beginning of a conversation."""
    kinds = dict.fromkeys(secret.kind for secret in secrets)
    found = (sentence_of(secrets, kind) for kind in kinds)
    return next((one.frame for one in found if one is not None), "")
