"""Results of version 1, which had one verdict: both answers are given again, no leak is lost."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from audit.core.errors import UsageError
from audit.core.terms import Leaked
from audit.findings import stored
from audit.gate import verdict
from audit.gate.policy import Policy
from audit.results.schema import Results, to_json

TODAY = datetime.date(2030, 6, 15)
REAL = Path(__file__).parent / "version_1.json"
LEAKS = ("refuted", "consistent", "not comparable")
WORDS = (*LEAKS, "silent", "inconclusive", "not measured")

CLAIM = {
    "epsilon": 8.0, "delta": 1e-5, "alpha": None, "unit": "user", "relation": "add_or_remove",
    "release": "model", "basis": "worst case", "theorem": "t", "conditions": [],
    "published_epsilon": None,
}  # fmt: skip
BOUND = {
    "value": 2.97, "method": "one_run", "hypothesis": "none", "unit": "user",
    "relation": "add_or_remove", "delta": 1e-5, "confidence": 0.95, "m": 120, "r": 80, "v": 80,
    "rank": None, "space": None, "n": None,
}  # fmt: skip


def finding(word: str, p: float | None = 0.5, **changes: Any) -> dict[str, Any]:
    """A finding as version 1 wrote it."""
    fields = {
        "attack": "name_leak", "metric": "targeted", "access": "score", "unit": "share of secrets",
        "value": 0.96, "ci": [0.9, 0.989], "confidence": 0.95, "method": "Clopper-Pearson",
        "k": 96, "n": 100, "chance": 0.95, "control": None, "p_value": p, "sides": 1,
        "test": "name_leak targeted", "epsilon_lower": None,
        "power": {"smallest_rate": 0.03, "largest_epsilon": None, "n": 100},
        "verdict": word, "sentence": f"It says {word}.",
    }  # fmt: skip
    return {**fields, **changes}


def document(*findings: dict[str, Any], tests: int = 0, **claim: Any) -> dict[str, Any]:
    """A run as version 1 wrote it."""
    release = {
        "defense": "as_is", "parameters": {}, "seed": 0, "reference": False, "role": "audited",
        "guarantee": {**CLAIM, **claim}, "utility": {}, "sessions": [], "findings": [*findings],
        "cost": {"train_tokens": 1, "queries": 2, "seconds": 0.5}, "tests": tests,
    }  # fmt: skip
    corpus = {
        "name": "c", "sha256": "a", "records": 9, "users": 9, "near_duplicates": 0,
        "planted_users": 120, "trained_users": 60, "twins": 60,
    }  # fmt: skip
    return {
        "schema_version": "1", "status": "complete", "headline": "All is quiet.",
        "not_tested": [], "warnings": ["w"], "reproduce": "audit run", "plan": {"hash": "a"},
        "environment": {}, "corpus": corpus, "releases": [release],
    }  # fmt: skip


def load(folder: Path, given: dict[str, Any]) -> Results:
    path = folder / "results.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    return stored.load(path)


def answers(folder: Path, *findings: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    (release,) = load(folder, document(*findings, **more)).releases
    return [(str(f.leaked), str(f.claim)) for f in release.findings]


# what leaked


@pytest.mark.parametrize("word", LEAKS)
@pytest.mark.parametrize("p", [1e-9, 0.04, 0.5, None])
@pytest.mark.parametrize("shown", [{}, {"chance": 0.99}, {"value": None, "k": None, "ci": None}])
def test_no_leak_is_demoted(
    word: str, p: float | None, shown: dict[str, Any], tmp_path: Path
) -> None:
    """Not even one that its own p-value does not bear out: version 1 knew what it measured."""
    (release,) = load(tmp_path, document(finding(word, p, **shown), tests=40)).releases
    assert release.findings[0].leaked == release.leaked == "leak"
    assert release.findings[0].sentence == f"It says {word}."


@pytest.mark.parametrize("word", ["silent", "inconclusive", "not measured"])
def test_a_rejected_test_is_a_leak_whatever_it_was_called(word: str, tmp_path: Path) -> None:
    """A median below its nominal chance, a claim above what the coins could show."""
    hidden = finding(word, 1e-9, chance=0.99)
    (release,) = load(tmp_path, document(hidden, tests=40)).releases
    assert release.findings[0].leaked == release.leaked == "leak"
    assert "adjusted p = 4e-08" in release.findings[0].sentence


@pytest.mark.parametrize(
    ("word", "p", "tests", "leaked"),
    [
        ("silent", 0.5, 1, "no leak found"),
        ("silent", 0.051, 20, "no leak found"),
        ("silent", 0.049, 20, "inconclusive"),  # by itself it is rejected
        ("silent", 0.049, 1, "leak"),
        ("silent", None, 1, "inconclusive"),  # nothing that bears it out
        ("inconclusive", 0.5, 1, "inconclusive"),
        ("inconclusive", 0.04, 20, "inconclusive"),
        ("inconclusive", None, 1, "inconclusive"),
        ("a word of nobody", 0.5, 1, "inconclusive"),
    ],
)
def test_where_numbers_do_not_suffice_it_is_inconclusive(
    word: str, p: float | None, tests: int, leaked: str, tmp_path: Path
) -> None:
    assert answers(tmp_path, finding(word, p), tests=tests)[0][0] == leaked


def test_silence_beside_a_bound_is_inconclusive(tmp_path: Path) -> None:
    bound = {**BOUND, "v": 60, "value": 0.5}
    assert answers(tmp_path, finding("silent", epsilon_lower=bound))[0][0] == "inconclusive"
    bound = {**BOUND, "v": 40, "value": 0.0}
    assert answers(tmp_path, finding("silent", epsilon_lower=bound))[0][0] == "no leak found"
    above = finding("silent", chance=0.5)  # and there are no twins
    assert answers(tmp_path, above)[0][0] == "inconclusive"


def test_what_was_not_measured_still_says_why(tmp_path: Path) -> None:
    unread = finding("not measured", None, value=None, ci=None, k=None, n=0)
    (read,) = load(tmp_path, document(unread)).releases[0].findings
    assert (read.leaked, read.sentence) == ("not measured", "It says not measured.")
    for word in ("not measured", "silent"):
        shown = [{**unread, "p_value": 0.5, "verdict": word}, finding("silent", metric="other")]
        words = [leaked for leaked, _ in answers(tmp_path, *shown)]
        assert words == ["not measured", "no leak found"]
    beside = finding("consistent", 1e-9, metric="other")
    (read, _) = load(tmp_path, document({**unread, "p_value": 1e-9}, beside)).releases[0].findings
    assert (read.leaked, read.sentence) == ("not measured", "It says not measured.")


# what it says about the claim


@pytest.mark.parametrize(
    ("word", "v", "claim", "answer"),
    [
        ("inconclusive", 80, {}, "not testable"),  # 120 coins refute at most 2.97
        ("consistent", 80, {"epsilon": 2.0}, "refuted"),
        ("silent", 40, {"epsilon": 2.0}, "not refuted"),
        ("refuted", 80, {"epsilon": 2.0}, "refuted"),
        ("refuted", 60, {"epsilon": 2.0}, "refuted"),  # as it was
        ("consistent", 80, {"epsilon": "inf"}, "nothing claimed"),
        ("not comparable", 80, {"epsilon": None}, "unknown"),
        ("not comparable", 80, {"epsilon": 2.0, "unit": "record"}, "not testable"),
    ],
)
def test_the_claim_is_answered_from_the_bound(
    word: str, v: int, claim: dict[str, Any], answer: str, tmp_path: Path
) -> None:
    given = finding(word, 1e-9, epsilon_lower={**BOUND, "v": v})
    results = load(tmp_path, document(given, tests=1, **claim))
    assert (results.releases[0].findings[0].claim, results.releases[0].claim) == (answer,) * 2


def test_a_bound_without_its_evidence_is_read(tmp_path: Path) -> None:
    bare = {**BOUND, **dict.fromkeys(("m", "r", "v"))}
    given = finding("consistent", 1e-9, epsilon_lower=bare)
    assert answers(tmp_path, given, epsilon=2.0) == [("leak", "not testable")]


# the whole


def test_an_undefended_model_under_a_claim_of_eight_is_a_leak(tmp_path: Path) -> None:
    """Names 96 of 100 at p = 9e-13: version 1 said "inconclusive", and the gate let it pass."""
    hidden = finding("inconclusive", 9e-13, epsilon_lower=BOUND)
    results = load(tmp_path, document(hidden, tests=18))
    (release,) = results.releases
    assert (release.leaked, release.claim) == ("leak", "not testable")
    assert "a leak by name_leak (targeted 96 of 100)" in results.headline
    assert "not tested by these attacks" in results.headline
    outcome = verdict(results, Policy(), None, TODAY)
    assert outcome.exit_code == 1
    assert [c.id for c in outcome.checks if c.state == "FAIL"] == ["leak/as_is/name_leak.targeted"]


def test_it_says_that_it_was_answered_again_and_is_written_as_version_2(tmp_path: Path) -> None:
    results = load(tmp_path, document(finding("silent"), finding("consistent", metric="b")))
    assert results.warnings[0] == "w" and "schema version 1" in results.warnings[1]
    (tmp_path / "results.json").write_text(to_json(results), encoding="utf-8")
    again = stored.load(tmp_path / "results.json")
    assert again == results and again.schema_version == "2"


def test_the_accounting_of_a_claim_is_checked_all_the_same(tmp_path: Path) -> None:
    term = {"noise_multiplier": 0.1, "count": 1, "sampling_probability": 1.0, "records": 1}
    table = {"relation": "add_or_remove", "delta": 1e-5, "terms": [term]}
    with pytest.raises(UsageError, match="its own accounting gives"):
        load(tmp_path, document(finding("silent"), accounting=table))


def test_the_settings_of_a_sweep_are_answered_again(tmp_path: Path) -> None:
    hidden, quiet = finding("inconclusive", 9e-13, epsilon_lower=BOUND), finding("silent")
    given = document(hidden, tests=18)
    settings = [{"releases": [0], "utility": {}, "findings": [f]} for f in (hidden, quiet)]
    given["sweep"] = {"seeds": [], "cells": settings}
    results = load(tmp_path, given)
    assert results.sweep is not None
    words = [(cell.leaked, cell.claim) for cell in results.sweep.cells]
    assert words == [("leak", "not testable"), ("no leak found", "not testable")]
    assert results.headline == "Of 2 settings, references included, 1 leak."


def test_a_setting_is_held_to_the_weakest_claim_of_its_seeds(tmp_path: Path) -> None:
    """2.97 nats refute the claim of one seed, and not that of the other."""
    loud = finding("consistent", 1e-9, epsilon_lower=BOUND)
    for places, word in (([0, 1], "not testable"), ([1, 0], "not testable"), ([0], "refuted")):
        given = document(loud, tests=1, epsilon=2.0)
        (weak,) = document(loud, tests=1, epsilon=8.0)["releases"]
        given["releases"].append({**weak, "seed": 1})
        cell = {"releases": places, "utility": {}, "findings": [loud]}
        given["sweep"] = {"seeds": [], "cells": [cell]}
        sweep = load(tmp_path, given).sweep
        assert sweep is not None and sweep.cells[0].claim == word


@pytest.mark.parametrize("places", [[], [3], [-1]])
def test_a_setting_of_no_release_is_refused(places: list[int], tmp_path: Path) -> None:
    given = document(finding("silent"))
    cell = {"releases": places, "utility": {}, "findings": []}
    given["sweep"] = {"seeds": [], "cells": [cell]}
    with pytest.raises(UsageError, match="a setting of the sweep names releases"):
        load(tmp_path, given)


@pytest.mark.parametrize(
    "edit",
    [
        {"releases": None},
        {"releases": 3},
        {"releases": [None]},
        {"releases": [{"findings": None}]},
        {"releases": [{"findings": [None]}]},
        {"sweep": 3},
        {"sweep": {"cells": None}},
        {"sweep": {"cells": [3]}},
    ],
)
def test_what_is_broken_is_refused_in_one_line(edit: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, {**document(finding("silent")), **edit})
    assert "\n" not in str(raised.value)


# all of them


@st.composite
def any_finding(draw: st.DrawFn, place: int) -> dict[str, Any]:
    bound = {**BOUND, "v": draw(st.integers(0, 80)), "value": draw(st.sampled_from([0.0, 1.5]))}
    measured = draw(st.booleans())
    unread = {} if measured else {"value": None, "ci": None, "k": None, "n": 0}
    return finding(
        draw(st.sampled_from(WORDS)),
        draw(st.none() | st.floats(1e-12, 1.0) | st.sampled_from([1e-9, 0.04, 0.06])),
        metric=f"m{place}",
        test=f"test {place}",
        epsilon_lower=draw(st.sampled_from([None, bound])),
        stronger_than_release=draw(st.booleans()),
        **unread,
    )


@for_all(
    st.integers(1, 5).flatmap(lambda n: st.tuples(*(any_finding(place) for place in range(n)))),
    st.sampled_from([0, 1, 9, 30]),
    st.sampled_from([0.0, 1.0, 2.0, 8.0]),
)
def test_every_document_is_read_and_none_loses_a_leak(
    tmp_path_factory: pytest.TempPathFactory,
    findings: tuple[dict[str, Any], ...],
    tests: int,
    epsilon: float,
) -> None:
    folder = tmp_path_factory.mktemp("version_1")
    (release,) = load(folder, document(*findings, tests=tests, epsilon=epsilon)).releases
    size = max(tests, sum(f["p_value"] is not None for f in findings))
    for before, after in zip(findings, release.findings, strict=True):
        p = before["p_value"]
        if before["verdict"] in LEAKS or (p is not None and p * size < 0.05):
            assert after.leaked == Leaked.LEAK
        if before["verdict"] == "refuted":
            assert after.claim == "refuted" == release.claim
        if after.leaked == Leaked.NONE_FOUND:
            assert before["verdict"] == "silent" and p >= 0.05


# a run of the audit that wrote version 1


def test_a_real_run_of_version_1() -> None:
    """dp_sgd under its default claim, redaction, and the references, over the embedded corpus."""
    before = json.loads(REAL.read_text(encoding="utf-8"))
    results = stored.load(REAL)
    assert before["schema_version"] == "1" and len(results.releases) == len(before["releases"])
    changed = set()
    for old, new in zip(before["releases"], results.releases, strict=True):
        for was, now in zip(old["findings"], new.findings, strict=True):
            changed.add((was["verdict"], str(now.leaked)))
            assert (was["value"] is None) == (now.value is None)
    assert changed == {
        ("consistent", "leak"),
        ("silent", "no leak found"),
        ("inconclusive", "inconclusive"),
        ("not measured", "not measured"),
    }
    words = {r.defense: (str(r.leaked), str(r.claim)) for r in results.releases}
    assert words == {
        "dp_sgd": ("no leak found", "not testable"),
        "redaction": ("leak", "nothing claimed"),
        "none": ("leak", "nothing claimed"),
        "public": ("no leak found", "not testable"),
    }
    for name in (
        "no leak found by extraction, exposure, membership.",
        "a leak by membership (record",
    ):
        assert name in results.headline
    outcome = verdict(results, Policy(), None, TODAY)
    assert outcome.exit_code == 1
    assert {c.release for c in outcome.checks if c.state == "FAIL"} == {"redaction"}


def test_a_real_run_in_which_a_leak_was_hidden(tmp_path: Path) -> None:
    """The undefended model's findings under the claim of dp_sgd, called inconclusive."""
    before = json.loads(REAL.read_text(encoding="utf-8"))
    by_name = {release["defense"]: release for release in before["releases"]}
    hidden = [{**f, "verdict": "inconclusive"} for f in by_name["none"]["findings"]]
    by_name["dp_sgd"]["findings"] = hidden
    results = load(tmp_path, before)
    outcome = verdict(results, Policy(), None, TODAY)
    failed = {c.subject.partition(".")[0] for c in outcome.checks
              if c.state == "FAIL" and c.release == "dp_sgd"}  # fmt: skip
    assert failed == {"extraction", "exposure", "membership"}
