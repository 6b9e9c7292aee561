"""SeqPATE: who teaches whom, the noise asked for, the promise, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from audit.accounting import claimed_mechanism, curve_of, described, recompute
from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.training import Trained
from audit.models.seqpate.pseudo_data import PublicPrefixes
from audit.models.seqpate.student import Distillation
from audit.policies.digits import Digits
from defenses.seqpate import SeqPATE
from defenses.training.partition import histogram, partition
from defenses.training.teacher_answers import epsilon_of, scale_for
from tests.defenses.services import MODEL, RECIPE
from tests.defenses.test_private import gaussian_epsilon
from tests.refusals import refusals

LSTM = replace(MODEL, name="lstm", kind="lstm", blocks=0)
PUBLIC = tuple(Record(f"p{i}", f"a public text number {i}", split="public") for i in range(5))


def private(users: int, records: int = 3) -> list[Record]:
    return [
        Record(f"u{i}", f"{i} wrote {j}", split="private")
        for i in range(users)
        for j in range(records)
    ]


def corpus(users: int = 40, *more: Record) -> Corpus:
    return Corpus("toy", (*private(users), *PUBLIC, *more))


def student(defense: Any, texts: Corpus | None = None, seed: int = 0) -> Any:
    (training,) = defense.trainings(texts or corpus(), MODEL, RECIPE, seed)
    return training


def promise(defense: Any, texts: Corpus | None = None) -> Guarantee:
    release = defense.release(None, [Trained(student(defense, texts), None)])
    return release.guarantee  # type: ignore[no-any-return]


@pytest.mark.parametrize(("sigma", "queries"), [(10.0, 50), (33.0, 500), (200.0, 2000)])
@pytest.mark.parametrize("spread", [1, 2])
def test_epsilon_is_the_closed_form(sigma: float, queries: int, spread: int) -> None:
    defense = SeqPATE(epsilon=None, sigma=sigma, queries=queries, spread=spread, delta=1e-6)
    guarantee = promise(defense)
    mu = math.sqrt(2 * queries) * spread / sigma
    assert guarantee.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-6)
    assert guarantee.accounting is not None
    assert recompute(guarantee.accounting) == guarantee.epsilon
    assert (guarantee.unit, guarantee.relation, guarantee.also) == (
        *("user", "add_or_remove"),
        ("replace",),
    )
    for relation in ("add_or_remove", "replace"):
        mechanism = claimed_mechanism(guarantee, "user", relation)
        assert not isinstance(mechanism, str)
        assert mechanism.mu == pytest.approx(mu)
        assert described(mechanism) == f"Gaussian noise, μ = {mu:.4g}"
        assert curve_of(mechanism).advantage == pytest.approx(2 * norm.cdf(mu / 2) - 1)


@pytest.mark.parametrize("target", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("spread", [1, 3])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_sigma_is_the_least_that_keeps_the_target(target: float, spread: int, noise: str) -> None:
    scale = scale_for(noise, target, 300, 1e-5, spread)
    assert target * (1 - 1e-3) <= epsilon_of(noise, scale, 300, 1e-5, spread) <= target
    assert epsilon_of(noise, scale * 0.99, 300, 1e-5, spread) > target


def test_phrases_are_not_linear_in_their_teachers() -> None:
    """METHODS: nine teachers at ε = 2.85 each are 41.2, not 25.64."""
    scale = scale_for("gaussian", 2.85, 1000, 1e-6, 1)
    assert epsilon_of("gaussian", scale, 1000, 1e-6, 9) == pytest.approx(41.2, abs=0.05)
    assert epsilon_of("gaussian", scale, 1000, 1e-6, 0) == 0.0


@given(st.data())
def test_changing_one_user_moves_a_sum_by_no_more_than_the_sensitivity(data: Any) -> None:
    """Any teachers, any other answers of those that hear the user."""
    spread = data.draw(st.integers(1, 3))
    teachers = data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    concentration = data.draw(st.sampled_from([0.01, 0.3, 10.0]))
    before = rng.dirichlet(np.full(8, concentration), teachers)
    records = [Record("u", f"{i}", split="private") for i in range(data.draw(st.integers(1, 5)))]
    heard = set(partition(records, teachers, spread, data.draw(st.integers(0, 99))))
    after = before.copy()
    for m in heard:
        after[m] = rng.dirichlet(np.full(8, concentration))
    moved = after.sum(axis=0) - before.sum(axis=0)
    assert len(heard) <= spread
    assert np.linalg.norm(moved) <= math.sqrt(2) * spread + 1e-9
    assert np.abs(moved).sum() <= 2 * spread + 1e-9


@pytest.mark.parametrize("spread", [1, 2])
def test_neither_users_nor_later_records_move_other_records(spread: int) -> None:
    records = private(30, records=6)
    whole = dict(zip(records, partition(records, 7, spread, 5), strict=True))
    kept = [[r for r in records if r.user != f"u{left}"] for left in range(0, 30, 7)]
    kept.append([r for r in records if int(r.text[-1]) < 3])
    for rest in kept:
        placed = dict(zip(rest, partition(rest, 7, spread, 5), strict=True))
        assert placed == {r: whole[r] for r in rest}
    counted = histogram((record.user, m) for record, m in whole.items())
    assert sum(counted.values()) == 30 and max(counted) <= spread


def test_users_fall_evenly_and_by_the_key() -> None:
    records = private(3000, records=1)
    placed = Counter(partition(records, 10, 1, 5))
    assert len(placed) == 10 and min(placed.values()) > 230 and max(placed.values()) < 370
    assert partition(records, 10, 1, 5) != partition(records, 10, 1, 6)


def test_teachers_hold_all_private_texts_once_and_the_student_none() -> None:
    training = student(SeqPATE(teachers=7))
    assert training.texts == tuple(r.text for r in PUBLIC)
    assert len(training.teachers) == 7
    held = [text for teacher in training.teachers for text in teacher.texts]
    assert sorted(held) == sorted(r.text for r in corpus().of("private"))
    for teacher in training.teachers:
        for other in training.teachers:
            assert teacher is other or not set(teacher.owners) & set(other.owners)


def test_the_auditor_learns_how_many_teachers_hear_a_user() -> None:
    assert promise(SeqPATE()).teachers_per_user == {1: 40}
    spread = promise(SeqPATE(teachers=20, spread=3)).teachers_per_user
    assert spread is not None and sum(spread.values()) == 40 and set(spread) <= {1, 2, 3}
    assert spread[3] > spread.get(1, 0)


def test_no_coin_moves_the_mechanism() -> None:
    """Absent users leave M, k, σ and every other teacher as they are."""
    full = corpus(40)
    fewer = Corpus("toy", corpus(22).records, public_size=Population(40, 120))
    one, other = student(SeqPATE(), full), student(SeqPATE(), fewer)
    assert one.method == other.method
    assert len(one.teachers) == len(other.teachers)
    for a, b in zip(one.teachers, other.teachers, strict=True):
        gone = {f"u{i}" for i in range(22, 40)}
        assert b.texts == tuple(t for t, u in zip(a.texts, a.owners, strict=True) if u not in gone)
    mine, theirs = promise(SeqPATE(), full), promise(SeqPATE(), fewer)
    assert replace(mine, teachers_per_user=None) == replace(theirs, teachers_per_user=None)


def test_all_ablations_off_is_the_paper_s_pate() -> None:
    defense = SeqPATE(
        aggregation="vote", loss="ce", pseudo_loss=False, efficient_kd=False, noise="laplace"
    )
    method = student(defense).method
    assert isinstance(method, Distillation)
    assert (method.aggregation, method.loss, method.pseudo_loss) == ("vote", "ce", False)
    assert (method.hard_rank, method.noise.kind) == (0, "laplace")
    guarantee = promise(defense)
    assert guarantee.epsilon == pytest.approx(8.0, rel=1e-3) and guarantee.epsilon <= 8.0
    assert "Laplace" in guarantee.theorem and guarantee.accounting is None
    assert "no mechanism" in str(claimed_mechanism(guarantee, "user", "add_or_remove"))


def test_without_pseudo_data_prefixes_stay_and_teach_nothing_themselves() -> None:
    """Table 9: no completion, warm-up or pseudo-label; the teachers and ε are the same."""
    whole, alone = student(SeqPATE()), student(SeqPATE(pseudo_data=False))
    assert alone.method.pseudo == PublicPrefixes(1000, 4)
    assert (alone.method.warmup.epochs, alone.method.pseudo_loss) == (0, False)
    assert alone.method.recipe.batch_tokens == 32 * 4  # 32 prefixes a batch
    assert alone.teachers == whole.teachers and alone.texts == whole.texts
    assert promise(SeqPATE(pseudo_data=False)) == promise(SeqPATE())
    assert [student(c).method.pseudo for c in SeqPATE(pseudo_data=False).controls] == [
        alone.method.pseudo
    ] * 2


def test_what_cannot_be_is_one_line(phrases: str, tmp_path: Path) -> None:
    (tmp_path / "silent").write_text("nobody\nno one\n")
    averaged = {"epsilon": None, "phrase_epsilon": 3.0}

    refusals(
        lambda values: student(SeqPATE(**values)),
        [
            ({"teachers": 41}, "41, but there are 40 users"),
            ({"teachers": 0}, "teachers is 0"),
            ({"queries": 0}, "queries is 0"),
            ({"rounds": 0}, "rounds is 0"),
            ({"queries": 3, "rounds": 4}, "rounds is 4"),
            ({"spread": 0}, "spread is 0"),
            ({"epsilon": 0.0}, "epsilon is 0"),
            ({"epsilon": None}, "give sigma"),
            ({"sigma": 3.0}, "epsilon=none"),
            ({"epsilon": None, "sigma": 0.0}, "sigma is 0"),
            ({"delta": 1.0}, "delta is 1"),
            ({"top_p": 0.0}, "top_p is 0"),
            ({"top_p": 0.9, "top_k": 5}, "without top_k"),
            ({"aggregation": "median"}, "mean or vote"),
            ({"noise": "none"}, "gaussian or laplace"),
            ({"weight": -1.0}, "weight is -1"),
            ({"train": "top:3"}, "2 blocks"),
            ({"train": "half"}, "train is half"),
            ({"prefix": 50}, "ascending order"),
            ({"pseudo_data": False, "prefix": 0}, "prefix must be at least 1"),
            ({"phrases": "/nowhere"}, "cannot be read"),
            (averaged, "name their file in phrases"),
            ({"phrase_epsilon": 3.0, "phrases": phrases}, "epsilon=none beside it"),
            ({**averaged, "phrases": phrases, "sigma": 2.0}, "no sigma"),
            ({**averaged, "phrases": phrases, "phrase_epsilon": 0.0}, "phrase_epsilon is 0"),
            ({**averaged, "phrases": str(tmp_path / "silent")}, "no phrase of the file occurs"),
            ({**averaged, "phrases": phrases, "phrase_epsilon": 1e-9}, "cannot be reached"),
        ],
    )
    with pytest.raises(UsageError, match="is untrained"):
        SeqPATE().trainings(corpus(), LSTM, RECIPE, 0)
    with pytest.raises(UsageError, match="no public record"):
        student(SeqPATE(), Corpus("toy", tuple(private(8))))


def test_the_embedded_public_text_serves_where_there_is_none() -> None:
    spare = Corpus("toy", tuple(private(8)), spare=("embedded one", "embedded two"))
    assert student(SeqPATE(), spare).texts == ("embedded one", "embedded two")


@pytest.mark.parametrize(
    "text",
    [
        "1 wrote 2",
        "call AB-1234567 now",
        " 1  wrote 2\n",
        "Fwd: I have lost my key, please send me another.\nBye",
        "so: twenty-four characters!!",  # a record as long as what records are looked up by
        "twenty-four characters!! yes",
    ],
)
def test_public_text_that_holds_private_text_is_refused_with_its_place(text: str) -> None:
    secret = "my number is AB-1234567."
    mine = Record("u7", secret, split="private", private=tuple(Digits()(secret)))
    mine = replace(mine, private=((13, 23),))
    long = Record("u1", "I have lost my key, please send me another.", split="private")
    alike = Record("u2", "I have lost my key, please call.", split="private")  # begins the same
    told = Record("p9", text, split="public", where="c.jsonl line 9")
    with pytest.raises(UsageError, match=r"c\.jsonl line 9 contains private text of user 'u[17]'"):
        same = [Record(user, "twenty-four characters!!", split="private") for user in ("u1", "u2")]
        student(SeqPATE(), corpus(8, mine, alike, long, *same, told))


def test_a_short_number_may_be_public() -> None:
    mine = Record("u7", "I live at 20", split="private", private=((10, 12),))
    student(SeqPATE(), corpus(8, mine, Record("p9", "the 20 buses", split="public")))


# an average over phrases


@pytest.fixture
def phrases(tmp_path: Path) -> str:
    file = tmp_path / "phrases"
    file.write_text("wrote 1\n17 wrote 2\n3 wrote 0\nnobody\n")
    return str(file)


def averaging(phrases: str, average: float, **more: Any) -> SeqPATE:
    return SeqPATE(epsilon=None, phrase_epsilon=average, phrases=phrases, teachers=7, **more)


def test_phrases_are_counted_by_teachers(phrases: str) -> None:
    (entry, other) = promise(SeqPATE(teachers=7, phrases=phrases)).phrases
    assert [entry.pop("relation"), other.pop("relation")] == ["add_or_remove", "replace"]
    assert entry == other and entry["n"] == 4 and entry["minimum"] == 0.0
    assert entry["maximum"] > 7 * 8.0  # held by all seven: more than seven times one teacher's ε


def test_laplace_noise_is_chosen_by_the_average_too(phrases: str) -> None:
    (entry, _) = promise(averaging(phrases, 3.0, noise="laplace")).phrases
    assert 2.98 <= entry["mean"] <= 3.0


@pytest.mark.parametrize("average", [0.5, 3.0, 40.0])
def test_the_noise_makes_epsilon_average_over_phrases(phrases: str, average: float) -> None:
    """By hand: one phrase in every teacher, two in one, one in none; not linear."""
    training = student(averaging(phrases, average))
    sigma = training.method.noise.scale
    hearing = [
        sum(any(f" {words} " in f" {text} " for text in t.texts) for t in training.teachers)
        for words in ("wrote 1", "17 wrote 2", "3 wrote 0", "nobody")
    ]
    assert hearing == [7, 1, 1, 0]
    one, every = (gaussian_epsilon(math.sqrt(160) * n / sigma, 1e-5) for n in (1, 7))
    assert (every + 2 * one) / 4 == pytest.approx(average, rel=5e-3)
    assert (every + 2 * one) / 4 <= average * (1 + 1e-6)
    assert every > 7.5 * one
    (entry, _) = promise(averaging(phrases, average)).phrases
    assert entry["mean"] == pytest.approx(average, rel=5e-3)


def test_noise_from_private_counts_makes_no_claim_that_is_tested(phrases: str) -> None:
    found = promise(averaging(phrases, 3.0, spread=2))
    sigma = student(averaging(phrases, 3.0, spread=2)).method.noise.scale
    assert found.epsilon == epsilon_of("gaussian", sigma, 80, 1e-5, 2)  # per user, as ever
    assert found.basis == "data-dependent"
    for relation in ("add_or_remove", "replace"):
        assert "data-dependent" in (found.incomparable("user", relation, 1e-5) or "")
        assert "data-dependent" in str(claimed_mechanism(found, "user", relation))
    assert any("chosen from private counts" in said for said in found.conditions)
    assert not any("σ and δ follow" in said for said in found.conditions)
    fixed = promise(SeqPATE(epsilon=None, sigma=sigma, phrases=phrases, teachers=7, spread=2))
    assert fixed.epsilon == found.epsilon and fixed.basis == "worst case"
    assert any("σ and δ follow" in said for said in fixed.conditions)


def test_controls_of_noise_from_private_counts_promise_nothing(phrases: str) -> None:
    """The student of noise alone would never have read private text, but for its σ."""
    whole = averaging(phrases, 3.0)
    noise, exact = whole.controls
    assert student(noise).method == student(whole).method and student(noise).teachers == ()
    assert promise(noise).epsilon == math.inf and "private counts" in promise(noise).theorem
    assert student(exact).method.noise.scale < 1e-8


# controls


def test_two_controls_tell_the_teachers_from_their_noise() -> None:
    """One hears the same noise and no teacher, the other the same teachers and no noise."""
    whole = student(SeqPATE(epsilon=3.0))
    noise, exact = (student(control) for control in SeqPATE(epsilon=3.0).controls)
    assert noise.teachers == () and noise.method == whole.method
    assert exact.teachers == whole.teachers
    assert exact.method.noise.scale < 1e-8
    assert replace(exact.method, noise=whole.method.noise) == whole.method
    assert whole.texts == noise.texts == exact.texts  # public ones
    assert not {record.text for record in private(40)} & set(noise.texts)
    promises = [promise(control) for control in SeqPATE().controls]
    assert [p.epsilon for p in promises] == [0.0, math.inf]
    assert "no noise" in promises[1].theorem


def test_controls_of_one_setting_at_several_epsilon_share_the_exact_one() -> None:
    """It has no noise, so no ε; and a control has no controls."""
    few, many = SeqPATE(epsilon=1.0).controls, SeqPATE(epsilon=64.0).controls
    assert few[1] == many[1] and few[0] != many[0]
    assert SeqPATE(epsilon=None, sigma=3.0).controls[1] == few[1]
    assert all(control.controls == () for control in few)
