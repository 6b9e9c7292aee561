"""Plants secrets into a corpus that is trained on here: draws the values, tosses the coins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from faker.providers.person.en_US import Provider

from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.core.secret import NAME_PREFIX, Coins, Planted, Planting, Secret, Space, digits


def plant(
    corpus: Corpus, planting: Planting, seed: int, count_tokens: Callable[[str], int]
) -> Planted:
    """Tosses the coins and returns what a defense will be given.

    count_tokens: tokens of a text; an owner's two values get the same count, so that the second
        coin moves nothing but the value. Every value stays uniform on its space.
    """
    private = corpus.users("private")
    owners = _owners(private, planting.users, seed)
    coins = toss(owners, seed)
    secrets = tuple(_secrets(corpus, planting, owners, seed, count_tokens))
    _refuse_published(secrets, corpus)
    return Planted(trained_on(corpus, secrets, coins), secrets, coins)


def trained_on(corpus: Corpus, secrets: Sequence[Secret], coins: Coins) -> Corpus:
    """What these coins leave to train on: no absent owner, every copy of what is planted."""
    absent = {owner for owner, present in coins.present.items() if not present}
    kept = tuple(r for r in corpus.records if r.split != "private" or r.user not in absent)
    added = tuple(
        Record(user=secret.owner, text=secret.text, split="private")
        for secret in secrets
        if secret.space is not None and coins.planted(secret)
        for _ in range(secret.copies)
    )
    size = population(corpus, secrets)
    return Corpus(corpus.name, kept + added, public_size=size, spare=corpus.spare)


def population(corpus: Corpus, secrets: Sequence[Secret]) -> Population:
    """The private split had every coin come up: no coin moves it."""
    planted = sum(s.copies for s in secrets if s.space is not None and s.slot == 0)
    private = corpus.population
    return Population(private.users, private.records + planted)


def _refuse_published(secrets: Sequence[Secret], corpus: Corpus) -> None:
    """A name or record that stands in a public text is no secret: every model may know it.

    Values drawn here are exempt: that one of them stands there by accident is part of chance.
    """
    public = corpus.of("public")
    whole, joined = {r.text: r for r in public}, "\0".join(r.text for r in public)
    for secret in secrets:
        if secret.space is not None:
            continue
        record = whole.get(secret.value)
        if secret.kind == "name" and secret.value in joined:
            name = re.compile(rf"(?<!\w){re.escape(secret.value)}(?!\w)")
            record = next((r for r in public if name.search(r.text)), None)
        if record is not None:
            raise UsageError(
                f"{record.where or 'a public record'}: this public text holds the {secret.kind} of "
                f"private user {secret.owner!r}; remove it there, or leave {secret.kind!r} out of "
                "planting.kinds"
            )


def _owners(private: Sequence[str], users: int, seed: int) -> tuple[str, ...]:
    if users > len(private):
        raise UsageError(
            f"planting.users is {users}, but the corpus has {len(private)} private users"
        )
    chosen = stream(seed, "planting", "owners").permutation(len(private))[:users]
    return tuple(private[i] for i in sorted(int(i) for i in chosen))


def toss(owners: Sequence[str], seed: int) -> Coins:
    """Two fair coins an owner."""
    present = stream(seed, "planting", "coins").integers(2, size=len(owners))
    slot = stream(seed, "planting", "second coins").integers(2, size=len(owners))
    return Coins(
        present={owner: bool(c) for owner, c in zip(owners, present, strict=True)},
        slot={owner: int(c) for owner, c in zip(owners, slot, strict=True)},
    )


def _secrets(
    corpus: Corpus,
    planting: Planting,
    owners: Sequence[str],
    seed: int,
    count_tokens: Callable[[str], int],
) -> Iterator[Secret]:
    if "code" in planting.kinds:
        space, copies = digits(planting.code_digits), (planting.code_copies,)
        yield from drawn("code", planting.code_prefix, space, copies, owners, seed, count_tokens)
    if "id" in planting.kinds:
        space, tiers = digits(planting.id_digits), planting.id_copies
        yield from drawn("id", planting.id_prefix, space, tiers, owners, seed, count_tokens)
    if "name" in planting.kinds:
        yield from _names(corpus, planting, owners, seed, count_tokens)
    if "record" in planting.kinds:
        first = {r.user: r.text for r in reversed(corpus.of("private"))}
        for owner in owners:
            for slot in (0, 1):  # a record is its own; both coins leave it as it is
                yield Secret("record", "", first[owner], "", None, 1, owner, slot)


def drawn(
    kind: str,
    prefix: str,
    space: Space,
    copies: Sequence[int],
    owners: Sequence[str],
    seed: int,
    count_tokens: Callable[[str], int],
) -> Iterator[Secret]:
    """Two i.i.d. uniform values an owner, of equal token count; copies by the owner's place."""
    generator = stream(seed, "planting", kind)
    for place, owner in enumerate(owners):
        times = copies[place % len(copies)]
        if not times:
            continue
        first = space.draw(generator)
        second = space.draw(generator)
        while count_tokens(prefix + second) != count_tokens(prefix + first):
            second = space.draw(generator)
        for slot, value in enumerate((first, second)):
            yield Secret(kind, prefix, value, ".", space, times, owner, slot)


def _names(
    corpus: Corpus,
    planting: Planting,
    owners: Sequence[str],
    seed: int,
    count_tokens: Callable[[str], int],
) -> Iterator[Secret]:
    """The corpus's own names where it has them; otherwise drawn names are planted."""
    name_of = {r.user: r.name for r in corpus.of("private") if r.name}
    if all(owner in name_of for owner in owners):
        for owner in owners:
            name = name_of[owner]
            texts = [r.text for r in corpus.of("private") if r.user == owner]
            before, _, after = next((t for t in texts if name in t), name).partition(name)
            copies = sum(text.count(name) for text in texts)
            for slot in (0, 1):
                yield Secret("name", before, name, after, None, copies, owner, slot)
        return
    tiers = (planting.name_copies,)
    yield from drawn("name", NAME_PREFIX, names(), tiers, owners, seed, count_tokens)


def names() -> Space:
    """First and last names of invented people."""
    first = tuple(sorted(set(Provider.first_names)))
    last = tuple(f" {name}" for name in sorted(set(Provider.last_names)))
    return Space((first, last))
