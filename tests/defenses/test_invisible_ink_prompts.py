"""InvisibleInk on records in prompts: closed forms, neighbours, transcripts, batches, copying."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from audit.accounting import gaussian_epsilon
from audit.contract.toys import CharacterTokenizer, Memory
from audit.core.corpus import Corpus, Population, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.ensemble import Separate
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.predictor import Access, record_tokens
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.measure import release as measured
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.train.task import Task, weights_path
from defenses.ensembles.mechanisms.clipped_logits import ClippedLogits
from defenses.invisible_ink_prompts import InvisibleInkPrompts, ReferencesRelease
from defenses.prompts import copying
from defenses.prompts.prompted import Prompted, reference_of
from defenses.prompts.session import NoAccount
from defenses.prompts.zcdp import conversion, largest_rho
from tests.defenses.copying_model import Copier
from tests.defenses.hostile_pmfs import answers, both, emptied, laws
from tests.defenses.services import RECIPE

SLACK = 1 + 1e-9
ORDERS = st.sampled_from([1.01, 1.5, 2.0, 4.0, 16.0])
MODEL = ModelFolder("toy", Path("toy"), "", 1, 8, 300)
WORDS = "^0123456789abcdefghij"


def copier(alphabet: str = WORDS, **fields: Any) -> Copier:
    return Copier(CharacterTokenizer(alphabet), **{"max_length": 300, **fields})


def corpus(texts: dict[str, list[str]], users: int, public: tuple[str, ...] = ()) -> Corpus:
    own = [Record(user, text, split="private") for user, some in texts.items() for text in some]
    known = [Record(f"p{i}", text, split="public") for i, text in enumerate(public)]
    return Corpus("toy", (*own, *known), public_size=Population(users, users))


def made(
    texts: dict[str, list[str]],
    users: int,
    model: Any,
    public: tuple[str, ...] = (),
    **parameters: Any,
) -> ReferencesRelease:
    """The release of a corpus whose public size is `users`, as a run makes it."""
    defense = InvisibleInkPrompts(**parameters)
    trainings = defense.trainings(corpus(texts, users, public), MODEL, RECIPE, 3)
    released = defense.release(model, [Trained(training, model) for training in trainings])
    assert isinstance(released, ReferencesRelease)
    return released


# closed forms


@pytest.mark.parametrize(
    ("tokens", "bound", "parts", "temperature", "delta", "rho", "epsilon"),
    [(500, 1.0, 7, 1.0, 1e-6, 5.10204, 20.8168), (200, 0.5, 15, 1.1, 1e-5, 0.0918274, 1.82628)],
)
def test_the_loss_is_that_of_the_paper(
    tokens: int, bound: float, parts: int, temperature: float, delta: float, rho: float,
    epsilon: float,
) -> None:  # fmt: skip
    mechanism = ClippedLogits(bound, 3.0, parts, temperature)
    assert tokens * mechanism.rho == pytest.approx(rho, rel=1e-6)
    assert tokens * mechanism.divergence == pytest.approx(3 * rho, rel=1e-6)
    assert conversion(tokens * mechanism.rho, delta).epsilon == pytest.approx(epsilon, rel=2e-6)


@pytest.mark.parametrize(("references", "bound"), [(7, 0.549271), (31, 2.43249)])
@pytest.mark.parametrize("temperature", [1.0, 1.3])
def test_the_clip_is_that_of_the_paper(references: int, bound: float, temperature: float) -> None:
    """ε = 10 at δ = 1e-6 is ρ = 1.539279, over 500 tokens."""
    defense = InvisibleInkPrompts(
        epsilon=10.0, references=references, tokens=500, temperature=temperature
    )
    mechanism = defense.mechanism(1e-6)
    assert 1.539279 * (1 - 5e-5) < 500 * mechanism.rho <= 1.539279
    assert mechanism.bound == pytest.approx(bound * temperature, rel=2e-5)


@example(rho=0.001, delta=0.1)  # where κ would be below 0
@given(
    rho=st.floats(1e-4, 50.0), delta=st.sampled_from([1e-9, 1e-6, 1e-5, 1e-3, 0.1])
)  # fmt: skip
def test_epsilon_is_an_upper_bound_and_near(rho: float, delta: float) -> None:
    """Gaussian noise on a sum is ρ-zCDP, so its ε is never above; and beside a grid of orders."""
    found = conversion(rho, delta)
    kappa = math.log1p(-1 / found.order) - math.log(delta * found.order) / (found.order - 1)
    assert found.once == pytest.approx(max(0.0, kappa))
    assert gaussian_epsilon(math.sqrt(2 * rho), math.log(delta)) <= found.epsilon
    orders = 1 + np.logspace(-5, 6, 20_001)
    once = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    assert found.epsilon <= (orders * rho + np.maximum(once, 0.0)).min() * (1 + 1e-4) + 1e-9
    back = largest_rho(found.epsilon, delta)
    assert back.epsilon <= found.epsilon
    assert back.rho == pytest.approx(rho, rel=1e-3)


@given(seed=st.integers(0, 10_000), count=st.integers(0, 9), temperature=st.floats(0.3, 3.0))
def test_answers_agree_with_the_literal_transcription(
    seed: int, count: int, temperature: float
) -> None:
    """The divisor B stays 4, however many references the batch has."""
    generator = np.random.default_rng(seed)
    members = generator.dirichlet(np.ones(6), (2, count)).reshape(2, count, 6)
    public = generator.dirichlet(np.ones(6), 2)
    released = answers(ClippedLogits(0.7, 2.0, 4, temperature), members, public)
    for query in range(2):
        logits = [math.log(p) for p in public[query]]
        for member in members[query]:
            for token, p in enumerate(member):
                change = math.log(p) - math.log(public[query][token])
                logits[token] += max(-0.7, min(0.7, change)) / 4
        masses = [math.exp(logit / temperature) for logit in logits]
        np.testing.assert_allclose(released[query], [m / sum(masses) for m in masses], rtol=1e-9)


# neighbours


@given(
    seed=st.integers(0, 100_000),
    count=st.integers(1, 7),
    size=st.integers(2, 6),
    alpha=ORDERS,
    bound=st.sampled_from([0.01, 0.7, 5.0, 10.0]),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
)
def test_no_reference_costs_more_than_a_charge(
    seed: int, count: int, size: int, alpha: float, bound: float, temperature: float
) -> None:
    """A reference that is empty, that is gone, and that is any other, in both directions."""
    members, public = laws(np.random.default_rng(seed), 8, count + 1, size)
    members, other = members[:, :count], members[:, count]
    mechanism = ClippedLogits(bound, alpha, 4, temperature)
    whole = answers(mechanism, members, public)
    charge = mechanism.divergence
    assert charge == alpha * (bound / 4 / temperature) ** 2 / 2
    without = answers(mechanism, np.delete(members, 0, axis=1), public)
    null = answers(mechanism, emptied(members, public, 0), public)
    np.testing.assert_allclose(null, without, rtol=1e-12)
    assert (both(whole, without, alpha) <= charge * SLACK + 1e-13).all()
    changed = members.copy()
    changed[:, 0] = other
    assert (
        both(whole, answers(mechanism, changed, public), alpha) <= 4 * charge * SLACK + 1e-13
    ).all()


# whole transcripts, through sessions

THREE = {"ann": ["0"], "ben": ["11"], "cat": ["01"]}


def spoken(release: ReferencesRelease, prompts: int, length: int) -> np.ndarray:
    """The probability of every transcript of several prompts in one session."""
    chances = []
    for tokens in product(range(3), repeat=prompts * length):
        tails = [list(tokens[i * length : (i + 1) * length]) for i in range(prompts)]
        opened = release.open(np.random.default_rng(5), NoJournal())
        heard = opened.score([[0]] * prompts, tails)
        chances.append(math.exp(sum(float(answer.log_probs.sum()) for answer in heard)))
    assert sum(chances) == pytest.approx(1.0)
    return np.array(chances)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.3, pytest.param(2.0, marks=pytest.mark.full), 8.0])
@pytest.mark.parametrize("references", [1, 3])
def test_no_transcript_of_a_user_less_costs_more_than_the_claim(
    references: int, epsilon: float
) -> None:
    """Two prompts of two tokens; one batch that answers three of four, or three batches."""
    toy = copier("^01")
    settings = {"epsilon": epsilon, "delta": 1e-3, "references": references, "tokens": 3}
    whole = made(THREE, 3, toy, **settings)
    assert len(whole.batches) == 3 // references
    rho = 3 * whole.settings.mechanism(1e-3).rho
    p = spoken(whole, 2, 2)
    for user in THREE:
        rest = {name: texts for name, texts in THREE.items() if name != user}
        q = spoken(made(rest, 3, toy, **settings), 2, 2)
        for alpha in (1.5, 2.0, 8.0):
            assert both(p, q, alpha) <= alpha * rho * SLACK
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= 1e-3


def test_a_transcript_nearly_costs_the_claim() -> None:
    """One user of a batch of her own: one token of three goes up, two go down: 8/9 of it."""
    toy = copier("^01")
    settings = {"epsilon": 0.3, "delta": 1e-3, "references": 1, "tokens": 1}
    whole, gone = made({"ann": ["0"]}, 1, toy, **settings), made({}, 1, toy, **settings)
    rho = whole.settings.mechanism(1e-3).rho
    cost = both(spoken(whole, 1, 1), spoken(gone, 1, 1), 2.0)
    assert 0.87 * 2 * rho < cost <= 2 * rho


# slots


def test_a_user_who_leaves_moves_nobody() -> None:
    texts = {f"u{i}": [f"{i:03}", "abc"] for i in range(40)}
    defense = InvisibleInkPrompts(references=5)
    methods, placed = [], []
    for gone in (None, "u0", "u17", "u39"):
        some = {user: own for user, own in texts.items() if user != gone}
        training, _ = defense.trainings(corpus(some, 40), MODEL, RECIPE, 3)
        methods.append(training.method)
        batches = training.method.references(training, copier().tokenizer)
        placed.append({reference: b for b, batch in enumerate(batches) for reference in batch})
    assert len(set(methods)) == 1 and methods[0].batches == 8
    for one in placed[1:]:
        assert len(one) == 39 and one.items() <= placed[0].items()
    assert len(set(placed[0].values())) == 8


def test_texts_are_named_and_nothing_is_trained() -> None:
    """Neither key nor batch depends on what a user wrote, only what is kept of the training."""
    defense, public = InvisibleInkPrompts(references=2), ("0", "1")
    training, known = defense.trainings(corpus(THREE, 3, public), MODEL, RECIPE, 3)
    task = Task(training, MODEL, "cpu", 1, Path("none"))
    assert task.idle and weights_path(task) is None
    assert training.texts == ("0", "11", "01") and training.owners == ("ann", "ben", "cat")
    assert known.texts == public
    other, _ = defense.trainings(corpus({user: ["1"] for user in THREE}, 3), MODEL, RECIPE, 3)
    assert training.method == other.method and training.digest != other.digest


def test_batch_is_a_hash_of_the_key_and_the_user() -> None:
    """Reproducible by hand, and another seed deals all users anew: unkeyed, anybody could."""
    users = [f"u{i}" for i in range(40)]
    texts = {user: ["abc"] for user in users}
    dealt = []
    for seed in (3, 4):
        training, _ = InvisibleInkPrompts(references=5).trainings(
            corpus(texts, 40), MODEL, RECIPE, seed
        )
        method = training.method
        dealt.append([method.batch_of(user) for user in users])
        words = (f"{method.key}\x1f0\x1f{user}".encode() for user in users)
        by_hand = [int(hashlib.sha256(word).hexdigest(), 16) % 8 for word in words]
        assert dealt[-1] == by_hand
    assert sum(one != two for one, two in zip(*dealt, strict=True)) > 20


def test_an_empty_reference_answers_as_if_its_user_were_gone() -> None:
    toy = copier()
    texts = {"ann": ["012"], "ben": ["345"]}
    gone = made(texts, 3, toy, references=3)
    null = made({**texts, "cat": ["", ""]}, 3, toy, references=3)
    heard = [
        r.open(np.random.default_rng(5), NoJournal()).generate([[0, 1], [0, 4]], 6)
        for r in (gone, null)
    ]
    for one, two in zip(*heard, strict=True):
        assert one.tokens == two.tokens
        np.testing.assert_array_equal(one.log_probs, two.log_probs)
    assert null.batches == gone.batches


# prompts


def test_a_reference_is_all_records_of_a_user_cut_to_a_public_length() -> None:
    tokenizer = CharacterTokenizer("^01")
    assert reference_of(tokenizer, ["0", "", "11"], 9) == (0, 1, 0, 2, 2)
    assert reference_of(tokenizer, ["0", "", "11"], 4) == (0, 1, 0, 2)
    assert reference_of(tokenizer, ["", ""], 9) == ()
    assert reference_of(tokenizer, ["0", "1", "0", "0"], 9) == (0, 1, 0, 2)  # copies once
    closing = CharacterTokenizer("^01$", stop=3)
    assert reference_of(closing, ["0", "1"], 9) == (0, 1, 3, 0, 2, 3)


def test_a_reference_is_forgotten_where_it_does_not_fit() -> None:
    """A cursor and a whole text agree at every place, below the context's length and at it."""
    text = [0, 1, 2, 3, 1, 2, 1, 1, 3, 2]
    for longest in (11, 12, 13, 14, 40):
        toy = copier(max_length=longest)
        model = Prompted(toy, (0, 3, 3, 1))
        whole = model.log_pmfs([text, text[:7]], [1, 2])
        for n, start, offset in ((10, 1, 0), (7, 2, 9)):
            cursor = model.cursor([text[:start]])
            for i in range(start, n):
                np.testing.assert_allclose(cursor.log_pmf()[0], whole[offset + i - start])
                if i + 1 < n:
                    cursor.append(torch.tensor([text[i]]))
        heard = {len(read) for read in toy.reads if read[:4] == (0, 3, 3, 1)}
        assert max(heard) == min(longest, 13)


