"""Sweeps: the grid, what seeds say together, and one folder that a killed sweep goes on in."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import api
from audit.core.corpus import Corpus, Record
from audit.core.defense import Defense
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.guarantee import no_guarantee
from audit.core.terms import Leaked
from audit.findings import stored
from audit.findings.agreement import Agreement
from audit.findings.rejections import Family, rejected
from audit.models.loading import describe
from audit.models.training.fine_tuning import Recipe
from audit.plugins import registry
from audit.results import schema, sums
from audit.results.measurement import measured
from audit.results.schema import (
    ChargeTest,
    Control,
    EpsilonLower,
    FindingResult,
    Measure,
    Power,
    ReleaseResult,
    SessionResult,
)
from audit.run.sweep import summary, sweep
from audit.run.sweep.grid import grid_of
from audit.run.sweep.over_seeds import cells, joined, lower_median, mean_measure
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import no_interval
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.verify import verify
from tests import by_hand
from tests.builders import comparable
from tests.command_line import audit
from tests.findings.closeness import six

NONE = rejected({}, {}, Family(1, 1), frozenset())


def over(found: Sequence[FindingResult], seeds: int | None = None) -> FindingResult:
    """Joins one measure of seeds (as many as have it) of which nothing else is known."""
    claim = no_guarantee("nothing is promised")
    return joined(found, Agreement(seeds or len(found), claim, 1.0, 1.0, frozenset(), {}, NONE))


# ------------------------------------------------------------------- the grid


def test_the_grid_is_the_product_of_its_axes_where_a_defense_is_silent() -> None:
    table = {
        "defense": ["submix:budget=64", "dp_sgd:epsilon=none,noise_multiplier=1", "redaction"],
        "epsilon": [1, 8.0],
        "seeds": [0, 3],
        "submix": {"k": [2, 4]},
    }
    grid = grid_of(table, {})
    assert grid.settings() == (
        "submix:budget=64,epsilon=1,k=2",
        "submix:budget=64,epsilon=1,k=4",
        "submix:budget=64,epsilon=8.0,k=2",
        "submix:budget=64,epsilon=8.0,k=4",
        "dp_sgd:epsilon=none,noise_multiplier=1",
        "redaction:",
    )
    assert grid.seeds == (0, 3)


def test_an_axis_of_a_defense_goes_before_the_common_one() -> None:
    grid = grid_of({"defense": ["submix"], "epsilon": [1], "submix": {"epsilon": [5]}}, {})
    assert grid.settings() == ("submix:epsilon=5",)


def test_without_a_table_a_plan_is_a_sweep_of_one() -> None:
    grid = grid_of({}, {"defense": ("submix",), "epsilon": 3.0, "seed": 7})
    assert (grid.settings(), grid.seeds) == (("submix:epsilon=3.0",), (7,))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"defense": ["submix"], "epsilons": [1]}, "did you mean 'epsilon'"),
        ({"defense": ["submix"], "submx": {"k": [2]}}, "did you mean 'submix'"),
        ({"defense": ["submix"], "submix": {"bta": [2]}}, "did you mean 'beta'"),
        ({"defense": ["sumbix"]}, "did you mean 'submix'"),
        ({"defense": ["submix"], "submix": {"k": 2}}, "list of values"),
        ({"defense": ["submix"], "epsilon": [0]}, "above 0"),
        ({"defense": ["submix"], "epsilon": ["one"]}, "expected a number"),
        ({"defense": ["submix"], "epsilon": [1, 1]}, "twice"),
        ({"defense": ["submix"], "seeds": [0, 0]}, "different whole numbers"),
        ({"defense": ["submix"], "seeds": []}, "different whole numbers"),
        ({"defense": ["submix"], "seeds": [True]}, "different whole numbers"),
        ({"defense": ["none"], "epsilon": [1]}, "no defense has one"),
        ({}, "no defense is named"),
    ],
)
def test_what_cannot_be_a_grid_is_one_line(table: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        grid_of(table, {}).settings()


@pytest.mark.parametrize(
    "table",
    [
        {"defense": ["submix"], "epsilon": []},
        {"defense": ["submix", "dp_sgd"], "submix": {"k": []}},
        {"defense": ["submix"], "submix": {"epsilon": []}},
    ],
)
def test_an_axis_without_values_is_refused(table: dict[str, Any]) -> None:
    """It would drop the defense, or its epsilon, without a word."""
    with pytest.raises(UsageError, match="is empty, so nothing would be run"):
        grid_of(table, {})


def test_what_stands_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="keep one"):
        grid_of({"defense": ["submix"]}, {"defense": ("none",)})


DOCS = Path(__file__).parents[3] / "docs" / "sweeps.md"


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.S))
def test_every_example_of_the_docs_is_a_grid_that_can_be_built(block: str) -> None:
    document = tomllib.loads(block)
    grid = grid_of(document.pop("sweep"), {})
    built = [registry.build("defenses", text, Defense, {}) for text in grid.settings()]  # type: ignore[type-abstract]
    assert len(built) == len({repr(one) for one in built}) > 1
    assert len(grid.seeds) == 3


# ------------------------------------------------------------ over the seeds


def measure(value: float, unit: str = "perplexity") -> Measure:
    ci = (0.9 * value, 1.1 * value)
    return Measure(value=value, ci=ci, n=40, method="bootstrap", unit=unit, answered=7)


def test_perplexity_is_averaged_as_a_logarithm() -> None:
    """exp of the mean NLL of 2 and 8 is 4; the t-interval is symmetric about log 4."""
    mean = mean_measure([measure(2.0), measure(8.0)])
    assert mean.value == pytest.approx(4.0)
    assert mean.n == 2 and mean.ci is not None
    assert math.log(mean.ci[1] / 4) == pytest.approx(math.log(4 / mean.ci[0]))
    assert math.log(mean.ci[1] / 4) == pytest.approx(12.7062 * math.log(2), rel=1e-4)


def test_one_seed_has_no_interval_over_seeds_and_shares_stay_shares() -> None:
    one = mean_measure([measure(2.0)])
    assert (one.value, one.ci, one.n) == (2.0, None, 1)
    wide = mean_measure([measure(0.2, "share of tokens"), measure(0.9, "share of tokens")])
    assert wide.value == pytest.approx(0.55) and wide.ci == (0.0, 1.0)


def finding(k: int | None, n: int = 100, **changes: Any) -> FindingResult:
    fields: dict[str, Any] = {
        **measured(clopper_pearson(k, n) if k is not None else no_interval(n, 0.95, "none")),
        "k": k,
        "chance": 0.01,
        "control": Control(value=0.0, ci=(0.0, 0.03), k=0, n=n),
        "p_value": None,
        "power": Power(smallest_rate=0.03, largest_epsilon=3.0, n=n),
        "silence": None,
    }
    if "cut" in changes:
        fields["kind"] = "stopped_rate"
    return by_hand.finding(**{**fields, **changes})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(50, 200)), min_size=2, max_size=5))
def test_hits_are_pooled_exactly(counts: list[tuple[int, int]]) -> None:
    pooled = over([finding(k, n) for k, n in counts])
    k, n = (sum(column) for column in zip(*counts, strict=True))
    assert (pooled.k, pooled.n, pooled.ci) == (k, n, six(clopper_pearson(k, n).ci))
    assert "pooled" in pooled.method
    assert pooled.control is not None and (pooled.control.k, pooled.control.n) == (0, n)
    assert pooled.p_value is None


def test_rates_of_sessions_that_may_stop_are_averaged_at_any_stopping_time() -> None:
    """A seed that stopped at once may have any rate; controls are shares of the same tries."""
    control = Control(value=1 / 9, ci=(0.0, 0.5), k=1, n=9)
    none = finding(None, 0, cut=True, control=None)
    mean = over([finding(3, 9, cut=True, control=control), finding(40, 400, cut=False), none])
    series = [Series(3, 9, True), Series(40, 400), Series(0, 0, True)]
    assert (mean.value, mean.ci) == (six((1 / 3 + 0.1) / 2), six(stopped_rate(series).ci))
    assert (mean.k, mean.n, mean.cut) == (None, 409, True)
    assert mean.method.startswith("mean over 3 seeds, 1 of them without a try, mixture")
    of = stopped_rate([Series(1, 9, True), Series(0, 400), Series(0, 0, True)])
    assert mean.control is not None
    assert (mean.control.value, mean.control.ci) == (six(of.value), six(of.ci))
    assert mean.power.smallest_rate == six(stopped_rate([Series(0, 9), Series(0, 400)]).high)
    whole = over([finding(1, 100, cut=True), finding(0, 100, cut=False)])
    assert (whole.k, whole.n) == (1, 200) and "without" not in whole.method


def test_what_is_no_count_is_averaged_over_seeds() -> None:
    auc = {
        "metric": "auc",
        "unit": "AUC",
        "method": "DeLong",
        "kind": "other",
        "control": None,
    }
    mean = over([finding(None, value=v, ci=(0, 1), **auc) for v in (0.5, 0.7)])
    assert mean.value == pytest.approx(0.6)
    assert (mean.k, mean.n, mean.ci) == (None, 2, (0.0, 1.0))
    mixed = over([finding(3), finding(5, kind="bootstrap")])  # one is no exact count
    assert (mixed.k, mixed.n) == (None, 2)


def test_a_single_seed_keeps_its_own_finding() -> None:
    assert over([finding(3)]) == finding(3)


def test_an_answer_says_what_each_seed_found_by_itself() -> None:
    found = [finding(0), finding(9, leaked="leak"), finding(0, leaked="inconclusive")]
    whole = over(found)
    assert whole.leaked == "inconclusive"
    assert whole.sentence == "Leak in 1 of 3 seeds, not confirmed by the others."
    assert over([finding(0), finding(0)]).leaked == "no leak found"
    of_one = over([finding(0)], seeds=3)  # a measure that the other seeds do not have
    told = "Of 3 seeds, each by itself: no leak found in 1, no such measure in 2."
    assert (of_one.leaked, of_one.sentence) == ("inconclusive", told)
    kept = [finding(0, claim=word) for word in ("not refuted", "not testable", "refuted")]
    assert over(kept).claim == "not refuted"
    assert "refuted in 1" in over(kept).claim_sentence


def bound(value: float, **changes: Any) -> EpsilonLower:
    return by_hand.bound(value, **{"m": None, "guesses": None, **changes})


def test_a_bound_over_seeds_is_the_lower_median_never_the_largest() -> None:
    def value(*values: float) -> float:
        found = lower_median([bound(v) for v in values])
        assert found is not None
        return found.value

    assert (value(2.0), value(3.0, 1.0), value(5.0, 1.0, 2.0)) == (2.0, 1.0, 2.0)
    assert lower_median([bound(1.0), bound(2.0, relation="replace")]) is None
    assert lower_median([]) is None


def test_a_seed_without_a_bound_counts_as_one_of_zero() -> None:
    """Else the seeds that could be measured are those where something was found."""
    assert lower_median([None, None, bound(6.2)]) is None
    assert lower_median([None, bound(6.2), bound(1.0)]) == bound(1.0)
    assert lower_median([None, bound(6.2)]) is None
    found = [finding(None, value=None, epsilon_lower=None, sentence="not known")] * 3
    found += [finding(9, epsilon_lower=bound(6.2))]
    assert over(found).epsilon_lower is None
    assert over(found[-1:], seeds=4).epsilon_lower is None  # nor has one without the measure


def test_a_bound_over_seeds_is_seldom_too_high_where_few_can_be_measured() -> None:
    """A seed gives a bound only where its secret ranks high; the truth is 0."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(2000):
        ranks = rng.integers(1, 1001, size=5)
        bounds = [bound(math.log(0.05 * 1000 / r)) if r <= 40 else None for r in ranks]
        found = lower_median(bounds)
        wrong += found is not None and found.value > 0
    assert wrong / 2000 <= 0.05


