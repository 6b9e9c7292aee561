"""What counts as contact: each way, with and without an account of the values themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audit.core.terms import Shown
from audit.silence import asked_words
from audit.silence.accounts import Account, Learnt, Ways, link
from audit.silence.beacons import Sighting
from audit.silence.behind import Behind
from audit.silence.form import Form
from audit.statistics.among_others import stopped_p_value

FILE = "t.jsonl (SHA-256 0123)"
SEEN, UNSEEN, NEARLY = (Learnt(p, 9_999) for p in (0.0001, 0.24, 0.0008))
HELD = Account(heads=50, stated=FILE, people=50, lost="All are there")
NO_FILE = Account(heads=50)
FEW = replace(HELD, people=39, lost="Of 50 planted code copies 39 were trained on")
SMALL = Account(heads=31, stated=FILE, people=31)
MASKED = replace(HELD, people=0, lost="Of 50 planted code copies 0 were trained on (50 masked)")
GONE = replace(MASKED, removed=True)
BEHIND = Behind("Text: ")
LARGE, SINGLE = Sighting(256, 1e-6), Sighting(16, 0.2)

ROWS: list[tuple[str, dict[str, Any], Account, str]] = [
    ("", {"sentence": SEEN}, HELD, "values as stated by t.jsonl"),
    ("not", {"sentence": SEEN}, NO_FILE, "Whether the values were is not known"),
    ("not", {"sentence": SEEN}, FEW, "39 people; contact needs 40"),
    ("", {"sentence": SEEN}, replace(FEW, people=40), "values as stated"),
    ("not", {"sentence": SEEN}, SMALL, "plants those of 31 people: plant more"),
    ("not", {"sentence": SEEN}, MASKED, "(50 masked)"),
    ("not", {"sentence": SEEN}, GONE, "Removed before training: Of 50 planted"),
    ("not", {"sentence": UNSEEN}, HELD, "does not know what was drawn"),
    ("not", {"sentence": UNSEEN, "form": Form(64, 64)}, HELD, "does not know what was drawn"),
    ("not", {"tiers": [SINGLE], "form": Form(3, 70)}, HELD, "3 of 70 texts that it writes after"),
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


@pytest.mark.parametrize("tiers", [{}, {256: [object()]}], ids=["sentence", "beacons, too"])
def test_sentence_above_all_scored_others_counts(tiers: Any) -> None:
    """Of an endpoint that scores prompts; each way has its share of the level."""
    sentence, values = object(), object()
    asked: Any = asked_words.Drawn(sentence, 500, tiers, 0, 0, values)  # type: ignore[arg-type]
    best = Learnt(stopped_p_value(0, asked.others, asked.others), asked.others)
    assert Ways(best, tiers=[SINGLE] if tiers else []).seen(best)
