"""Beacons: shared by users without a coin, and treated by filters as coins' copies are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from scipy.stats import ks_2samp

from audit.core.corpus import Corpus, Record
from audit.core.secret import ON_REQUEST, PLANTED
from audit.plan.source import External, PlantedElsewhere
from audit.planting import coverage
from audit.planting.beacons import Tier
from audit.planting.insertion import Canaries, plant_into
from audit.planting.kinds import sentence_space
from audit.planting.manifest import Manifest
from audit.planting.templates import template_of

OWN = Corpus("own", tuple(Record(f"u{i}", f"text {i}") for i in range(10)))


def planted(**changes: object) -> tuple[Corpus, Manifest]:
    given = {"beacons": (Tier("code", 12), Tier("id", 5), Tier("code", 3)), "count": 20, **changes}
    return plant_into(OWN, Canaries(**given), 0)  # type: ignore[arg-type]


def test_each_user_writes_a_beacon_once() -> None:
    whole, manifest = planted()
    tiers = [("code", 12)] * 2 + [("id", 5)] * 2 + [("code", 3)] * 2
    assert [(one.kind, one.tier) for one in manifest.beacons] == tiers
    assert len({(one.kind, one.value) for one in manifest.beacons}) == 6
    sharing = [user for one in manifest.beacons for user in one.users]
    assert len({*sharing, *manifest.coins.present}) == 40 + 20 == len(manifest.invented)
    records = {record.user: record.text for record in whole.records if record.user in sharing}
    assert Counter(r.user for r in whole.records if r.user in sharing) == Counter(sharing)
    for one in manifest.beacons:
        assert all(records[user].startswith(f"{one.text} ") for user in one.users)
    population = manifest.population
    assert (population.users, population.records) == (
        10 + 20 + 40,
        10 + 4 * (7 * 1 + 7 * 4 + 6 * 16) + 40,
    )


def test_beacons_are_no_secrets() -> None:
    """Neither a sentence nor a value is common to both, so no count of secrets includes them."""
    whole, manifest = planted(count=60)
    beacons = {(one.kind, one.value) for one in manifest.beacons}
    assert not beacons & {(s.kind, s.value) for s in manifest.secrets}
    for kind in ("code", "id"):
        (sentence,) = {one.prefix for one in manifest.beacons if one.kind == kind}
        assert re.fullmatch(sentence_space(kind).form, sentence)
        assert sentence != manifest.sentences[kind].value
    held = coverage.canaries(manifest.secrets, manifest.coins)
    assert not any(one.prefix + one.value in held for one in manifest.beacons)
    apart = coverage.canaries((), manifest.coins, manifest.beacons)
    assert sum(canary.copies for canary in apart.values()) == 40
    source = PlantedElsewhere(manifest, External("m", "0", base_known=False))
    assert source.before_coins(whole).records == OWN.records


def test_small_spaces_leave_beacons_values_of_their_own() -> None:
    given = {"kinds": ("pattern",), "pattern": "[0-9]{3}", "count": 400, "repetitions": (1,)}
    _, manifest = planted(**given, beacons=(Tier("pattern", 2),) * 40)
    secrets = {secret.value for secret in manifest.secrets}
    shared = [one.value for one in manifest.beacons]
    assert len(secrets) > 500 and len(set(shared)) == len(shared) == 80
    assert not secrets & set(shared)


@pytest.mark.parametrize("fixed", [True, False])
def test_beacons_never_have_the_coins_template(fixed: bool) -> None:
    ten = "{" + "|".join("abcdefghij") + "}"
    own = template_of("PIN {value}!" if fixed else f"{ten * 4} PIN {{value}}!", "here")
    _, manifest = planted(beacons=(Tier("code", 4),), templates={"code": own})
    (sentence,) = {one.prefix for one in manifest.beacons}
    (coins,) = {secret.prefix for secret in manifest.secrets if secret.kind == "code"}
    form = sentence_space("code") if fixed else own.before
    assert re.fullmatch(form.form, sentence) and sentence != coins
    assert {one.suffix for one in manifest.beacons} == {"." if fixed else "!"}


def test_a_draw_decides_a_beacon_alone() -> None:
    """Its value is uniform on its space, whoever has coins: p-values of ranks need no more."""
    firsts = Counter[str]()
    for seed in range(100):
        given = Canaries(("code",), 2, (1,), beacons=(Tier("code", 2),))
        firsts.update(one.value[0] for one in plant_into(OWN, given, seed)[1].beacons)
    assert sum(firsts.values()) == 200 and len(firsts) == 10
    assert max(abs(n - 20) for n in firsts.values()) < 5 * 4.25  # of sd √(200 · 0.1 · 0.9)


def shingles(text: str) -> frozenset[str]:
    return frozenset(text[i : i + 5] for i in range(len(text) - 4))


def nearly(texts: Sequence[str]) -> list[int]:
    """Keep those of which no earlier one has four in five of all shingles of both.

    That is what MinHash estimates, here exactly; no slack is left to its chance.
    """
    kept: list[int] = []
    sets = [shingles(text) for text in texts]
    for i, mine in enumerate(sets):
        if all(5 * len(mine & sets[j]) < 4 * len(mine | sets[j]) for j in kept):
            kept.append(i)
    return kept


def equal(texts: Sequence[str]) -> list[int]:
    return [i for i, text in enumerate(texts) if text not in texts[:i]]


@pytest.mark.parametrize("kind", [*PLANTED, *ON_REQUEST])
def test_duplicate_filters_leave_all_copies(kind: str) -> None:
    pattern = "EMP-[0-9]{6}" if kind == "pattern" else ""
    canaries = Canaries((kind,), 16, (1, 4, 16), pattern=pattern, beacons=(Tier(kind, 48),))
    whole, manifest = plant_into(OWN, canaries, 1)
    texts = [record.text for record in whole.records if record.user in manifest.invented]
    assert len(equal(texts)) == len(nearly(texts)) == len(texts) > 96


def test_length_filters_leave_alike_shares() -> None:
    """Also of beacons of one kind, and copies of all kinds, and whatever sentences were drawn."""
    for seed in range(3):
        canaries = Canaries(PLANTED, 100, (1, 4, 16), beacons=(Tier(PLANTED[seed % 4], 256),))
        whole, manifest = plant_into(OWN, canaries, seed)
        invented = [record for record in whole.records if record.user in manifest.invented]
        sizes: dict[bool, list[int]] = {True: [], False: []}
        for record in invented:
            sizes[record.user in manifest.coins.present].append(len(record.text))
        assert ks_2samp(sizes[True], sizes[False]).statistic < 0.1


def test_a_cap_leaves_every_user() -> None:
    """A cap of records a user leaves of each user the first ones, so at least one."""
    whole, manifest = planted(repetitions=(1, 4, 16))
    left = Counter(r.user for r in whole.records if r.user in manifest.invented)
    heads = {owner for owner, present in manifest.coins.present.items() if present}
    sharing = {user for one in manifest.beacons for user in one.users}
    assert set(left) == heads | sharing
