"""Algorithm 2's arithmetic against closed forms and a slow, literal transcription."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.ensemble import Separate
from audit.core.language_model import temper
from audit.core.release import NoJournal
from defenses.ensembles import ByData
from defenses.ensembles.mechanisms import mixing as algorithm_2
from defenses.ensembles.mechanisms import mixing_weights as search
from defenses.ensembles.mechanisms.mixing import Mixing, clip
from defenses.ensembles.mechanisms.mixing_weights import Pmfs, divergence, mixing_weights
from defenses.ensembles.session import EnsembleSession, Service


def together(members: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    """(n, k, 2, V) and (n, V) as a session reads them: (n, 2k + 1, V), the public model last."""
    return torch.cat([members.flatten(1, 2), public[:, None]], dim=1)


def mix(members: Any, public: Any, alpha: float, beta: float, temperature: float = 1.0) -> Any:
    return Mixing(alpha, beta, None, temperature).mix(together(members, public), [])


def pmf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).log()


def random_pmfs(seed: int, *shape: int, spread: float = 1.5) -> torch.Tensor:
    logits = np.random.default_rng(seed).normal(scale=spread, size=shape)
    return torch.log_softmax(torch.tensor(logits), dim=-1)


def test_divergence_has_the_values_of_the_closed_form() -> None:
    half, quarter = pmf(0.5, 0.5), pmf(0.25, 0.75)
    assert divergence(half, quarter, 2.0).item() == pytest.approx(0.2876820725, abs=1e-10)
    assert divergence(quarter, half, 2.0).item() == pytest.approx(0.2231435513, abs=1e-10)


def test_tempering_is_not_post_processing() -> None:
    half, quarter = temper(pmf(0.5, 0.5), 0.5), temper(pmf(0.25, 0.75), 0.5)
    assert divergence(half, quarter, 2.0).item() == pytest.approx(1.0217, abs=1e-4)


def literal_algorithm_2(
    members: np.ndarray, public: np.ndarray, alpha: float, beta: float
) -> tuple[np.ndarray, list[float], list[float]]:
    """Lines 6 to 19 for one query, as printed: loops, probabilities, a grid-free bisection."""

    def renyi(p: np.ndarray, q: np.ndarray) -> float:
        return math.log(sum(b * (a / b) ** alpha for a, b in zip(p, q, strict=True))) / (alpha - 1)

    k = len(members)
    lambdas, means = [], []
    for first, second in members:
        means.append((first + second) / 2)
        low, high = 0.0, 1.0
        if renyi(first, second) <= beta:
            low = 1.0
        else:
            for _ in range(100):
                middle = (low + high) / 2
                left = middle * first + (1 - middle) * public
                right = middle * second + (1 - middle) * public
                low, high = (middle, high) if renyi(left, right) <= beta else (low, middle)
        lambdas.append(low)
    star = sum(lambdas) / k
    h = star * sum(means) / k + (1 - star) * public
    charges = []
    for i in range(k):
        others = [j for j in range(k) if j != i]
        star_without = sum(lambdas[j] for j in others) / (k - 1)
        mean_without = sum(means[j] for j in others) / (k - 1)
        h_without = star_without * mean_without + (1 - star_without) * public
        charges.append(max(renyi(h, h_without), renyi(h_without, h)))
    return h, lambdas, charges


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 6),
    alpha=st.sampled_from([1.5, 2.0, 4.0, 8.0]),
    beta=st.sampled_from([1e-3, 0.05, 0.5, 50.0]),
)
def test_batches_agree_with_the_literal_transcription(
    seed: int, k: int, alpha: float, beta: float
) -> None:
    members, public = random_pmfs(seed, 3, k, 2, 7), random_pmfs(seed + 1, 3, 7)
    mixed = mix(members, public, alpha, beta)
    for query in range(3):
        h, lambdas, charges = literal_algorithm_2(
            members[query].exp().numpy(), public[query].exp().numpy(), alpha, beta
        )
        np.testing.assert_allclose(mixed.log_h[query].exp().numpy(), h, atol=1e-7)
        np.testing.assert_allclose(mixed.weights[query].numpy(), lambdas, atol=1e-7)
        np.testing.assert_allclose(mixed.costs[query].numpy(), charges, rtol=1e-5, atol=1e-6)


def test_what_is_charged_is_the_tempered_mixture() -> None:
    members, public = random_pmfs(7, 1, 2, 2, 4), random_pmfs(8, 1, 4)
    plain, sharp = (mix(members, public, 2.0, 10.0, t) for t in (1.0, 0.5))
    without = temper(torch.logsumexp(members[:, 1], dim=1) - math.log(2), 0.5)
    expected = max(
        divergence(sharp.log_h[0], without[0], 2.0), divergence(without[0], sharp.log_h[0], 2.0)
    )
    assert sharp.costs[0, 0] == pytest.approx(float(expected))
    assert float(sharp.costs[0, 0]) != pytest.approx(float(plain.costs[0, 0]), rel=1e-3)


@given(seed=st.integers(0, 10_000), bound=st.floats(0.01, 3.0))
def test_clipped_members_stay_in_the_band_and_sum_to_one(seed: int, bound: float) -> None:
    members, public = random_pmfs(seed, 2, 6, 6, spread=4.0), random_pmfs(seed + 1, 2, 1, 6)
    clipped = clip(members, public, bound)
    np.testing.assert_allclose(clipped.exp().sum(dim=-1).numpy(), 1.0, atol=1e-12)
    assert float((clipped - public).abs().max()) <= bound + 1e-9
    inside = clip(clipped, public, bound)
    np.testing.assert_allclose(inside.numpy(), clipped.numpy(), atol=1e-9)


def test_tokens_excluded_by_the_public_model_change_no_clip() -> None:
    members, public = random_pmfs(0, 2, 6, 6, spread=4.0), random_pmfs(1, 2, 1, 6)
    never = torch.full((2, 1, 1), -math.inf, dtype=torch.float64)
    padded = clip(
        torch.cat([members, never.expand(-1, 6, -1)], dim=-1),
        torch.cat([public, never], dim=-1),
        1.0,
    )
    assert bool((padded[..., -1] == -math.inf).all())
    np.testing.assert_allclose(padded[..., :-1].numpy(), clip(members, public, 1.0).numpy())


# speed must not change the answer


def bisected(
    members: torch.Tensor, public: torch.Tensor, alpha: float, beta: float
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """Equation 2 by 30 halvings, and the leakage as a function of λ."""
    first, second = members[:, :, 0].exp(), members[:, :, 1].exp()
    base = public.exp()[:, None, :]

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        p = torch.lerp(base, first, weight[..., None]) + 1e-300
        q = torch.lerp(base, second, weight[..., None]) + 1e-300
        return (p * (p / q) ** (alpha - 1)).sum(dim=-1).log() / (alpha - 1)

    low = torch.zeros(members.shape[:2], dtype=torch.float64)
    high = torch.ones_like(low)
    whole = leakage(high) <= beta
    for _ in range(30):
        middle = (low + high) / 2
        fits = leakage(middle) <= beta
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    weights = torch.where(whole, 1.0, low)
    sides = [log_mixture(members[:, :, j], weights[..., None], public[:, None]) for j in (0, 1)]
    hidden = divergence(sides[0], sides[1], alpha) > beta * (1 + 1e-9) + 1e-12
    return torch.where(hidden, 0.0, weights), leakage


def log_mixture(log_p: torch.Tensor, weight: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(weight.log() + log_p, torch.log1p(-weight) + public)


def log_space_mix(
    members: torch.Tensor, public: torch.Tensor, lambdas: torch.Tensor, alpha: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """log h and the charges, one mixture at a time, with nothing but sums of exponentials."""
    means = torch.logsumexp(members, dim=2) - math.log(2)

    def of(parts: list[int]) -> torch.Tensor:
        if not parts:
            return public
        mean = torch.logsumexp(means[:, parts], dim=1) - math.log(len(parts))
        weight, rest = lambdas[:, parts].mean(dim=1), (1 - lambdas[:, parts]).mean(dim=1)
        return torch.logaddexp(weight.log()[:, None] + mean, rest.log()[:, None] + public)

    k = members.shape[1]
    h, charges = of([*range(k)]), []
    for i in range(k):
        without = of([j for j in range(k) if j != i])
        charges.append(torch.maximum(divergence(h, without, alpha), divergence(without, h, alpha)))
    return h, torch.stack(charges, dim=1)


def members_of(kind: str, seed: int, n: int, k: int, v: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    public = rng.normal(scale=2, size=(n, v))
    spread = {"near": 1e-3, "equal": 0.0}.get(kind, 10 ** rng.uniform(-2, 0.5))
    members = public[:, None, None] + spread * rng.normal(size=(n, k, 2, v))
    if kind == "peaked":
        members *= 4
    if kind == "sure":  # each of another token
        np.put_along_axis(members, rng.integers(0, v, (n, k, 2, 1)), 40.0, axis=-1)
    if kind == "sparse":
        members[rng.random(members.shape) < 0.3] = -np.inf
        members[..., 0] = 0.0
    if kind == "tiny":  # below float64's reach
        members[..., 1:][rng.random((n, k, 2, v - 1)) < 0.3] -= 900.0
        public[:, -1] -= 900.0
    return torch.tensor(members).log_softmax(dim=-1), torch.tensor(public).log_softmax(dim=-1)


KINDS = ["random", "peaked", "sure", "sparse", "near", "equal", "tiny"]
kinds = pytest.mark.parametrize("kind", KINDS)
some = settings(max_examples=40, deadline=None)
orders = st.one_of(st.sampled_from([1.01, 1.5, 2.0, 4.0, 32.0, 200.0]), st.floats(1.01, 64.0))


@kinds
@given(seed=st.integers(0, 10_000), alpha=orders, log_beta=st.floats(-6, 1), k=st.integers(1, 5))
@some
def test_the_search_finds_what_bisection_finds(
    kind: str, seed: int, alpha: float, log_beta: float, k: int
) -> None:
    members, public = members_of(kind, seed, 3, k, 17)
    beta = 10**log_beta
    found = mixing_weights(Pmfs.of(together(members, public)), alpha, beta)
    expected, leakage = bisected(members, public, alpha, beta)
    differ = found != expected
    # only where the divergence is β to rounding
    gap = (leakage(torch.maximum(found, expected)) - beta)[differ].abs()
    assert bool((gap <= 1e-14 * alpha / (alpha - 1) * (1 + beta)).all())
    assert bool((found * 2**30 == (found * 2**30).floor()).all())
    if kind == "equal":
        assert bool((found == 1).all())


@kinds
@given(
    seed=st.integers(0, 10_000),
    alpha=orders,
    beta=st.sampled_from([1e-5, 2 / 1024, 0.3, 50.0]),
    k=st.integers(1, 5),
)
@some
def test_mixtures_and_charges_are_those_of_log_space(
    kind: str, seed: int, alpha: float, beta: float, k: int
) -> None:
    members, public = members_of(kind, seed, 3, k, 17)
    mixed = mix(members, public, alpha, beta)
    log_h, charges = log_space_mix(members, public, mixed.weights, alpha)
    np.testing.assert_allclose(mixed.log_h.numpy(), log_h.numpy(), rtol=1e-13, atol=1e-13)
    rounding = 1e-14 * alpha / (alpha - 1)
    np.testing.assert_allclose(mixed.costs.numpy(), charges.numpy(), rtol=1e-11, atol=rounding)


@given(seed=st.integers(0, 10_000), spread=st.floats(-6, 0.5), beta=st.floats(-6, 1))
@settings(max_examples=25, deadline=None)
def test_no_charge_is_below_the_true_divergence(seed: int, spread: float, beta: float) -> None:
    """Worked out with 50 digits. Rounding moves h and h' by 1e-16, so a charge c by √c · 1e-15."""
    base = random_pmfs(seed, 1, 9)
    members = torch.log_softmax(base + 10**spread * random_pmfs(seed + 1, 3, 2, 9), dim=-1)
    mixed = mix(members[None], base, 2.0, 10**beta, 1.0)
    with localcontext(prec=50):
        exact = [[Decimal(float(x)).exp() for x in row] for row in [*members.flatten(0, 1), *base]]
        lambdas = [Decimal(float(x)) for x in mixed.weights[0]]
        for i, charge in enumerate(mixed.costs[0].tolist()):
            h, without = (
                of_parts(exact, lambdas, [0, 1, 2]),
                of_parts(exact, lambdas, [*{0, 1, 2} - {i}]),
            )
            truth = max(float(renyi_2(h, without)), float(renyi_2(without, h)))
            assert charge == pytest.approx(truth, rel=1e-12, abs=2e-15 * math.sqrt(truth) + 1e-30)


