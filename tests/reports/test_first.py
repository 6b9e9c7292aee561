"""The first screen answers: may it be shipped, what was promised, what leaked, at what cost."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.core.terms import Unit
from audit.gate import stored
from audit.gate.outcome import Outcome, State
from audit.gate.stored import Gated
from audit.results import badge
from audit.results.badge import Badge, of_results
from audit.results.schema import Power, ReleaseResult, Results, to_json
from reports import Report
from reports._content import first, usefulness
from reports._content.boxes import Box
from tests import by_hand as make


def boxes(results: Results) -> dict[str, Box]:
    return {box.name: box for box in Report(results).page.boxes}


def reference(defense: str, role: str, value: float, hits: float, **changes: Any) -> ReleaseResult:
    utility = {"perplexity": make.perplexity(value)}
    found = make.finding(hits, leaked="leak" if hits else "no leak found")
    made: ReleaseResult = make.release(
        defense, make.guarantee(math.inf), found, role=role, reference=True, utility=utility,
        **changes,
    )  # fmt: skip
    return made


UNDEFENDED = reference("none", "positive control", 2.0, 0.96)
PUBLIC = reference("public", "null control", 32.0, 0.0)


def audited(*found: Any, epsilon: float | None = 8.0, value: float = 8.0, **claim: Any) -> Results:
    utility = {"perplexity": make.perplexity(value)}
    promised = make.guarantee(epsilon, **claim)
    subject = make.release("dp_sgd", promised, *found or [make.finding(0.0)], utility=utility)
    return make.run(subject, UNDEFENDED, PUBLIC)


@pytest.mark.parametrize(
    ("unit", "figure", "first_line"),
    [
        (Unit.USER, "ε = 8 per user", "Not tested by these attacks."),
        (Unit.ONE_RECORD, "ε = 8 per user of one record", "Not tested by these attacks."),
        (Unit.PART, "nothing per person", "Promised is ε = 8 per part."),
        (Unit.RECORD, "nothing per person", "Promised is ε = 8 per record."),
    ],
)
def test_promise_says_first_what_it_is_for_a_person(
    unit: Unit, figure: str, first_line: str
) -> None:
    box = boxes(audited(unit=unit))["Promised"]
    assert (box.figure, box.lines[0]) == (figure, first_line)


def test_promise_of_nothing_or_unknown_is_no_figure() -> None:
    assert boxes(audited(epsilon=math.inf))["Promised"].figure == "nothing"
    assert boxes(audited(epsilon=None))["Promised"].figure == "not known"


def test_bound_stands_beside_a_claim_only_where_both_can_be_compared() -> None:
    shown = {"leaked": "leak", "claim": "refuted", "epsilon_lower": make.bound(2.61)}
    alike = audited(make.finding(0.9, **shown), epsilon=1.0)
    assert boxes(alike)["Promised"].lines[0] == (
        "Refuted with 95\u00a0% confidence: ε is 2.61 or more, 13 times as likely."
    )
    other = audited(make.finding(0.9, **shown), epsilon=1.0, alpha=2.0)
    assert boxes(other)["Promised"].lines[0] == "Refuted with 95\u00a0% confidence."


def test_leak_is_k_of_n_beside_the_undefended_model() -> None:
    box = boxes(audited(make.finding(0.4, leaked="leak")))["Leaked"]
    assert box.figure == "40 of 100" and "Undefended: 96 of 100." in box.lines
    bare = reference("dp_sgd_unprotected", "positive control of dp_sgd", 3.0, 0.01)
    subject, *others = audited().releases
    lines = boxes(make.run(subject, bare, *others))["Leaked"].lines
    assert lines[1:3] == [
        "Protection off: 1 of 100.",
        "Undefended: 96 of 100.",
    ]
    quiet = bare.changed(findings=[make.finding(0.01)])
    lines = boxes(make.run(subject, quiet, *others))["Leaked"].lines
    assert "So by this measure the protection gets no credit." in lines
    assert boxes(audited(make.finding(None, leaked="not measured")))["Leaked"].figure == (
        "not measured"
    )


@pytest.mark.parametrize(
    ("changes", "sure"),
    [
        ({"leaked": "leak", "adjusted_p": 0.02}, "chance does this in 1 of 50 runs at most."),
        ({"leaked": "leak", "adjusted_p": 0.02, "guesses_p": 1e-9}, "1 of 1,000,000 runs"),
        ({"leaked": "leak to insiders", "adjusted_p": 0.03}, "1 of 33 runs"),
        ({"leaked": "inconclusive"}, "This does not show that nothing leaks."),
        ({"power": Power(detectable_rate=0.048, n=100)}, "How sure: if one person in four"),
    ],
)
def test_box_says_how_sure_the_answer_is(changes: dict[str, Any], sure: str) -> None:
    assert sure in boxes(audited(make.finding(0.4, **changes)))["Leaked"].lines[-1]


@pytest.mark.parametrize(("value", "share"), [(2.0, 1.0), (32.0, 0.0), (8.0, 0.5), (64.0, -0.25)])
def test_usefulness_is_linear_in_log_perplexity(value: float, share: float) -> None:
    results = audited(value=value)
    kept = usefulness.kept(results.releases[0], results.releases)
    assert kept == pytest.approx(share)
    written = f"{max(0, round(100 * share))}\u00a0% of gain kept"
    assert boxes(results)["Cost"].figure == written


def test_usefulness_stands_with_its_interval() -> None:
    """From 32 (public) to 2 (undefended), 16 is a quarter and 4 three quarters of the way."""
    results = audited(value=8.0)
    own, *others = results.releases
    measured = own.utility["perplexity"].model_copy(update={"ci": (4.0, 16.0)})
    known = own.model_copy(update={"utility": {"perplexity": measured}})
    box = boxes(results.model_copy(update={"releases": [known, *others]}))["Cost"]
    assert box.lines[0] == "[25\u00a0%, 75\u00a0%] by the interval of its perplexity."


def test_usefulness_is_unknown_without_a_gain() -> None:
    worse = [UNDEFENDED, reference("public", "null control", 1.5, 0.0)]
    assert usefulness.kept(UNDEFENDED, worse) is None
    assert usefulness.kept(UNDEFENDED, [UNDEFENDED]) is None


def warned(results: Results, gated: Gated | None = None) -> str:
    return " | ".join(first.warnings(results, results.releases, gated))


def test_strip_names_what_speaks_against_relying_on_it() -> None:
    run = audited()
    own = run.changed(corpus=run.corpus.changed(name="mine"))
    assert "demo" in warned(run) and "demo" not in warned(own)
    assert warned(own, Gated(State.PASS, "gate: PASS (1 passed)")) == ""
    assert warned(own, Gated(State.FAIL, "gate: FAIL (1 failed)")) == "gate: FAIL (1 failed)"
    assert warned(own) == first.NO_GATE
    assert warned(audited(make.finding(0.9, leaked="leak")).changed(corpus=own.corpus)) == ""
    subject, *others = own.releases
    for name in ("source", "noise"):
        seeded = subject.changed(parameters={name: "seed"})
        said = warned(own.changed(releases=[seeded, *others]))
        assert f"for a release use dp_sgd:{name}=system" in said
        kept = subject.changed(parameters={name: "system"})
        assert "seed" not in warned(own.changed(releases=[kept, *others]))
    assert "did not finish" in warned(own.changed(status="partial"))


def test_failed_controls_are_on_the_strip() -> None:
    subject = audited().releases[0]
    loud = reference("public", "null control", 32.0, 0.5)
    assert "never saw the text" in warned(make.run(subject, UNDEFENDED, loud))
    quiet = reference("none", "positive control", 2.0, 0.0)
    assert "not even the undefended model leaks" in warned(make.run(subject, quiet, PUBLIC))
    assert "a control failed" not in warned(make.run(subject, UNDEFENDED, PUBLIC))


def test_next_step_suits_the_verdict() -> None:
    def told(results: Results) -> first.Verdict:
        return Report(results).page.badges[0]

    leak = make.finding(0.9, leaked="leak")
    assert told(audited(leak)).command.startswith("audit run --epsilon 2 ")
    bare = make.release("none", make.guarantee(math.inf), leak)
    assert told(make.run(bare)).command == (
        "audit run --defense dp_sgd:noise=system --attack extraction"
    )
    closing = "audit run --defense as_is --defense dp_sgd"
    elsewhere = make.run(bare).changed(warnings=["another", badge.CLOSES + closing])
    assert told(elsewhere).command == closing
    closed = make.release("redaction", make.guarantee(math.inf), make.finding(0.0))
    assert told(make.run(bare, closed)).next.startswith("In this run redaction shows no leak by")
    assert "Find the fault" in told(audited(make.finding(0.9, leaked="leak", claim="refuted"))).next
    open_ = make.finding(0.0, leaked="inconclusive", sentence="Plant more people.")
    assert told(audited(open_)).next == "Plant more people."
    assert told(audited()).command == "audit gate DIR"
    rest = audited().changed(not_tested=["attacks that were not run: copies, ngram"])
    assert told(rest).command == "audit run --attack all --defense submix"
    again = "audit run --defense submix{} --attack extraction --seed 1"
    for before, after in [("", ""), (":epsilon=2", "epsilon=2,"), (":source=seed", "")]:
        (one,) = (r for r in rest.releases if not r.reference)
        own = rest.changed(
            releases=[one.changed(defense="submix", parameters={"source": "seed"})],
            reproduce=again.format(before),
        )
        assert told(own).command == (
            f"audit run --attack all --defense submix:{after}source=system --seed 1"
        )
    assert told(rest).sentence == "Not cleared yet: 1 of 3 attacks was run, and found no leak."
    (part,) = (told(run.changed(not_tested=rest.not_tested)) for run in [audited(unit=Unit.PART)])
    assert part.sentence.endswith("nothing is promised to a single person.")
    assert told(audited()).sentence == Badge.NONE_FOUND.sentence


def test_badge_of_the_page_is_that_of_the_results() -> None:
    for build in make.EVERY.values():
        results = build()
        assert Report(results).page.badges[0].badge == of_results(results)
    swept = make.on_two_seeds(make.ordinary())
    page = Report(swept).page
    assert page.badges[0].badge == of_results(swept) == Badge.INCONCLUSIVE
    assert page.badges[0].others == "3 settings: 3 × INCONCLUSIVE"


def test_gate_is_on_the_page_only_of_the_results_that_it_judged(tmp_path: Path) -> None:
    results = audited()
    (tmp_path / "results.json").write_text(to_json(results), encoding="utf-8")
    outcome = Outcome((), (), "the default policy", False)
    assert first.NO_GATE in Report(results, tmp_path).page.warned
    stored.write(outcome, tmp_path)
    assert outcome.headline in Report(results, tmp_path).page.warned
    passed = Gated(State.PASS, "gate: PASS")
    assert first.passed(passed) == "gate: PASS"
    assert first.passed(replace(passed, state=State.INCONCLUSIVE)) == ""
    (tmp_path / "results.json").write_text(to_json(results) + "\n", encoding="utf-8")
    assert first.NO_GATE in Report(results, tmp_path).page.warned
    (tmp_path / stored.FILENAME).write_text('{"state": 1}', encoding="utf-8")
    assert stored.read(tmp_path) is None


def test_numbers_at_the_ends_of_doubles_make_a_page() -> None:
    """As a stranger's results.json may hold them."""

    def one(defense: str, value: float, **changes: Any) -> Any:
        utility = {"perplexity": make.perplexity(12.4).model_copy(update={"value": value})}
        found = make.finding(0.0)
        return make.release(defense, make.guarantee(1.0), found, utility=utility, **changes)

    ends = [one("submix", 1e-300), *(one(d, v, reference=True) for d, v in BEYOND.items())]
    assert usefulness.kept(ends[0], ends) == pytest.approx(0.963, abs=1e-3)  # 608 of 632 decades
    assert "of gain kept" in make.text("html", make.run(*ends))


BEYOND = {"public": 1.7e308, "none": 5e-324}
