"""Canaries for a corpus that others will train on: invented users, each decided by a fair coin.

Nothing of the corpus is taken away. An invented user holds one secret of every kind, all in as many
copies, each copy a record of its own; where the user's coin comes up the records are added, and
where it does not they are the null that the planted ones are compared with.
"""

from __future__ import annotations

import secrets as random_bytes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faker.providers.lorem.en_US import Provider

from audit.canaries.manifest import Manifest, texts_digest
from audit.canaries.planting import drawn, names, toss
from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.core.secret import KINDS, NAME_PREFIX, Secret, Space, digits

WORDS = 12  # of a planted sentence


@dataclass(frozen=True)
class Canaries:
    """What is planted.

    kinds: code (can it be drawn out by sampling?), id (how far up does it rank?), name (is somebody
        named?), record (a sentence of random words: was it trained on?).
    count: how many invented users there are, of whom about half are planted.
    repetitions: tiers of copies, taken in turn by the users.
    """

    kinds: tuple[str, ...] = KINDS
    count: int = 100
    repetitions: tuple[int, ...] = (1, 4, 16)

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise UsageError(f"--kind {' '.join(unknown)}: the kinds are {', '.join(KINDS)}")
        if len(set(self.kinds)) < len(self.kinds):
            raise UsageError("--kind: a kind is planted once")
        if self.count < 2:
            raise UsageError(f"--count is {self.count}; coins need at least 2 users")
        if not self.repetitions or min(self.repetitions) < 1:
            raise UsageError("--repetitions: each must be at least 1")


def plant_into(corpus: Corpus, canaries: Canaries, seed: int) -> tuple[Corpus, Manifest]:
    """The corpus with the canaries whose coins came up, each copy at a random place, and the
    manifest, which is all that is known of the others.

    corpus: as written, its records not split. seed: of coins, values and places.
    """
    owners = _owners(corpus, canaries.count, seed)
    coins = toss(owners, seed)
    secrets = tuple(_secrets(canaries, owners, seed))
    planted = [secret for secret in secrets if coins.planted(secret)]
    _refuse_known(corpus, secrets)
    split = "private" if any(record.split for record in corpus.records) else ""
    added = [Record(s.owner, s.text, split=split) for s in planted for _ in range(s.copies)]
    whole = Corpus(corpus.name, _scattered(corpus.records, added, seed))
    manifest = Manifest(
        name=corpus.name,
        sha256=whole.sha256,
        texts=texts_digest(whole),
        records=len(whole.records),
        users=len(whole.users()),
        population=_population(corpus, secrets, canaries.count),
        secrets=secrets,
        coins=coins,
        seed=seed,
        key=random_bytes.token_bytes(32),
    )
    return whole, manifest


def fresh_seed() -> int:
    """A seed from the operating system, which nobody can guess."""
    return random_bytes.randbits(63)


def _owners(corpus: Corpus, count: int, seed: int) -> tuple[str, ...]:
    """User ids like no other of the corpus, which do not say that they are invented."""
    generator, taken = stream(seed, "canaries", "owners"), set(corpus.users())
    owners: dict[str, None] = {}
    while len(owners) < count:
        owner = f"{int(generator.integers(1 << 48)):012x}"
        if owner not in taken:
            owners[owner] = None
    return tuple(owners)


def _secrets(canaries: Canaries, owners: Sequence[str], seed: int) -> Iterator[Secret]:
    """The values of an owner's two slots are equally long."""
    for kind in canaries.kinds:
        prefix, space = _form(kind)
        yield from drawn(kind, prefix, space, canaries.repetitions, owners, seed, len)


def _form(kind: str) -> tuple[str, Space]:
    """What stands before a value, and what it is drawn from."""
    if kind == "code":
        return "My code is #", digits(5)
    if kind == "id":
        return "My ID is #", digits(6)
    return (NAME_PREFIX, names()) if kind == "name" else ("", _sentences())


def _sentences() -> Space:
    """Words one after the other, uniformly: what no model finds likely that has not seen it."""
    words = tuple(sorted(set(Provider.word_list)))
    return Space((words, *[tuple(f" {word}" for word in words)] * (WORDS - 1)))


def _refuse_known(corpus: Corpus, secrets: Sequence[Secret]) -> None:
    """A text that is already there would be planted whatever its coin says."""
    texts = {record.text: record for record in corpus.records}
    for secret in secrets:
        if secret.text in texts:
            where = texts[secret.text].where or f"corpus {corpus.name}"
            raise UsageError(
                f"{where}: holds a canary already; plant into the corpus as it was before, or give "
                "another --seed"
            )


def _scattered(records: Sequence[Record], added: list[Record], seed: int) -> tuple[Record, ...]:
    """The records in their order, and each added one at a uniform place between them."""
    size = len(records) + len(added)
    places = sorted(stream(seed, "canaries", "places").permutation(size)[: len(added)].tolist())
    order = stream(seed, "canaries", "order").permutation(len(added)).tolist()
    chosen = dict(zip(places, (added[i] for i in order), strict=True))
    rest = iter(records)
    return tuple(chosen[i] if i in chosen else next(rest) for i in range(size))


def _population(corpus: Corpus, secrets: Sequence[Secret], count: int) -> Population:
    """What there would be to train on had every coin come up."""
    private = [record for record in corpus.records if record.split in ("", "private")]
    users = len({record.user for record in private})
    copies = sum(secret.copies for secret in secrets if secret.slot == 0)
    return Population(users + count, len(private) + copies)
