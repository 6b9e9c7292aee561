"""SubMix as a service: partition, ledger, STOP, batching, replay, and the ledger test."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.release import NoJournal
from audit.models.training.fine_tuning import Recipe
from audit.statistics.ledger_test import ledger_test
from defenses.ensembles.mechanisms.mixing import mix
from defenses.ensembles.session import EnsembleSession
from defenses.submix import SubMix, SubMixRelease, halves
from tests.defenses.journal import Memory

MODEL = ModelFolder("toy", Path("toy"), "", 1, 8, 32)
RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=64, max_length=32)


@pytest.fixture
def release(bigram):  # type: ignore[no-untyped-def]
    def make(k: int = 3, spread: float = 1.0, **parameters: Any) -> SubMixRelease:
        pairs = tuple((bigram(10 + 2 * i, spread), bigram(11 + 2 * i, spread)) for i in range(k))
        return SubMixRelease(SubMix(k=k, **parameters), bigram(1, 0.3), pairs)

    return make


def session(release: SubMixRelease, journal: Any = None, seed: int = 5) -> EnsembleSession:
    return release.open(np.random.default_rng(seed), journal or NoJournal())


def corpus(users: int, records: int = 2) -> Corpus:
    return Corpus(
        "toy",
        tuple(
            Record(f"u{i}", f"text {i} {j}", None, "private")
            for i in range(users)
            for j in range(records)
        ),
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"k": 1},
        {"alpha": 1.0},
        {"budget": 0},
        {"beta": 0.0},
        {"beta": math.nan},
        {"beta": math.inf},
        {"beta": "papr"},
        {"beta": "0.1"},
        {"clip": -1.0},
        {"temperature": 0.0},
        {"train": "top"},
        {"train": "top:x"},
        {"train": "some"},
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(parameters))):
        SubMix(**parameters)


@given(users=st.integers(2, 60), k=st.integers(2, 10), seed=st.integers(0, 99))
def test_the_partition_is_disjoint_complete_and_even(users: int, k: int, seed: int) -> None:
    names = [f"u{i}" for i in range(users)]
    parts = halves(names, k, np.random.default_rng(seed))
    assert len(parts) == 2 * k
    assert sorted(user for part in parts for user in part) == sorted(names)
    sizes = [len(parts[2 * i]) + len(parts[2 * i + 1]) for i in range(k)]
    assert max(sizes) - min(sizes) <= 1
    assert all(0 <= len(parts[2 * i]) - len(parts[2 * i + 1]) <= 1 for i in range(k))


def test_all_records_of_a_user_go_to_one_member() -> None:
    trainings = SubMix(k=3).trainings(corpus(11), MODEL, RECIPE, seed=0)
    assert len(trainings) == 6
    where = {text: i for i, t in enumerate(trainings) for text in t.texts}
    assert len(where) == 22
    assert all(where[f"text {i} 0"] == where[f"text {i} 1"] for i in range(11))
    assert len({t.seed for t in trainings}) == 6


def test_members_train_what_they_are_told_to() -> None:
    model = replace(MODEL, blocks=2)
    for train, recipe, layers in (
        ("all", RECIPE, "all"),
        ("top:1", RECIPE, "top:1"),
        ("top:2", replace(RECIPE, layers="top:1"), "top:2"),
        ("all", replace(RECIPE, layers="top:1"), "top:1"),  # the plan's own restriction
    ):
        trainings = SubMix(k=3, train=train).trainings(corpus(11), model, recipe, seed=0)
        assert {t.method for t in trainings} == {replace(recipe, layers=layers)}


@pytest.mark.parametrize(
    ("train", "blocks"), [("top:9", 2), ("top:3", 2), ("top:0", 2), ("top:1", 0)]
)
def test_more_blocks_than_the_model_has_are_refused_in_one_line(train: str, blocks: int) -> None:
    with pytest.raises(UsageError, match=f"train={train}, but toy has {blocks} blocks") as error:
        SubMix(train=train).trainings(corpus(20), replace(MODEL, blocks=blocks), RECIPE, seed=0)
    assert "\n" not in str(error.value)


def test_beta_is_a_number_or_a_choice_by_name() -> None:
    """The paper's is an even share of ε; the small one a 16th of that."""
    given = {"epsilon": 2.0, "budget": 1000}
    named = {name: SubMix(beta=name, **given).leakage for name in ("paper", "small")}
    assert named == {"paper": 0.002, "small": 0.000125}
    assert SubMix(**given).leakage == 0.002 and SubMix(beta=0.5, **given).leakage == 0.5


