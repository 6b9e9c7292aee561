"""What every service that answers queries owes: charges, STOP, replay, neighbours, controls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.contract.toys import Memory
from audit.core.ensemble import Selected, Separate
from audit.core.errors import UsageError
from audit.core.language_model import temper
from audit.core.law import Lawful
from audit.core.predictor import Access
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.measure.neighbours import neighbours
from audit.models.causal import CausalLM
from defenses.ensembles import Constant
from defenses.ensembles import session as sessions
from defenses.ensembles.session import EnsembleSession
from tests.defenses.hostile_pmfs import both
from tests.defenses.services import (
    BUDGET,
    CASES,
    ENSEMBLES,
    MODEL,
    PROMPTS,
    RECIPE,
    STRANGER,
    VARIANTS,
    Case,
    K,
    case_of,
    conversation,
    corpus,
    in_threes,
    plain,
    session,
)

OF_PARTS = [name for name in CASES if name != PROMPTS]
BY_NAME = [*ENSEMBLES, STRANGER]  # those that differ by more than settings


@pytest.fixture
def service(
    request: pytest.FixtureRequest,
    blocks: Callable[[str, str], list[str]],
    module: Callable[[str], ModuleType],
) -> Case:
    return case_of(request.param, lambda: module(blocks("adding-a-defense", "python")[1]).Ballot)


def each(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("service", names, indirect=True)


def charges(journal: Memory) -> np.ndarray:
    """What admitted queries were charged, (queries, parts), nats."""
    return np.array([row["charge"] for row in journal.rows if not row["stopped"]])


def test_folder_lists_the_services() -> None:
    assert set(ENSEMBLES) == {
        "capped_submix", "gnmax", "invisible_ink", "pmixed", "submix", "subsample_aggregate",
    }  # fmt: skip


# parameters and trainings


@each([*BY_NAME, PROMPTS])
def test_impossible_parameters_are_refused_by_name(service: Case) -> None:
    bad: dict[str, list[Any]] = {
        "epsilon": [0.0, -1.0, math.nan, math.inf],
        "alpha": [1.0, math.inf, math.nan],
        "k": [1],
        "budget": [0],
        "train": ["top", "top:x", "some", "bottom:1"],
        "source": ["dice"],
    }
    if STRANGER in str(service.cls) or service.cls.__name__ == "Ballot":
        bad.pop("train")  # its page leaves the rule to the trainings
    fields = service.cls.__dataclass_fields__
    for name, values in bad.items():
        for value in values if name in fields else ():
            with pytest.raises(UsageError, match=f"{name} is"):
                service.cls(**{name: value})


@each(BY_NAME)
def test_all_records_of_a_user_train_one_part(service: Case) -> None:
    for users in (6, 23):
        trainings = service.defense(k=3).trainings(corpus(users, 1), MODEL, RECIPE, seed=4)
        assert len({t.seed for t in trainings}) == len(trainings)
        assert sum(len(t.texts) for t in trainings) == users
        twice = service.defense(k=3).trainings(corpus(users), MODEL, RECIPE, seed=4)
        for one, two in zip(trainings, twice, strict=True):
            assert {*one.texts} == {text[:2] for text in two.texts}
            assert len(two.texts) == 2 * len(one.texts)


@each(BY_NAME)
def test_members_train_the_layers_they_are_told_to(service: Case) -> None:
    def layers(train: str, recipe: Any = RECIPE) -> set[Any]:
        made = service.defense(k=3, train=train).trainings(corpus(9), MODEL, recipe, seed=0)
        return {t.method for t in made}

    own = replace(RECIPE, layers="top:1")  # the plan's own restriction
    assert layers("all") == {RECIPE} and layers("all", own) == {own}
    assert layers("top:2", own) == {replace(RECIPE, layers="top:2")}
    for train, blocks in (("top:3", 2), ("top:0", 2), ("top:1", 0)):
        defense, model = service.defense(k=3, train=train), replace(MODEL, blocks=blocks)
        with pytest.raises(UsageError, match=f"train={train}, but toy has {blocks} blocks"):
            defense.trainings(corpus(9), model, RECIPE, seed=0)


def test_even_parts_are_shared_and_refuse_too_few_users() -> None:
    cases = {name: case_of(name, lambda: None) for name in ENSEMBLES}
    made = {n: c.defense(k=3).trainings(corpus(11), MODEL, RECIPE, 4) for n, c in cases.items()}
    groups: dict[tuple[str, ...], set[str]] = {}
    for name, trainings in made.items():
        groups.setdefault(tuple(t.digest for t in trainings), set()).add(name)
    assert sorted(map(sorted, groups.values())) == [
        ["capped_submix", "invisible_ink"], ["gnmax", "pmixed", "subsample_aggregate"], ["submix"],
    ]  # fmt: skip
    pairs = [set(t.texts) for t in made["submix"]]
    assert [set(t.texts) for t in made["gnmax"]] == [pairs[i] | pairs[i + 1] for i in (0, 2, 4)]
    for name in ("gnmax", "pmixed", "subsample_aggregate", "submix"):
        with pytest.raises(UsageError, match=f"{name}: k is 4, but only 3 users"):
            cases[name].defense(k=4).trainings(corpus(3), MODEL, RECIPE, 0)


# charges and STOP


@each(CASES)
def test_answers_are_charged_first_and_never_beyond_epsilon(service: Case) -> None:
    """All B queries are answered, or a charge is missing an account."""
    made, journal = service.release(), Memory()
    opened = session(made, journal)
    assert opened.remaining == BUDGET
    _, answered = conversation(opened)
    assert opened.remaining == 0
    charged, (*_, last) = charges(journal), journal.rows
    epsilon = made.guarantee.epsilon
    assert len(charged) == answered > 0 and (charged >= 0).all()
    assert (charged.sum(axis=0) <= epsilon).all()
    assert [row["query"] for row in journal.rows] == list(range(len(journal.rows)))
    if made.guarantee.basis == "worst case":
        assert answered == BUDGET
    elif answered < BUDGET:
        assert last["stopped"] and (charged.sum(axis=0) + last["charge"]).max() >= epsilon
    assert session(made).remaining == BUDGET  # a new session is full again


@each(CASES)
def test_charges_are_written_when_an_answer_arrives(service: Case) -> None:
    made = service.release(**service.paying(50.0))
    readings: list[Callable[[Any], int]] = [
        lambda opened: sum(a.answered for a in opened.generate([[0], [0, 2]], 2)),
        lambda opened: sum(a.answered for a in opened.generate([[0, 2]], 3)),
        lambda opened: sum(a.answered for a in opened.score([[0]], [[1, 2]])),
        lambda opened: int(opened.distribution([[0], [0, 1]], [1])[1]),
        lambda opened: len(opened.laws([[0]], [[1, 2]]).log_pmfs),
    ]
    for ask in readings if service.of_parts else readings[:-1]:
        journal = Memory()
        assert ask(session(made, journal)) == len(charges(journal)) > 0


@each(CASES)
def test_constant_charges_spend_epsilon_in_budget_queries(service: Case) -> None:
    if service.of_parts and not isinstance(service.release().account, Constant):
        pytest.skip("charges by data")
    for epsilon, budget in ((2.0, 1024), (1.0, 10), (0.1, 3), (7.3, 129)):
        made, journal = service.release(budget=budget, **service.paying(epsilon)), Memory()
        answers = session(made, journal).generate([[0]] * (budget + 2), 1)
        assert [a.answered for a in answers] == [1] * budget + [0, 0]
        claimed, charged = made.guarantee.epsilon, charges(journal)
        spent = charged.sum(axis=0)
        assert (0.9997 * claimed < spent).all() and (spent <= claimed).all()
        assert len(np.unique(charged[1:])) == 1
        if service.of_parts:
            assert made.mechanism.divergence <= made.account.charge == charged[0, 0]
            local = [c for row in journal.rows for c in row.get("local", ())]
            assert all(0 < c <= made.account.charge for c in local)


def public_rows(made: Any, contexts: list[list[int]]) -> np.ndarray:
    after = [[*context, 0] for context in contexts]
    rows = torch.stack([made.public.log_pmfs([t], [len(t) - 1])[0] for t in after])
    return temper(rows, getattr(getattr(made, "mechanism", None), "temperature", 1.0)).numpy()


@each(CASES)
def test_public_model_answers_after_stop(service: Case) -> None:
    made, journal = service.release(budget=5, **service.paying(50.0)), Memory()
    opened, every = session(made, journal), range(made.public.vocabulary)
    before, answered = opened.distribution([[0, 3]] * 8, every)
    public = public_rows(made, [[0, 3]])[0]
    assert 0 < answered <= 5 and not np.allclose(before[answered - 1], public)
    np.testing.assert_allclose(before[answered:], [public] * (8 - answered))
    (said,) = opened.generate([[0]], 4)
    contexts = [[0, *said.tokens[:i]] for i in range(4)]
    expected = public_rows(made, contexts)
    np.testing.assert_allclose(said.log_probs, expected[range(4), said.tokens])
    (scored,) = opened.score([[0]], [said.tokens])
    np.testing.assert_allclose(scored.log_probs, said.log_probs)
    assert said.answered == scored.answered == opened.remaining == 0
    assert not isinstance(opened, Lawful) or len(opened.laws([[0]], [[1, 2]]).log_pmfs) == 0
    assert len(journal.rows) <= answered + 1
    stated = session(made)
    assert not isinstance(stated, Lawful) or len(stated.laws([[0]], [[3] * 8]).log_pmfs) <= 5


# batches, replay and draws


@pytest.mark.parametrize(
    "reading",
    [
        {(EnsembleSession, "at_once"): 1},
        {(EnsembleSession, "at_once"): 3},
        {(Separate, "is_parted"): True, (Separate, "in_parts"): in_threes},
    ],
    ids=["1", "3", "many, of which three are held"],
)
@each(CASES)
def test_batch_size_changes_no_answer_and_account(
    service: Case, monkeypatch: pytest.MonkeyPatch, reading: dict[tuple[Any, str], Any]
) -> None:
    made, journal, other = service.release(), Memory(), Memory()
    whole, answered = conversation(session(made, journal))
    for (holder, name), value in reading.items():
        monkeypatch.setattr(holder, name, value)
    parted, again = conversation(session(made, other))
    for one, same in zip(whole, parted, strict=True):
        exact = 3 if isinstance(one, tuple) else 0  # tokens, answered, top1
        assert one[:exact] == same[:exact]
        np.testing.assert_allclose(one[exact:], same[exact:])
    assert answered == again
    keys = ("query", "asked", "stopped")
    rows = [[[row[key] for key in keys] for row in each.rows] for each in (journal, other)]
    assert rows[0] == rows[1]
    np.testing.assert_allclose(charges(journal), charges(other), rtol=1e-5)


@each(CASES)
def test_killed_session_replays_its_answers_uncharged(service: Case) -> None:
    made, whole = service.release(), Memory()
    expected = conversation(session(made, whole))
    for kept in (0, 17, 200):
        torn = Memory(whole.rows[:kept])
        assert conversation(session(made, torn)) == expected, kept
        assert torn.rows == whole.rows


@each(CASES)
def test_other_question_after_kill_pays_for_both(service: Case) -> None:
    made, journal = service.release(), Memory()
    session(made, journal).generate([[0]] * 3, 3)
    before, rows = charges(journal), list(journal.rows)
    opened = session(made, journal)
    answers = opened.generate([[0, 2]] * 20, 3)
    assert journal.rows[: len(rows)] == rows
    after = charges(journal)
    assert (after[: len(before)] == before).all()
    # a batch's account is charged its fixed fee by each process
    most = made.guarantee.epsilon if service.of_parts else made.settings.fees(made.delta).total
    assert (after.sum(axis=0) <= most).all()
    assert len(after) == len(before) + sum(a.answered for a in answers) <= BUDGET
    assert opened.remaining == 0


@each(CASES)
def test_other_question_after_kill_draws_other_numbers(
    service: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two answers from one number would show both distributions at the price of none."""
    seeds: list[list[bytes]] = []
    uniforms = sessions.uniforms

    def spied(some: Any) -> Any:
        seeds[-1].extend(some)
        return uniforms(some)

    monkeypatch.setattr(sessions, "uniforms", spied)
    made = service.release(**service.paying(50.0))
    for prompt, times in (([0, 1], 1), ([0, 1], 1), ([0, 2], 1), ([0, 1], 3), ([0, 2], 3)):
        seeds.append([])
        session(made).generate([prompt] * times, 2)
    first, again, other, many, others = seeds
    assert first == again and set(first) < set(many) and len(set(many)) == 6
    assert {len(seed) for seed in many} == {32}
    assert set(first).isdisjoint(other) and set(many).isdisjoint(others)


