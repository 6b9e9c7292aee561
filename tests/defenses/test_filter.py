"""Accounts of the parts: who is heard, whole transcripts, replays, and hostile searches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from attacks.ledger import LedgerCheck
from audit.contract.toys import Memory
from audit.core.attack import Knowledge
from audit.core.ensemble import Separate
from audit.core.errors import UsageError
from audit.core.ledger import round_up
from audit.core.release import NoJournal
from audit.findings.charges import Charges, compared
from audit.measure.neighbours import neighbours
from audit.measure.spending import charges, silent, spent, stop
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import Stacked
from audit.plan.plan import Chosen
from defenses.capped_submix import CappedMixture, CappedSubMix
from defenses.ensembles import Constant, Filter
from defenses.ensembles.mechanisms.caps import Caps
from defenses.ensembles.session import EnsembleSession, distributions, emptied
from tests.defenses.hostile_pmfs import both, laws, speaking, tensor
from tests.defenses.services import served, session, toy

SLACK = 1 + 1e-9  # rounding of the divergences that are computed here


def release(models: Any, public: Any, **parameters: Any) -> Any:
    return served(CappedSubMix, models, public, **{"multiple": 1.5, **parameters})


def service(k: int = 4, spread: float = 3.0, **parameters: Any) -> Any:
    return toy(CappedSubMix, k, spread, **{"epsilon": 0.1, "multiple": 5.0, **parameters})


# whole transcripts


@dataclass(frozen=True)
class Transcripts:
    """All transcripts of a session: their probabilities, and what every part was charged, nats.

    p: shape (transcripts,). charged: shape (transcripts, parts). silent: whether any part was.
    """

    p: np.ndarray
    charged: np.ndarray
    silent: bool


def transcripts(made: Any, length: int) -> Transcripts:
    p, charged, quiet = [], [], False
    for tokens in product(range(3), repeat=length):
        journal = Memory()
        (answer,) = session(made, journal).score([[0]], [list(tokens)])
        p.append(float(np.exp(answer.log_probs.sum())))
        charged.append(spent(journal.rows)[-1])
        quiet |= any(silent(journal.rows))
    assert sum(p) == pytest.approx(1.0)
    return Transcripts(np.array(p), np.array(charged), quiet)


def hostile(bigram: Any, seed: int, k: int = 2, **parameters: Any) -> Any:
    """A service whose members and public model answer by the last token, in hostile ways."""
    like = bigram(1, vocabulary=3)
    members, public = laws(np.random.default_rng(seed), 3, k, 3)
    public = public + 1e-3
    public /= public.sum(axis=-1, keepdims=True)
    models = [speaking(members[:, i], like) for i in range(k)]
    return release(models, speaking(public, like), **parameters)


def moment(p: np.ndarray, q: np.ndarray, charged: np.ndarray, alpha: float = 2.0) -> float:
    """E_Q[(P/Q)^α·e^(−(α−1)Σc)], where Σc is what the transcript was charged."""
    seen = (p > 0) | (q > 0)  # neither ever excludes what the other does not
    logs = alpha * np.log(p[seen]) - (alpha - 1) * (np.log(q[seen]) + charged[seen])
    return float(np.exp(logs).sum())


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(i, marks=pytest.mark.full) for i in range(1, 6))]
)
@pytest.mark.parametrize(("weight", "multiple"), [(0.2, 1.5), (1.0, 2.0)])
def test_no_transcript_costs_more_than_the_claim(
    bigram: Any, seed: int, weight: float, multiple: float
) -> None:
    """Four tokens under a budget of three: the last one is the public model's."""
    made = hostile(bigram, seed, weight=weight, epsilon=0.3, budget=3, multiple=multiple)
    whole = transcripts(made, 4)
    assert whole.charged.max() < 0.3
    for part in range(2):
        other = transcripts(made.neighbour(part), 4)
        assert both(whole.p, other.p, 2.0) <= 0.3
        for p, q in ((whole.p, other.p), (other.p, whole.p)):
            assert moment(p, q, whole.charged[:, part]) <= SLACK


