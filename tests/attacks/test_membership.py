"""Membership scores against their formulas, worked out by hand on models of two tokens' memory."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from attacks import _membership_scores as formulas
from attacks import membership
from attacks.membership import ONE_PASS, WITH_SHADOWS, Membership
from audit.core.attack import Attack, Knowledge, Shadow
from audit.core.errors import UsageError
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession, moments_of
from audit.core.predictor import Access, Answer
from audit.core.secret import Secret
from audit.plugins import registry
from audit.statistics.roc import auc

RECORDS = ("a1b2", "c", "#90210x", "zzzzzzzzzz")
CODES = (("#", "123"), ("#", "77"), ("x#", "9"))


def record(text: str, owner: str = "", slot: int = 0) -> Secret:
    return Secret("record", "", text, "", None, 1, owner or text, slot)


def code(prefix: str, value: str, owner: str = "", slot: int = 0) -> Secret:
    return Secret("code", prefix, value, ".", None, 4, owner or value, slot)


SECRETS = tuple(record(t) for t in RECORDS) + tuple(code(*c) for c in CODES)


@dataclass
class Fake:
    """A session that notes what it is asked, and may have a budget, a STOP, or little to read."""

    inner: OpenSession
    remaining: int | None = None
    stops_after: int = 10**9
    readable: Access = Access.DISTRIBUTION
    access: Access = Access.DISTRIBUTION
    asked: list[tuple[str, bool]] = field(default_factory=list)  # (continuation, moments)
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def score(
        self, prefixes: Sequence[Any], continuations: Sequence[Any], moments: bool = False
    ) -> list[Answer]:
        self.calls += 1
        answers = []
        for answer in self.inner.score(prefixes, continuations, moments):
            answered = min(len(answer.tokens), self.stops_after)
            self.stops_after -= answered
            answers.append(replace(answer, answered=answered))
            if self.remaining is not None:
                self.remaining -= len(answer.tokens)
                assert self.remaining >= 0
        for head, tail in zip(prefixes, continuations, strict=True):
            assert len(head) + len(tail) <= self.max_length + 1
            self.asked.append((self.tokenizer.decode(tail), moments))
        return answers


@pytest.fixture
def fake(bigram: Any) -> Any:
    def make(seed: int, max_length: int = 64, **changes: Any) -> Fake:
        model = replace(bigram(seed, vocabulary=38), max_length=max_length)
        return Fake(OpenSession(model, np.random.default_rng(0)), **changes)

    return make


def knowing(public: Any, shadows: Sequence[Shadow] = (), texts: Sequence[str] = ()) -> Knowledge:
    return Knowledge(public, tuple(texts), (), tuple(shadows), np.random.default_rng(0))


def run(
    target: Any, public: Any, secrets: Sequence[Secret] = SECRETS, **parameters: Any
) -> dict[tuple[str, str], Scores]:
    found = Membership(**parameters).run(target, secrets, knowing(public))
    assert all(isinstance(one, Scores) for one in found)
    return {(one.target, one.score): one for one in found if isinstance(one, Scores)}


def by_hand(session: Any, head: str, tail: str) -> tuple[list[float], list[float]]:
    """(log-probabilities, the same standardised) of each token of tail after head."""
    encode, table = session.tokenizer.encode, session.model.log_table
    tokens = encode(head + tail)
    log_probs, standard = [], []
    for i in range(len(head), len(tokens)):
        row = table[tokens[i - 1]]
        mean = sum(math.exp(x) * x for x in row)
        variance = sum(math.exp(x) * (x - mean) ** 2 for x in row)
        log_probs.append(row[tokens[i]])
        standard.append((row[tokens[i]] - mean) / math.sqrt(variance))
    return log_probs, standard


def lowest(values: list[float], k: float) -> float:
    kept = sorted(values)[: max(1, math.floor(k * len(values)))]
    return sum(kept) / len(kept)


@pytest.mark.parametrize("k", [0.2, 0.5, 1.0])
def test_all_five_scores_are_their_formulas(fake: Any, k: float) -> None:
    target, public = fake(1), fake(2)
    found = run(target, public, k=k)
    texts = [("record", "^", t, t + "^") for t in RECORDS]
    texts += [("span", "^" + prefix, value, value) for prefix, value in CODES]
    for i, (name, head, text, tail) in enumerate(texts):
        log_probs, standard = by_hand(target, head, tail)
        reference, _ = by_hand(public, head, tail)
        expected = {
            "loss": sum(log_probs) / len(log_probs),
            "ratio": (sum(log_probs) - sum(reference)) / len(log_probs),
            "zlib": sum(log_probs) / len(zlib.compress(text.encode())),
            "min_k": lowest(log_probs, k),
        }
        for score, value in expected.items():
            assert found[name, score].values[i] == pytest.approx(value, abs=1e-12)
        plus = found[name, "min_k_plus_plus"].values[i]
        assert plus == pytest.approx(lowest(standard, k), abs=1e-4)


def test_every_score_has_its_place_and_its_access(fake: Any) -> None:
    found = run(fake(1), fake(2))
    assert list(found) == [(t, s) for t in ("record", "span") for s in ONE_PASS]
    for (target, score), one in found.items():
        plus = score == "min_k_plus_plus"
        assert one.access == (Access.DISTRIBUTION if plus else Access.SCORE)
        ours = [secret.kind == ("record" if target == "record" else "code") for secret in SECRETS]
        assert (~np.isnan(one.values)).tolist() == ours
        assert one.windowed == 0


def test_each_text_is_read_once_by_the_target_and_once_by_the_public_model(fake: Any) -> None:
    target, public = fake(1), fake(2)
    twice = [replace(s, slot=slot) for s in SECRETS[:4] for slot in (0, 1)]
    twice += [*SECRETS[4:], record(RECORDS[0], owner="another"), code(*CODES[0], owner="another")]
    found = run(target, public, twice)
    once = [*(t + "^" for t in RECORDS), *(value for _, value in CODES)]
    assert [tail for tail, _ in target.asked] == once
    assert [tail for tail, _ in public.asked] == once
    assert target.calls == public.calls == 2  # one a target
    assert all(moments for _, moments in target.asked)
    assert not any(moments for _, moments in public.asked)
    loss = found["record", "loss"].values
    assert loss[0] == loss[1] == loss[11]
    assert found["span", "loss"].values[8] == found["span", "loss"].values[12]
    assert len(set(loss[0:8:2])) == 4


def test_chunks_change_nothing(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(fake(1), fake(2))
    monkeypatch.setattr(membership, "_AT_ONCE", 3)
    target = fake(1)
    parts = run(target, fake(2))
    assert target.calls == 3  # four records, three codes
    for key, one in whole.items():
        np.testing.assert_array_equal(one.values, parts[key].values)


def test_long_records_are_read_in_windows(fake: Any) -> None:
    """A bigram model sees one token back, so windows that share one token change nothing."""
    whole, target = run(fake(1), fake(2)), fake(1, max_length=5)
    parts = run(target, fake(2))
    for key, one in whole.items():
        np.testing.assert_allclose(one.values, parts[key].values, atol=1e-12)
        assert parts[key].windowed == (2 if key[0] == "record" else 0)
    assert [tail for tail, _ in target.asked][:6] == [
        "a1b2^",
        "c^",
        "#9021",
        "0x^",
        "zzzzz",
        "zzzzz",
    ]
    public = run(fake(1), fake(2, max_length=5))
    assert public["record", "loss"].windowed == 2  # both read the same windows


def test_a_span_keeps_what_fits_of_its_prompt() -> None:
    windows = membership._windows
    assert windows([0, 1, 2, 3], [4, 5], 4) == [([1, 2, 3], [4, 5])]
    assert windows([0, 1], [4, 5], 4) == [([0, 1], [4, 5])]
    assert windows([0, 1], [2, 3, 4, 5, 6], 2) == [([1], [2, 3]), ([3], [4, 5]), ([5], [6])]
    assert windows([0], [1, 2], 2) == [([0], [1, 2])]


def test_each_target_gets_half_of_a_budget_in_list_order(fake: Any) -> None:
    """Records cost 5, 2, 8 and 11 queries, codes 3, 2 and 1: of 10 each, two and three fit."""
    target, public = fake(1, remaining=21), fake(2)
    found, free = run(target, public), run(fake(1), fake(2))
    assert target.remaining == 21 - 7 - 6
    for key, one in found.items():
        reached = [0, 1] if key[0] == "record" else [4, 5, 6]
        expected = np.full(len(SECRETS), np.nan)
        expected[reached] = free[key].values[reached]
        np.testing.assert_array_equal(one.values, expected)
    assert len(public.asked) == 5
    alone = fake(1, remaining=21)
    run(alone, fake(2), SECRETS[:4])
    assert alone.remaining == 21 - 15
    assert np.isnan(run(fake(1, remaining=0), fake(2))["record", "loss"].values).all()


def test_what_was_not_answered_to_the_end_before_stop_is_not_measured(fake: Any) -> None:
    found = run(fake(1, stops_after=8), fake(2))  # the third record is cut after one token
    assert (~np.isnan(found["record", "loss"].values)).nonzero()[0].tolist() == [0, 1]
    assert all(np.isnan(found["span", score].values).all() for score in ONE_PASS)
    cut = run(fake(1, stops_after=13, max_length=5), fake(2))  # in the second of its windows
    assert all(np.isnan(cut["record", score].values[2:]).all() for score in ONE_PASS)


def test_nothing_is_asked_beyond_what_can_be_read(fake: Any) -> None:
    closed = fake(1, readable=Access.GENERATE)
    found = run(closed, fake(2))
    assert closed.calls == 0 and len(found) == 10
    assert all(np.isnan(one.values).all() for one in found.values())
    target = fake(1, readable=Access.SCORE)
    found = run(target, fake(2))
    assert not any(moments for _, moments in target.asked)
    for (name, score), one in found.items():
        measured = 0 if score == "min_k_plus_plus" else 4 if name == "record" else 3
        assert (~np.isnan(one.values)).sum() == measured


def test_a_target_without_secrets_gives_no_evidence(fake: Any) -> None:
    assert {t for t, _ in run(fake(1), fake(2), SECRETS[4:])} == {"span"}
    other = replace(SECRETS[0], kind="id")
    assert run(fake(1), fake(2), [other]) == run(fake(1), fake(2), []) == {}


def test_costs(fake: Any) -> None:
    tokenizer = fake(1).tokenizer
    twice = [*SECRETS, *(replace(s, slot=1) for s in SECRETS[:4])]
    assert Membership().queries(twice, tokenizer) == 26 + 6
    assert Membership().trials() == 1
    assert Membership().tests(SECRETS) == 11
    assert Membership(shadows=2).tests(SECRETS) == 17
    assert Membership(shadows=2).tests(SECRETS[:4]) == 9


def test_parameters_come_from_the_command_line() -> None:
    _, made = registry.build("attacks", "membership:shadows=8,k=0.5,gamma=2", Attack, {})
    assert made == Membership(shadows=8, k=0.5, gamma=2.0)


@pytest.mark.parametrize(
    "text",
    ["shadows=-2", "shadows=3", "k=0", "k=1.1", "k=nan", "gamma=0", "gamma=inf", "gamma=nan"],
)
def test_bad_parameters_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=f"membership: {text.partition('=')[0]} is ") as error:
        registry.build("attacks", f"membership:{text}", Attack, {})
    assert "\n" not in str(error.value)


# The formulas, as arrays


def test_min_k_takes_at_least_one_token() -> None:
    values = np.array([-1.0, -5.0, -2.0, -4.0, -3.0])
    assert formulas.min_k(values, 0.2) == formulas.min_k(values, 0.01) == -5.0
    assert formulas.min_k(values, 0.6) == -4.0
    assert formulas.min_k(values, 1.0) == -3.0
    assert formulas.min_k(np.array([-1.0, -np.inf]), 0.5) == -np.inf


def test_a_flat_or_certain_distribution_scores_zero(bigram: Any) -> None:
    model = bigram(0, vocabulary=38)
    flat = np.full((38, 38), -math.log(38))
    with np.errstate(divide="ignore"):
        certain = np.log(np.roll(np.eye(38), 1, axis=1))  # each character is followed by the next
    for table, impossible in ((flat, 0.0), (certain, -np.inf)):
        session = OpenSession(replace(model, log_table=table), np.random.default_rng(0))
        found = run(session, session, [code("1", "234"), code("1", "253")])
        plus = found["span", "min_k_plus_plus"].values
        assert plus[0] == pytest.approx(0.0, abs=0.1)
        assert plus[1] == pytest.approx(impossible, abs=0.1)


def test_moments_are_right_to_a_hundred_thousandth() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 1024, generator=generator, dtype=torch.float64)
    scales = torch.logspace(-4, 2, 200, dtype=torch.float64)[:, None]
    logs = torch.log_softmax(noise * scales, dim=1)  # from flat to nearly certain
    logs = torch.cat([logs, torch.log(torch.eye(3, 1024, dtype=torch.float64))])
    pmf = logs.exp()
    finite = logs.clamp(min=-1e4)
    mean = (pmf * finite).sum(dim=1)
    deviation = (pmf * (finite - mean[:, None]) ** 2).sum(dim=1).sqrt()
    torch.testing.assert_close(moments_of(logs), torch.stack([mean, deviation]), atol=1e-5, rtol=0)


def world(
    shift: float, seed: int = 0, n: int = 400, shadows: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(members, φ, φ under shadows, present): every candidate has its own level; those a model was
    trained on lie `shift` higher."""
    generator = np.random.default_rng(seed)
    coins = generator.random((shadows + 1, n)) < 0.5
    phi = 3 * generator.normal(size=n) + generator.normal(size=coins.shape) + shift * coins
    return coins[0], phi[0], phi[1:], coins[1:]


