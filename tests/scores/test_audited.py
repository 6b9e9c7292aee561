"""Scores of a trainer and an attack of others: the numbers, the level, and what silence needs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from audit import api
from audit.core import Guarantee, UsageError
from audit.core.terms import Leaked, OnClaim, Shown
from audit.results.schema import Results, schema

DRAWS = np.random.default_rng(3)
BEACONS = (np.array([9.0, 8.0]), DRAWS.normal(size=(2, 999)))
CONTROL = (DRAWS.normal(3.0, 1.0, 60), DRAWS.normal(size=60))
BOTH: dict[str, Any] = {"control": CONTROL, "beacons": BEACONS}


def people(draws: np.random.Generator, shift: float, n: int = 60) -> tuple[Any, Any]:
    return draws.normal(shift, 1.0, n), draws.normal(size=n)


def test_separated_scores_have_the_numbers_of_hand() -> None:
    """Ten people above ten others: one of C(20, 10) splits, and every guess is right."""
    seen = api.audit_scores(range(11, 21), range(1, 11), delta=0.0, claim=0.1)
    (release,) = seen.results.releases
    by_metric = {f.metric: f for f in release.findings}
    assert by_metric["person_score_auc"].value == 1.0
    above = by_metric["person_score_above_all"]
    assert (above.k, above.n) == (10, 10)
    assert above.p_value == pytest.approx(1 / math.comb(20, 10), rel=1e-5)
    assert seen.leaked == Leaked.LEAK and 1 / 10_000 <= seen.p_value <= 0.001
    bound = seen.epsilon_lower
    assert (bound.unit, bound.relation, bound.m) == ("user", "add_or_remove", 20)
    # of 12 guesses, all right, at most: (1 + e^-ε)^-12 = 0.05
    assert 0.3 < bound.value <= -math.log(0.05 ** (-1 / 12) - 1)
    assert seen.claim == OnClaim.REFUTED


def test_auc_counts_pairs_and_ties_half() -> None:
    inside, outside = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4]
    pairs = [(a > b) + (a == b) / 2 for a in inside for b in outside]
    seen = api.audit_scores(inside, outside).results.releases[0].findings[0]
    assert seen.value == pytest.approx(sum(pairs) / len(pairs), rel=1e-5)


def test_order_of_scores_alone_decides() -> None:
    inside, outside = people(np.random.default_rng(5), 0.5)
    one = api.audit_scores(inside, outside).results.releases[0].findings
    other = api.audit_scores(np.exp(inside), np.exp(outside)).results.releases[0].findings
    assert [(f.metric, f.value, f.p_value) for f in one] == [
        (f.metric, f.value, f.p_value) for f in other
    ]


def test_scores_of_auc_nine_tenths_are_a_leak() -> None:
    shift = 2**0.5 * 1.2816  # Φ(shift/√2) = 0.9
    for seed in range(5):
        seen = api.audit_scores(*people(np.random.default_rng(seed), shift), **BOTH)
        assert seen.leaked == Leaked.LEAK and seen.epsilon_lower.value > 0
        assert seen.silence.contact.state == Shown.SHOWN
        assert seen.silence.sight.state == seen.silence.reach.state == Shown.NOT_NEEDED


@pytest.mark.calibration
@pytest.mark.parametrize("levels", [0, 4], ids=["normal", "tied"])
def test_nothing_leaking_is_called_a_leak_in_one_run_of_twenty(levels: int) -> None:
    """levels: scores that are whole numbers up to it, so with ties; 0: normal ones."""
    found, runs, draws = {*Leaked}, 200, np.random.default_rng(11)
    words = dict.fromkeys(found, 0)
    for _ in range(runs):
        heads = draws.random(120) < 0.5
        scores = draws.integers(levels, size=120) if levels else draws.normal(size=120)
        words[api.audit_scores(scores[heads], scores[~heads], **BOTH).leaked] += 1
    assert words[Leaked.LEAK] <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5
    assert words[Leaked.NONE_FOUND] >= 0.8 * runs


def quiet(**more: Any) -> Any:
    return api.audit_scores(*people(np.random.default_rng(4), 0.0), **more)


def test_silence_needs_beacons_and_control_of_this_call() -> None:
    seen = quiet(**BOTH)
    assert seen.leaked == Leaked.NONE_FOUND and "no leak found" in seen.sentence
    links = (seen.silence.contact, seen.silence.sight, seen.silence.reach)
    assert [link.state for link in links] == [Shown.SHOWN] * 3
    noise = np.random.default_rng(8)
    few = (CONTROL[0][:40], CONTROL[1][:40])
    unknown = (np.zeros(2), BEACONS[1])
    for link, faulty in {
        "contact": [{"control": CONTROL}, {**BOTH, "beacons": unknown},
                    {**BOTH, "beacons": (9.0, BEACONS[1][0, :99])}],
        "sight": [{"beacons": BEACONS}, {**BOTH, "control": people(noise, 0.0)},
                  {**BOTH, "control": few}],
    }.items():  # fmt: skip
        for given in faulty:
            seen = quiet(**given)
            missing = getattr(seen.silence, link)
            assert seen.leaked == Leaked.INCONCLUSIVE and missing.state == Shown.NOT_SHOWN
            assert missing.by.rstrip(".") in seen.sentence
    assert quiet().leaked == Leaked.INCONCLUSIVE


def test_few_people_reach_nothing() -> None:
    seen = api.audit_scores(*people(np.random.default_rng(4), 0.0, 12), **BOTH)
    assert seen.leaked == Leaked.INCONCLUSIVE and seen.silence.reach.state == Shown.NOT_SHOWN


def test_claims_are_numbers_or_guarantees() -> None:
    guarantee = Guarantee(2.0, "part", "removed", "model", "worst case", "a theorem")
    assert quiet().claim == OnClaim.UNKNOWN
    assert quiet(claim=math.inf).claim == OnClaim.NOTHING_CLAIMED
    assert quiet(claim=1).claim == OnClaim.NOT_REFUTED
    assert quiet(claim=guarantee).claim == OnClaim.NOT_TESTABLE  # of another unit


def test_written_files_are_read_as_a_run(tmp_path: Path) -> None:
    seen = quiet(**BOTH, claim=1.0)
    written = seen.write(tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["results.json", "report.html"]
    text = written[0].read_text(encoding="utf-8")
    assert text == seen.to_json() and Results.model_validate_json(text) == seen.results
    jsonschema.validate(json.loads(text), schema())
    assert api.load(written[0].parent) == seen.results
    page = written[1].read_text(encoding="utf-8")
    assert "no leak found by scores" in page and "trained no model" in page
    assert quiet(**BOTH, claim=1.0).to_json() == text
    with pytest.raises(UsageError, match="cannot be made"):
        seen.write(written[0] / "below")


NOTHING = float("nan")
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("in_scores: 3 scores; give those of 10 or more", {"in_scores": [1, 2, 3]}),
    ("in_scores: 0 scores; give those of 10 or more", {"in_scores": []}),
    ("in_scores: the score at place 1 is nan", {"in_scores": [1.0, NOTHING] * 9}),
    ("out_scores: the score at place 0 is -inf", {"out_scores": [-math.inf, 1.0] * 9}),
    ("in_scores: holds what is not a number", {"in_scores": ["0.5"] * 12}),
    ("in_scores: holds what is not a number", {"in_scores": "0.5"}),
    ("in_scores: holds what is not a number", {"in_scores": None}),
    ("in_scores: has 2 dimensions", {"in_scores": np.ones((12, 2))}),
    ("in_scores: cannot be read as numbers", {"in_scores": [[1.0], [1.0, 2.0]]}),
    ("every score is 2; check", {"in_scores": [2] * 12, "out_scores": [2] * 12}),
    ("which fair coins do not give", {"out_scores": range(200)}),
    ("delta: 1 is not a number", {"delta": 1}),
    ("delta: '1e-5' is not a number", {"delta": "1e-5"}),
    ("claim: 'eight' is neither", {"claim": "eight"}),
    ("claim: -1 is neither", {"claim": -1}),
    ("claim: nan is neither", {"claim": NOTHING}),
    ("claim: True is neither", {"claim": True}),
    ("control: is not a pair", {"control": CONTROL[0]}),
    ("control[1]: 2 scores", {"control": (CONTROL[0], [1, 2])}),
    ("beacons: is not a pair", {"beacons": 7}),
    ("beacons[0]: the score at place 0 is nan", {"beacons": (NOTHING, [1.0] * 999)}),
    ("beacons: 2 beacons, and candidates of shape (1, 99)", {"beacons": ([1, 2], range(99))}),
    ("beacons: no candidates", {"beacons": (1.0, [])}),
]


def test_wrong_inputs_are_refused_in_one_line() -> None:
    for message, given in WRONG:
        scores = {"in_scores": range(20), "out_scores": range(5, 25), **given}
        with pytest.raises(UsageError) as raised:
            api.audit_scores(**scores)
        assert message in str(raised.value) and "\n" not in str(raised.value)


def test_scores_are_audited_without_torch() -> None:
    code = (
        "import sys; from audit import api; seen = api.audit_scores(range(20), range(20)); "
        "seen.to_json(); print({'torch', 'transformers'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "set()\n"
