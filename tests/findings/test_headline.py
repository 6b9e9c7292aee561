"""The headline: what leaked, what was promised, what this says of it, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from audit.core.guarantee import Guarantee
from audit.findings import headline as lines
from audit.findings.shows import STATED, shown
from audit.results.measurement import Measurement
from audit.results.schema import ClaimTest, ReleaseResult
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from tests.by_hand import SILENCE
from tests.findings.by_hand import HALF, MOST, NONE, charged, finding, promise, released

UNMEASURED = {"interval": clopper_pearson(0, 0), "k": 0, "control": None, "observation": ""}
SUBMIX = promise(
    2.0, unit="part", relation="removed", basis="data-dependent", delta=None, alpha=2.0
)
QUIET = {"interval": clopper_pearson(0, 100), "k": 0, "chance": 3e-4}


def headline(releases: Sequence[ReleaseResult]) -> str:
    return " ".join(lines.headline(releases))


def test_the_headline_says_what_leaked_was_promised_spent_and_what_is_left_of_use() -> None:
    said = headline(
        [
            released("submix", SUBMIX, [finding(NONE, HALF, **QUIET)], 38.2, spent=[0.21, 1.46]),
            released("none", promise(math.inf), [finding()], 19.7, reference=True),
            released("public", promise(0.0), [finding(NONE, HALF, **QUIET)], 55.5, reference=True),
        ]
    )
    for words in (
        "submix: no leak found by extraction (hit rate 0 of 100, undefended 30 of 100)",
        "ε = 2 nats (Rényi, α = 2) per part (removed), data-dependent; not tested by",
        "Perplexity 38.2 (undefended 19.7, public 55.5)",
    ):
        assert words in said, said
    assert "public:" not in said and "none:" not in said  # references are only laid beside it


def test_the_perplexity_beside_texts_is_that_of_a_reader() -> None:
    """Texts have none: whoever trains on them has."""
    said = headline([released("mine", promise(2.0, release="text"), [finding()], 38.2)])
    assert said.startswith("mine, texts only: ") and said.endswith("Perplexity of a reader 38.2.")


EXPOSED = Interval(7.5, 6.0, 9.0, 12, 0.95, "order statistics")
AREA = Interval(0.812, 0.7, 0.9, 60, 0.95, "binomial tail means")


@pytest.mark.parametrize(
    ("given", "guarantee", "words"),
    [
        (finding(), promise(2.0), "mine: a leak by extraction (hit rate 30 of 100)."),
        (finding(), promise(2.0), "; refuted by extraction (hit rate)."),
        (finding(v=MOST), promise(2.0), "; not refuted by extraction; at least 0.642 was shown."),
        (finding(v=MOST), promise(2.0), "mine: a leak by extraction (hit rate 30 of 100)."),
        (finding(), promise(8.0), "; not tested by these attacks."),
        (finding(), promise(math.inf), "Nothing was promised"),
        (finding(), promise(None), "What was promised is unknown"),
        (finding(stronger_than_release=True), promise(2.0),
         "mine: a leak to insiders by extraction (hit rate 30 of 100)"),
        (finding(NONE, HALF, stronger_than_release=True), promise(2.0),
         "mine: open to insiders only, inconclusive: extraction."),
        (finding(0.1, HALF, metric="other"), promise(2.0), "inconclusive: extraction (other"),
        (finding(), promise(2.0), "δ = 1 × 10⁻⁶"),
        (finding(unit="bits", k=None, interval=EXPOSED), promise(math.inf), "(hit rate 7.5 bits)"),
        (finding(unit="AUC", k=None, interval=AREA), promise(math.inf), "(hit rate 0.812)"),
    ],
)  # fmt: skip
def test_the_headline_of_one_release(given: Measurement, guarantee: Guarantee, words: str) -> None:
    assert words in headline([released("mine", guarantee, [given], 20.0)])


def test_the_headline_of_an_attack_that_was_not_answered() -> None:
    """A session whose budget is too small for one generation: the release gives samples."""
    unanswered = finding(None, None, **UNMEASURED)
    said = headline([released("mine", promise(2.0), [unanswered], 20.0)])
    assert "asks more" not in said and "not measured" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (charged(0.99996, exceeded=0), "submix: none of 129 queries told more than its"),
        (charged(2.0051, exceeded=4), "4 of 129 queries told more than their charge, up to 2.01 "),
        (charged(2.0051, exceeded=4), "; refuted by ledger (largest share of charge)."),
        (charged(40.0, p_value=0.025), "129 bets on charges being too small turned 1 into 40 (p"),
        (charged(None, queries=0), "submix: not measured: ledger. "),
        (charged(None, queries=0), "; not tested by these attacks."),
    ],
)  # fmt: skip
def test_the_headline_of_a_ledger_speaks_of_charges(given: Measurement, words: str) -> None:
    said = headline([released("submix", SUBMIX, [given], 38.2)])
    assert words in said, said
    assert "inconclusive" not in said and "leak" not in said


def test_the_headline_quotes_the_first_finding_that_leaks() -> None:
    """And lays the same metric of the undefended model beside it."""
    quiet = finding(NONE, metric="a", k=0, interval=clopper_pearson(0, 100))
    loud = finding(metric="b", k=41, interval=clopper_pearson(41, 100))
    undefended = finding(metric="b", k=77, interval=clopper_pearson(77, 100))
    said = headline(
        [
            released("mine", promise(math.inf), [quiet, loud], 20.0),
            released("none", promise(math.inf), [quiet, undefended], 20.0, reference=True),
        ]
    )
    assert "a leak by extraction (b 41 of 100, undefended 77 of 100)" in said


def test_what_is_laid_beside_is_the_reference_of_that_name() -> None:
    """Not a release of the same name that was asked for with other parameters."""
    weak = finding(k=1, interval=clopper_pearson(1, 100))
    audited, asked = (released(n, promise(math.inf), [weak], 20.0) for n in ("mine", "none"))
    plain = released("none", promise(math.inf), [finding()], 3.0, reference=True)
    tuned = released("public", promise(math.inf), [finding()], 40.0)
    public = released("public", promise(math.inf), [finding()], 50.0, reference=True)
    said = headline([asked, audited, tuned, plain, public])
    assert "mine: a leak by extraction (hit rate 1 of 100, undefended 30 of 100)" in said
    assert "Perplexity 20 (undefended 3, public 50)." in said


def test_the_headline_says_how_much_a_service_answered_before_it_stopped() -> None:
    one = released("submix", SUBMIX, [finding(NONE)], 12.2, spent=[1.9])
    stopped = one.sessions[0].model_copy(
        update={"queries": 1024, "answered": 247, "stopped_at": 247, "purpose": "utility"}
    )
    told = {"Perplexity 12.2.": one.sessions[0],
            "Perplexity 12.2, 247 of 1,024 tokens before it stopped.": stopped}  # fmt: skip
    for words, session in told.items():
        assert words in headline([one.model_copy(update={"sessions": [session]})])


def test_the_headline_names_every_attack() -> None:
    given = [finding(), finding(0.06, HALF, attack="exposure", test="ranks")]
    said = headline([released("mine", promise(2.0), given, 20.0)])
    assert (
        "mine: a leak by extraction (hit rate 30 of 100); inconclusive: exposure (hit rate" in said
    )


def test_a_bound_above_the_claim_is_shown_as_unsure() -> None:
    """Above it by itself, and not once adjusted for all nine tests of it."""
    given = [finding(NONE, 63, delta=1e-6, metric=f"m{i}") for i in range(9)]
    said = headline([released("mine", promise(2.0), given, 20.0)])
    assert (
        "; not refuted by extraction; at least 2.05 was shown, not beyond doubt once adjusted."
        in said
    )


def test_what_was_shown_is_of_the_claims_own_delta_and_kind() -> None:
    given = finding(NONE, 63, delta=1e-6)
    assert "at least 1.94 was shown." in headline(
        [released("mine", promise(2.0, delta=1e-3), [given], 20.0)]
    )
    test = ClaimTest(mechanism="m", m=100, r=66, v=50, p_value=0.5, least_p=1e-9, critical=60,
                     noise_at_most=None)  # fmt: skip
    by_curve = finding(NONE, 63, claim_test=test)  # the bound has no part in it
    said = headline([released("mine", promise(2.0), [by_curve], 20.0)])
    assert "; not refuted by extraction." in said


def test_no_leak_found_is_said_where_all_measures_say_so() -> None:
    given = [finding(NONE, HALF), finding(NONE, MOST, metric="other"), finding(0.03, metric="b")]
    released_ = released("mine", promise(math.inf), given, 20.0)
    assert released_.leaked == "inconclusive"
    assert "mine: inconclusive: extraction (other 30 of 100)" in headline([released_])


def test_a_service_whose_own_models_do_not_leak_either_gets_no_credit() -> None:
    quiet = finding(NONE, HALF, **QUIET)
    said = headline(
        [
            released("submix", SUBMIX, [quiet], 20.0),
            released("submix_unprotected", promise(math.inf), [quiet], 9.0, reference=True,
                     role="positive control of submix"),
            released("none", promise(math.inf), [finding()], 3.0, reference=True),
        ]
    )  # fmt: skip
    assert "(hit rate 0 of 100, undefended 30 of 100), nor with its protection off." in said


def test_a_service_whose_own_models_leak_gets_the_credit() -> None:
    said = headline(
        [
            released("submix", SUBMIX, [finding(NONE, HALF, **QUIET)], 20.0),
            released("submix_unprotected", promise(math.inf), [finding()], 9.0, reference=True,
                     role="positive control of submix"),
        ]
    )  # fmt: skip
    assert "(hit rate 0 of 100), but one with its protection off." in said


def test_a_leak_of_the_models_by_another_measure_is_named_and_gives_no_credit() -> None:
    """The release gives no probabilities, so its silence is not compared with their leak."""
    bare = [finding(NONE, HALF, **QUIET), finding(metric="probability")]
    said = headline(
        [
            released("submix", SUBMIX, [finding(NONE, HALF, **QUIET)], 20.0),
            released("bare", promise(math.inf), bare, 9.0, reference=True,
                     role="positive control of submix"),
        ]
    )  # fmt: skip
    assert (
        "(hit rate 0 of 100), though with its protection off it leaks by extraction (probability)."
        in said
    )


def test_of_several_silent_attacks_those_are_named_that_find_nothing_unprotected_either() -> None:
    quiet = [finding(NONE, HALF, attack=name, test=name, **QUIET) for name in ("one", "two")]
    bare = [quiet[0], finding(attack="two", test="two")]
    sensitive = {(name, "hit_rate"): True for name in ("one", "two")}
    role = {"reference": True, "role": "positive control of submix"}
    said = headline(
        [
            released("submix", SUBMIX, quiet, 20.0, sensitive=sensitive),
            released("bare", promise(math.inf), bare, 9.0, sensitive=sensitive, **role),
        ]
    )
    assert said.startswith(
        "submix: no leak found by one, two, but one with its protection off by two, nor with its "
        "protection off by one."
    )


def test_only_the_first_attack_of_an_answer_shows_its_figure() -> None:
    given = [finding(attack=name, test=name) for name in ("one", "two", "three")]
    said = headline([released("mine", promise(math.inf), given, 20.0)])
    assert said.startswith("mine: a leak by one (hit rate 30 of 100), two, three. Nothing was")


def test_the_headline_writes_a_large_perplexity_as_people_do() -> None:
    said = headline([released("uniform", promise(0.0), [finding(NONE)], 1024.0)])
    assert "e+" not in said, said


def test_every_audited_release_is_in_the_headline() -> None:
    releases = [released(name, promise(2.0), [finding()], 20.0) for name in ("one", "two")]
    said = headline(releases)
    assert "one: " in said and "two: " in said


def test_the_controls_of_a_defense_stand_beside_its_perplexity() -> None:
    """Those of its own ε, where there are several."""
    role = {"reference": True, "role": "control of seqpate"}
    releases = [
        released(name, promise(8.0), [finding(NONE)], perplexity, **more).model_copy(
            update={"parameters": parameters}
        )
        for name, perplexity, more, parameters in (
            ("seqpate", 17.0, {}, {"epsilon": 3.0, "answers": "teachers"}),
            ("seqpate", 17.9, role, {"epsilon": 1.0, "answers": "noise"}),
            ("seqpate", 17.6, role, {"epsilon": 3.0, "answers": "noise"}),
            ("seqpate", 16.9, role, {"epsilon": 8.0, "answers": "exact"}),
        )
    ]
    assert "Perplexity 17 (answers=noise 17.6, answers=exact 16.9)." in headline(releases)


@pytest.mark.parametrize(
    ("of_public", "begins"),
    [
        (finding(), "The null control leaks by extraction: by chance, as one run in twenty, or "),
        (finding(NONE, HALF, **QUIET), "mine: a leak by extraction"),
        (finding(stronger_than_release=True), "mine: a leak by extraction"),
    ],
)
def test_a_null_control_that_leaks_is_said_first(of_public: Measurement, begins: str) -> None:
    """Where what read nothing private leaks, a leak of the others may be none, either."""
    control = {"reference": True, "role": "null control"}
    said = headline(
        [
            released("mine", promise(2.0), [finding()], 38.2),
            released("public", promise(0.0), [of_public], 55.5, **control),
        ]
    )
    assert said.startswith(begins), said


def test_silence_that_rests_on_a_stated_file_says_so() -> None:
    given = "if the text was used as given"
    stated = SILENCE.changed(contact=shown(f"values {STATED} t.jsonl", 60))
    for silence in (SILENCE, stated):
        release = released("mine", SUBMIX, [finding(NONE, HALF, **QUIET)], 38.2)
        found = [f.changed(silence=silence) for f in release.findings]
        said = headline([release.changed(findings=found)])
        assert "no leak found by extraction (hit rate" in said
        assert (given in said) == (silence is stated)
