"""One verdict over a run, never milder than any of its findings."""

from __future__ import annotations

from itertools import product

import pytest

from audit.core.terms import Leaked, OnClaim
from audit.results.badge import Badge, of_release, of_results
from audit.results.schema import ReleaseResult
from tests import by_hand as make

LEAK, INSIDE, NONE, OPEN, NOTHING = Leaked
REFUTED, HELD, UNTESTED, UNCLAIMED, UNKNOWN = OnClaim
Answer = tuple[Leaked, OnClaim]


def release(*answers: Answer, attacks: str = "abcdefgh", **changes: object) -> ReleaseResult:
    found = [
        make.finding(0.4, attack=attack, metric=f"m{place}", leaked=leaked, claim=claim,
                     p_value=0.2, stronger_than_release=leaked == INSIDE)
        for place, (attack, (leaked, claim)) in enumerate(zip(attacks, answers, strict=False))
    ]  # fmt: skip
    made: ReleaseResult = make.release("dp_sgd", make.guarantee(8.0), *found, **changes)
    return made


@pytest.mark.parametrize(
    ("answers", "attacks", "badge"),
    [
        ([(LEAK, REFUTED), (NONE, HELD)], "ab", Badge.REFUTED),
        ([(NONE, REFUTED)], "a", Badge.REFUTED),
        ([(LEAK, UNTESTED), (LEAK, HELD)], "ab", Badge.LEAK),
        ([(LEAK, UNTESTED), (LEAK, HELD)], "aa", Badge.PERMITTED),
        ([(LEAK, UNTESTED), (NONE, HELD)], "aa", Badge.LEAK),
        ([(LEAK, HELD), (INSIDE, UNTESTED)], "ab", Badge.PERMITTED),
        ([(LEAK, UNCLAIMED)], "a", Badge.LEAK),
        ([(LEAK, UNKNOWN)], "a", Badge.LEAK),
        ([(INSIDE, UNTESTED), (NONE, HELD)], "ab", Badge.INSIDERS),
        ([(INSIDE, UNTESTED), (OPEN, HELD)], "ab", Badge.INSIDERS),
        ([(OPEN, HELD), (NONE, HELD)], "ab", Badge.INCONCLUSIVE),
        ([(NOTHING, UNTESTED)], "a", Badge.INCONCLUSIVE),
        ([(NONE, HELD), (NONE, UNTESTED)], "ab", Badge.NONE_FOUND),
        ([], "", Badge.INCONCLUSIVE),
    ],
)
def test_badge_of_a_release(answers: list[Answer], attacks: str, badge: Badge) -> None:
    assert of_release(release(*answers, attacks=attacks)) == badge
    assert of_results(make.run(release(*answers, attacks=attacks))) == badge


def test_badge_is_never_milder_than_a_finding() -> None:
    """Over all pairs of answers: the alarms of any finding are in the badge."""
    for one, other in product(product(Leaked, OnClaim), repeat=2):
        badge = of_release(release(one, other))
        words = {one[0], other[0]}
        assert (badge == Badge.REFUTED) == (REFUTED in (one[1], other[1]))
        if badge != Badge.REFUTED:
            assert (badge in (Badge.LEAK, Badge.PERMITTED)) == (LEAK in words)
            assert badge != Badge.NONE_FOUND or words == {NONE} or words == {NONE, NOTHING}


def test_badge_of_a_run_is_its_worst_release() -> None:
    quiet, bad = release((NONE, HELD)), release((LEAK, REFUTED), seed=1)
    control = release((LEAK, REFUTED), seed=2, reference=True)
    assert of_results(make.run(quiet, control)) == Badge.NONE_FOUND
    assert of_results(make.run(control)) == Badge.REFUTED
    assert of_results(make.run(quiet, bad, control)) == Badge.REFUTED
    assert of_results(make.run()) == Badge.INCONCLUSIVE


def test_unfinished_run_never_passes() -> None:
    partial = {"status": "partial"}
    assert of_results(make.run(release((NONE, HELD)), **partial)) == Badge.INCONCLUSIVE
    assert of_results(make.run(release((LEAK, UNTESTED)), **partial)) == Badge.LEAK


def test_badge_of_a_sweep_is_that_of_its_settings() -> None:
    """A leak of one seed that its setting does not confirm is no leak of the sweep."""
    swept = make.on_two_seeds(make.run(release((NONE, HELD))))
    assert swept.sweep is not None
    assert of_results(swept) == Badge.NONE_FOUND
    (cell,) = swept.sweep.cells
    for word, badge in ((LEAK, Badge.LEAK), (OPEN, Badge.INCONCLUSIVE)):
        cells = [cell.changed(leaked=word)]
        changed = swept.changed(sweep=swept.sweep.changed(cells=cells))
        assert of_results(changed) == badge


def test_every_badge_has_at_most_twenty_words() -> None:
    for badge in Badge:
        assert 5 <= len(badge.sentence.split()) <= 20, badge.sentence
    assert len({badge.sentence for badge in Badge}) == len(Badge)
