"""For models trained by this tool: draws secrets for users of a corpus and tosses their coins."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from audit.core import words
from audit.core.chat import framed
from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.core.secret import KINDS, OWN, Coins, Planted, Planting, Secret, Space, digits
from audit.core.spans import Span
from audit.core.wording import Wording
from audit.planting.coins import toss
from audit.planting.kinds import values, wording
from audit.planting.own import secrets_of

_PATIENCE = 1000  # draws of a value that is free, or of a second record of the same length


def plant(
    corpus: Corpus, planting: Planting, seed: int, count_tokens: Callable[[str], int]
) -> Planted:
    """Draw the secrets, toss the coins, and return the planted corpus with both.

    count_tokens: number of tokens of a text. An owner's two values get the same count, so the
        second coin changes only the value. Every value is uniform on its space.
    """
    private = corpus.users("private")
    owners = _owners(private, planting.users, seed)
    invented = invented_users(corpus, planting.invented, seed)
    coins = toss((*owners, *invented), seed)
    candidates = _secrets(corpus, planting, owners, invented, seed, count_tokens)
    secrets = tuple(s if s.space is None else framed(s, corpus.frame) for s in candidates)
    _refuse_published(secrets, corpus)
    return Planted(trained_on(corpus, secrets, coins), secrets, coins)


def trained_on(corpus: Corpus, secrets: Sequence[Secret], coins: Coins) -> Corpus:
    """Make the corpus to train on under these coins: no absent owner, every planted copy."""
    absent = {owner for owner, present in coins.present.items() if not present}
    remaining = tuple(r for r in corpus.records if r.split != "private" or r.user not in absent)
    added = tuple(
        _record(secret, corpus)
        for secret in secrets
        if secret.space is not None and coins.planted(secret)
        for _ in range(secret.copies)
    )
    size = population(corpus, secrets)
    return replace(corpus, records=remaining + added, embedded=False, public_size=size)


def _record(secret: Secret, corpus: Corpus) -> Record:
    learned = () if corpus.frame is None else corpus.frame.learned(secret.text)
    return Record(user=secret.owner, text=secret.text, split="private", learned=learned)


def population(corpus: Corpus, secrets: Sequence[Secret]) -> Population:
    """Return the size of the private split if every coin were heads; it depends on no coin."""
    planted = sum(s.copies for s in secrets if s.space is not None and s.slot == 0)
    private, own = corpus.population, set(corpus.users("private"))
    invented = {s.owner for s in secrets} - own
    return Population(private.users + len(invented), private.records + planted)


def _refuse_published(secrets: Sequence[Secret], corpus: Corpus) -> None:
    """Raise UsageError for a name or record in a public text: any model may know it.

    Values drawn here are exempt: an accidental match is part of chance.
    """
    public = corpus.of("public")
    whole, joined = {r.text: r for r in public}, "\0".join(r.text for r in public)
    for secret in secrets:
        if secret.space is not None:
            continue
        record = whole.get(secret.text if secret.kind == "record" else secret.value)
        if secret.kind == "name" and secret.value in joined:
            name = words.whole(secret.value)
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


def invented_users(corpus: Corpus, count: int, seed: int) -> tuple[str, ...]:
    """Draw user ids that are not in the corpus and do not look invented."""
    generator, taken = stream(seed, "canaries", "owners"), set(corpus.users())
    owners: dict[str, None] = {}
    while len(owners) < count:
        owner = f"{int(generator.integers(1 << 48)):012x}"
        if owner not in taken:
            owners[owner] = None
    return tuple(owners)


def _secrets(
    corpus: Corpus,
    planting: Planting,
    owners: Sequence[str],
    invented: Sequence[str],
    seed: int,
    count_tokens: Callable[[str], int],
) -> Iterator[Secret]:
    lengths = {"code": planting.code_digits, "id": planting.id_digits}
    for kind in (kind for kind in KINDS if kind in planting.kinds):
        bearers: Sequence[str] = (*owners, *invented)
        if kind == "record":
            yield from _own_records(corpus, owners)
            bearers = invented
        elif kind == "name" and (own := _own_names(corpus, planting, owners)):
            yield from own
            continue
        if kind in lengths:
            space = digits(lengths[kind])
        else:
            space = values(kind, planting.pattern, "planting.pattern")
        words, copies = _around(kind, planting, seed)
        yield from drawn(kind, words, space, copies, bearers, seed, count_tokens)
    if OWN in planting.kinds:
        yield from secrets_of(corpus.of("private"), owners)


def _around(kind: str, planting: Planting, seed: int) -> tuple[Wording, Sequence[int]]:
    """Return the words around values that are drawn, and the copies that owners take in turn."""
    if kind == "record":
        return wording(kind, seed), (1,)
    prefix, suffix, copies = (
        getattr(planting, f"{kind}_{name}") for name in ("prefix", "suffix", "copies")
    )
    return wording(kind, seed, prefix, suffix), copies if kind == "id" else (copies,)


def _own_records(corpus: Corpus, owners: Sequence[str]) -> Iterator[Secret]:
    """Yield each owner's first record, for both outcomes of the second coin."""
    first = {r.user: r for r in reversed(corpus.of("private"))}
    for owner in owners:
        low, high = _scored(first[owner])
        before, value, after = _split(first[owner].text, low, high)
        for slot in (0, 1):
            yield Secret("record", before, value, after, None, 1, owner, slot)


