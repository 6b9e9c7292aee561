"""evidence.json: what a run's findings follow from, outside `stages/` and without any secret value.

It is written beside results.json, readable by its owner only. `audit verify` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import UsageError, first_line
from audit.core.files import read_json
from audit.core.guarantee import Guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret
from audit.core.writing import write_atomically
from audit.findings.case import Case
from audit.findings.rejections import Family
from audit.findings.shows import Shows
from audit.measure.attacked import Attacked
from audit.measure.masked import masked, unmasked
from audit.results.exact import letters, of_letters, pack, unpack
from audit.results.measurement import Control, Measurement
from audit.results.schema import SessionResult
from audit.results.silence import Link
from audit.statistics.retossed import Crossed

NAME, FORM = "evidence.json", "audit evidence 5"
_TESTS = 1_000_000  # of a family, each of which is tossed for again: no plan makes as many
_AGAIN = "when the plan is run again, which trains nothing that is there"
UTILITY_STREAM = ("utility", "bootstrap")  # the draws behind the intervals of all `Ratio`s
_OF_SESSION = ("purpose", "queries", "answered", "budget", "remaining")


@dataclass(frozen=True)
class OfAttack:
    """Observations of one attack: its label, the kinds of secrets it aimed at, its session's facts.

    access: what the release gives. charged: whether it reads its ledger. lost, blind: as in `Case`.
    seen: the evidence as JSON values.
    """

    attack: str
    kinds: tuple[str, ...]
    access: int
    tainted: bool
    charged: bool
    lost: dict[str, str]
    blind: dict[str, Control]
    seen: list[dict[str, Any]]


@dataclass(frozen=True)
class Tosses:
    """Tosses that crossed the limits of looks at the same coins: before this look, and by its end.

    before: None for the first of them.
    """

    before: Crossed | None
    after: Crossed


@dataclass(frozen=True)
class OfRelease:
    """Facts of one release: its name and role, its promise unrounded, its sessions.

    ledger: what its sessions are called there, before their purpose. sessions: the fields of each
    that no ledger holds. utility: of each session that measures it, the share of the training done
    and the sums over blocks, each a `Ratio` as JSON values. shows: what it has shown by itself.
    tosses: of one look of several; None for the only one.
    """

    defense: str
    parameters: dict[str, Any]
    reference: bool
    role: str
    ledger: str
    guarantee: Guarantee
    sessions: tuple[dict[str, Any], ...]
    utility: tuple[dict[str, Any], ...]
    attacks: tuple[OfAttack, ...]
    shows: Shows
    tosses: Tosses | None = None


@dataclass(frozen=True)
class EvidenceFile:
    """All that the findings of one run follow from.

    unit: what one coin decides. family: how many tests p-values are adjusted for.
    """

    plan_hash: str
    unit: str
    family: Family
    secrets: tuple[Secret, ...]
    coins: Coins
    releases: tuple[OfRelease, ...]

    def case(self, release: OfRelease, one: OfAttack, delta: float, seed: int) -> Case:
        """Return the case of one attack on one release. delta, seed: of the plan."""
        return Case(
            attack=one.attack,
            secrets=tuple(s for s in self.secrets if s.kind in one.kinds),
            coins=self.coins,
            delta=delta,
            seed=seed,
            access=Access(one.access),
            tainted=one.tainted,
            tests=self.family.tests,
            claim_tests=self.family.claims,
            unit=self.unit,
            lost=one.lost,
            guarantee=release.guarantee,
            blind=one.blind,
            lots=self.family.lots,
        )


def of_attack(attacked: Attacked, measurements: Iterable[Measurement]) -> OfAttack:
    """Collect what is stored of one attack. measurements: all of its release."""
    case = attacked.case
    mine = (m for m in measurements if m.attack == case.attack)
    return OfAttack(
        attack=case.attack,
        kinds=tuple(dict.fromkeys(secret.kind for secret in case.secrets)),
        access=int(case.access),
        tainted=case.tainted,
        charged=attacked.charges is not None,
        lost=dict(case.lost),
        blind={m.metric: m.blind for m in mine if m.blind is not None},
        seen=attacked.seen,
    )


def facts(session: SessionResult) -> dict[str, Any]:
    """Return the fields of a session that do not follow from its ledger."""
    return session.model_dump(include=set(_OF_SESSION))


def write(folder: Path, evidence: EvidenceFile) -> None:
    """Write evidence.json into a run folder, readable by its owner only."""
    document = {
        "form": FORM,
        "plan": evidence.plan_hash,
        "unit": str(evidence.unit),
        "family": asdict(evidence.family),
        **masked(evidence.secrets, evidence.coins),
        "releases": [_of_release(release) for release in evidence.releases],
    }
    text = json.dumps(pack(document), separators=(",", ":"), ensure_ascii=False)
    write_atomically(folder / NAME, text + "\n", private=True)


def _of_release(release: OfRelease) -> dict[str, Any]:
    attacks = [
        {**vars(one), "blind": {m: blind.__dict__ for m, blind in one.blind.items()}}
        for one in release.attacks
    ]
    return {
        **vars(release),
        "guarantee": asdict(release.guarantee),
        "attacks": attacks,
        "shows": _of_shows(release.shows),
        "tosses": release.tosses and [_of_tosses(t) for t in vars(release.tosses).values()],
    }


def _of_tosses(crossed: Crossed | None) -> list[Any] | None:
    if crossed is None:
        return None
    bits = np.packbits(crossed.tosses).tobytes()
    return [crossed.looks, len(crossed.tosses), letters(bits)]


def _tosses(row: Sequence[Any] | None) -> Crossed | None:
    if row is None:
        return None
    looks, count, text = row
    bits = np.frombuffer(of_letters(text), np.uint8)
    if type(looks) is not int or looks < 1 or type(count) is not int or len(bits) != -(-count // 8):
        raise ValueError("tosses of no look")
    return Crossed(np.unpackbits(bits, count=count).astype(bool), looks)


def _of_shows(shows: Shows) -> dict[str, Any]:
    contact = {kind: link.model_dump(mode="json") for kind, link in shows.contact.items()}
    sight = [[*name, link.model_dump(mode="json")] for name, link in shows.sight.items()]
    return {"contact": contact, "sight": sight, "unseen": shows.unseen}


def read(folder: Path) -> EvidenceFile:
    """Read evidence.json of a run folder. Raises UsageError."""
    path = folder / NAME
    try:
        document = unpack(read_json(path))
        if document["form"] != FORM:
            raise ValueError(f"its form is {document['form']!r}, not {FORM!r}")
        return _restored(document)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: is not here, so nothing can be verified; this version writes it {_AGAIN}"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {first_line(error)}"
        raise UsageError(f"{path}: is no evidence of a run ({why})") from None


def _restored(document: dict[str, Any]) -> EvidenceFile:
    secrets, coins = unmasked(document)
    releases = tuple(map(_release, document["releases"]))
    family = Family(**document["family"])
    if not 0 <= family.tests <= _TESTS:
        raise ValueError(f"a family of {family.tests:,} tests")
    return EvidenceFile(document["plan"], document["unit"], family, secrets, coins, releases)


def _release(row: Mapping[str, Any]) -> OfRelease:
    restored = {
        "guarantee": _guarantee(row["guarantee"]),
        "sessions": tuple(row["sessions"]),
        "utility": tuple(row["utility"]),
        "attacks": tuple(map(_attack, row["attacks"])),
        "shows": _shows(row["shows"]),
        "tosses": None if row["tosses"] is None else _looked(row["tosses"]),
    }
    return OfRelease(**{**row, **restored})


def _looked(row: Sequence[Any]) -> Tosses:
    before, after = map(_tosses, row)
    if after is None:
        raise ValueError("a look without tosses")
    return Tosses(before, after)


def _shows(row: Mapping[str, Any]) -> Shows:
    return Shows(
        contact={kind: Link.model_validate(link) for kind, link in row["contact"].items()},
        sight={(a, metric): Link.model_validate(link) for a, metric, link in row["sight"]},
        unseen=row["unseen"],
    )


def _attack(row: Mapping[str, Any]) -> OfAttack:
    blind = {metric: Control.model_validate(one) for metric, one in row["blind"].items()}
    return OfAttack(**{**row, "kinds": tuple(row["kinds"]), "blind": blind})


def _guarantee(row: Mapping[str, Any]) -> Guarantee:
    users = row["teachers_per_user"]
    return Guarantee(
        **{
            **row,
            **{name: tuple(row[name]) for name in ("conditions", "phrases", "also")},
            "teachers_per_user": users and {int(count): n for count, n in users.items()},
        }
    )
