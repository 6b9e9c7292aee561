"""results.json as it is read: round trips, and refusals of what contradicts itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import given as for_all
from hypothesis import strategies as st

from audit.accounting import Gaussians, Mechanism, epsilon, to_table
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import Finding, bounds, stored
from audit.findings.verdict import claim_overall, leaked_overall
from audit.results.schema import (
    Cell,
    ClaimTest,
    FindingResult,
    GuaranteeResult,
    Power,
    ReleaseResult,
    Results,
    SweepResult,
    to_json,
)
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import clopper_pearson
from tests.findings.by_hand import (
    ALL,
    HALF,
    LEAK,
    MOST,
    NONE,
    SENSITIVE,
    R,
    bound,
    charged,
    finding,
    judged,
    promise,
)
from tests.findings.drawn import any_claim, any_control, any_findings
from tests.results import documents

Document = dict[str, Any]
Edit = Callable[[Document], object]
SUBMIX = "releases.0 ('submix'): "
CURVE = ClaimTest(
    mechanism="DP-SGD", m=120, r=80, v=80, p_value=1e-4, least_p=1e-4, critical=77
)  # fmt: skip


def released(
    found: Sequence[Finding],
    guarantee: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None = SENSITIVE,
    tests: int = 0,
    claims: int = 0,
) -> dict[str, Any]:
    """The fields of a release that follow from its findings."""
    findings = judged(found, guarantee, sensitive, tests, claims)
    promised = {name: getattr(guarantee, name) for name in GuaranteeResult.model_fields}
    return {
        "guarantee": GuaranteeResult(**promised),
        "findings": findings,
        "tests": tests,
        "claim_tests": claims,
        "leaked": leaked_overall(findings),
        "claim": claim_overall(findings, guarantee),
    }


def made(
    *found: Finding,
    claim: Guarantee | None = None,
    sensitive: Mapping[tuple[str, str], bool] | None = SENSITIVE,
    **family: int,
) -> Results:
    """A release with these findings, beside the control that was as sensitive."""
    return beside(documents.document(**released(found, claim or promise(2.0), sensitive, **family)),
                  sensitive)  # fmt: skip


def beside(results: Results, sensitive: Mapping[tuple[str, str], bool] | None) -> Results:
    """Adds the positive control, which leaked where it is said to."""
    if sensitive is None:
        return results
    loud = [
        finding(LEAK if leaks else NONE, None, attack=attack, metric=metric)
        for (attack, metric), leaks in sensitive.items()
    ]
    own = released(loud, promise(math.inf))
    (control,) = documents.document(defense="none", reference=True, **own).releases
    return results.model_copy(update={"releases": [*results.releases, control]})


def load(folder: Path, results: Results, edit: Edit = lambda _: None) -> Results:
    """Writes the results, edits what was written, and reads them back."""
    document = json.loads(to_json(results))
    edit(document)
    path = folder / "results.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return stored.load(path)


def refusal(folder: Path, results: Results, edit: Edit = lambda _: None) -> str:
    with pytest.raises(UsageError) as raised:
        load(folder, results, edit)
    said, path = str(raised.value), f"{folder / 'results.json'}: "
    assert said.startswith(path) and "\n" not in said
    return said.removeprefix(path).removesuffix(stored._AGAIN)


def of_first(**edits: Any) -> Edit:
    """An edit of the first finding."""
    return lambda d: d["releases"][0]["findings"][0].update(edits)


# round trips


def test_reading_and_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for results in (documents.document(), made(finding(), finding(NONE, HALF, metric="b"))):
        path = tmp_path / "results.json"
        path.write_text(to_json(results), encoding="utf-8")
        again = stored.load(path)
        assert to_json(again) == path.read_text(encoding="utf-8")
        assert to_json(again).endswith("}\n")
    assert "☺" in to_json(documents.document())
    ci = load(tmp_path, documents.document()).releases[0].utility["perplexity"].ci
    assert ci is not None and math.isinf(ci[1])


@for_all(st.integers(0, 10**8), st.integers(1, 10**8))
def test_six_digits_of_a_rate_contradict_nothing(
    tmp_path_factory: pytest.TempPathFactory, k: int, n: int
) -> None:
    """Nor do they where the interval has no width at all."""
    rate = min(k, n) / n
    one = documents.finding(k=min(k, n), n=n, value=rate, ci=(rate, rate))
    folder = tmp_path_factory.mktemp("rounded")
    assert load(folder, documents.document(findings=[one])).releases[0].findings[0].k == min(k, n)


def test_nor_do_they_where_computing_was_not_exact(tmp_path: Path) -> None:
    """A mean of like values may miss them by the last digit, and be rounded to the other side."""
    one = documents.finding(k=None, value=0.1234565000001, ci=(0.0, 0.1234564999999))
    (read,) = load(tmp_path, documents.document(findings=[one])).releases[0].findings
    assert read.ci is not None and read.value is not None and read.value > read.ci[1]


def test_what_is_not_known_of_a_secret_is_in_no_count(tmp_path: Path) -> None:
    one = documents.finding(**{**COUNTED, "outcomes": "-01--00-"})
    (read,) = load(tmp_path, documents.document(findings=[one])).releases[0].findings
    assert read.outcomes == "-01--00-"


def test_the_same_attack_on_two_seeds_and_two_settings_is_no_repetition(tmp_path: Path) -> None:
    one = documents.document().releases[0]
    alike = [one, one.model_copy(update={"seed": 1}), one.model_copy(update={"parameters": {}})]
    several = documents.document().model_copy(update={"releases": alike})
    assert len(load(tmp_path, several).releases) == 3


OPTIONAL = {
    "also", "phrases", "teachers_per_user", "blind", "roc", "exposures", "outcomes", "spent_curve",
    "private_token_share", "sides", "stronger_than_release", "detectable_rate", "accounting",
    "population", "sweep", "least_p", "untested", "fair_coins", "claim_test",
}  # fmt: skip


def test_what_is_optional_may_be_left_out(tmp_path: Path) -> None:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(inner) for name, inner in value.items() if name not in OPTIONAL}
        return [without(inner) for inner in value] if isinstance(value, list) else value

    whole = json.loads(to_json(documents.document()))
    path = tmp_path / "results.json"
    path.write_text(json.dumps(without(whole)))
    assert without(json.loads(to_json(stored.load(path)))) == without(whole)


# what is no document


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d.update(schema_version="2"), "schema version '2'; this audit reads '3'"),
        (lambda d: d.update(schema_version=3), "schema version 3;"),
        (lambda d: d.update(schema_version=["3"]), "schema version ['3'];"),
        (lambda d: d.pop("schema_version"), "schema version None"),
        (lambda d: d.pop("corpus"), "corpus: "),
        (lambda d: d.update(extra=1), "extra: "),
        (lambda d: d["releases"][0].update(seed="x"), "releases.0.seed: "),
        (lambda d: d["releases"][0].update(leaked="nothing"), "releases.0.leaked: "),
        (lambda d: d["releases"][0].pop("claim"), "releases.0.claim: "),
        (lambda d: d["releases"][0]["cost"].update(seconds=float("nan")), "cost.seconds"),
        (of_first(value=[]), "findings.0.value"),
        (of_first(verdict="silent"), "findings.0.verdict"),
        (lambda d: d["releases"][0]["guarantee"].update(epsilon={}), "guarantee.epsilon"),
    ],
)
def test_a_bad_document_is_refused_by_its_place(edit: Edit, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, documents.document(), edit)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"3", b"null", b"[" * 100_000])
def test_what_is_no_document_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=str(path)):
        stored.load(path)


def test_a_missing_document_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="audit run"):
        stored.load(tmp_path / "results.json")


# counts and intervals


def twice(key: str, where: Callable[[Document], Any]) -> Edit:
    def edit(document: Document) -> None:
        here = where(document)
        here[key].append(here[key][0])

    return edit


def of_bound(**edits: Any) -> Edit:
    return lambda d: d["releases"][0]["findings"][0]["epsilon_lower"].update(edits)


def of_curve(**edits: Any) -> Edit:
    return of_first(claim_test={**CURVE.model_dump(), **edits})


COUNTED = {"k": 1, "n": 4, "value": 0.25, "ci": [0.0, 0.9]}
CONTRADICTIONS: list[tuple[Edit, str]] = [
    (twice("releases", lambda d: d), 'submix {"beta": null, "k": 8} seed 0 is there twice'),
    (twice("findings", lambda d: d["releases"][0]), "releases.0: extraction hit_rate is there"),
    (of_first(value=0.9, ci=[0, 0], k=None), "0.9 lies outside its interval"),
    (of_first(value=0.0, ci=[0.1, 0.2], k=None), "0 lies outside its interval"),
    (of_first(ci=[0.03, 0.0]), "findings.0.ci: the interval [0.03, 0] is reversed"),
    (of_first(k=101, value=None), "findings.0: k = 101 of n = 100"),
    (of_first(k=0, n=2**53, value=0.0), "findings.0.n: "),
    (of_first(k=-1), "findings.0.k: "),
    (of_first(k=1e30, n=1e30), "findings.0.k: "),
    (of_first(n=-5), "findings.0.n: "),
    (of_first(k=3), "0.01 is not k = 3 of n = 100"),
    (of_first(k=0, n=0), "0.01 is not k = 0 of n = 0"),
    (of_first(**COUNTED, outcomes="0000"), "outcomes say 0 of 4, k and n 1 of 4"),
    (of_first(**COUNTED, outcomes="1---"), "outcomes say 1 of 1, k and n 1 of 4"),
    (of_first(**{**COUNTED, "k": None}, outcomes="1000"), "outcomes say 1 of 4, k and n None"),
    (of_first(confidence=1), "findings.0.confidence: "),
    (of_first(confidence=0), "findings.0.confidence: "),
    (of_first(confidence=math.nan), "findings.0.confidence: "),
    (of_first(value=10**400), "findings.0.value: expected a number"),
    (lambda d: d["releases"][0]["guarantee"].update(epsilon=-1), "guarantee.epsilon: "),
    (lambda d: d["releases"][0]["guarantee"].update(delta=-1e-9), "guarantee.delta: "),
    (lambda d: d["releases"][0]["utility"]["perplexity"].update(value=3), "3 lies outside"),
    (lambda d: d["releases"][0]["utility"]["perplexity"].update(confidence=1), "confidence"),
    (lambda d: d["releases"][0]["findings"][0]["control"].update(k=7), "not k = 7 of n = 100"),
    (of_bound(guesses=[[9, 10]]), "no bound by one_run has such evidence"),
    (of_bound(guesses=[[10, 9]]), "such evidence"),
    (of_bound(guesses=[[9, 5], [9, 10]]), "such evidence"),
    (of_bound(guesses=None), "such evidence"),
    (of_bound(m=None), "such evidence"),
    (of_bound(rank=1), "such evidence"),
    (of_bound(method="rank"), "such evidence"),
    (of_bound(r=9), "epsilon_lower.r: "),
    (of_bound(guesses=[]), "such evidence"),
    (of_bound(m=10**7 + 1), "epsilon_lower.m: "),
    (of_bound(confidence=0.5), "epsilon_lower.confidence: "),
    (of_bound(confidence=1.0), "epsilon_lower.confidence: "),
    (of_bound(delta=1.1), "epsilon_lower.delta: "),
    (of_bound(delta="inf"), "epsilon_lower.delta: "),
    (of_bound(method="rank", m=None, guesses=None, rank="inf", space="inf", n=1), "such evidence"),
    (of_first(p_value=1.1), "findings.0.p_value: "),
    (of_first(p_value=-1e-9), "findings.0.p_value: "),
    (of_first(p_value="inf"), "findings.0.p_value: "),
    (of_first(least_p=-1), "findings.0.least_p: "),
    (of_curve(p_value=2), "claim_test.p_value: "),
    (of_curve(least_p=-1), "claim_test.least_p: "),
    (of_curve(p_value=9e-5), "claim_test: p = 9e-05, and the least possible is 0.0001"),
    (of_curve(m=10**7 + 1), "claim_test.m: "),
    (of_first(charge_test={"queries": 1, "p_value": 2}), "charge_test.p_value: "),
    (of_first(charge_test={"queries": 1, "p_value": -1}), "charge_test.p_value: "),
    (lambda d: d["releases"][0].update(tests=10**6 + 1), "releases.0.tests: "),
    (lambda d: d["releases"][0].update(claim_tests=10**6 + 1), "releases.0.claim_tests: "),
    (lambda d: d["releases"][0]["guarantee"].update(delta=1.1), "guarantee.delta: "),
    (lambda d: d["releases"][0]["guarantee"].update(delta="inf"), "guarantee.delta: "),
    (lambda d: d["plan"].update(attacks=None), "plan.attacks must be a list of tables"),
    (lambda d: d["plan"].update(attacks=[{}]), "plan.attacks must be a list of tables"),
]


@pytest.mark.parametrize(("edit", "said"), CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(edit: Edit, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, documents.document(), edit)


# a leak that is called anything else


def test_what_contradicts_itself_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    document = json.loads(to_json(made(finding())))
    of_first(leaked="inconclusive")(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match="rejected; run its plan again"):
        stored.load(path)


@pytest.mark.parametrize("word", sorted(set(Leaked) - {Leaked.LEAK}))
def test_a_rejected_test_is_a_leak_or_the_file_is_refused(word: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, made(finding()), of_first(leaked=word))
    assert said == f"{SUBMIX}'extraction.hit_rate' is called {word!r}, but its test is rejected"


@pytest.mark.parametrize("word", sorted(set(Leaked) - {Leaked.LEAK}))
def test_a_leak_cannot_hide_in_the_whole(word: str, tmp_path: Path) -> None:
    edit = lambda d: d["releases"][0].update(leaked=word)  # noqa: E731
    said = refusal(tmp_path, made(finding(), finding(NONE, HALF, metric="b")), edit)
    assert said == f"{SUBMIX}it is called {word!r}, but a measure of it is a leak"
    beyond = made(finding(stronger_than_release=True))  # no leak of this release
    assert load(tmp_path, beyond).releases[0].leaked == Leaked.NOT_MEASURED


def test_a_leak_cannot_hide_in_a_value_that_is_not_shown(tmp_path: Path) -> None:
    """Unless another measure of the same test shows it."""
    unread = {"value": None, "ci": None, "k": None, "n": 0, "leaked": "not measured"}
    results = made(finding(test="one"), finding(metric="b", test="one"))
    said = refusal(tmp_path, made(finding()), of_first(**unread))
    assert "is called 'not measured', but its test is rejected" in said
    assert load(tmp_path, results, of_first(**unread)).releases[0].leaked == "leak"


def test_a_leak_cannot_hide_behind_a_measure_that_shares_its_test(tmp_path: Path) -> None:
    """Measures that share a test share its p-value; where they do not, the smallest counts."""
    results = made(finding(v=HALF, test="one"), finding(v=HALF, metric="b", test="one"))
    for place in (0, 1):

        def edit(document: Document, place: int = place) -> None:
            release = document["releases"][0]
            release["leaked"] = "inconclusive"
            for f in release["findings"]:
                f["leaked"] = "inconclusive"
            release["findings"][place]["p_value"] = 0.5

        assert "but its test is rejected" in refusal(tmp_path, results, edit)


def test_a_test_that_refutes_the_claim_is_a_leak_too(tmp_path: Path) -> None:
    """The p-value of "nothing leaked" was taken out."""
    edit = of_first(leaked="inconclusive", p_value=None)
    assert "but its test is rejected" in refusal(tmp_path, made(finding()), edit)


@pytest.mark.parametrize(
    ("p", "tests", "refused"), [(0.049, 1, True), (0.049, 2, False), (0.024, 2, True)]
)
def test_tests_are_adjusted_for_as_many_as_the_release_had(
    p: float, tests: int, refused: bool, tmp_path: Path
) -> None:
    results = made(finding(p, HALF), tests=tests, claims=tests)
    edit = of_first(leaked="inconclusive")
    if refused:
        assert "but its test is rejected" in refusal(tmp_path, results, edit)
    else:
        assert load(tmp_path, results, edit).releases[0].findings[0].leaked == "inconclusive"


def test_no_leak_found_is_never_said_below_five_percent(tmp_path: Path) -> None:
    results = made(finding(0.04, HALF), tests=9)
    said = refusal(tmp_path, results, of_first(leaked="no leak found"))
    assert said == f"{SUBMIX}'extraction.hit_rate' is called 'no leak found', at p = 0.04"


def test_where_no_fair_coins_chose_texts_that_differ_are_no_leak(tmp_path: Path) -> None:
    blind = documents.Control(value=0.9, ci=(0.8, 1.0), n=9)
    results = made(finding(blind=blind, fair_coins=False, unit="AUC"))
    assert load(tmp_path, results).releases[0].findings[0].leaked == "inconclusive"
    said = refusal(tmp_path, results, of_first(fair_coins=True))
    assert "but its test is rejected" in said


def test_names_are_shown_as_text(tmp_path: Path) -> None:
    def edit(document: Document) -> None:
        release = document["releases"][0]
        release["defense"] = release["findings"][0]["attack"] = "\x1b[31m\nall is fine\u202e"
        release["findings"][0]["leaked"] = "no leak found"

    assert refusal(tmp_path, made(finding()), edit).isprintable()


# a refutation that is called anything else

ZERO = promise(0.0, delta=0.0)  # refuted by any test that finds a leak, whether it bounds ε or not


@pytest.mark.parametrize("word", sorted(set(OnClaim) - {OnClaim.REFUTED}))
@pytest.mark.parametrize(
    ("given", "claim"),
    [
        (finding(), promise(2.0)),
        (finding(v=None), ZERO),
        (finding(v=HALF), ZERO),
        (finding(v=HALF, claim_test=CURVE), promise(2.0)),
        (finding(v=None, claim_test=CURVE), promise(2.0, delta=0.1)),
    ],
    ids=["by a bound", "of zero", "of zero, with a bound", "by its curve", "by its curve alone"],
)
def test_a_refutation_cannot_hide(
    word: str, given: Finding, claim: Guarantee, tmp_path: Path
) -> None:
    results = made(given, claim=claim)
    said = refusal(tmp_path, results, of_first(claim=word))
    assert said == (
        f"{SUBMIX}'extraction.hit_rate' says of the claim {word!r}, but its test refutes it"
    )
    said = refusal(tmp_path, results, lambda d: d["releases"][0].update(claim=word))
    assert said == f"{SUBMIX}its claim is called {word!r}, but a measure refutes it"


def test_a_smaller_claim_beside_the_same_evidence_is_refused(tmp_path: Path) -> None:
    """A claim of 8 that 100 coins cannot refute, rewritten to one that they do."""
    results = made(finding(), claim=promise(8.0))
    assert load(tmp_path, results).releases[0].claim == "not testable"
    said = refusal(tmp_path, results, lambda d: d["releases"][0]["guarantee"].update(epsilon=2.0))
    assert "says of the claim 'not testable', but its test refutes it" in said


# silence that shows nothing


def of_control(**edits: Any) -> Edit:
    return lambda d: d["releases"][1]["findings"][0].update(edits)


def bounded(**edits: Any) -> Edit:
    return lambda d: d["releases"][0]["findings"][0]["epsilon_lower"].update(edits)


QUIET = finding(NONE, HALF, least_p=1e-6)
QUIET_B = finding(NONE, HALF, metric="b", least_p=1e-6)
SHOWN = bound(MOST, 1e-6).value
LOW_P = {**CURVE.model_dump(), "p_value": 0.04, "least_p": 0.04, "critical": None}
UNEARNED: list[tuple[Edit, str]] = [
    (of_first(p_value=None), "Too little was measured for any test."),
    (of_first(least_p=None), "Too little was measured for any test."),
    (of_first(least_p=0.0501), "Too little was measured for any test."),
    (lambda d: d["releases"][0].update(tests=60_000), "Too little was measured for any test."),
    (of_first(untrained="Lost."), "Lost. What was not trained on cannot leak."),
    (bounded(guesses=[[R, MOST]], value=SHOWN), "More than chance, but not beyond doubt"),
    (lambda d: (of_first(claim_test=LOW_P)(d), d["releases"][0].update(claim_tests=9)),
     "More than chance, but not beyond doubt"),
    (of_first(control=None, chance=0.01), "More than chance, but not beyond doubt"),
    (lambda d: d["releases"].pop(), "Without references no leak could be told from none."),
    (lambda d: d["releases"][1].update(seed=1), "Without references no leak could be told"),
    (of_control(metric="recall"), "The undefended model did not leak here"),
    (of_control(p_value=0.5), "The undefended model did not leak here"),
    (lambda d: (of_control(p_value=0.5, leaked="inconclusive")(d),
                d["releases"][1].update(leaked="inconclusive")),
     "The undefended model did not leak here"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "why"), UNEARNED)
def test_no_leak_found_is_said_of_what_could_have_shown_one(
    edit: Edit, why: str, tmp_path: Path
) -> None:
    results = made(QUIET)
    assert load(tmp_path, results).releases[0].leaked == "no leak found"
    said = refusal(tmp_path, results, edit)
    assert said.startswith(
        f"{SUBMIX}'extraction.hit_rate' is called 'no leak found', but it follows 'inconclusive': "
        f"{why}"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([finding(0.04, HALF), QUIET_B], ("inconclusive", "no leak found")),
        ([finding(0.04, HALF), QUIET_B], ("inconclusive", "not measured")),
        ([QUIET_B], ("no leak found", "inconclusive")),
        ([finding(None, None)], ("inconclusive", "no leak found")),
    ],
)
def test_no_leak_is_found_only_where_every_measure_says_so(
    given: list[Finding], words: tuple[str, str], tmp_path: Path
) -> None:
    whole, said = words
    everywhere = {**SENSITIVE, ("extraction", "b"): True}
    results = made(*given, sensitive=everywhere, tests=9)
    assert results.releases[0].leaked == whole
    edit = lambda d: d["releases"][0].update(leaked=said)  # noqa: E731
    expected = f"{SUBMIX}it is called {said!r}, but its measures: {whole}"
    assert refusal(tmp_path, results, edit) == expected


def test_what_was_measured_is_not_called_unmeasured(tmp_path: Path) -> None:
    said = refusal(tmp_path, made(QUIET), of_first(leaked="not measured"))
    assert "is called 'not measured', but it follows 'no leak found'" in said
    unread = {"value": None, "ci": None, "k": None, "n": 0}
    said = refusal(tmp_path, made(QUIET), of_first(**unread))
    assert "is called 'no leak found', but it follows 'not measured'" in said


# a claim that stands untested

STANDS = finding(NONE, HALF)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (of_first(epsilon_lower=None), "this measure gives no bound on ε"),
        (bounded(m=None, guesses=None), "what its bound on ε was computed from is not stored"),
        (bounded(unit="record"), "the claim is per user (add_or_remove), the bound per record"),
        (of_first(fair_coins=False), "no fair coins chose the members"),
        (of_first(stronger_than_release=True), "it reads probabilities, and the release"),
        (of_first(untrained="Lost.", leaked="inconclusive"), "what was planted may not have been"),
        (of_first(power={**finding().power.model_dump(), "largest_epsilon": 1.0}), "so few could"),
        (lambda d: d["releases"][0].update(claim_tests=10**6), "no number of coins could"),
        (of_first(claim_test={**CURVE.model_dump(), "p_value": 0.5, "least_p": 0.05}),
         "so few coins could not refute it"),
    ],
)  # fmt: skip
def test_a_claim_stands_only_where_a_test_of_it_could_refute(
    edit: Edit, why: str, tmp_path: Path
) -> None:
    results = made(STANDS, finding(NONE, HALF, metric="b"))
    assert load(tmp_path, results).releases[0].claim == "not refuted"
    said = refusal(tmp_path, results, edit)
    assert said.startswith(
        f"{SUBMIX}'extraction.hit_rate' says of the claim 'not refuted', but it follows "
        f"'not testable': No test of the claim: {why}"
    )


@pytest.mark.parametrize("given", [finding(), STANDS], ids=["refuted", "not refuted"])
@pytest.mark.parametrize(
    ("epsilon", "word"), [("inf", "nothing claimed"), (None, "unknown"), (2.0, None)]
)
def test_of_no_claim_nothing_is_said(
    given: Finding, epsilon: float | str | None, word: str | None, tmp_path: Path
) -> None:
    results = made(given)
    own = str(results.releases[0].claim)

    def edit(document: Document) -> None:
        document["releases"][0]["guarantee"]["epsilon"] = epsilon
        if word is None:
            document["releases"][0]["findings"][0]["claim"] = "nothing claimed"

    said = refusal(tmp_path, results, edit)
    if word is not None:
        assert f"says of the claim {own!r}, but it follows {word!r}: " in said
    else:
        assert "says of the claim 'nothing claimed', but " in said


@pytest.mark.parametrize("word", sorted(set(OnClaim) - {OnClaim.NOT_REFUTED, OnClaim.REFUTED}))
def test_the_whole_says_of_the_claim_what_its_measures_do(word: str, tmp_path: Path) -> None:
    edit = lambda d: d["releases"][0].update(claim=word)  # noqa: E731
    said = refusal(tmp_path, made(STANDS), edit)
    assert said == f"{SUBMIX}its claim is called {word!r}, but its measures: not refuted"


# evidence


@pytest.mark.parametrize(
    "edits",
    [
        {"value": 0.0},
        {"value": SHOWN - 2e-4},
        {"value": SHOWN + 2e-4},
        {"value": 3.0},
        {"guesses": [[R, HALF]]},
        {"guesses": [[R, ALL]]},
        {"m": 90, "delta": 1e-3},
        {"confidence": 0.99},
        {"method": "rank", "m": None, "guesses": None, "rank": 1.0, "space": 1e5, "n": 1},
    ],
)
def test_a_bound_is_what_its_evidence_gives(edits: dict[str, Any], tmp_path: Path) -> None:
    results = made(finding(NONE, MOST), claim=promise(math.inf))
    assert load(tmp_path, results).releases[0].leaked == "inconclusive"
    said = refusal(tmp_path, results, bounded(**edits))
    assert said.startswith(f"{SUBMIX}'extraction.hit_rate' has the bound ε = ")
    assert ", but its own evidence gives " in said


def test_guesses_enough_to_refute_have_a_p_value_that_does(tmp_path: Path) -> None:
    curve = CURVE.model_copy(update={"p_value": 0.012, "v": 77})
    results = made(finding(claim_test=curve), claims=4)
    assert load(tmp_path, results).releases[0].claim == "refuted"
    for p in (0.013, 0.05, 0.9):
        test = {**curve.model_dump(), "p_value": p}
        said = refusal(tmp_path, results, of_first(claim_test=test, claim="not refuted"))
        assert said.endswith(f"has p = {p:.2g} of the claim, but 77 guesses right refute the claim "
                             "from 77 on")  # fmt: skip


LEDGER = {
    "compared": charged(0.9, exceeded=0), "beyond": charged(1.1, exceeded=4),
    "bet": charged(400.0, p_value=1 / 400), "lost": charged(0.3, p_value=1.0),
    "won": charged(math.inf, p_value=0.0), "barely": charged(1 + 1e-9, exceeded=1),
    "unasked": charged(None, queries=0),
}  # fmt: skip


@pytest.mark.parametrize("name", LEDGER)
def test_an_honest_ledger_is_read(name: str, tmp_path: Path) -> None:
    """A refuted one shows no leak of what was planted."""
    results = made(LEDGER[name], QUIET)
    read = load(tmp_path, results).releases[0]
    assert read.claim == ("refuted" if name in ("beyond", "bet", "won", "barely") else read.claim)
    assert read.findings[0].leaked == "not measured" and read.leaked == "no leak found"


def of_ledger(value: Any = None, **test: Any) -> Edit:
    def edit(document: Document) -> None:
        first = document["releases"][0]["findings"][0]
        first["charge_test"].update(test)
        if value is not None:
            first.update(value=value, ci=None)

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("compared", of_ledger(exceeded=130), "130 of 129 queries exceed a charge"),
        ("compared", of_ledger(2.0), "has 0 queries beyond their charge, the worst at 2 times it"),
        ("beyond", of_ledger(0.9), "has 4 queries beyond their charge, the worst at 0.9 times it"),
        ("beyond", of_ledger(exceeded=0), "has 0 queries beyond their charge, the worst at 1.1"),
        ("beyond", of_first(value=None, ci=None), "has no value, but 129 queries were compared"),
        ("bet", of_ledger(p_value=0.5), "has p = 0.5 of the charges, but its wealth gives 0.0025"),
        ("bet", of_ledger(19.0), "has p = 0.0025 of the charges, but its wealth gives 0.053"),
        ("lost", of_ledger(p_value=0.9), "has p = 0.9 of the charges, but its wealth gives 1"),
        ("won", of_ledger(p_value=1.0), "has p = 1 of the charges, but its wealth gives 0"),
        *(
            ("beyond", of_first(leaked=word), f"is called {word!r}, but it follows 'not measured'")
            for word in sorted(set(Leaked) - {Leaked.NOT_MEASURED})
        ),
    ],
)
def test_a_ledger_that_contradicts_itself_is_refused(
    name: str, edit: Edit, said: str, tmp_path: Path
) -> None:
    assert said in refusal(tmp_path, made(LEDGER[name], QUIET), edit)


# honest results


def nearly(p: float) -> st.SearchStrategy[float]:
    """p-values that six digits may move to the other side of a level."""
    return st.integers(-9, 9).map(lambda steps: p * (1 + steps * 3e-7))


def test_six_digits_reject_no_test_that_the_run_did_not(tmp_path: Path) -> None:
    """0.0083333334 of six tests is 0.0500000004; as it is written, 0.04999998."""
    results = made(finding(0.0083333334, HALF), tests=6)
    assert results.releases[0].leaked == "inconclusive"
    assert load(tmp_path, results).releases[0].leaked == "inconclusive"
    unread = {"interval": clopper_pearson(0, 0), "k": 0, "control": None}
    results = made(finding(0.0083333334, HALF, **unread), tests=6)
    assert load(tmp_path, results).releases[0].leaked == "not measured"


def test_six_digits_of_a_level_make_no_silence_unearned(tmp_path: Path) -> None:
    """0.0071428571 of seven tests is 0.0499999997; as it is written, 0.05000002."""
    just = 0.0071428571
    results = made(finding(NONE, HALF, least_p=just), tests=7)
    own = released([finding(just, None)], promise(math.inf), tests=7)
    (control,) = documents.document(defense="none", reference=True, **own).releases
    assert control.leaked == "leak"
    for whole in (
        results,
        results.model_copy(update={"releases": [results.releases[0], control]}),
    ):
        assert load(tmp_path, whole).releases[0].leaked == "no leak found"


near = st.sampled_from([0.05, 0.025, 0.05 / 3, 0.0125, 0.01, 0.05 / 6]).flatmap(nearly)
claims = st.builds(
    lambda epsilon, delta: promise(epsilon, delta=delta),
    st.floats(0.0, 2.0),
    st.sampled_from([None, 0.0, 1e-6, 1 / 3e6]),
)


@for_all(
    any_findings(),
    st.lists(near, min_size=6, max_size=6),
    any_claim | claims,
    any_control,
    st.sampled_from([0, 1, 6, 12]),
    st.sampled_from([0, 6]),
    st.booleans(),
    st.sampled_from([*LEDGER.values()]),
)
def test_honest_results_are_never_refused(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Finding],
    p_values: list[float],
    claim: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None,
    tests: int,
    count: int,
    fair: bool,
    ledger: Finding,
) -> None:
    """However near their p-values are to a level, and whatever six digits do to them."""
    p_of = dict(zip(dict.fromkeys(f.test for f in found), p_values, strict=False))
    near_level = [
        with_p(f, p_of[f.test], fair) if f.p_value is not None else with_p(f, None, fair)
        for f in [*found, ledger]
    ]
    folder = tmp_path_factory.mktemp("honest")
    for given in ([*found, ledger], near_level):
        fields = released(given, claim, sensitive, tests, count)
        results = beside(documents.document(**fields), sensitive)
        read = load(folder, results).releases[0]
        assert (read.leaked, read.claim) == (fields["leaked"], fields["claim"])


@for_all(
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-3]),
    st.sampled_from([None, 1e-6, 1e-3]),
    st.sampled_from([1, 7]),
    st.sampled_from([NONE, 0.05, 0.06]).flatmap(nearly),
    st.sampled_from([0.05, 0.05 / 7]).flatmap(nearly),
    st.integers(HALF, ALL),
    st.integers(-9, 9),
    st.booleans(),
)
def test_nor_are_those_that_could_hardly_have_shown_anything(
    tmp_path_factory: pytest.TempPathFactory,
    delta: float,
    claimed: float | None,
    tests: int,
    p: float,
    least: float,
    v: int,
    step: int,
    named: bool,
) -> None:
    """A claim just at what so many coins can refute, tests that could just have shown a leak."""
    one = bound(v, delta)
    most = bounds.most_at(one, claimed or 0.0, 0.05 / tests) * (1 + step * 3e-7)
    largest = bounds.most_at(one, delta, 0.05 / tests) if named else None
    power = Power(smallest_rate=None, largest_epsilon=largest, n=100)
    given = finding(p, epsilon_lower=one, least_p=least, power=power)
    for promised in (most, bounds.at_delta(one, claimed or 0.0) * (1 + step * 3e-7)):
        claim = promise(promised, delta=claimed)
        results = made(given, claim=claim, tests=tests, claims=tests)
        read = load(tmp_path_factory.mktemp("hardly"), results).releases[0]
        assert (read.leaked, read.claim) == (results.releases[0].leaked, results.releases[0].claim)


def with_p(found: Finding, p: float | None, fair: bool) -> Finding:
    return finding(**{**vars(found), "p": p, "v": None, "fair_coins": fair,
                      "epsilon_lower": found.epsilon_lower, "p_value": p})  # fmt: skip


@for_all(any_findings(), any_claim, st.sampled_from([0, 6]), st.data())
def test_every_rejected_test_called_otherwise_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Finding],
    claim: Guarantee,
    tests: int,
    data: st.DataObject,
) -> None:
    fields = released(found, claim, SENSITIVE, tests)
    results: list[FindingResult] = fields["findings"]
    p_of = {f.test: f.p_value for f in results if f.p_value is not None}
    size = max(tests, len(p_of))
    adjusted = adjusted_p_values([*p_of.values(), *[1.0] * (size - len(p_of))])
    clear = {test for test, p in zip(p_of, adjusted, strict=False) if p < 0.049}
    leaking = [i for i, f in enumerate(results) if f.test in clear and f.leaked == Leaked.LEAK]
    assume(leaking)
    place = data.draw(st.sampled_from(leaking))
    word = data.draw(st.sampled_from(sorted(set(Leaked) - {Leaked.LEAK})))

    def edit(document: Document) -> None:
        document["releases"][0]["findings"][place]["leaked"] = word

    refusal(tmp_path_factory.mktemp("hidden"), documents.document(**fields), edit)


# a claim and its own accounting


SGD = Mechanism((Gaussians(1.0, 1000, 0.01),), "add_or_remove")
TABLE = to_table(SGD, 1e-5)  # ε = 1.83


def accounted(table: Mapping[str, Any] | None, epsilon: float = 1.9, **claim: Any) -> Results:
    given = promise(epsilon, **{"delta": 1e-5, "accounting": table, **claim})
    return made(finding(NONE, HALF), claim=given)


def test_a_claim_is_at_least_its_own_accounting(tmp_path: Path) -> None:
    assert 1.82 < epsilon(SGD, 1e-5) < 1.84
    for claimed, delta in ((epsilon(SGD, 1e-5), 1e-5), (1.9, 1e-5), (math.inf, 1e-5), (1.9, 1e-3)):
        read = load(tmp_path, accounted(TABLE, claimed, delta=delta))
        assert read.releases[0].guarantee.accounting == TABLE
    said = refusal(tmp_path, accounted(TABLE, 1.8))
    assert said.startswith(f"{SUBMIX}ε = 1.8 is claimed, and its own accounting gives 1.8")


SIGMA = 0.1329  # one release: μ = 1/SIGMA


def test_a_claim_of_two_beside_an_accounting_of_sixty_is_refused(tmp_path: Path) -> None:
    loose = to_table(Mechanism((Gaussians(SIGMA, 1),), "add_or_remove"), 1e-5)
    assert gaussian(1 / SIGMA, 1e-5) == pytest.approx(59.6, abs=0.1)
    said = refusal(tmp_path, accounted(loose, 2.0))
    assert said.startswith(f"{SUBMIX}ε = 2 is claimed, and its own accounting gives 59.")


def gaussian(mu: float, delta: float) -> float:
    """ε of a Gaussian mechanism by bisection on Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    from scipy.stats import norm

    low, high = 0.0, 1000.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        tail = math.exp(middle + norm.logcdf(-mu / 2 - middle / mu))
        low, high = (
            (middle, high) if norm.cdf(mu / 2 - middle / mu) - tail > delta else (low, middle)
        )
    return high


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"delta": 1e-6}, "δ = 1e-06 is claimed, and the accounting is for 1e-05"),
        ({"delta": None}, "δ = 0 is claimed, and the accounting is for 1e-05"),
        ({"relation": "replace"}, "claimed under 'replace', accounted under 'add_or_remove'"),
        ({"relation": "replace\n", "also": ("x",)}, "claimed under 'replace\\n', accounted"),
    ],
)
def test_so_are_its_delta_and_its_relation(
    claim: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert said in refusal(tmp_path, accounted(TABLE, **claim))


def test_a_relation_that_holds_too_is_one_to_account_under(tmp_path: Path) -> None:
    both = accounted(TABLE, relation="replace", also=("add_or_remove",))
    assert load(tmp_path, both).releases[0].guarantee.epsilon == 1.9


TERM = TABLE["terms"][0]


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"relation": "add_or_remove"},
        {**TABLE, "relation": "sideways"},
        {**TABLE, "relation": ["add_or_remove"]},
        {**TABLE, "delta": 2},
        {**TABLE, "delta": "small"},
        {**TABLE, "delta": 10**400},
        {**TABLE, "terms": None},
        {**TABLE, "terms": ["noise"]},
        {**TABLE, "terms": [{**TERM, "noise_multiplier": "much"}]},
        {**TABLE, "terms": [{**TERM, "noise_multiplier": -1}]},
        {**TABLE, "terms": [{**TERM, "count": 1.5}]},
        {**TABLE, "terms": [{**TERM, "count": "inf"}]},
        {**TABLE, "terms": [{**TERM, "count": 10**400}]},
        {**TABLE, "terms": [{**TERM, "records": 10**400}]},
        {**TABLE, "terms": [{**TERM, "what": 1}]},
    ],
)
def test_an_accounting_that_cannot_be_read_is_refused_in_one_line(
    table: dict[str, Any], tmp_path: Path
) -> None:
    edit = lambda d: d["releases"][0]["guarantee"].update(accounting=table)  # noqa: E731
    assert refusal(tmp_path, accounted(None), edit).startswith(f"{SUBMIX}")


