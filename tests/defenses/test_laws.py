"""What an auditor sees of an ensemble besides its answers: laws, replaced parts, neighbours."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.core.ensemble import Selected
from audit.core.law import LaplaceNoise, Lawful
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.models.causal import CausalLM
from defenses.ensembles.session import EnsembleSession
from defenses.gnmax import GNMax
from defenses.pmixed import PMixed
from defenses.submix import SubMix
from defenses.subsample_aggregate import SubsampleAggregate
from tests.defenses.journal import Memory

ALL = [SubsampleAggregate, GNMax, PMixed]
each = pytest.mark.parametrize("defense", ALL)


@pytest.fixture
def release(bigram):  # type: ignore[no-untyped-def]
    def make(defense: Any, k: int = 4, **parameters: Any) -> Any:
        trained = [Trained(None, bigram(10 + i, 3.0)) for i in range(k)]  # type: ignore[arg-type]
        return defense(k=k, **parameters).release(bigram(1, 0.3), trained)

    return make


def session(release: Any, journal: Any = None) -> EnsembleSession:
    opened: EnsembleSession = release.open(np.random.default_rng(5), journal or NoJournal())
    assert isinstance(opened, Lawful)
    return opened


@each
def test_a_replaced_part_is_the_next_one_twice(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense)
    for part in range(4):
        members = list(made.members)
        members[part] = members[(part + 1) % 4]
        assert made.replaced(part) == replace(made, members=tuple(members))
    with pytest.raises(IndexError):
        made.replaced(4)


@each
def test_a_law_is_what_is_answered_from_and_charged_as_a_query(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense, budget=9)
    heads, tails = [[0, 2], [0]], [[1, 4, 3], [2, 2]]
    journals = Memory(), Memory()
    asked, scored = session(made, journals[0]), session(made, journals[1])
    law = asked.laws(heads, tails)
    answers = scored.score(heads, tails)
    assert journals[0].rows == journals[1].rows and asked.remaining == scored.remaining == 4
    assert law.log_pmfs.shape == (5, 6)
    np.testing.assert_allclose(np.exp(law.log_pmfs).sum(axis=1), 1.0)
    if law.noise is None:
        flat = [token for tail in tails for token in tail]
        expected = np.concatenate([answer.log_probs for answer in answers])
        np.testing.assert_allclose(law.log_pmfs[range(5), flat], expected)
    else:
        plain = torch.stack([m.log_pmfs([[0, 2, 1, 4, 3]], [2]) for m in made.members])
        np.testing.assert_allclose(np.exp(law.log_pmfs[:3]), plain.exp().mean(dim=0))
        assert law.noise == LaplaceNoise(made.mechanism.scale, made.mechanism.floor)
    assert asked.laws(heads, tails).log_pmfs.shape == (4, 6)  # STOP: the public model answers
    assert asked.laws(heads, tails).log_pmfs.shape == (0, 6)
    assert (asked.remaining, len(journals[0].rows)) == (0, 10)


def test_after_stop_queries_are_counted_and_have_no_law(bigram: Any) -> None:
    trained: Any = [Trained(None, bigram(i, 6.0)) for i in range(4)]  # type: ignore[arg-type]
    made = SubMix(k=2, epsilon=1e-6, budget=100, beta=0.1).release(bigram(9), trained)
    asked = session(made)
    for left in (95, 90):
        assert asked.laws([[0, 2], [0]], [[1, 4, 3], [2, 2]]).log_pmfs.shape == (0, 6)
        assert asked.remaining == left


@each
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_batching_changes_no_law(release, monkeypatch, defense: Any, size: int) -> None:  # type: ignore[no-untyped-def]
    made = release(defense, budget=11)
    heads, tails = [[0, 2], [0], [0, 3]], [[1, 4, 3], [2, 2], [1] * 9]
    whole = session(made).laws(heads, tails)
    monkeypatch.setattr(EnsembleSession, "_queries_at_once", lambda self: size)
    np.testing.assert_allclose(session(made).laws(heads, tails).log_pmfs, whole.log_pmfs)
    assert whole.log_pmfs.shape == (11, 6)


def ensemble_of_gpt2s(n: int) -> list[Any]:
    """Models that are stacked: what is computed together may differ in its last digits."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=31, n_positions=32, n_embd=24, n_layer=2, n_head=2)
    models: list[Any] = [GPT2LMHeadModel(config) for _ in range(n)]
    tokenizer: Any = SimpleNamespace(start=0, stop=0)
    return [CausalLM(model.eval(), tokenizer, 32) for model in models]


@pytest.mark.parametrize("defense", [*ALL, SubMix])
def test_a_neighbour_is_computed_from_the_very_numbers_of_the_release(defense: Any) -> None:
    """A near tie of two tokens would else fall differently, and look like a leak."""
    public, *members = ensemble_of_gpt2s(7)
    parts = members if defense is SubMix else members[:3]
    made = defense(k=3).release(public, [Trained(None, one) for one in parts])  # type: ignore[arg-type]
    texts, starts = [[0, 5, 7, 9, 30, 2], [0, 3, 3]], [1, 2]
    whole = made.ensemble.log_pmfs(texts, starts)
    each_part = 2 if defense is SubMix else 1
    columns = list(range(whole.shape[1]))
    for part in range(3):
        gone = range(part * each_part, (part + 1) * each_part)
        kept = [column for column in columns if column not in gone]
        without = made.neighbour(part).ensemble
        assert isinstance(without, Selected) and without.inner is made.ensemble
        assert torch.equal(without.log_pmfs(texts, starts), whole[:, kept])
        cursor, other = without.cursor([[0, 5], [0, 3]]), made.ensemble.cursor([[0, 5], [0, 3]])
        assert torch.equal(cursor.log_pmfs(), other.log_pmfs()[:, kept])
        for one in (cursor, other):
            one.append(torch.tensor([4, 8]))
        assert torch.equal(cursor.log_pmfs(), other.log_pmfs()[:, kept])
        sizes = {s._queries_at_once() for s in (session(made), session(made.neighbour(part)))}
        assert len(sizes) == 1
