"""Evidence on its way through a stage, and the same evidence about some of the secrets."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.evidence import (
    Divergences,
    Evidence,
    Exhibits,
    Hits,
    Likelihoods,
    LogRatios,
    Mentions,
    Ranks,
    Scores,
    Successes,
    about,
    from_json,
    to_json,
)
from audit.core.predictor import Access

NAN, INF = float("nan"), float("inf")
HARD = np.array([-1.25, NAN, -INF, INF, 0.1 + 0.2, -0.0, 5e-324, 1e300])


def ranks(*columns: Any) -> Ranks:
    """All eight columns alike, unless they are given."""
    given_ = [np.array(c, dtype=float) for c in columns]
    return Ranks(*(given_ * 8 if len(given_) == 1 else given_))


EXAMPLES: list[Evidence] = [
    Hits(np.array([0, -1, 5]), (2, 1), ("40718", "x", "40718")),
    Hits(np.array([-1]), (1,), sampled=False, access=Access.DISTRIBUTION, kind="code"),
    Hits(np.array([], dtype=int), ()),
    Mentions(((0, 3), (), (2,)), np.array([NAN, 1.0, 0.0]), ("a", "b", "c"), kind="name"),
    Mentions((), np.array([])),
    Likelihoods(HARD, kind="code"),
    Likelihoods(np.array([])),
    ranks(HARD),
    ranks([]),
    Scores("min_k", "span", HARD, windowed=3, access=Access.DISTRIBUTION, kind="code"),
    Scores("loss", "record", np.array([])),
    Successes("verbatim", "share of planted records", np.array([1.0, NAN, 0.0]), None),
    Successes("targeted", "share of planted names", np.array([]), 0.1, Access.SCORE, "name"),
    Exhibits(np.array([-73.25, NAN]), np.array([1, 12]), 2100, 40, kind="own"),
    Exhibits.none("own"),
    Divergences((0, 2), ("removed", "replace"), 2.0, HARD.reshape(2, 4), HARD[::-1].reshape(2, 4)),
    Divergences((), (), 1.5, np.array([]), np.array([])),
    LogRatios(
        (1,), ("removed",), HARD[None], np.array([[*range(8)]]), HARD[None], np.array([[*range(8)]])
    ),
]


def same(one: Evidence, other: Evidence) -> None:
    """Equal field by field, types of arrays and all; generated texts apart."""
    assert type(one) is type(other)
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        first, second = getattr(one, field.name), getattr(other, field.name)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
            assert first.dtype.kind == second.dtype.kind and first.shape == second.shape
        elif field.name != "texts":
            assert first == second and type(first) is type(second), field.name


def stored(evidence: Evidence) -> Evidence:
    """Through a stage, which is JSON without NaN."""
    return from_json(json.loads(json.dumps(to_json(evidence), allow_nan=False)))


def test_there_is_an_example_of_every_kind() -> None:
    kinds = {cls.__name__ for cls in Evidence.__subclasses__()}
    assert {type(e).__name__ for e in EXAMPLES} == kinds


@pytest.mark.parametrize("evidence", EXAMPLES, ids=lambda e: type(e).__name__)
def test_evidence_survives_its_stage_and_its_texts_do_not(evidence: Evidence) -> None:
    same(stored(evidence), evidence)
    assert "texts" not in to_json(evidence) and "40718" not in json.dumps(to_json(evidence))
    assert getattr(stored(evidence), "texts", ()) == ()


def test_what_no_number_can_say_is_written_as_null_and_words() -> None:
    assert to_json(Likelihoods(np.array([NAN, INF, -INF, -1.0])))["log_probs"] == [
        None, "inf", "-inf", -1.0,
    ]  # fmt: skip


# --- about some of the secrets


def test_arrays_over_secrets_follow_them() -> None:
    values, kept = np.array([0.0, 10.0, 20.0, NAN, 40.0]), [4, 0, 3]
    expected = [40.0, 0.0, NAN]
    for evidence, columns in (
        (Likelihoods(values, kind="code"), ["log_probs"]),
        (Scores("loss", "span", values, windowed=2), ["values"]),
        (Successes("verbatim", "x", values, 0.1), ["won"]),
        (ranks(values), [f.name for f in dataclasses.fields(Ranks)][:8]),
    ):
        found = about(evidence, kept)
        rest = {c: getattr(evidence, c) for c in columns}
        for column in columns:
            np.testing.assert_array_equal(getattr(found, column), expected)
        same(dataclasses.replace(found, **rest), evidence)  # type: ignore[type-var]


def test_places_of_hits_move_and_hits_of_others_become_none() -> None:
    hits = Hits(np.array([4, -1, 0, 1, 4]), (2, 1, 1, 1), ("a", "b", "c", "d", "a"), kind="code")
    found = about(hits, [4, 0, 3])
    assert isinstance(found, Hits)
    assert found.found.tolist() == [0, -1, 1, -1, 0] and found.found.dtype.kind == "i"
    assert (found.repeats, found.texts, found.kind) == (hits.repeats, hits.texts, "code")


def test_places_of_mentions_move_and_mentions_of_others_are_dropped() -> None:
    others = np.array([1.0, 0.0, NAN])
    found = about(Mentions(((4, 1), (), (0, 3)), others), [4, 0, 3])
    assert isinstance(found, Mentions)
    assert found.named == ((0,), (), (1, 2))
    np.testing.assert_array_equal(found.others, others)  # one a generation, not one a secret


@pytest.mark.parametrize("evidence", EXAMPLES, ids=lambda e: type(e).__name__)
def test_evidence_about_nobody_is_empty_and_still_evidence(evidence: Evidence) -> None:
    found = about(evidence, [])
    if not evidence.on_secrets:
        assert found is evidence  # about a service's queries
        return
    for field in dataclasses.fields(found):  # type: ignore[arg-type]
        value = getattr(found, field.name)
        if field.name == "found":
            assert (value == -1).all()
        elif field.name == "named" and isinstance(value, tuple):  # of Mentions
            assert not any(value) and len(value) == len(evidence.named)  # type: ignore[attr-defined]
        elif isinstance(value, np.ndarray) and field.name != "others":
            assert value.shape == (0,)
    same(stored(found), found)


@st.composite
def subsets_twice(draw: Any) -> tuple[int, list[int], list[int]]:
    """(s, some of s places in any order, some of those)."""
    s = draw(st.integers(0, 8))
    first = draw(st.permutations(range(s)))[: draw(st.integers(0, s))]
    second = draw(st.permutations(range(len(first))))[: draw(st.integers(0, len(first)))]
    return s, list(first), list(second)


@given(subsets_twice(), st.data())
def test_some_of_some_of_the_secrets_are_some_of_the_secrets(
    places: tuple[int, list[int], list[int]], data: Any
) -> None:
    s, first, second = places
    index = st.integers(-1, s - 1)
    found = np.array(data.draw(st.lists(index, max_size=6)), dtype=int)
    named = tuple(tuple(i for i in found if i >= 0) for _ in range(2))
    both = [first[i] for i in second]
    hits = about(Hits(found, (1,) * len(found)), first)
    assert isinstance(hits, Hits)
    told = [first[i] if i >= 0 else None for i in hits.found]
    assert told == [i if i in first else None for i in found]
    for evidence in (
        Likelihoods(np.arange(float(s))),
        Hits(found, (1,) * len(found)),
        Mentions(named, np.zeros(2)),
    ):
        same(about(about(evidence, first), second), about(evidence, both))
