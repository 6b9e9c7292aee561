"""results.json as it is read: round trips, and refusals of what contradicts itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from audit.accounting import Gaussians, Mechanism, epsilon, to_table
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import bounds, stored
from audit.findings.settings import seed_p_value
from audit.findings.shows import silence_over
from audit.findings.verdict import claim_overall
from audit.results.joined import leaked_overall
from audit.results.measurement import Measurement
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
from audit.run.sweep.over_seeds import cells
from audit.statistics.holm import adjusted_p_values
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
    found: Sequence[Measurement],
    guarantee: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None = SENSITIVE,
    tests: int = 0,
    claims: int = 0,
) -> dict[str, Any]:
    """The fields of a release that follow from its findings."""
    findings = judged(found, guarantee, sensitive, tests, claims)
    return {
        "guarantee": GuaranteeResult.of(guarantee),
        "findings": findings,
        "tests": tests,
        "claim_tests": claims,
        "leaked": leaked_overall(findings),
        "claim": claim_overall(findings, guarantee),
        "silence": silence_over(findings),
    }


def made(
    *found: Measurement,
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
    return results.changed(releases=[*results.releases, control])


def load(folder: Path, results: Results, edit: Edit = lambda _: None) -> Results:
    """Writes the results, edits what was written, and reads them back."""
    document = json.loads(to_json(results))
    edit(document)
    path = folder / "results.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return stored.load(path)


def check_refusals(folder: Path, rows: Sequence[tuple[Results, Edit, str]]) -> None:
    """Checks that each edit of these results is refused with its words; names all that are not."""
    wrong, path = [], f"{folder / 'results.json'}: "
    for i, (results, edit, words) in enumerate(rows):
        try:
            load(folder, results, edit)
            said = "read"
        except UsageError as error:
            said = str(error)
        if words not in said or not said.startswith(path) or not said.isprintable():
            wrong.append(f"row {i}: {words!r} is not in {said!r}")
    assert not wrong, "\n".join(wrong)


def of_finding(document: Document) -> Document:
    """The first finding."""
    first: Document = document["releases"][0]["findings"][0]
    return first


def of_first(**edits: Any) -> Edit:
    """An edit of the first finding."""
    return lambda d: of_finding(d).update(edits)


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


def test_rounding_and_unknown_outcomes_contradict_nothing(tmp_path: Path) -> None:
    """A mean of like values may miss them by the last digit, and be rounded to the other side."""
    mean = documents.finding(k=None, value=0.1234565000001, ci=(0.0, 0.1234564999999))
    told = documents.finding(**{**COUNTED, "metric": "recall", "outcomes": "-01--00-"})
    one, other = load(tmp_path, documents.document(findings=[mean, told])).releases[0].findings
    assert one.ci is not None and one.value is not None and one.value > one.ci[1]
    assert other.outcomes == "-01--00-"


def test_same_attack_on_seeds_and_settings_is_no_repetition(tmp_path: Path) -> None:
    one = documents.document().releases[0]
    alike = [one, one.model_copy(update={"seed": 1}), one.model_copy(update={"parameters": {}})]
    several = documents.document().model_copy(update={"releases": alike})
    assert len(load(tmp_path, several).releases) == 3


FIELDS = (
    "access",
    "method",
    "k",
    "chance",
    "control",
    "p_value",
    "least_p",
    "epsilon_lower",
    "power",
)


def test_no_field_of_a_finding_may_be_left_out(tmp_path: Path) -> None:
    rows = [
        (documents.document(), lambda d, name=name: of_finding(d).pop(name), f"has no {name}")
        for name in FIELDS
    ]
    check_refusals(tmp_path, rows)


# what is no document


BAD: list[tuple[Edit, str]] = [
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
    (of_first(fair_coins=False), "findings.0.fair_coins"),  # as no run has it
    (lambda d: d["releases"][0]["guarantee"].update(epsilon={}), "guarantee.epsilon"),
]


def test_a_bad_document_is_refused_by_its_place(tmp_path: Path) -> None:
    check_refusals(tmp_path, [(documents.document(), *row) for row in BAD])


def test_what_is_no_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(UsageError, match="audit run"):  # there is none
        stored.load(path)
    for content in (b"", b"{", b"\xff", b"[]", b"3", b"null", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=str(path)):
            stored.load(path)


# counts and intervals


def twice(key: str, where: Callable[[Document], Any]) -> Edit:
    def edit(document: Document) -> None:
        here = where(document)
        here[key].append(here[key][0])

    return edit


def of_bound(**edits: Any) -> Edit:
    return lambda d: of_finding(d)["epsilon_lower"].update(edits)


def of_curve(**edits: Any) -> Edit:
    return of_first(claim_test={**CURVE.model_dump(), **edits})


SESSION = {
    "purpose": "utility", "queries": 3, "answered": 2, "budget": 9, "remaining": 6,
    "stopped_at": 2, "epsilon_spent": [0.1], "spent_curve": [[1, 0.1]],
}  # fmt: skip


def of_session(**edits: Any) -> Edit:
    """A session more, so edited."""
    return lambda d: d["releases"][0]["sessions"].append({**SESSION, **edits})


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
    (lambda d: of_finding(d)["control"].update(k=7), "not k = 7 of n = 100"),
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
    (lambda d: d["releases"][0]["cost"].update(queries=10**400), "cost: queries is no count"),
    (lambda d: d["corpus"].update(users=-1), "corpus: users is no count"),
    (of_session(spent_curve=[[10**400, 0.1]]), "spent_curve"),
    (of_session(spent_curve=[[1, 10**400]]), "spent_curve"),
    (of_session(epsilon_spent=[-0.5]), "epsilon_spent"),
    (of_session(stopped_at=10**400), "stopped_at"),
    (lambda d: d["plan"].update(attacks=None), "plan.attacks must be a list of tables"),
    (lambda d: d["plan"].update(attacks=[{}]), "plan.attacks must be a list of tables"),
    (lambda d: d["plan"].update(defenses=["b"]), "plan.defenses must be a list of tables"),
    (lambda d: d["plan"].update(seeds=None), "plan.seeds must be a list"),
]


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    check_refusals(tmp_path, [(documents.document(), *row) for row in CONTRADICTIONS])


# what does not follow from the numbers

ZERO = promise(0.0, delta=0.0)  # refuted by any test that finds a leak, whether it bounds ε or not
QUIET = finding(NONE, HALF, least_p=1e-6)
QUIET_B = finding(NONE, HALF, metric="b", least_p=1e-6)
STANDS = finding(NONE, HALF)
SHOWN = bound(MOST, 1e-6).value
LOW_P = {**CURVE.model_dump(), "p_value": 0.04, "least_p": 0.04, "critical": None}
REFUTES = CURVE.changed(p_value=0.012, v=77)
UNREAD = {"value": None, "ci": None, "k": None, "n": 0}
OTHER = sorted(set(Leaked) - {Leaked.LEAK})
UNREFUTED = sorted(set(OnClaim) - {OnClaim.REFUTED})
LEDGER = {
    "compared": charged(0.9, exceeded=0), "beyond": charged(1.1, exceeded=4),
    "bet": charged(400.0, p_value=1 / 400), "lost": charged(0.3, p_value=1.0),
    "won": charged(math.inf, p_value=0.0), "barely": charged(1 + 1e-9, exceeded=1),
    "unasked": charged(None, queries=0),
}  # fmt: skip


def both(*edits: Edit) -> Edit:
    return lambda d: [edit(d) for edit in edits]


def of_release(**edits: Any) -> Edit:
    return lambda d: d["releases"][0].update(edits)


def of_claim(**edits: Any) -> Edit:
    return lambda d: d["releases"][0]["guarantee"].update(edits)


def of_control(**edits: Any) -> Edit:
    return lambda d: d["releases"][1]["findings"][0].update(edits)


def of_ledger(value: Any = None, **test: Any) -> Edit:
    change = {} if value is None else {"value": value, "ci": None}
    return lambda d: (
        of_finding(d)["charge_test"].update(test), of_first(**change)(d)
    )  # fmt: skip


def one_of_two_p_values(place: int) -> Edit:
    """Call a test that two measures share inconclusive, and take the p-value of one away."""

    def edit(document: Document) -> None:
        release = document["releases"][0]
        for found in (release, *release["findings"]):
            found["leaked"] = "inconclusive"
        release["findings"][place]["p_value"] = 0.5

    return edit


def follows(word: str, why: str = "") -> str:
    return f"but it follows {word!r}" + (f": {why}" if why else "")


SHARED = made(finding(v=HALF, test="one"), finding(v=HALF, metric="b", test="one"))
NINE = made(finding(0.01, HALF), tests=9)
OPEN = made(finding(0.01, HALF), QUIET_B, sensitive={**SENSITIVE, ("extraction", "b"): True},
            tests=9)  # fmt: skip
TOO_FEW, ABOVE = "Too little was measured", "More than chance, but not beyond doubt"
ALONE = "Run it again without --no-references"
BESIDE = "Not even the undefended model leaked by this"
CALM = both(of_control(p_value=0.5, adjusted_p=0.5, leaked="inconclusive"),
            lambda d: d["releases"][1].update(leaked="inconclusive"))  # fmt: skip
REFUSED: list[tuple[Results, Edit, str]] = [
    # a leak that is called anything else
    *((made(finding()), of_first(leaked=word), follows("leak")) for word in OTHER),
    *((made(finding(), QUIET_B), of_release(leaked=word), "a measure of it is a leak")
      for word in OTHER),
    (made(finding()), of_first(**UNREAD, leaked="not measured"), follows("leak")),
    *((SHARED, one_of_two_p_values(place), follows("leak")) for place in (0, 1)),
    (made(finding()), of_first(leaked="inconclusive", p_value=None), follows("leak")),
    (made(finding(0.049, HALF), tests=1), of_first(leaked="inconclusive"), follows("leak")),
    (made(finding(0.024, HALF), tests=2), of_first(leaked="inconclusive"), follows("leak")),
    (NINE, of_first(leaked="no leak found"), follows("inconclusive", ABOVE)),
    # no leak that is called one
    (made(QUIET), of_first(leaked="leak"), follows("no leak found")),
    (made(QUIET), of_release(silence=None), "not those of its measures"),
    # silence that shows nothing
    (made(QUIET), of_first(p_value=None), follows("inconclusive", TOO_FEW)),
    (made(QUIET), of_first(least_p=0.0501), follows("inconclusive", TOO_FEW)),
    (made(QUIET), of_release(tests=60_000), follows("inconclusive", TOO_FEW)),
    (made(QUIET), of_first(untrained="Lost."), follows("inconclusive", "Lost. What was not")),
    (made(QUIET), of_first(adjusted_p=0.1), follows("inconclusive", ABOVE)),
    (made(QUIET), of_first(guesses_p=0.1), follows("inconclusive", ABOVE)),
    (made(QUIET), of_first(adjusted_p=0.04), follows("leak")),
    (made(QUIET), of_first(adjusted_p=None), follows("inconclusive", "Its p-value is not adj")),
    (made(QUIET), of_first(guesses_p=None), "has the adjusted p = None of guesses whose p is"),
    (made(finding(0.2, HALF)), of_first(p_value=0.3), "has the adjusted p = 0.2, below its p"),
    (made(finding(NONE, 33)), of_first(guesses_p=0.4),
     "of guesses whose p is"),
    (made(QUIET), of_first(power={**finding().power.model_dump(), "found": 0.79}),
     follows("inconclusive", "If one person in four leaked wholly, it would be called")),
    (made(QUIET), lambda d: d["releases"].pop(), follows("inconclusive", ALONE)),
    (made(QUIET), lambda d: d["releases"][1].update(seed=1), follows("inconclusive", ALONE)),
    (made(QUIET), lambda d: d["plan"].update(references=False), follows("inconclusive", ALONE)),
    (made(QUIET), of_control(metric="recall"), follows("inconclusive", BESIDE)),
    (made(QUIET), of_control(p_value=0.5, adjusted_p=0.5), follows("inconclusive", BESIDE)),
    (made(QUIET), CALM, follows("inconclusive", BESIDE)),
    (made(QUIET), of_first(leaked="not measured"), follows("no leak found")),
    (made(QUIET), of_first(**UNREAD), follows("not measured")),
    (OPEN, of_release(leaked="no leak found"), "its measures: inconclusive"),
    (OPEN, of_release(leaked="not measured"), "its measures: inconclusive"),
    (made(QUIET), of_release(leaked="inconclusive"), "its measures: no leak found"),
    (made(finding(None, None)), of_release(leaked="no leak found"), "its measures: inconclusive"),
    # a refutation that is called anything else
    *(
        (made(given, claim=claim), of_first(claim=word), follows("refuted"))
        for given, claim in (
            (finding(), promise(2.0)),
            (finding(v=None), ZERO),
            (finding(v=HALF), ZERO),
            (finding(v=HALF, claim_test=CURVE), promise(2.0)),
            (finding(v=None, claim_test=CURVE), promise(2.0, delta=0.1)),
        )
        for word in UNREFUTED
    ),
    *((made(finding()), of_release(claim=word), "a measure refutes it") for word in UNREFUTED),
    (made(finding(), claim=promise(8.0)), of_claim(epsilon=2.0), follows("refuted")),
    (made(STANDS), of_first(claim="refuted"), follows("not refuted")),
    # a claim that stands untested
    *(
        (made(STANDS, finding(NONE, HALF, metric="b")), edit,
         follows("not testable", f"No test of the claim: {why}"))
        for edit, why in (
            (of_first(epsilon_lower=None), "this measure gives no bound on ε"),
            (of_bound(unit="record"), "the claim is per user (add_or_remove), the bound per rec"),
            (of_first(stronger_than_release=True), "it reads probabilities, and the release"),
            (of_first(untrained="Lost.", leaked="inconclusive"), "what was planted may not have"),
            (of_first(power={**finding().power.model_dump(), "largest_epsilon": 1.0}), "so few"),
            (of_release(claim_tests=10**6), "no number of coins could"),
            (of_first(claim_test={**CURVE.model_dump(), "p_value": 0.5, "least_p": 0.05}),
             "so few coins could not refute it"),
        )
    ),
    *((made(given), of_claim(epsilon=epsilon), follows(word))
      for given in (finding(), STANDS)
      for epsilon, word in (("inf", "nothing claimed"), (None, "unknown"))),
    (made(STANDS), of_first(claim="nothing claimed"), follows("not refuted")),
    *((made(STANDS), of_release(claim=word), "its measures: not refuted")
      for word in UNREFUTED if word != OnClaim.NOT_REFUTED),
    # evidence
    *(
        (made(finding(NONE, MOST), claim=promise(math.inf)), of_bound(**edits),
         "but its own evidence gives")
        for edits in (
            {"value": 0.0}, {"value": SHOWN - 2e-5}, {"value": SHOWN + 2e-5}, {"value": 3.0},
            {"guesses": [[R, HALF]]}, {"guesses": [[R, ALL]]}, {"m": 90, "delta": 1e-3},
            {"confidence": 0.99},
            {"method": "rank", "m": None, "guesses": None, "rank": 1.0, "space": 1e5, "n": 1},
        )
    ),
    *(
        (made(finding(claim_test=REFUTES), claims=4),
         of_first(claim_test={**REFUTES.model_dump(), "p_value": p}, claim="not refuted"),
         "of the claim, but 77 guesses right refute the claim from 77 on")
        for p in (0.0126, 0.05, 0.9)
    ),
    # ledgers
    *(
        (made(LEDGER[name], QUIET), edit, said)
        for name, edit, said in (
            ("compared", of_ledger(exceeded=130), "130 of 129 queries exceed a charge"),
            ("compared", of_ledger(2.0), "has 0 queries beyond their charge, the worst at 2 times"),
            ("beyond", of_ledger(0.9), "has 4 queries beyond their charge, the worst at 0.9 times"),
            ("beyond", both(of_ledger(exceeded=0), of_first(claim="not testable")), "follows"),
            ("beyond", of_first(value=None, ci=None), "has no value, but 129 queries were compa"),
            ("bet", of_ledger(p_value=0.5), "follows 'not refuted'"),
            ("bet", of_ledger(p_value=0.00251), "of the charges, but its wealth gives 0.0025"),
            ("bet", of_ledger(19.0), "has p = 0.0025 of the charges, but its wealth gives 0.053"),
            ("lost", of_ledger(p_value=0.9), "has p = 0.9 of the charges, but its wealth gives 1"),
            ("won", of_ledger(p_value=1e-9), "has p = 1e-09 of the charges, but its wealth gives"),
            *(("beyond", of_first(leaked=word), follows("not measured"))
              for word in sorted(set(Leaked) - {Leaked.NOT_MEASURED})),
        )
    ),
]  # fmt: skip


def test_an_edit_that_its_numbers_contradict_is_refused(tmp_path: Path) -> None:
    for results in {id(row[0]): row[0] for row in REFUSED}.values():
        load(tmp_path, results)
    check_refusals(tmp_path, REFUSED)


READ = {
    "adjusted": (made(finding(0.049, HALF), tests=2), "inconclusive"),
    "beyond the release": (made(finding(stronger_than_release=True)), "not measured"),
    "of eight": (made(finding(), claim=promise(8.0)), "leak"),
    "quiet": (made(QUIET), "no leak found"),
    **{name: (made(given, QUIET), "no leak found") for name, given in LEDGER.items()},
}


def test_honest_files_are_read(tmp_path: Path) -> None:
    for name, (results, word) in READ.items():
        read = load(tmp_path, results).releases[0]
        assert read.leaked == word, name
        refuted = name in ("beyond", "bet", "won", "barely")
        assert name not in LEDGER or (read.findings[0].claim == "refuted") == refuted
    # a leak may be shown by another measure of its test
    results = made(finding(test="one"), finding(metric="b", test="one"))
    edit = of_first(**UNREAD, leaked="not measured")
    assert load(tmp_path, results, edit).releases[0].leaked == "leak"


def test_refusal_names_the_remedy_in_printable_text(tmp_path: Path) -> None:
    def edit(document: Document) -> None:
        release = document["releases"][0]
        release["defense"] = of_finding(document)["attack"] = "\x1b[31m\nall is fine\u202e"
        of_finding(document)["leaked"] = "no leak found"

    check_refusals(tmp_path, [(made(finding()), edit, "run its plan again")])


# honest results


def nearly(p: float) -> st.SearchStrategy[float]:
    """p-values that six digits may move to the other side of a level."""
    return st.integers(-9, 9).map(lambda steps: p * (1 + steps * 3e-7))


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
    st.sampled_from([*LEDGER.values()]),
)
def test_honest_results_are_never_refused(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Measurement],
    p_values: list[float],
    claim: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None,
    tests: int,
    count: int,
    ledger: Measurement,
) -> None:
    """However near their p-values are to a level, and whatever six digits do to them."""
    p_of = dict(zip(dict.fromkeys(f.test for f in found), p_values, strict=False))
    near_level = [f.changed(p_value=p_of[f.test]) if f.p_value is not None else f for f in found]
    folder = tmp_path_factory.mktemp("honest")
    for given in (found, near_level):
        fields = released([*given, ledger], claim, sensitive, tests, count)
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


@for_all(any_findings(), any_claim, st.sampled_from([0, 6]), st.data())
def test_every_rejected_test_called_otherwise_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Measurement],
    claim: Guarantee,
    tests: int,
    data: st.DataObject,
) -> None:
    fields = released([*found, finding(1e-9)], claim, SENSITIVE, tests)
    results: list[FindingResult] = fields["findings"]
    p_of = {f.test: f.p_value for f in results if f.p_value is not None}
    size = max(tests, len(p_of))
    adjusted = adjusted_p_values([*p_of.values(), *[1.0] * (size - len(p_of))])
    clear = {test for test, p in zip(p_of, adjusted, strict=False) if p < 0.049}
    leaking = [i for i, f in enumerate(results) if f.test in clear and f.leaked == Leaked.LEAK]
    assert leaking
    place = data.draw(st.sampled_from(leaking))
    word = data.draw(st.sampled_from(sorted(set(Leaked) - {Leaked.LEAK})))

    def edit(document: Document) -> None:
        document["releases"][0]["findings"][place]["leaked"] = word

    folder = tmp_path_factory.mktemp("hidden")
    check_refusals(folder, [(documents.document(**fields), edit, SUBMIX)])


# a claim and its own accounting


SGD = Mechanism((Gaussians(1.0, 1000, 0.01),), "add_or_remove")
TABLE = to_table(SGD, 1e-5)  # ε = 1.83


def accounted(table: Mapping[str, Any] | None, epsilon: float = 1.9, **claim: Any) -> Results:
    given = promise(epsilon, **{"delta": 1e-5, "accounting": table, **claim})
    return made(finding(NONE, HALF), claim=given)


def test_claim_of_at_least_its_accounting_is_read(tmp_path: Path) -> None:
    assert 1.82 < epsilon(SGD, 1e-5) < 1.84
    for claimed, delta in ((epsilon(SGD, 1e-5), 1e-5), (1.9, 1e-5), (math.inf, 1e-5), (1.9, 1e-3)):
        read = load(tmp_path, accounted(TABLE, claimed, delta=delta))
        assert read.releases[0].guarantee.accounting == TABLE
    both = accounted(TABLE, relation="replace", also=("add_or_remove",))
    assert load(tmp_path, both).releases[0].guarantee.epsilon == 1.9


def test_claim_below_or_beside_its_accounting_is_refused(tmp_path: Path) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 1.8}, "ε = 1.8 is claimed, and its own accounting gives 1.8"),
        ({"delta": 1e-6}, "δ = 1e-06 is claimed, and the accounting is for 1e-05"),
        ({"delta": None}, "δ = 0 is claimed, and the accounting is for 1e-05"),
        ({"relation": "replace"}, "claimed under 'replace', accounted under 'add_or_remove'"),
        ({"relation": "replace\n", "also": ("x",)}, "claimed under 'replace\\n', accounted"),
    ]
    as_written: Edit = lambda d: None  # noqa: E731
    check_refusals(
        tmp_path, [(accounted(TABLE, **claim), as_written, said) for claim, said in rows]
    )


TERM = TABLE["terms"][0]


UNREADABLE: list[dict[str, Any]] = [
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
]


def test_an_accounting_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    rows = [(accounted(None), of_claim(accounting=table), f": {SUBMIX}") for table in UNREADABLE]
    check_refusals(tmp_path, rows)


# the settings of a sweep


def swept(cell: Mapping[str, Any], *releases: ReleaseResult) -> Results:
    sweep = SweepResult(seeds=[], cells=[Cell(**cell)])
    return documents.document().changed(releases=list(releases), sweep=sweep)


def a_cell(release: ReleaseResult, **changes: Any) -> dict[str, Any]:
    return {
        "releases": [0], "utility": {}, "findings": release.findings, "leaked": release.leaked,
        "claim": release.claim, "adjusted_p": seed_p_value(release),
        "silence": release.silence, **changes,
    }  # fmt: skip


def of_cell(**edits: Any) -> Edit:
    return lambda d: d["sweep"]["cells"][0].update(edits)


def of_joined(**edits: Any) -> Edit:
    return lambda d: d["sweep"]["cells"][0]["findings"][0].update(edits)


def over_two(
    first: Sequence[Measurement], second: Sequence[Measurement], claims: tuple[float, float]
) -> Results:
    """A setting of two seeds, joined as a sweep joins them."""
    runs = [made(*found, claim=promise(epsilon), tests=9)
            for found, epsilon in zip((first, second), claims, strict=True)]  # fmt: skip
    releases = [r.changed(seed=seed) for seed, run in enumerate(runs) for r in run.releases]
    joined = cells([r for r in releases if r.defense != "none"])[0]
    return swept(dict(joined.changed(releases=[0, 2])), *releases)


ONE = made(finding()).releases[0]
TWO = over_two([finding(0.5, HALF)], [finding(0.01, HALF)], (8.0, 8.0))
SILENT = over_two([QUIET], [QUIET], (2.0, 2.0))
OF_CELLS: list[tuple[Results, Edit, str]] = [
    (swept(a_cell(ONE), ONE), of_joined(leaked="inconclusive"), "is not that of its only seed"),
    (swept(a_cell(ONE), ONE), of_joined(p_value=0.5), "is not that of its only seed"),
    (swept(a_cell(ONE), ONE), of_cell(leaked="no leak found"), "a measure of it is a leak"),
    (swept(a_cell(ONE), ONE), of_cell(claim="not refuted"), "a measure refutes it"),
    (TWO, of_joined(leaked="no leak found"), follows("inconclusive")),
    (TWO, of_joined(claim="not refuted"), follows("not testable")),
    (TWO, of_joined(p_value=0.3), "has p = 0.3, but its seeds give"),
    (TWO, of_joined(p_value=None), "has p = None, but its seeds give"),
    (SILENT, of_cell(adjusted_p=0.5), "has p = 0.5, but its seeds give 1"),
    (TWO, of_joined(unit="bits"), "is measured in none of its seeds"),
    (SILENT, of_joined(leaked="leak"), follows("no leak found")),
    (SILENT, of_joined(claim="not testable"), follows("not refuted")),
    (SILENT, of_cell(leaked="inconclusive"), "its measures: no leak found"),
    (SILENT, of_cell(leaked="not measured"), "its measures: no leak found"),
    *((TWO, of_cell(releases=places), "names releases that are not there")
      for places in ([], [9], [-1], [0, 7])),
]  # fmt: skip


def test_edit_of_a_setting_against_its_seeds_is_refused(tmp_path: Path) -> None:
    for results in {id(row[0]): row[0] for row in OF_CELLS}.values():
        assert load(tmp_path, results).sweep is not None
    check_refusals(tmp_path, OF_CELLS)


def test_a_setting_is_held_to_the_weakest_claim_of_its_seeds(tmp_path: Path) -> None:
    for epsilons, word in (((2.0, math.inf), "nothing claimed"), ((2.0, 3.0), "not refuted")):
        read = load(tmp_path, over_two([QUIET], [QUIET], epsilons)).sweep
        assert read is not None and read.cells[0].claim == word
