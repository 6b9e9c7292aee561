"""Ensembles behind a mechanism: parts, budget, ledger, seeds, replay, and no other way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.corpus import Corpus, Record
from audit.core.ensemble import Separate
from audit.core.errors import UsageError
from audit.core.ledger import Ledger
from audit.core.model import ModelFolder
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.models.training.fine_tuning import Recipe
from defenses.ensembles import session as sessions
from defenses.ensembles.mechanisms.mixing import Mixed
from defenses.ensembles.session import EnsembleSession, Service
from defenses.gnmax import GNMax
from defenses.pmixed import PMixed
from defenses.submix import SubMix
from defenses.subsample_aggregate import SubsampleAggregate
from tests.defenses.journal import Memory

MODEL = ModelFolder("toy", Path("toy"), "", 1, 8, 32, blocks=2)
RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=64, max_length=32)
ALL = [SubsampleAggregate, GNMax, PMixed]
each = pytest.mark.parametrize("defense", ALL)


@pytest.fixture
def release(bigram):  # type: ignore[no-untyped-def]
    def make(defense: Any, k: int = 4, **parameters: Any) -> Any:
        trained = [Trained(None, bigram(10 + i, 3.0)) for i in range(k)]  # type: ignore[arg-type]
        return defense(k=k, **parameters).release(bigram(1, 0.3), trained)

    return make


def session(release: Any, journal: Any = None, seed: int = 5) -> EnsembleSession:
    opened: EnsembleSession = release.open(np.random.default_rng(seed), journal or NoJournal())
    return opened


# parts


def corpus(users: int) -> Corpus:
    records = (
        Record(f"u{i}", f"text {i} {j}", None, "private") for i in range(users) for j in "ab"
    )
    return Corpus("toy", tuple(records))


def test_the_parts_are_those_of_submix_and_the_trainings_are_shared() -> None:
    pairs = SubMix(k=3).trainings(corpus(11), MODEL, RECIPE, seed=4)
    theirs = [{*pairs[2 * i].texts, *pairs[2 * i + 1].texts} for i in range(3)]
    made = [d(k=3).trainings(corpus(11), MODEL, RECIPE, seed=4) for d in ALL]
    for trainings in made:
        assert [set(t.texts) for t in trainings] == theirs
        assert [t.digest for t in trainings] == [t.digest for t in made[0]]
        assert len({t.seed for t in trainings}) == 3


@each
def test_a_user_is_in_one_part_and_everybody_in_some(defense: Any) -> None:
    trainings = defense(k=4).trainings(corpus(10), MODEL, RECIPE, seed=0)
    where = {text: i for i, t in enumerate(trainings) for text in t.texts}
    assert sum(len(t.texts) for t in trainings) == len(where) == 20
    assert all(where[f"text {i} a"] == where[f"text {i} b"] for i in range(10))


@each
def test_more_parts_than_users_are_refused(defense: Any) -> None:
    with pytest.raises(UsageError, match="only 3 users"):
        defense(k=4).trainings(corpus(3), MODEL, RECIPE, seed=0)


@each
def test_the_last_blocks_alone_can_be_trained(defense: Any) -> None:
    top, whole = (
        defense(k=2, train=train).trainings(corpus(4), MODEL, RECIPE, seed=0)
        for train in ("top:1", "all")
    )
    assert [t.method.layers for t in top] == ["top:1"] * 2
    assert whole[0].method == RECIPE
    with pytest.raises(UsageError, match="train=top:3, but toy has 2 blocks"):
        defense(k=2, train="top:3").trainings(corpus(4), MODEL, RECIPE, seed=0)


@each
@pytest.mark.parametrize(
    "parameters",
    [{"k": 1}, {"alpha": 1.0}, {"alpha": np.inf}, {"budget": 0}, {"train": "top"}, {"epsilon": 0}],
)
def test_impossible_parameters_are_refused(defense: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(parameters))):
        defense(**parameters)


# budget and ledger


@each
@pytest.mark.parametrize(
    ("epsilon", "budget"), [(2.0, 1024), (2.0, 1000), (1.0, 10), (0.1, 3), (7.3, 129), (5.0, 1)]
)
def test_all_queries_of_the_budget_are_answered_and_no_more(  # type: ignore[no-untyped-def]
    release, defense: Any, epsilon: float, budget: int
) -> None:
    journal = Memory()
    made = release(defense, epsilon=epsilon, budget=budget)
    open_ = session(made, journal)
    answers = open_.generate([[0]] * (budget + 2), 1)
    assert [a.answered for a in answers] == [1] * budget + [0, 0]
    assert open_.remaining == 0
    spent = np.sum([row["charge"] for row in journal.rows if not row["stopped"]], axis=0)
    assert spent.shape == (4,)
    assert (spent <= made.guarantee.epsilon).all()
    assert (spent > 0.9999 * made.guarantee.epsilon).all()
    assert [row["stopped"] for row in journal.rows] == [False] * budget + [True]


@each
def test_every_query_costs_every_part_the_same(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    journal = Memory()
    made = release(defense)
    open_ = session(made, journal)
    open_.generate([[0], [0, 2]], 3)
    open_.score([[0, 1]], [[2, 3]])
    open_.distribution([[0, 5]], [1])
    assert [row["charge"] for row in journal.rows] == [[made.charge] * 4] * 9
    assert made.charge >= made.mechanism.divergence


@each
def test_after_the_budget_the_public_model_answers(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense, budget=5)
    open_ = session(made)
    table = made.public.log_table
    rows, answered = open_.distribution([[0, 3]] * 8, range(6))
    assert (answered, open_.remaining) == (5, 0)
    np.testing.assert_allclose(rows[5:], [table[3]] * 3)
    assert not np.allclose(rows[4], table[3])
    said = open_.generate([[0]], 4)[0]
    steps = zip((0, *said.tokens), said.tokens, strict=False)
    np.testing.assert_allclose(said.log_probs, [table[a, b] for a, b in steps])
    assert said.answered == 0


# replay and batches


def asked(open_: EnsembleSession) -> list[Any]:
    """A conversation: generations, scores, a distribution; what came of it."""
    said = open_.generate([[0], [0, 2], [0, 3, 1]] * 5, 3)
    scored = open_.score([[0], [0, 1]] * 3, [[1, 2, 3], [4]] * 3)
    rows, _ = open_.distribution([[0, 2]] * 4, [1, 2])
    said += scored
    return [*[(a.tokens, a.answered, *a.log_probs) for a in said], rows.tolist()]


@each
@pytest.mark.parametrize("kept", [0, 1, 17, 47, 200])
def test_a_killed_session_replays_to_the_same_answers(release, defense: Any, kept: int) -> None:  # type: ignore[no-untyped-def]
    made, whole = release(defense, budget=50), Memory()
    expected = asked(session(made, whole))
    torn = Memory(whole.rows[:kept])
    assert asked(session(made, torn)) == expected
    assert torn.rows == whole.rows


@each
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_batching_moves_neither_noise_nor_stop(
    release, monkeypatch, defense: Any, size: int
) -> None:  # type: ignore[no-untyped-def]
    made = release(defense, budget=50)
    whole = asked(session(made))
    monkeypatch.setattr(EnsembleSession, "_queries_at_once", lambda self: size)
    for one, other in zip(whole, asked(session(made)), strict=True):
        np.testing.assert_allclose(np.hstack(one[2:]), np.hstack(other[2:]))  # type: ignore[arg-type]
        assert one[:2] == other[:2]


# seeds and spies


@dataclass
class Spy:
    """A mechanism that hears the members and says nothing of them; it remembers the seeds."""

    charge: float = 0.01
    seeds: list[bytes] = field(default_factory=list)

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        n, _, vocabulary = log_pmfs.shape
        assert len(seeds) == n
        self.seeds += seeds
        same = torch.log_softmax(torch.arange(vocabulary, dtype=torch.float64), dim=0)
        charges = torch.full((n, 2), self.charge, dtype=torch.float64)
        return Mixed(same.expand(n, vocabulary), torch.empty(n, 0), charges)


def spied(bigram: Any, members: int, spy: Spy, journal: Any = None, budget: int = 40) -> Any:
    """A session whose members are drawn from the seed `members`."""
    ensemble = Separate([bigram(members + i, 5.0) for i in range(3)])
    service = Service(spy, ensemble, 3, bigram(1, 0.3))
    ledger = Ledger(1.0, 2, budget, journal or NoJournal())
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
    ledger = Ledger(1.0, 2, 40, NoJournal())
    for spy in (one, other):  # two sessions from one stream
        service = Service(spy, Separate([bigram(3)]), 1, bigram(1))
        EnsembleSession(service, ledger, stream).distribution([[0]], [1])
    assert set(one.seeds).isdisjoint(other.seeds)
    assert stream.random() == np.random.default_rng(0).random()  # seeds take nothing from it


def test_another_question_after_a_kill_has_other_noise(bigram: Any) -> None:
    """The killed process answered place 0 with this noise; a second answer would reveal it."""
    first, again, other = Spy(), Spy(), Spy()
    for spy, context in ((first, [0, 1]), (again, [0, 1]), (other, [0, 2])):
        spied(bigram, 100, spy).distribution([context], [1])
    assert first.seeds == again.seeds
    assert first.seeds != other.seeds


@pytest.mark.parametrize("defense", [GNMax, PMixed, SubMix])
def test_another_question_after_a_kill_has_another_uniform(  # type: ignore[no-untyped-def]
    release, bigram: Any, defense: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two answers from one uniform would tell both distributions apart, at the price of none."""
    drawn: list[list[float]] = []
    sample = sessions.sample

    def spied(log_h: torch.Tensor, u: np.ndarray) -> torch.Tensor:
        drawn[-1].extend(u.tolist())
        return sample(log_h, u)

    monkeypatch.setattr(sessions, "sample", spied)
    if defense is SubMix:
        trained = [Trained(None, bigram(10 + i, 3.0)) for i in range(4)]  # type: ignore[arg-type]
        made = SubMix(k=2, epsilon=50.0).release(bigram(1, 0.3), trained)
    else:
        made = release(defense, epsilon=50.0)
    for prompt in ([0, 1], [0, 1], [0, 2]):
        drawn.append([])
        session(made).generate([prompt] * 3, 2)
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 6
    assert set(drawn[0]).isdisjoint(drawn[2])