def test_more_parts_than_users_are_refused() -> None:
    with pytest.raises(UsageError, match="only 3 users"):
        SubMix(k=4).trainings(corpus(3), MODEL, RECIPE, seed=0)


def test_a_session_generates_and_says_so(release) -> None:  # type: ignore[no-untyped-def]
    assert session(release()).access is Access.GENERATE


def test_every_answered_query_is_charged_and_no_part_ever_reaches_epsilon(release) -> None:  # type: ignore[no-untyped-def]
    journal = Memory()
    made = release(epsilon=0.5, budget=1000, beta=0.05)
    answers = session(made, journal).generate([[0]] * 40, 5)
    charged = [row for row in journal.rows if not row["stopped"]]
    assert len(charged) == sum(answer.answered for answer in answers)
    spent = np.sum([row["charge"] for row in charged], axis=0)
    assert (spent < 0.5).all()
    stops = [row for row in journal.rows if row["stopped"]]
    assert len(stops) == 1  # this β is far above what the ledger can pay
    assert (spent + stops[0]["charge"]).max() >= 0.5  # and STOP came no sooner than it had to


def test_after_stop_the_answers_are_the_public_models(release) -> None:  # type: ignore[no-untyped-def]
    made = release(epsilon=0.3, budget=1000, beta=0.05)
    answers = session(made).generate([[0]] * 40, 5)
    stopped = next(i for i, answer in enumerate(answers) if answer.answered < 5)
    assert all(answer.answered == 0 for answer in answers[stopped + 1 :])
    last = answers[-1]
    table = made.public.log_table
    steps = zip((0, *last.tokens), last.tokens, strict=False)
    np.testing.assert_allclose(last.log_probs, [table[a, b] for a, b in steps])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_batching_cannot_move_stop(release, monkeypatch, size) -> None:  # type: ignore[no-untyped-def]
    made = release(epsilon=0.4, budget=1000, beta=0.05)
    whole = session(made).generate([[0], [0, 2], [0], [0, 3, 1]] * 8, 4)
    monkeypatch.setattr(EnsembleSession, "_queries_at_once", lambda self: size)
    batched = session(made).generate([[0], [0, 2], [0], [0, 3, 1]] * 8, 4)
    assert [(a.tokens, a.answered) for a in whole] == [(a.tokens, a.answered) for a in batched]
    scored = session(made).score([[0]] * 9, [[1, 2, 3]] * 9)
    monkeypatch.undo()
    again = session(made).score([[0]] * 9, [[1, 2, 3]] * 9)
    assert [a.answered for a in scored] == [a.answered for a in again]
    for one, other in zip(scored, again, strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs)


def test_the_budget_is_public_and_ends_the_session(release) -> None:  # type: ignore[no-untyped-def]
    open_ = session(release(epsilon=1e6, budget=12))
    assert open_.remaining == 12
    answers = open_.generate([[0]] * 5, 3)
    assert [answer.answered for answer in answers] == [3, 3, 3, 3, 0]
    assert open_.remaining == 0
    assert session(release(epsilon=1e6, budget=12)).remaining == 12  # a new session is full again


def test_a_scored_token_is_a_query_like_a_generated_one(release) -> None:  # type: ignore[no-untyped-def]
    journal = Memory()
    made = release(epsilon=50.0, beta=0.1)
    scored = session(made, journal).score([[0, 2]], [[1, 4, 3]])[0]
    assert len(journal.rows) == 3
    text = [0, 2, 1, 4, 3]
    pairs = torch.stack(
        [torch.stack([m.log_pmfs([text], [2]) for m in pair], dim=1) for pair in made.pairs], dim=1
    )
    expected = mix(pairs, made.public.log_pmfs([text], [2]), 2.0, 0.1, 1.0)
    np.testing.assert_allclose(
        scored.log_probs, [expected.log_h[i, token] for i, token in enumerate([1, 4, 3])]
    )


def test_a_whole_distribution_is_a_query_like_a_token(release) -> None:  # type: ignore[no-untyped-def]
    """One a context, whatever is read of it; the mixture's own numbers and its very charges."""
    journals = Memory(), Memory()
    made = release(epsilon=50.0, beta=0.1)
    contexts = [[0, 2], [0], [0, 2, 1]]
    found, answered = session(made, journals[0]).distribution(contexts, [4, 1])
    log_h, charges = mixtures(made)
    expected = [[log_h[context[-1], token] for token in (4, 1)] for context in contexts]
    np.testing.assert_allclose(found, expected)
    assert answered == 3
    charged = [row["charge"] for row in journals[0].rows]
    np.testing.assert_allclose(charged, [charges[c[-1]] for c in contexts], rtol=1e-4)
    session(made, journals[1]).score(contexts, [[4]] * 3)
    assert [row["charge"] for row in journals[1].rows] == charged


