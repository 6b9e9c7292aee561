"""Page one stays one page: what it shows first, and what it says it leaves to the details."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.core.terms import Leaked, Relation
from audit.findings.shows import beside_leak, not_shown
from audit.plugins import registry
from audit.results.schema import ClaimTest, Power, ReleaseResult, Results
from reports import Report
from reports._content import page as pages
from reports._content import summary as summaries
from reports._content.legend import EARNED, ENDS
from reports._content.summary import certainty
from reports._content.terms import TERMS
from reports._content.wording import ATTACKS, DEFENSES, spelled
from tests import by_hand as make

REFUTED = {"leaked": "leak", "claim": "refuted"}
INSIDERS = {"leaked": "leak to insiders", "stronger_than_release": True}
CURVE = ClaimTest(mechanism="m", m=120, r=60, v=25, p_value=1.0, least_p=1e-9, critical=46)
QUIET = make.finding(0.0)
LEAK = make.finding(1.0, leaked="leak", silence=beside_leak(make.SILENCE))


def of(*found: Any, name: str = "dp_sgd", **changes: Any) -> Any:
    return make.release(name, make.guarantee(8.0), *found, **changes)


def page_of(*releases: ReleaseResult) -> pages.Page:
    return Report(make.run(*releases)).page


def facts_of(results: Results) -> dict[str, str]:
    return dict(Report(results).page.tested)


def shown(page: pages.Page) -> list[tuple[str, str, str]]:
    blocks = page.summary.blocks
    return [(b.name, row.leaked, row.claim) for b in blocks for row in b.rows if row.leaked]


def words(*found: Any) -> list[str]:
    """What leaked in one release, a row each."""
    return [leaked for _, leaked, _ in shown(page_of(of(*found)))]


def test_every_attack_has_a_row_worst_first() -> None:
    quiet = [make.finding(0.0, attack=f"a{i}") for i in range(12)]
    loud = make.finding(0.968, attack="late", leaked="leak", claim="not testable")
    refuted = make.finding(1.0, attack="last", **REFUTED)
    found = shown(page_of(of(*quiet, name="calm"), of(*quiet, loud, refuted, name="loud")))
    assert found[:2] == [("loud", "leak", "claim refuted"), ("loud", "leak", "claim not tested")]
    assert [name for name, *_ in found] == ["loud"] * 14 + ["calm"] * 12


def test_many_releases_are_lines_of_one_table() -> None:
    both = [QUIET, make.finding(0.3, attack="membership", metric="auc")]
    audited = [make.release("dp_sgd", make.guarantee(float(e)), *both) for e in range(1, 20)]
    page = page_of(*audited, of(make.finding(1.0, **REFUTED), name="last"))
    assert page.summary.blocks == []
    assert page.summary.overview.attacks == ["extraction", "membership"]
    first, *rest = page.summary.overview.lines
    assert (first.name, first.badge) == ("last", "CLAIM REFUTED") and len(rest) == 19
    ((entry,), nothing) = first.fields
    assert entry == ("claim refuted", "100\u00a0% hit rate")
    assert nothing == [] and all(len(line.fields) == 2 for line in rest)
    assert page.badges[0].others == "20 releases: 1 × CLAIM REFUTED · 19 × NO LEAK FOUND"


def test_refuted_control_is_shown() -> None:
    broken = of(make.finding(0.4, **REFUTED), name="public", reference=True, role="null control")
    page = page_of(of(QUIET), broken)
    assert shown(page) == [
        ("dp_sgd", "no leak found", "claim not tested"),
        ("public", "leak", "claim refuted"),
    ]
    assert any(line.startswith("a control failed") for line in page.warned)


def test_leak_to_insiders_has_its_row() -> None:
    beyond = make.finding(0.9, metric="probability", **INSIDERS)
    page = page_of(of(QUIET, beyond))
    assert [leaked for _, leaked, _ in shown(page)] == ["leak to insiders", "no leak found"]
    assert page.badges[0].badge == "LEAK TO INSIDERS"
    assert "insiders only" in page.summary.blocks[0].rows[0].aside
    standing = ("Standing", "reads more than the release gives: no evidence on the claim")
    assert standing in page.details[0].groups[0].notes[1].facts


def test_blind_measure_does_not_stand_for_a_quiet_attack() -> None:
    """Badge and rows agree: what another measure of the attack answers is not open."""
    gone = make.SILENCE.changed(reach=not_shown("Too few people."))
    blind = make.finding(0.1, metric="probability", leaked="inconclusive", silence=gone)
    assert words(blind, QUIET) == ["no leak found"]
    assert page_of(of(blind, QUIET)).badges[0].badge == "NO LEAK FOUND"


def test_attack_is_quoted_by_its_worst_measure() -> None:
    found = [
        make.finding(None, leaked="not measured"),
        make.finding(0.9, metric="probability", **INSIDERS),
        make.finding(0.0, metric="recall"),
        make.finding(0.4, metric="verbatim", leaked="leak"),
        make.finding(0.5, metric="late", **REFUTED),
    ]
    for count, quoted in ((5, 4), (4, 3), (3, 2), (2, 1), (1, 0)):
        assert summaries.quoted(of(*found[:count])) == [found[quoted]]


def test_leak_without_a_value_is_quoted() -> None:
    bounded = make.finding(None, metric="exposure", leaked="leak")
    page = page_of(of(QUIET, bounded))
    assert shown(page) == [("dp_sgd", "leak", "claim not tested")]
    assert page.summary.blocks[0].rows[0].measured.text == "within bounds only"


def test_controls_are_those_most_like_the_release() -> None:
    def reference(name: str, role: str, seed: int = 0, **parameters: int) -> Any:
        return of(name=name, reference=True, role=role, seed=seed, parameters=parameters)

    bare = "positive control of submix"
    others = [
        reference("submix_unprotected", bare, k=4),
        reference("submix_unprotected", bare, k=8),
        reference("none", "positive control"),
        reference("none", "positive control", 1),
    ]
    one, later = (of(name="submix", seed=seed, parameters={"k": 8}) for seed in (0, 1))
    assert summaries.control_of(one, "positive control of {}", others) is others[1]
    assert summaries.control_of(later, "positive control", others) is others[3]
    assert summaries.control_of(later, "null control", others) is None
    assert summaries.control_of(others[0], "positive control", others) is None


def test_promises_are_listed_once_and_bounded() -> None:
    page = page_of(*(of(QUIET, seed=seed) for seed in range(4)))
    assert [promise.name for promise in page.promises] == ["dp_sgd seed=0 and 3 more"]
    claims = {name: make.guarantee(1.0, theorem=name) for name in "abcdef"}
    page = page_of(*(make.release(name, claim, QUIET) for name, claim in claims.items()))
    assert len(page.promises) == 4 and page.promises_note.startswith("2 more stand")
    assert [detail.theorem for detail in page.details] == list("abcdef")


def test_conditions_of_silence_stand_by_each_release() -> None:
    """A line each; of many releases the first that is missing; beside a leak its contact alone."""

    def conditions(*releases: ReleaseResult) -> list[list[str]]:
        return [block.conditions for block in page_of(*releases).summary.blocks]

    quiet = of(QUIET)
    ((first, *spelled_out),) = conditions(quiet)
    earned = EARNED[Leaked.NONE_FOUND]
    assert first == earned
    assert [line.split(" (")[0] for line in spelled_out] == ["Contact", "Sight", "Reach"]
    assert all("): shown." in line for line in spelled_out)
    blind = quiet.changed(silence=quiet.silence.changed(sight=not_shown("Why.")))
    (lines,) = conditions(blind)
    unseen = "Sight (these measures see such text): not shown by every measure. Why."
    assert lines[0] == unseen and len(lines) == 3
    open_ = blind.changed(findings=[make.finding(0.0, leaked="inconclusive")])
    assert conditions(open_)[0][0] == unseen.replace(" by every measure", "")
    many = [one.changed(seed=seed) for seed, one in enumerate([quiet, blind, quiet])]
    assert conditions(*many) == [[earned], [unseen], [earned]]
    doubtful = quiet.changed(leaked="inconclusive")
    assert conditions(doubtful)[0][0] == EARNED[Leaked.INCONCLUSIVE]
    ((line,),) = conditions(of(LEAK))
    assert line.startswith("Contact (the text reached the model): shown.")
    assert len(conditions(quiet, quiet.changed(reference=True))) == 1


def test_leak_by_ranks_shows_no_mean() -> None:
    """Its twins may have the same mean."""
    low = make.finding(1e-9, metric="probability", test="extraction likelihoods", adjusted_p=0.01)
    leak = low.changed(leaked="leak", k=None, silence=beside_leak(make.SILENCE))
    quiet, loud = (page_of(of(one)) for one in (low, leak))
    row = loud.summary.blocks[0].rows[0]
    assert (row.measured.text, row.controls[0].text) == ("likelier than twins", "less likely")
    assert row.strip is None and "1 of 100 runs" in row.certainty
    row = quiet.summary.blocks[0].rows[0]
    assert row.strip is not None and row.controls[0].text == "0\u00a0%"
    found = next(box for box in loud.boxes if box.name == "Leaked")
    assert found.figure == "a leak" and "likelier than values of twins" in found.lines[0]


@pytest.mark.parametrize(
    ("promised", "claim", "test", "said"),
    [
        ({"epsilon": 8.0}, "not testable", None, "too weak to refute its claim: it can show at mo"),
        ({"epsilon": 1.0}, "not refuted", None, "could have refuted ε = 2.5 nats per user"),
        ({"epsilon": 8.0}, "not refuted", CURVE, "could have refuted its claim"),
        ({"epsilon": 8.0}, "not testable", CURVE, "too weak to refute its claim"),
        # of another kind than the claim, or nothing claimed: that figure could refute no claim
        ({"epsilon": 1.0, "unit": "record"}, "not testable", None, "could have shown ε = 2.5 nats"),
        ({"epsilon": 8.0, "unit": "record"}, "not testable", None, "could have shown ε = 2.5 nats"),
        ({"epsilon": math.inf}, "nothing claimed", None, "could have shown ε = 2.5 nats per user"),
    ],
)
def test_what_a_measure_could_have_shown_follows_its_answer_on_the_claim(
    promised: dict[str, Any], claim: str, test: ClaimTest | None, said: str
) -> None:
    power = Power(n=100, largest_epsilon=2.5)
    found = make.finding(
        0.0, claim=claim, claim_test=test, power=power, epsilon_lower=make.bound(0.0)
    )
    assert certainty(found, make.guarantee(**promised)).startswith(said)


def test_bound_beside_silence_is_called_unadjusted() -> None:
    found = make.finding(0.0, epsilon_lower=make.bound(0.3))
    said = [
        page_of(of(one)).summary.blocks[0].rows[0].certainty
        for one in (found, found.changed(leaked="leak"))
    ]
    assert said[0] == f"{said[1]}, unadjusted" and said[1].startswith("so ε ≥ 0.3 nats")


def test_plugins_and_terms_have_plain_words() -> None:
    assert [*DEFENSES] == registry.names("defenses") and [*ATTACKS] == registry.names("attacks")
    terms = [word.strip() for head, _ in TERMS for word in head.split(",")]
    assert {*map(spelled, Relation), "worst case", "data-dependent", "δ"} <= {*terms}


def test_attack_that_was_not_run_has_its_question() -> None:
    left = ["attacks that were not run: name_leak, own", "other secrets"]
    assert Report(make.run(of(QUIET), not_tested=left)).page.not_tested == [
        "not run: name leak (do names of users come up?)",
        "not run: own",
        "other secrets",
    ]


@pytest.mark.parametrize(
    ("invented", "said"),
    [
        (120, "120 invented people"),
        (0, "120 users of the corpus"),
        (20, "100 users of the corpus and 20 invented people"),
        (None, "120 people"),
    ],
)
def test_page_one_names_whose_coins_were_tossed(invented: int | None, said: str) -> None:
    run = make.run(of(QUIET))
    run = run.changed(corpus=run.corpus.changed(invented_users=invented))
    assert f"{said}, trained on or not by coin" in Report(run).page.facts.split(" · ")


def test_wider_intervals_are_explained_where_sessions_can_end() -> None:
    for cut in (None, False):
        assert (ENDS in page_of(of(make.finding(0.0, cut=cut))).summary.legend) == (cut is False)


def test_only_a_leak_of_the_release_is_to_everybody() -> None:
    for found, told in ((LEAK, True), (make.finding(0.5, **INSIDERS), False), (QUIET, False)):
        (box,) = [box for box in page_of(of(found)).boxes if box.name == "Leaked"]
        assert ("To everybody who can use the release." in box.lines) == told


def test_where_a_leak_was_not_found_stands_beside_it() -> None:
    """By "no leak found" of the attack that leaked, and no other leak; controls do not count.

    A measure that is blind there says nothing, and another attack nothing of this one.
    """
    unseen = make.SILENCE.changed(sight=not_shown("Why."))
    blind = make.finding(0.1, metric="probability", leaked="inconclusive", silence=unseen)
    alone = of(LEAK, LEAK.changed(metric="probability"), name="none")
    run = [
        alone,
        of(QUIET, blind, name="none", parameters={"dedup": "near"}),
        of(LEAK, name="none", parameters={"epochs": 1}),
        of(QUIET.changed(leaked="inconclusive")),
        of(make.finding(0.0, attack="membership"), name="submix"),
        of(QUIET, name="public", reference=True),
    ]
    blocks = page_of(*run).summary.blocks
    assert blocks[0].conditions[-1] == (
        "The leak: not found in this run with none:dedup=near; also found with none:epochs=1; "
        "undecided with dp_sgd, submix."
    )
    rest = [*blocks[-1].conditions, *page_of(alone).summary.blocks[0].conditions]
    assert not any("The leak:" in line for line in rest)


def test_page_one_states_what_was_planted_and_what_silence_needs() -> None:
    run = make.run(of(QUIET))
    assert not {"Invented text", "Silence, changed"} & facts_of(run).keys()
    corpus = run.corpus.changed(planted_token_share=0.142)
    run = run.changed(corpus=corpus, plan={**run.plan, "silence": {"hits": 0.5}})
    facts = facts_of(run)
    assert facts["Invented text"].startswith("one token in 7 of what these models learn from")
    assert facts["Silence, changed"] == "hits = 0.5 (default 0.25)"
    run = run.changed(corpus=run.corpus.changed(planted_token_share=5e-324))
    assert facts_of(run)["Invented text"].startswith("one token in 1,000,000,000 ")