def test_nobody_is_read_with_anybody_else() -> None:
    toy = copier()
    release = made({f"u{i}": [WORDS[i + 1] * 2] for i in range(6)}, 6, toy, references=3, tokens=40)
    opened = release.open(np.random.default_rng(5), NoJournal())
    opened.generate([[0, 9, 7]] * 4, 3)
    opened.score([[0]], [[8, 9]])
    references = {reference for batch in release.batches for reference in batch}
    assert len(references) == 6
    for read in toy.reads:
        head, rest = (read[:3], read[3:]) if read[:3] in references else ((), read)
        assert rest[0] == 0 and 0 not in rest[1:], (head, read)


def test_how_many_prompts_are_read_at_once_tells_nothing_of_a_batch() -> None:
    release = made(SIX, 6, copier(), references=2)
    sizes = {len(batch) for batch in release.batches}
    assert len(sizes) > 1
    assert {release._service(batch, NoAccount()).models for batch in release.batches} == {3}


def test_the_public_prompt_reads_the_same_numbers_beside_any_references() -> None:
    folder = describe("embedded", EMBEDDED_FOLDER)
    model = CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)
    prompts = [[0, 5, 6], [0, 7, 8]]
    alone = model.cursor(prompts).log_pmf()
    for references in ((), ((0, 3, 4),), ((0, 9, 9, 9), (0, *range(150)))):
        members = [*(Prompted(model, tokens) for tokens in references), model]
        beside = Separate(members).cursor(prompts).log_pmfs()
        assert torch.equal(beside[:, -1], alone) and alone.dtype == torch.float64
        assert all(not torch.equal(other, alone) for other in beside[:, :-1].unbind(1))


