"""For models trained elsewhere: inserts invented users into a corpus, each with a fair coin.

The corpus keeps all its records. An invented user has one secret of every kind, all in the same
number of copies, each copy a record of its own. If the user's coin is heads, the records are added;
if not, the secrets are the null that the planted ones are compared with.
"""

from __future__ import annotations

import secrets as random_bytes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.randomness import derived_seed, stream
from audit.core.secret import KINDS, LARGEST, PLANTED, TURNS, Secret, check_pattern
from audit.corpora.conversations import are_chat
from audit.planting.beacons import VALUES, Beacon, Tier, Words, beacons
from audit.planting.coins import toss
from audit.planting.copies import Copy, records
from audit.planting.designs import Designed
from audit.planting.manifest import Manifest, texts_digest
from audit.planting.manner import manner_of
from audit.planting.own import Own
from audit.planting.planting import drawn, invented_users
from audit.planting.surroundings import Surroundings, surroundings
from audit.planting.templates import Template


@dataclass(frozen=True)
class Canaries:
    """Canaries to plant.

    kinds: of secrets; every invented user has one of each.
    count: number of invented users, of whom about half are planted.
    repetitions: numbers of copies, assigned to the users in turn.
    templates: the words around the values of a kind, where they are a user's own.
    pattern: what values of kind "pattern" look like.
    turn: whose turn each secret is in a corpus of conversations; None: the assistant's.
    beacons: tiers of values that many further users share, always planted.
    """

    kinds: tuple[str, ...] = PLANTED
    count: int = 100
    repetitions: tuple[int, ...] = (1, 4, 16)
    templates: Mapping[str, Template] = field(default_factory=dict)
    pattern: str = ""
    turn: str | None = None
    beacons: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise UsageError(f"--kind {' '.join(unknown)}: the kinds are {', '.join(KINDS)}")
        if len(set(self.kinds)) < len(self.kinds):
            raise UsageError("--kind: give each kind once")
        if self.count < 2:
            raise UsageError(f"--count is {self.count}; coins need at least 2 users")
        if self.count > LARGEST["invented"]:
            raise UsageError(f"--count is too large; it must be at most {LARGEST['invented']:,}")
        if not self.repetitions or min(self.repetitions) < 1:
            raise UsageError("--repetitions: each must be at least 1")
        for tier in self.beacons:
            if tier.kind not in self.kinds:
                raise UsageError(f"beacons of {tier.kind}: no {tier.kind} is planted")
        check_pattern(self.pattern, self.kinds, "--pattern", "--kind")
        if max(self.repetitions) > LARGEST["copies"]:
            raise UsageError(f"--repetitions: each must be at most {LARGEST['copies']:,}")
        if self.turn not in (None, *TURNS):
            raise UsageError(f"--turn {self.turn}: is {' or '.join(TURNS)}")
        for kind in self.templates:
            if kind not in self.kinds:
                raise UsageError(f"--template {kind}: no {kind} is planted; add --kind {kind}")

    @property
    def sharing(self) -> int:
        """The number of users who write beacons."""
        return sum(VALUES * tier.users for tier in self.beacons)

    @property
    def expected_copies(self) -> float:
        """The number of planted records, of coins at expectation."""
        times = self.repetitions
        of_coins = sum(times[i % len(times)] for i in range(self.count)) * len(self.kinds)
        return of_coins / 2 + self.sharing


def plant_into(
    corpus: Corpus,
    canaries: Canaries,
    seed: int,
    designed: Designed | None = None,
    own: Own | None = None,
) -> tuple[Corpus, Manifest]:
    """Insert the canaries whose coins are heads, each copy at a random place.

    Returns the corpus and the manifest, the only record of all canaries. corpus: as read, its
    records without assigned splits. seed: of all draws (`draws_of`). designed: two records for each
    user, made before the coins are tossed; None: random words. own: real users with coins, of whom
    those set aside are taken out.
    """
    draws = draws_of(seed, corpus, canaries)
    invented = iter(invented_users(corpus, canaries.count + canaries.sharing, draws))
    owners = tuple(islice(invented, canaries.count))
    coins = toss(owners, draws)
    around = {
        kind: surroundings(kind, draws, canaries.templates.get(kind), canaries.pattern)
        for kind in canaries.kinds
    }
    secrets = tuple(_secrets(canaries, owners, draws, designed, around))
    planted = [secret for secret in secrets if coins.planted(secret)]
    style = Words(canaries.templates, canaries.pattern, secrets)
    shared = tuple(beacons(canaries.beacons, invented, draws, style))
    _refuse_known(corpus, (*secrets, *shared))
    turn = _turn(corpus, canaries)
    copies = [
        *(Copy(s.text, s.owner, s.space is not None) for s in planted for _ in range(s.copies)),
        *(Copy(one.text, user) for one in shared for user in one.users),
    ]
    split = "private" if any(record.split for record in corpus.records) else ""
    manner = manner_of(corpus.records)
    added = list(records(copies, split, turn, stream(draws, "planting", "around"), manner))
    kept = corpus if own is None else own.kept(corpus)
    whole = Corpus(corpus.name, _scattered(kept.records, added, draws))
    manifest = Manifest(
        name=corpus.name,
        sha256=whole.sha256,
        texts=texts_digest(whole),
        records=len(whole.records),
        users=len(whole.users()),
        population=_population(corpus, secrets, shared),
        secrets=secrets,
        coins=coins,
        seed=seed,
        key=random_bytes.token_bytes(32),
        design=None if designed is None else designed.document,
        turn=turn,
        manner=manner,
        source=corpus.sha256,
        sentences={kind: one.sentence for kind, one in around.items() if one.sentence},
        stems={kind: one.stem for kind, one in around.items() if one.stem},
        beacons=shared,
        share=_share(corpus, added, canaries),
        own=own,
        user_is=corpus.user_is,
    )
    return whole, manifest


