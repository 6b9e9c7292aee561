"""A release of which nothing leaks: evidence of every attack's shape, drawn without its coins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from attacks.exposure import Exposure
from attacks.extraction import Extraction
from attacks.membership import Membership
from attacks.name_leak import NameLeak
from attacks.ngram import NGram
from audit.core.attack import Attack
from audit.core.evidence import Evidence, Hits, Likelihoods, Mentions, Ranks, Scores, Successes
from audit.core.predictor import Access
from audit.core.secret import PLANTED, Coins, Secret, digits
from audit.core.terms import Shown
from audit.findings import Case, family_of, measurements_of, tests_of
from audit.findings.adjusted import adjusted
from audit.findings.rejections import NONE, Family
from audit.findings.shows import Shows
from audit.findings.verdict import judge
from audit.results.measurement import FindingResult
from audit.results.schema import GuaranteeResult
from audit.results.silence import Link
from tests.findings.by_hand import promise

ATTACKS: tuple[Attack, ...] = (Membership(), Exposure(), Extraction(), NameLeak(), NGram())
_REACHED = Link(state=Shown.SHOWN, by="by hand", n=1)
_ID_COPIES = (1, 0, 4, 0, 16, 0)
CLAIM = GuaranteeResult.of(promise(8.0))


def secrets_of(users: int) -> tuple[Secret, ...]:
    """Two candidate values of every planted kind for each user; every other user has an id."""
    spaces = {"code": digits(5), "id": digits(6)}
    made = []
    for kind in PLANTED:
        for user in range(users):
            copies = _ID_COPIES[user % 6] if kind == "id" else 4
            for slot in range(2 if copies else 0):
                value = f"{kind} {user} {slot}"
                made.append(Secret(kind, "", value, "", spaces.get(kind), copies, f"{user}", slot))
    return tuple(made)


def family(secrets: Sequence[Secret]) -> Family:
    shapes = (family_of(a.shape(_of(a, secrets), True), _of(a, secrets)) for a in ATTACKS)
    return sum(shapes, NONE)


def findings(users: int, draws: np.random.Generator) -> list[FindingResult]:
    """All findings of one release, judged where every condition but reach is shown."""
    secrets, coins = secrets_of(users), _coins(users, draws)
    tests, size = {}, family(secrets)
    found = []
    for attack in ATTACKS:
        own = _of(attack, secrets)
        case = Case(
            type(attack).__name__, own, coins, 1e-5, 0, Access.DISTRIBUTION, tests=size.tests,
            claim_tests=size.claims, guarantee=CLAIM,
        )  # fmt: skip
        evidence = list(_filled(attack.shape(own, True), own, draws))
        found += measurements_of(evidence, case)
        tests |= tests_of(evidence, case)
    seed = int(draws.integers(2**32))
    done = adjusted(found, tests, case.heads, CLAIM, size, seed).measurements
    sight = {(f.attack, f.metric): _REACHED for f in done}
    return judge(done, CLAIM, Shows(dict.fromkeys(PLANTED, _REACHED), sight), size)


def _of(attack: Attack, secrets: Sequence[Secret]) -> tuple[Secret, ...]:
    return tuple(secret for secret in secrets if secret.kind in attack.kinds)


def _coins(users: int, draws: np.random.Generator) -> Coins:
    present, slots = draws.integers(2, size=(2, users))
    return Coins(
        {f"{i}": bool(c) for i, c in enumerate(present)},
        {f"{i}": int(c) for i, c in enumerate(slots)},
    )


def _filled(
    shape: Iterable[Evidence], secrets: Sequence[Secret], draws: np.random.Generator
) -> Iterable[Evidence]:
    """Evidence of this shape; scores of one candidate depend on each other."""
    n = len(secrets)
    common = draws.normal(size=n)
    for one in shape:
        mine = np.array([one.kind in (None, secret.kind) for secret in secrets])

        def of_kind(values: np.ndarray, mine: np.ndarray = mine) -> np.ndarray:
            return np.where(mine, values, np.nan)

        if isinstance(one, Hits):
            yield one  # of a hundred thousand values, none is hit
        elif isinstance(one, Mentions):
            named = draws.integers(-49 * n, n, size=len(one.named))  # one text in fifty
            yield replace(one, named=tuple((int(i),) if i >= 0 else () for i in named))
        elif isinstance(one, Likelihoods):
            yield replace(one, log_probs=of_kind(-12 - np.abs(draws.normal(size=n) + common)))
        elif isinstance(one, Scores):
            yield replace(one, values=of_kind(common + draws.normal(size=n)))
        elif isinstance(one, Successes):
            rate = 1 / 40 if one.metric == "targeted" else 0.001  # one name among forty
            yield replace(one, won=of_kind((draws.random(n) < rate).astype(float)))
        elif isinstance(one, Ranks):
            ranks = of_kind(np.ceil(draws.random(n) * 1e6))
            fixed = of_kind(np.full(n, 1e6))
            yield Ranks(
                -ranks, ranks, ranks, ranks, fixed, ranks, of_kind(np.ones(n)),
                np.full(n, np.nan), kind=one.kind,
            )  # fmt: skip