def test_uniforms_are_uniform_and_apart_from_the_noise() -> None:
    seeds = [bytes([i % 256, i // 256]) * 16 for i in range(20_000)]
    u = sessions.uniforms(seeds)
    assert u.min() >= 0 and u.max() < 1
    counts, _ = np.histogram(u, bins=20, range=(0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # χ² of 19 degrees, 99.9 %


@each
def test_with_the_system_s_entropy_the_stream_does_not_tell(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense, source="system", epsilon=5e4)
    prompts = [[0, 1, 2]] * 40

    def tokens(journal: Any) -> list[tuple[int, ...]]:
        return [answer.tokens for answer in session(made, journal).generate(prompts, 3)]

    assert tokens(Memory()) == tokens(Memory())  # the folder's own key: a replay repeats itself
    assert tokens(Memory()) != tokens(Memory(key=b"another folder's"))
    assert tokens(NoJournal()) != tokens(NoJournal())
    assert "operating system" in " ".join(made.guarantee.conditions)


@each
def test_broken_members_count_as_any_others(release, bigram: Any, defense: Any) -> None:  # type: ignore[no-untyped-def]
    """The worst case holds whoever answers: NaN must not reach, nor decide, an answer."""
    made = release(defense, epsilon=100.0)
    broken = bigram(3)
    broken.log_table[:] = np.nan
    zero = bigram(4)
    zero.log_table[:, 1:] = -np.inf
    zero.log_table[:, 0] = 0.0
    for bad in (broken, zero):
        members = (bad, *made.members[1:])
        answers = session(replace(made, members=members)).score([[0]] * 4, [[1, 2, 3]] * 4)
        for answer in answers:
            assert np.isfinite(answer.log_probs).all()


# neighbours and controls


@each
def test_a_neighbour_lacks_one_member_and_changes_nothing_else(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense)
    for part in range(4):
        expected = replace(made, members=made.members[:part] + made.members[part + 1 :])
        assert made.neighbour(part) == expected
    with pytest.raises(IndexError):
        made.neighbour(4)
    assert release(defense, k=2).neighbour(0).neighbour(0) is None


@each
def test_the_unprotected_ensemble_is_the_plain_mean(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    made = release(defense)
    bare = made.unprotected()
    assert bare.guarantee.promises_nothing
    text = [[0, 1, 2]]
    expected = torch.stack([m.log_pmfs(text, [1]) for m in made.members]).exp().mean(dim=0)
    np.testing.assert_allclose(bare.model.log_pmfs(text, [1]).exp().numpy(), expected.numpy())


@each
def test_the_guarantee_is_of_predictions_and_says_how_sessions_add(release, defense: Any) -> None:  # type: ignore[no-untyped-def]
    promise = release(defense, epsilon=3.0, alpha=4.0).guarantee
    assert (promise.epsilon, promise.alpha, promise.delta) == (3.0, 4.0, None)
    assert (promise.unit, promise.release, promise.basis) == ("part", "predictions", "worst case")
    told = " ".join(promise.conditions)
    assert "several sessions add up" in told and "seed" in told and "one part" in told


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
