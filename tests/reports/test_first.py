"""The first screen answers: may it be shipped, what was promised, what leaked, at what cost."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.core.terms import Unit
from audit.findings.shows import not_shown
from audit.gate import stored
from audit.gate.outcome import Outcome, State
from audit.gate.stored import Gated
from audit.results import badge, silence
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


LEAK = make.finding(0.9, leaked="leak")
REMOVED = make.SILENCE.changed(contact=not_shown(f"{silence.REMOVED}: 0 of 60 names are there."))
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


def test_bound_stands_beside_a_comparable_claim_only() -> None:
    found = make.finding(0.9, leaked="leak", claim="refuted", epsilon_lower=make.bound(2.61))
    alike, other = (
        boxes(audited(found, epsilon=1.0, alpha=alpha))["Promised"].lines[0]
        for alpha in (None, 2.0)
    )
    bound = ": ε is 2.61 or more, 13 times as likely"
    assert alike == f"Refuted with 95\u00a0% confidence{bound}."
    assert other == "Refuted with 95\u00a0% confidence."


def test_largest_of_several_bounds_is_qualified() -> None:
    """Of 26 bounds one is above 0 in half of all runs of which nothing leaks."""
    several = [make.finding(0.0, claim="not refuted", epsilon_lower=make.bound(0.5)) for _ in "ab"]
    two = [one.changed(metric=f"m{i}") for i, one in enumerate(several)]
    bound = "not refuted; the largest of 2 bounds, unadjusted: ε is 0.5 or more, 1.6 times as"
    assert bound in boxes(audited(*two))["Promised"].lines[0]


def test_bound_at_a_smaller_delta_than_the_claim_has_no_place_beside_it() -> None:
    found = make.finding(0.9, leaked="leak", claim="not refuted", epsilon_lower=make.bound(2.61))
    loose, strict = (
        boxes(audited(found, epsilon=3.0, delta=delta))["Promised"].lines[0]
        for delta in (1e-3, 1e-6)
    )
    assert "ε is" not in loose and "ε is 2.61 or more" in strict


def test_leak_is_k_of_n_beside_the_controls() -> None:
    box = boxes(audited(make.finding(0.4, leaked="leak")))["Leaked"]
    assert box.figure == "40 of 100" and "Undefended: 96 of 100." in box.lines
    bare = reference("dp_sgd_unprotected", "positive control of dp_sgd", 3.0, 0.01)
    subject, *others = audited().releases
    lines = boxes(make.run(subject, bare, *others))["Leaked"].lines
    assert lines[1:3] == ["Protection off: 1 of 100.", "Undefended: 96 of 100."]
    quiet = bare.changed(findings=[make.finding(0.01)])
    lines = boxes(make.run(subject, quiet, *others))["Leaked"].lines
    assert "So by this measure the protection gets no credit." in lines
    nothing = audited(make.finding(None, leaked="not measured"))
    assert boxes(nothing)["Leaked"].figure == "not measured"


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
    written = "<\u00a00" if share < 0 else f"{round(100 * share)}"
    assert boxes(results)["Cost"].figure == f"{written}\u00a0% of gain kept"


@pytest.mark.parametrize(
    ("share", "written"),
    [(-1e-9, "< 0 %"), (0.0, "0 %"), (1e-9, "< 1 %"), (0.004, "< 1 %"), (0.006, "1 %"),
     (0.994, "99 %"), (0.996, "> 99 %"), (1.0, "100 %"), (1.004, "100 %"), (1.2, "120 %")],
)  # fmt: skip
def test_usefulness_is_none_or_all_only_where_it_is(share: float, written: str) -> None:
    assert usefulness.written(share) == written.replace(" ", "\u00a0")


def test_usefulness_below_the_public_model_is_named() -> None:
    (*_, row) = Report(audited(value=64.0)).page.summary.blocks[0].rows
    assert row.certainty.startswith("keeps <") and row.certainty.endswith("the public model")


def test_usefulness_has_its_interval() -> None:
    """From 32 (public) to 2 (undefended), 16 is a quarter and 4 three quarters of the way."""
    own, *others = audited(value=8.0).releases
    known = own.changed(utility={"perplexity": own.utility["perplexity"].changed(ci=(4.0, 16.0))})
    box = boxes(make.run(known, *others))["Cost"]
    assert box.lines[0] == "[25\u00a0%, 75\u00a0%] by the interval of its perplexity."


def test_session_that_stopped_at_once_is_named() -> None:
    """All of its perplexity is the public model's."""
    own, *others = audited().releases
    ended = make.session(purpose="utility", answered=0, stopped_at=0)
    box = boxes(make.run(own.changed(sessions=[ended]), *others))["Cost"]
    assert box.lines[-1].startswith("Measured in a session of its own, whose ε lasted for 0 of")


