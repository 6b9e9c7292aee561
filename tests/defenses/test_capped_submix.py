"""Capped SubMix: closed forms, neighbours, transcripts, and a search for laws that cost more."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attacks.ledger import LedgerCheck
from audit.contract.toys import Memory
from audit.core.attack import Knowledge
from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.guarantee import default_delta
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.findings.charges import Charges, compared
from audit.measure.neighbours import neighbours
from audit.measure.spending import charges
from audit.models.training.fine_tuning import Recipe
from defenses.capped_submix import CappedMixture, CappedSubMix
from defenses.ensembles.mechanisms.caps import Caps
from tests.defenses.hostile_pmfs import (
    answers,
    both,
    divergences,
    emptied,
    laws,
    speaking,
    tensor,
    transcripts,
)
from tests.defenses.services import served, session, toy

MODEL = ModelFolder("toy", Path("toy"), "", 1, 8, 32, blocks=2)
RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=64, max_length=32)
B = 2 / 1024  # the charge of the defaults, nats
release = partial(served, CappedSubMix)
service = partial(toy, CappedSubMix)
SLACK = 1 + 1e-9  # rounding of the divergences that are computed here
ORDERS = st.sampled_from([1.01, 1.5, 2.0, 4.0, 8.0, 32.0])


def costs(members: np.ndarray, public: np.ndarray, caps: Caps, weight: float) -> np.ndarray:
    """c_i at one weight, of members (n, k, V) and public pmfs (n, V)."""
    at = torch.full(members.shape[:2], weight, dtype=torch.float64)
    return caps.costs(tensor(members), tensor(public), at).numpy()


def mixture_of(charge: float, weight: float, k: int, alpha: float = 2.0) -> CappedMixture:
    return CappedMixture(Caps(weight, k, alpha, charge))


# closed forms


@pytest.mark.parametrize(
    ("k", "w", "weight", "alpha", "cost"),
    [
        (8, 0.2, 0.2, 2.0, 0.0017056153),
        (8, 0.2, 0.05, 2.0, 0.00010668623),
        (2, 1.0, 0.5, 2.0, 0.2481613143),
        (4, 0.5, 0.5, 3.0, 0.0887698859),
    ],
)
def test_the_cost_of_a_part_has_the_values_of_the_closed_form(
    k: int, w: float, weight: float, alpha: float, cost: float
) -> None:
    public, member = np.array([[0.5, 0.3, 0.2]]), np.array([[[0.1, 0.1, 0.8]]])
    assert costs(member, public, Caps(w, k, alpha, 1.0), weight) == pytest.approx(cost, rel=5e-8)
    # the same number by the formula as it is written
    f = 1 - w * (k - 1) / k
    moved = public + weight / (k * f) * (member[0] - public)
    gamma = both(moved, public, alpha)[0]
    assert math.log(1 + f * (math.exp((alpha - 1) * gamma) - 1)) / (alpha - 1) == pytest.approx(
        cost, rel=1e-7
    )


@pytest.mark.parametrize(("w", "f", "gamma"), [(0.2, 0.825, 0.00236693), (1.0, 0.125, 0.0155192)])
def test_the_caps_have_the_values_of_the_closed_form(w: float, f: float, gamma: float) -> None:
    """At the weight that is chosen, D_2 between T and the public pmf is γ, if w does not bind."""
    caps = Caps(w, 8, 2.0, B)
    assert caps.floor == pytest.approx(f)
    public, member = np.array([[0.6, 0.3, 0.1]]), np.array([[[0.0, 0.0, 1.0]]])
    (weight,) = caps.weights(tensor(member), tensor(public)).numpy()[0]
    assert 0 < weight < w
    moved = public + weight / (8 * f) * (member[0] - public)
    assert both(moved, public, 2.0)[0] == pytest.approx(gamma, rel=1e-5)
    most = 8 * math.sqrt(f * math.expm1(B) / ((member[0] - public) ** 2 / public).sum())
    assert weight <= most


def literal(
    members: np.ndarray, public: np.ndarray, w: float, alpha: float, charge: float
) -> tuple[np.ndarray, list[float]]:
    """One query by loops, probabilities and bisection: (h, the weights)."""
    k = len(members)
    f = 1 - w * (k - 1) / k

    def cost(member: np.ndarray, weight: float) -> float:
        moved = public + weight / (k * f) * (member - public)
        gamma = float(both(moved, public, alpha))
        return math.log1p(f * math.expm1((alpha - 1) * gamma)) / (alpha - 1)

    weights = []
    for member in members:
        low, high = 0.0, w
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if cost(member, middle) <= charge else (low, middle)
        weights.append(w if cost(member, w) <= charge else low)
    h = public + sum(
        weight * (member - public) for weight, member in zip(weights, members, strict=True)
    ) / len(members)
    return h, weights


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 6),
    w=st.sampled_from([0.05, 0.2, 0.9, 1.0]),
    alpha=ORDERS,
    charge=st.sampled_from([1e-4, B, 0.05, 1.0]),
)
def test_batches_agree_with_the_literal_transcription(
    seed: int, k: int, w: float, alpha: float, charge: float
) -> None:
    generator = np.random.default_rng(seed)
    members, public = generator.dirichlet(np.ones(6), (3, k)), generator.dirichlet(np.ones(6), 3)
    mechanism = mixture_of(charge, w, k, alpha)
    mixed = answers(mechanism, members, public)
    weights = mechanism.caps.weights(tensor(members), tensor(public)).numpy()
    for query in range(3):
        h, expected = literal(members[query], public[query], w, alpha, charge)
        np.testing.assert_allclose(weights[query], expected, rtol=1e-6, atol=2e-9)
        np.testing.assert_allclose(mixed[query], h, atol=1e-8)


def test_members_that_agree_with_the_public_model_are_heard_in_full() -> None:
    public = np.array([[0.5, 0.3, 0.2]])
    member = np.array([[[0.51, 0.3, 0.19]] * 3])
    mechanism = mixture_of(B, 0.2, 3)
    np.testing.assert_allclose(answers(mechanism, member, public), [[0.502, 0.3, 0.198]])


# neighbours


@given(
    seed=st.integers(0, 100_000),
    k=st.integers(2, 6),
    size=st.integers(2, 6),
    w=st.sampled_from([0.05, 0.2, 0.7, 0.999999, 1.0]),
    alpha=ORDERS,
    charge=st.sampled_from([1e-5, B, 0.1, 2.0, 20.0]),
)
def test_no_emptied_part_costs_more_than_its_own_cost(
    seed: int, k: int, size: int, w: float, alpha: float, charge: float
) -> None:
    """Both ways: a part that leaves, and one that comes. Its cost never exceeds the charge."""
    members, public = laws(np.random.default_rng(seed), 8, k, size)
    mechanism = mixture_of(charge, w, k, alpha)
    weights = mechanism.caps.weights(tensor(members), tensor(public))
    own = mechanism.caps.costs(tensor(members), tensor(public), weights).numpy()
    assert (own <= charge * SLACK).all()
    whole = answers(mechanism, members, public)
    for part in range(k):
        other = answers(mechanism, emptied(members, public, part), public)
        assert (both(whole, other, alpha) <= own[:, part] * SLACK + 1e-14).all()


@given(seed=st.integers(0, 100_000), k=st.integers(2, 6), w=st.sampled_from([0.2, 1.0]))
def test_a_weight_depends_on_its_own_part_alone(seed: int, k: int, w: float) -> None:
    """To the last bit, whatever becomes of part 0: so the neighbour's weights are the release's."""
    generator = np.random.default_rng(seed)
    members, public = laws(generator, 8, k, 5)
    other = members.copy()
    other[:, 0] = generator.dirichlet(np.full(5, 0.3), 8)
    caps = Caps(w, k, 2.0, B)
    one, two = (caps.weights(tensor(m), tensor(public)).numpy() for m in (members, other))
    np.testing.assert_array_equal(one[:, 1:], two[:, 1:])
    alone = caps.weights(tensor(members[:, :1]), tensor(public)).numpy()
    np.testing.assert_array_equal(one[:, :1], alone)
    # what part 0 adds is its own weight, and nothing else changes
    gone = answers(CappedMixture(caps), emptied(members, public, 0), public)
    added = one[:, :1] / k * (members[:, 0] - public)
    np.testing.assert_allclose(
        gone + added, answers(CappedMixture(caps), members, public), atol=1e-15
    )


def test_a_token_that_the_public_model_excludes_silences_a_member_and_nobody_else() -> None:
    public = np.array([[0.5, 0.5, 0.0, 0.0]])
    members = np.array([[[0.4, 0.4, 0.2, 0.0], [0.6, 0.4, 0.0, 0.0]]])
    for alpha in (1.5, 2.0):
        mechanism = mixture_of(B, 0.2, 2, alpha)
        weights = mechanism.caps.weights(tensor(members), tensor(public))
        assert weights[0, 0] == 0 and weights[0, 1] > 0
        own = mechanism.caps.costs(tensor(members), tensor(public), weights)
        assert own[0, 0] == 0 and 0 < own[0, 1] <= B
        released = answers(mechanism, members, public)
        assert (released[0, 2:] == 0).all() and released[0, 0] > 0.5


def test_what_underflows_and_what_is_no_number_costs_nothing() -> None:
    """A pmf below the floats, and a member of broken weights, which the session makes uniform."""
    public = np.array([[1.0, 1e-320, 0.0]])
    members = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])
    released = answers(mixture_of(B, 1.0, 2), members, public)
    assert np.isfinite(released).all() and released.sum() == pytest.approx(1.0)
    broken = np.array([[[np.nan, np.nan, np.nan]]])
    weights = Caps(0.2, 2, 2.0, B).weights(tensor(broken), tensor(public))
    assert weights.tolist() == [[0.0]]


def test_members_equal_to_the_public_model_at_weight_1_leave_its_answer() -> None:
    """Their shares of 1/49 may not sum to 1; a token that all exclude is 0/0 in the ratios."""
    public = np.array([[0.7, 0.3, 0.0]])
    members = np.repeat(public[:, None], 49, axis=1)
    mechanism = mixture_of(B, 1.0, 49)
    assert (mechanism.caps.weights(tensor(members), tensor(public)) == 1).all()
    released = answers(mechanism, members, public)
    assert not np.isnan(released).any()
    np.testing.assert_allclose(released, public, rtol=1e-14, atol=0)


def test_no_share_of_the_public_model_is_below_0() -> None:
    """At weight 1 the members' shares may sum to more than 1, where they say next to nothing."""
    public, member = np.array([[1.0, 1e-30]]), np.array([1.0, 1.2e-46])
    for k in range(2, 100):
        mechanism = mixture_of(B, 1.0, k)
        members = np.array([[member] * k])
        assert (mechanism.caps.weights(tensor(members), tensor(public)) == 1).all()
        assert (answers(mechanism, members, public) > 0).all()


