"""Sessions behind a mechanism: nothing passes by it, and every query has a seed of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
from defenses.pmixed import PMixed


def asked(open_: EnsembleSession) -> list[Any]:
    """A conversation: generations, scores, a distribution; what came of it."""
    said = open_.generate([[0], [0, 2], [0, 3, 1]] * 5, 3)
    scored = open_.score([[0], [0, 1]] * 3, [[1, 2, 3], [4]] * 3)
    rows, _ = open_.distribution([[0, 2]] * 4, [1, 2])
    said += scored
    return [*[(a.tokens, a.answered, *a.log_probs) for a in said], rows.tolist()]


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
    one, other = spied(bigram, 100, Spy()), spied(bigram, 200, Spy())
    assert asked(one) == asked(other)
    for scored in (False, True):
        one, other = spied(bigram, 100, Spy()), spied(bigram, 200, Spy())
        answers = [
            s.score([[0]] * 9, [[1, 2, 3, 4, 5]] * 9, moments=True)
            if scored
            else s.generate([[0]] * 9, 5)
            for s in (one, other)
        ]
        for a, b in zip(*answers, strict=True):
            np.testing.assert_array_equal(a.log_probs, b.log_probs)
            np.testing.assert_array_equal(a.top1, b.top1)
            assert (a.tokens, a.answered) == (b.tokens, b.answered)
            assert a.moments is None or (a.moments == b.moments).all()
        assert [a.answered for a in answers[0]] == [5] * 8 + [0]


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


def test_another_question_after_a_kill_has_other_noise(bigram: Any) -> None:
    """The killed process answered place 0 with this noise; a second answer would reveal it."""
    first, again, other = Spy(), Spy(), Spy()
    for spy, context in ((first, [0, 1]), (again, [0, 1]), (other, [0, 2])):
        spied(bigram, 100, spy).distribution([context], [1])
    assert first.seeds == again.seeds
    assert first.seeds != other.seeds


def test_uniforms_are_uniform_and_apart_from_the_noise() -> None:
    seeds = [bytes([i % 256, i // 256]) * 16 for i in range(20_000)]
    u = sessions.uniforms(seeds)
    assert u.min() >= 0 and u.max() < 1
    counts, _ = np.histogram(u, bins=20, range=(0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # χ² of 19 degrees, 99.9 %


# on real models


@pytest.mark.full
def test_at_epsilon_2_only_members_near_the_public_model_are_of_use(tmp_path: Path) -> None:
    """SubMix's comparison (its Figure 2): ε = 2, B = 1,024, k = 8. Noise drowns eight votes or
    their mean in a vocabulary; clipped members can gain at most c."""
    from audit.core.embedded import EMBEDDED_FOLDER
    from audit.corpora.loading import load
    from audit.findings.stored import load as results_of
    from audit.models.loading import describe
    from audit.plan.execution import execution
    from audit.plan.resolve import resolve_on
    from audit.results.folder import RunFolder
    from audit.run import pipeline

    plan = resolve_on(
        {
            "defense": ["subsample_aggregate", "gnmax", "pmixed", "public"],
            "attack": ["extraction:generations=1,searched=1,suffix=1"],
            "references": False,
            "device": "cpu",
        },
        load("helpdesk", EMBEDDED_FOLDER),
        describe("embedded", EMBEDDED_FOLDER),
    )
    output = RunFolder(tmp_path / "run", plan.hash)
    pipeline.run(plan, execution({"format": (), "workers": 1}), output, lambda label, share: None)
    releases = results_of(output.path / "results.json").releases
    found = {r.defense: r.utility["perplexity"] for r in releases}
    assert {f.answered for f in found.values()} == {1024}
    public = found["public"]
    for name in ("subsample_aggregate", "gnmax"):
        assert found[name].ci[0] > 10 * public.ci[1]  # type: ignore[index]
    bound = PMixed().mechanism.bound
    assert 1.02 < public.value / found["pmixed"].value < np.exp(bound)