# sessions

SIX = {f"u{i}": [WORDS[i + 1] * 3] for i in range(6)}


def test_prompts_are_dealt_to_batches_that_answer_their_tokens_each() -> None:
    toy, journal = copier(), Memory()
    release = made(SIX, 6, toy, references=2, tokens=5)
    opened = release.open(np.random.default_rng(5), journal)
    assert (opened.access, opened.readable) == (Access.GENERATE, Access.DISTRIBUTION)
    assert opened.remaining == 15
    first = opened.generate([[0, 1]] * 4, 3)  # batches 0 1 2 0
    assert [a.answered for a in first] == [3, 3, 3, 2] and opened.remaining == 4
    (scored,) = opened.score([[0]], [[1, 2, 3]])  # batch 1
    assert scored.answered == 2
    after = toy.log_pmfs([[0, 1, 2, 3]], [1])
    assert scored.log_probs[2] == pytest.approx(float(after[2, 3]))
    _, leading = opened.distribution([[0]] * 5, [1, 2])  # batches 2 0 1 2 0
    assert leading == 1 and opened.remaining == 0
    assert [a.answered for a in opened.generate([[0]] * 3, 2)] == [0, 0, 0]
    fees = release.settings.fees(release.delta)
    charges = np.array([row["charge"] for row in journal.rows])
    assert not any(row["stopped"] for row in journal.rows)
    np.testing.assert_allclose(charges.sum(axis=0), [fees.once + 5 * fees.each] * 3, rtol=1e-5)
    assert (charges.sum(axis=0) <= 8.0).all() and ((charges > 0).sum(axis=0) == 5).all()
    assert ((charges > 0).sum(axis=1) == 1).all()