# the bound is reached


def corner(k: int) -> tuple[np.ndarray, np.ndarray]:
    """The others are sure of a token that neither the public model nor part 0 knows to speak of."""
    public = np.array([[1 - 1e-6 - 1e-7, 1e-7, 1e-6]])
    own, other = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    return np.array([[own, *[other] * (k - 1)]]), public


@pytest.mark.parametrize(("k", "w", "charge"), [(2, 0.5, 12.0), (8, 0.2, 7.0), (4, 0.9, 14.0)])
def test_others_that_speak_of_something_else_make_a_part_cost_its_charge(
    k: int, w: float, charge: float
) -> None:
    members, public = corner(k)
    mechanism = mixture_of(charge, w, k)
    weights = mechanism.caps.weights(tensor(members), tensor(public))[0]
    assert weights[0] < w and weights[1:].tolist() == [pytest.approx(w)] * (k - 1)
    whole = answers(mechanism, members, public)
    spent = both(whole, answers(mechanism, emptied(members, public, 0), public), 2.0)
    assert 0.999 * charge < spent[0] <= charge * SLACK


def test_one_user_of_a_part_costs_more_than_the_part_emptied() -> None:
    """ε compares a part with an empty one: a part replaced by another costs 2.53 times a query."""
    public = np.array([[0.3, 0.3, 0.4]])
    sure = np.eye(3)
    members = np.array([[sure[0], *[sure[2]] * 7]])
    other = np.array([[sure[1], *[sure[2]] * 7]])
    mechanism = mixture_of(B, 0.2, 8)
    one, two = answers(mechanism, members, public), answers(mechanism, other, public)
    assert divergences(one, two, 2.0)[0] / B == pytest.approx(2.53, abs=0.01)
    defense = CappedSubMix(k=8)
    assert defense.user_epsilon == pytest.approx(8.25, abs=0.005)
    assert divergences(one, two, 2.0)[0] <= defense.user_epsilon / 1024


