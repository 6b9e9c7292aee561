"""Parts of the private data: the texts of the users that are dealt to each."""

from __future__ import annotations

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.randomness import derived_seed, stream
from defenses.training.partition import partition


def even_users(name: str, k: int, corpus: Corpus, seed: int) -> list[list[list[str]]]:
    """Deal users to k parts, at random and evenly: the texts of each user of each part.

    Raises UsageError for more parts than users.
    """
    texts: dict[str, list[str]] = {}
    for record in corpus.of("private"):
        texts.setdefault(record.user, []).append(record.text)
    if k > len(texts):
        raise UsageError(f"{name}: k is {k}, but only {len(texts)} users are trained on; lower k")
    own = list(texts.values())
    order = stream(seed, "submix", "partition").permutation(len(own)).tolist()  # one for all
    return [[own[i] for i in order[part::k]] for part in range(k)]


def even_parts(name: str, k: int, corpus: Corpus, seed: int) -> list[list[str]]:
    """Return the texts of each of k parts that are random and even; errors as `even_users`."""
    parts = even_users(name, k, corpus, seed)
    return [[text for user in users for text in user] for users in parts]


def hashed_parts(k: int, corpus: Corpus, seed: int) -> list[list[str]]:
    """Return the texts of each of k parts; a user's part is independent of all other users."""
    records = corpus.of("private")
    key = derived_seed(seed, "capped_submix", "parts")  # one key for all of them
    parts: list[list[str]] = [[] for _ in range(k)]
    for record, part in zip(records, partition(records, k, 1, key), strict=True):
        parts[part].append(record.text)
    return parts