def pooled(phi: np.ndarray, kept: np.ndarray) -> tuple[list[float], float]:
    columns = [phi[kept[:, i], i] for i in range(phi.shape[1])]
    squares = sum(((c - c.mean()) ** 2).sum() for c in columns if len(c))
    freedom = sum(len(c) - 1 for c in columns if len(c))
    return [c.mean() if len(c) else math.nan for c in columns], math.sqrt(squares / freedom)


def test_lira_is_the_ratio_of_two_normal_densities() -> None:
    _, phi, shadows, present = world(1.0, n=40)
    present[:, 0], present[:, 1] = True, False
    inside, sigma_in = pooled(shadows, present)
    outside, sigma_out = pooled(shadows, ~present)
    online = norm.logpdf(phi, inside, sigma_in) - norm.logpdf(phi, outside, sigma_out)
    np.testing.assert_allclose(formulas.lira_online(phi, shadows, present), online, rtol=1e-9)
    offline = (phi - outside) / sigma_out
    np.testing.assert_allclose(formulas.lira_offline(phi, shadows, present), offline, rtol=1e-9)
    assert np.isnan(online).nonzero()[0].tolist() == [0, 1]
    assert np.isnan(offline).nonzero()[0].tolist() == [0]


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_rmia_counts_the_texts_that_a_candidate_dominates(gamma: float) -> None:
    _, phi, shadows, _ = world(1.0, n=30)
    _, z, z_shadows, _ = world(0.0, seed=1, n=50)
    found = formulas.rmia(phi, shadows, z, z_shadows, gamma)
    own = np.exp(phi) / np.exp(shadows).mean(axis=0)
    other = np.exp(z) / np.exp(z_shadows).mean(axis=0)
    expected = [(x / other >= gamma).mean() for x in own]
    np.testing.assert_array_equal(found, expected)
    assert 0 < np.mean(found) < 1