def test_after_stop_a_distribution_is_the_public_models(release) -> None:  # type: ignore[no-untyped-def]
    open_ = session(release(epsilon=1e6, budget=5))
    found, answered = open_.distribution([[0, 3]] * 8, list(range(6)))
    assert (answered, open_.remaining) == (5, 0)
    public = release().public.log_table[3]
    np.testing.assert_allclose(found[5:], [public] * 3)
    assert not np.allclose(found[4], public)
    np.testing.assert_allclose(open_.distribution([[0, 3]], [2])[0], [[public[2]]])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_batching_cannot_move_stop_of_distributions(release, monkeypatch, size) -> None:  # type: ignore[no-untyped-def]
    made = release(epsilon=0.4, budget=1000, beta=0.05)
    contexts = [[0], [0, 2], [0, 3, 1]] * 100
    whole, answered = session(made).distribution(contexts, [1, 2])
    monkeypatch.setattr(EnsembleSession, "_queries_at_once", lambda self: size)
    batched, answered_too = session(made).distribution(contexts, [1, 2])
    assert answered == answered_too < len(contexts)
    np.testing.assert_allclose(whole, batched)


def test_its_auditor_reads_what_the_release_does_not_give(release) -> None:  # type: ignore[no-untyped-def]
    open_ = session(release())
    assert (open_.access, open_.readable) == (Access.GENERATE, Access.DISTRIBUTION)


def test_a_killed_session_is_replayed_without_paying_twice(release) -> None:  # type: ignore[no-untyped-def]
    made = release(epsilon=0.4, budget=1000, beta=0.05)
    whole = Memory()
    expected = session(made, whole).generate([[0]] * 30, 4)
    torn = Memory(rows=whole.rows[:17])
    replayed = session(made, torn).generate([[0]] * 30, 4)
    assert [a.tokens for a in replayed] == [a.tokens for a in expected]
    assert torn.rows == whole.rows


def test_rows_that_a_replay_does_not_repeat_stay_spent(release) -> None:  # type: ignore[no-untyped-def]
    made = release(epsilon=0.4, budget=1000, beta=0.05)
    whole = Memory()
    session(made, whole, seed=5).generate([[0]] * 30, 4)
    torn = Memory(rows=whole.rows[:9])
    session(made, torn, seed=6).generate([[0]] * 30, 4)  # another stream: other tokens
    charged = np.sum([row["charge"] for row in torn.rows if not row["stopped"]], axis=0)
    assert torn.rows[:9] == whole.rows[:9]
    assert (charged < 0.4).all()


def test_the_unprotected_ensemble_is_the_plain_mean_of_the_members(release) -> None:  # type: ignore[no-untyped-def]
    made = release()
    bare = made.unprotected()
    assert bare.guarantee.promises_nothing
    text = [0, 1, 2]
    members = [m.log_pmfs([text], [1]).exp() for pair in made.pairs for m in pair]
    expected = torch.stack(members).mean(dim=0)
    found = bare.model.log_pmfs([text], [1]).exp()
    np.testing.assert_allclose(found.numpy(), expected.numpy())


def test_the_guarantee_claims_no_more_than_is_proved(release) -> None:  # type: ignore[no-untyped-def]
    promise = release(epsilon=3.0, clip=0.5, temperature=0.7).guarantee
    assert (promise.epsilon, promise.alpha, promise.delta) == (3.0, 2.0, None)
    assert (promise.unit, promise.relation) == ("part", "removed")
    assert (promise.release, promise.basis) == ("predictions", "data-dependent")
    told = " ".join(promise.conditions)
    assert "unproved" in told and "0.5" in told and "temperature 0.7" in told
    assert promise.incomparable("user", "add_or_remove", 1e-5)


def mixtures(release: SubMixRelease) -> tuple[np.ndarray, np.ndarray]:
    """log h, shape (V, V), and charges, shape (V, k), by the last token of the context."""
    contexts = [[token, 0] for token in range(release.public.vocabulary)]
    starts = [1] * len(contexts)
    members = torch.stack(
        [
            torch.stack([model.log_pmfs(contexts, starts) for model in pair], dim=1)
            for pair in release.pairs
        ],
        dim=1,
    )
    d = release.defense
    mixed = mix(members, release.public.log_pmfs(contexts, starts), d.alpha, d.leakage, 1.0)
    return mixed.log_h.numpy(), mixed.charges.numpy()