def test_at_a_small_charge_one_user_of_a_part_nearly_costs_the_claim() -> None:
    """At k = 8 the claim is 4.125 charges a query, and 3.96 are reached."""
    public = np.array([[0.007, 0.007, 0.986]])
    one, other, rest = np.array([[0.014, 0, 0.986], [0, 0.014, 0.986], [0, 0, 1]])
    mechanism = mixture_of(1e-5, 0.2, 8)
    pair = [
        answers(mechanism, np.array([[member, *[rest] * 7]]), public) for member in (one, other)
    ]
    assert 4 / (1 - mechanism.caps.step) == pytest.approx(4.125)
    assert divergences(pair[0], pair[1], 2.0)[0] / 1e-5 == pytest.approx(3.96, abs=0.005)


def test_the_claim_per_user_is_for_one_part_replaced_and_not_for_two() -> None:
    """A user replaced by one with another id changes two parts, and costs 1.48 times the claim."""
    defense = CappedSubMix()
    assert defense.user_epsilon is not None
    public, sure = np.array([[0.01, 0.01, 0.98]]), np.eye(3)

    def replaced(parts: int) -> np.ndarray:
        changed = [sure[1]] * parts + [sure[0]] * (2 - parts)
        return answers(defense.mechanism, np.array([[*changed, *[sure[2]] * 14]]), public)

    claim = defense.user_epsilon / defense.budget
    assert both(replaced(0), replaced(1), 2.0)[0] / claim == pytest.approx(0.372, abs=1e-3)
    assert both(replaced(0), replaced(2), 2.0)[0] / claim == pytest.approx(1.481, abs=1e-3)


