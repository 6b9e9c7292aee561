"""Sessions behind a mechanism: nothing passes by it, and every query has a seed of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from audit.core.ensemble import Separate
from audit.core.predictor import Access
from audit.core.release import NoJournal
from defenses.ensembles import ByData, Mixed
from defenses.ensembles import session as sessions
from defenses.ensembles.session import EnsembleSession, Service
from tests.defenses.services import conversation, plain

# seeds and spies


@dataclass
class Spy:
    """A mechanism that hears the members and says nothing of them; it remembers the seeds."""

    charge: float = 0.01
    seeds: list[bytes] = field(default_factory=list)
    access = Access.GENERATE
    reads_public = False

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        n, _, vocabulary = log_pmfs.shape
        assert len(seeds) == n
        self.seeds += seeds
        same = torch.log_softmax(torch.arange(vocabulary, dtype=torch.float64), dim=0)
        charges = torch.full((n, 2), self.charge, dtype=torch.float64)
        return Mixed(same.expand(n, vocabulary), costs=charges)


def spied(bigram: Any, members: int, spy: Spy, journal: Any = None, budget: int = 40) -> Any:
    """A session whose members are drawn from the seed `members`."""
    ensemble = Separate([bigram(members + i, 5.0) for i in range(3)])
    account = ByData(1.0, budget)
    service = Service(spy, account, ensemble, 3, bigram(1, 0.3))
    ledger = account.open(2, journal or NoJournal())
    return EnsembleSession(service, ledger, np.random.default_rng(0))


def test_nothing_of_the_members_passes_by_the_mechanism(bigram: Any) -> None:
    """Other members, the same mechanism's word: the same answers, to the last bit, STOP and all."""
    said = [conversation(spied(bigram, members, Spy())) for members in (100, 200)]
    assert said[0] == said[1] and said[0][1] == 40
    read = [
        spied(bigram, members, Spy()).score([[0]] * 9, [[1, 2, 3, 4, 5]] * 9, moments=True)
        for members in (100, 200)
    ]
    assert plain(read[0]) == plain(read[1]) and [a.answered for a in read[0]] == [5] * 8 + [0]
    for a, b in zip(*read, strict=True):
        np.testing.assert_array_equal(a.moments, b.moments)


def test_every_query_has_a_seed_of_its_own(bigram: Any) -> None:
    spy = Spy()
    open_ = spied(bigram, 100, spy, budget=1000)
    open_.generate([[0], [0], [0, 2]], 4)
    open_.score([[0], [0]], [[1, 2], [1, 2]])
    open_.distribution([[0], [0]], [1])
    assert len(spy.seeds) == len(set(spy.seeds)) == 12 + 4 + 2
    assert {len(seed) for seed in spy.seeds} == {32}


def test_sessions_and_uniforms_share_no_randomness(bigram: Any) -> None:
    one, other = Spy(), Spy()
    stream = np.random.default_rng(0)
    account = ByData(1.0, 40)
    for spy in (one, other):  # two sessions from one stream
        service = Service(spy, account, Separate([bigram(3)]), 1, bigram(1))
        EnsembleSession(service, account.open(2, NoJournal()), stream).distribution([[0]], [1])
    assert set(one.seeds).isdisjoint(other.seeds)
    assert stream.random() == np.random.default_rng(0).random()  # seeds take nothing from it


def test_uniforms_are_uniform_and_apart_from_the_noise() -> None:
    seeds = [bytes([i % 256, i // 256]) * 16 for i in range(20_000)]
    u = sessions.uniforms(seeds)
    assert u.min() >= 0 and u.max() < 1
    counts, _ = np.histogram(u, bins=20, range=(0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # χ² of 19 degrees, 99.9 %