# --------------------------------------------------------- releases together


def release(epsilon: float | None, seed: int = 0, **changes: Any) -> ReleaseResult:
    claim: dict[str, Any] = {"delta": 0.001}
    for name in ("unit", "relation", "basis", "delta", "alpha", "also"):
        if name in changes:
            claim[name] = changes.pop(name)
    found = changes.pop("findings", [finding(seed)])
    fields: dict[str, Any] = {
        "defense": "dp_sgd",
        "parameters": {"epsilon": epsilon, "k": 8},
        "utility": {"perplexity": measure(4.0 + seed)},
        **changes,
    }
    made: ReleaseResult = by_hand.release(
        fields.pop("defense"), by_hand.guarantee(epsilon, **claim), *found, seed=seed, **fields
    )
    return made


def test_cells_join_the_seeds_of_one_setting_only() -> None:
    releases = [release(1.0), release(3.0), release(1.0, seed=1), release(3.0, seed=1)]
    grouped = cells(releases)
    assert [c.releases for c in grouped] == [[0, 2], [1, 3]]
    assert grouped[0].findings[0].k == 1
    assert grouped[0].utility["perplexity"].value == pytest.approx(math.sqrt(4 * 5))


def test_the_epsilon_of_one_kind_adds_up_and_of_others_never() -> None:
    part = {"unit": "part", "relation": "removed", "basis": "data-dependent", "alpha": 2.0}
    submix = {**part, "delta": None, "defense": "submix"}
    releases = [
        *(release(e, seed=s) for e in (1.0, 3.0) for s in (0, 1)),
        release(2.0, relation="replace"),
        *(release(e, seed=s, **submix) for e in (2.0, 8.0) for s in (0, 1)),
        release(math.inf),
        release(0.0, reference=True),
    ]
    told = summary.joint(releases)
    assert len(told) == 2  # one replace alone adds to nothing
    assert "4 releases with ε per user" in told[0] and "ε = 8 nats at δ = 0.004" in told[0]
    assert "2 releases on one partition (k = 8) with ε per part (removed" in told[1]
    assert "ε = 10 nats" in told[1] and "on each of 2 partitions" in told[1]


