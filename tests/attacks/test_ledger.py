"""The attack on a ledger: divergences by brute force, honest ledgers stand, false ones fall."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from attacks.ledger import LedgerCheck
from audit.contract.toys import Memory
from audit.core.attack import Knowledge, Neighbour
from audit.core.evidence import Divergences, LogRatios
from audit.core.predictor import Access
from audit.core.release import ModelRelease, NoJournal
from audit.core.secret import Secret, digits
from audit.core.training import Trained
from audit.findings import Charges
from audit.findings.charges import Comparison, bet, compared
from audit.measure.neighbours import neighbours
from audit.measure.samples import Counted
from audit.measure.spending import charges
from defenses.ensembles import Constant
from defenses.ensembles.mechanisms import laplace
from defenses.ensembles.mechanisms.mixing import Mixing
from tests.defenses.services import class_of
from tests.refusals import refusals
from tests.simulations import repeats

TEXTS = ("012341203", "4410", "30214")
SECRETS = (
    Secret("code", "12", "0341", "", digits(4), 1, "ann", 0),
    Secret("code", "12", "4402", "", digits(4), 1, "ann", 1),
    Secret("record", "", "2233", "", None, 1, "ben", 0),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "submix": {"epsilon": 1000.0, "beta": 0.3},
    "subsample_aggregate": {"floor": 1e-4, "budget": 64},
    "gnmax": {"epsilon": None, "noise_multiplier": 0.7, "budget": 64},
    "pmixed": {"budget": 64},
}
NAMES = tuple(SETTINGS)
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def service(bigram: Any) -> Callable[..., Any]:
    """service(name, seed=0, k=3): members that are sure of their own, on a public model."""

    def make(name: str, seed: int = 0, k: int = 3, spread: float = 6.0, **changed: Any) -> Any:
        public, settings = bigram(1000 + seed, 0.3), {**SETTINGS[name], **changed}
        members = [bigram(100 * seed + i, spread) for i in range(2 * k)]
        own = members if name == "submix" else members[:k]
        trained = [Trained(None, one) for one in own]  # type: ignore[arg-type]
        return class_of(name)(k=k, **settings).release(public, trained)

    return make


def knows(
    release: Any, others: tuple[Neighbour, ...] | None = None, texts: tuple[str, ...] = TEXTS
) -> Knowledge:
    return Knowledge(
        None,
        texts,
        (),
        (),
        np.random.default_rng(3),
        neighbours=neighbours(release, 0, "test") if others is None else others,
        order=release.guarantee.alpha,
    )


def attacked(
    release: Any, known: Knowledge | None = None, **parameters: Any
) -> tuple[Any, Charges]:
    """The evidence of one session, and what its ledger charged."""
    journal = Memory()
    session = Counted(release.open(np.random.default_rng(5), journal))
    budget = session.remaining
    attack = LedgerCheck(**{"tokens": 40, **parameters})
    (evidence,) = attack.run(session, SECRETS, known or knows(release))
    assert session.queries <= min(attack.tokens, attack.tokens if budget is None else budget)
    charged = np.array(charges(journal.rows, session.answered))
    guarantee = release.guarantee
    return evidence, Charges(guarantee.alpha, charged, guarantee.epsilon, budget)


def verdict(release: Any, **parameters: Any) -> Comparison:
    evidence, charged = attacked(release, **parameters)
    assert isinstance(evidence, Divergences)
    found = compared(evidence, charged)
    assert found is not None
    return found


def asked(attack: LedgerCheck, release: Any) -> list[int]:
    """The token before each query: all that a bigram looks at."""
    seen: list[int] = []

    class Listening:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def laws(self, prefixes: Any, continuations: Any) -> Any:
            for head, tail in zip(prefixes, continuations, strict=True):
                text = [*head, *tail]
                seen.extend(text[i - 1] for i in range(len(head), len(text)))
            return self.inner.laws(prefixes, continuations)

    session: Any = Listening(release.open(np.random.default_rng(5), NoJournal()))
    attack.run(session, SECRETS, knows(release))
    return seen


# what is computed, by brute force from the definitions


def pmfs(release: Any) -> np.ndarray:
    """What is answered after each last token, (V, V)."""
    opened = release.open(np.random.default_rng(5), NoJournal())
    rows, _ = opened.distribution([[0, last] for last in range(6)], range(6))
    return np.asarray(np.exp(rows))


def d(p: np.ndarray, q: np.ndarray, alpha: float) -> np.ndarray:
    return np.array(np.log((p**alpha * q ** (1 - alpha)).sum(axis=-1)) / (alpha - 1))


@pytest.mark.parametrize("alpha", [2.0, 3.5])
@pytest.mark.parametrize("name", ["submix", "pmixed", "gnmax"])
def test_every_divergence_is_that_of_the_definition(service: Any, name: str, alpha: float) -> None:
    release = service(name, alpha=alpha, spread=3.0)
    attack = LedgerCheck(tokens=40, precision=1e-9)
    evidence, _ = attacked(release, precision=1e-9)
    last = asked(attack, release)
    assert evidence.order == alpha
    assert evidence.forth.shape == evidence.back.shape == (len(evidence.units), len(last))
    whole, seen = pmfs(release), set()
    for i, (unit, relation) in enumerate(zip(evidence.units, evidence.relations, strict=True)):
        seen.add((unit, relation))
        without = pmfs(release.replaced(unit) if relation == "replace" else release.neighbour(unit))
        np.testing.assert_allclose(
            evidence.forth[i], d(whole, without, alpha)[last], rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(
            evidence.back[i], d(without, whole, alpha)[last], rtol=1e-6, atol=1e-9
        )
    relations = {"gnmax": {"replace", "removed"}}.get(name, {"removed"})
    assert seen == set(itertools.product(range(3), relations))


def test_a_noised_mean_is_compared_by_its_law_and_not_by_a_draw(service: Any) -> None:
    """Two parts that are sure of different tokens reach the charge, but for the floor."""
    release = service("subsample_aggregate", k=2, spread=60.0, floor=1e-9)
    evidence, charged = attacked(release)
    assert set(evidence.relations) == {"removed", "replace"}
    again, _ = attacked(release)
    np.testing.assert_array_equal(evidence.forth, again.forth)
    assert 0.85 < np.nanmax(evidence.forth) / charged.per_query[0, 0] < 1.0


# honest ledgers stand, false ones fall


@each
@repeats(2, 20)
def test_an_honest_ledger_is_never_refuted(service: Any, name: str, runs: int) -> None:
    """Whatever the members are, unsure or sure, and however the ledger stops."""
    shares = []
    for seed, spread, epsilon in itertools.product(range(runs), (0.5, 3.0, 30.0), (0.8, 50.0)):
        changed = {} if name == "gnmax" else {"epsilon": epsilon}
        found = compared(*attacked(service(name, seed, spread=spread, **changed)))
        if found is not None:  # else the very first query was beyond the budget
            assert not found.refutes, (seed, spread, found)
            shares.append(found.share)
    assert len(shares) > 5 * runs
    assert max(shares) > 0.5  # and not for nothing


@pytest.fixture
def undercharging(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], None]:
    """Makes every ledger charge a share of what it owes; answers stay as they are."""

    def plant(name: str, share: float) -> None:
        if name == "submix":
            honest = Mixing.mix

            def less(self: Mixing, *arguments: Any) -> Any:
                mixed = honest(self, *arguments)
                return replace(mixed, costs=mixed.costs * share)

            monkeypatch.setattr(Mixing, "mix", less)
        else:
            owed = Constant.charge.fget  # type: ignore[attr-defined]
            monkeypatch.setattr(Constant, "charge", property(lambda a: share * owed(a)))

    return plant


@each
def test_a_ledger_that_charges_half_is_refuted_in_one_run(
    service: Any, name: str, undercharging: Any
) -> None:
    release = service(name, spread=30.0)
    assert not verdict(release).refutes
    undercharging(name, 0.5)
    found = verdict(release)
    assert found.refutes and 1.0 < found.share <= 2.0
    assert found.divergence > found.charge > 0
    assert found.admitted and found.divergence * found.admitted > found.charge * found.admitted


def test_a_data_dependent_ledger_is_refuted_however_little_is_missing(
    service: Any, undercharging: Any
) -> None:
    undercharging("submix", 0.999)
    assert verdict(service("submix")).refutes


@pytest.mark.parametrize("direction", ["forth", "back"])
def test_a_ledger_of_one_direction_only_is_refuted(
    service: Any, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge covers both: from the service to its neighbour, and back."""

    def one_way(mixtures: torch.Tensor) -> torch.Tensor:
        h, without = mixtures[:, :1], mixtures[:, 1:]
        p, q = (h, without) if direction == "forth" else (without, h)
        return (p**2 / q).sum(dim=-1).log()

    monkeypatch.setattr("defenses.ensembles.mechanisms.mixing._charges_of_order_2", one_way)
    assert verdict(service("submix")).refutes


