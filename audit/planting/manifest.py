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
from typing import Any

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
from audit.planting.manifest_form import EARLIER, FORM, fault
from audit.planting.own import Own, secrets_of

_GIVEN = 2**53  # of seeds that the operating system draws, one in a thousand is below


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
    design: Mapping[str, Any] | None = None
    turn: str | None = None
    source: str | None = None
    sentences: Mapping[str, Draw] = field(default_factory=dict)
    stems: Mapping[str, Draw] = field(default_factory=dict)
    beacons: tuple[Beacon, ...] = ()
    share: float | None = None
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
        secrets = tuple(framed(secret, corpus.frame) for secret in self.secrets)
        if self.source is not None:
            secrets = tuple(
                new if new.space is None else replace(new, suffix=old.suffix)
                for new, old in zip(secrets, self.secrets, strict=True)
            )
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
    """Convert the manifest to JSON. A space is written once; secrets refer to its index."""
    draws = (*manifest.sentences.values(), *manifest.stems.values())
    used = (*(s.space for s in manifest.secrets if s.space is not None), *(d.space for d in draws))
    used = (*used, *(beacon.space for beacon in manifest.beacons))
    spaces = list(dict.fromkeys(used))
    place = {space: i for i, space in enumerate(spaces)}
    names = [one.name for one in fields(Secret) if one.name != "records"]
    coins = manifest.coins
    return {
        "form": EARLIER if manifest.source is None else FORM,
        "corpus": {"name": manifest.name, "sha256": manifest.sha256, "texts": manifest.texts},
        "records": manifest.records,
        "users": manifest.users,
        "population": asdict(manifest.population),
        "seed": manifest.seed,
        "key": manifest.key.hex(),
        "coins": {
            owner: {"present": present, "slot": coins.slot[owner]}
            for owner, present in coins.present.items()
        },
        "spaces": [_compact(space) for space in spaces],
        "secrets": [
            {name: getattr(s, name) for name in names}
            | {"space": None if s.space is None else place[s.space]}
            for s in manifest.secrets
        ],
        **({} if manifest.design is None else {"design": manifest.design}),
        **({} if manifest.turn is None else {"turn": manifest.turn}),
        **({} if manifest.manner == PLAIN else {"manner": asdict(manifest.manner)}),
        **({} if manifest.source is None else _later(manifest, place)),
        **({} if manifest.own is None else {"own": _own(manifest.own)}),
        **({"user_is": manifest.user_is} if manifest.user_is else {}),
    }


def _own(own: Own) -> dict[str, Any]:
    coins = own.coins
    users = {
        user: {"present": coins.present[user], "slot": coins.slot[user], "records": records}
        for user, records in own.records.items()
    }
    return {"sha256": own.sha256, "users": users}


def _owned(document: Mapping[str, Any]) -> Own:
    users = document["users"]
    present, slot, records = (
        {user: one[name] for user, one in users.items()} for name in ("present", "slot", "records")
    )
    return Own(Coins(present, slot), records, document["sha256"])


def _later(manifest: Manifest, place: Mapping[Space, int]) -> dict[str, Any]:
    """Return what earlier manifests do not have."""

    def written(draws: Mapping[str, Draw]) -> dict[str, Any]:
        return {k: {"space": place[draw.space], "value": draw.value} for k, draw in draws.items()}

    return {
        "source": manifest.source,
        "sentences": written(manifest.sentences),
        "stems": written(manifest.stems),
        "beacons": [
            {name: getattr(beacon, name) for name in ("kind", "prefix", "value", "suffix")}
            | {"space": place[beacon.space], "users": list(beacon.users)}
            for beacon in manifest.beacons
        ],
        "share": manifest.share,
    }


def _compact(space: Space) -> dict[str, Any]:
    """Return the distinct symbol sets of a space, and the index of the set at each place."""
    places = list(dict.fromkeys(space.symbols))
    return {"symbols": places, "places": [places.index(place) for place in space.symbols]}


def _space(compact: dict[str, Any]) -> Space:
    places = [tuple(place) for place in compact["symbols"]]
    return Space(tuple(places[i] for i in compact["places"]))


def _manifest(document: dict[str, Any]) -> Manifest:
    spaces = [_space(compact) for compact in document["spaces"]]
    coins = document["coins"]

    def draws(name: str) -> dict[str, Draw]:
        return {
            kind: Draw(spaces[draw["space"]], draw["value"])
            for kind, draw in document.get(name, {}).items()
        }

    return Manifest(
        **document["corpus"],
        records=document["records"],
        users=document["users"],
        population=Population(**document["population"]),
        secrets=tuple(
            Secret(**{**s, "space": None if s["space"] is None else spaces[s["space"]]})
            for s in document["secrets"]
        ),
        coins=Coins(
            present={owner: coin["present"] for owner, coin in coins.items()},
            slot={owner: coin["slot"] for owner, coin in coins.items()},
        ),
        seed=document["seed"],
        key=bytes.fromhex(document["key"]),
        design=document.get("design"),
        turn=document.get("turn"),
        source=document.get("source"),
        sentences=draws("sentences"),
        stems=draws("stems"),
        beacons=tuple(
            Beacon(**{**one, "space": spaces[one["space"]], "users": tuple(one["users"])})
            for one in document.get("beacons", ())
        ),
        share=document.get("share"),
        manner=Manner(**document.get("manner", {})),
        own=_owned(document["own"]) if "own" in document else None,
        user_is=document.get("user_is", ""),
    )