@each(CASES)
def test_system_entropy_hides_draws_from_the_seed(service: Case) -> None:
    made = service.release(source="system", budget=400, **service.paying(5e3))

    def tokens(journal: Any) -> list[tuple[int, ...]]:
        return [answer.tokens for answer in session(made, journal).generate([[0, 1, 2]] * 30, 3)]

    assert tokens(Memory()) == tokens(Memory())  # the folder's own key: a replay repeats itself
    assert tokens(Memory()) != tokens(Memory(key=b"another folder's"))
    assert tokens(NoJournal()) != tokens(NoJournal())
    assert "operating system" in " ".join(made.guarantee.conditions)
    assert "seed" in " ".join(service.release().guarantee.conditions)


# readings


@each(CASES)
def test_all_readings_agree_and_charge_alike(service: Case) -> None:
    made = service.release()
    journals = [Memory() for _ in range(4)]
    drawn, scored, read, stated = (session(made, journal) for journal in journals)
    prompts = [[0], [0, 2], [0, 3, 1], [0]] * 2
    answers = drawn.generate(prompts, 3)
    tails = [answer.tokens for answer in answers]
    assert plain(scored.score(prompts, tails)) == [
        (*one[:3], *(pytest.approx(x, rel=1e-9) for x in one[3:])) for one in plain(answers)
    ]
    contexts = [[*p, *t[:i]] for p, t in zip(prompts, tails, strict=True) for i in range(3)]
    rows, answered = read.distribution(contexts, range(made.public.vocabulary))
    assert answered == sum(a.answered for a in answers)
    flat = [token for tail in tails for token in tail]
    log_probs = np.concatenate([answer.log_probs for answer in answers])
    np.testing.assert_allclose(rows[range(24), flat], log_probs, rtol=1e-9)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0)
    if isinstance(stated, Lawful):
        law = stated.laws(prompts, tails)
        assert len(law.log_pmfs) == answered
        if law.noise is None:
            np.testing.assert_allclose(law.log_pmfs, rows[:answered], rtol=1e-9)
    for journal in journals[1 : 3 + isinstance(stated, Lawful)]:
        np.testing.assert_allclose(charges(journal), charges(journals[0]), rtol=1e-5)