def test_the_papers_sensitivity_of_a_mean_is_refuted(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """arXiv 2201.00971 says 1/k in L1; a part moves the mean by up to 2/k."""
    honest = laplace.mean_divergence
    monkeypatch.setattr(laplace, "mean_divergence", lambda *given: honest(*given) / 2)
    found = verdict(service("subsample_aggregate", spread=60.0))
    assert found.refutes and found.share == pytest.approx(1.8, abs=0.1)


# what cannot be compared is not


def test_only_what_is_answered_before_stop_is_compared(service: Any) -> None:
    release = service("submix", epsilon=0.5)
    evidence, charged = attacked(release)
    n = len(charged.per_query)
    assert 0 < n < 40 and evidence.forth.shape == (3, n)
    assert (charged.per_query.sum(axis=0) < 0.5).all()


def test_after_stop_no_more_is_asked(service: Any) -> None:
    release = service("submix", epsilon=0.5)
    session = Counted(release.open(np.random.default_rng(5), NoJournal()))
    LedgerCheck(tokens=1000).run(session, SECRETS, knows(release, texts=TEXTS * 100))
    assert 0 < session.answered < 30 and session.queries <= 64  # what is asked together


def test_a_neighbour_that_stops_by_itself_is_compared_up_to_there(service: Any) -> None:
    release = service("submix")
    short = service("submix", budget=7)
    others = tuple(
        replace(o, predictor=short.neighbour(o.unit).open(np.random.default_rng(0), NoJournal()))
        if o.unit == 1
        else o
        for o in neighbours(release, 0, "test")
    )
    evidence, charged = attacked(release, knows(release, others))
    assert np.isnan(evidence.forth[1, 7:]).all() and not np.isnan(evidence.forth[1, :7]).any()
    assert not np.isnan(evidence.back[[0, 2]]).any()
    found = compared(evidence, charged)
    assert found is not None and found.queries == evidence.forth.shape[1] and not found.refutes


def test_a_model_has_no_neighbours_and_is_asked_nothing(bigram: Any, service: Any) -> None:
    release = ModelRelease(bigram(1), service("submix").guarantee)
    assert neighbours(release, 0, "test") == ()
    evidence, charged = attacked(release)
    assert evidence.units == () and charged.per_query.size == 0
    assert compared(evidence, charged) is None


def test_it_asks_texts_and_secrets_by_turns_and_no_more_than_is_left(service: Any) -> None:
    release = service("gnmax", budget=11)
    for tokens, expected in ((5, 5), (11, 11), (40, 11)):
        evidence, charged = attacked(release, tokens=tokens)
        assert evidence.forth.shape[1] == len(charged.per_query) == expected
    whole = asked(LedgerCheck(tokens=40), service("gnmax"))
    sizes = [len(text) for text in TEXTS] + [len(s.value) for s in SECRETS]
    assert len(whole) == sum(sizes)


def test_impossible_parameters_are_refused() -> None:
    bad = [("tokens", 0), ("precision", -1.0)]
    refusals(lambda one: LedgerCheck(**dict([one])), [(one, one[0]) for one in bad])


# services whose laws cannot be read


@dataclass
class Lawless:
    """A session of which tokens are drawn and scored, and no law is known."""

    inner: Any
    access = Access.GENERATE
    readable = Access.SCORE

    def __getattr__(self, name: str) -> Any:
        if name == "laws":
            raise AttributeError(name)
        return getattr(self.inner, name)


class Secretive:
    """The service, with sessions that state no law."""

    def __init__(self, release: Any) -> None:
        self.release, self.guarantee = release, release.guarantee

    def open(self, stream: Any, journal: Any) -> Any:
        return Lawless(self.release.open(stream, journal))


def drawn(
    release: Any, tokens: int, texts: tuple[str, ...] = TEXTS, precision: float = 1e-5
) -> tuple[LogRatios, Charges]:
    others = tuple(
        replace(o, predictor=Lawless(o.predictor)) for o in neighbours(release, 0, "test")
    )
    known = knows(release, others, texts)
    evidence, charged = attacked(Secretive(release), known, tokens=tokens, precision=precision)
    assert isinstance(evidence, LogRatios)
    return evidence, charged


def test_without_laws_tokens_are_drawn_on_one_side_and_scored_on_both(service: Any) -> None:
    release = service("submix", budget=200, spread=3.0)
    evidence, charged = drawn(release, 95, precision=1e-9)
    assert evidence.forth.shape == evidence.back.shape == (3, 19)  # 95 // (2 + 3)
    assert len(charged.per_query) == 95
    last = asked(LedgerCheck(tokens=95), release)[:19]
    whole = np.log(pmfs(release))
    for i in range(3):
        possible = whole[last] - np.log(pmfs(release.neighbour(i)))[last]
        for row, sign in ((evidence.forth[i], 1), (evidence.back[i], -1)):
            assert np.isclose(possible, sign * row[:, None]).any(axis=1).all()
        # the charge that is joined is that of the same context
        numbers = evidence.forth_queries[i]
        np.testing.assert_allclose(charged.per_query[numbers], charged.per_query[:19], rtol=1e-5)
        np.testing.assert_array_equal(numbers, 19 * (2 + i) + np.arange(19))
        np.testing.assert_array_equal(evidence.back_queries[i], np.arange(19))


def test_the_bet_finds_a_ledger_that_charges_nothing_and_spares_an_honest_one(
    service: Any, undercharging: Any
) -> None:
    release = service("submix", budget=100_000, epsilon=1e6, beta=2.0)
    wealth, n = bet(*drawn(release, 3000, TEXTS * 100))
    assert n == 2 * 3 * 600 and wealth < 20
    undercharging("submix", 0.0)
    wealth, _ = bet(*drawn(release, 3000, TEXTS * 100))
    assert wealth > 1e3


def test_a_temperature_is_compared_as_it_is_charged(service: Any) -> None:
    found = verdict(service("submix", temperature=0.5))
    assert not found.refutes and found.share > 0.99