def test_defenses_on_one_partition_add_up_under_every_relation_that_holds() -> None:
    part = {"unit": "part", "alpha": 2.0, "delta": None}
    both = {**part, "relation": "replace", "also": ["removed"]}
    releases = [
        release(2.0, defense="submix", basis="data-dependent", relation="removed", **part),
        release(3.0, defense="pmixed", relation="removed", **part),
        release(5.0, defense="gnmax", **both),
        release(7.0, defense="subsample_aggregate", **both),
        release(11.0, defense="gnmax", parameters={"k": 4}, **both),
        release(13.0, defense="gnmax", seed=1, **both),
    ]
    removed, replaced = summary.joint(releases)
    assert "4 releases" in removed and "removed" in removed and "data-dependent" in removed
    assert "ε = 17 nats" in removed
    assert "2 releases" in replaced and "replace" in replaced and "worst case" in replaced
    assert "ε = 12 nats" in replaced


def test_defenses_of_equal_k_and_seed_have_the_same_parts() -> None:
    """What `joint` adds up on one partition is on one partition."""
    names = ("submix", "gnmax", "pmixed", "subsample_aggregate")
    records = [Record(f"u{i % 9}", f"text {i}", split="private") for i in range(30)]
    corpus, model = Corpus("toy", tuple(records)), describe("embedded", EMBEDDED_FOLDER)
    recipe = Recipe(epochs=1, batch_tokens=64, learning_rate=1e-3, max_length=32)
    parts = []
    for name in names:
        defense: Any = registry.plugin("defenses", name, Defense)(k=3)
        made = [set(t.texts) for t in defense.trainings(corpus, model, recipe, 5)]
        halved = name == "submix"
        parts.append([made[i] | made[i + 1] for i in (0, 2, 4)] if halved else made)
    assert parts[0] == parts[1] == parts[2] == parts[3]