def of_parts(pmfs: list[list[Decimal]], lambdas: list[Decimal], parts: list[int]) -> list[Decimal]:
    star = sum((lambdas[i] for i in parts), Decimal(0)) / len(parts)
    rows = [pmfs[2 * i + j] for i in parts for j in (0, 1)]
    mean = [sum(column, Decimal(0)) / len(rows) for column in zip(*rows, strict=True)]
    mixture = [star * m + (1 - star) * b for m, b in zip(mean, pmfs[-1], strict=True)]
    return [x / sum(mixture) for x in mixture]


def renyi_2(p: list[Decimal], q: list[Decimal]) -> Decimal:
    return sum((a * a / b for a, b in zip(p, q, strict=True)), Decimal(0)).ln()


def test_what_underflows_is_still_seen() -> None:
    """π alone can say the last token, once in e⁸⁰⁰: D is ∞, however small that is."""
    never, hardly = pmf(0.5, 0.5, 0.0), pmf(0.5, 0.5, 0.0)
    hardly[2] = -800.0
    pair = torch.stack([hardly, never])
    for others in (torch.stack([never, never]), pair):  # some parts are hidden so, or all
        members = torch.stack([pair, others])[None]
        mixed = mix(members, never[None], 2.0, 0.1, 1.0)
        assert mixed.weights[0].tolist() == [0.0, float(others is not pair)]
    beyond = mix(pair.flip(0)[None, None], never[None], 2.0, 0.1, 1.0)  # π' alone: D is 0
    assert beyond.weights.tolist() == [[1.0]]
    assert beyond.log_h[0, 2].item() == pytest.approx(-800.0 - math.log(2))
    assert beyond.costs.item() == math.inf