def test_members_that_leave_out_a_public_token_are_capped_by_the_other_direction() -> None:
    """Of the public pmf to the answer: the answer itself never says much of what is left out."""
    public, members = np.array([[0.5, 0.5]]), np.array([[[1.0, 0.0], [1.0, 0.0]]])
    for alpha, charge in product((1.5, 2.0, 8.0), (0.5, 1.0, 3.0)):
        mechanism = mixture_of(charge, 0.999999, 2, alpha)
        whole = answers(mechanism, members, public)
        without = answers(mechanism, emptied(members, public, 0), public)
        assert divergences(whole, without, alpha)[0] < divergences(without, whole, alpha)[0]
        assert 0.2 * charge < divergences(without, whole, alpha)[0] <= charge


# a hostile search


@dataclass(frozen=True)
class Candidates:
    """n neighbouring cases: members, public pmfs, and the model that part 0 has instead."""

    members: np.ndarray
    public: np.ndarray
    other: np.ndarray

    def neighbours(self) -> np.ndarray:
        changed = self.members.copy()
        changed[:, 0] = self.other
        return changed

    def take(self, rows: np.ndarray) -> Candidates:
        return Candidates(self.members[rows], self.public[rows], self.other[rows])

    def nudged(self, generator: np.random.Generator) -> Candidates:
        """The same cases, every probability a little other; zeros stay."""

        def moved(pmfs: np.ndarray) -> np.ndarray:
            scale = 10.0 ** generator.uniform(-2, 0.5)
            other: np.ndarray = pmfs * np.exp(generator.normal(scale=scale, size=pmfs.shape))
            return other / other.sum(axis=-1, keepdims=True)

        return Candidates(moved(self.members), moved(self.public), moved(self.other))