def all_three(seed: int, shift: float, shadows: int) -> dict[str, float | None]:
    members, phi, others, present = world(shift, seed, shadows=shadows)
    _, z, z_others, _ = world(0.0, seed + 100, n=200, shadows=shadows)
    found = {
        "lira_offline": formulas.lira_offline(phi, others, present),
        "lira_online": formulas.lira_online(phi, others, present),
        "rmia": formulas.rmia(phi, others, z, z_others, 1.0),
    }
    return {
        name: auc(scores[members & ~np.isnan(scores)], scores[~members & ~np.isnan(scores)]).value
        for name, scores in found.items()
    }


@pytest.mark.parametrize("shadows", [2, 8])
def test_shadows_tell_members_and_find_nothing_where_there_is_nothing(shadows: int) -> None:
    for seed in range(3):
        assert all((area or 0) > 0.7 for area in all_three(seed, 2.0, shadows).values())
        assert all(abs((area or 0) - 0.5) < 0.09 for area in all_three(seed, 0.0, shadows).values())


def test_models_that_are_all_the_same_give_all_the_same_finite_score() -> None:
    phi = np.random.default_rng(0).normal(size=20)
    for value in (phi, np.full(20, -np.inf)):
        shadows = np.tile(value, (4, 1))
        present = np.tile(np.array([[True], [False]]), (2, 20))
        assert (formulas.lira_online(value, shadows, present) == 0).all()
        assert (formulas.lira_offline(value, shadows, present) == 0).all()
        assert (formulas.rmia(value, shadows, value, shadows, 1.0) == 1).all()
    assert formulas.rmia(phi, shadows, value, shadows, 1.0).tolist() == [1.0] * 20