LEAKAGES: dict[str, Callable[[Any, float], Any]] = {
    "power 2": lambda x, at: 0.1 * (x / at) ** 2,
    "power 1/2": lambda x, at: 0.1 * (x / at) ** 0.5,
    "power 60": lambda x, at: 0.1 * (x / at) ** 60,
    "a jump": lambda x, at: np.where(x <= at, 1e-9, 7.0),
    "a jump from 0": lambda x, at: np.where(x <= at, 0.0, 7.0),
    "∞": lambda x, at: np.where(x <= at, x**2 / 100, np.inf),
    "NaN": lambda x, at: np.where(x <= at, x**2 / 100, np.nan),
    "a pole": lambda x, at: 0.1 * (1 - at) / (1 - x),
    "below 0": lambda x, at: np.where(x <= at, -1e-17, x),
}


@pytest.mark.parametrize("name", LEAKAGES)
@given(step=st.one_of(st.integers(0, 2**30 - 1), st.integers(0, 99)))
@some
def test_the_largest_is_found_whatever_the_leakage(name: str, step: int) -> None:
    at, looked = (step + 0.5) / 2**30, []

    def leakage(x: Any) -> Any:
        looked.append(x)
        return LEAKAGES[name](x, at)

    beta = 0.1 if name != "below 0" else min(0.1, at)
    with np.errstate(all="ignore"):
        found = search.largest(leakage, (1, 1), beta)
    assert found.tolist() == [[step / 2**30]]
    assert len(looked) <= (6 if name == "power 2" else 48)


