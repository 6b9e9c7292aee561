"""Page one stays one page: what it shows first, and what it says it leaves to the details."""

from __future__ import annotations

from typing import cast

import pytest

from audit.core.terms import Relation
from audit.findings.shows import beside_leak, not_shown
from audit.plugins import registry
from audit.results.schema import ReleaseResult
from reports import Report
from reports._content import page as pages
from reports._content import summary as summaries
from reports._content.legend import ALL_SHOWN, ENDS
from reports._content.terms import TERMS
from reports._content.wording import ATTACKS, DEFENSES, spelled
from tests import by_hand as make

REFUTED = {"leaked": "leak", "claim": "refuted"}


def page_of(*releases: ReleaseResult) -> pages.Page:
    return Report(make.run(*releases)).page


def shown(page: pages.Page) -> list[tuple[str, str, str]]:
    blocks = page.summary.blocks
    return [(b.name, row.leaked, row.claim) for b in blocks for row in b.rows if row.leaked]


def test_every_attack_of_every_release_has_a_row_worst_first() -> None:
    quiet = [make.finding(0.0, attack=f"a{i}") for i in range(12)]
    loud = make.finding(0.968, attack="late", leaked="leak", claim="not testable")
    refuted = make.finding(1.0, attack="last", **REFUTED)
    audited = [
        make.release("calm", make.guarantee(8.0), *quiet),
        make.release("loud", make.guarantee(8.0), *quiet, loud, refuted),
    ]
    found = shown(page_of(*audited))
    assert found[:2] == [("loud", "leak", "claim refuted"), ("loud", "leak", "claim not tested")]
    assert [name for name, *_ in found] == ["loud"] * 14 + ["calm"] * 12


def test_of_many_releases_each_is_a_line_of_one_table() -> None:
    audited = [make.release("dp_sgd", make.guarantee(float(e)), make.finding(0.0),
                            make.finding(0.3, attack="membership", metric="auc"))
               for e in range(1, 20)]  # fmt: skip
    audited.append(make.release("last", make.guarantee(1.0), make.finding(1.0, **REFUTED)))
    page = page_of(*audited)
    assert page.summary.blocks == [] and page.summary.overview.attacks == [
        "extraction", "membership",
    ]  # fmt: skip
    first, *rest = page.summary.overview.lines
    assert (first.name, first.badge) == ("last", "CLAIM REFUTED") and len(rest) == 19
    ((entry,), nothing) = first.fields
    assert (entry.mark, entry.value, entry.measure) == ("claim refuted", "100\u00a0%", "hit rate")
    assert nothing == [] and all(len(line.fields) == 2 for line in rest)
    assert page.badges[0].others == "20 releases: 1 × CLAIM REFUTED · 19 × NO LEAK FOUND"


def test_a_refuted_control_is_shown() -> None:
    broken = make.finding(0.4, **REFUTED)
    page = page_of(
        make.release("submix", make.guarantee(2.0), make.finding(0.0)),
        make.release("public", make.guarantee(0.0), broken, reference=True, role="null control"),
    )
    assert shown(page) == [
        ("submix", "no leak found", "claim not tested"),
        ("public", "leak", "claim refuted"),
    ]
    assert any(line.startswith("a control failed") for line in page.warned)


def test_a_leak_to_insiders_has_a_row_beside_a_quiet_measure() -> None:
    beyond = {"leaked": "leak to insiders", "stronger_than_release": True}
    found = [make.finding(0.0), make.finding(0.9, metric="probability", **beyond)]
    page = page_of(make.release("submix", make.guarantee(2.0), *found))
    assert [word for _, word, _ in shown(page)] == ["leak to insiders", "no leak found"]
    assert page.badges[0].badge == "LEAK TO INSIDERS"


def test_blind_measure_does_not_stand_for_a_quiet_attack() -> None:
    """Badge and rows agree: what another measure of the attack answers is not open."""
    gone = make.SILENCE.changed(reach=not_shown("Too few people."))
    blind = make.finding(0.1, metric="probability", leaked="inconclusive", silence=gone)
    page = page_of(make.release("dp_sgd", make.guarantee(8.0), blind, make.finding(0.0)))
    assert [word for _, word, _ in shown(page)] == ["no leak found"]
    assert page.badges[0].badge == "NO LEAK FOUND"


def test_an_attack_is_quoted_by_its_worst() -> None:
    beyond = make.finding(
        0.9, metric="probability", leaked="leak to insiders", stronger_than_release=True
    )
    found = [
        make.finding(None, leaked="not measured"),
        beyond,
        make.finding(0.0, metric="recall"),
        make.finding(0.4, metric="verbatim", leaked="leak"),
        make.finding(0.5, metric="late", **REFUTED),
    ]
    for count, quoted in ((5, 4), (4, 3), (3, 2), (2, 1), (1, 0)):
        release = make.release("submix", make.guarantee(2.0), *found[:count])
        assert list(summaries.quoted(release)) == [quoted]


