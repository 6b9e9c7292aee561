"""The headline: what leaked, what was promised, what this says of it, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from audit.core.guarantee import Guarantee
from audit.findings.headline import headline
from audit.findings.shows import STATED, shown
from audit.results.measurement import Measurement
from audit.results.schema import ClaimTest, ReleaseResult
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from tests.by_hand import SILENCE
from tests.findings.by_hand import HALF, MOST, NONE, charged, finding, promise, released

UNMEASURED = {"interval": clopper_pearson(0, 0), "k": 0, "control": None, "observation": ""}
NOTHING, TWO = promise(math.inf), promise(2.0)
SUBMIX = promise(
    2.0, unit="part", relation="removed", basis="data-dependent", delta=None, alpha=2.0
)
CURVE = ClaimTest(mechanism="m", m=100, r=66, v=50, p_value=0.5, least_p=1e-9, critical=60,
                  noise_at_most=None)  # fmt: skip


def of(k: int, **changes: Any) -> Measurement:
    """A leak of k in 100."""
    return finding(k=k, interval=clopper_pearson(k, 100), **changes)


def quiet(**changes: Any) -> Measurement:
    """No leak, by a figure below chance."""
    return of(0, p=NONE, v=HALF, chance=3e-4, **changes)


def mine(
    *given: Measurement, claim: Guarantee = TWO, perplexity: float = 20.0, name: str = "mine",
    **more: Any,
) -> ReleaseResult:  # fmt: skip
    return released(name, claim, list(given), perplexity, **more)


def beside(name: str, *given: Measurement, perplexity: float = 20.0, **more: Any) -> ReleaseResult:
    """A reference, which promises nothing."""
    return mine(*given, claim=NOTHING, perplexity=perplexity, name=name, reference=True, **more)


def submix(*given: Measurement, **more: Any) -> ReleaseResult:
    return mine(*given, claim=SUBMIX, name="submix", **more)


def unprotected(*given: Measurement, **more: Any) -> ReleaseResult:
    """A service's own models."""
    role = {"role": "positive control of submix"}
    return beside("submix_unprotected", *given, **{**role, **more})


def stopped(release: ReleaseResult) -> ReleaseResult:
    """Its session for utility ended by itself."""
    update = {"queries": 1024, "answered": 247, "stopped_at": 247, "purpose": "utility"}
    session = release.sessions[0].model_copy(update=update)
    return release.model_copy(update={"sessions": [session]})


def control(perplexity: float, epsilon: float, answers: str, **role: Any) -> ReleaseResult:
    """A release of SeqPATE with these parameters."""
    one = mine(finding(NONE), claim=promise(8.0), perplexity=perplexity, name="seqpate", **role)
    return one.model_copy(update={"parameters": {"epsilon": epsilon, "answers": answers}})