@each([name for name in CASES if name != "subsample_aggregate"])
def test_tokens_are_drawn_with_the_probabilities_read(service: Case) -> None:
    """χ² of 500 draws. Where noise is drawn with the token, no two queries have one law."""
    made = service.release(budget=10_000, **service.paying(1e4))
    law = np.exp(session(made).distribution([[0, 3]], range(made.public.vocabulary))[0][0])
    answers = session(made).generate([[0, 3]] * 500, 1)
    drawn = [answer.tokens[0] for answer in answers if answer.answered]
    counts, expected = np.bincount(drawn, minlength=len(law)), len(drawn) * law
    statistic, degrees = ((counts - expected) ** 2 / expected).sum(), len(law) - 1
    assert len(drawn) == 500 and statistic < degrees + 4 * math.sqrt(2 * degrees) + 4  # 99.9 %


@each(CASES)
def test_session_declares_what_it_gives(service: Case) -> None:
    opened = session(service.release())
    noised = service.cls.__name__ == "SubsampleAggregate"
    assert opened.access is (Access.DISTRIBUTION if noised else Access.GENERATE)
    assert opened.readable is Access.DISTRIBUTION


@each(OF_PARTS)
def test_broken_member_counts_as_a_uniform_one(service: Case) -> None:
    made = service.release()

    def answers(table: float) -> Any:
        broken = replace(made.members[0], log_table=np.full((6, 6), table))
        changed = replace(made, members=(broken, *made.members[1:]))
        return plain(session(changed).score([[0]] * 4, [[1, 2, 3]] * 4))

    assert answers(math.nan) == answers(-math.inf) == answers(-math.log(6))
    assert np.isfinite([a[3:] for a in answers(math.nan)]).all()