def test_parts_are_silent_in_some_of_these_transcripts(bigram: Any) -> None:
    made = (
        hostile(bigram, seed, weight=1.0, epsilon=0.3, budget=3, multiple=2.0) for seed in range(6)
    )
    assert sum(transcripts(one, 3).silent for one in made) >= 3


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.full) for i in (1, 2, 3))])
def test_no_user_costs_more_than_the_claim(bigram: Any, seed: int) -> None:
    """A part replaced by any other, which has an account of its own."""
    parameters = {"weight": 0.9, "epsilon": 0.2, "budget": 3, "multiple": 2.0}
    made = hostile(bigram, seed, **parameters)
    other = hostile(bigram, seed + 100, **parameters)
    replaced = replace(made, members=(other.members[0], *made.members[1:]))
    whole, changed = transcripts(made, 4), transcripts(replaced, 4)
    claim = CappedSubMix(k=2, **parameters).user_epsilon
    assert claim == pytest.approx(0.8 / (1 - 0.9 / 1.1))
    assert both(whole.p, changed.p, 2.0) <= claim


def test_one_user_nearly_costs_the_claim(bigram: Any) -> None:
    """Both services spend ε in two of three queries, and differ by what both were charged."""
    like = bigram(1, vocabulary=3)
    public = np.array([0.007, 0.007, 0.986])
    one, other, rest = np.array([[0.014, 0, 0.986], [0, 0.014, 0.986], [0, 0, 1]])
    whole, changed = (
        transcripts(
            release(
                [speaking(pmf, like) for pmf in (own, *[rest] * 7)],
                speaking(public, like),
                epsilon=2e-5,
                budget=3,
            ),
            4,
        )
        for own in (one, other)
    )
    assert whole.silent and changed.silent
    claim = CappedSubMix(k=8, epsilon=2e-5, budget=3, multiple=1.5).user_epsilon
    assert claim == pytest.approx(8.25e-5)
    assert 0.95 * claim < both(whole.p, changed.p, 2.0) <= claim


def cornered(bigram: Any, epsilon: float, budget: int, **parameters: Any) -> Any:
    """Two parts: one is sure of a word that the public model hardly knows, one of another."""
    public = np.array([1 - 1e-6 - 1e-7, 1e-7, 1e-6])
    like = bigram(1, vocabulary=3)
    models = [speaking(np.eye(3)[i], like) for i in (1, 2)]
    return release(
        models, speaking(public, like), weight=0.5, epsilon=epsilon, budget=budget, **parameters
    )


def test_a_transcript_reaches_the_claim_in_fewer_queries(bigram: Any) -> None:
    """At m = 1.5 a part spends ε in two of three queries; from then on it is silent."""
    made = cornered(bigram, epsilon=24.0, budget=3)
    whole, other = transcripts(made, 4), transcripts(made.neighbour(0), 4)
    assert whole.silent
    assert 0.999 * 24.0 < both(whole.p, other.p, 2.0) <= 24.0
    forth = moment(whole.p, other.p, whole.charged[:, 0])
    assert 0.99 < forth <= SLACK


# against a transcription by loops


def literal(
    members: np.ndarray, public: np.ndarray, caps: Caps, epsilon: float
) -> tuple[np.ndarray, list[list[bool]]]:
    """Answers queries one after the other, from pmfs (n, k, V) and (n, V): (h, who is heard)."""
    n, k = members.shape[:2]
    accounts = [0.0] * k
    answers, heard = [], []
    for query in range(n):
        h, these = public[query].copy(), []
        for part in range(k):
            one = tensor(members[query : query + 1, part : part + 1])
            u = tensor(public[query : query + 1])
            weight = caps.weights(one, u)
            cost = round_up(float(caps.costs(one, u, weight)) * (1 + 1e-9))
            fits = accounts[part] + cost < epsilon
            these.append(fits)
            if fits:
                accounts[part] += cost
                h += float(weight) / k * (members[query, part] - public[query])
        answers.append(h)
        heard.append(these)
    return np.array(answers), heard


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 5),
    weight=st.sampled_from([0.2, 1.0]),
    multiple=st.sampled_from([1.01, 1.5, 3.0]),
    alpha=st.sampled_from([1.5, 2.0, 8.0]),
    pieces=st.integers(1, 8),
)
def test_it_agrees_with_a_transcription_however_queries_are_grouped(
    seed: int, k: int, weight: float, multiple: float, alpha: float, pieces: int
) -> None:
    members, public = laws(np.random.default_rng(seed), 8, k, 4)
    caps = Caps(weight, k, alpha, multiple * 0.1 / 8)
    account = Filter(0.1, 8, caps.charge)
    ledger = account.open(k, NoJournal())
    with np.errstate(divide="ignore"):
        log_pmfs = tensor(np.log(np.concatenate([members, public[:, None]], axis=1)))
    whole, heard = literal(members, public, caps, 0.1)
    who, answered = [], []
    for some in torch.split(log_pmfs, pieces):
        mixed = CappedMixture(caps).mix(distributions(some), [])
        admitted = account.admit(ledger, mixed, [str(i) for i in range(len(some))])
        assert admitted.count == len(some) and admitted.heard is not None
        who += admitted.heard.tolist()
        left = emptied(distributions(some), admitted.heard)
        answered.append(CappedMixture(caps).mix(left, []).log_h.exp().numpy())
    np.testing.assert_allclose(np.concatenate(answered), whole, atol=1e-12)
    assert who == heard
    assert (torch.tensor(ledger.spent) < 0.1).all()