LEAK = "a leak by extraction (hit rate 30 of 100"
SENSITIVE = {(name, "hit_rate"): True for name in ("one", "two")}
OF_SEQPATE = {"reference": True, "role": "control of seqpate"}
EXPOSED = Interval(7.5, 6.0, 9.0, 12, 0.95, "order statistics")
AREA = Interval(0.812, 0.7, 0.9, 60, 0.95, "binomial tail means")
Row = tuple[Sequence[ReleaseResult], Sequence[str], Sequence[str]]
OF_ONE: list[Row] = [
    ([mine(finding())], [f"mine: {LEAK}).", "; refuted by extraction (hit rate).",
                         "δ = 1 × 10⁻⁶"], []),
    ([mine(finding(v=MOST))],
     [f"mine: {LEAK}).", "; not refuted by extraction; at least 0.642 was shown."], []),
    ([mine(finding(), claim=promise(8.0))], ["; not tested by these attacks."], []),
    ([mine(finding(), claim=NOTHING)], ["Nothing was promised"], []),
    ([mine(finding(), claim=promise(None))], ["What was promised is unknown"], []),
    ([mine(finding(stronger_than_release=True))],
     ["mine: a leak to insiders by extraction (hit rate 30 of 100)"], []),
    ([mine(finding(NONE, HALF, stronger_than_release=True))],
     ["mine: open to insiders only, inconclusive: extraction."], []),
    ([mine(finding(0.1, HALF, metric="other"))], ["inconclusive: extraction (other"], []),
    ([mine(finding(unit="bits", k=None, interval=EXPOSED))], ["(hit rate 7.5 bits)"], []),
    ([mine(finding(unit="AUC", k=None, interval=AREA))], ["(hit rate 0.812)"], []),
    # a session whose budget is too small for one generation: the release gives samples
    ([mine(finding(None, None, **UNMEASURED))], ["not measured"], ["asks more"]),
    ([mine(finding(), finding(0.06, HALF, attack="exposure", test="ranks"))],
     [f"mine: {LEAK}); inconclusive: exposure (hit rate"], []),
    # above the claim by itself, and not once adjusted for all nine tests of it
    ([mine(*(finding(NONE, 63, metric=f"m{i}") for i in range(9)))],
     ["; not refuted by extraction; at least 2.05 was shown, not beyond doubt once adjusted."], []),
    ([mine(finding(NONE, 63), finding(NONE, HALF, metric="b"), claim=promise(2.2))],
     ["at least 2.05 was shown, the largest of 2 bounds, unadjusted."], []),
    # what was shown is of the claim's own δ and kind; with a curve, the bound has no part in it
    ([mine(finding(NONE, 63), claim=promise(2.0, delta=1e-3))], ["at least 1.94 was shown."], []),
    ([mine(finding(NONE, 63, claim_test=CURVE))], ["; not refuted by extraction."], []),
    ([mine(finding(NONE, HALF), finding(NONE, MOST, metric="other"), finding(0.03, metric="b"),
           claim=NOTHING)],
     ["mine: inconclusive: extraction (other 30 of 100)"], []),
    ([mine(*(finding(attack=name, test=name) for name in ("one", "two", "three")), claim=NOTHING)],
     ["mine: a leak by one (hit rate 30 of 100), two, three. Nothing was"], []),
    # perplexity: of a reader, where texts are released; of a session that ended
    ([mine(finding(), claim=promise(2.0, release="text"), perplexity=38.2)],
     ["mine, texts only: ", "Perplexity of a reader 38.2."], []),
    ([submix(finding(NONE), perplexity=12.2)], ["Perplexity 12.2."], []),
    ([stopped(submix(finding(NONE), perplexity=12.2))],
     ["Perplexity 12.2, 247 of 1,024 tokens before it stopped."], []),
    *(([mine(finding(NONE), perplexity=value)], [f"Perplexity {words}."], ["e+"])
      for value, words in ((1000.0, "1,000"), (1024.0, "1,024"), (999.0, "999"))),
]  # fmt: skip
CHARGED: list[Row] = [
    ([submix(charged(share, **test))], words, ["inconclusive", "leak"])
    for share, test, words in (
        (0.99996, {"exceeded": 0}, ["submix: none of 129 queries told more than its"]),
        (2.0051, {"exceeded": 4}, ["4 of 129 queries told more than their charge, up to 2.01 ",
                                   "; refuted by ledger (largest share of charge)."]),
        (40.0, {"p_value": 0.025}, ["129 bets on charges being too small turned 1 into 40 (p"]),
        (None, {"queries": 0}, ["submix: not measured: ledger. ", "; not tested by these att"]),
    )
]  # fmt: skip
OF_SEVERAL: list[Row] = [
    ([submix(quiet(), perplexity=38.2), beside("none", finding(), perplexity=19.7),
      mine(quiet(), claim=promise(0.0), perplexity=55.5, name="public", reference=True)],
     ["submix: no leak found by extraction (hit rate 0 of 100, undefended 30 of 100)",
      "ε = 2 nats (Rényi, α = 2) per part (removed), data-dependent; not tested by",
      "Perplexity 38.2 (undefended 19.7, public 55.5)"],
     ["public:", "none:"]),  # references are only laid beside it
    # the first finding that leaks, beside the same metric of the undefended model
    ([mine(quiet(metric="a"), of(41, metric="b")),
      beside("none", quiet(metric="a"), of(77, metric="b"))],
     ["a leak by extraction (b 41 of 100, undefended 77 of 100)"], []),
    # a reference, not a release of its name that was asked for with other parameters
    ([mine(of(1), name="none"), mine(of(1)), mine(finding(), perplexity=40.0, name="public"),
      beside("none", finding(), perplexity=3.0), beside("public", finding(), perplexity=50.0)],
     ["mine: a leak by extraction (hit rate 1 of 100, undefended 30 of 100)",
      "Perplexity 20 (undefended 3, public 50)."], []),
    ([mine(finding(), name=name) for name in ("one", "two")], ["one: ", "two: "], []),
    # protection gets the credit only where its own models leak by the same measure
    ([submix(quiet()), unprotected(quiet(), perplexity=9.0), beside("none", finding())],
     ["(hit rate 0 of 100, undefended 30 of 100), nor with its protection off."], []),
    ([submix(quiet()), unprotected(finding())],
     ["(hit rate 0 of 100), but a leak with its protection off."], []),
    ([submix(quiet()), unprotected(quiet(), finding(metric="probability"))],
     ["(hit rate 0 of 100), though with its protection off it leaks by extraction (probability)."],
     []),
    ([submix(*(quiet(attack=name, test=name) for name in ("one", "two")), sensitive=SENSITIVE),
      unprotected(quiet(attack="one", test="one"), finding(attack="two", test="two"),
                  sensitive=SENSITIVE)],
     ["submix: no leak found by one, two, but a leak with its protection off by two, nor with its "
      "protection off by one."], []),
    # the controls of a defense, of its own ε where there are several
    ([control(17.0, 3.0, "teachers"), control(17.9, 1.0, "noise", **OF_SEQPATE),
      control(17.6, 3.0, "noise", **OF_SEQPATE), control(16.9, 8.0, "exact", **OF_SEQPATE)],
     ["Perplexity 17 (answers=noise 17.6, answers=exact 16.9)."], []),
]  # fmt: skip


def test_headline_reports_what_was_found_promised_and_spent() -> None:
    wrong = []
    for releases, words, absent in [*OF_ONE, *CHARGED, *OF_SEVERAL]:
        said = " ".join(headline(releases))
        if not all(w in said for w in words) or any(w in said for w in absent):
            wrong.append(f"{words} (not {absent}): {said}")
    assert not wrong, "\n".join(wrong)


def test_null_control_that_leaks_comes_first() -> None:
    """Where what read nothing private leaks, a leak of the others may be none, either."""
    for of_public, begins in (
        (finding(), "The null control leaks by extraction: by chance, as one run in twenty, or "),
        (quiet(), "mine: a leak by extraction"),
        (finding(stronger_than_release=True), "mine: a leak by extraction"),
    ):
        null = mine(of_public, claim=promise(0.0), name="public", reference=True,
                    role="null control")  # fmt: skip
        assert headline([mine(finding()), null])[0].startswith(begins)


def test_silence_on_a_stated_file_rests_on_it() -> None:
    stated = SILENCE.changed(contact=shown(f"values {STATED} t.jsonl", 60))
    for silence in (SILENCE, stated):
        release = submix(quiet())
        found = [f.changed(silence=silence) for f in release.findings]
        (said,) = headline([release.changed(findings=found)])
        assert "no leak found by extraction (hit rate" in said
        assert ("if the text was used as given" in said) == (silence is stated)
