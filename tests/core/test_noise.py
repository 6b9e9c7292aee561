"""Noise of cryptographic strength: its distribution, its tails, and that nothing repeats."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import stats

from audit.core import noise
from audit.core.noise import NoiseStream, SystemStream, laplace_of, words
from audit.core.randomness import noise_stream

KEY = bytes(range(32))
N = 200_000


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda s: s.random(N), stats.uniform()),
        (lambda s: s.standard_normal(N), stats.norm()),
        (lambda s: s.laplace(2.0, 3.0, N), stats.laplace(2.0, 3.0)),
    ],
)
def test_draws_follow_their_law(draw, law):
    assert stats.kstest(draw(SystemStream(KEY)), law.cdf).pvalue > 0.001  # the key is fixed


def test_normal_noise_is_the_inverse_cdf_of_its_bits(monkeypatch):
    bits = np.array([0, 1, 2**63, 2**64 - 1, 2**64 - 2], dtype=np.uint64)
    monkeypatch.setattr(noise, "words", lambda seed, count: bits)
    drawn = SystemStream(KEY).standard_normal(5)
    tail = stats.norm.isf(2.0**-65)  # 9.1 standard deviations: the largest value there is
    assert drawn == pytest.approx([tail, -tail, stats.norm.isf(0.25), 0.0, 0.0], abs=1e-9)
    assert tail > 9


def test_uniform_draws_stay_below_1(monkeypatch):
    ones = np.full(3, 2**64 - 1, dtype=np.uint64)
    monkeypatch.setattr(noise, "words", lambda seed, count: ones)
    assert (SystemStream(KEY).random(3) < 1).all()


def test_no_call_repeats_another_and_shapes_are_kept():
    stream = SystemStream(KEY)
    first, second = stream.standard_normal((3, 4)), stream.standard_normal((3, 4))
    assert first.shape == (3, 4) and first.dtype == np.float64
    assert not np.intersect1d(first, second).size
    assert np.array_equal(first, SystemStream(KEY).standard_normal((3, 4)))
    assert not np.array_equal(SystemStream().random(4), SystemStream().random(4))


def test_noise_of_the_system_has_its_own_generator_and_that_of_a_seed_repeats():
    def drawn(source: str) -> list[float]:
        stream: NoiseStream = noise_stream("key", "noise", source)
        return list(stream.standard_normal(4))

    assert isinstance(noise_stream("key", "noise", "system"), SystemStream)
    assert drawn("system") != drawn("system")
    assert drawn("seed") == drawn("seed")


def test_noise_of_a_session_is_what_it_was():
    """Laplace noise from SHAKE-256, by hand from its first word."""
    word = int.from_bytes(hashlib.shake_256(b"seed").digest(8), "little")
    magnitude = -np.log(((word >> 11) + 1) * 2.0**-53)
    assert laplace_of(words(b"seed", 1))[0] == (magnitude if word & 1 else -magnitude)
