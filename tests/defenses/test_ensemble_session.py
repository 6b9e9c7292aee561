"""Sessions behind a mechanism: nothing passes by it, and every query has a seed of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.ensemble import Separate
from audit.core.predictor import Access
from audit.core.release import NoJournal
from defenses.ensembles import ByData, Mixed
from defenses.ensembles import session as sessions
from defenses.ensembles.session import EnsembleSession, Service
from tests.defenses.services import conversation, in_threes, plain

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


def test_public_model_reads_the_rest_after_stop_and_no_more(
    bigram: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = sessions.read_in_parts

    def watched(model: Any, texts: Any, starts: Any, use: Any) -> Any:
        asked.append((texts, starts))
        return real(model, texts, starts, use)

    monkeypatch.setattr(sessions, "read_in_parts", watched)
    for budget, starts in ((7, [3, 1]), (5, [1, 1]), (0, [1, 1, 1])):
        open_ = spied(bigram, 100, Spy(), budget=budget)
        answers = open_.score([[0]] * 3, [[1, 2, 3, 4, 5]] * 3)
        assert sum(a.answered for a in answers) == budget
        assert asked.pop() == ([[0, 1, 2, 3, 4, 5]] * len(starts), starts) and not asked
    assert len(spied(bigram, 100, Spy()).score([[0]] * 3, [[1, 2]] * 3)) == 3 and not asked


def test_texts_without_queries_have_empty_answers(bigram: Any) -> None:
    open_ = spied(bigram, 100, Spy())
    assert [a.tokens for a in open_.score([[0], [1, 2]], [[], []])] == [(), ()]
    assert [a.tokens for a in open_.score([[0], [1, 2]], [[], [1]])] == [(), (1,)]
    assert open_.score([], []) == open_.generate([], 3) == [] and open_.remaining == 39


def test_queries_after_stop_are_counted_in_every_part(
    bigram: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Separate, "in_parts", in_threes)
    open_ = spied(bigram, 100, Spy(charge=0.2))
    answers = open_.score([[0]] * 3, [[1, 2, 3, 4, 5]] * 3)
    assert [a.answered for a in answers] == [4, 0, 0] and open_.remaining == 40 - 15
    open_.distribution([[0]] * 3, [1])
    assert open_.remaining == 40 - 15 - 3


def test_models_with_many_keys_and_values_read_few_texts(
    bigram: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of seven tokens, where twenty fit: as whole texts are read for their last tokens."""
    monkeypatch.setattr(Separate, "is_parted", True)
    read: list[int] = []
    for name in ("in_parts", "cursor"):
        real = getattr(Separate, name)

        def watched(self: Any, texts: Any, *rest: Any, real: Any = real) -> Any:
            read.append(len(texts))
            return real(self, texts, *rest)

        monkeypatch.setattr(Separate, name, watched)
    for kept, most in ((0, 7), ((1 << 28) // 20, 2), (1 << 28, 1)):
        monkeypatch.setattr(Separate, "kept", kept)
        open_ = spied(bigram, 100, Spy())
        assert open_.distribution([[0] * 6] * 7, [1])[1] == 7
        assert len(open_.generate([[0] * 4] * 7, 3)) == 7
        assert read == 2 * ([most] * (7 // most) + [1] * (7 % most))
        read.clear()


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
