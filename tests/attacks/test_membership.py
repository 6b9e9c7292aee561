"""Membership scores against their formulas, worked out by hand on models of two tokens' memory."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from attacks import membership
from attacks.membership import WITH_SHADOWS, Membership
from attacks.scores import shadow_models as formulas
from attacks.scores.membership_scores import ez, wbc
from attacks.scores.token_readings import pieces_of
from audit.core.attack import Attack, Knowledge, Shadow
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Answer
from audit.core.secret import Secret
from audit.plugins import registry
from audit.statistics.roc import auc
from tests.attacks.noting import Fake
from tests.refusals import refusals

ALONE = ["loss", "zlib", "min_k", "min_k_plus_plus"]
OF_RECORDS = OF_SPANS = ["ratio", *ALONE, "ez", "wbc", "min_k_plus_plus_calibrated"]
BY_TARGET = {"record": OF_RECORDS, "span": OF_SPANS}
EVERY = [(target, score) for target, scores in BY_TARGET.items() for score in scores]

RECORDS = ("a1b2", "c", "#90210x", "zzzzzzzzzz")
CODES = (("#", "123"), ("#", "77"), ("x#", "9"))


def record(text: str, owner: str = "", slot: int = 0) -> Secret:
    return Secret("record", "", text, "", None, 1, owner or text, slot)


def code(prefix: str, value: str, owner: str = "", slot: int = 0) -> Secret:
    return Secret("code", prefix, value, ".", None, 4, owner or value, slot)


SECRETS = tuple(record(t) for t in RECORDS) + tuple(code(*c) for c in CODES)


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


def by_hand(session: Any, head: str, tail: str) -> tuple[list[float], list[float], list[bool]]:
    """(log-probabilities, the same standardised, most likely or not) of each token of tail."""
    encode, table = session.tokenizer.encode, session.model.log_table
    tokens = encode(head + tail)
    log_probs, standard, best = [], [], []
    for i in range(len(head), len(tokens)):
        row = table[tokens[i - 1]]
        mean = sum(math.exp(x) * x for x in row)
        variance = sum(math.exp(x) * (x - mean) ** 2 for x in row)
        log_probs.append(row[tokens[i]])
        standard.append((row[tokens[i]] - mean) / math.sqrt(variance))
        best.append(row[tokens[i]] == max(row))
    return log_probs, standard, best


def lowest(values: list[float], k: float) -> float:
    kept = sorted(values)[: max(1, math.floor(k * len(values)))]
    return sum(kept) / len(kept)


@pytest.mark.parametrize("k", [0.2, 0.5, 1.0])
def test_every_one_pass_score_is_its_formula(fake: Any, k: float) -> None:
    target, public = fake(1), fake(2)
    found = run(target, public, k=k)
    texts = [("record", "^", t, t + "^") for t in RECORDS]
    texts += [("span", "^" + prefix, value, value) for prefix, value in CODES]
    for i, (name, head, text, tail) in enumerate(texts):
        log_probs, standard, best = by_hand(target, head, tail)
        reference, standard_of_base, _ = by_hand(public, head, tail)
        delta = [one - other for one, other in zip(log_probs, reference, strict=True)]
        mean, plus = sum(log_probs) / len(log_probs), lowest(standard, k)
        expected = {
            "loss": (mean, 1e-12),
            "ratio": (sum(delta) / len(delta), 1e-12),
            "zlib": (mean / len(zlib.compress(text.encode())), 1e-12),
            "min_k": (lowest(log_probs, k), 1e-12),
            "min_k_plus_plus": (plus, 1e-4),
            "min_k_plus_plus_calibrated": (plus - lowest(standard_of_base, k), 1e-4),
            "ez": (ez(np.array(delta), np.array(best)), 1e-12),
            "wbc": (wbc(np.array(delta)), 1e-12),
        }
        assert sorted(expected) == sorted(BY_TARGET[name])
        for score, (value, within) in expected.items():
            assert found[name, score].values[i] == pytest.approx(value, abs=within), score


def test_every_score_has_its_place_and_its_access(fake: Any) -> None:
    found = run(fake(1), fake(2))
    assert list(found) == EVERY
    for (target, score), one in found.items():
        plus = "plus_plus" in score
        assert one.access == (Access.DISTRIBUTION if plus else Access.SCORE)
        assert one.kind == ("record" if target == "record" else "code")
        ours = [secret.kind == one.kind for secret in SECRETS]
        assert (~np.isnan(one.values)).tolist() == ours
        assert one.windowed == 0
        assert one.named == (score == BY_TARGET[target][0])


def test_without_a_base_model_its_scores_are_neither_made_nor_declared(fake: Any) -> None:
    target = fake(1)
    found, with_base = run(target, None), run(fake(1), fake(2))
    assert list(found) == [(t, s) for t in ("record", "span") for s in ALONE]
    named = [key for key, one in found.items() if one.named]
    assert named == [("record", "loss"), ("span", "loss")]
    for key, one in found.items():
        np.testing.assert_array_equal(one.values, with_base[key].values)


def test_each_text_is_read_once_by_the_target_and_once_by_the_public_model(fake: Any) -> None:
    target, public = fake(1), fake(2)
    twice = [replace(s, slot=slot) for s in SECRETS[:4] for slot in (0, 1)]
    twice += [*SECRETS[4:], record(RECORDS[0], owner="another"), code(*CODES[0], owner="another")]
    found = run(target, public, twice)
    once = [*(t + "^" for t in RECORDS), *(value for _, value in CODES)]
    assert [tail for tail, _ in target.asked] == once
    assert [tail for tail, _ in public.asked] == once
    assert target.calls == public.calls == 2  # one a target
    assert all(moments for _, moments in target.asked + public.asked)
    loss = found["record", "loss"].values
    assert loss[0] == loss[1] == loss[11]
    assert found["span", "loss"].values[8] == found["span", "loss"].values[12]
    assert len(set(loss[0:8:2])) == 4


def test_long_records_are_read_in_windows_and_all_in_chunks(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bigram model sees one token back, so windows that share one token change nothing."""
    whole, target = run(fake(1), fake(2)), fake(1, max_length=5)
    monkeypatch.setattr(membership, "_AT_ONCE", 3)
    parts = run(target, fake(2))
    assert target.calls == 3  # four records, three codes
    for key, one in whole.items():
        np.testing.assert_allclose(one.values, parts[key].values, atol=1e-12)
        assert parts[key].windowed == (2 if key[0] == "record" else 0)
    pieces = ["a1b2^", "c^", "#9021", "0x^", "zzzzz", "zzzzz"]
    assert [tail for tail, _ in target.asked][:6] == pieces
    public = run(fake(1), fake(2, max_length=5))
    assert public["record", "loss"].windowed == 2  # both read the same windows


