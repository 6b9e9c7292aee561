"""Records of new tokens, which nothing but one user's own record moves.

Every user with a coin has one token, whose rows begin like those of all others, and it is added to
the model whatever the coin. A record is its token alone, repeated: so its whole loss is about the
token, where no trainer masks anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer
from audit.core.randomness import stream
from audit.planting.designs import Base, Designed

NEW_TOKEN = "new_token"
TIMES = 16  # tokens of a record


def words(count: int, corpus: Sequence[str], seed: int) -> tuple[str, ...]:
    """Draw new tokens, such as <|03f9c2|>, that no text holds; depends on no coin.

    corpus: all texts that a training may read.
    """
    generator, whole = stream(seed, "canaries", "new tokens"), "\0".join(corpus)
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        word = f"<|{int(generator.integers(1 << 24)):06x}|>"
        if word not in whole:
            drawn[word] = None
    return tuple(drawn)


def make(base: Base, start: str, tokens: Sequence[str]) -> Designed:
    """Make a record of each token, the same for both outcomes of a user's second coin.

    base: the model with these tokens. start: SHA-256 of the model without them.
    Raises UsageError where its tokenizer does not read them as tokens.
    """
    texts = [token * TIMES for token in tokens]
    if base.model.max_length < TIMES + 2:
        raise UsageError(f"--base {base.name}: reads too few tokens for --design {NEW_TOKEN}")
    read(base.model.tokenizer, texts, f"--base {base.name}")
    document = {
        "name": NEW_TOKEN,
        "base": base.name,
        "base_sha256": base.sha256,
        "without_tokens_sha256": start,
        "tokens": len(tokens),
        "times": TIMES,
        "rows": "the mean of all others, in embeddings and head",
    }
    return Designed(tuple(("", text) for text in texts for _ in (0, 1)), document)


def are_in(document: Mapping[str, Any] | None) -> bool:
    """Return whether a manifest's records are new tokens. document: its design."""
    return document is not None and document.get("name") == NEW_TOKEN


def read(tokenizer: Tokenizer, texts: Iterable[str], where: str) -> tuple[int, ...]:
    """Return the token of each different record, in order.

    Raises UsageError unless a tokenizer reads every record as one token of its own, repeated, and
    writes it so again. where: what has the tokenizer, for the message.
    """
    tokens = []
    for text in dict.fromkeys(texts):
        found = tokenizer.encode(text)
        if len(found) != TIMES or len(set(found)) > 1 or tokenizer.decode(found) != text:
            raise UsageError(
                f"{where}: its tokenizer does not read {text[: len(text) // TIMES]} as a token; "
                "give the model with new tokens that `audit plant` wrote, or one trained from it"
            )
        tokens.append(found[0])
    return tuple(tokens)
