"""The case of one attack on one release: what joins its evidence with the coins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from audit.core.evidence import Evidence, about
from audit.core.guarantee import Guarantee
from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.core.reach import Reach
from audit.core.secret import ON_REQUEST, OWN, Coins, Secret
from audit.core.terms import Unit
from audit.results.measurement import Control, Measurement, Power, measured
from audit.statistics import power
from audit.statistics.clopper_pearson import one_sided_upper
from audit.statistics.interval import Interval
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.tossed import OfOwners, OfScores, Tossed
from audit.statistics.withheld_rate import withheld_rate


@dataclass(frozen=True)
class Charges:
    """Charges of one session's ledger.

    order: Rényi order α of the charges; None where the ledger counts otherwise.
    per_query: shape (q, units), nats, of the answered queries in order; (0,) without a ledger.
    epsilon: budget of every unit, nats. budget: most queries of a session; None: no limit.
    """

    order: float | None
    per_query: np.ndarray
    epsilon: float = math.inf
    budget: int | None = None


@dataclass(frozen=True)
class Case:
    """One attack on one release: the secrets it aimed at and, only here, the coins and charges.

    delta: δ of the empirical ε. access: what the release gives; evidence that needs more access is
    stronger than the release, and so are samples drawn after such evidence (tainted). tests: how
    many tests the release's leaks are adjusted for; claim_tests: how many its refutation is. unit:
    what one coin decides: Unit.USER, or Unit.ONE_RECORD if each owner holds one record only. lost:
    by kind, which of its planted secrets never reached the training; kinds that reached it whole
    are absent. guarantee: what the release claims, to test it on the curve of its mechanism. blind:
    by metric, the blind baseline where the values are masked; None: it is computed from them. cut:
    whether the session, which its answers can end, did so before its queries ended; None: they
    cannot. reach: the leak that must be found before finding none means something. charges: of its
    ledger, if it has one. lots: in which people were asked about, one after the other.
    """

    attack: str
    secrets: tuple[Secret, ...]
    coins: Coins
    delta: float
    seed: int
    access: Access
    tainted: bool = False
    tests: int = 1
    claim_tests: int = 1
    unit: str = Unit.USER
    lost: Mapping[str, str] = field(default_factory=dict)
    guarantee: Guarantee | None = None
    blind: Mapping[str, Control] | None = None
    cut: bool | None = None
    reach: Reach = field(default_factory=Reach)
    charges: Charges | None = None
    lots: int = 1

    def part(self, evidence: Evidence) -> tuple[Evidence, Case]:
        """Restrict evidence and case to the secrets that the evidence is about."""
        places = [i for i, s in enumerate(self.secrets) if evidence.kind in (None, s.kind)]
        secrets = tuple(self.secrets[i] for i in places)
        return about(evidence, places), replace(self, secrets=secrets)

    def measurement(
        self,
        evidence: Evidence,
        metric: str,
        seen: Interval,
        unit: str,
        observation: str,
        **more: Any,
    ) -> Measurement:
        """Make a measurement of this attack.

        more: its further fields; unless given, `test` is one of its own.
        """
        # whoever has the texts has all that it takes: the model was trained on them
        of_texts = self.guarantee is not None and self.guarantee.release == "text"
        fields = {
            "access": "text" if of_texts else evidence.access.word,
            "test": f"{self.attack} {metric}",
            "power": Power(n=seen.n),
            "stronger_than_release": self.stronger(evidence.access),
            "kinds": tuple(dict.fromkeys(secret.kind for secret in self.secrets)),
            "untrained": self.untrained,
            **measured(seen),
        }
        return Measurement(
            attack=self.attack,
            metric=metric,
            unit=unit,
            observation=observation,
            **{**fields, **more},
        )

    @cached_property
    def untrained(self) -> str:
        """Which of its secrets never reached the training."""
        kinds = dict.fromkeys(secret.kind for secret in self.secrets)
        return " ".join(f"{self.lost[kind]}." for kind in kinds if kind in self.lost)

    @cached_property
    def planted_values(self) -> set[tuple[str, str, str]]:
        """The values that were planted."""
        return {value(s) for s in self.secrets if self.coins.planted(s)}

    @cached_property
    def twin_values(self) -> set[tuple[str, str, str]]:
        """The values drawn for twins, less those that are also planted, by accident."""
        return {value(s) for s in self.secrets if self.coins.twin(s)} - self.planted_values

    @cached_property
    def planted(self) -> np.ndarray:
        """(s,), bool: the secrets that are in the training text."""
        return np.array([self.coins.planted(s) for s in self.secrets], dtype=bool)

    @cached_property
    def twins(self) -> np.ndarray:
        """(s,), bool: the secrets that another coin would have put there, and that are not."""
        planted = self.planted_values
        twins = [self.coins.twin(s) and value(s) not in planted for s in self.secrets]
        return np.array(twins, dtype=bool)

    @cached_property
    def single(self) -> np.ndarray:
        """(s,), bool: the secrets of one owner only. A value shared by two owners has two coins, so
        comparisons of planted secrets with twins leave it out on both sides."""
        owners: dict[tuple[str, str, str], set[str]] = {}
        for secret in self.secrets:
            owners.setdefault(value(secret), set()).add(secret.owner)
        return np.array([len(owners[value(s)]) == 1 for s in self.secrets], dtype=bool)

    @cached_property
    def drawn(self) -> np.ndarray:
        """(s,), bool: the secrets that tests compare, one of each user and kind, planted or not.

        Second coins stay as they fell, whatever the first would have been.
        """
        return np.array([self.coins.slot[s.owner] == s.slot for s in self.secrets], dtype=bool)

    def outcomes(self, won: np.ndarray) -> str:
        """Make `Measurement.outcomes` of planted secrets from won, shape (s,): 1, 0, or NaN (not
        measured). A value that two owners share counts once, for the first of them."""
        seen: set[tuple[str, str, str]] = set()
        marks = []
        for i in np.flatnonzero(self.planted):
            one = value(self.secrets[i])
            marks.append("-" if one in seen or np.isnan(won[i]) else f"{int(won[i])}")
            seen.add(one)
        return "".join(marks)

    def rate(self, k: int, n: int, withheld: int = 0) -> Interval:
        """Compute the interval of k hits in n tries, whose number the session may have chosen.

        withheld: how many more may have been hits; a server, which has no budget, withholds them.
        """
        if self.cut is None:
            return withheld_rate(k, n, withheld)
        return stopped_rate([Series(k, n)])

    def smallest_rate(self, n: int, withheld: int = 0) -> float | None:
        """Compute the upper limit on a rate, with 95 %, if there is no hit; None without tries."""
        if not n:
            return None
        if self.cut is None:
            return one_sided_upper(withheld, n) if withheld else power.smallest_rate(n)
        return stopped_rate([Series(0, n)]).high

    @cached_property
    def heads(self) -> np.ndarray:
        """(users,), bool: the coins of all users of the run, in their order."""
        return np.array(list(self.coins.present.values()), dtype=bool)

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each user in `heads`."""
        return {owner: place for place, owner in enumerate(self.coins.present)}

    def places_of(self, owners: Iterable[str]) -> np.ndarray:
        """Find the places of these users in `heads`."""
        return np.array([self.place[owner] for owner in owners], dtype=np.int64)

    def of_coins(self, make: Callable[[np.ndarray], OfScores], scores: np.ndarray) -> Tossed:
        """Make a test of planted secrets' scores against twins', for any toss of the coins."""
        owners, own = self.compared(scores)
        return OfOwners(make(own), owners)

    def compared(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Select the scores to compare, and the places of their owners in `heads`."""
        compared = np.flatnonzero(self.single & self.drawn)
        return self.places_of(self.secrets[i].owner for i in compared), scores[compared]

    def split(self, measured: int) -> tuple[int, int]:
        """Compute how many of so many measured users are in and out, at their share of all.

        A function of the number of heads alone, so that tosses cannot change it.
        """
        inside = round(measured * int(self.heads.sum()) / max(1, self.heads.size))
        return inside, measured - inside

    def sides(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Select (planted, twins): the measured scores to compare."""
        comparable = self.single & ~np.isnan(scores)
        return scores[self.planted & comparable], scores[self.twins & comparable]

    @cached_property
    def chance(self) -> float | None:
        """1/|R| where all secrets are uniform on spaces of one size."""
        sizes = {None if s.space is None else s.space.size for s in self.secrets}
        size = sizes.pop() if len(sizes) == 1 else None
        return None if size is None else 1 / size

    def stronger(self, access: Access) -> bool:
        """Return whether evidence of this access is more than the release gives."""
        return self.access < access or (access == Access.GENERATE and self.tainted)

    def stream(self, *purpose: str) -> np.random.Generator:
        """Derive the randomness of the statistics, such as of tie-breaking."""
        return stream(self.seed, "findings", *purpose)

    def by_owner(self, scores: np.ndarray, chosen: np.ndarray | None = None) -> dict[str, float]:
        """Compute one score per owner, the higher of both values'; owners not measured are absent.

        Independent of the coins: the attacker does not know which of the two values was planted.
        chosen: (s,), bool, such as `drawn`, the secrets that count; all if None.
        """
        best: dict[str, float] = {}
        missing = set()
        for place, (secret, score) in enumerate(zip(self.secrets, scores, strict=True)):
            if chosen is not None and not chosen[place]:
                continue
            if score != score:
                missing.add(secret.owner)
            else:
                best[secret.owner] = max(best.get(secret.owner, -math.inf), float(score))
        return {owner: score for owner, score in best.items() if owner not in missing}


def value(secret: Secret) -> tuple[str, str, str]:
    """Compute what identifies a secret's value; the prefix is ignored for names of the corpus.

    A real user with a coin is a unit of its own, whoever else wrote the same.
    """
    if secret.kind == OWN:
        return secret.kind, secret.owner, secret.value
    of_corpus = secret.kind == "name" and secret.space is None
    return secret.kind, "" if of_corpus else secret.prefix, secret.value


def of_kind(kind: str | None, name: str) -> str:
    """Name a metric or test of one kind of short value; those of codes have no prefix."""
    return f"{kind}_{name}" if kind in ON_REQUEST else name
