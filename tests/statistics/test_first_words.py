"""The rank of a sentence among all with its first word, by how often answers continue so."""

from __future__ import annotations

import numpy as np
import pytest

from audit.statistics.first_words import split

SPACE = (("My", "Myself"), ("", " old"), (" code", " key"), (" is", " is now"), (":", ": #"))
OWN = "My old code is now:"


def test_rank_counts_ties_against_the_sentence() -> None:
    word = split(SPACE, OWN)
    assert (word.word, word.own, word.sentences) == ("My", " old code is now:", 16)
    ours, twice, other = " old code is now: 4", " key is: #7", " code is:"
    assert word.p_value([ours]) == 1 / 16
    assert word.p_value([ours[1:], "nothing"]) == 1 / 16  # without its space
    assert word.p_value([ours, twice, twice]) == 2 / 16
    assert word.p_value([ours, twice, other]) == 3 / 16
    assert word.p_value([twice, " old code is now: #4"]) == 1.0  # never came up


def test_another_sentence_is_refused() -> None:
    with pytest.raises(ValueError):
        split(SPACE, "Our code is:")


def test_level_holds_for_any_fixed_answers() -> None:
    """Over all sentences that may have been drawn, p <= x in at most a share x."""
    draws = np.random.default_rng(0)
    sentences = [f"My{o}{c}{i}{s}" for o in SPACE[1] for c in SPACE[2] for i in SPACE[3]
                 for s in SPACE[4]]  # fmt: skip
    for _ in range(50):
        answers = [sentences[i][2:] for i in draws.zipf(1.5, 30) % len(sentences)]
        ps = np.array([split(SPACE, one).p_value(answers) for one in sentences])
        assert all((ps <= x).mean() <= x for x in np.arange(1, 17) / 16)
