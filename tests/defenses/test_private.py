"""DP-SGD and Selective-DPSGD as defenses: sizes no coin moves, the noise asked for, the promise."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm

from audit.accounting import claimed_mechanism, curve_of, described, epsilon, recompute
from audit.core.corpus import Corpus, Population, Record
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease
from audit.core.secret import Planting
from audit.core.training import Trained
from audit.models.training.dp_sgd import PrivateRecipe, Units
from audit.models.training.fine_tuning import Recipe
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from audit.planting.planting import plant
from audit.policies.digits import Digits
from defenses.blacklist import Blacklist
from defenses.dp_sgd import DPSGD
from defenses.redaction import Redaction
from defenses.s_dpsgd import SDPSGD
from tests.refusals import refusals

GPT2 = ModelFolder("toy", Path("toy"), "", 1, 8, 32)
LSTM = replace(GPT2, name="lstm", kind="lstm")
RECIPE = Recipe(epochs=3, learning_rate=1e-3, batch_tokens=64, max_length=32)


def corpus(users: int = 40, records: int = 2) -> Corpus:
    texts = [(f"u{i}", f"hello {i} and {j}{j} bye") for i in range(users) for j in range(records)]
    return Corpus(
        "toy",
        tuple(
            Record(user, text, split="private", private=tuple(Digits()(text)))
            for user, text in texts
        ),
    )


def method_of(defense: Any, model: ModelFolder = GPT2, texts: Corpus | None = None) -> Any:
    (training,) = defense.trainings(texts or corpus(), model, RECIPE, 0)
    return training.method


def promise(defense: Any, model: ModelFolder = GPT2, texts: Corpus | None = None) -> Guarantee:
    (training,) = defense.trainings(texts or corpus(), model, RECIPE, 0)
    release = defense.release(None, [Trained(training, None)])
    assert isinstance(release, ModelRelease)
    return release.guarantee


@pytest.mark.parametrize(("unit", "population"), [("user", 40), ("record", 80)])
def test_dp_sgd_samples_its_units_from_the_public_size(unit: str, population: int) -> None:
    method = method_of(DPSGD(unit=unit, epochs=4))
    assert isinstance(method, PrivateRecipe)
    assert method.population == population
    assert method.sampling_probability == 0.5  # half of all, at most 512
    assert method.steps == 8
    whole = corpus()
    (training,) = DPSGD(unit=unit).trainings(whole, GPT2, RECIPE, 0)
    assert len(set(training.owners)) == population


@pytest.mark.parametrize(
    ("defense", "model"),
    [
        (DPSGD(), GPT2),
        (DPSGD(unit="record"), GPT2),
        (DPSGD(sampling="record", per_user=3), GPT2),
        (SDPSGD(), GPT2),
        (SDPSGD(), LSTM),
        (SDPSGD(hidden="noise"), LSTM),
        (SDPSGD(schedule="paper"), LSTM),
    ],
)
def test_no_coin_moves_the_mechanism(defense: Any, model: ModelFolder) -> None:
    """Whoever is trained on: N, q, T, σ, C and δ stay; only texts differ."""
    found, present = [], set()
    for seed in range(4):
        texts = corpus(24)
        planted = plant(texts, Planting(users=20, kinds=("code", "id")), seed, len)
        marked = replace(
            planted.corpus,
            records=tuple(
                replace(r, private=tuple(Digits()(r.text))) for r in planted.corpus.records
            ),
        )
        present.add(len(marked.users("private")))
        found.append(method_of(defense, model, marked))
    assert len(present) > 1  # the coins did fall differently
    assert all(method == found[0] for method in found)


@pytest.mark.parametrize(
    ("defense", "unit", "relation"),
    [
        (DPSGD(epsilon=3.0), "user", "add_or_remove"),
        (DPSGD(epsilon=3.0, unit="record"), "record", "add_or_remove"),
        (DPSGD(epsilon=3.0, sampling="record"), "user", "add_or_remove"),
        (SDPSGD(epsilon=3.0), "private attributes of a record", "replace"),
    ],
)
def test_the_target_is_kept_and_nearly_used_up(defense: Any, unit: str, relation: str) -> None:
    """And ε can be worked out again from what results.json holds."""
    found = promise(defense)
    assert (found.unit, found.relation, found.release) == (unit, relation, "model")
    assert found.basis == "worst case"
    assert found.epsilon is not None and 2.97 < found.epsilon <= 3.0
    assert found.delta == 1e-5
    assert found.accounting is not None and found.accounting["delta"] == found.delta
    assert recompute(json.loads(json.dumps(found.accounting))) == pytest.approx(found.epsilon)
    assert promise(replace(defense, delta=1e-3)).delta == 1e-3


@pytest.mark.parametrize(
    ("defense", "model", "unit", "relation", "terms"),
    [
        (DPSGD(epsilon=2.0), GPT2, "user", "add_or_remove", 1),
        (DPSGD(epsilon=2.0), GPT2, "user", "replace", 1),
        (DPSGD(epsilon=2.0, unit="record"), GPT2, "record", "add_or_remove", 1),
        (DPSGD(epsilon=2.0, sampling="record"), GPT2, "user", "add_or_remove", 1),
        (SDPSGD(epsilon=4.0), GPT2, "private attributes of a record", "replace", 1),
        (SDPSGD(epsilon=6.0, hidden="noise"), LSTM, "private attributes of a record", "replace", 2),
        (SDPSGD(schedule="paper"), LSTM, "private attributes of a user", "replace", 2),
    ],
    ids=str,
)
def test_every_claim_has_a_curve(
    defense: Any, model: ModelFolder, unit: str, relation: str, terms: int
) -> None:
    found = promise(defense, model)
    mechanism = claimed_mechanism(found, unit, relation)
    assert not isinstance(mechanism, str) and len(mechanism.active) == terms
    if relation == found.relation:
        assert epsilon(mechanism, found.delta or 0.0) == found.epsilon
    curve = curve_of(mechanism)
    assert 0.0 < curve.advantage < 1.0
    assert ("DP-SGD" in described(mechanism)) == (defense != SDPSGD(schedule="paper"))


def test_several_records_of_a_coin_have_no_curve_where_their_attributes_are_exchanged() -> None:
    unit = "private attributes of a user"
    found = claimed_mechanism(promise(SDPSGD(epsilon=4.0)), unit, "replace", 4)
    assert isinstance(found, str) and "several records" in found
    paper = promise(SDPSGD(schedule="paper"), LSTM)
    one, four = (claimed_mechanism(paper, unit, "replace", n) for n in (1, 4))
    assert not isinstance(one, str) and not isinstance(four, str)
    assert four.mu == pytest.approx(4 * one.mu)


def test_a_given_noise_is_used_and_accounted() -> None:
    defense = DPSGD(epsilon=None, noise_multiplier=2.0, batch=40, epochs=9)  # q = 1: a Gaussian
    method = method_of(defense)
    assert method.noise.multiplier == 2.0
    assert (method.sampling_probability, method.steps) == (1.0, 9)
    found = promise(defense)
    assert found.epsilon == pytest.approx(gaussian_epsilon(3 / 2.0, found.delta), rel=1e-3)


def gaussian_epsilon(mu: float, delta: float | None) -> float:
    """ε of the Gaussian mechanism (Balle and Wang 2018, arXiv 1805.06530), by bisection."""
    assert delta is not None
    low, high = 0.0, mu * mu / 2 + mu * 40
    for _ in range(200):
        epsilon = (low + high) / 2
        reached = norm.cdf(mu / 2 - epsilon / mu) - math.exp(
            epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
        )
        low, high = (epsilon, high) if reached > delta else (low, epsilon)
    return high


def test_the_papers_schedule_is_charged_for_every_release() -> None:
    """E epochs, R private runs: μ² = 4·E·R/σ² for gradients and 8·E·R/σ_h² for h and c."""
    defense = SDPSGD(
        epsilon=None, noise_multiplier=4.0, hidden_noise=5.0, schedule="paper", epochs=3
    )
    method = method_of(defense, LSTM)
    assert isinstance(method, AlternatingRecipe)
    runs = 2  # "hello 7 and 00 bye": two values
    assert (method.private_runs, method.epochs) == (runs, 3)
    found = promise(defense, LSTM)
    mu = math.sqrt(4 * 3 * runs / 16 + 8 * 3 * runs / 25)
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu, found.delta), rel=1e-3)
    assert found.published_epsilon is not None and found.epsilon is not None
    assert found.published_epsilon < found.epsilon / 2


def test_noised_states_are_charged_beside_the_gradients() -> None:
    reset = promise(SDPSGD(epsilon=None, noise_multiplier=3.0), LSTM)
    noised = promise(
        SDPSGD(epsilon=None, noise_multiplier=3.0, hidden="noise", transitions=2), LSTM
    )
    assert noised.accounting is not None and reset.epsilon is not None
    states = noised.accounting["terms"][1]
    assert states["count"] == 2 * RECIPE.epochs * 2  # h and c
    assert states["sampling_probability"] == 1.0
    assert noised.epsilon is not None and noised.epsilon > reset.epsilon
    shared = SDPSGD(epsilon=6.0, hidden="noise", hidden_noise=30.0)
    assert 5.9 < (promise(shared, LSTM).epsilon or 0) <= 6.0  # the target pays for states, too


def test_the_schedule_follows_the_model() -> None:
    assert isinstance(method_of(SDPSGD(), GPT2), PrivateRecipe)
    assert isinstance(method_of(SDPSGD(), LSTM), SelectiveRecipe)
    assert isinstance(method_of(SDPSGD(schedule="twice"), LSTM), PrivateRecipe)
    with pytest.raises(UsageError, match="needs an LSTM"):
        method_of(SDPSGD(schedule="paper"), GPT2)


def test_the_first_of_two_phases_holds_no_private_character() -> None:
    (training,) = SDPSGD().trainings(corpus(), GPT2, RECIPE, 0)
    assert training.after is not None
    assert not any(c.isdigit() for text in training.after.texts for c in text)
    assert training.after.method == RECIPE
    changed = corpus()
    others = replace(
        changed,
        records=tuple(replace(r, text=r.text.replace("1", "9")) for r in changed.records),
    )
    (theirs,) = SDPSGD().trainings(others, GPT2, RECIPE, 0)
    assert theirs.after is not None and theirs.after.texts == training.after.texts


def test_bad_settings_are_refused_in_one_line() -> None:
    noised = SDPSGD(epsilon=1.0, hidden="noise", hidden_noise=0.5)
    refusals(
        lambda make: make(),
        [
            (lambda: DPSGD(epsilon=None), "epsilon is none; give noise_multiplier"),
            (lambda: DPSGD(noise_multiplier=1.0), "epsilon=none beside it"),
            (lambda: DPSGD(epsilon=0.0), "epsilon is 0.0"),
            (lambda: DPSGD(epsilon=math.inf), "epsilon is inf"),
            (lambda: DPSGD(epsilon=math.nan), "epsilon is nan"),
            (lambda: DPSGD(epsilon=None, noise_multiplier=0.0), "noise_multiplier is 0.0"),
            (lambda: DPSGD(delta=0.0), "delta is 0.0"),
            (lambda: DPSGD(delta=1.0), "delta is 1.0"),
            (lambda: DPSGD(clip=0.0), "clip is 0.0"),
            (lambda: DPSGD(unit="part"), "unit is part; it must be user or record"),
            (lambda: DPSGD(layers="top"), "layers is top"),
            (lambda: DPSGD(lora=4, layers="top:1"), "lora"),
            (lambda: DPSGD(phrases="no/such/file"), "cannot be read"),
            (lambda: DPSGD(epsilon=None, phrase_epsilon=3.0), "name their file in phrases"),
            (lambda: DPSGD(phrase_epsilon=3.0, phrases="any"), "epsilon=none beside it"),
            (lambda: DPSGD(sampling="record", unit="record"), "records are sampled already"),
            (lambda: DPSGD(per_user=0), "per_user is 0; it must be at least 1"),
            (lambda: DPSGD(sampling="user"), "sampling is user; it must be unit or record"),
            (lambda: SDPSGD(schedule="late"), "schedule is late"),
            (lambda: SDPSGD(transitions=0), "transitions is 0"),
            (lambda: SDPSGD(mask=" "), "mask is empty"),
            (lambda: method_of(DPSGD(batch=41)), "batch is 41, but there are 40"),
            (lambda: method_of(noised, LSTM), "cannot be reached"),
        ],
    )


@pytest.mark.parametrize("marked", [(), ((0, 5),)])
def test_a_policy_that_marks_nothing_or_everything_is_refused(marked: Any) -> None:
    texts = Corpus("toy", (Record("a", "hello", split="private", private=marked),))
    for defense in (SDPSGD(), Redaction(), Blacklist()):
        with pytest.raises(UsageError, match="policy marks"):
            defense.trainings(texts, GPT2, RECIPE, 0)


def test_phrases_have_their_own_epsilon(tmp_path: Path) -> None:
    file = tmp_path / "phrases.txt"
    file.write_text("hello 1\nhello\nnever said\n")  # one user, all forty, nobody
    defense = DPSGD(epsilon=2.0, phrases=str(file))
    found = promise(defense)
    forth, both = found.phrases
    assert (forth["relation"], both["relation"]) == ("add_or_remove", "replace")
    assert forth["n"] == 3 and forth["minimum"] == 0.0
    assert forth["maximum"] > 10 * (found.epsilon or 0)
    one = tmp_path / "one.txt"
    one.write_text("hello 1\n")
    alone = promise(replace(defense, phrases=str(one))).phrases[0]
    assert alone["mean"] == pytest.approx(found.epsilon, rel=5e-3)  # one user: the user's own ε
    assert both["maximum"] > forth["maximum"]


@pytest.mark.parametrize("unit", ["user", "record"])
@pytest.mark.parametrize("average", [0.5, 3.0])
def test_sigma_makes_epsilon_average_over_phrases(
    tmp_path: Path, unit: str, average: float
) -> None:
    """Without sampling a phrase that n hold is one Gaussian, 2n apart under replace."""
    file = tmp_path / "phrases.txt"
    file.write_text("hello 1\nhello 7\nhello\nnever said\n")
    held = {"user": (1, 1, 40), "record": (2, 2, 80)}[unit]
    defense = DPSGD(
        epsilon=None, phrase_epsilon=average, phrases=str(file), batch=held[2], epochs=9, unit=unit
    )
    method, found = method_of(defense), promise(defense)
    assert (method.sampling_probability, method.steps) == (1.0, 9)
    mu = [2 * n * math.sqrt(9) / method.noise.multiplier for n in held]
    mean = sum(gaussian_epsilon(each, found.delta) for each in mu) / 4
    assert average * 0.995 <= mean <= average * (1 + 1e-3)
    both = found.phrases[1]
    assert both["relation"] == "replace" and both["n"] == 4
    assert average * 0.995 <= both["mean"] <= average * (1 + 1e-6)
    assert found.phrases[0]["mean"] < 0.7 * both["mean"]


def test_sigma_from_private_counts_makes_no_claim_that_is_tested(tmp_path: Path) -> None:
    file = tmp_path / "phrases.txt"
    file.write_text("hello 1\nhello 7\n")
    chosen = DPSGD(epsilon=None, phrase_epsilon=3.0, phrases=str(file))
    found = promise(chosen)
    sigma = method_of(chosen).noise.multiplier
    fixed = promise(replace(chosen, phrase_epsilon=None, noise_multiplier=sigma))
    assert (found.basis, fixed.basis) == ("data-dependent", "worst case")
    assert found.epsilon == fixed.epsilon and found.accounting == fixed.accounting
    assert "data-dependent" in (found.incomparable("user", "add_or_remove", found.delta) or "")
    assert any("chosen from private counts" in said for said in found.conditions)
    assert not any("σ, the clipping norms" in said for said in found.conditions)
    assert any("σ, the clipping norms" in said for said in fixed.conditions)
    closer = method_of(replace(chosen, phrase_epsilon=1.0)).noise.multiplier
    assert closer > 1.5 * sigma


def test_records_of_a_public_size_are_not_counted_from_what_is_there() -> None:
    texts = replace(corpus(10), public_size=Population(users=100, records=300))
    assert method_of(DPSGD(batch=50), texts=texts).sampling_probability == 0.5
    for model in (GPT2, LSTM):
        method = method_of(SDPSGD(batch=30), model, texts)
        assert (method.population, method.sampling_probability) == (300, 0.1)


# records sampled, users protected


def by_record(records: int, per_user: int, users: int = 40, **parameters: Any) -> Any:
    defense = DPSGD(sampling="record", per_user=per_user, **parameters)
    (training,) = defense.trainings(corpus(users, records), GPT2, RECIPE, 0)
    return training


@pytest.mark.parametrize(("per_user", "population"), [(1, 40), (2, 80), (3, 120), (9, 120)])
def test_a_user_has_at_most_so_many_examples(per_user: int, population: int) -> None:
    """The sums are divided by a public number: of records, or G for each user."""
    training = by_record(3, per_user)
    assert training.method.population == population
    assert training.method.units == Units(40, per_user)
    assert len(set(training.owners)) == len(training.texts) == 40 * min(3, per_user)


def test_a_user_comes_and_goes_without_another_record_moving() -> None:
    whole, texts = corpus(12, 5), by_record(5, 2, users=12).texts
    for user in ("u0", "u7"):
        rest = Corpus("toy", tuple(r for r in whole.records if r.user != user))
        (training,) = DPSGD(sampling="record", per_user=2).trainings(rest, GPT2, RECIPE, 0)
        own = {r.text for r in whole.records if r.user == user}
        assert list(training.texts) == [text for text in texts if text not in own]


def test_which_records_are_kept_does_not_depend_on_their_text() -> None:
    whole = corpus(12, 5)
    other = Corpus("toy", tuple(replace(r, text=f"other {r.text}") for r in whole.records))
    kept = by_record(5, 2, users=12).texts
    (training,) = DPSGD(sampling="record", per_user=2).trainings(other, GPT2, RECIPE, 0)
    assert list(training.texts) == [f"other {text}" for text in kept]
    places = {text.split()[3] for text in kept}
    assert len(places) == 5  # not the first two of everybody


@pytest.mark.parametrize(("per_user", "loss"), [(1, 1.8294), (2, 3.9802), (4, 8.9018)])
def test_epsilon_is_that_of_all_records_of_a_user_together(per_user: int, loss: float) -> None:
    """q = .01, σ = 1, T = 1000, δ = 1e-5; four times the first would be below the truth."""
    parameters: dict[str, Any] = {"epsilon": None, "noise_multiplier": 1.0, "delta": 1e-5}
    training = by_record(4, 4, users=25, batch=1, epochs=10.0, **parameters)
    method = replace(training.method, units=Units(25, per_user))
    assert (method.sampling_probability, method.steps) == (0.01, 1000)
    defense = DPSGD(sampling="record", per_user=per_user, **parameters)
    found = defense.promised([replace(training, method=method)])
    assert found.epsilon == pytest.approx(loss, rel=1e-3)
    assert f"at most G = {per_user} are kept" in " ".join(found.conditions)
    assert (found.unit, found.population) == ("user", 25)