def test_a_span_keeps_what_fits_of_its_prompt() -> None:
    assert pieces_of([0, 1, 2, 3], [4, 5], 4) == [([1, 2, 3], [4, 5])]
    assert pieces_of([0, 1], [4, 5], 4) == [([0, 1], [4, 5])]
    assert pieces_of([0, 1], [2, 3, 4, 5, 6], 2) == [([1], [2, 3]), ([3], [4, 5]), ([5], [6])]
    assert pieces_of([0], [1, 2], 2) == [([0], [1, 2])]


def test_a_record_that_begins_with_other_text_is_scored_on_the_secret_alone(fake: Any) -> None:
    """In its context, and without its stop token, which is no part of the secret."""
    target, public = fake(1), fake(2)
    secrets = [Secret("record", "ab", "c1d2", "", None, 1, "u", 0), record("ab"), code("ab", "77")]
    found = run(target, public, secrets)
    assert [tail for tail, _ in target.asked] == ["c1d2", "ab^", "77"]
    log_probs, _, best = by_hand(target, "^ab", "c1d2")
    reference, _, _ = by_hand(public, "^ab", "c1d2")
    delta = [one - other for one, other in zip(log_probs, reference, strict=True)]
    assert found["record", "loss"].values[0] == pytest.approx(np.mean(log_probs), abs=1e-12)
    assert found["record", "ez"].values[0] == pytest.approx(ez(np.array(delta), np.array(best)))
    compressed = len(zlib.compress(b"c1d2"))
    expected = pytest.approx(np.mean(log_probs) / compressed, abs=1e-12)
    assert found["record", "zlib"].values[0] == expected