@pytest.mark.parametrize("clipped", [None, 0.5])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_queries_do_not_know_each_other(
    monkeypatch: pytest.MonkeyPatch, clipped: float | None, temperature: float
) -> None:
    log_pmfs = together(*members_of("random", 1, 7, 3, 11))
    mixing, used = Mixing(2.0, 0.01, clipped, temperature), log_pmfs
    if clipped is not None:
        public = log_pmfs[:, -1:]
        used = torch.cat([clip(log_pmfs[:, :-1], public, clipped), public], dim=1)
    whole = Mixing(2.0, 0.01, None, temperature).mix(used, [])
    for numbers in (1, 3 * 7 * 11):
        monkeypatch.setattr(algorithm_2, "_IN_CACHE", numbers)
        parted = mixing.mix(log_pmfs, [])
        assert torch.equal(whole.weights, parted.weights)
        torch.testing.assert_close(whole.log_h, parted.log_h, rtol=1e-13, atol=0)
        torch.testing.assert_close(whole.costs, parted.costs, rtol=1e-11, atol=1e-15)


@dataclass(frozen=True)
class Reading(Separate):
    """Remembers what was read: texts and starts of each call."""

    calls: list[tuple[list[Any], list[int]]] = field(default_factory=list)

    def log_pmfs(self, texts: Any, starts: Any) -> torch.Tensor:
        self.calls.append((list(texts), list(starts)))
        return Separate(self.members).log_pmfs(texts, starts)


