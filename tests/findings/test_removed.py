"""What was removed before training is not measured; a release's conditions join its measures'."""

from __future__ import annotations

from typing import Any

from audit.core.terms import Leaked, Shown
from audit.findings.headline import headline
from audit.findings.rejections import Family
from audit.findings.shows import NO_REFERENCES, Shows, not_shown, shown, silence_over
from audit.findings.verdict import judge
from audit.results.joined import leaked_overall
from audit.results.schema import GuaranteeResult
from audit.statistics.interval import no_interval
from tests.findings import by_hand

GONE = not_shown("removed before training: 0 of 9 planted codes are in the training text.")
CLAIM = GuaranteeResult.of(by_hand.promise(None))
NAMES = (("extraction", "hit_rate"), ("membership", "auc"))


def judged(p_values: dict[str, float], contact: dict[str, Any], **seen: Any) -> Any:
    """A measure of each kind: codes by extraction, records by membership."""
    found = [
        by_hand.finding(p, None, attack=attack, metric=metric, kinds=(kind,))
        for (kind, p), (attack, metric) in zip(p_values.items(), NAMES, strict=False)
    ]
    family = Family(len(found), 0)
    sight = {name: shown("by hand", 1) for name in NAMES} | seen.pop("sight", {})
    return judge(by_hand.by_holm(found, CLAIM, family), CLAIM, Shows(contact, sight), family)


def test_removed_secrets_are_not_measured_and_silence_nothing() -> None:
    trained = {"code": GONE, "record": by_hand.REACHED}
    gone, other = judged({"code": 0.5, "record": 0.6}, trained)
    assert gone.leaked == Leaked.NOT_MEASURED and gone.removed
    assert "Not measured, removed before training: 0 of 9" in gone.sentence
    assert other.leaked == Leaked.NONE_FOUND
    assert leaked_overall([gone, other]) == Leaked.INCONCLUSIVE
    assert leaked_overall([gone]) == Leaked.NOT_MEASURED
    joined = silence_over([gone, other])
    assert joined is not None and joined.contact == GONE


def test_measure_without_a_value_keeps_its_own_reason() -> None:
    """A ledger, or a rate that needs more controls, is not unmeasured for what was removed."""
    unmeasured = no_interval(0, 0.95, "needs 100 controls")
    none = by_hand.finding(None, None, interval=unmeasured, k=None, control=None)
    auc = by_hand.finding(0.5, None, test="auc")
    rare = none.changed(metric="tpr", p_value=0.5, test="auc")
    found = by_hand.by_holm([none, auc, rare], CLAIM, Family(2, 0))
    judged = judge(found, CLAIM, Shows({"code": GONE}), Family(2, 0))
    assert {one.leaked for one in judged} == {Leaked.NOT_MEASURED}
    assert [one.removed for one in judged] == [False, True, False]


def test_leak_of_removed_secrets_stays_a_leak() -> None:
    (leak,) = judged({"code": 1e-9}, {"code": GONE})
    assert leak.leaked == Leaked.LEAK and "contact not shown" in leak.sentence
    assert leaked_overall([leak]) == Leaked.LEAK


def test_measure_of_two_kinds_is_removed_with_both_only() -> None:
    both = by_hand.finding(0.5, None, kinds=("code", "record"))
    half = Shows({"code": GONE, "record": by_hand.REACHED}).contact_of(both)
    assert half.state == Shown.NOT_SHOWN and not half.removed
    assert Shows({"code": GONE, "record": GONE}).contact_of(both).removed
    other = not_shown("Nothing was trained.")
    assert Shows({"code": GONE, "record": other}).contact_of(both) == other


def test_headline_names_what_was_removed() -> None:
    release = by_hand.released("redaction", by_hand.promise(None), [by_hand.finding(0.5)], 9.0)
    (gone,) = judged({"code": 0.5}, {"code": GONE})
    release = release.changed(findings=[gone], leaked=Leaked.NOT_MEASURED)
    (line,) = headline([release])
    assert line.startswith("redaction: not measured, removed before training: extraction.")


def test_release_has_shown_what_each_attack_has() -> None:
    """Of one attack and kind the measure counts that has shown the most."""
    trained = {"code": by_hand.REACHED, "record": by_hand.REACHED}
    blind = not_shown("It is blind.")
    each = judged({"code": 0.5, "record": 0.6}, trained, sight={NAMES[1]: blind})
    joined = silence_over(each)
    assert joined is not None and joined.sight == blind
    assert joined.contact.state == joined.reach.state == Shown.SHOWN
    same = each[1].changed(attack="extraction", kinds=("code",))
    joined = silence_over([each[0], same])
    assert joined is not None and joined.sight.state == Shown.SHOWN
    leak, _ = judged({"code": 1e-9, "record": 0.6}, trained)
    joined = silence_over([each[1], leak])
    assert joined is not None and joined.sight.state == Shown.NOT_NEEDED
    assert silence_over([]) is None


def test_own_reason_stands_where_no_references_were_run() -> None:
    seen = by_hand.finding(0.5)
    assert Shows().beside(None).sight_of(seen).by == NO_REFERENCES
    assert Shows(unseen="The server hides it.").beside(None).sight_of(seen).by.startswith("The s")
