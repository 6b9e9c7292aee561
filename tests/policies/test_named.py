"""The words of a plan, and policies that miss."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from audit.core.spans import merged
from audit.policies import named
from audit.policies._missing import Missing
from audit.policies.digits import Digits
from tests.refusals import refusals


def test_broken_words_are_refused():
    refusals(
        named,
        [
            ("digit", "unknown policy 'digit'; did you mean 'digits'?"),
            ("_spans", "unknown policy '_spans'; known: contextual, customersim, digits"),
            *((text, "unknown policy") for text in ("", "../digits")),
            *((text, "policy digits takes no argument") for text in ("digits:all", "digits:")),
            ("regex", "policy regex has no argument; write regex:FILE"),
            *((text, "policy list has no argument") for text in ("list:", "list,miss=0.1")),
            ("python", "policy python has no argument; write python:module:function"),
            ("entities:", "policy entities has no argument; write entities:PERSON+ORG"),
            ("digits,mis=0.1", "policy digits: unknown key 'mis'; did you mean 'miss'?"),
            ("digits,pipeline=x", "policy digits: unknown key 'pipeline'"),
            ("entities,pipelin=x", "unknown key 'pipelin'; did you mean 'pipeline'?"),
            ("digits,", "policy digits: unknown key ''"),
            *((text, "miss has no value") for text in ("digits,miss", "digits,miss=")),
            ("digits,miss=0.1,miss=0.2", "policy digits: miss is given twice"),
            *((f"digits,miss={x}", f"miss is {x}") for x in ("1", "-0.1", "nan", "inf")),
            ("digits,miss=often", "policy digits: miss is 'often'"),
        ],
    )


def test_words_make_a_policy():
    assert named("digits") == named(" digits , miss=0 ") == Digits()
    assert named("digits,miss=0.20") == Missing(Digits(), 0.2)
    assert named("digits,miss=0.20").label == "digits,miss=0.2"
    assert named("customersim").label == "customersim"


def test_every_decimal_digit_is_a_span():
    assert Digits()("a12 ٣²") == [(1, 2), (2, 3), (4, 5)]
    assert Digits()("none") == []


NUMBERS = [str(1000 + 7 * i) for i in range(3000)]


def test_the_share_of_missed_values_is_the_rate():
    for rate in (0.05, 0.2, 0.5, 0.9):
        policy = Missing(Digits(), rate)
        missed = sum(policy(number) == [] for number in NUMBERS) / len(NUMBERS)
        assert abs(missed - rate) < 4 * math.sqrt(rate * (1 - rate) / len(NUMBERS))


@given(st.lists(st.sampled_from(NUMBERS), max_size=12), st.sampled_from([0.2, 0.5, 0.8]))
def test_a_value_is_missed_whole_and_everywhere(numbers, rate):
    policy, text = Missing(Digits(), rate), "no. " + ", ".join(numbers)
    for match in re.finditer(r"\d+", text):
        inside = [span for span in policy(text) if match.start() <= span[0] < match.end()]
        alone = policy(match.group())
        assert [(a - match.start(), b - match.start()) for a, b in inside] == alone
        assert len(alone) in (0, len(match.group()))  # as fine as the policy itself: per digit


def test_higher_rates_miss_more():
    text = " ".join(NUMBERS[:400])
    found = [set(merged(Missing(Digits(), rate)(text))) for rate in (0.0, 0.1, 0.3, 0.6, 0.99)]
    assert all(more > fewer for more, fewer in pairwise(found))


def test_the_rate_is_in_the_digest():
    kinds = [Digits(), Missing(Digits(), 0.1), Missing(Digits(), 0.2)]
    assert len({policy.digest for policy in kinds}) == len(kinds)


def test_lone_surrogates_can_be_missed(tmp_path):
    file = tmp_path / "any.txt"
    file.write_text(".", encoding="utf-8")
    for rate in (0.01, 0.99):
        assert named(f"regex:{file},miss={rate}")("\ud800") in ([], [(0, 1)])