def test_the_sum_of_charges_bounds_the_divergence_of_whole_transcripts(release) -> None:  # type: ignore[no-untyped-def]
    """E_{D'}[(h_D/h_D')^α e^{−(α−1)Σcharge}] ≤ 1, exactly, over all transcripts, under D's STOP."""
    made = release(k=3, epsilon=0.6, beta=0.3)
    log_h, charges = mixtures(made)
    for part in range(3):
        log_without, _ = mixtures(made.neighbour(part))
        for numerator, denominator in ((log_h, log_without), (log_without, log_h)):
            moment = 0.0
            for transcript in itertools.product(range(6), repeat=4):
                moment += _moment(transcript, numerator, denominator, charges, part, 0.6)
            assert moment <= 1 + 1e-9
            assert moment > 0.9  # and not for nothing: the charges are close to what is lost


def _moment(  # type: ignore[no-untyped-def]
    transcript, numerator, denominator, charges, part: int, epsilon: float, alpha: float = 2.0
) -> float:
    last, ratio, probability, spent = 0, 0.0, 1.0, np.zeros(charges.shape[1])
    stopped = False
    for token in transcript:
        stopped = stopped or bool((spent + charges[last] >= epsilon).any())
        if stopped:  # both runs answer with the public model: the ratio stays, and sums to 1
            probability *= 1 / 6
        else:
            spent = spent + charges[last]
            ratio += numerator[last, token] - denominator[last, token]
            probability *= math.exp(denominator[last, token])
        last = token
    return probability * math.exp(alpha * ratio - (alpha - 1) * spent[part])


@pytest.mark.parametrize(("understated", "rejected"), [(1.0, False), (0.0, True)])
def test_the_ledger_test_accepts_true_charges_and_finds_missing_ones(  # type: ignore[no-untyped-def]
    release, understated, rejected
) -> None:
    made = release(k=3, epsilon=1.5, beta=0.3)
    log_h, charges = mixtures(made)
    log_without, _ = mixtures(made.neighbour(0))
    generator = np.random.default_rng(0)
    ratios, totals = [], []
    for _ in range(1500):
        last, ratio, spent = 0, 0.0, np.zeros(3)
        for _ in range(12):
            if (spent + charges[last] >= 1.5).any():
                break
            spent = spent + charges[last]
            token = int(generator.choice(6, p=np.exp(log_without[last])))
            ratio += log_h[last, token] - log_without[last, token]
            last = token
        ratios.append(ratio)
        totals.append(understated * spent[0])
    assert ledger_test(np.array(ratios), np.array(totals), alpha=2.0).rejected is rejected


def test_when_it_stops_tells_more_than_epsilon_allows(bigram) -> None:  # type: ignore[no-untyped-def]
    """Why Proposition C.3 is not claimed: the run without a part stops at another time."""
    same = bigram(2, 0.1)
    odd = (bigram(3, 6.0), bigram(4, 6.0))
    defense = SubMix(k=3, epsilon=0.05, beta=0.05)
    with_odd = SubMixRelease(defense, bigram(1, 0.3), ((same, same), (same, same), odd))
    without = with_odd.neighbour(2)
    answered = []
    for made in (with_odd, without):
        answers = session(made, seed=1).generate([[0]] * 40, 1)
        answered.append(sum(answer.answered for answer in answers))
    # one run stops, the other does not: STOP itself tells the two apart for certain
    assert answered[0] < 40 and answered[1] == 40


def test_the_charge_of_a_part_is_its_neighbours_divergence(release) -> None:  # type: ignore[no-untyped-def]
    made = release(k=4)
    log_h, charges = mixtures(made)
    for part in range(4):
        log_without, _ = mixtures(made.neighbour(part))
        p, q = np.exp(log_h), np.exp(log_without)
        forth, back = np.log((p**2 / q).sum(axis=1)), np.log((q**2 / p).sum(axis=1))
        np.testing.assert_allclose(charges[:, part], np.maximum(forth, back), atol=1e-9)


def test_parameters_do_not_leak_into_another_release(release) -> None:  # type: ignore[no-untyped-def]
    made = release()
    assert replace(made.defense, epsilon=9.0) != made.defense


def test_what_is_exact_has_no_bound_beside_it_before_stop_across_it_and_after(release) -> None:  # type: ignore[no-untyped-def]
    opened = session(release(epsilon=1000.0, budget=4, beta=0.05))
    answers = [opened.score([[0]], [[1, 2, 3]])[0] for _ in range(3)]
    assert [answer.answered for answer in answers] == [3, 1, 0]
    assert all(answer.log_caps is None for answer in answers)
