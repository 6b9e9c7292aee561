"""Attacks beside each other: one more changes no number of another, only what it is judged by."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from audit.findings.stored import load as results_of
from audit.plugins import registry
from audit.results.schema import ReleaseResult, Results
from tests.builders import planned, run_of, write_rows

EXTRACTION = "extraction:generations=30,searched=20,suffix=4"
OTHERS = {
    "exposure": "exposure:budget=200,samples=50",
    "membership": "membership",
    "name_leak": "name_leak:generations=8,length=6,decoys=2",
}
BESIDE = [text for name, text in OTHERS.items() if name in registry.names("attacks")]
UTILITY = ("utility", "completion")
AT_END = "utility at the end"
# Holm over more tests moves what is judged, and what could have been refuted
MAY_MOVE = {
    *("leaked", "sentence", "claim", "claim_sentence", "power"),
    *("adjusted_p", "guesses_p", "silence"),  # for the tests of all attacks
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    """ran(*attacks) -> results of a run of 16 users, twelve epochs of two short texts each."""
    folder = tmp_path_factory.mktemp("runs")
    names = ["Ann", "Ben", "Cat", "Dan", "Eve", "Fay", "Gus", "Hal"]
    rows = [
        {
            "user": f"u{i}",
            "name": f"{names[i % 8]} {'Lee' if i < 8 else 'Orr' if i < 16 else 'Poe'}",
            "text": text.format(names[i % 8], "Lee" if i < 8 else "Orr" if i < 16 else "Poe", i),
            "split": "private" if i < 16 else "heldout",
        }
        for i in range(22)
        for text in ("Hello, this is {} {}, number {}.", "Thank you, and bye from {} {}! {}")
    ]
    corpus = write_rows(folder / "own.jsonl", rows)
    done: dict[tuple[str, ...], Results] = {}

    def results(*attacks: str) -> Results:
        if attacks not in done:
            plan = planned(
                corpus,
                defense=["submix:k=2,budget=300"],
                attack=attacks,
                utility_tokens=64,
                planting={"users": 16, "code_digits": 3, "id_digits": 3, "id_copies": [1, 4]},
                training={"epochs": 12},
            )
            output = folder / str(len(done))
            if done:  # trainings are the same
                own = shutil.ignore_patterns("session-*", "mask.key", "owner-*")
                shutil.copytree(folder / "0" / "stages", output / "stages", ignore=own)
            done[attacks] = results_of(run_of(plan, output) / "results.json")
        return done[attacks]

    return results


def of_extraction(release: ReleaseResult) -> dict[str, dict[str, Any]]:
    """Its findings by metric, as far as no other attack may move them."""
    found = {}
    for finding in release.findings:
        if finding.attack == EXTRACTION:
            found[finding.metric] = finding.model_dump(exclude=MAY_MOVE)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("order", ["first", pytest.param("last", marks=pytest.mark.full)])
def test_an_attack_beside_another_changes_no_number_of_it(
    ran: Callable[..., Results], order: str
) -> None:
    alone = ran(EXTRACTION)
    beside = ran(EXTRACTION, *BESIDE) if order == "first" else ran(*BESIDE, EXTRACTION)
    assert len({f.attack for f in beside.releases[0].findings}) == 1 + len(BESIDE)
    assert [r.defense for r in alone.releases] == [r.defense for r in beside.releases]
    for one, other in zip(alone.releases, beside.releases, strict=True):
        assert of_extraction(other) == of_extraction(one), one.defense
        assert one.utility == other.utility
        mine, its = (
            {s.purpose: s for s in r.sessions if s.purpose in (*UTILITY, EXTRACTION)}
            for r in (one, other)
        )
        assert mine == its and len(mine) == 3


@pytest.mark.slow
def test_the_numbers_that_may_not_move_are_there(ran: Callable[..., Results]) -> None:
    """Not everything is null: else nothing could have moved."""
    release = {r.defense: r for r in ran(EXTRACTION).releases}["none"]
    found = of_extraction(release)
    metrics = ["hit_rate", "recall", "probability", "discoverable", "searched_rate",
               "searched_recall", "verbatim"]  # fmt: skip
    assert list(found) == metrics
    for metric in metrics:
        assert found[metric]["value"] is not None and found[metric]["ci"] is not None
        assert found[metric]["p_value"] is not None and found[metric]["control"] is not None
    assert found["hit_rate"]["epsilon_lower"] is not None
    assert found["probability"]["value"] > 2 * found["probability"]["chance"]  # it has learnt


@pytest.mark.slow
def test_every_session_keeps_to_its_budget_and_says_what_it_asked(
    ran: Callable[..., Results],
) -> None:
    for release in ran(EXTRACTION, *BESIDE).releases:
        at_end = [AT_END] if "perplexity_at_end" in release.utility else []
        assert not at_end or release.defense == "none"  # which alone looks for its best step
        assert [s.purpose for s in release.sessions] == [*UTILITY, *at_end, EXTRACTION, *BESIDE]
        for session in release.sessions:
            assert session.answered <= session.queries
            if session.budget is not None:
                assert session.answered <= session.budget == 300
                # as many records are completed whatever the budget: the rest comes after STOP
                assert session.queries <= 300 or session.purpose == "completion"


@pytest.mark.slow
def test_more_tests_make_a_leak_no_easier_to_find(ran: Callable[..., Results]) -> None:
    alone, beside = ran(EXTRACTION), ran(EXTRACTION, *BESIDE)
    for one, other in zip(alone.releases, beside.releases, strict=True):
        rates = [r.findings[0].power.detectable_rate for r in (one, other)]
        assert rates[0] is None or rates[1] is None or rates[0] <= rates[1]


@pytest.mark.slow
def test_all_attacks_say_something_of_the_undefended_model(ran: Callable[..., Results]) -> None:
    results = ran(EXTRACTION, *BESIDE)
    release = {r.defense: r for r in results.releases}["none"]
    for attack in (EXTRACTION, *BESIDE):
        found = [f for f in release.findings if f.attack == attack]
        assert any(f.value is not None for f in found), attack
        assert len({f.metric for f in found}) == len(found)
    assert all(name not in results.not_tested[0] for name in ("exposure", "membership"))