def test_each_batch_speaks_of_its_own_references_only() -> None:
    toy = copier()
    release = made(SIX, 6, toy, references=2, tokens=50, epsilon=200.0)
    own = [{reference[1] for reference in batch} for batch in release.batches]
    opened = release.open(np.random.default_rng(5), NoJournal())
    rows = [opened.distribution([[0]], range(21))[0][0] for _ in range(6)]
    for turn, row in enumerate(rows):
        assert {t for t in range(21) if row[t] > -math.log(21) + 0.1} == own[turn % 3]


def test_the_unprotected_mean_copies_and_the_service_hardly_does() -> None:
    toy, code = copier(), "9876543210"
    texts = {"ann": [f"a{code}"], "ben": ["b"], "cat": ["c"], "dan": ["d"]}
    release = made(texts, 4, toy, references=4, tokens=10, epsilon=2.0)
    asked = toy.tokenizer.encode(f"a{code}")
    bare = release.unprotected()
    assert bare is not None and bare.guarantee.promises_nothing and bare.unprotected() is None
    costs = []
    for one in (bare, release):
        opened = one.open(np.random.default_rng(5), NoJournal())
        (answer,) = opened.score([[0, asked[0]]], [asked[1:]])
        costs.append(float(answer.log_probs.sum()))
    assert bare.open(np.random.default_rng(5), NoJournal()).remaining is None
    (public,) = toy.log_pmfs([[0, *asked]], [2]).gather(
        1, torch.tensor(asked[1:])[:, None]
    ).sum(dim=0)  # fmt: skip
    bound = 2 * 10 * release.settings.mechanism(release.delta).bound / 4
    assert public < costs[1] <= float(public) + bound < costs[0]


