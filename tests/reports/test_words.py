"""Numbers keep sensible digits, claims their unit and relation, and no character hides."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.visible import visible
from audit.results import words
from reports._content import wording


def test_nothing_hidden_survives() -> None:
    every = "".join(map(chr, range(0x110000)))
    shown = "".join(visible(every[i : i + 1999]) for i in range(0, len(every), 1999))
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [c for c in set(shown) if unicodedata.category(c) in hidden]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a‹U+202E›b"),
        ("\x1b[0m", "‹U+001B›[0m"),
        ("a\nb", "a‹U+000A›b"),
        ("\ud800", "‹U+D800›"),
        ("\U000e0041", "‹U+E0041›"),
        ("z" + "\u0301" * 4, "z\u0301\u0301‹U+0301›‹U+0301›"),
        ("ε é 中 <b>", "ε é 中 <b>"),
        ("x" * 2003, "x" * 2000 + " … (3 more characters)"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"), (1.0, "100 %"), (0.30000001, "30 %"), (0.0362, "3.6 %"), (0.989, "98.9 %"),
        (0.0006, "0.06 %"), (0.00001, "0.001 %"), (1e-9, "<\u00a00.0001 %"),
        (0.99996, "99.996 %"), (0.9996, "99.96 %"),
    ],
)  # fmt: skip
def test_shares(value: float, shown: str) -> None:
    assert words.share(value) == shown.replace(" %", "\u00a0%")


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_a_share_inside_is_never_shown_at_an_edge(value: float) -> None:
    if 1e-300 < value < 1 - 1e-9:
        assert words.share(value) not in ("0\u00a0%", "100\u00a0%")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"), (12.4, "12.4"), (21.94, "21.9"), (1024.0, "1,024"), (123456.7, "123,457"),
        (-0.0874628, "-0.0875"), (0.30000000000000004, "0.3"), (2.5e-6, "2.5 × 10⁻⁶"),
        (math.inf, "∞"), (9.999, "10"), (1e12, "1 × 10¹²"),
    ],
)  # fmt: skip
def test_numbers(value: float, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize(
    ("attack", "metric", "shown"),
    [
        ("utility", "bleu4_full", "BLEU-4 full"),
        ("exposure", "exposure_1_copy", "1 copy"),
        ("membership", "record_min_k_plus_plus_auc", "record Min-K%++ AUC"),
        ("membership", "span_min_k_tpr_at_0.1_percent", "span Min-K% TPR at 0.1\u00a0% FPR"),
        ("membership", "lira_online", "LiRA online"),
        ("membership", "record_ez_auc", "record EZ AUC"),
        ("membership", "span_wbc_auc", "span WBC AUC"),
        ("name_leak", "r_name", "R name"),
        ("third_party", "third_party_", "third party "),
    ],
)
def test_metrics_are_told_beside_their_attack(attack: str, metric: str, shown: str) -> None:
    assert wording.metric(attack, metric) == shown


def test_a_long_headline_ends_with_a_whole_sentence() -> None:
    text = "One leaks 1.5 of 2. Two does not. Three is inconclusive."
    assert wording.sentences(text, len(text)) == text
    assert wording.sentences(text, len(text) - 1) == "One leaks 1.5 of 2. Two does not. …"
    assert wording.sentences(text, 35) == "One leaks 1.5 of 2. Two does not. …"
    assert wording.sentences(text, 34) == "One leaks 1.5 of 2. …"
    assert wording.sentences("x" * 50, 10) == "x" * 9 + "…"


@given(text=st.text(alphabet="ab. ", max_size=80), length=st.integers(1, 60))
def test_a_headline_is_never_longer_than_asked(text: str, length: int) -> None:
    found = wording.sentences(text, length)
    assert len(found) <= length and (found == text or len(text) > length)


def test_ordered_numbers_are_written_in_order() -> None:
    assert words.apart(2.0551, 2.0559) == ("2.0551", "2.0559")
    assert words.apart(1.0, 3.0) == ("1", "3")
    assert words.apart(0.0, 0.1) == ("0", "0.1")
    assert words.apart(1.0, math.inf) == ("1", "∞")


def test_percentages_are_all_only_if_they_are() -> None:
    assert [words.percent(x) for x in (1.0, 0.9996, 0.99999, 0.5, 0.0)] == [
        "100 %", "99.96 %", "99.999 %", "50 %", "0 %"
    ]  # fmt: skip
    assert words.percent_at_most(0.0292250) == "2.93 %" and words.percent_at_most(1.0) == "100 %"
