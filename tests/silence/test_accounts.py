"""What counts as contact: each way, with and without an account of the values themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audit.core.terms import Shown
from audit.silence.accounts import Account, Tier, Ways, link
from audit.silence.behind import Behind
from audit.silence.sentences import Learnt

FILE = "t.jsonl (SHA-256 0123)"
SEEN, UNSEEN, NEARLY = Learnt(0, 9_999, 9_999), Learnt(10, 41, 9_999), Learnt(7, 9_999, 9_999)
HELD = Account(heads=50, stated=FILE, people=50, lost="All are there")
NO_FILE = Account(heads=50)
FEW = replace(HELD, people=39, lost="Of 50 planted code copies 39 were trained on")
SMALL = Account(heads=31, stated=FILE, people=31)
MASKED = replace(HELD, people=0, lost="Of 50 planted code copies 0 were trained on (50 masked)")
GONE = replace(MASKED, removed=True)
BEHIND = Behind("Text: ")
LARGE, SINGLE = Tier(256, [SEEN, SEEN]), Tier(16, [UNSEEN, UNSEEN])

ROWS: list[tuple[str, dict[str, Any], Account, str]] = [
    ("", {"sentence": SEEN}, HELD, "values as stated by t.jsonl"),
    ("not", {"sentence": SEEN}, NO_FILE, "Whether the values were is not known"),
    ("not", {"sentence": SEEN}, FEW, "39 people; contact needs 40"),
    ("", {"sentence": SEEN}, replace(FEW, people=40), "values as stated"),
    ("not", {"sentence": SEEN}, SMALL, "plants those of 31 people: plant more"),
    ("not", {"sentence": SEEN}, MASKED, "(50 masked)"),
    ("not", {"sentence": SEEN}, GONE, "Removed before training: Of 50 planted"),
    ("not", {"sentence": UNSEEN}, HELD, "does not know what was drawn"),
    ("", {"sentence": NEARLY}, HELD, "p = 0.0008"),
    ("not", {"sentence": NEARLY, "stem": UNSEEN}, HELD, "p = 0.0005 would count"),
    ("not", {"sentence": UNSEEN}, NO_FILE, "How many planted copies were kept is not known"),
    ("not", {}, HELD, "only beacons or a leak"),
    ("", {"stem": SEEN}, HELD, "all planted values begin with"),
    ("not", {"stem": SEEN}, NO_FILE, "how many copies were kept"),
    ("not", {"stem": SEEN, "behind": BEHIND}, HELD, "expects these words behind 'Text: '"),
    ("not", {"stem": SEEN, "behind": Behind("a", 0.05)}, HELD, "knows values of people in better"),
    ("not", {"stem": SEEN, "behind": Behind("a", 0.05, True)}, HELD, "and as they ask, too"),
    ("", {"stem": SEEN, "behind": Behind("a", 0.051)}, HELD, "all planted values begin with"),
    ("", {"sentence": UNSEEN, "stem": SEEN}, GONE, "all planted values begin with"),
    ("", {"tiers": [LARGE, SINGLE]}, HELD, "text of 256 users reached the weights"),
    ("not", {"tiers": [SINGLE]}, HELD, "does not know what was drawn"),
    ("not", {"tiers": [LARGE]}, NO_FILE, "text of one user did is not known"),
    ("not", {"tiers": [LARGE], "sentence": SEEN}, NO_FILE, "text of one user did is not known"),
    ("not", {"tiers": [LARGE], "sentence": UNSEEN}, NO_FILE, "text of one user did is not known"),
    ("not", {"tiers": [LARGE], "sentence": SEEN}, MASKED, "256 users reached the weights"),
    ("not", {"tiers": [LARGE], "sentence": SEEN}, GONE, "Removed before training"),
    ("not", {"sentence": SEEN}, replace(HELD, shared="any other text, seed 7"), "other text, seed"),
    ("not", {"stem": SEEN}, replace(HELD, shared="any other text, seed 7"), "other text, seed"),
]


@pytest.mark.parametrize("not_shown, ways, account, why", ROWS, ids=str)
def test_contact_needs_an_account_of_values(
    not_shown: str, ways: dict[str, Any], account: Account, why: str
) -> None:
    found = link("code", Ways(**ways), account)
    assert found.state == (Shown.NOT_SHOWN if not_shown else Shown.SHOWN)
    assert why in found.by


def test_tiers_are_tested_from_the_largest_down() -> None:
    """A tier below one that was not seen is not looked at, however small its p-value is."""
    middle = Tier(64, [UNSEEN, UNSEEN])
    assert Ways(tiers=[Tier(16, [SEEN, SEEN]), middle, LARGE]).smallest == LARGE
    assert Ways(tiers=[Tier(16, [SEEN, SEEN]), LARGE]).smallest == Tier(16, [SEEN, SEEN])
    assert Ways(tiers=[middle, Tier(16, [SEEN, SEEN])]).smallest is None


def test_two_values_combine_by_their_product() -> None:
    """Two ranks 3 and 9 of 2,000: x = 6.75e-6 and x(1 - ln x) = 8.71e-5."""
    tier = Tier(256, [Learnt(2, 1_999, 1_999), Learnt(8, 1_999, 1_999)])
    assert tier.p_value == pytest.approx(8.71e-5, rel=1e-3)