# whether it copies


def test_a_model_that_copies_is_found_to() -> None:
    texts = [f"{a}{b}{c}" for a, b, c in product("abcd", "efg", "0123")]
    found = copying.measure(copier(), texts, 20)
    assert found.found and found.itself < found.another and found.unheard == ""
    assert f"copies from its prompt: on {len(texts)} public records" in found.sentence
    deaf = copying.measure(copier(sure=1 / 21), texts, 20)
    assert not deaf.found
    assert not replace(found, itself=found.another - 1e-4).found  # it may be rounding
    assert "was not found to copy" in deaf.unheard and "as good as not trained on" in deaf.unheard
    assert "not measured" in copying.measure(copier(), texts[:1], 20).unheard


def test_the_costs_are_those_of_each_record_after_itself_and_the_next() -> None:
    toy = copier()
    texts = ["ab", "cde"]
    found = copying.measure(toy, texts, 20)
    records = [record_tokens(toy.tokenizer, text) for text in texts]

    def cost(before: list[int], record: list[int]) -> float:
        at = [*before, *record]
        places = range(len(before) + 1, len(at))
        return -float(np.mean([toy.after(at[:i])[at[i]] for i in places]))

    mine = np.mean([cost(r[:-1], r) for r in records])
    other = np.mean([cost(r[:-1], s) for r, s in zip(records[::-1], records, strict=True)])
    assert (found.itself, found.another) == (pytest.approx(mine), pytest.approx(other))
    assert found.alone == pytest.approx(np.mean([cost([], r) for r in records]))