def draws_of(seed: int, corpus: Corpus, canaries: Canaries) -> int:
    """Derive the seed of all draws of a manifest: of the corpus, too, and of what is counted.

    Otherwise two corpora planted with one given seed would share sentence, coins and values, and
    a model trained on the one could not be told from a model trained on the other.
    """
    counts = (canaries.count, *canaries.repetitions)
    tiers = (word for tier in canaries.beacons for word in (tier.kind, tier.users))
    return derived_seed(seed, "manifest", corpus.sha256, *canaries.kinds, *counts, *tiers)


def _turn(corpus: Corpus, canaries: Canaries) -> str | None:
    """Return whose turn the secrets are; None in plain text. Raises UsageError."""
    if are_chat(corpus.records):
        return canaries.turn or TURNS[0]
    if canaries.turn is not None:
        raise UsageError(f"--turn {canaries.turn}: the corpus has no 'messages'; leave it out")
    return None


def fresh_seed() -> int:
    """Draw a seed from the operating system, which nobody can guess."""
    return random_bytes.randbits(63)


def _secrets(
    canaries: Canaries,
    owners: Sequence[str],
    seed: int,
    designed: Designed | None,
    around: Mapping[str, Surroundings],
) -> Iterator[Secret]:
    """Draw every user's two values of each kind, equally long; designed records are there."""
    for kind in canaries.kinds:
        if kind == "record" and designed is not None:
            for i, (prefix, value) in enumerate(designed.records):
                times = canaries.repetitions[i // 2 % len(canaries.repetitions)]
                yield Secret(kind, prefix, value, "", None, times, owners[i // 2], i % 2)
            continue
        words, space = around[kind].words, around[kind].space
        yield from drawn(kind, words, space, canaries.repetitions, owners, seed, len)


def _refuse_known(corpus: Corpus, secrets: Sequence[Secret | Beacon]) -> None:
    """Raise UsageError for a text of the corpus: its coin would not decide whether it is there."""
    texts = {record.text: record for record in corpus.records}
    texts |= {content: record for record in corpus.records for _, content in record.messages}
    whole = "\0".join(texts)
    held = {prefix for prefix in dict.fromkeys(s.prefix for s in secrets) if prefix in whole}
    for secret in secrets:
        text = secret.prefix + secret.value
        if secret.prefix in held and text in whole:
            where = next(record.where for found, record in texts.items() if text in found)
            raise UsageError(
                f"{where or f'corpus {corpus.name}'}: holds a canary already; plant into the "
                "original corpus, or give another --seed"
            )


def _scattered(records: Sequence[Record], added: list[Record], seed: int) -> tuple[Record, ...]:
    """Keep the records in their order, and insert each added one at a uniform place."""
    size = len(records) + len(added)
    places = sorted(stream(seed, "canaries", "places").permutation(size)[: len(added)].tolist())
    order = stream(seed, "canaries", "order").permutation(len(added)).tolist()
    chosen = dict(zip(places, (added[i] for i in order), strict=True))
    remaining = iter(records)
    return tuple(chosen[i] if i in chosen else next(remaining) for i in range(size))


def words_learned(records: Sequence[Record]) -> int:
    """Count the words of the records that a model is to be trained on.

    New tokens follow each other without blanks, and each is a word.
    """
    texts = (record.text for record in records if record.split in ("", "private"))
    return sum(len(text.replace("|><|", "|> <|").split()) for text in texts)


def _share(corpus: Corpus, added: Sequence[Record], canaries: Canaries) -> float:
    """Compute the share of planted words in all, as many copies planted as coins do on average."""
    own, planted = words_learned(corpus.records), words_learned(added)
    expected = planted / max(1, len(added)) * canaries.expected_copies
    return round(expected / (own + expected), 4) if own + expected else 0.0


def _population(corpus: Corpus, secrets: Sequence[Secret], shared: Sequence[Beacon]) -> Population:
    """Return the size of the training data if every coin were heads."""
    private = [record for record in corpus.records if record.split in ("", "private")]
    users = {record.user for record in private} | {secret.owner for secret in secrets}
    sharing = sum(beacon.tier for beacon in shared)
    copies = sum(secret.copies for secret in secrets if secret.slot == 0)
    return Population(len(users) + sharing, len(private) + copies + sharing)
