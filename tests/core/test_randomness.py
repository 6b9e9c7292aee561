import itertools

import numpy as np
import pytest

from audit.core.randomness import derived_seed, stream


def test_every_word_of_the_purpose_counts_and_so_does_their_order():
    words = ["a", "b", "ab", "", "A"]
    purposes = [p for n in range(4) for p in itertools.product(words, repeat=n)]
    seeds = {derived_seed(seed, *purpose) for seed in (0, 1, -1, 10) for purpose in purposes}
    assert len(seeds) == 4 * len(purposes)


def test_a_word_cannot_run_into_the_next():
    assert derived_seed(1, "2", "3") != derived_seed(12, "3")
    assert derived_seed(0, "ab", "c") != derived_seed(0, "a", "bc")
    assert derived_seed(0, "a", 1) != derived_seed(0, "a", 11)


@pytest.mark.calibration
def test_derived_seeds_fit_every_generator_and_use_the_range():
    seeds = np.array([derived_seed(i, "x") for i in range(2000)])
    assert all(0 <= seed < 2**63 for seed in seeds.tolist())
    for bit in range(63):
        assert 850 < int(np.sum(seeds >> bit & 1)) < 1150  # 6.7 σ


def test_seeds_stay_what_they_are_from_version_to_version():
    # SHA-256 of "0\x1fplanting\x1fcoins", first 8 bytes, shifted by one: computed with sha256sum
    assert derived_seed(0, "planting", "coins") == 4603035049834385852


def test_streams_of_different_purposes_are_independent():
    a, b = stream(0, "a").random(4000), stream(0, "b").random(4000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.08  # 5 σ
    assert np.array_equal(a, stream(0, "a").random(4000))


def test_a_stream_leaves_the_global_generator_alone():
    np.random.seed(1)
    expected = np.random.random(3)
    np.random.seed(1)
    stream(5, "x").random(100)
    assert np.array_equal(np.random.random(3), expected)