@given(seed=st.integers(0, 100_000), k=st.integers(2, 6))
def test_who_is_heard_depends_on_the_own_part_alone(seed: int, k: int) -> None:
    """To the last bit, whatever becomes of part 0: so the others' shares are the neighbour's."""
    generator = np.random.default_rng(seed)
    members, public = laws(generator, 10, k, 5)
    other = members.copy()
    other[:, 0] = generator.dirichlet(np.full(5, 0.3), 10)
    spends = []
    for some in (members, other):
        journal = Memory()
        account = Filter(0.05, 10, 0.01)
        ledger = account.open(k, journal)
        with np.errstate(divide="ignore"):
            log_pmfs = np.log(np.concatenate([some, public[:, None]], axis=1))
        mixed = CappedMixture(Caps(1.0, k, 2.0, 0.01)).mix(distributions(tensor(log_pmfs)), [])
        account.admit(ledger, mixed, [str(i) for i in range(10)])
        ledger.flush()
        spends.append([(r["charge"][1:], [i for i in r["silent"] if i]) for r in journal.rows])
    assert spends[0] == spends[1]


# the session


def conversation(opened: EnsembleSession) -> list[Any]:
    drawn = opened.generate([[0], [0, 2], [0, 3, 1]] * 3, 3)
    drawn += opened.score([[0], [0, 1]] * 2, [[1, 2, 3], [4]] * 2)
    return [(a.tokens, a.answered, *a.log_probs) for a in drawn]


def test_a_query_may_cost_more_and_a_silent_part_is_charged_nothing() -> None:
    made, journal = service(budget=31), Memory()
    conversation(session(made, journal))
    assert made.mechanism.divergence == pytest.approx(5 * 0.1 / 31, rel=3e-5)
    rows = [row for row in journal.rows if not row["stopped"]]
    charged = np.array([row["charge"] for row in rows])
    assert charged.max() > 4 * 0.1 / 31  # m is not ignored
    quiet = np.array([[part in row["silent"] for part in range(4)] for row in rows])
    assert quiet.any() and not quiet.all()
    assert not charged[quiet].any() and (charged[~quiet] > 0).all()
    assert (charged.sum(axis=0) < 0.1).all()
    assert silent(journal.rows) == quiet.sum(axis=0).tolist()


def test_stop_is_public_and_no_account_moves_it() -> None:
    rows = []
    for spread in (0.0, 50.0):
        journal = Memory()
        opened = session(service(spread=spread, budget=7), journal)
        answers = opened.generate([[0], [0, 2]], 5)
        assert [a.answered for a in answers] == [5, 2] and opened.remaining == 0
        rows.append([(row["query"], row["stopped"]) for row in journal.rows])
        assert stop(journal.rows, 0.1) == {"stopped_at": 7}
    assert rows[0] == rows[1]


def test_tokens_are_drawn_with_the_probabilities_that_are_read() -> None:
    """Also where parts have fallen silent: χ² of 400 draws after 6 queries."""
    made = service(budget=40, epsilon=0.03)
    counts = np.zeros(6)
    for seed in range(400):
        opened = session(made, seed=seed)
        opened.score([[0]], [[1, 2, 3, 1, 2, 3]])
        counts[opened.generate([[0, 3]], 1)[0].tokens[0]] += 1
    opened = session(made)
    opened.score([[0]], [[1, 2, 3, 1, 2, 3]])
    law = np.exp(opened.distribution([[0, 3]], range(6))[0][0])
    assert ((counts - 400 * law) ** 2 / (400 * law)).sum() < 20.5  # 5 degrees, 99.9 %