# neighbours and controls


@each(OF_PARTS)
def test_neighbour_lacks_one_part_and_nothing_else(service: Case) -> None:
    made = service.release()
    emptied = made.guarantee.relation == "emptied"
    parts = [made.members[i : i + made.each] for i in range(0, len(made.members), made.each)]
    assert len(parts) == K
    for part in range(K):
        without = [*parts[:part], *([(made.public,)] if emptied else []), *parts[part + 1 :]]
        expected = replace(made, members=tuple(model for one in without for model in one))
        assert made.neighbour(part) == expected
        other = [*parts[:part], parts[(part + 1) % K], *parts[part + 1 :]]
        replaced = replace(made, members=tuple(model for one in other for model in one))
        assert made.replaced(part) == replaced
    for make in (made.neighbour, made.replaced):
        for outside in (-1, K):
            with pytest.raises(IndexError):
                make(outside)
    assert emptied or service.release(k=2).neighbour(0).neighbour(0) is None


@each(OF_PARTS)
def test_neighbours_differ_by_at_most_the_charge(service: Case) -> None:
    """Exactly, query by query, in both directions; some query nearly costs what it is charged."""
    made, journal = service.release(spread=6.0), Memory()
    heads, tails = [[0], [0, 1], [0, 4]], [[1, 2, 3, 4, 5, 0, 2], [3, 3, 3], [5, 1, 0]]
    law = session(made, journal).laws(heads, tails)
    if law.noise is not None:
        pytest.skip("tests/defenses/test_subsample_aggregate.py integrates the noise")
    charged, alpha = charges(journal), made.guarantee.alpha
    others = neighbours(made, 0, "test")
    assert [other.unit for other in others][:K] == list(range(K))
    shares = []
    for other in others:
        its = other.predictor.laws(heads, tails).log_pmfs[: len(law.log_pmfs)]
        cost = both(np.exp(law.log_pmfs[: len(its)]), np.exp(its), alpha)
        paid = charged[: len(its), other.unit]
        assert (cost <= paid * (1 + 1e-6) + 1e-10).all()
        shares.append((cost[paid > 0] / paid[paid > 0]).max(initial=0.0))
    assert max(shares) > 0.01


