"""The annex: no leak is called anything else, nothing is called good, and all of it is inert."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.findings.shows import not_shown
from audit.plugins import registry
from audit.results.schema import Cost, Example, ReleaseResult, Results, to_json
from reports import html
from reports.exports import annex as layout
from reports.exports._annex import build, document, rows
from reports.exports._annex.document import Annex, Answer, Row
from tests import by_hand as make
from tests.reports.pages import Page

LOADED = re.compile(
    r"\bpass(es|ed)?\b|complian|complies|anonym|conform|\bsafe\b|\bsecure\b|fulfil|satisf", re.I
)
FAMILIES = {  # by hand: the table of attacks must agree
    "copies": {"regurgitation"},
    "exposure": {"reconstruction"},
    "extraction": {"regurgitation", "reconstruction"},
    "ledger": set(),
    "membership": {"membership inference"},
    "name_leak": {"regurgitation"},
    "ngram": {"membership inference"},
    "own_records": {"regurgitation"},
}
FILES = ("annex.html", "annex.pdf", "annex.json")


def annex_of(results: Results) -> Annex:
    return build.build(make.report(results).results)


def annex(*releases: ReleaseResult, **changes: Any) -> Annex:
    return annex_of(make.run(*releases, **changes))


def released(*found: Any, name: str = "dp_sgd", claim: Any = None, **changes: Any) -> Any:
    return make.release(name, claim or make.guarantee(8.0), *found, **changes)


def row(annex: Annex, key: str) -> Row:
    (found,) = [r for r in every(annex) if r.key == key]
    return found


def every(annex: Annex) -> list[Row]:
    return [r for source in annex.sources for r in source.rows]


def answers(annex: Annex, *keys: str) -> list[str]:
    return [str(row(annex, key).answer) for key in keys]


def facts(annex: Annex, key: str) -> dict[str, str]:
    return {fact.term: fact.text for fact in row(annex, key).facts}


def metrics(annex: Annex, key: str) -> list[str]:
    return [figure.metric for figure in row(annex, key).figures]


TEXT, NUMBERS = {"generate", "text", "else"}, {"score", "distribution", "else"}
DIRECT, QUERIES, MEMBERS = "edpb-direct", "edpb-queries", "edpb-membership"
SCORE = {"attack": "membership", "metric": "auc", "unit": "AUC", "access": "score", "k": None}
INSIDERS = "leak to insiders"
LEAK, QUIET = make.finding(0.4, leaked="leak"), make.finding(0.0)
UNSURE = make.finding(0.1, leaked="inconclusive")
UNMEASURED = make.finding(None, leaked="not measured")


# a leak is a leak


@pytest.mark.parametrize(
    ("found", "leaking", "uncovered"),
    [
        (LEAK,
         [QUERIES, "edpb-regurgitation", "edpb-attacks", "edpb-everybody", "nist-learning"],
         [DIRECT, MEMBERS, "aisvs-11.2.5"]),
        (make.finding(0.4, attack="theirs", leaked="leak"),  # in no row forgotten
         [QUERIES, MEMBERS, "edpb-attacks", "nist-learning", "aisvs-11.2.5"], []),
        (make.finding(0.8, leaked=INSIDERS, stronger_than_release=True, **SCORE),
         [MEMBERS, "aisvs-11.2.5"], [QUERIES]),
    ],
    ids=["extraction", "another package", "insiders"],
)  # fmt: skip
def test_a_leak_is_a_leak_in_every_row_of_its_family(
    found: Any, leaking: list[str], uncovered: list[str]
) -> None:
    made = annex(released(found))
    assert set(answers(made, *leaking)) == {str(found.leaked)}
    assert set(answers(made, *uncovered)) <= {"not covered"}
    assert bool(made.releases[0].insiders) == found.stronger_than_release


@pytest.mark.parametrize("word", [INSIDERS, "inconclusive"])
def test_deciding_measure_is_shown_beside_the_quoted(word: str) -> None:
    inside = LEAK.changed(metric="recall", stronger_than_release=True, leaked=word)
    made = annex(released(QUIET, inside))
    assert row(made, QUERIES).answer == word
    assert metrics(made, QUERIES) == ["hit_rate", "recall"]


def test_one_leaking_release_among_silent_ones_decides() -> None:
    silent = [released(QUIET, name=f"quiet{i}") for i in range(20)]
    made = annex(*silent, released(LEAK, name="bad"))
    assert row(made, QUERIES).answer == "leak"
    assert len(made.releases) == 12 and "bad" in [r.name for r in made.releases]
    assert "bad" in [f.release for f in row(made, QUERIES).figures]
    assert any("all 21; the other 9" in text for text in made.statements)
    told = LEAK.changed(stronger_than_release=True, leaked=INSIDERS)
    inside = annex(*silent, released(told, name="inside"))
    assert [f.release for f in row(inside, QUERIES).figures if f.leaked == INSIDERS] == ["inside"]


def test_references_count_in_no_answer() -> None:
    loud = make.finding(0.96, leaked="leak", claim="nothing claimed")
    reference = released(loud, name="none", claim=make.guarantee(math.inf), reference=True)
    made = annex(released(QUIET), reference)
    assert answers(made, QUERIES, "nist-epsilon") == ["no leak found", "recorded"]
    alone = annex(reference)
    assert {str(r.answer) for r in every(alone)} <= {"not covered", "recorded"}
    assert row(alone, QUERIES).note


@settings(max_examples=60)
@given(st.data())
def test_rows_say_leak_where_a_leak_is_and_nowhere_else(data: st.DataObject) -> None:
    words = st.sampled_from(["leak", "no leak found", "inconclusive", "not measured"])
    attack = st.sampled_from([*FAMILIES, "theirs"])
    access = st.sampled_from(sorted(TEXT | NUMBERS))
    one = st.tuples(attack, words, access, st.booleans())
    drawn = data.draw(st.lists(st.lists(one, max_size=4), min_size=1, max_size=3))
    made = annex(*(
        released(*(
            make.finding(0.5, metric=f"m{j}", attack=a, leaked=w, access=x, stronger_than_release=s)
            for j, (a, w, x, s) in enumerate(found)
        ), name=f"d{i}")
        for i, found in enumerate(drawn)
    ))  # fmt: skip
    asked = {
        DIRECT: ({"regurgitation", "reconstruction"}, NUMBERS),
        QUERIES: ({"regurgitation", "reconstruction"}, TEXT),
        MEMBERS: ({"membership inference"}, TEXT | NUMBERS),
        "edpb-regurgitation": ({"regurgitation"}, TEXT | NUMBERS),
        "edpb-reconstruction": ({"reconstruction"}, NUMBERS),
        "aisvs-11.2.5": ({"membership inference"}, TEXT | NUMBERS),
    }
    for key, (families, reads) in asked.items():
        per = [
            {w for a, w, x, _ in found if x in reads and (FAMILIES.get(a, families) & families)}
            for found in drawn
        ]
        answer = row(made, key).answer
        assert (answer == "leak") == any("leak" in said for said in per), key
        sure = all("no leak found" in said and "inconclusive" not in said for said in per)
        assert answer != "no leak found" or sure, key
        assert (answer == "not covered") == all(said <= {"not measured"} for said in per), key
    anywhere = any(w == "leak" for found in drawn for _, w, _, _ in found)
    assert (row(made, "edpb-attacks").answer == "leak") == anywhere


# what was not shown is not good news


def test_what_is_open_or_missing_on_one_release_is_open() -> None:
    first = released(QUIET, name="a")
    assert answers(annex(first), QUERIES) == ["no leak found"]
    for second in ([UNSURE], [UNMEASURED], []):
        made = annex(first, released(*second, name="b"))
        assert answers(made, QUERIES) == ["inconclusive"]
        assert set(facts(made, QUERIES).values()) == (set() if second == [UNSURE] else {"b"})


def test_rows_are_open_where_a_part_was_removed() -> None:
    contact = not_shown("Removed before training: 0 of 60 planted records are in the text.")
    silence = make.SILENCE.changed(contact=contact)
    gone = make.finding(0.0, metric="verbatim", leaked="not measured", silence=silence)
    made = annex(released(QUIET, gone))
    assert made.releases[0].leaked == "inconclusive"
    assert answers(made, QUERIES, "nist-learning") == ["inconclusive"] * 2
    assert metrics(made, QUERIES) == ["hit_rate", "verbatim"]
    assert answers(annex(released(gone)), QUERIES) == ["not covered"]


def test_partial_run_finds_no_all_clear() -> None:
    run = make.run(released(make.finding(0.0, claim="not refuted")))
    partial = annex_of(run.changed(status="partial"))
    keys = (QUERIES, "nist-implementation")
    assert answers(annex_of(run), *keys) == ["no leak found", "claim not refuted"]
    assert answers(partial, *keys) == ["inconclusive", "inconclusive"]
    text = Page(layout.page(partial).decode()).text
    assert "Partial." in text.partition("What this is")[0]


def test_rows_covered_in_part_are_open_where_no_leak_was_found() -> None:
    ranks = {"attack": "exposure", "metric": "exposure_1_copy", "unit": "bits", "k": None}
    made = annex(released(make.finding(0.5, access="distribution", **ranks)))
    assert answers(made, "edpb-reconstruction", "edpb-everybody") == ["inconclusive"] * 2


@pytest.mark.parametrize(
    ("second", "note"),
    [
        ([], "Not run: membership, ngram."),
        ([make.finding(None, leaked="not measured", sentence="Needs controls.", **SCORE)],
         "Run, but nothing was measured: Needs controls."),
    ],
    ids=["not run", "not measured"],
)  # fmt: skip
def test_an_attack_without_a_measure_is_not_covered_and_named(second: list[Any], note: str) -> None:
    measured = annex(released(QUIET, make.finding(0.5, **SCORE)))
    assert answers(measured, MEMBERS) == ["no leak found"]
    made = annex(released(QUIET, *second))
    assert row(made, MEMBERS).answer == "not covered"
    assert row(made, MEMBERS).note.startswith(note)


def test_every_attack_of_the_folder_is_named_covered_or_not(results: Results) -> None:
    assert set(rows.attacks()) == set(registry.names("attacks")) == set(FAMILIES)
    assert {name: set(known.families) for name, known in rows.attacks().items()} == FAMILIES
    named = facts(annex_of(results), "edpb-attacks")
    for name in registry.names("attacks"):
        text = named[name.replace("_", " ")]
        assert ("Run on" in text) != ("Not covered" in text), name
    planned = results.model_copy(update={"plan": {"attacks": [{"name": "ngram"}]}})
    assert "planned, without a result" in facts(annex_of(planned), "edpb-attacks")["ngram"]


def test_no_word_of_the_annex_says_that_all_is_well(four: Results) -> None:
    made = annex_of(four)
    for text in (Page(layout.page(made).decode()).text, document.to_json(made), *Answer):
        assert not LOADED.search(text)


# claims


@pytest.mark.parametrize(
    ("epsilon", "claim", "answer"),
    [(math.inf, "nothing claimed", "nothing claimed"), (None, "unknown", "claim unknown")],
)
def test_absent_claim_is_named_in_every_row_of_claims(
    epsilon: float | None, claim: str, answer: str
) -> None:
    made = annex(released(make.finding(0.0, claim=claim), claim=make.guarantee(epsilon)))
    keys = ("nist-epsilon", "nist-delta", "nist-unit", "nist-trust", "aisvs-11.2.4")
    assert answers(made, *keys, "nist-implementation") == [answer] * 6
    assert all(made.releases[0].claimed in facts(made, key)["dp_sgd"] for key in keys)


def test_refuted_claim_comes_before_all_other_claims(results: Results) -> None:
    keys = ("nist-epsilon", "nist-implementation", "aisvs-11.2.4", "nist-comparing")
    assert answers(annex_of(results), *keys) == ["claim refuted"] * 4


def test_claims_have_unit_relation_and_the_largest_bound_beside_them() -> None:
    claim = make.guarantee(8.0, delta=1e-2, population=190, unit="record")
    bounds = {"first": make.bound(0.5), "hit_rate": make.bound(2.61), "last": make.bound(0.5)}
    made = annex(released(*(
        make.finding(0.4, metric=name, leaked="leak", epsilon_lower=one)
        for name, one in bounds.items()
    ), claim=claim))  # fmt: skip
    seen = facts(made, "nist-epsilon")
    assert "ε = 8 nats per record (add or remove), δ = 0.01" in seen["dp_sgd"]
    assert "ε ≥ 2.61 nats per user (add or remove)" in seen["dp_sgd, measured"]
    assert "δ·N = 1.9" in facts(made, "nist-delta")["dp_sgd"]
    assert "one person's data outright" in facts(made, "nist-delta")["dp_sgd"]
    assert facts(made, "nist-unit")["dp_sgd"].endswith("nothing is claimed per user")
    (figure,) = row(made, QUERIES).figures
    assert (figure.epsilon_lower, figure.n, figure.value, figure.control) == (0.5, 100, 0.4, 0.0)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"delta": 1e-6}, "cannot be ranked"),
        ({"epsilon": 9.0, "unit": "record"}, "cannot be ranked"),
        ({"epsilon": 2.0}, "one unit"),
        ({"epsilon": math.inf}, "not two to compare"),
    ],
)
def test_unlike_claims_are_not_ranked(other: dict[str, Any], told: str) -> None:
    claims = [make.guarantee(**{"epsilon": 1.0, "delta": 1e-5, **c}) for c in ({}, other)]
    made = annex(*(released(QUIET, claim=c, name=n) for c, n in zip(claims, "ab", strict=True)))
    assert told in facts(made, "nist-comparing")["Claims"]


def test_released_text_has_its_row() -> None:
    found = make.finding(0.3, attack="copies", leaked="leak")
    text = released(found, claim=make.guarantee(8.0, release="text"))
    model = released(found, name="submix")
    both = annex(text, model)
    assert answers(both, "nist-synthetic", QUERIES) == ["leak", "leak"]
    assert {f.release for f in row(both, "nist-synthetic").figures} == {"dp_sgd"}
    assert answers(annex(model), "nist-synthetic") == ["not covered"]


def test_a_sweep_has_its_settings_as_releases(undrawn: None) -> None:
    settings = [(1.0, 0.0, "no leak found"), (8.0, 0.9, "leak")]
    swept = make.swept([
        released(make.finding(x, leaked=word), claim=make.guarantee(e), seed=seed,
                 parameters={"epsilon": e})
        for e, x, word in settings for seed in (0, 1)
    ], make.run())  # fmt: skip
    made = annex_of(swept)
    assert [r.name for r in made.releases] == ["dp_sgd epsilon=1", "dp_sgd epsilon=8"]
    assert {f.n for f in row(made, QUERIES).figures} == {200}
    assert facts(made, "edpb-tests")["Seeds"] == "0, 1"
    leaked = [str(cell.leaked) for cell in swept.sweep.cells] if swept.sweep else []
    assert (row(made, QUERIES).answer == "leak") == ("leak" in leaked)
    check_places(swept, made)


# the texts


def test_rows_have_what_a_reviewer_needs(results: Results) -> None:
    made = annex_of(results)
    found = every(made)
    assert len({r.key for r in found}) == len(found) > 40
    used = {asked.evidence for text in rows.sources() for asked in text.rows}
    assert used == set(build.EVIDENCE)
    for r in found:
        assert r.section and r.requirement.endswith(".") and r.compared
        assert r.answer != "not covered" or (r.note and not r.figures)
        assert r.facts or r.figures or r.note
    for source in made.sources:
        assert source.url.startswith("https://") and source.reached
        checked = {r.wording for r in source.rows}
        assert checked == {"checked wording" if source.key == "aisvs" else "unchecked wording"}
    families = {f for text in rows.sources() for asked in text.rows for f in asked.families}
    assert families == set().union(*FAMILIES.values())


def check_places(results: Results, annex: Annex) -> None:
    """Every place of the annex is in the report."""
    there = set(Page(make.text("html", results)).values("id"))
    for place in (p for r in every(annex) for p in r.places):
        file, _, fragment = place.target.partition("#")
        assert file == html.FILENAME and fragment in there, place


@pytest.mark.parametrize("which", ["results", "four", "hostile_four", "unfinished"])
def test_places_are_in_the_report(which: str, undrawn: None) -> None:
    results = make.EVERY[which]()
    check_places(results, annex_of(results))


# files


def test_the_data_follow_their_schema(results: Results, hostile: Results) -> None:
    schema = document.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for run in (results, hostile):
        text = make.files("annex", run)["annex.json"].decode("utf-8")
        written = json.loads(text)
        jsonschema.validate(written, schema)
        assert document.to_json(Annex.model_validate_json(text)) == text
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "verdict": "fine"}, schema)
    for table in (schema, *schema["$defs"].values()):
        for key, value in table.get("properties", {}).items():
            assert value.get("description"), key


def test_the_same_results_give_the_same_bytes(results: Results) -> None:
    first = make.files("annex", results)
    assert tuple(first) == FILES
    assert make.files("annex", Results.model_validate_json(to_json(results))) == first
    printed = first["annex.pdf"]
    assert printed.startswith(b"%PDF-") and b"<pdfuaid:part>1</pdfuaid:part>" in printed
    assert b"CreationDate" not in printed and b"/JavaScript" not in printed


def test_no_example_and_no_secret_gets_in() -> None:
    shown = [Example(generation=3, prompt="My PIN is #", planted=True)]
    found = make.finding(0.9, leaked="leak", outcomes="1" * 100, examples=shown)
    text = document.to_json(annex(released(found)))
    assert "PIN" not in text and "1111" not in text


# attacks under settings of their own, and models that were trained elsewhere


def test_an_attack_under_settings_of_its_own_is_of_its_family_alone() -> None:
    """Its label has its settings: it is none of another package, which would count for all."""
    searched = make.finding(0.0, attack="extraction:generations=3000")
    names = make.finding(0.0, attack="name_leak:length=4", metric="r_name")
    plan = {"attacks": [{"name": "extraction"}, {"name": "name_leak"}]}
    made = annex(released(searched, names), plan=plan)
    assert answers(made, MEMBERS, "aisvs-11.2.5") == ["not covered", "not covered"]
    assert answers(made, QUERIES, "edpb-regurgitation") == ["no leak found"] * 2
    listed = facts(made, "edpb-attacks")
    assert "extraction:generations=3000" not in listed
    assert "another package" not in "".join(listed.values())
    assert all("Run on 1 release" in listed[name] for name in ("extraction", "name leak"))
    assert "extraction:generations=3000" in facts(made, "edpb-threats")
    leak = make.finding(0.4, attack="extraction:generations=9", leaked="leak")
    assert "2 measures" in facts(annex(released(QUIET, leak)), "edpb-attacks")["extraction"]


ELSEWHERE = {"finished": {"name": "theirs", "sha256": "x"}, "hash": "1"}
UNTRAINED = Cost(train_tokens=0, queries=3, seconds=1.0)
ABSENT = make.run().corpus.model_copy(update={"near_duplicates": 0})
SERVED = {"served": "theirs", "served_sha256": "ab"}
LORA = {"lora": {"r": 8, "alpha": 16, "targets": "auto"}, "hash": "1"}
ABROAD = make.run(released(cost=UNTRAINED), plan=ELSEWHERE, corpus=ABSENT)


@pytest.mark.parametrize(
    ("run", "key", "term", "told"),
    [
        (ABROAD, "edpb-training", "dp_sgd", "trained elsewhere, on what is not on record"),
        (ABROAD, "edpb-training", "helpdesk", "near-duplicates not counted"),
        (make.run(released(parameters=SERVED)), "edpb-release", "dp_sgd", "answers of a server"),
        (make.run(released(), plan=LORA), "edpb-training", "Trains adapters", "LoRA, r=8, "),
        (make.run(released()), "edpb-training", "helpdesk", "3 near-duplicates"),
    ],
)
def test_what_is_not_on_record_is_not_made_up(run: Results, key: str, term: str, told: str) -> None:
    made = annex_of(run)
    assert told in facts(made, key)[term]
    counted = "repeat" in facts(made, "nist-unstructured")["helpdesk"]
    assert counted == (run is not ABROAD)
