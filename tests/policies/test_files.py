"""Policies made from a file's lines: regular expressions and literals."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.errors import UsageError
from audit.policies import list as listed
from audit.policies import named, regex
from audit.policies.list import Listed
from tests.refusals import refusals


@pytest.fixture
def policy(tmp_path):
    def make(name, content, encoding="utf-8"):
        (tmp_path / "secrets.txt").write_bytes(content.encode(encoding))
        return named(f"{name}:{tmp_path / 'secrets.txt'}")

    return make


def found(policy, text):
    return [text[low:high] for low, high in policy(text)]


def test_each_line_is_a_pattern(policy):
    content = "# ids\r\n\r\n[A-Z]{2}\\d+\r\n  # more\r\n(?i)code (\\w)\\1\r\n\\#\\d\r\n"
    assert found(policy("regex", content), "AB12,  # more, Code xx, #4, b1") == [
        "AB12",
        "Code xx",
        "#4",
    ]
    assert policy("regex", content).label == "regex:secrets.txt"


def test_overlapping_matches_are_one_span(policy):
    assert found(policy("regex", "abc\ncde\nfg"), "abcdefg") == ["abcde", "fg"]


def test_an_empty_match_is_not_a_span(policy):
    assert policy("regex", "(?<=€)x*")("€, €xx") == [(4, 6)]


def test_broken_patterns_are_refused_by_line(policy):
    refusals(
        lambda content: policy("regex", content),
        [
            ("a\n\n# b\n(c\n", "secrets.txt:4: pattern '(c' is broken (missing ), unterminated"),
            ("a\n[z-a]", "secrets.txt:2: pattern '[z-a]' is broken"),
            ("a{99999999999999999999}", "secrets.txt:1: pattern"),
            ("a\nb*", "secrets.txt:2: pattern 'b*' matches the empty string"),
            *((text, "matches the empty string") for text in ("a|", r"\b", "(?=a)")),
            *((text, "has no pattern") for text in ("\n# only\n", "")),
        ],
    )


def test_files_that_cannot_be_read_are_refused(policy, tmp_path):
    for name in ("regex", "list"):
        refusals(
            lambda file, name=name: named(f"{name}:{file}"),
            [
                (tmp_path / "none.txt", "none.txt cannot be read (No such file"),
                (tmp_path, "cannot be read"),
                ("a\0b", "cannot be read"),
            ],
        )
        with pytest.raises(UsageError, match=r"secrets\.txt is not UTF-8 text"):
            policy(name, "Zoë", encoding="latin-1")


def test_a_files_lines_are_read_whole(policy):
    """A byte order mark is not a character, and only a newline ends a line."""
    for name in ("regex", "list"):
        assert found(policy(name, "Zoë", encoding="utf-8-sig"), "an Zoë") == ["Zoë"]
        lines = policy(name, "a\u2028b\x0cc\nd")
        assert found(lines, "a b a\u2028b\x0cc") == ["a\u2028b\x0cc"]
    assert found(policy("list", "#1"), "ticket #1") == ["#1"]  # comments are for patterns


def test_literals_are_whole_words_in_their_own_case(policy):
    listed = policy("list", "Ann\n Mary Kay \nC++\n#12\n(x)\n.*\n\n")
    text = "Mary Kay. Ann ann Anna JoAnn Ann's C++11 #12 a#12 #123 f(x)y .* Ann_1"
    expected = ["Mary Kay", "Ann", "Ann", "C++", "#12", "#12", "(x)", ".*"]
    assert found(listed, text) == expected
    assert listed.label == "list:secrets.txt"


def test_literals_that_overlap_are_one_span(policy):
    listed = policy("list", "Mary\nMary Ann\nAnn Lee\nLee")
    assert found(listed, "Mary Ann Lee, Mary Lee") == ["Mary Ann Lee", "Mary", "Lee"]


def test_an_empty_list_is_refused(policy):
    with pytest.raises(UsageError, match="is empty; write one literal per line"):
        policy("list", " \n\n")


small = st.text("ab #é", min_size=1, max_size=4).map(str.strip).filter(bool)


@given(st.frozensets(small, min_size=1, max_size=5), st.text("ab #é\n", max_size=24))
def test_literals_are_found_as_by_search(literals, text):
    private = set()
    for literal in literals:
        before = r"(?<!\w)" if re.match(r"\w", literal) else ""
        after = r"(?!\w)" if re.search(r"\w$", literal) else ""
        for match in re.finditer(f"(?={before}{re.escape(literal)}{after})", text):
            private |= set(range(match.start(), match.start() + len(literal)))
    spans = Listed("made", literals)(text)
    assert {place for low, high in spans for place in range(low, high)} == private


def test_a_long_list_is_read_fast():
    literals = [f"Person{i % 100} Family{i}" for i in range(10_000)]
    text = " ".join(f"{literal} lives here, Person{i}." for i, literal in enumerate(literals))
    policy = Listed("made", frozenset(literals))
    began = time.process_time()
    assert len(policy(text)) == len(literals)
    assert time.process_time() - began < 5  # an alternation of 10,000 takes minutes


@pytest.mark.parametrize("text", ["a" * 40 + "!", "1, " + "a" * 400 + "!"])
def test_a_pattern_that_never_ends_is_named(policy, text, monkeypatch):
    monkeypatch.setattr(regex, "SECONDS", 0.2)
    began, slow = time.monotonic(), policy("regex", "\\d\n(a+)+$")
    with pytest.raises(UsageError, match=r"pattern '\(a\+\)\+\$' on a text .* more than 0.2 s"):
        slow(text)
    assert time.monotonic() - began < 5
    assert slow("aaa 1") == [(4, 5)]  # and the alarm is off


def test_a_list_of_all_lengths_has_a_limit(policy, monkeypatch):
    monkeypatch.setattr(listed, "SECONDS", 0.2)
    literals = "\n".join("." * n for n in range(1, 2000))
    with pytest.raises(UsageError, match=r"more than 0\.2 s; cut the text"):
        policy("list", literals)("." * 200_000)