def _scored(record: Record) -> Span:
    """Return the part of a record that is a secret: all of it, or the last part in the loss."""
    return record.learned[-1] if record.learned else (0, len(record.text))


def _split(text: str, low: int, high: int) -> tuple[str, str, str]:
    return text[:low], text[low:high], text[high:]


def _places(name: str, record: Record) -> Iterator[int]:
    """Find where a name begins in what is in the loss of a record."""
    for low, high in record.learned or ((0, len(record.text)),):
        place = record.text.find(name, low, high)
        while place >= 0:
            yield place
            place = record.text.find(name, place + len(name), high)


def drawn(
    kind: str,
    words: Wording,
    space: Space,
    copies: Sequence[int],
    owners: Sequence[str],
    seed: int,
    count_tokens: Callable[[str], int],
    taken: Collection[str] = (),
) -> Iterator[Secret]:
    """Draw two i.i.d. uniform values per owner, of equal token count; copies cycle over owners.

    Records whose length hardly any other has are drawn again, both of a pair. Nothing is computed
    from the chance of a record, and which of the two is planted is up to the coin. taken: values
    that are drawn again, as long as the space has others.
    """
    generator = stream(seed, "planting", kind)

    def draw() -> str:
        drawn = (space.draw(generator) for _ in range(_PATIENCE))
        return next((value for value in drawn if value not in taken), None) or space.draw(generator)

    most = _PATIENCE if kind == "record" else math.inf
    for place, owner in enumerate(owners):
        times = copies[place % len(copies)]
        if not times:
            continue
        first, second = draw(), draw()
        tries = 0
        while count_tokens(words.prefix + second) != count_tokens(words.prefix + first):
            tries += 1
            if tries % most == 0:
                first = draw()
            second = draw()
        for slot, value in enumerate((first, second)):
            yield Secret(kind, words.prefix, value, words.suffix, space, times, owner, slot)


def _own_names(corpus: Corpus, planting: Planting, owners: Sequence[str]) -> list[Secret]:
    """Return the corpus's own names if every owner has one; otherwise none, and names are drawn.

    Invented users then have no name: theirs would not be like those of the corpus.
    """
    name_of = {r.user: r.name for r in corpus.of("private") if r.name}
    if not all(owner in name_of for owner in owners):
        return []
    if planting.name_prefix is not None:
        raise UsageError(
            f"planting: name_template is for drawn names, but corpus {corpus.name} has a name "
            "for each user; leave it out"
        )
    of_user: dict[str, list[Record]] = {}
    for record in corpus.of("private"):
        of_user.setdefault(record.user, []).append(record)
    secrets = []
    for owner in owners:
        name = name_of[owner]
        places = [(r.text, place) for r in of_user[owner] for place in _places(name, r)]
        text, at = places[0] if places else (name, 0)
        before, _, after = _split(text, at, at + len(name))
        for slot in (0, 1):
            secrets.append(Secret("name", before, name, after, None, len(places), owner, slot))
    return secrets