def test_a_leak_without_a_value_is_quoted_as_one() -> None:
    bounded = make.finding(None, metric="exposure", leaked="leak")
    page = page_of(make.release("submix", make.guarantee(2.0), make.finding(0.0), bounded))
    assert shown(page) == [("submix", "leak", "claim not tested")]
    (block,) = page.summary.blocks
    assert block.rows[0].measured.text == "within bounds only"


def test_controls_are_those_most_like_the_release() -> None:
    def reference(name: str, role: str, seed: int, **parameters: int) -> ReleaseResult:
        release = make.release(name, make.guarantee(None), reference=True, role=role, seed=seed,
                               parameters=parameters)  # fmt: skip
        return cast("ReleaseResult", release)

    bare = "positive control of submix"
    others = [
        reference("submix_unprotected", bare, 0, k=4),
        reference("submix_unprotected", bare, 0, k=8),
        reference("none", "positive control", 0),
        reference("none", "positive control", 1),
    ]
    one = make.release("submix", make.guarantee(2.0), seed=0, parameters={"k": 8})
    later = make.release("submix", make.guarantee(2.0), seed=1, parameters={"k": 8})
    assert summaries.control_of(one, "positive control of {}", others) is others[1]
    assert summaries.control_of(later, "positive control", others) is others[3]
    assert summaries.control_of(later, "null control", others) is None
    assert summaries.control_of(others[0], "positive control", others) is None


def test_guarantees_that_agree_are_told_once() -> None:
    same = [
        make.release("dp_sgd", make.guarantee(8.0), make.finding(0.0), seed=seed)
        for seed in range(4)
    ]
    page = page_of(*same)
    assert [promise.name for promise in page.promises] == ["dp_sgd seed=0 and 3 more"]


def test_of_many_guarantees_the_first_stand_on_page_one() -> None:
    several = [
        make.release(name, make.guarantee(1.0, theorem=name), make.finding(0.0))
        for name in "abcdef"
    ]
    page = page_of(*several)
    assert len(page.promises) == 4 and page.promises_note.startswith("2 more stand")
    assert [detail.theorem for detail in page.details] == list("abcdef")


def test_a_stronger_attack_is_marked() -> None:
    strong = make.finding(0.9, stronger_than_release=True, leaked="leak to insiders")
    page = page_of(make.release("submix", make.guarantee(2.0), strong))
    assert "insiders only" in page.summary.blocks[0].rows[0].aside
    assert ("Standing", "reads more than the release gives: no evidence on the claim") in (
        page.details[0].groups[0].notes[0].facts
    )


def test_page_one_states_conditions_of_silence_for_each_audited_release() -> None:
    """A line each; of many releases the first that is missing; beside a leak its contact alone."""
    quiet, none = make.release("dp_sgd", make.guarantee(8.0), make.finding(0.0)), not_shown("Why.")
    (block,) = page_of(quiet).summary.blocks
    first, *spelled = block.conditions
    assert first == ALL_SHOWN
    assert [line.split(" (")[0] for line in spelled] == ["Contact", "Sight", "Reach"]
    assert all("): shown." in line for line in spelled)
    blind = quiet.changed(silence=quiet.silence.changed(sight=none))
    (block,) = page_of(blind).summary.blocks
    unseen = "Sight (these measures see such text): not shown by every measure. Why."
    assert block.conditions[0] == unseen and len(block.conditions) == 3
    open_ = blind.changed(findings=[make.finding(0.0, leaked="inconclusive")])
    assert page_of(open_).summary.blocks[0].conditions[0] == unseen.replace(" by every measure", "")
    many = [one.changed(seed=seed) for seed, one in enumerate([quiet, blind, quiet])]
    lines = [block.conditions for block in page_of(*many).summary.blocks]
    assert lines == [[ALL_SHOWN], [unseen],
                     [ALL_SHOWN]]  # fmt: skip
    found = make.finding(1.0, leaked="leak", silence=beside_leak(make.SILENCE))
    leak = make.release("none", make.guarantee(8.0), found)
    (line,) = page_of(leak).summary.blocks[0].conditions
    assert line.startswith("Contact (the text reached the model): shown.")
    assert not page_of(quiet, quiet.changed(reference=True)).summary.blocks[1:]


def test_what_a_claim_is_of_stands_among_the_terms() -> None:
    words = [word.strip() for head, _ in TERMS for word in head.split(",")]
    assert {*map(spelled, Relation), "worst case", "data-dependent", "δ"} <= {*words}


def test_a_leak_by_ranks_shows_no_mean_that_its_twins_may_have_too() -> None:
    low = make.finding(1e-9, metric="probability", test="extraction likelihoods", adjusted_p=0.01)
    leak = low.changed(leaked="leak", k=None, silence=beside_leak(make.SILENCE))
    told = [page_of(make.release("none", make.guarantee(None), one)) for one in (low, leak)]
    quiet, row = (page.summary.blocks[0].rows[0] for page in told)
    assert (row.measured.text, row.controls[0].text) == ("likelier than twins", "less likely")
    assert row.strip is None and "1 of 100 runs" in row.certainty
    assert quiet.strip is not None and quiet.controls[0].text == "0\u00a0%"
    found = next(box for box in told[1].boxes if box.name == "Leaked")
    assert found.figure == "a leak" and "likelier than values of twins" in found.lines[0]