def candidates(generator: np.random.Generator, n: int, k: int) -> Candidates:
    members, public = laws(generator, n, k + 1, int(generator.integers(2, 6)))
    return Candidates(members[:, :k], public, members[:, k])


def searched(seed: int, per_user: bool, rounds: int = 40) -> Iterator[tuple[float, CappedMixture]]:
    """The largest share of the claim that any case costs, for random settings: the best quarter of
    the cases is varied, again and again."""
    generator = np.random.default_rng(seed)
    for _ in range(rounds):
        k, w = int(generator.integers(2, 17)), generator.choice([0.05, 0.2, 0.5, 0.9, 0.999])
        alpha = 2.0 if per_user else float(generator.choice([1.01, 1.5, 2.0, 4.0, 16.0]))
        charge = float(10 ** generator.uniform(-5, 1.1))
        mechanism = mixture_of(charge, w, k, alpha)
        claim = 4 * charge / (1 - mechanism.caps.step) if per_user else charge
        cases, worst = candidates(generator, 64, k), 0.0
        for _ in range(6):
            if not per_user:
                cases = replace(cases, other=cases.public)
            one = answers(mechanism, cases.members, cases.public)
            two = answers(mechanism, cases.neighbours(), cases.public)
            shares = both(one, two, alpha) / claim
            worst = max(worst, float(shares.max()))
            best = cases.take(np.argsort(shares)[-16:])
            fresh = candidates(generator, 16, k)
            cases = joined(best, *[best.nudged(generator) for _ in range(2)])
            if fresh.public.shape[1] == best.public.shape[1]:
                cases = joined(cases, fresh)
        yield worst, mechanism


def joined(*some: Candidates) -> Candidates:
    fields = ("members", "public", "other")
    return Candidates(*(np.concatenate([getattr(one, f) for one in some]) for f in fields))


@pytest.mark.parametrize("rounds", [12, pytest.param(40, marks=pytest.mark.full)])
def test_no_search_finds_a_part_that_costs_more_than_its_charge(rounds: int) -> None:
    shares = [share for share, _ in searched(1, False, rounds)]
    assert max(shares) <= SLACK
    assert max(shares) > 0.9


def test_no_search_finds_a_user_who_costs_more_than_the_claim() -> None:
    shares = [share for share, _ in searched(5, per_user=True)]
    assert max(shares) <= SLACK
    assert max(shares) > 0.9


# whole transcripts, through sessions


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.full) for i in (1, 2, 3))])
@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_no_transcript_costs_more_than_the_claim(bigram: Any, seed: int, weight: float) -> None:
    """Four tokens under a budget of three: the last one is the public model's."""
    generator = np.random.default_rng(seed)
    like = bigram(1, vocabulary=3)
    members, public = laws(generator, 3, 2, 3)
    public = public + 1e-3
    public /= public.sum(axis=-1, keepdims=True)
    models = [speaking(members[:, i], like) for i in range(2)]
    made = release(models, speaking(public, like), weight=weight, epsilon=0.6, budget=3)
    whole = transcripts(made, 4)
    for part in range(2):
        other = transcripts(made.neighbour(part), 4)
        assert both(whole, other, 2.0) <= made.guarantee.epsilon


