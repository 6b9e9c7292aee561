"""Shadow models: who is trained on in which, and what an attack is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.membership import Membership
from audit.core.attack import Attack, Knowledge
from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Evidence
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Predictor
from audit.core.randomness import stream
from audit.core.release import ModelRelease
from audit.core.secret import Coins, Secret
from audit.measure.bench import Bench
from audit.measure.release import _attack
from audit.models.loading import describe
from audit.plan.plan import Chosen, Plan
from audit.plan.resolve import resolve_on
from audit.planting.coins import tosses
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.run import dry_run


def coins_of(owners: int, seed: int = 0) -> Coins:
    generator = np.random.default_rng(seed)
    names = [f"u{i}" for i in range(owners)]
    return Coins(
        {name: bool(generator.integers(2)) for name in names},
        {name: int(generator.integers(2)) for name in names},
    )


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 1000))
def test_every_owner_is_in_half_the_shadows(owners: int, half: int, seed: int) -> None:
    coins = coins_of(owners)
    tossed = tosses(coins, 2 * half, seed)
    assert len(tossed) == 2 * half
    for one in tossed:
        assert list(one.present) == list(one.slot) == list(coins.present)
    for owner in coins.present:
        assert sum(one.present[owner] for one in tossed) == half


def test_each_pair_draws_from_its_own_stream() -> None:
    """So halves and slots are fair, and independent of each other and of the real coins."""
    tossed = tosses(coins_of(300), 4, seed=1)
    for pair, (one, other) in enumerate(zip(tossed[::2], tossed[1::2], strict=True)):
        draws = stream(1, "shadows", "coins", pair)
        half, *slots = (draws.integers(2, size=300) for _ in range(3))
        assert [*one.present.values()] == half.tolist()
        assert [*other.present.values()] == (1 - half).tolist()
        assert [[*each.slot.values()] for each in (one, other)] == [s.tolist() for s in slots]


def test_tosses_are_the_seeds() -> None:
    coins = coins_of(20)
    assert tosses(coins, 4, seed=0) == tosses(coins, 4, seed=0)
    assert tosses(coins, 4, seed=0) != tosses(coins, 4, seed=1)
    assert tosses(coins, 0, seed=0) == ()
    flipped = replace(coins, present={o: not p for o, p in coins.present.items()})
    assert tosses(flipped, 4, seed=0) == tosses(coins, 4, seed=0)  # blind to the real coins


def test_fewer_shadows_are_the_first_ones() -> None:
    """Two of four: an owner is in both or in neither with probability 1/3."""
    coins = coins_of(300)
    first_two = tosses(coins, 4, seed=0)[:2]
    assert all(sum(one.present[o] for one in first_two) == 1 for o in coins.present)
    assert first_two == tosses(coins, 2, seed=0)


# --- in a run


@dataclass(frozen=True)
class Compares(Attack):
    """Asks nothing, and keeps what it was told."""

    shadows: int = 4
    met: list[tuple[Sequence[Secret], Knowledge]] = field(default_factory=list)
    kinds = ("code", "record")
    access = Access.SCORE

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        return []

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        self.met.append((secrets, knowledge))
        return []


def plan_with(*attacks: Attack) -> Plan:
    records = tuple(
        Record(f"u{i}", f"Hello, I am customer {i}x.", None, "heldout" if i > 19 else "private")
        for i in range(24)
    )
    asked = {
        "defense": ["none", "submix:k=2"],
        "attack": ["extraction:generations=20"],
        "planting": {"users": 16, "kinds": ["code", "record"]},
        "training": {"epochs": 1},
        "device": "cpu",
    }
    plan = resolve_on(asked, Corpus("toy", records), describe("embedded", EMBEDDED_FOLDER))
    chosen = tuple(Chosen(f"own{i}", attack) for i, attack in enumerate(attacks))
    return replace(plan, attacks=chosen or plan.attacks)


def test_shadow_corpora_follow_their_coins(tmp_path: Path) -> None:
    prepared = prepare(plan_with(Compares()), tmp_path)
    assert len(prepared.shadow_coins) == 4
    for chosen, sets in prepared.shadow_tasks.items():
        assert len(sets) == 4
        for tasks, coins in zip(sets, prepared.shadow_coins, strict=True):
            texts = [text for task in tasks for text in task.training.texts]
            if chosen.name == "public":
                assert texts == []
                continue
            for secret in prepared.planted.secrets:
                if secret.kind == "code":
                    expected = secret.copies if coins.planted(secret) else 0
                else:
                    expected = int(coins.present[secret.owner])
                assert texts.count(secret.text) == expected
            for i in (i for i in range(20) if f"u{i}" not in coins.present):
                assert texts.count(f"Hello, I am customer {i}x.") == 1  # never decided by a coin
    trained = {
        chosen.name: [task.training for tasks in sets for task in tasks]
        for chosen, sets in prepared.shadow_tasks.items()
    }
    assert len(trained["none"]) == 4 and len(trained["submix"]) == 16
    for trainings in (trained["none"], trained["submix"]):
        assert len({t.seed for t in trainings}) == len(trainings)


def test_shadows_are_trained_like_the_release_they_shadow(tmp_path: Path) -> None:
    prepared = prepare(plan_with(Compares()), tmp_path)
    for chosen, tasks in prepared.tasks.items():
        for shadow in prepared.shadow_tasks[chosen]:
            assert len(shadow) == len(tasks)
            for mine, its in zip(tasks, shadow, strict=True):
                assert replace(its, training=mine.training) == mine
                assert its.training.method == mine.training.method
                if mine.training.texts:
                    assert its.training.seed != mine.training.seed and its.key != mine.key
    inside = [task for sets in prepared.shadow_tasks.values() for tasks in sets for task in tasks]
    assert all(task in prepared.trainings for task in inside)


def test_without_shadows_nothing_more_is_trained(tmp_path: Path) -> None:
    alone, beside = (prepare(plan_with(*a), tmp_path) for a in ((), (Compares(),)))
    assert alone.shadow_coins == () and not any(alone.shadow_tasks.values())
    assert len(alone.trainings) == 1 + 4  # none, and twice two halves
    assert len(beside.trainings) == 5 * len(alone.trainings)
    assert beside.tasks == alone.tasks  # and whoever compares moves no training of another
    assert (beside.planted, beside.heldout) == (alone.planted, alone.heldout)


def test_the_most_shadows_asked_are_trained(tmp_path: Path) -> None:
    prepared = prepare(plan_with(Compares(2), Compares(6), Compares(0)), tmp_path)
    assert len(prepared.shadow_coins) == 6
    assert all(len(sets) == 6 for sets in prepared.shadow_tasks.values())


@pytest.mark.slow
def test_a_dry_run_counts_the_shadows(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", "hash")
    alone, beside = (dry_run.describe(plan_with(*a), folder, "ray") for a in ((), (Membership(4),)))
    assert "4 shadows of each defense" in beside and "shadow" not in alone
    all_tokens = [int(s.split("in all: ")[1].split(" tokens")[0].replace(",", ""))
                  for s in (alone, beside)]  # fmt: skip
    assert all_tokens[1] == 5 * all_tokens[0]


def test_an_attack_knows_each_shadows_candidates(bigram: Any, tmp_path: Path) -> None:
    attack = Compares()
    prepared = prepare(plan_with(attack), tmp_path)
    models = [bigram(i) for i in range(4)]
    releases: Any = [ModelRelease(model, promise=None) for model in models]  # type: ignore[arg-type]
    one: Any = SimpleNamespace(
        label="a", public=bigram(9), shadows=lambda: releases, external=False
    )
    folder = RunFolder(tmp_path / "run", "hash")
    session = OpenSession(bigram(8), np.random.default_rng(0))
    with folder.held({}):
        _attack(Bench(prepared, folder), one, prepared.plan.attacks[0], session)
    ((secrets, knowledge),) = attack.met
    assert secrets == prepared.planted.secrets and len(knowledge.shadows) == 4
    for shadow, model, coins in zip(knowledge.shadows, models, prepared.shadow_coins, strict=True):
        assert shadow.present.tolist() == [coins.planted(s) for s in secrets]
        answer = shadow.predictor.score([[0]], [[1, 2]])[0]
        np.testing.assert_allclose(answer.log_probs, [model.log_table[0, 1], model.log_table[1, 2]])
    owners = np.array([[s.present[i] or s.present[i + 1] for s in knowledge.shadows]
                       for i in range(0, len(secrets), 2)])  # fmt: skip
    assert (owners.sum(axis=1) == 2).all()
