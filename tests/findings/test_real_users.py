"""Real users with coins: no false leaks, and nearly all that the coins can bound.

A mailbox is made of numbers: how well a model knows each record, given who was trained on. People
quote each other, some write the same, and a filter drops what it has seen before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from attacks.membership import Membership
from attacks.own_records import OwnRecords
from attacks.scores.own_targets import own_target
from audit import findings
from audit.accounting.gaussians import Gaussians
from audit.core.corpus import Record
from audit.core.evidence import Evidence, Likelihoods, Scores, Successes
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret
from audit.findings import Case, bounds, family_of, measurements_of
from audit.findings.adjusted import adjusted
from audit.findings.rejections import NONE, rejections
from audit.results.measurement import Measurement
from audit.results.schema import GuaranteeResult
from audit.statistics import roc
from defenses.training.stated_claim import stated
from tests.findings.by_hand import promise
from tests.simulations import most, repeats

USERS = 120
CLAIM = GuaranteeResult.of(promise(8.0))


@dataclass(frozen=True)
class Mailbox:
    """Records of users, each a number of a text; quoted ones stand with several users."""

    texts: tuple[tuple[int, ...], ...]

    @classmethod
    def drawn(cls, draws: np.random.Generator, quoted: float, alike: float) -> Mailbox:
        """Draw 1 to 12 texts each; a share is quoted from others, a share of users writes alike."""
        own = [[100 * user + j for j in range(draws.integers(1, 13))] for user in range(USERS)]
        for user in range(USERS):
            if draws.random() < alike:
                own[user] = own[draws.integers(USERS)]
                continue
            for j in range(len(own[user])):
                if draws.random() < quoted:
                    own[user][j] = draws.choice(own[draws.integers(USERS)])
        return cls(tuple(map(tuple, own)))

    def known(self, heads: np.ndarray, filtered: bool, draws: np.random.Generator) -> np.ndarray:
        """Draw how well a model knows each text: those trained on, and not dropped as repeated."""
        often = dict.fromkeys({text for own in self.texts for text in own}, 0)
        for user in np.flatnonzero(heads):
            for text in self.texts[user]:
                often[text] += 1
        gains = np.zeros(100 * USERS)
        for text, count in often.items():
            seen = count > 0 and not (filtered and count > 1 and draws.random() < 0.5)
            gains[text] = draws.normal(1.5 if seen else 0.0, 0.3)
        return gains

    def secrets(self) -> tuple[Secret, ...]:
        return tuple(
            Secret("own", "", f"{user}", "", None, len(own), f"{user}", slot, tuple(map(str, own)))
            for user, own in enumerate(self.texts)
            for slot in (0, 1)
        )


def scores(secrets: Sequence[Secret], gains: np.ndarray) -> list[Scores]:
    """The two scores of each user, as membership reduces those of the records."""
    corpus = [Record(s.owner, text) for s in secrets if not s.slot for text in s.records]
    target = own_target(secrets, corpus)
    assert target is not None
    of_records = np.array([gains[int(text)] for _, text in target.records.texts])
    return [
        Scores(name, "own", values, named=name == "mean_ratio", kind="own")
        for name, values in target.of_users("ratio", of_records).items()
    ]


def of(mailbox: Mailbox, heads: Sequence[bool] | np.ndarray, **more: Any) -> Case:
    """The case of these coins."""
    coins = Coins(
        {f"{u}": bool(here) for u, here in enumerate(heads)}, {f"{u}": 0 for u in range(USERS)}
    )
    fields = {"delta": 1e-5, "seed": 0, "access": Access.DISTRIBUTION, **more}
    return Case("own", mailbox.secrets(), coins, **fields)


def leaks(mailbox: Mailbox, evidence: Sequence[Evidence], heads: np.ndarray, seed: int) -> bool:
    """Whether anything is called a leak by all tests of both attacks."""
    secrets = mailbox.secrets()
    shapes = [*Membership().shape(secrets, True), *OwnRecords().shape(secrets, True)]
    size = sum((family_of([one], secrets) for one in shapes), NONE)
    case = of(mailbox, heads, seed=seed, tests=size.tests, claim_tests=size.claims, guarantee=CLAIM)
    tests = findings.tests_of(evidence, case)
    found = adjusted(
        measurements_of(evidence, case), tests, case.heads, CLAIM, size, seed
    ).measurements
    return bool(rejections(found, CLAIM, size).leaking)


@repeats(4, 150)
def test_model_that_knows_no_coin_is_no_leak(runs: int) -> None:
    """It was trained under other coins: its scores depend on users, quotes and the filter alone."""
    draws = np.random.default_rng(11)
    mailbox, wrong = Mailbox.drawn(draws, quoted=0.2, alike=0.1), 0
    own = scores(mailbox.secrets(), mailbox.known(draws.random(USERS) < 0.5, True, draws))
    won = (np.round(own[1].values, 6) > 1.2).astype(float)
    evidence = [
        *own,
        Successes("own_sampled", "share", won, None, Access.GENERATE, "own"),
        Likelihoods(-20 + 10 * own[1].values.clip(0, 1.9), kind="own"),
    ]
    for seed in range(runs):
        wrong += leaks(mailbox, evidence, draws.random(USERS) < 0.5, seed)
    assert wrong / runs <= most(runs)


@repeats(3, 20)
def test_model_that_memorises_gives_most_of_the_largest_bound(runs: int) -> None:
    """Of the bound that 120 coins can carry, with one record in ten quoted from others."""
    draws, shares = np.random.default_rng(5), []
    largest = bounds.largest(USERS, 1e-5)
    for _ in range(runs):
        mailbox = Mailbox.drawn(draws, quoted=0.1, alike=0.0)
        heads = draws.random(USERS) < 0.5
        evidence = scores(mailbox.secrets(), mailbox.known(heads, True, draws))
        found = measurements_of(evidence, of(mailbox, heads))
        best = max(f.epsilon_lower.value for f in found if f.epsilon_lower is not None)
        assert leaks(mailbox, evidence, heads, 0)
        shares.append(best / (largest or 1))
    assert np.median(shares) >= 0.8


TURNS = np.arange(USERS) % 2 == 0


def area(mailbox: Mailbox, gains: np.ndarray, heads: np.ndarray) -> Measurement:
    found = measurements_of(scores(mailbox.secrets(), gains), of(mailbox, heads))
    return next(f for f in found if f.metric == "own_mean_ratio_auc")


def test_users_who_wrote_the_same_are_separate_units() -> None:
    """Equal scores of a user who stays and one who does not are a tie, and nobody is left out."""
    mailbox = Mailbox(tuple((100 * (user // 2),) for user in range(USERS)))
    one = area(mailbox, np.arange(100.0 * USERS), TURNS)
    assert one.value == 0.5 and one.n == USERS


def test_unit_is_the_user_and_not_the_record() -> None:
    """The AUC of users' means by hand: one user with a hundred records counts once."""
    mailbox = Mailbox(
        tuple(tuple(100 * u + j for j in range(99 if u == 3 else 1)) for u in range(USERS))
    )
    draws = np.random.default_rng(2)
    gains, heads = draws.normal(size=100 * USERS), draws.random(USERS) < 0.5
    means = np.array([np.mean(gains[list(own)]) for own in mailbox.texts])
    one = area(mailbox, gains, heads)
    assert one.n == USERS and one.blind is None
    assert one.value == pytest.approx(roc.auc(means[heads], means[~heads]).value, abs=1e-6)


def test_claim_of_unknown_size_is_tested_by_epsilon_alone() -> None:
    """Whoever fixed N after the coins ran another mechanism under other coins."""
    mailbox = Mailbox(tuple((100 * user,) for user in range(USERS)))
    evidence = scores(mailbox.secrets(), np.arange(100.0 * USERS))
    claim = stated("1e-5:user:add_or_remove", (Gaussians(1.0, 100, 0.1),))
    for given, tested in ((claim, False), (replace(claim, population=USERS), True)):
        found = measurements_of(evidence, of(mailbox, TURNS, guarantee=given))
        tests = [f.claim_test for f in found if f.epsilon_lower is not None]
        assert tests and any(test is not None for test in tests) == tested