def cornered(bigram: Any, epsilon: float, budget: int) -> Any:
    """A service of two parts that answers every query as `corner` does."""
    members, public = corner(2)
    like = bigram(1, vocabulary=3)
    models = [speaking(members[:, i], like) for i in range(2)]
    return release(models, speaking(public, like), weight=0.5, epsilon=epsilon, budget=budget)


def test_a_transcript_reaches_the_claim(bigram: Any) -> None:
    """Others that speak of something else, query after query: all of ε is spent."""
    made = cornered(bigram, epsilon=36.0, budget=3)
    whole, other = transcripts(made, 4), transcripts(made.neighbour(0), 4)
    assert 0.999 * 36.0 < both(whole, other, 2.0) <= 36.0


# the service


def test_stop_depends_on_no_member() -> None:
    rows = []
    for spread in (0.0, 50.0):
        journal = Memory()
        session(service(spread=spread, budget=7), journal).generate([[0], [0, 2]], 5)
        rows.append([(row["query"], row["charge"], row["stopped"]) for row in journal.rows])
    assert rows[0] == rows[1]


def test_the_journal_holds_what_each_part_cost_by_its_own_member() -> None:
    made, journal = service(epsilon=0.5, budget=8), Memory()
    session(made, journal).score([[0, 2]], [[1]])
    (row,) = journal.rows
    text = [[0, 2, 1]]
    members = np.array([[m.log_pmfs(text, [2])[0].exp().numpy() for m in made.members]])
    public = made.public.log_pmfs(text, [2]).exp().numpy()
    caps = made.mechanism.caps
    weights = caps.weights(tensor(members), tensor(public))
    own = caps.costs(tensor(members), tensor(public), weights)[0]
    np.testing.assert_allclose(row["local"], own, rtol=1e-5)
    assert all(0 < cost <= made.account.charge for cost in row["local"])


def test_one_token_is_released_from_the_mixture() -> None:
    made = service(budget=8, epsilon=0.5)
    opened = session(made)
    assert (opened.access, opened.readable) == (Access.GENERATE, Access.DISTRIBUTION)
    rows, _ = opened.distribution([[0, 2]], range(6))
    text = [[0, 2, 0]]
    members = np.array([[m.log_pmfs(text, [2])[0].exp().numpy() for m in made.members]])
    public = made.public.log_pmfs(text, [2]).exp().numpy()
    h, _ = literal(members[0], public[0], 0.2, 2.0, made.mechanism.divergence)
    np.testing.assert_allclose(np.exp(rows[0]), h, atol=1e-8)


def test_a_replay_whose_private_figures_moved_answers_the_whole_budget() -> None:
    """How many queries are answered after a kill depends on no member."""
    made, journal = service(budget=20), Memory()
    session(made, journal).generate([[0]] * 10, 1)
    journal.rows[3] = {
        **journal.rows[3],
        "local": [c * (1 + 1e-5) for c in journal.rows[3]["local"]],
    }
    again = session(made, journal).generate([[0]] * 22, 1)
    assert [a.answered for a in again] == [1] * 20 + [0, 0]
    assert [row["query"] for row in journal.rows] == list(range(21))


def test_the_attack_on_the_ledger_finds_it_honest_and_half_the_charge_false(bigram: Any) -> None:
    made = cornered(bigram, epsilon=120.0, budget=10)
    generator, journal = np.random.default_rng(3), Memory()
    known = Knowledge(None, ("0101", "00"), (), (), generator,
                      neighbours=neighbours(made, 0, "test"), order=2.0)  # fmt: skip
    assert [(n.unit, str(n.relation)) for n in known.neighbours] == [(0, "emptied"), (1, "emptied")]
    (evidence,) = LedgerCheck(tokens=10).run(session(made, journal), (), known)
    charged = np.array(charges(journal.rows, len(journal.rows)))
    honest = compared(evidence, Charges(2.0, charged, 120.0, 10))  # type: ignore[arg-type]
    halved = compared(evidence, Charges(2.0, charged / 2, 120.0, 10))  # type: ignore[arg-type]
    assert honest is not None and not honest.refutes and honest.share > 0.99
    assert halved is not None and halved.refutes