@each(BY_NAME)
def test_neighbour_is_computed_from_numbers_of_the_release(service: Case) -> None:
    """Models that are read together differ in last digits: a near tie would look like a leak."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=31, n_positions=32, n_embd=24, n_layer=2, n_head=2)
    tokenizer: Any = SimpleNamespace(start=0, stop=0)
    models: list[Any] = [GPT2LMHeadModel(config).eval() for _ in range(7)]
    public, *members = (CausalLM(model, tokenizer, 32) for model in models)
    trainings = service.defense(k=3).trainings(corpus(6), MODEL, RECIPE, 3)
    pairs = zip(trainings, members, strict=False)
    made = service.defense(k=3).release(public, [Trained(*pair) for pair in pairs])
    texts, starts = [[0, 5, 7, 9, 30, 2], [0, 3, 3]], [1, 2]
    whole = made.ensemble.log_pmfs(texts, starts)
    last, per = whole.shape[1] - 1, made.each
    for part in range(3):
        gone = range(part * per, (part + 1) * per)
        columns = [i for i in range(last + 1) if i not in gone]
        if made.guarantee.relation == "emptied":
            columns.insert(part, last)
        other = made.neighbour(part)
        assert isinstance(other.ensemble, Selected) and other.ensemble.inner is made.ensemble
        assert torch.equal(other.ensemble.log_pmfs(texts, starts), whole[:, columns])
        cursors = [one.ensemble.cursor([[0, 5], [0, 3]]) for one in (other, made)]
        for _ in range(2):
            assert torch.equal(cursors[0].log_pmfs(), cursors[1].log_pmfs()[:, columns])
            for cursor in cursors:
                cursor.append(torch.tensor([4, 8]))
        assert session(other)._sizes == session(made)._sizes


@each(OF_PARTS)
def test_unprotected_is_the_plain_mean(service: Case) -> None:
    made = service.release()
    bare = made.unprotected()
    assert bare.guarantee.promises_nothing and bare.unprotected() is None
    text = [[0, 1, 2]]
    expected = torch.stack([m.log_pmfs(text, [1]) for m in made.members]).exp().mean(dim=0)
    np.testing.assert_allclose(bare.model.log_pmfs(text, [1]).exp().numpy(), expected.numpy())
    opened = session(bare)
    assert (opened.access, opened.readable) == (Access.SCORE, Access.SCORE)


# the promise


@each(OF_PARTS)
def test_guarantee_is_of_predictions_per_part(service: Case) -> None:
    given = service.paying(3.0)
    promise = service.release(**given).guarantee
    assert promise.epsilon == pytest.approx(3.0) if given else promise.epsilon > 0
    assert (promise.alpha, promise.delta) == (service.settings.get("alpha", 2.0), None)
    assert (promise.unit, promise.release) == ("part", "predictions")
    assert promise.basis == service.release().account.basis
    told = " ".join(promise.conditions)
    assert f"the ε of several sessions add up ({BUDGET} queries each)" in told


def test_account_above_epsilon_is_no_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    defense = case_of("pmixed", lambda: None).defense(epsilon=1.0)
    above = property(lambda own: Constant(1.1 / BUDGET, BUDGET))
    monkeypatch.setattr(type(defense), "account", above)
    with pytest.raises(ValueError, match="above ε = 1"):
        defense.guarantee  # noqa: B018


def test_variants_are_of_listed_services() -> None:
    assert {name for name, _ in VARIANTS.values()} <= set(ENSEMBLES)