@pytest.mark.parametrize("at_once", [1, 2, 4, 1000])
def test_a_scored_text_is_cut_only_where_it_is_longer_than_memory(
    bigram: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(EnsembleSession, "at_once", at_once)
    ensemble = Reading([bigram(3), bigram(4), bigram(1)])
    account = ByData(1e9, 10**6)
    service = Service(Mixing(2.0, 0.1, None, 1.0), account, ensemble, 2, bigram(1))
    open_ = EnsembleSession(service, account.open(1, NoJournal()), np.random.default_rng(0))
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 6, length).tolist() for length in (3, 17, 2, 9, 9, 30, 1, 5, 5, 2, 30)]
    starts = [max(1, len(text) - 19) for text in texts[:-2]] + [1, 29]
    heads, tails = zip(*((t[:s], t[s:]) for t, s in zip(texts, starts, strict=True)), strict=True)
    scored = open_.score(heads, tails)

    size = 8 * at_once
    reads = sum(math.ceil(len(tail) / size) for tail in tails)
    assert sum(len(read) for read, _ in ensemble.calls) == reads
    for read, firsts in ensemble.calls:
        assert len(read) * (max(map(len, read)) - min(firsts)) <= size
        assert len(read) == 1 or sum(map(len, read)) - sum(firsts) <= at_once
    log_pmfs = torch.stack([m.log_pmfs(texts, starts) for m in ensemble.members], dim=1)
    expected = Mixing(2.0, 0.1, None, 1.0).mix(log_pmfs, []).log_h
    said = torch.tensor([token for tail in tails for token in tail])
    np.testing.assert_allclose(
        np.concatenate([answer.log_probs for answer in scored]),
        expected.gather(1, said[:, None])[:, 0].numpy(),
    )