# parts and promise


def corpus(users: Sequence[str]) -> Corpus:
    records = (Record(u, f"text {u} {j}", None, "private") for j in "ab" for u in users)
    return Corpus("toy", tuple(records))


def trainings(users: Sequence[str], k: int = 4, seed: int = 4) -> Any:
    return CappedSubMix(k=k).trainings(corpus(users), MODEL, RECIPE, seed)


def test_a_user_comes_and_goes_without_moving_another() -> None:
    users = [f"u{i}" for i in range(30)]
    whole = trainings(users)
    place = {text: i for i, t in enumerate(whole) for text in t.texts}
    assert sum(len(t.texts) for t in whole) == len(place) == 60
    assert len({place[f"text {u} a"] for u in users}) == 4
    for user in users:
        assert place[f"text {user} a"] == place[f"text {user} b"]
        rest = trainings([u for u in users if u != user])
        changed = [i for i in range(4) if rest[i].digest != whole[i].digest]
        assert changed == [place[f"text {user} a"]]
        expected = [t for t in whole[changed[0]].texts if f" {user} " not in t]
        assert list(rest[changed[0]].texts) == expected


def test_the_part_of_a_user_is_the_same_alone_and_among_many() -> None:
    """It depends on the user's id and on nothing else: a hash of the number of users is refuted."""
    users = [f"u{i}" for i in range(30)]
    whole = trainings(users)
    place = {text: i for i, t in enumerate(whole) for text in t.texts}
    for user in users:
        alone = trainings([user])
        assert [i for i in range(4) if alone[i].texts] == [place[f"text {user} a"]]


def test_a_user_with_another_id_changes_two_parts_and_with_other_records_one() -> None:
    users = [f"u{i}" for i in range(30)]
    whole = trainings(users)

    def changed(other: Corpus) -> int:
        made = CappedSubMix(k=4).trainings(other, MODEL, RECIPE, 4)
        return sum(one.digest != two.digest for one, two in zip(whole, made, strict=True))

    ids = (changed(corpus([*users[:-1], f"v{i}"])) for i in range(20))
    assert max(ids) == 2
    (*records, last) = corpus(users).records
    assert changed(Corpus("toy", (*records, replace(last, text="other")))) == 1


def test_the_seed_decides_the_parts() -> None:
    users = [f"u{i}" for i in range(30)]
    one, two = ([t.texts for t in trainings(users, seed=seed)] for seed in (0, 1))
    assert one != two


def test_a_part_without_users_keeps_the_public_model() -> None:
    """Whether there are as many users as parts is private: nothing is refused for it."""
    made = trainings(["ann", "ben"], k=16)
    assert len(made) == 16
    assert sum(t.method.idle(t) for t in made) >= 14
    assert not any(t.method.idle(t) for t in made if t.texts)


def test_the_guarantee_names_part_relation_and_user() -> None:
    promise = service(k=8).guarantee
    assert (promise.unit, promise.relation, promise.basis) == ("part", "emptied", "worst case")
    assert (promise.epsilon, promise.alpha, promise.delta) == (2.0, 2.0, None)
    (per_user,) = (c for c in promise.conditions if c.startswith("per user"))
    assert "at most 8.25 nats" in per_user and "(18.3767, 1e-05)-DP" in per_user
    assert "keyed hash" in per_user and "trained apart" in per_user
    assert "added, removed, or with other records under the same id" in per_user
    assert "one with another id is two changes, which this does not bound" in per_user
    assert CappedSubMix().user_epsilon == pytest.approx(8 / (1 - 0.2 / 13))
    rest = " ".join(c for c in promise.conditions if c != per_user)
    assert all(f"{name} is" in promise.theorem for name in ("R", "T", "γ"))
    assert "which users are private is fixed beforehand" in rest
    assert "do not depend on who is read with them; in float32 they may differ by 1e-5" in rest