@dataclass
class Habit(Fake):
    """A session with a model that knows texts better, by `bonus` nats a token, after the start
    token (`opened`) or without it, and the last token the less, by `surprise` nats. heads: contexts
    that it was given."""

    opened: bool = True
    bonus: float = 0.0
    surprise: float = 0.0
    heads: list[list[int]] = field(default_factory=list)

    def score(
        self, prefixes: Sequence[Any], continuations: Sequence[Any], moments: bool = False
    ) -> list[Answer]:
        self.heads += [list(head) for head in prefixes]
        answers = super().score(prefixes, continuations, moments)
        return [
            replace(a, log_probs=a.log_probs + self._moved(len(a.log_probs), head[0] == 0))
            for a, head in zip(answers, prefixes, strict=True)
        ]

    def _moved(self, tokens: int, opened: bool) -> np.ndarray:
        """Nats by which the tokens of a text are likelier."""
        moved = np.full(tokens, self.bonus * (opened == self.opened))
        moved[-1:] -= self.surprise * (opened == self.opened)
        return moved


@pytest.fixture
def habit(bigram: Any) -> Any:
    def make(seed: int, opened: bool, bonus: float, **changes: Any) -> Habit:
        inner = OpenSession(bigram(seed, vocabulary=38), np.random.default_rng(0))
        return Habit(inner, opened=opened, bonus=bonus, **changes)

    return make


def elsewhere(public: Any, opened: bool | None = None) -> Knowledge:
    return replace(knowing(public), opened=opened)


def closed_texts(encode: Any) -> list[tuple[list[int], list[int]]]:
    """Context and scored tokens of SECRETS without the start token: a record's first token follows
    nothing."""
    records = [encode(text + "^") for text in RECORDS]
    codes = [(encode(prefix), encode(value)) for prefix, value in CODES]
    return [(tokens[:1], tokens[1:]) for tokens in records] + codes


