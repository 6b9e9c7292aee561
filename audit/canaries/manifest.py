"""The manifest of `audit plant`: every canary, every coin, and the keys, for its owner's eyes only.

Whoever reads it knows what to look for in the trained model; so it is written with mode 0600, and
no other file holds what it holds.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus, Population
from audit.core.errors import UsageError
from audit.core.files import write_atomically
from audit.core.guarantee import ONE_RECORD
from audit.core.secret import Coins, Planted, Secret, Space

FORM = "audit plant 1"


@dataclass(frozen=True)
class Manifest:
    """What was planted, and by which coins.

    name: of the corpus. sha256, records, users: of the corpus as it was written, canaries included;
    texts: `texts_digest` of it, by which it is known again.
    population: the size of what is trained on, had every coin come up.
    key: what hashes of values are keyed with.
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

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in it. The key, which nobody can guess, is a part: the digest tells
        nothing about the values."""
        return _digest(_document(self))

    @property
    def unit(self) -> str:
        """What one coin decides: a "user", or one whose only record is the one copy."""
        held = Counter((s.owner, s.slot) for s in self.secrets for _ in range(s.copies))
        return ONE_RECORD if max(held.values()) == 1 else "user"

    def planted(self, corpus: Corpus) -> Planted:
        """The corpus, into which these canaries are planted already."""
        return Planted(corpus, self.secrets, self.coins)


def texts_digest(corpus: Corpus) -> str:
    """SHA-256 of the texts, whatever their order, users and splits."""
    texts = json.dumps(sorted(record.text for record in corpus.records))
    return hashlib.sha256(texts.encode()).hexdigest()


def write(manifest: Manifest, path: Path) -> None:
    """Writes the file, readable by its owner only, whole or not at all. Raises UsageError."""
    document = _document(manifest)
    text = json.dumps({**document, "seal": manifest.digest}, indent=1, ensure_ascii=False)
    try:
        write_atomically(path, text + "\n", private=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def read(path: Path) -> Manifest:
    """Reads what `write` wrote. Raises UsageError for any other file, and for an edited one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("form") != FORM:
        raise UsageError(f"{path}: is no manifest of this version; `audit plant` writes one")
    seal = document.pop("seal", None)
    if seal != _digest(document):
        raise UsageError(
            f"{path}: was edited or cut short since `audit plant` wrote it; its coins are not the "
            "ones that were tossed, so take the original"
        )
    return _manifest(document)


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _document(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON. A space is written once, and secrets refer to its place."""
    spaces = list(dict.fromkeys(s.space for s in manifest.secrets if s.space is not None))
    place = {space: i for i, space in enumerate(spaces)}
    coins = manifest.coins
    return {
        "form": FORM,
        "corpus": {"name": manifest.name, "sha256": manifest.sha256, "texts": manifest.texts},
        "records": manifest.records,
        "users": manifest.users,
        "population": {
            "users": manifest.population.users,
            "records": manifest.population.records,
        },
        "seed": manifest.seed,
        "key": manifest.key.hex(),
        "coins": {
            owner: {"present": present, "slot": coins.slot[owner]}
            for owner, present in coins.present.items()
        },
        "spaces": [_compact(space) for space in spaces],
        "secrets": [
            {
                "kind": s.kind,
                "prefix": s.prefix,
                "value": s.value,
                "suffix": s.suffix,
                "space": None if s.space is None else place[s.space],
                "copies": s.copies,
                "owner": s.owner,
                "slot": s.slot,
            }
            for s in manifest.secrets
        ],
    }


def _compact(space: Space) -> dict[str, Any]:
    """The different places of a space, and which of them each symbol is drawn from."""
    places = list(dict.fromkeys(space.symbols))
    return {"symbols": places, "places": [places.index(place) for place in space.symbols]}


def _space(compact: dict[str, Any]) -> Space:
    places = [tuple(place) for place in compact["symbols"]]
    return Space(tuple(places[i] for i in compact["places"]))


def _manifest(document: dict[str, Any]) -> Manifest:
    spaces = [_space(compact) for compact in document["spaces"]]
    coins = document["coins"]
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
    )