def test_the_delta_of_the_claim_per_user_suits_the_number_of_users_that_it_names() -> None:
    (per_user,) = (c for c in service().guarantee.conditions if c.startswith("per user"))
    (users,) = re.findall(r"suits up to ([\d,]+) users", per_user)
    most = int(users.replace(",", ""))
    assert default_delta(most) == 1e-5 > default_delta(most + 1)


def test_the_figures_per_user_are_never_printed_below_what_is_proved() -> None:
    weights, epsilons = (0.05, 0.2, 0.3, 0.7, 0.999999), (0.1, 0.7, 1.0, 2.0, 8.0, 31.4)
    for k, weight, epsilon in product((2, 3, 7, 16, 49), weights, epsilons):
        made = service(k=k, epsilon=epsilon, weight=weight)
        (per_user,) = (c for c in made.guarantee.conditions if c.startswith("per user"))
        loss, approximate = map(
            Fraction,
            re.search(r"at most (\S+) nats, or \((\S+), ", per_user).groups(),  # type: ignore[union-attr]
        )
        w = Fraction(str(weight))
        exact = 4 * Fraction(str(epsilon)) / (1 - w / (k - w * (k - 1)))
        assert exact <= loss <= exact * (1 + Fraction(2, 10**5))
        derived = exact + Fraction(math.log(1e5 / 4))
        assert derived <= approximate <= derived * (1 + Fraction(2, 10**5))


@pytest.mark.parametrize("changed", [{"alpha": 3.0}, {"alpha": 1.5}, {"weight": 1.0}])
def test_another_order_or_no_floor_has_no_claim_per_user(changed: dict[str, Any]) -> None:
    assert CappedSubMix(**changed).user_epsilon is None
    assert "no claim per user" in " ".join(service(**changed).guarantee.conditions)


@pytest.mark.parametrize(
    "parameters",
    [
        {"k": 1},
        {"alpha": 1.0},
        {"alpha": math.inf},
        {"budget": 0},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"weight": 0.0},
        {"weight": 1.1},
        {"weight": math.nextafter(1, 0)},
        {"weight": math.nextafter(1 - 1e-6, 1)},
        {"weight": math.nan},
        {"train": "top"},
        {"source": "dice"},
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"capped_submix: {next(iter(parameters))} is"):
        CappedSubMix(**parameters)


def test_a_weight_beside_1_is_refused_since_its_charge_cancels() -> None:
    """In floating point: one part emptied would cost ∞, where at 1 and at 0.999999 it costs b."""
    public, members = np.array([[1 - 5.6e-20, 5.6e-20]]), np.array([[[1.0, 0.0]] * 3])

    def cost(weight: float) -> float:
        mechanism = mixture_of(B, weight, 3)
        without = answers(mechanism, emptied(members, public, 0), public)
        return float(both(answers(mechanism, members, public), without, 2.0)[0])

    beside = math.nextafter(1, 0)
    assert cost(beside) == math.inf
    with pytest.raises(UsageError) as caught:
        CappedSubMix(weight=beside)
    assert str(caught.value) == (
        "capped_submix: weight is 0.9999999999999999; it must be at most 0.999999, or 1"
    )
    for weight in (1.0, 0.999999):
        assert CappedSubMix(weight=weight).weight == weight
        assert cost(weight) <= B


def test_a_weight_next_to_1_keeps_the_floor_above_the_share_of_one_part() -> None:
    """In floating point, too: T must stay a distribution."""
    for k in range(2, 40):
        for w in (1.0, math.nextafter(1, 0), 0.2):
            caps = Caps(w, k, 2.0, B)
            assert 0 < caps.step <= 1 and caps.floor * k >= 1