# the settings of a sweep


def swept(cell: Mapping[str, Any], release: ReleaseResult | None = None) -> Results:
    release = release or made(finding()).releases[0]
    sweep = SweepResult(seeds=[], cells=[Cell(**cell)])
    return documents.document().model_copy(update={"releases": [release], "sweep": sweep})


def a_cell(release: ReleaseResult, **changes: Any) -> dict[str, Any]:
    return {
        "releases": [0], "utility": {}, "findings": release.findings, "leaked": release.leaked,
        "claim": release.claim, **changes,
    }  # fmt: skip


def test_a_setting_is_held_to_its_p_values_as_well(tmp_path: Path) -> None:
    release = made(finding()).releases[0]
    assert load(tmp_path, swept(a_cell(release))).sweep is not None

    def of_cell(**edits: Any) -> Edit:
        return lambda d: d["sweep"]["cells"][0]["findings"][0].update(edits)

    said = refusal(tmp_path, swept(a_cell(release)), of_cell(leaked="inconclusive"))
    assert said == "sweep.cells.0: 'extraction.hit_rate' is called 'inconclusive', but its test " \
        "is rejected"  # fmt: skip
    for name, word in (("leaked", "no leak found"), ("claim", "not refuted")):
        said = refusal(tmp_path, swept(a_cell(release, **{name: word})))
        assert said.startswith("sweep.cells.0: it")
    quiet = of_cell(leaked="no leak found", p_value=0.04)
    assert "at p = 0.04" in refusal(tmp_path, swept(a_cell(release)), lambda d: (
        d["releases"][0].update(tests=9), quiet(d)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("seeds", "edits", "said"),
    [
        ((0.5, 0.04), {}, "is called 'no leak found', but not so in each of its seeds"),
        (
            (0.5, 0.5),
            {"claim": OnClaim.NOT_REFUTED},
            "'not refuted', but no seed of it tested that",
        ),
        ((0.5, 0.5), {"unit": "bits"}, "is called 'no leak found', but not so in each of its seed"),
    ],
)
def test_a_setting_is_as_silent_as_all_its_seeds(
    seeds: tuple[float, float], edits: dict[str, Any], said: str, tmp_path: Path
) -> None:
    one = made(*(finding(p, HALF) for p in seeds[:1]), claim=promise(8.0), tests=9)
    other = made(*(finding(p, HALF) for p in seeds[1:]), claim=promise(8.0), tests=9)
    again = [r.model_copy(update={"seed": 1}) for r in other.releases]
    joined = one.releases[0].findings[0].model_copy(update=edits)
    cell = Cell(releases=[0, 2], utility={}, findings=[joined], leaked=joined.leaked,
                claim=joined.claim)  # fmt: skip
    results = one.model_copy(
        update={"releases": [*one.releases, *again], "sweep": SweepResult(seeds=[], cells=[cell])}
    )
    assert said in refusal(tmp_path, results)


def test_a_setting_is_held_to_the_weakest_claim_of_its_seeds(tmp_path: Path) -> None:
    for epsilons, word in (((2.0, math.inf), "nothing claimed"), ((2.0, 3.0), "not refuted")):
        runs = [made(QUIET, claim=promise(epsilon)) for epsilon in epsilons]
        first, second = runs[0].releases, [
            r.model_copy(update={"seed": 1}) for r in runs[1].releases
        ]  # fmt: skip
        cell = Cell(**{**a_cell(first[0]), "releases": [0, 2], "claim": OnClaim(word)})
        sweep = SweepResult(seeds=[], cells=[cell])
        whole = runs[0].model_copy(update={"releases": [*first, *second], "sweep": sweep})
        assert load(tmp_path, whole).sweep is not None


def test_a_setting_calls_no_ledger_silent(tmp_path: Path) -> None:
    release = made(LEDGER["beyond"]).releases[0]
    assert load(tmp_path, swept(a_cell(release), release)).sweep is not None
    loud = [f.model_copy(update={"leaked": Leaked.INCONCLUSIVE}) for f in release.findings]
    said = refusal(tmp_path, swept(a_cell(release, findings=loud), release))
    assert said.endswith("is called 'inconclusive', but looks for no planted secret")


@pytest.mark.parametrize("word", ["not measured", "inconclusive"])
def test_a_setting_is_called_what_its_measures_are(word: str, tmp_path: Path) -> None:
    results = made(QUIET)
    cell = Cell(**{**a_cell(results.releases[0]), "leaked": word})
    whole = results.model_copy(update={"sweep": SweepResult(seeds=[], cells=[cell])})
    said = refusal(tmp_path, whole)
    assert said == f"sweep.cells.0: it is called {word!r}, but its measures: no leak found"


@pytest.mark.parametrize("places", [[], [1], [-1], [0, 7]])
def test_a_setting_names_releases_that_are_there(places: list[int], tmp_path: Path) -> None:
    release = made(finding()).releases[0]
    said = refusal(tmp_path, swept(a_cell(release, releases=places)))
    assert "a setting of the sweep names releases that are not there" in said