def test_every_plugin_is_told_in_plain_words() -> None:
    words = {"defenses": DEFENSES, "attacks": ATTACKS}
    assert {kind: [*known] for kind, known in words.items()} == {
        kind: registry.names(kind) for kind in words
    }


def test_each_attack_that_was_not_run_stands_with_its_question() -> None:
    run = make.run(make.release("submix", make.guarantee(8.0), make.finding(0.0)))
    left = run.changed(not_tested=["attacks that were not run: name_leak, own", "other secrets"])
    assert Report(left).page.not_tested == [
        "not run: name leak (do names of users come up?)",
        "not run: own",
        "other secrets",
    ]


@pytest.mark.parametrize(
    ("invented", "said"),
    [
        (120, "120 invented people, trained on or not by coin"),
        (0, "120 users of the corpus, trained on or not by coin"),
        (20, "100 users of the corpus and 20 invented people, trained on or not by coin"),
        (None, "120 people, trained on or not by coin"),
    ],
)
def test_page_one_says_whose_coins_were_tossed(invented: int | None, said: str) -> None:
    run = make.run(make.release("submix", make.guarantee(8.0), make.finding(0.0)))
    corpus = run.corpus.changed(invented_users=invented)
    assert said in Report(run.changed(corpus=corpus)).page.facts.split(" · ")


def test_wider_intervals_are_explained_where_answers_can_end_a_session() -> None:
    fixed, ends = (make.finding(0.0, cut=cut) for cut in (None, False))
    for found, told in ((fixed, False), (ends, True)):
        legend = page_of(make.release("submix", make.guarantee(2.0), found)).summary.legend
        assert (ENDS in legend) == told


def test_a_leak_of_the_release_is_to_everybody() -> None:
    for leaked, told in (("leak", True), ("leak to insiders", False), ("no leak found", False)):
        found = make.finding(0.5, leaked=leaked, stronger_than_release="insiders" in leaked)
        page = page_of(make.release("submix", make.guarantee(2.0), found))
        (box,) = [box for box in page.boxes if box.name == "Leaked"]
        assert ("To everybody who can use the release." in box.lines) == told


def test_what_closes_a_leak_stands_beside_it() -> None:
    """By "no leak found" of the attack that leaked, and no other leak; controls do not count.

    A measure that is blind there says nothing, and another attack nothing of this one.
    """
    promise, quiet = make.guarantee(8.0), make.finding(0.0)
    unseen = quiet.silence.changed(sight=not_shown("Why."))
    blind = make.finding(0.1, metric="probability", leaked="inconclusive", silence=unseen)
    probable = make.finding(1.0, metric="probability", leaked="leak",
                            silence=beside_leak(make.SILENCE))  # fmt: skip
    other = make.finding(0.0, attack="membership")
    open_ = make.finding(1.0, leaked="leak", silence=beside_leak(make.SILENCE))
    unsure = quiet.changed(leaked="inconclusive")
    run = [
        make.release("none", promise, open_, probable),
        make.release("none", promise, quiet, blind, parameters={"dedup": "near"}),
        make.release("none", promise, open_, parameters={"epochs": 1}),
        make.release("dp_sgd", make.guarantee(8.0), unsure),
        make.release("submix", make.guarantee(8.0), other),
        make.release("public", promise, quiet, reference=True),
    ]
    blocks = page_of(*run).summary.blocks
    assert blocks[0].conditions[-1] == (
        "The leak: closed in this run by none:dedup=near; not closed by none:epochs=1; not shown "
        "to be closed by dp_sgd, submix."
    )
    assert not any("closed" in line for line in blocks[-1].conditions)
    assert not any("closed" in line for line in page_of(run[0]).summary.blocks[0].conditions)


def test_page_one_states_what_was_planted_and_what_silence_needs() -> None:
    run = make.run(make.release("dp_sgd", make.guarantee(8.0), make.finding(0.0)))
    assert not {"Invented text", "Silence, changed"} & dict(Report(run).page.tested).keys()
    corpus = run.corpus.changed(planted_token_share=0.142)
    run = run.changed(corpus=corpus, plan={**run.plan, "silence": {"hits": 0.5}})
    tested = dict(Report(run).page.tested)
    assert tested["Invented text"].startswith("one token in 7 of what these models learn from")
    assert tested["Silence, changed"] == "hits = 0.5 (default 0.25)"
    run = run.changed(corpus=run.corpus.changed(planted_token_share=5e-324))
    assert dict(Report(run).page.tested)["Invented text"].startswith("one token in 1,000,000,000 ")
