"""The annex: no leak is called anything else, nothing is called good, and all of it is inert."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.plugins import registry
from audit.results.schema import (
    Cost,
    EpsilonLower,
    Example,
    Results,
    SeedResult,
    SweepResult,
    to_json,
)
from audit.run.sweep.over_seeds import cells
from reports import annex as report
from reports import html
from reports._annex import build, document, rows
from reports._annex.document import Annex, Answer, Row

LOADED = re.compile(
    r"\bpass(es|ed)?\b|complian|complies|anonym|conform|\bsafe\b|\bsecure\b|fulfil|satisf", re.I
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
FAMILIES = {  # by hand: the table of attacks must agree
    "copies": {"regurgitation"},
    "exposure": {"reconstruction"},
    "extraction": {"regurgitation", "reconstruction"},
    "ledger": set(),
    "membership": {"membership inference"},
    "name_leak": {"regurgitation"},
    "ngram": {"membership inference"},
}
needs_poppler = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")


class Tags(HTMLParser):
    """Tags with their attributes, the text, and what was left open."""

    VOID = ("meta", "wbr", "br")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self.open[-1:] == ["style"] else data

    def values(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.tags if name in attributes]


def row(annex: Annex, key: str) -> Row:
    (found,) = [r for source in annex.sources for r in source.rows if r.key == key]
    return found


def every(annex: Annex) -> list[Row]:
    return [r for source in annex.sources for r in source.rows]


def answers(results: Results, *keys: str) -> list[str]:
    annex = build.build(results)
    return [str(row(annex, key).answer) for key in keys]


def facts(annex: Annex, key: str) -> dict[str, str]:
    return {fact.term: fact.text for fact in row(annex, key).facts}


TEXT, NUMBERS = {"generate", "text", "else"}, {"score", "distribution", "else"}
DIRECT, QUERIES, MEMBERS = "edpb-direct", "edpb-queries", "edpb-membership"


# a leak is a leak


def test_a_leak_is_a_leak_in_every_row_of_its_family(make: SimpleNamespace) -> None:
    leak = make.finding(0.4, leaked="leak")
    found = answers(make.run(make.release("dp_sgd", make.guarantee(8.0), leak)), QUERIES,
                    "edpb-regurgitation", "edpb-attacks", "edpb-everybody", "nist-learning",
                    DIRECT, MEMBERS, "aisvs-11.2.5")  # fmt: skip
    assert found == ["leak"] * 5 + ["not covered"] * 3


def test_a_leak_to_insiders_is_a_leak_too_and_its_measure_is_shown(make: SimpleNamespace) -> None:
    score = {"attack": "membership", "unit": "AUC", "access": "score", "k": None}
    quiet = make.finding(0.5, metric="record_loss_auc", **score)
    inside = make.finding(
        0.8, metric="span_ratio_auc", leaked="leak", stronger_than_release=True, **score
    )
    annex = build.build(make.run(make.release("submix", make.guarantee(2.0), quiet, inside)))
    for key in (MEMBERS, "aisvs-11.2.5"):
        assert row(annex, key).answer == "leak"
        assert [f.metric for f in row(annex, key).figures] == ["record_loss_auc", "span_ratio_auc"]
    assert annex.releases[0].insiders and "leak to those" in annex.releases[0].insiders


def test_a_leak_of_another_packages_attack_is_in_no_row_forgotten(make: SimpleNamespace) -> None:
    leak = make.finding(0.4, attack="theirs", leaked="leak")
    annex = build.build(make.run(make.release("dp_sgd", make.guarantee(8.0), leak)))
    for key in (QUERIES, MEMBERS, "edpb-attacks", "nist-learning", "aisvs-11.2.5"):
        assert row(annex, key).answer == "leak", key
    assert facts(annex, "edpb-attacks")["theirs"].startswith("an attack of another package. Run")


def test_one_leaking_release_among_silent_ones_decides(make: SimpleNamespace) -> None:
    silent = [make.release(f"quiet{i}", make.guarantee(1.0), make.finding(0.0)) for i in range(20)]
    bad = make.release("bad", make.guarantee(1.0), make.finding(0.5, leaked="leak"))
    annex = build.build(make.run(*silent, bad))
    assert row(annex, QUERIES).answer == "leak"
    assert len(annex.releases) == 12 and "bad" in [r.name for r in annex.releases]
    assert "bad" in [f.release for f in row(annex, QUERIES).figures]
    assert any("all 21; the other 9" in text for text in annex.statements)
    unsure = make.release("unsure", make.guarantee(1.0), make.finding(0.1, leaked="inconclusive"))
    assert answers(make.run(*silent), QUERIES) == ["no leak found"]
    assert answers(make.run(*silent, unsure), QUERIES) == ["inconclusive"]
    told = make.finding(0.5, leaked="leak", stronger_than_release=True)
    inside = build.build(make.run(*silent, make.release("inside", make.guarantee(1.0), told)))
    assert [f.release for f in row(inside, QUERIES).figures if f.leaked == "leak"] == ["inside"]


def test_references_count_in_no_answer(make: SimpleNamespace) -> None:
    loud = make.finding(0.96, leaked="leak", claim="nothing claimed")
    reference = make.release("none", make.guarantee(math.inf), loud, reference=True)
    quiet = make.release("dp_sgd", make.guarantee(8.0), make.finding(0.0))
    both = make.run(quiet, reference)
    assert answers(both, QUERIES, "nist-epsilon") == ["no leak found", "recorded"]
    alone = build.build(make.run(reference))
    assert {str(r.answer) for r in every(alone)} <= {"not covered", "recorded"}
    assert row(alone, QUERIES).note.startswith("No release was audited.")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_rows_say_leak_where_a_leak_is_and_nowhere_else(
    make: SimpleNamespace, data: st.DataObject
) -> None:
    words = st.sampled_from(["leak", "no leak found", "inconclusive", "not measured"])
    attack = st.sampled_from([*FAMILIES, "theirs"])
    access = st.sampled_from(sorted(TEXT | NUMBERS))
    one = st.tuples(attack, words, access, st.booleans())
    drawn = data.draw(st.lists(st.lists(one, max_size=4), min_size=1, max_size=3))
    releases = [
        make.release(f"d{i}", make.guarantee(2.0), *(
            make.finding(0.5, metric=f"m{j}", attack=a, leaked=w, access=x, stronger_than_release=s)
            for j, (a, w, x, s) in enumerate(found)
        ))
        for i, found in enumerate(drawn)
    ]  # fmt: skip
    annex = build.build(make.run(*releases))
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
        answer = row(annex, key).answer
        assert (answer == "leak") == any("leak" in said for said in per), key
        sure = all("no leak found" in said and "inconclusive" not in said for said in per)
        assert answer != "no leak found" or sure, key
        assert (answer == "not covered") == all(said <= {"not measured"} for said in per), key
    anywhere = any(w == "leak" for found in drawn for _, w, _, _ in found)
    assert (row(annex, "edpb-attacks").answer == "leak") == anywhere


# what was not shown is not good news


def test_what_is_open_or_missing_on_one_release_is_open(make: SimpleNamespace) -> None:
    quiet, unsure = make.finding(0.0), make.finding(0.1, leaked="inconclusive")
    first = make.release("a", make.guarantee(1.0), quiet)
    assert answers(make.run(first), QUERIES) == ["no leak found"]
    for second in (unsure, make.finding(None, leaked="not measured"), None):
        other = make.release("b", make.guarantee(1.0), *([second] if second else []))
        assert answers(make.run(first, other), QUERIES) == ["inconclusive"]
        named = facts(build.build(make.run(first, other)), QUERIES)
        assert named == ({} if second is unsure else {"Not measured on": "b"})


def test_the_measure_that_decides_is_shown(make: SimpleNamespace) -> None:
    quiet = make.finding(0.0, metric="hit_rate")
    open_ = make.finding(0.1, metric="recall", leaked="inconclusive", stronger_than_release=True)
    annex = build.build(make.run(make.release("a", make.guarantee(1.0), quiet, open_)))
    assert row(annex, QUERIES).answer == "inconclusive"
    assert [f.metric for f in row(annex, QUERIES).figures] == ["hit_rate", "recall"]


def test_a_partial_run_says_so_and_finds_no_all_clear(
    make: SimpleNamespace, unfinished: Results, tmp_path: Path
) -> None:
    quiet = make.release("a", make.guarantee(1.0), make.finding(0.0, claim="not refuted"))
    partial = make.run(quiet, status="partial")
    assert answers(partial, QUERIES, "nist-implementation") == ["inconclusive"] * 2
    done = answers(make.run(quiet), QUERIES, "nist-implementation")
    assert done == ["no leak found", "claim not refuted"]
    for results in (partial, unfinished):
        annex = build.build(results)
        assert annex.status == "partial"
        page = Tags(report.page(annex)).text
        assert page.index("Partial.") < page.index("What this is")
    assert "No release was audited." in page


def test_rows_covered_in_part_say_a_leak_or_nothing(make: SimpleNamespace) -> None:
    ranks = {"attack": "exposure", "metric": "exposure_1_copy", "unit": "bits", "k": None}
    for word, said in (("no leak found", "inconclusive"), ("leak", "leak")):
        found = make.finding(0.5, access="distribution", leaked=word, **ranks)
        results = make.run(make.release("a", make.guarantee(1.0), found))
        assert answers(results, "edpb-reconstruction", "edpb-everybody") == [said, said]


def test_an_attack_that_is_taken_out_is_not_covered_and_named(make: SimpleNamespace) -> None:
    score = {"attack": "membership", "metric": "auc", "access": "score", "k": None}
    both = [make.finding(0.0), make.finding(0.5, **score)]
    full = make.run(make.release("a", make.guarantee(1.0), *both))
    cut = make.run(make.release("a", make.guarantee(1.0), both[0]))
    assert answers(full, MEMBERS) == ["no leak found"]
    annex = build.build(cut)
    assert row(annex, MEMBERS).answer == "not covered"
    assert row(annex, MEMBERS).note.startswith("Not run: membership, ngram.")
    assert facts(annex, "edpb-attacks")["membership"].endswith("Not covered: not run.")
    silent = make.finding(None, leaked="not measured", **{**score, "sentence": "Needs controls."})
    mute = build.build(make.run(make.release("a", make.guarantee(1.0), silent)))
    assert row(mute, MEMBERS).answer == "not covered"
    assert row(mute, MEMBERS).note.startswith("Run, but nothing was measured: Needs controls.")


def test_every_attack_of_the_folder_is_named_covered_or_not(results: Results) -> None:
    assert set(rows.attacks()) == set(registry.names("attacks")) == set(FAMILIES)
    assert {name: set(known.families) for name, known in rows.attacks().items()} == FAMILIES
    named = facts(build.build(results), "edpb-attacks")
    for name in registry.names("attacks"):
        text = named[name.replace("_", " ")]
        assert ("Run on" in text) != ("Not covered" in text), name
    assert "STOP timing was not attacked" in named["Not tested"]
    planned = results.model_copy(update={"plan": {"attacks": [{"name": "ngram"}]}})
    assert "planned, without a result" in facts(build.build(planned), "edpb-attacks")["ngram"]


def test_no_word_of_the_annex_says_that_all_is_well(results: Results, four: Results) -> None:
    assert all(LOADED.search(w) for w in ("PASS", "Compliant", "anonymous", "non-conformity"))
    for run in (results, four):
        annex = build.build(run)
        assert not LOADED.search(Tags(report.page(annex)).text)
        assert not LOADED.search(document.to_json(annex))
    assert "no legal conclusion" in annex.statements[0]
    assert not any(LOADED.search(answer) or "met" in answer for answer in Answer)


# claims


def test_no_claim_and_an_unknown_claim_are_said(make: SimpleNamespace) -> None:
    nothing = make.finding(0.0, claim="nothing claimed")
    none = build.build(make.run(make.release("redaction", make.guarantee(math.inf), nothing)))
    unknown = make.finding(0.0, claim="unknown")
    as_is = build.build(make.run(make.release("as_is", make.guarantee(None), unknown)))
    for key in ("nist-epsilon", "nist-delta", "nist-unit", "nist-trust", "aisvs-11.2.4"):
        assert row(none, key).answer == "nothing claimed", key
        assert facts(none, key)["redaction"].startswith("no ε is claimed"), key
        assert row(as_is, key).answer == "claim unknown", key
        assert facts(as_is, key)["as_is"].startswith("ε unknown per user (add or remove)"), key
    assert none.releases[0].claimed == "no ε is claimed"
    assert row(none, "nist-implementation").answer == "nothing claimed"


def test_a_refuted_claim_comes_before_all_other_claims(results: Results) -> None:
    keys = ("nist-epsilon", "nist-implementation", "aisvs-11.2.4", "nist-comparing")
    assert answers(results, *keys) == ["claim refuted"] * 4


def test_claims_have_unit_relation_and_the_bound_beside_them(make: SimpleNamespace) -> None:
    bound = EpsilonLower(
        value=2.61, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=1e-5, m=120, guesses=[(119, 116)],
    )  # fmt: skip
    claim = make.guarantee(8.0, delta=1e-2, population=190, unit="record")
    weaker = bound.model_copy(update={"value": 0.5})
    found = [
        make.finding(0.4, metric=name, leaked="leak", epsilon_lower=one)
        for name, one in (("first", weaker), ("hit_rate", bound), ("last", weaker))
    ]
    released = make.release("dp_sgd", claim, *found)
    annex = build.build(make.run(released))
    seen = facts(annex, "nist-epsilon")
    assert "ε = 8 nats per record (add or remove), δ = 0.01" in seen["dp_sgd"]
    assert "ε ≥ 2.61 nats per user (add or remove)" in seen["dp_sgd, measured"]
    assert "δ·N = 1.9" in facts(annex, "nist-delta")["dp_sgd"]
    assert "one person's data outright" in facts(annex, "nist-delta")["dp_sgd"]
    assert facts(annex, "nist-unit")["dp_sgd"].endswith("nothing is claimed per user")
    (figure,) = row(annex, QUERIES).figures
    assert (figure.epsilon_lower, figure.n, figure.value, figure.control) == (0.5, 100, 0.4, 0.0)
    assert "40 % [35 %, 43.6 %] (95 %), share of generations; 40 of 100" in (
        figure.measured.replace("\u00a0", " ")
    )


def test_unlike_claims_are_not_ranked(make: SimpleNamespace) -> None:
    def told(*claims: Any) -> str:
        releases = [make.release(f"d{i}", c, make.finding(0.0)) for i, c in enumerate(claims)]
        return facts(build.build(make.run(*releases)), "nist-comparing")["Claims"]

    alike, other = make.guarantee(1.0, delta=1e-5), make.guarantee(1.0, delta=1e-6)
    assert "cannot be ranked" in told(alike, other)
    assert "cannot be ranked" in told(alike, make.guarantee(9.0, delta=1e-5, unit="record"))
    assert "one unit" in told(alike, make.guarantee(2.0, delta=1e-5))
    assert told(alike, make.guarantee(math.inf)) == "1 finite claim: there are not two to compare"


def test_released_text_has_its_row(make: SimpleNamespace) -> None:
    found = make.finding(0.3, attack="copies", leaked="leak")
    text = make.release("dp_sgd", make.guarantee(8.0, release="text"), found)
    model = make.release("submix", make.guarantee(8.0), found)
    assert answers(make.run(text), "nist-synthetic", QUERIES) == ["leak", "leak"]
    annex = build.build(make.run(text, model))
    assert {f.release for f in row(annex, "nist-synthetic").figures} == {"dp_sgd"}
    assert answers(make.run(model), "nist-synthetic") == ["not covered"]


def test_a_sweep_has_its_settings_as_releases(make: SimpleNamespace, tmp_path: Path) -> None:
    releases = [
        make.release("submix", make.guarantee(e), make.finding(x, leaked=word), seed=seed,
                     parameters={"epsilon": e})
        for e, x, word in ((1.0, 0.0, "no leak found"), (8.0, 0.9, "leak")) for seed in (0, 1)
    ]  # fmt: skip
    seeds = [
        SeedResult(seed=s, plan_hash="ab", planted_users=40, trained_users=20, twins=20)
        for s in (0, 1)
    ]
    base = make.run(*releases)
    swept = base.model_copy(update={"sweep": SweepResult(seeds=seeds, cells=cells(releases))})
    annex = build.build(swept)
    assert [r.name for r in annex.releases] == ["submix epsilon=1", "submix epsilon=8"]
    assert {f.n for f in row(annex, QUERIES).figures} == {200}
    assert facts(annex, "edpb-tests")["Seeds"] == "0, 1"
    leaked = [str(cell.leaked) for cell in swept.sweep.cells] if swept.sweep else []
    assert (row(annex, QUERIES).answer == "leak") == ("leak" in leaked)
    check_places(swept, annex)


# the texts


def test_rows_have_what_a_reviewer_needs(results: Results) -> None:
    annex = build.build(results)
    found = every(annex)
    assert len({r.key for r in found}) == len(found) > 40
    used = {asked.evidence for text in rows.sources() for asked in text.rows}
    assert used == set(build.EVIDENCE)
    for r in found:
        assert r.section and r.requirement.endswith(".") and r.compared
        assert r.answer != "not covered" or (r.note and not r.figures)
        assert r.facts or r.figures or r.note
    for source in annex.sources:
        assert source.url.startswith("https://") and source.reached
        checked = {r.wording for r in source.rows}
        assert checked == {"checked wording" if source.key == "aisvs" else "unchecked wording"}
    families = {f for text in rows.sources() for asked in text.rows for f in asked.families}
    assert families == set().union(*FAMILIES.values())


def check_places(results: Results, annex: Annex) -> None:
    """Every place of the annex is in the report."""
    there = set(Tags(html.render(results)).values("id"))
    for place in (p for r in every(annex) for p in r.places):
        file, _, fragment = place.target.partition("#")
        assert file == html.FILENAME and fragment in there, place


@pytest.mark.parametrize("which", ["results", "four", "hostile_four", "unfinished"])
def test_places_are_in_the_report(which: str, request: pytest.FixtureRequest) -> None:
    results = request.getfixturevalue(which)
    check_places(results, build.build(results))


# files


def test_the_data_follow_their_schema(
    results: Results, hostile: Results, unfinished: Results, tmp_path: Path
) -> None:
    schema = document.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for run in (results, hostile, unfinished):
        assert report.write(run, tmp_path) == tmp_path / "annex.html"
        text = (tmp_path / "annex.json").read_text(encoding="utf-8")
        written = json.loads(text)
        jsonschema.validate(written, schema)
        assert document.to_json(Annex.model_validate_json(text)) == text
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "verdict": "fine"}, schema)
    for table in (schema, *schema["$defs"].values()):
        for key, value in table.get("properties", {}).items():
            assert value.get("description"), key


def test_two_times_give_the_same_bytes(results: Results, tmp_path: Path) -> None:
    names = ("annex.html", "annex.pdf", "annex.json")
    report.write(results, tmp_path)
    first = [(tmp_path / name).read_bytes() for name in names]
    report.write(Results.model_validate_json(to_json(results)), tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == first
    assert {path.name for path in tmp_path.iterdir()} == set(names)


@pytest.mark.parametrize("which", ["results", "hostile", "hostile_four", "unfinished"])
def test_nothing_runs_and_nothing_is_fetched(which: str, request: pytest.FixtureRequest) -> None:
    source = report.page(build.build(request.getfixturevalue(which)))
    page = Tags(source)
    assert not page.open and not HIDDEN.search(source)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "iframe", "object", "embed", "link", "img", "base", "form"}
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        assert "src" not in attributes
    for link in page.values("href"):
        assert re.fullmatch(r"(report\.html)?#[\w.-]+", link), link
    inside = {link[1:] for link in page.values("href") if link.startswith("#")}
    assert inside <= set(page.values("id"))
    assert len(page.values("id")) == len(set(page.values("id")))


def test_hostile_names_are_visible_text(hostile: Results) -> None:
    annex = build.build(hostile)
    source = report.page(annex)
    assert "<script>alert" not in source and "<img" not in source
    text = Tags(source).text
    assert "<script>alert(1)</script>" in text and '#eval("1+1")' in text
    assert "‹U+202E›exe.gnp" in text and "{{7*7}}" in text
    assert not HIDDEN.search(document.to_json(annex))


@needs_poppler
def test_hostile_names_are_text_in_print(hostile: Results, tmp_path: Path) -> None:
    report.write(hostile, tmp_path)
    told = ["pdftotext", str(tmp_path / "annex.pdf"), "-"]
    text = subprocess.run(told, capture_output=True, check=True, timeout=20).stdout.decode()
    text = re.sub(r"[\s\u200b]+", "", text)
    assert '#eval("1+1")' in text and "$x^2$" in text and "‹U+202E›exe.gnp" in text


def test_the_print_is_tagged_and_says_what_the_page_says(results: Results, tmp_path: Path) -> None:
    report.write(results, tmp_path)
    content = (tmp_path / "annex.pdf").read_bytes()
    assert content.startswith(b"%PDF-") and b"<pdfuaid:part>1</pdfuaid:part>" in content
    assert b"CreationDate" not in content and b"/JavaScript" not in content


def test_no_example_and_no_secret_gets_in(make: SimpleNamespace) -> None:
    shown = [Example(generation=3, prompt="My PIN is #", planted=True)]
    found = make.finding(0.9, leaked="leak", outcomes="1" * 100, examples=shown)
    annex = build.build(make.run(make.release("a", make.guarantee(1.0), found)))
    text = document.to_json(annex)
    assert "PIN" not in text and "1111" not in text


def test_reporting_an_annex_imports_no_torch(make: SimpleNamespace, tmp_path: Path) -> None:
    results = make.run(make.release("a", make.guarantee(1.0)))
    (tmp_path / "results.json").write_text(to_json(results), encoding="utf-8")
    code = (
        "import sys\nfrom audit.cli.app import main\n"
        "sys.argv = ['audit', 'report', '.', '--format', 'annex']\n"
        "try: main()\nexcept SystemExit as left: print(left.code, file=sys.stderr)\n"
        "print(*({'torch', 'transformers', 'spacy', 'peft'} & sys.modules.keys()))\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8",
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["annex.html", "annex.pdf", "annex.json"]  # and no heavy module
    assert (tmp_path / "annex.json").is_file() and (tmp_path / "annex.pdf").is_file()


# attacks under settings of their own, and models that were trained elsewhere


def test_an_attack_under_settings_of_its_own_is_of_its_family_alone(make: SimpleNamespace) -> None:
    """Its label has its settings: it is none of another package, which would count for all."""
    searched = make.finding(0.0, attack="extraction:generations=3000")
    names = make.finding(0.0, attack="name_leak:length=4", metric="r_name")
    run = make.run(make.release("dp_sgd", make.guarantee(8.0), searched, names))
    assert answers(run, MEMBERS, "aisvs-11.2.5") == ["not covered", "not covered"]
    assert answers(run, QUERIES, "edpb-regurgitation") == ["no leak found"] * 2
    plan = {**run.plan, "attacks": [{"name": "extraction"}, {"name": "name_leak"}]}
    annex = build.build(run.model_copy(update={"plan": plan}))
    listed = facts(annex, "edpb-attacks")
    assert "extraction:generations=3000" not in listed
    assert listed["extraction"].endswith("Run on 1 release; 1 measure: no leak found.")
    assert listed["name leak"].endswith("Run on 1 release; 1 measure: no leak found.")
    assert "another package" not in "".join(listed.values())
    attackers = facts(annex, "edpb-threats")
    assert attackers["extraction:generations=3000"].endswith("knows the text before a secret")


def test_two_settings_of_an_attack_are_one_attack(make: SimpleNamespace) -> None:
    leak = make.finding(0.4, attack="extraction:generations=9", leaked="leak")
    run = make.run(make.release("a", make.guarantee(8.0), make.finding(0.0), leak))
    told = facts(build.build(run), "edpb-attacks")["extraction"]
    assert "2 measures: 1\u00a0×\u00a0leak" in told


def test_a_model_that_was_trained_elsewhere_is_not_said_to_be_untrained(
    make: SimpleNamespace,
) -> None:
    run = make.run(
        make.release(
            "as_is", make.guarantee(None), make.finding(), cost=Cost(
                train_tokens=0, queries=3, seconds=1.0
            ),
        ),
        plan={"finished": {"name": "theirs", "sha256": "x"}, "hash": "1"},
    )  # fmt: skip
    told = facts(build.build(run), "edpb-training")["as_is"]
    assert told.startswith("trained elsewhere, on what is not on record; ")


def test_an_endpoint_gives_answers_and_no_model(make: SimpleNamespace) -> None:
    seen = {"served": "theirs", "served_sha256": "ab"}
    run = make.run(make.release("as_is", make.guarantee(None), make.finding(), parameters=seen))
    told = facts(build.build(run), "edpb-release")["as_is"]
    assert told == "answers of a server, as far as it was asked; the model behind it was not seen"


def test_adapters_are_on_record(make: SimpleNamespace) -> None:
    lora = {"r": 8, "alpha": 16, "targets": "auto"}
    run = make.run(make.release("dp_sgd", make.guarantee(8.0), make.finding()))
    annex = build.build(run.model_copy(update={"plan": {**run.plan, "lora": lora}}))
    assert facts(annex, "edpb-training")["Trains adapters"] == "LoRA, r=8, alpha=16, targets=auto"


def test_a_corpus_that_is_not_here_is_not_said_to_repeat_nothing(make: SimpleNamespace) -> None:
    run = make.run(make.release("as_is", make.guarantee(None), make.finding()))
    absent = run.model_copy(
        update={
            "plan": {"finished": {"name": "theirs"}, "hash": "1"},
            "corpus": run.corpus.model_copy(update={"near_duplicates": 0}),
        }
    )
    annex = build.build(absent)
    assert "near-duplicates not counted" in facts(annex, "edpb-training")["helpdesk"]
    assert "0 repeat" not in facts(annex, "nist-unstructured")["helpdesk"]
    assert "3 near-duplicates" in facts(build.build(run), "edpb-training")["helpdesk"]