def test_each_session_and_each_neighbour_has_accounts_of_its_own() -> None:
    """And a neighbour reads the very numbers of the release."""
    made = service(budget=31)
    assert isinstance(made.ensemble, Separate)
    first = conversation(session(made))
    assert conversation(session(made)) == first
    for part in range(4):
        journals = Memory(), Memory()
        for one, journal in zip((made, made.neighbour(part)), journals, strict=True):
            session(one, journal).score([[0]] * 2, [[1, 2, 3, 4, 5, 1, 2, 3]] * 2)
        ours, theirs = (np.array([row["charge"] for row in j.rows]) for j in journals)
        assert not theirs[:, part].any()
        np.testing.assert_array_equal(np.delete(ours, part, 1), np.delete(theirs, part, 1))
        silences = [[[p for p in r["silent"] if p != part] for r in j.rows] for j in journals]
        assert silences[0] == silences[1]


def test_models_are_read_one_by_one_so_that_none_moves_the_last_digit_of_another() -> None:
    """Whether a cost fits is a jump. Stacked models differ with who is stacked, as at m = 1."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=31, n_positions=32, n_embd=24, n_layer=2, n_head=2)
    tokenizer: Any = SimpleNamespace(start=0, stop=0)
    models = [GPT2LMHeadModel(config).eval() for _ in range(5)]
    public, other, *members = (CausalLM(model, tokenizer, 32) for model in models)
    texts, starts = [[0, 5, 7, 9, 30, 2], [0, 3, 3]], [1, 2]
    whole = release(members, public)
    for first in (other, public):  # another model, and none
        changed = release([first, *members[1:]], public)
        read = [one.ensemble.log_pmfs(texts, starts) for one in (whole, changed)]
        assert torch.equal(read[0][:, 1:], read[1][:, 1:])
        cursors = [one.ensemble.cursor([[0, 5, 7]]) for one in (whole, changed)]
        for token in (4, 8):
            read = [cursor.log_pmfs() for cursor in cursors]
            assert torch.equal(read[0][:, 1:], read[1][:, 1:])
            for cursor in cursors:
                cursor.append(torch.tensor([token]))
    assert isinstance(whole.ensemble, Separate)
    assert isinstance(release(members, public, multiple=1.0).ensemble, Stacked)


def test_the_attack_on_the_ledger_finds_it_honest_and_half_the_charge_false(bigram: Any) -> None:
    made = cornered(bigram, epsilon=48.0, budget=6)
    generator, journal = np.random.default_rng(3), Memory()
    known = Knowledge(None, ("0101", "00"), (), (), generator,
                      neighbours=neighbours(made, 0, "test"), order=2.0)  # fmt: skip
    (evidence,) = LedgerCheck(tokens=6).run(session(made, journal), (), known)
    charged = np.array(charges(journal.rows, len(journal.rows)))
    assert not charged.all()  # some part is silent at last
    honest = compared(evidence, Charges(2.0, charged, 48.0, 6))  # type: ignore[arg-type]
    halved = compared(evidence, Charges(2.0, charged / 2, 48.0, 6))  # type: ignore[arg-type]
    assert honest is not None and not honest.refutes and honest.share > 0.99
    assert halved is not None and halved.refutes


# killed processes, and processes one after the other


def test_who_was_heard_is_replayed_and_not_decided_again(monkeypatch: Any) -> None:
    """Whether a cost fits is a jump: in a last digit a replay must not answer by another law."""
    made, journal = service(budget=31), Memory()
    expected = conversation(session(made, journal))
    rows = list(journal.rows)
    costs = Caps.costs
    monkeypatch.setattr(Caps, "costs", lambda *some: costs(*some) * 1.3)
    assert conversation(session(made, journal)) == expected
    assert journal.rows == rows


def test_another_question_after_a_kill_is_charged_with_what_was_answered() -> None:
    """What the killed process answered is on every account before anybody is heard again."""
    made, journal = service(budget=60), Memory()
    session(made, journal).generate([[0]] * 5, 3)
    before = spent(journal.rows)[-1]
    opened = session(made, journal)
    assert opened.generate([[0, 2]] * 20, 3)[-1].answered == 0
    assert sum(not row["stopped"] for row in journal.rows) == 60
    assert all(b <= total < 0.1 for b, total in zip(before, spent(journal.rows)[-1], strict=True))
    # from empty accounts the same question costs other charges
    fresh = Memory()
    session(made, fresh).generate([[0, 2]] * 20, 3)
    assert [r["silent"] for r in fresh.rows[:45]] != [r["silent"] for r in journal.rows[15:60]]


def test_no_two_answers_share_a_uniform_unless_one_replays_the_other(monkeypatch: Any) -> None:
    """Asked twice after kills, a query may be answered by two laws: one number would tell both."""
    drawn: list[float] = []
    inner = EnsembleSession._seed

    def spied(self: Any, number: int, context: Any) -> bytes:
        seed = inner(self, number, context)
        drawn.append(number)
        return seed

    monkeypatch.setattr(EnsembleSession, "_seed", spied)
    made, journal = service(budget=60), Memory()
    session(made, journal).generate([[0]] * 4, 2)
    session(made, journal).generate([[0, 2]] * 4, 2)
    session(made, journal).generate([[0, 2]] * 4, 2)
    assert drawn == list(range(24))


class Continued(Memory):
    """A journal whose earlier rows are no replay, as that of a served ledger."""

    def previous(self) -> list[dict[str, Any]]:
        return [{**row, "query": -1} for row in self.rows]


def test_accounts_go_on_in_the_next_process() -> None:
    """Three processes answer as one does: their accounts start from what is spent."""
    made, parts, whole = service(budget=15, epsilon=0.06), Continued(), Memory()
    prompts = [[0], [0, 2], [0, 3, 1]]
    texts = [[4, 5, 1, 2, 3], [1, 2, 1, 2, 1], [3, 3, 3, 3, 3]]
    expected = session(made, whole).score(prompts, texts)
    for prompt, text, answer in zip(prompts, texts, expected, strict=True):
        (one,) = session(made, parts).score([prompt], [text])
        np.testing.assert_allclose(one.log_probs, answer.log_probs, rtol=1e-12)
    keys = ("charge", "silent")
    assert [[r[k] for k in keys] for r in parts.rows] == [[r[k] for k in keys] for r in whole.rows]
    assert any(row["silent"] for row in parts.rows[5:])


# a hostile search over adaptive queries


@dataclass(frozen=True)
class Game:
    """Adaptive queries as a tree: after every transcript other members, another public model.

    members: for each depth, pmfs (V^depth, k, V). public: for each depth, (V^depth, V).
    """

    members: tuple[np.ndarray, ...]
    public: tuple[np.ndarray, ...]

    def emptied(self, part: int) -> Game:
        changed = []
        for some, public in zip(self.members, self.public, strict=True):
            some = some.copy()
            some[:, part] = public
            changed.append(some)
        return Game(tuple(changed), self.public)

    def played(self, mechanism: CappedMixture, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        """The probability of every transcript, and what each part was charged in it, nats."""
        k, size = self.members[0].shape[1:]
        p, accounts = np.ones(1), np.zeros((1, k))
        for members, public in zip(self.members, self.public, strict=True):
            pmfs = tensor(np.concatenate([members, public[:, None]], axis=1))
            found = mechanism.mix(pmfs.log(), []).costs
            costs = np.vectorize(round_up)(found.numpy() * (1 + 1e-9))  # type: ignore[union-attr]
            heard = accounts + costs < epsilon
            accounts = accounts + np.where(heard, costs, 0.0)
            h = mechanism.mix(emptied(pmfs.log(), heard), []).log_h.exp().numpy()
            p = (p[:, None] * h).ravel()
            accounts = np.repeat(accounts, size, axis=0)
        return p, accounts

    def nudged(self, generator: np.random.Generator) -> Game:
        def moved(pmfs: np.ndarray) -> np.ndarray:
            scale = 10.0 ** generator.uniform(-2, 0.5)
            other: np.ndarray = pmfs * np.exp(generator.normal(scale=scale, size=pmfs.shape))
            return other / other.sum(axis=-1, keepdims=True)

        return Game(tuple(map(moved, self.members)), tuple(map(moved, self.public)))


def game(generator: np.random.Generator, k: int, size: int, depth: int) -> Game:
    levels = [laws(generator, size**d, k, size) for d in range(depth)]
    return Game(*map(tuple, zip(*levels, strict=True)))  # type: ignore[arg-type]


def searched(seed: int, rounds: int) -> Iterator[tuple[float, float]]:
    """Of hostile games that are varied again and again: the share of ε that is reached, and the
    largest moment."""
    generator = np.random.default_rng(seed)
    for _ in range(rounds):
        k, size = int(generator.integers(2, 6)), int(generator.integers(2, 4))
        depth = int(generator.integers(1, 6 if size == 2 else 4))
        alpha = float(generator.choice([1.01, 1.5, 2.0, 4.0, 16.0]))
        epsilon = float(10 ** generator.uniform(-4, 1.3))
        multiple = float(generator.choice([1.01, 1.3, 1.5, 2.0, depth]))
        charge = min(multiple, depth) * epsilon / depth * (1 - 2e-5)
        weight = float(generator.choice([0.2, 0.5, 0.9, 1.0]))
        mechanism = CappedMixture(Caps(weight, k, alpha, charge))
        best, reached, worst = game(generator, k, size, depth), 0.0, 0.0
        for turn in range(12):
            one = game(generator, k, size, depth) if turn % 3 == 0 else best.nudged(generator)
            p, charged = one.played(mechanism, epsilon)
            q, _ = one.emptied(0).played(mechanism, epsilon)
            share = float(both(p, q, alpha)) / epsilon
            if share > reached:
                best, reached = one, share
            with np.errstate(all="ignore"):
                worst = max(
                    worst, *(moment(*pair, charged[:, 0], alpha) for pair in ((p, q), (q, p)))
                )
        yield reached, worst


def test_no_search_finds_queries_that_cost_a_part_more_than_the_claim() -> None:
    found = list(searched(3, 15))
    assert max(share for share, _ in found) <= SLACK
    assert max(share for share, _ in found) > 0.8
    assert max(worst for _, worst in found) <= 1 + 1e-6


# settings and promise


@pytest.mark.parametrize("multiple", [0.99, math.inf, math.nan, 0.0])
def test_impossible_multiples_are_refused(multiple: float) -> None:
    with pytest.raises(UsageError, match=r"capped_submix: multiple is .*; it must be at least 1"):
        CappedSubMix(multiple=multiple)


def test_no_query_may_cost_more_than_all() -> None:
    assert CappedSubMix(multiple=3.0, budget=3).multiple == 3.0
    with pytest.raises(UsageError, match=r"multiple is 3\.5; it must be at most budget, 3"):
        CappedSubMix(multiple=3.5, budget=3)


def test_at_1_it_is_what_it_was() -> None:
    made = CappedSubMix()
    assert made.account == Constant(made.mechanism.divergence, 1024)
    assert made.mechanism.divergence == 2 / 1024 * (1 - 2e-5)
    assert "multiple" not in Chosen("capped_submix", made).shown
    assert Chosen("capped_submix", made).label == "capped_submix"
    other = Chosen("capped_submix", CappedSubMix(multiple=1.5))
    assert other.shown["multiple"] == 1.5 and other.label == "capped_submix:multiple=1.5"
    promise = service(multiple=1.0).guarantee
    assert "2008.11193" not in promise.theorem and promise.theorem.endswith("B queries composed")


def test_the_guarantee_names_the_filter() -> None:
    promise, constant = (
        service(epsilon=2.0, multiple=2.0).guarantee,
        service(epsilon=2.0, multiple=1.0).guarantee,
    )
    for name in ("epsilon", "alpha", "unit", "relation", "basis", "delta", "release"):
        assert getattr(promise, name) == getattr(constant, name)
    assert "Feldman and Zrnic, arXiv 2008.11193" in promise.theorem
    assert "for every transcript what a part is charged sums to at most ε" in promise.theorem
    conditions = " ".join(promise.conditions)
    assert "at most 0.00390618 nats" in conditions  # twice 2/1024, less 2e-5
    assert "nobody is told" in conditions and "each model is read on its own" in conditions
    assert "the same 0." not in conditions and "stops after 1024 queries" in conditions
    per_user = [[c for c in p.conditions if c.startswith("per user")] for p in (promise, constant)]
    assert per_user[0] == per_user[1]