# ---------------------------------------------------------------- the headline


def of(defense: str, word: str, claim: str = "not testable", **changes: Any) -> ReleaseResult:
    """A release of which a sweep says this; `none` and `public` are references unless asked for."""
    reference = changes.pop("reference", defense in ("none", "public"))
    found = finding(0, leaked=word, claim=claim)
    changes |= {"parameters": {}} if defense == "none" else {}
    return release(1.0, defense=defense, reference=reference, findings=[found], **changes)


def headline_of(*releases: ReleaseResult) -> str:
    """The headline of these settings over two seeds."""
    both = [r.model_copy(update={"seed": seed}) for seed in (0, 1) for r in releases]
    settings = cells(both)
    answered = [
        cell.model_copy(update={"leaked": r.findings[0].leaked, "claim": r.findings[0].claim})
        for cell, r in zip(settings, releases, strict=True)
    ]
    return " ".join(summary.sweep_headline(both, answered))


NOTHING_SHOWN = "finding no leak shows nothing"


@pytest.mark.parametrize("word", sorted(set(Leaked) - {Leaked.LEAK}))
@pytest.mark.parametrize("audited", ["no leak found", "inconclusive", "leak"])
def test_where_the_undefended_model_did_not_leak_no_leak_shows_nothing(
    word: str, audited: str
) -> None:
    """It said "find a leak in none of the settings" where even `none` had leaked 0 of 40."""
    said = headline_of(of("submix", audited), of("none", word), of("public", "no leak found"))
    assert f"Not even the undefended model was found to leak: {NOTHING_SHOWN}." in said