def test_what_was_not_read_does_not_spread() -> None:
    _, phi, shadows, present = world(1.0, n=40)
    full = formulas.lira_online(phi, shadows, present)
    phi[3], shadows[:, 4] = np.nan, np.nan
    found = formulas.lira_online(phi, shadows, present)
    assert np.isnan(found).nonzero()[0].tolist() == [3, 4]
    assert np.abs(found - full)[5:].max() < 0.5
    rest = formulas.rmia(phi, shadows, phi, shadows, 1.0)
    assert np.isnan(rest).nonzero()[0].tolist() == [3, 4]
    assert np.nanmin(rest) == 1 / 38 and np.nanmax(rest) == 1.0
    assert np.isnan(formulas.rmia(phi, shadows, phi[:0], shadows[:, :0], 1.0)).all()


# The attack on models that were trained


def trained(public: Any, texts: Sequence[str]) -> OpenSession:
    """A bigram model fitted to texts, the public model its prior."""
    counts = 4 * np.exp(public.log_table)
    for text in texts:
        tokens = [0, *public.tokenizer.encode(text), 0]
        np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    table = np.log(counts / counts.sum(axis=1, keepdims=True))
    return OpenSession(replace(public, log_table=table), np.random.default_rng(0))


@pytest.fixture
def case(bigram: Any) -> Any:
    """case(seed, shadows): an attack on 120 owners of a record and two codes, each owner with its
    coins, and which secrets were trained on. Records have a coin of presence only."""

    def make(seed: int, shadows: int = 0, leaks: bool = True, **changes: Any) -> Any:
        generator = np.random.default_rng(seed)
        public = bigram(seed, vocabulary=38)
        letters = list(public.tokenizer.alphabet[1:37])
        drawn = ["".join(generator.choice(letters, 8)) for _ in range(120 * 4)]
        secrets = [record(t, f"u{i}", slot) for i, t in enumerate(drawn[:120]) for slot in (0, 1)]
        codes = enumerate(zip(drawn[120:240], drawn[240:360], strict=True))
        secrets += [
            code("#", v[:5], f"u{i}", slot) for i, both in codes for slot, v in enumerate(both)
        ]

        def toss() -> np.ndarray:
            there, slot = generator.integers(2, size=120), generator.integers(2, size=120)
            chosen = [(bool(there[i // 2 % 120]), slot[i // 2 % 120]) for i in range(480)]
            return np.array([p and s.slot == c for s, (p, c) in zip(secrets, chosen, strict=True)])

        def trains(present: np.ndarray) -> OpenSession:
            kept = [s.text.rstrip(".") for s, there in zip(secrets, present, strict=True) if there]
            return trained(public, kept if leaks else [])

        tosses = [toss() for _ in range(shadows)]
        knowledge = knowing(
            OpenSession(public, np.random.default_rng(0)),
            [Shadow(trains(present), present) for present in tosses],
            drawn[360:],
        )
        members = toss()
        target = Fake(trains(members), **changes)
        found = Membership(shadows=shadows).run(target, secrets, knowledge)
        return (
            target,
            members,
            {(s.target, s.score): s.values for s in found if isinstance(s, Scores)},
        )

    return make


def areas(members: np.ndarray, found: dict[tuple[str, str], np.ndarray]) -> dict[Any, float]:
    """AUC of each score; of a record's two slots, the one that its owner's coin chose counts."""
    result = {}
    for (name, score), values in found.items():
        if name == "record":
            values, there = values[:240:2], members[:240:2] | members[1:240:2]
        else:
            there = members
        kept = ~np.isnan(values)
        result[name, score] = auc(values[there & kept], values[~there & kept]).value or 0.0
    return result


def test_shadows_are_compared_by_mean_log_probability(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners share the first code; held-out texts are cut in number and in length."""
    monkeypatch.setattr(membership, "_POPULATION", 3)
    secrets = [*SECRETS, replace(SECRETS[0], slot=1), code(*CODES[0], owner="another")]
    there = np.random.default_rng(0).random((4, len(secrets))) < 0.5
    sessions = [fake(seed, max_length=5) for seed in (1, 3, 4, 5, 6)]
    shadows = [Shadow(s, present) for s, present in zip(sessions[1:], there, strict=True)]
    texts = ["ab", "cdefghij", "k", "never"]
    attack = Membership(shadows=4, gamma=1.1)
    found = attack.run(sessions[0], secrets, knowing(fake(2), shadows, texts))

    def phi(head: str, tail: str) -> np.ndarray:
        return np.array([np.mean(by_hand(session, head, tail)[0]) for session in sessions])

    z = np.array([phi("^", tail) for tail in ("ab^", "cdefg", "k^")]).T
    own = {
        "record": (np.array([phi("^", t + "^") for t in RECORDS]).T, [[0, 7], [1], [2], [3]]),
        "span": (np.array([phi(prefix, v) for prefix, v in CODES]).T, [[4, 8], [5], [6]]),
    }
    measured = {(s.target, s.score): s.values for s in found if isinstance(s, Scores)}
    for name, (values, places) in own.items():
        present = np.array([there[:, some].any(axis=1) for some in places]).T
        expected = {
            "lira_offline": formulas.lira_offline(values[0], values[1:], present),
            "lira_online": formulas.lira_online(values[0], values[1:], present),
            "rmia": formulas.rmia(values[0], values[1:], z[0], z[1:], 1.1),
        }
        for score, scores in expected.items():
            for value, some in zip(scores, places, strict=True):
                np.testing.assert_allclose(measured[name, score][some], value, atol=1e-12)
    for session in sessions:  # in pieces: one text each, and of long records one a window
        assert sum(len(tail) for tail, _ in session.asked) == (3 + 5 + 2) + 26 + 6
    closed = fake(1, readable=Access.GENERATE)
    assert len(attack.run(closed, secrets, knowing(fake(2), shadows, texts))) == 16
    assert closed.calls == 0


def test_members_score_higher(case: Any) -> None:
    _, members, found = case(seed=1, shadows=8)
    assert list(found) == [(t, s) for t in ("record", "span") for s in ONE_PASS + WITH_SHADOWS]
    area = areas(members, found)
    assert min(area.values()) > 0.55
    for name in ("record", "span"):
        assert area[name, "ratio"] > 0.75  # the reference takes away what is common
        assert min(area[name, score] for score in WITH_SHADOWS) > 0.75


def test_a_model_that_learnt_nothing_tells_nothing(case: Any) -> None:
    _, members, found = case(seed=2, shadows=4, leaks=False)
    area = areas(members, found)
    for score in ("ratio", *WITH_SHADOWS):
        assert area["record", score] == pytest.approx(0.5, abs=0.02)
    assert max(abs(value - 0.5) for value in area.values()) < 0.15


def test_on_a_budget_rmia_is_left_out_and_its_texts_are_not_asked(case: Any) -> None:
    target, _, found = case(seed=3, shadows=2, remaining=10_000)
    assert all(np.isnan(found[name, "rmia"]).all() for name in ("record", "span"))
    assert not np.isnan(found["span", "lira_online"][240:]).all()
    assert target.remaining == 10_000 - 120 * 9 - 240 * 5
    free, _, found = case(seed=3, shadows=2)
    assert not np.isnan(found["record", "rmia"][:240]).any()
    assert sum(len(tail) for tail, _ in free.asked) == (120 + 120) * 9 + 240 * 5
