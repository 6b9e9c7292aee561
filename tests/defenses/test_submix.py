"""SubMix: partition, settings, and what its charges bound; as a service, see test_services.py."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core.training import Trained
from defenses.ensembles import EnsembleRelease
from defenses.submix import SubMix
from tests.defenses.services import corpus, session


@pytest.fixture
def release(bigram):  # type: ignore[no-untyped-def]
    def make(k: int = 3, **parameters: Any) -> EnsembleRelease:
        return made_of([bigram(10 + i) for i in range(2 * k)], bigram(1, 0.3), **parameters)

    return make


def made_of(members: list[Any], public: Any, **parameters: Any) -> Any:
    trained = [Trained(None, model) for model in members]  # type: ignore[arg-type]
    return SubMix(k=len(members) // 2, **parameters).release(public, trained)


@given(users=st.integers(2, 60), k=st.integers(2, 10), seed=st.integers(0, 99))
def test_parts_and_halves_are_disjoint_complete_and_even(users: int, k: int, seed: int) -> None:
    halves = [len(part) for part in SubMix(k=k).parts(corpus(max(users, k), 1), seed)]
    assert len(halves) == 2 * k and sum(halves) == max(users, k)
    sizes = [halves[2 * i] + halves[2 * i + 1] for i in range(k)]
    assert max(sizes) - min(sizes) <= 1
    assert all(0 <= halves[2 * i] - halves[2 * i + 1] <= 1 for i in range(k))


def test_beta_is_a_number_or_a_choice_by_name() -> None:
    """The paper's is an even share of ε; the small one a 16th of that."""
    given = {"epsilon": 2.0, "budget": 1000}
    named = {name: SubMix(beta=name, **given).leakage for name in ("paper", "small")}
    assert named == {"paper": 0.002, "small": 0.000125}
    assert SubMix(**given).leakage == 0.002 and SubMix(beta=0.5, **given).leakage == 0.5


def test_the_guarantee_claims_no_more_than_is_proved(release) -> None:  # type: ignore[no-untyped-def]
    promise = release(epsilon=3.0, clip=0.5, temperature=0.7).guarantee
    assert (promise.epsilon, promise.alpha, promise.delta) == (3.0, 2.0, None)
    assert (promise.unit, promise.relation) == ("part", "removed")
    assert (promise.release, promise.basis) == ("predictions", "data-dependent")
    told = " ".join(promise.conditions)
    assert "unproved" in told and "0.5" in told and "temperature 0.7" in told
    assert promise.incomparable("user", "add_or_remove", 1e-5)


def mixtures(release: Any) -> tuple[np.ndarray, np.ndarray]:
    """log h, shape (V, V), and charges, shape (V, k), by the last token of the context."""
    contexts = [[token, 0] for token in range(release.public.vocabulary)]
    starts = [1] * len(contexts)
    models = (*release.members, release.public)
    log_pmfs = torch.stack([model.log_pmfs(contexts, starts) for model in models], dim=1)
    mixed = release.mechanism.mix(log_pmfs, [])
    return mixed.log_h.numpy(), mixed.costs.numpy()


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


def test_when_it_stops_tells_more_than_epsilon_allows(bigram) -> None:  # type: ignore[no-untyped-def]
    """Why Proposition C.3 is not claimed: the run without a part stops at another time."""
    same = bigram(2, 0.1)
    odd = [bigram(3, 6.0), bigram(4, 6.0)]
    with_odd = made_of([same] * 4 + odd, bigram(1, 0.3), epsilon=0.05, beta=0.05)
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
