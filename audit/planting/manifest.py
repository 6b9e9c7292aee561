"""The manifest of `audit plant`: every canary, every coin and the key; private to its owner.

Its reader knows what to look for in the trained model. So it is written with mode 0600, and no
other file has this content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from audit.core.chat import PLAIN, Manner, framed
from audit.core.corpus import Corpus, Population
from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.core.files import read_json
from audit.core.secret import Coins, Draw, Planted, Secret, Space
from audit.core.terms import Unit
from audit.core.writing import write_atomically
from audit.corpora.conversations import plain
from audit.planting.beacons import Beacon
from audit.planting.manifest_form import EARLIER, FORM, LATER, fault
from audit.planting.own import Own, secrets_of

_GIVEN = 2**53  # of seeds that the operating system draws, one in a thousand is below
T = TypeVar("T")


@dataclass(frozen=True)
class Manifest:
    """Planted secrets, and the coins that chose them.

    name: of the corpus. sha256, records, users: of the corpus as written, canaries included.
    texts: its `texts_digest`, by which it is recognised.
    population: the size of the training data if every coin were heads.
    key: for keyed hashes of values.
    design: how the records were made, where they are not random words.
    turn: whose turn each secret is, where the corpus is of conversations; else None.
    source: digest of the corpus before planting, on which all draws depend; None in an earlier
        form, whose draws are of the seed alone.
    sentences: the words before the values of each kind that were drawn, not given. stems: what all
        values of a kind begin with, where that was drawn. See `audit.planting.sentences`.
    beacons: values that many users share, always planted; no secrets.
    share: of the planted words in all, coins at expectation.
    manner: how conversations around secrets begin.
    own: the real users with coins; None where there are none. user_is: how users were told apart.
    """

    name: str
    sha256: str
    texts: str
    records: int
    users: int
    population: Population
    secrets: tuple[Secret, ...]
    coins: Coins
    seed: int
    key: bytes
    source: str | None = None
    share: float | None = None
    sentences: Mapping[str, Draw] = field(default_factory=dict)
    stems: Mapping[str, Draw] = field(default_factory=dict)
    beacons: tuple[Beacon, ...] = ()
    design: Mapping[str, Any] | None = None
    turn: str | None = None
    manner: Manner = PLAIN
    own: Own | None = None
    user_is: str = ""

    @property
    def draws_are_its_own(self) -> bool:
        """Return whether no other corpus was planted with these sentences, coins and values.

        Earlier manifests shared them with every corpus planted with the same given seed.
        """
        return self.source is not None or self.seed >= _GIVEN

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole content. It includes the secret key, so it reveals no value."""
        return digest_of_json(_document(self))

    @property
    def unit(self) -> str:
        """Unit that one coin decides: a user, or a user of one record if each has only one copy."""
        records = Counter((s.owner, s.slot) for s in self.secrets for _ in range(s.copies))
        of_one = max(records.values()) == 1 and (self.own is None or self.own.of_one_record)
        return Unit.ONE_RECORD if of_one else Unit.USER

    @property
    def invented(self) -> frozenset[str]:
        """All users whom planting invented: those with coins, and those who share beacons."""
        sharing = (user for beacon in self.beacons for user in beacon.users)
        return frozenset((*self.coins.present, *sharing))

    def planted(self, corpus: Corpus) -> Planted:
        """Return the corpus, into which these canaries are planted already.

        Words of each copy follow a value that was drawn; an earlier manifest's turn ends there. The
        records of real users with coins are those that the corpus keeps aside.
        """

        def in_turn(secret: Secret) -> Secret:
            whole = framed(secret, corpus.frame)
            is_followed = secret.space is not None and self.source is not None
            return replace(whole, suffix=secret.suffix) if is_followed else whole

        secrets = tuple(map(in_turn, self.secrets))
        if self.own is None:
            return Planted(corpus, secrets, self.coins)
        own, coins = self.own.coins, self.coins
        every = Coins({**coins.present, **own.present}, {**coins.slot, **own.slot})
        return Planted(corpus, (*secrets, *secrets_of(corpus.aside, own.present)), every)

    def before_coins(self, corpus: Corpus) -> Corpus:
        """Return the corpus as it was before planting: no invented user, all real ones.

        Records of users with coins are those kept aside, whichever way the coins fell. Without a
        corpus there are no others.
        """
        coins = () if self.own is None else self.own.coins.present
        elsewhere = self.invented | set(coins)
        rest = tuple(record for record in corpus.records if record.user not in elsewhere)
        return replace(corpus, records=rest + corpus.aside)


def texts_digest(corpus: Corpus) -> str:
    """Compute SHA-256 of the texts, independent of order, users, splits and models."""
    return digest_of_json(
        sorted(plain(r.messages) if r.messages else r.text for r in corpus.records)
    )