@pytest.mark.parametrize(
    ("beside", "figure"),
    [
        (make.finding(None, attack="exposure", leaked="not measured", n=0), "0 of 100"),
        (make.finding(0.0, metric="recall", leaked="inconclusive"), "no answer"),
        (make.finding(0.0, kinds=("name",), metric="names", leaked="not measured", silence=REMOVED),
         "no answer"),
    ],
)  # fmt: skip
def test_box_answers_as_the_badge_does(beside: Any, figure: str) -> None:
    """It said that no attack got an answer, beside "no leak found", and the reverse."""
    results = audited(make.finding(0.0, kinds=("code",)), beside)
    silent = of_results(results) == Badge.NONE_FOUND
    assert boxes(results)["Leaked"].figure == figure
    assert silent == (figure != "no answer")


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
    assert warned(audited(LEAK).changed(corpus=own.corpus)) == ""
    subject, *others = own.releases
    for name in ("source", "noise"):
        for kept in ("seed", "system"):
            told = warned(own.changed(releases=[subject.changed(parameters={name: kept}), *others]))
            assert (f"for a release use dp_sgd:{name}=system" in told) == (kept == "seed")
    assert "did not finish" in warned(own.changed(status="partial"))


def test_failed_controls_are_warned_of() -> None:
    subject = audited().releases[0]
    loud = reference("public", "null control", 32.0, 0.5)
    assert "never saw the text" in warned(make.run(subject, UNDEFENDED, loud))
    quiet = reference("none", "positive control", 2.0, 0.0)
    assert "not even the undefended model leaks" in warned(make.run(subject, quiet, PUBLIC))
    assert "a control failed" not in warned(make.run(subject, UNDEFENDED, PUBLIC))


BARE = make.release("none", make.guarantee(math.inf), LEAK)
CLOSED = make.release("redaction", make.guarantee(math.inf), make.finding(0.0))
CLOSING = "audit run --defense as_is --defense dp_sgd"
UNDECIDED = audited(
    make.finding(0.0, leaked="inconclusive", sentence="Plant more people.")
).releases[0]
REST = audited().changed(not_tested=["attacks that were not run: copies, ngram"])


@pytest.mark.parametrize(
    ("results", "step", "command"),
    [
        (audited(LEAK), "Try a smaller ε", "audit run --epsilon 2 "),
        (make.run(BARE), "Try a training",
         "audit run --defense dp_sgd:noise=system --attack extraction"),
        (make.run(BARE, warnings=["another", badge.CLOSES + CLOSING]), "Train beside it", CLOSING),
        (make.run(BARE, CLOSED), "In this run redaction shows no leak by", ""),
        (audited(LEAK.changed(claim="refuted")), "Find the fault", ""),
        (make.run(UNDECIDED, UNDEFENDED, PUBLIC), "Plant more people.", ""),
        (make.run(BARE, UNDECIDED), "Decide whether dp_sgd, beside it, closes the leak. Plant", ""),
        (make.run(BARE, *audited(LEAK).releases), "Try a smaller ε", "audit run --epsilon 2 "),
        (audited(), "Hold this result", "audit gate DIR"),
        (audited().changed(status="partial"), "Finish it", "audit run --defense submix"),
        (REST, "Run the other attacks", "audit run --attack all --defense submix"),
    ],
)  # fmt: skip
def test_next_step_suits_the_verdict(results: Results, step: str, command: str) -> None:
    verdict = Report(results).page.badges[0]
    assert verdict.next.startswith(step) and verdict.command.startswith(command)
    assert bool(verdict.command) == bool(command)


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), (":epsilon=2", "epsilon=2,"), (":source=seed", "")]
)
def test_next_command_takes_noise_from_the_system(before: str, after: str) -> None:
    one = REST.releases[0].changed(defense="submix", parameters={"source": "seed"})
    again = f"audit run --defense submix{before} --attack extraction --seed 1"
    page = Report(REST.changed(releases=[one, *REST.releases[1:]], reproduce=again)).page
    assert page.badges[0].command == (
        f"audit run --attack all --defense submix:{after}source=system --seed 1"
    )


def test_verdict_without_all_attacks_is_not_cleared() -> None:
    part = audited(unit=Unit.PART).changed(not_tested=REST.not_tested)
    said = [Report(run).page.badges[0].sentence for run in (REST, part, audited())]
    assert said[0] == "Not cleared yet: 1 of 3 attacks was run, and found no leak."
    assert said[1].endswith("nothing is promised to a single person.")
    assert said[2] == Badge.NONE_FOUND.sentence


def test_badge_of_the_page_is_that_of_the_results() -> None:
    for build in make.EVERY.values():
        results = build()
        assert make.report(results).page.badges[0].badge == of_results(results)
    swept = make.on_two_seeds(make.ordinary())
    page = Report(swept).page
    assert page.badges[0].badge == of_results(swept) == Badge.INCONCLUSIVE
    assert page.badges[0].others == "3 settings: 3 × INCONCLUSIVE"


def test_gate_is_shown_of_the_results_that_it_judged(tmp_path: Path) -> None:
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
    ends = [
        make.release(name, make.guarantee(1.0), make.finding(0.0), reference=name != "submix",
                     utility={"perplexity": make.perplexity(12.4).model_copy(
                         update={"value": value})})
        for name, value in {"submix": 1e-300, "public": 1.7e308, "none": 5e-324}.items()
    ]  # fmt: skip
    assert usefulness.kept(ends[0], ends) == pytest.approx(0.963, abs=1e-3)  # 608 of 632 decades
    assert "of gain kept" in make.text("html", make.run(*ends))