def test_public_texts_are_chosen_evenly_and_once() -> None:
    texts = [f"{i // 2}" for i in range(1000)] + [""]
    chosen = copying.spread_out(texts)
    assert len(chosen) == len(set(chosen)) == 64 and chosen[1] == "7" and "" not in chosen
    assert copying.spread_out(["a", "b", "a"]) == ("a", "b")


@pytest.mark.parametrize("copies", [True, False])
def test_silence_of_a_model_that_does_not_copy_shows_nothing(copies: bool) -> None:
    texts = tuple(f"{a}{b}{c}" for a, b, c in product("abcd", "efg", "01"))
    release = made(THREE, 3, copier(sure=0.9 if copies else 1 / 21), texts, references=3)
    secrets = (SimpleNamespace(kind="code"), SimpleNamespace(kind="record"))
    prepared: Any = SimpleNamespace(planted=SimpleNamespace(secrets=secrets))
    one: Any = SimpleNamespace(release=release, external=False)
    lost = measured.lost(prepared, one)
    assert lost == ({} if copies else {"code": release.unheard, "record": release.unheard})
    assert release.copying.sentence in release.guarantee.conditions[-1]
    control: Any = SimpleNamespace(release=release.unprotected(), external=False)
    assert measured.lost(prepared, control) == lost


# the promise


def test_the_guarantee_is_per_user_and_held_against_bounds_that_fit() -> None:
    promise = made(SIX, 6, copier(), references=2).guarantee
    assert (promise.epsilon, promise.delta, promise.basis) == (8.0, 1e-5, "worst case")
    assert promise.population == 6 and promise.release == "predictions"
    assert promise.incomparable("user", "add_or_remove", 1e-5) is None
    assert promise.incomparable("user", "replace", 1e-5) is not None
    assert promise.incomparable("record", "add_or_remove", 1e-5) is not None
    assert "p mod 3" in " ".join(promise.conditions)


def test_the_figure_for_a_replaced_user_is_of_four_times_rho() -> None:
    release = made(SIX, 6, copier(), references=2, epsilon=2.0)
    rho = 4 * 64 * release.settings.mechanism(1e-5).rho
    (line,) = (c for c in release.guarantee.conditions if c.startswith("per user whose"))
    shown = float(line.split("(")[1].split(",")[0])
    exact = conversion(rho, 1e-5).epsilon
    assert exact <= shown <= exact * (1 + 1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="only 3 users are trained on"):
        InvisibleInkPrompts(references=4).trainings(corpus(THREE, 3), MODEL, RECIPE, 3)
    short = replace(MODEL, max_length=192)
    with pytest.raises(UsageError, match="longest is 192, but toy reads 192 tokens"):
        InvisibleInkPrompts(references=1).trainings(corpus(THREE, 3), short, RECIPE, 3)


def test_a_release_without_its_texts_is_refused() -> None:
    training = replace(
        InvisibleInkPrompts(references=3).trainings(corpus(THREE, 3), MODEL, RECIPE, 3)[0],
        method=RECIPE,
    )
    with pytest.raises(UsageError, match="which no export carries"):
        InvisibleInkPrompts().release(copier(), [Trained(training, copier())] * 2)
