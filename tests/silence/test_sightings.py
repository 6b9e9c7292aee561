"""What attacks see of beacons: each kind of evidence by hand, then through a served model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Hits, Likelihoods, Mentions, Ranks, Scores, Successes
from audit.core.guarantee import Guarantee
from audit.core.predictor import Access
from audit.core.secret import Secret, digits
from audit.core.terms import Leaked, Shown
from audit.measure.rehearsal import Rehearsal
from audit.planting.beacons import Beacon
from audit.prepare.run import Run
from audit.results.schema import ReleaseResult
from audit.results.silence import Silence
from audit.silence import answers, sightings
from audit.silence.again import TRIES
from audit.silence.drawn_words import beacons_of
from audit.silence.sightings import Asked
from defenses.as_is import AsIs
from tests.silence.leaking_server import NO_CLAIM, audited, prepared, server_of

FIVE = digits(5)
LARGE, SMALL = ("11111", "22222"), ("33333", "44444")


def beacon(value: str, users: int) -> Beacon:
    return Beacon("code", "It is ", value, ".", FIVE, tuple(map(str, range(users))))


def asked(others: int) -> Asked:
    """Two tiers of two beacons, each followed by so many other values."""
    tiers = {256: [beacon(v, 256) for v in LARGE], 16: [beacon(v, 16) for v in SMALL]}
    rest = tuple(f"9{i:04}" for i in range(others))
    values = [v for own in (*LARGE, *SMALL) for v in (own, *rest)]
    secrets = (Secret("code", "It is ", v, ".", FIVE, 1, str(i), 0) for i, v in enumerate(values))
    return Asked(tiers, others, tuple(secrets))


def fisher(x: float) -> float:
    return x * (1 - math.log(x))


def p_values(evidence: Any, others: int) -> list[float]:
    found = sightings.sightings(evidence, asked(others))
    assert [tier.users for tier in found] == [256, 16]
    return [tier.p_value for tier in found]


SCORES = np.array([9, 1, 2, 3, 9, 9, 1, 2, 2, 1, 3, 2, math.nan, 1, 1, 1])


@pytest.mark.parametrize(
    "evidence",
    [Scores("loss", "span", SCORES), Likelihoods(SCORES), Successes("verbatim", "", SCORES, None)],
    ids=["scores", "likelihoods", "successes"],
)
def test_scores_rank_among_their_own_others(evidence: Any) -> None:
    """Of 3 others each: first and, for a tie, second of 4; third, and not measured."""
    assert p_values(evidence, 3) == pytest.approx([fisher(1 / 4 * 2 / 4), fisher(3 / 4 * 1)])


def test_guesses_are_tested_beside_all_that_was_guessed() -> None:
    """Both of the large tier and one of the small, of five codes that stand in the guesses."""
    texts = ("11111", "22222", "33333", "55555", "66666", "a text")
    found = np.array([0, 1, 2, -1, -1, -1])
    assert p_values(Hits(found, (1,) * 6, texts), 0) == pytest.approx([(5e-5) ** 2, 2 * 5e-5])
    searched = Hits(np.array([0, -1, -1]), (1,) * 3, (), sampled=False)
    assert p_values(searched, 0) == pytest.approx([2 * 3e-5, 1.0])


def test_other_of_one_beacon_may_be_the_value_of_another() -> None:
    """A guess is told by its value: the first candidate with it need not be the beacon."""
    of = asked(1)
    of = replace(
        of, secrets=(of.secrets[0], replace(of.secrets[1], value="33333"), *of.secrets[2:])
    )
    one = sightings.sightings(Hits(np.array([1]), (1,), ("33333",)), of)
    assert [tier.p_value for tier in one] == pytest.approx([1.0, 2 * 1e-5])


def test_names_count_where_texts_name_them() -> None:
    texts = ("it is 11111", "it is 55555", "22222 stands in the prompt")
    mentions = Mentions(((0,), (), ()), np.full(3, math.nan), texts)
    assert p_values(mentions, 0) == pytest.approx([2 * 3e-5, 1.0])


def test_ranks_are_among_the_space_or_what_was_sampled() -> None:
    """Exact 2 and 7 of 100,000; 3 of 1,001 samples, and not measured."""
    whole = np.array([2.0, 7.0, 3.0, math.nan])
    exact = np.array([1.0, 1.0, math.nan, math.nan])
    spaces = np.array([99_997.0, 99_997.0, 1001.0, math.nan])
    nothing = np.full(4, math.nan)
    ranks = Ranks(nothing, nothing, nothing, nothing, spaces, whole, exact, nothing)
    assert p_values(ranks, 0) == pytest.approx([fisher(14e-10), fisher(3 / 1001)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    given = {"beacons": "auto", "share": 0.3, "repetitions": "1"}
    return prepared(tmp_path_factory.mktemp("lit"), **given)


def lit(run: Run) -> list[Beacon]:
    return [one for some in beacons_of(run)["code"].values() for one in some]


def silence_of(release: ReleaseResult) -> Silence:
    silence = release.findings[0].silence
    assert silence is not None
    return silence


Audit = Callable[..., ReleaseResult]


@pytest.fixture
def audit(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """audit(learnt, **server): what is found in a server that has learnt beacons, or not."""
    beacons = lit(run)
    server = server_of(run.planted.secrets, run.planted.coins, run.tokenizer, "")

    def found(learnt: bool, promise: Guarantee = NO_CLAIM, **more: Any) -> ReleaseResult:
        known = (beacons[0].prefix, [one.value for one in beacons] if learnt else [])
        other = replace(server, lit=known, random=Random(0), **more)
        folder = tmp_path_factory.mktemp("run")
        return audited(run, other, folder, promise, served_sha256="0").result([])

    return found


@pytest.mark.slow
def test_quiet_endpoint_earns_silence_by_beacons(run: Run, audit: Audit) -> None:
    """Its contact and sight are its own: no control and no other measure speaks for it."""
    quiet = audit(learnt=True, quiet=True)
    assert quiet.leaked == Leaked.NONE_FOUND, quiet.findings[0].sentence
    silence, smallest = silence_of(quiet), min(one.tier for one in lit(run))
    assert f"text of {smallest} users reached the weights" in silence.contact.by
    assert "as stated by planted.jsonl" in silence.contact.by
    assert f"2 of 2 values that {smallest} users wrote" in silence.sight.by
    assert quiet.silence == silence  # as page one states it


def test_leak_is_a_leak_beside_beacons(audit: Audit) -> None:
    assert audit(learnt=True).leaked == Leaked.LEAK
    assert audit(learnt=False).leaked == Leaked.LEAK


def test_unlearnt_beacons_earn_nothing(audit: Audit) -> None:
    promise = AsIs(claim="8:1e-5:user:add_or_remove").promise
    for release, why in (
        (audit(learnt=False, quiet=True), "does not see even a value of"),
        (
            audit(learnt=False, quiet=True, promise=promise),
            "under this protection not even a value",
        ),
    ):
        assert release.leaked == Leaked.INCONCLUSIVE
        silence = silence_of(release)
        assert silence.contact.state == silence.sight.state == Shown.NOT_SHOWN
        assert why in silence.sight.by


def test_dry_run_counts_requests_for_beacons(run: Run) -> None:
    """100 tries of so many codes, of which a quarter leak, give as many for each beacon."""
    heads = sum(run.planted.coins.present.values())
    beacons = len(lit(run))
    tries = math.ceil(100 / (heads / 4) * beacons)
    session = Rehearsal(run.tokenizer, 1024, 254, Access.GENERATE)
    sightings.rehearse(run, session)
    assert session.requests == tries
    answers.rehearse(run, session)  # contact asks as often, 16 public requests, and values again
    assert session.requests == 2 * tries + 16 + TRIES
    scored = Rehearsal(run.tokenizer, 1024, 254, Access.SCORE)
    sightings.rehearse(run, scored)
    most = tries + 1000 * beacons
    assert most - 30 < scored.requests <= most  # values that two draws share are asked once