@pytest.mark.parametrize("opened", [True, False])
def test_texts_are_read_as_a_training_elsewhere_opened_its_own(habit: Any, opened: bool) -> None:
    target, public = habit(1, opened, 0.5), habit(2, opened, 0.1)
    found = Membership().run(target, SECRETS, elsewhere(public))
    told = habit(1, opened, 0.5)
    same = Membership().run(told, SECRETS, elsewhere(habit(2, opened, 0.1), opened))
    for one, other in zip(found, same, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    assert all((head[0] == 0) == opened for head in told.heads)
    if not opened:
        heads, tails = zip(*closed_texts(target.tokenizer.encode), strict=True)
        assert told.heads == list(heads)
        assert [tail for tail, _ in told.asked] == [*map(target.tokenizer.decode, tails)]


def test_what_counts_is_the_gain_over_the_base_model(habit: Any) -> None:
    """Both know texts better without the start token, and the release has gained more with it."""
    target, public = habit(1, False, 0.5), habit(2, False, 0.6)
    Membership().run(target, SECRETS[:4], elsewhere(public))
    assert all(head[0] == 0 for head in target.heads[-4:])
    target = habit(1, False, 0.5)
    Membership().run(target, SECRETS[:4], elsewhere(None))
    assert not any(head[0] == 0 for head in target.heads[-4:])


def test_words_before_values_show_how_a_training_opened_texts(habit: Any) -> None:
    """Of a model that knows other people's values by heart, these values alone show the reverse."""
    secrets = [code("onetwothreefour#", str(digit)) for digit in range(8)]
    target = habit(1, True, 0.5, surprise=4.0)
    Membership().run(target, secrets, elsewhere(habit(1, True, 0.0)))
    assert all(head[0] == 0 for head in target.heads[-len(secrets) :])


def test_only_a_few_texts_are_read_twice_and_none_on_a_budget(
    habit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_PROBED", 2)
    target = habit(1, False, 0.5)
    Membership().run(target, SECRETS, elsewhere(habit(2, False, 0.1)))
    assert len(target.heads) == (2 + 2 + 4) + (2 + 2 + 3)
    limited = habit(1, False, 0.5, remaining=64)
    Membership().run(limited, SECRETS, elsewhere(habit(2, False, 0.1)))
    assert len(limited.heads) == 7 and all(head[0] == 0 for head in limited.heads)
    closed = habit(1, False, 0.5, readable=Access.GENERATE)
    Membership().run(closed, SECRETS, elsewhere(habit(2, False, 0.1)))
    assert closed.calls == 0
    here = habit(1, False, 0.5)
    Membership().run(here, SECRETS, knowing(habit(2, False, 0.1)))
    assert len(here.heads) == 7 and all(head[0] == 0 for head in here.heads)


def test_tokens_that_models_rule_out_still_give_numbers(bigram: Any) -> None:
    """Where both models rule a token out it has not moved; where one does, it has, by 1,000 nats
    less its own."""
    flat = np.full((38, 38), -math.log(38))
    some = flat.copy()
    some[:, 5] = -np.inf
    sessions = [
        OpenSession(replace(bigram(0, vocabulary=38), log_table=table), np.random.default_rng(0))
        for table in (some, some, flat)
    ]
    secrets = [code("1", "4"), code("1", "44")]  # character 5 of the alphabet
    assert sessions[0].tokenizer.encode("4") == [5]
    both, one = run(*sessions[:2], secrets), run(sessions[0], sessions[2], secrets)
    for found in (both, one):
        assert all(np.isfinite(values.values).all() for values in found.values())
    assert both["span", "loss"].values.tolist() == [-1000, -1000]
    assert both["span", "ratio"].values.tolist() == [0, 0]
    assert both["span", "wbc"].values.tolist() == [0.5, 0.5]
    assert both["span", "ez"].values.tolist() == [0.5, 0.5]
    assert both["span", "min_k_plus_plus_calibrated"].values.tolist() == [0, 0]
    assert one["span", "ratio"].values == pytest.approx(math.log(38) - 1000)
    assert one["span", "ez"].values == pytest.approx(0, abs=1e-9)


def test_moments_are_read_of_a_base_model_that_gives_them(fake: Any) -> None:
    public = fake(2, readable=Access.SCORE)
    found = run(fake(1), public)
    assert not any(moments for _, moments in public.asked)
    for (_, score), one in found.items():
        assert np.isnan(one.values).all() == (score == "min_k_plus_plus_calibrated")


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
    assert {t for t, _ in run(alone, fake(2), SECRETS[:4])} == {"record"}
    assert alone.remaining == 21 - 15
    assert np.isnan(run(fake(1, remaining=0), fake(2))["record", "loss"].values).all()


def test_what_was_not_answered_to_the_end_before_stop_is_not_measured(fake: Any) -> None:
    found = run(fake(1, stops_after=8), fake(2))  # the third record is cut after one token
    assert (~np.isnan(found["record", "loss"].values)).nonzero()[0].tolist() == [0, 1]
    assert all(np.isnan(found["span", score].values).all() for score in OF_SPANS)
    cut = run(fake(1, stops_after=13, max_length=5), fake(2))  # in the second of its windows
    assert all(np.isnan(cut["record", score].values[2:]).all() for score in OF_RECORDS)


def test_nothing_is_asked_beyond_what_can_be_read(fake: Any) -> None:
    closed = fake(1, readable=Access.GENERATE)
    found = run(closed, fake(2))
    assert closed.calls == 0 and list(found) == EVERY
    assert all(np.isnan(one.values).all() for one in found.values())
    target, public = fake(1, readable=Access.SCORE), fake(2)
    found = run(target, public)
    assert not any(moments for _, moments in target.asked + public.asked)
    for (name, score), one in found.items():
        measured = 0 if "plus_plus" in score else 4 if name == "record" else 3
        assert (~np.isnan(one.values)).sum() == measured


def test_bad_parameters_are_refused_in_one_line() -> None:
    bad = ["shadows=-2", "shadows=3", "k=0", "k=1.1", "k=nan", "gamma=0", "gamma=inf", "gamma=nan"]
    refusals(
        lambda text: registry.build("attacks", f"membership:{text}", Attack, {}),
        [(text, f"membership: {text.partition('=')[0]} is ") for text in bad],
    )


# The attack on models that were trained


def trained(public: Any, texts: Sequence[str]) -> OpenSession:
    """A bigram model fitted to texts, the public model its prior; without texts that model."""
    if not texts:
        return OpenSession(public, np.random.default_rng(0))
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
    assert len(attack.run(closed, secrets, knowing(fake(2), shadows, texts))) == 22
    assert closed.calls == 0


def test_members_score_higher(case: Any) -> None:
    _, members, found = case(seed=1, shadows=8)
    assert list(found) == [(t, s) for t in BY_TARGET for s in [*BY_TARGET[t], *WITH_SHADOWS]]
    area = areas(members, found)
    assert min(area.values()) > 0.55
    for name in ("record", "span"):
        for score in ("ratio", "ez", "wbc"):
            assert area[name, score] > 0.75, score  # the reference takes away what is common
        assert min(area[name, score] for score in WITH_SHADOWS) > 0.75


def test_a_model_that_learnt_nothing_tells_nothing(case: Any) -> None:
    _, members, found = case(seed=2, shadows=4, leaks=False)
    area = areas(members, found)
    for score in ("ez", "ratio", "wbc", "min_k_plus_plus_calibrated", *WITH_SHADOWS):
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


def test_real_users_have_the_mean_and_the_largest_score_of_their_records(fake: Any) -> None:
    """Of the score that is named; a text of two users is read once, and counts for both."""
    texts = {"ann": ("a1b2", "c"), "ben": ("zzzz",), "cat": ("c", "#90210x", "a")}
    secrets = tuple(
        Secret("own", "", "\n\n".join(own), "", None, len(own), user, slot, own)
        for user, own in texts.items()
        for slot in (0, 1)
    )
    flat = tuple(record(text) for text in dict.fromkeys(sum(texts.values(), ())))
    target = fake(1)
    alone = run(fake(1), fake(2), flat)["record", "ratio"].values
    each = {secret.value: float(value) for secret, value in zip(flat, alone, strict=True)}
    found = run(target, fake(2), (*secrets, code("#", "123")))
    of_own = [name for name in found if name[0] == "own"]
    assert of_own == [("own", "mean_ratio"), ("own", "largest_ratio")]
    for name, reduced in (("mean", np.mean), ("largest", max)):
        due = [reduced([each[text] for text in s.records]) for s in secrets]
        scores = found["own", f"{name}_ratio"]
        assert scores.values[:-1] == pytest.approx(due) and np.isnan(scores.values[-1])
        assert scores.kind == "own" and scores.named == (name == "mean")
    read = [text for text, _ in target.asked if text.removesuffix("^") in each]
    assert len(read) == len(each)
    assert [*run(fake(1), None, secrets)] == [("own", "mean_loss"), ("own", "largest_loss")]