def test_where_no_undefended_model_ran_no_leak_shows_nothing() -> None:
    said = headline_of(of("submix", "no leak found"), of("dp_sgd", "no leak found"))
    assert f"No undefended model was run beside them: {NOTHING_SHOWN}." in said


@pytest.mark.parametrize("word", sorted(Leaked))
def test_a_null_control_that_leaks_stands_beside_what_leaks(word: str) -> None:
    public = of("public", word, role="null control")
    said = headline_of(of("submix", "leak"), of("none", "leak"), public)
    control = "a leak in 1. The null control leaks: by chance, as one run in twenty, or"
    assert (control in said) == (word == Leaked.LEAK)


@pytest.mark.parametrize("reference", [True, False])
def test_where_the_undefended_model_leaked_silence_is_counted(reference: bool) -> None:
    """As a reference, or asked for as a defense."""
    undefended = of("none", "leak", "nothing claimed", reference=reference)
    said = headline_of(of("submix", "no leak found"), of("dp_sgd", "inconclusive"), undefended)
    assert NOTHING_SHOWN not in said
    assert "no leak in 1 and nothing conclusive in 1: dp_sgd (ε = 1" in said
    leaks = "" if reference else "a leak in 1, "
    assert f"these attacks find {leaks}no leak in 1" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["leak"], "these attacks find a leak in 1."),
        (["leak", "leak"], "these attacks find a leak in 2."),
        (["no leak found"], "these attacks find no leak in 1."),
        (["inconclusive"], "these attacks find nothing conclusive in 1."),
        (["not measured"], "these attacks find nothing conclusive in 1."),
        (["leak", "no leak found", "inconclusive", "not measured"],
         "these attacks find a leak in 1, no leak in 1 and nothing conclusive in 2: submix"),
    ],
)  # fmt: skip
def test_a_headline_counts_settings_by_what_leaked(words: list[str], said: str) -> None:
    mine = [of("submix", word, parameters={"k": k}) for k, word in enumerate(words)]
    assert said in headline_of(*mine, of("none", "leak"))


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        (["not testable", "nothing claimed"], "No claim could be tested."),
        (["not refuted"], "Of 1 claim tested, none is refuted."),
        (["refuted", "not refuted", "unknown"], "Of 2 claims tested, 1 is refuted."),
        (["refuted", "refuted"], "Of 2 claims tested, 2 are refuted."),
    ],
)
def test_a_headline_counts_claims(claims: list[str], said: str) -> None:
    mine = [of("submix", "leak", claim, parameters={"k": k}) for k, claim in enumerate(claims)]
    assert said in headline_of(*mine, of("none", "leak"))


def charged(name: str, **changes: Any) -> ReleaseResult:
    """A release that was asked for its charges alone."""
    test = ChargeTest(queries=9, exceeded=0)
    ledger = finding(None, attack="ledger", unit="times its charge", value=0.5, charge_test=test,
                     leaked="not measured", claim="not refuted")  # fmt: skip
    reference = name == "none"
    return release(1.0, defense=name, findings=[ledger], reference=reference, **changes)


def test_a_setting_that_was_asked_for_its_charges_alone_is_not_inconclusive() -> None:
    """It said "find a leak in none and nothing conclusive in 1"."""
    both = [charged(name, seed=seed) for seed in (0, 1) for name in ("submix", "none")]
    settings = cells(both)
    assert [cell.leaked for cell in settings] == ["not measured"] * 2
    said = " ".join(summary.sweep_headline(both, settings))
    start = "1 setting over 2 seeds, 2 releases: these attacks look for no planted secret."
    assert said.startswith(f"{start} Of 1 claim tested, none is refuted.")
    assert NOTHING_SHOWN not in said
    mixed = [*both, *(of("dp_sgd", "no leak found", seed=seed) for seed in (0, 1))]
    said = " ".join(summary.sweep_headline(mixed, cells(mixed)))
    assert "nothing conclusive in 1 and look for no planted secret in 1." in said


