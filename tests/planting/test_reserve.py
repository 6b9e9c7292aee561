"""The reserve: like the people with coins in all that is counted, and planted nowhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from audit.core.corpus import Corpus, Record
from audit.core.secret import KINDS
from audit.planting.beacons import Tier
from audit.planting.insertion import Canaries, plant_into
from audit.planting.reserve import reserve

OWN = Corpus("own", tuple(Record(f"u{i}", f"text {i}") for i in range(10)))


def test_the_reserve_is_like_the_people_with_coins() -> None:
    canaries = Canaries(KINDS, 60, (1, 4), pattern="[A-Z]{9}", beacons=(Tier("code", 8),))
    whole, manifest = plant_into(OWN, canaries, 3)
    spare = reserve(manifest)
    assert spare == reserve(manifest) and not spare.left_out
    assert not set(spare.coins.present) & manifest.invented
    shape = [(s.kind, s.prefix, s.suffix, s.space, s.copies, s.slot, len(s.value))
             for s in manifest.secrets]  # fmt: skip
    assert shape == [(s.kind, s.prefix, s.suffix, s.space, s.copies, s.slot, len(s.value))
                     for s in spare.secrets]  # fmt: skip
    pairs = Counter((s.owner, s.kind) for s in spare.secrets)
    assert len(pairs) == 60 * len(KINDS) and set(pairs.values()) == {2}
    known = {(s.kind, s.value) for s in (*manifest.secrets, *manifest.beacons)}
    assert not known & {(s.kind, s.value) for s in spare.secrets}
    texts = "\0".join(record.text for record in whole.records)
    assert not any(s.prefix + s.value in texts for s in spare.secrets)
    heads = [sum(coins.present.values()) for coins in (manifest.coins, spare.coins)]
    assert heads[0] == heads[1] and len(spare.coins.present) == 60
    assert [*spare.coins.present.values()] != [*manifest.coins.present.values()]


def test_earlier_and_designed_manifests_have_one_too() -> None:
    _, manifest = plant_into(OWN, Canaries(count=10), 3)
    earlier = replace(manifest, source=None, sentences={}, stems={})
    assert len(reserve(earlier).secrets) == len(manifest.secrets)
    secrets = tuple(replace(s, space=None) if s.kind == "record" else s for s in manifest.secrets)
    spare = reserve(replace(manifest, secrets=secrets))
    assert spare.left_out == {"record"} and {s.kind for s in spare.secrets} == {
        "code",
        "id",
        "name",
    }