def write(manifest: Manifest, path: Path) -> None:
    """Write the file atomically, readable by its owner only. Raises UsageError."""
    document = _document(manifest)
    text = json.dumps({**document, "checksum": manifest.digest}, indent=1, ensure_ascii=False)
    try:
        write_atomically(path, text + "\n", private=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def read(path: Path) -> Manifest:
    """Read a manifest. Raises UsageError for any other file, and for an edited manifest.

    Its checksum finds slips, not forgeries: whoever edits a manifest can compute it again. So what
    no planting writes is refused, too.
    """
    try:
        document = read_json(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("form") not in (FORM, EARLIER):
        raise UsageError(f"{path}: is not a manifest of this version; `audit plant` writes one")
    if document.pop("checksum", None) != digest_of_json(document):
        raise UsageError(
            f"{path}: was changed since `audit plant` wrote it, so its coins may be wrong; use the "
            "original"
        )
    wrong = fault(document)
    if wrong:
        raise UsageError(f"{path}: {wrong}; no `audit plant` wrote this, so use the original")
    return _manifest(document)


def _document(manifest: Manifest) -> dict[str, Any]:
    """Convert the manifest to JSON. A space is written once; what was drawn has its index."""
    drawn: list[Secret | Draw | Beacon] = [
        *manifest.secrets,
        *manifest.sentences.values(),
        *manifest.stems.values(),
        *manifest.beacons,
    ]
    spaces = list(dict.fromkeys(one.space for one in drawn if one.space is not None))
    place: dict[Space | None, int | None] = {None: None}
    place |= {space: i for i, space in enumerate(spaces)}

    def row(one: Secret | Draw | Beacon) -> dict[str, Any]:
        own = {f.name: getattr(one, f.name) for f in fields(one) if f.name != "records"}
        return {**own, "space": place[one.space]}

    own, manner = manifest.own, manifest.manner
    earlier = manifest.source is None
    optional = {
        "design": manifest.design,
        "turn": manifest.turn,
        "manner": None if manner == PLAIN else asdict(manner),
        "own": None if own is None else {"sha256": own.sha256, "users": _users(own)},
        "user_is": manifest.user_is or None,
    }
    document = {
        "form": EARLIER if earlier else FORM,
        "corpus": {"name": manifest.name, "sha256": manifest.sha256, "texts": manifest.texts},
        "records": manifest.records,
        "users": manifest.users,
        "population": asdict(manifest.population),
        "seed": manifest.seed,
        "key": manifest.key.hex(),
        "source": manifest.source,
        "share": manifest.share,
        "coins": _tossed(manifest.coins),
        "spaces": [_compact(space) for space in spaces],
        "secrets": [row(secret) for secret in manifest.secrets],
        "sentences": {kind: row(draw) for kind, draw in manifest.sentences.items()},
        "stems": {kind: row(draw) for kind, draw in manifest.stems.items()},
        "beacons": [row(beacon) for beacon in manifest.beacons],
        **{name: value for name, value in optional.items() if value is not None},
    }
    return {name: document[name] for name in document if not (earlier and name in LATER)}


def _tossed(coins: Coins) -> dict[str, dict[str, Any]]:
    return {
        user: {"present": present, "slot": coins.slot[user]}
        for user, present in coins.present.items()
    }


def _users(own: Own) -> dict[str, dict[str, Any]]:
    return {u: {**coin, "records": own.records[u]} for u, coin in _tossed(own.coins).items()}


def _compact(space: Space) -> dict[str, Any]:
    """Return the distinct symbol sets of a space, and the index of the set at each place."""
    places = list(dict.fromkeys(space.symbols))
    return {"symbols": places, "places": [places.index(place) for place in space.symbols]}


def _manifest(document: Mapping[str, Any]) -> Manifest:
    """Restore the manifest that `_document` converted."""
    spaces = [_space(compact) for compact in document["spaces"]]

    def read(cls: type[T], row: Mapping[str, Any]) -> T:
        place = row["space"]
        return cls(**{**row, "space": None if place is None else spaces[place]})

    own = document.get("own")
    as_they_are = ("records", "users", "seed", "source", "share", "design", "turn", "user_is")
    return Manifest(
        **document["corpus"],
        **{name: document[name] for name in as_they_are if name in document},
        population=Population(**document["population"]),
        key=bytes.fromhex(document["key"]),
        coins=_coins(document["coins"]),
        secrets=tuple(read(Secret, row) for row in document["secrets"]),
        sentences={kind: read(Draw, row) for kind, row in document.get("sentences", {}).items()},
        stems={kind: read(Draw, row) for kind, row in document.get("stems", {}).items()},
        beacons=tuple(
            read(Beacon, {**row, "users": tuple(row["users"])})
            for row in document.get("beacons", ())
        ),
        manner=Manner(**document.get("manner", {})),
        own=None if own is None else _own(own),
    )


def _space(compact: Mapping[str, Any]) -> Space:
    places = [tuple(place) for place in compact["symbols"]]
    return Space(tuple(places[i] for i in compact["places"]))


def _coins(users: Mapping[str, Mapping[str, Any]]) -> Coins:
    present, slot = ({u: one[name] for u, one in users.items()} for name in ("present", "slot"))
    return Coins(present, slot)


def _own(document: Mapping[str, Any]) -> Own:
    records = {user: one["records"] for user, one in document["users"].items()}
    return Own(_coins(document["users"]), records, document["sha256"])