def test_no_headline_ranks_on_one_seed() -> None:
    releases = [release(1.0), release(3.0)]
    assert "not ranked" in summary.sweep_headline(releases, cells(releases))[-1]
    more = [*releases, release(1.0, seed=1), release(3.0, seed=1)]
    assert "not ranked" not in " ".join(summary.sweep_headline(more, cells(more)))


def test_perplexities_beyond_a_float_have_a_mean() -> None:
    assert mean_measure([measure(10.0), measure(1e60)]).value == pytest.approx(10**30.5)
    found = mean_measure([measure(1e300), measure(1e308), measure(2.0)])
    assert found.ci is not None and found.ci[1] > 1e300


# ------------------------------------------------------------- a whole sweep

PLAN = """
attack = ["extraction:generations=10"]
utility_tokens = 64
[planting]
users = 8
[training]
epochs = 1
[sweep]
defense = ["submix:k=2"]
epsilon = [2, 8]
seeds = [0, 1]
"""


def command(folder: Path, *more: str) -> list[str]:
    plan = folder.parent / "plan.toml"
    plan.write_text(PLAN)
    return ["sweep", str(plan), "--output", str(folder), "--format", "json", *more]


def finish(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return audit(*command(folder, "--workers", "1", *more), cwd=folder.parent)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "out"
    ran = finish(folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(folder / "results.json")
    return folder


@pytest.mark.slow
def test_one_results_json_holds_every_seed_and_fits_the_schema(done: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads((done / "results.json").read_text("utf-8"))
    jsonschema.validate(document, schema.schema())
    loaded = stored.load(done / "results.json")
    assert loaded.sweep is not None
    assert sorted({r.seed for r in loaded.releases}) == [0, 1]
    assert all(len(cell.releases) == 2 for cell in loaded.sweep.cells)
    names = [loaded.releases[c.releases[0]].defense for c in loaded.sweep.cells]
    assert names == [*["submix", "submix_unprotected"] * 2, "none", "public"]
    assert document["plan"]["sweep"]["epsilon"] == [2.0, 8.0]
    assert len(list((done / "stages").glob("trained-*"))) == 2 * (4 + 1)  # members, none
    audited = 2 + 1 + 2  # two settings, their members without protection once, none, public
    sessions = list((done / "stages").glob("session-*"))
    assert len(sessions) == 2 * 3 * audited  # seeds; utility, completion, extraction
    bare = [r for r in loaded.releases if r.defense == "submix_unprotected" and r.seed == 0]
    assert bare[0].findings == bare[1].findings and bare[0].utility == bare[1].utility


@pytest.mark.slow
def test_a_seed_of_a_sweep_is_the_run_of_that_seed(done: Path, tmp_path: Path) -> None:
    plan = PLAN.split("[sweep]")[0].replace(
        "attack =", 'defense = ["submix:epsilon=2,k=2"]\nattack ='
    )
    (tmp_path / "run.toml").write_text(plan)
    line = ("run", "--plan", "run.toml", "--seed", "1", "--workers", "1")
    ran = audit(*line, "--output", "one", "--format", "json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    alone = json.loads((tmp_path / "one" / "results.json").read_text("utf-8"))["releases"]
    assert "sweep" not in json.loads((tmp_path / "one" / "results.json").read_text("utf-8"))
    swept = json.loads((done / "seeds" / "1" / "results.json").read_text("utf-8"))["releases"]
    for mine in alone:
        mine.pop("cost")
    kept = [{k: v for k, v in r.items() if k != "cost"} for r in swept]
    assert all(mine in kept for mine in alone)


@pytest.mark.slow
def test_it_verifies_with_all_its_seeds(done: Path) -> None:
    found = verify(done)
    assert found.differences == ()
    seeds = [line for line in found.verified if line.startswith("seeds/")]
    assert len(seeds) == 4 and any("settings over 2 seeds" in line for line in found.verified)
    assert audit("verify", done / "seeds" / "0").returncode == 0


@pytest.mark.slow
def test_edits_of_a_cell_and_of_a_seed_are_found(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done, copy, symlinks=True)
    path = copy / "results.json"
    document = json.loads(path.read_text("utf-8"))
    document["sweep"]["cells"][0]["utility"]["perplexity"]["value"] = 1.0
    document["sweep"]["cells"][0]["findings"][0]["p_value"] = 0.9
    document["sweep"]["seeds"][1]["twins"] += 1
    path.write_text(json.dumps(document))
    sums.write(copy)
    lines = verify(copy).differences
    said = "sweep.cells.0.utility.perplexity.value: stands 1.0"
    assert any(line.startswith(said) for line in lines)
    assert any("p_value: stands 0.9" in line for line in lines)
    assert any(line.startswith("sweep.seeds.1.twins") for line in lines)

    shutil.copy(done / "results.json", path)
    seed = copy / "seeds" / "0" / "results.json"
    document = json.loads(seed.read_text("utf-8"))
    document["releases"][0]["findings"][0]["value"] = 0.75
    seed.write_text(json.dumps(document))
    sums.write(copy)
    lines = verify(copy).differences
    assert any(line.startswith("seeds/0: results.json: was changed") for line in lines)
    assert any(line.startswith("seeds/0: releases.") and "0.75" in line for line in lines)


@pytest.mark.slow
def test_finished_seeds_are_not_run_again(done: Path) -> None:
    before, began = comparable(done), time.monotonic()
    ran = finish(done)
    assert ran.returncode == 0 and comparable(done) == before
    assert "2 of 2 seeds done before" in ran.stderr and "attacking" not in ran.stderr
    assert time.monotonic() - began < 30


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, pytest.param(0.7, marks=pytest.mark.full)])
def test_killed_at_any_moment_it_resumes_to_the_same_results(
    done: Path, tmp_path: Path, share: float
) -> None:
    folder = tmp_path / "killed"
    whole = json.loads((done / "results.json").read_text("utf-8"))["environment"]["seconds"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = [sys.executable, "-m", "audit", *command(folder)]
    process = subprocess.Popen(words, cwd=tmp_path, **quiet)
    while not (folder / "manifest.json").exists():
        time.sleep(0.05)
    time.sleep(share * whole)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert finish(folder).returncode == 0
    assert comparable(folder) == comparable(done)


@pytest.mark.slow
def test_a_dry_run_prints_the_grid_and_the_trainings_it_shares(tmp_path: Path) -> None:
    ran = finish(tmp_path / "dry", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "dry").exists()
    assert "submix:k=2:" in ran.stdout and "submix:epsilon=8.0,k=2:" in ran.stdout
    # both ε share the four members of each seed; `none` makes a fifth
    assert "trainings: 10 in all; 8 more are wanted and shared; 0 are finished" in ran.stdout


def test_dry_run_counts_the_processes_of_each_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(sweep, "estimate", lambda run, *how: asked.append(how))
    (tmp_path / "plan.toml").write_text(
        'defense = "dp_sgd"\nattack = "membership"\nprocesses = 3\n[sweep]\nseeds = [1]\n'
    )
    api.planned_sweep(tmp_path / "plan.toml", output=tmp_path / "out").describe()
    assert asked == [(0, 3)]


def test_a_bad_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[sweep]\ndefense = ["submix"]\nseed = [1]\n')
    ran = audit("sweep", "plan.toml", cwd=tmp_path)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "did you mean 'seeds'" in ran.stderr


def test_a_headline_counts_the_settings_whose_sessions_stopped_early() -> None:
    """Beyond that the perplexity is the public model's."""
    ended = SessionResult(
        purpose="utility", queries=9, answered=3, budget=9, remaining=0, stopped_at=3,
        epsilon_spent=[1.0],
    )  # fmt: skip
    open_, stopped = (
        of("submix", "no leak found", parameters={"k": k}).model_copy(update={"sessions": sessions})
        for k, sessions in ((2, []), (4, [ended]))
    )
    assert "its session stopped early in 1 of 2 settings." in headline_of(open_, stopped)
    assert "stopped early" not in headline_of(open_)
