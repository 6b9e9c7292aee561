"""The manifest: whole or refused, its owner's only, and of one corpus."""

from __future__ import annotations

import json
import operator
import os
import re
import stat
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core import files
from audit.core.corpus import Corpus, Record
from audit.core.digest import digest_of_json
from audit.core.secret import KINDS
from audit.planting import manifest as manifests
from audit.planting.beacons import Tier
from audit.planting.insertion import Canaries, plant_into
from audit.planting.kinds import wording
from audit.planting.manifest import Manifest
from audit.planting.manifest_form import LATER
from audit.planting.sentences import sentences
from audit.planting.templates import template_of
from tests.refusals import refusals

OWN = Corpus("own", tuple(Record(f"u{i}", f"text {i}") for i in range(10)))


def planted(seed: int = 0, canaries: Canaries | None = None) -> Manifest:
    given = canaries or Canaries(count=4, beacons=(Tier("code", 3),))
    return plant_into(OWN, given, seed)[1]


@settings(max_examples=15)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple),
    st.integers(2, 6),
    st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    st.integers(0, 2**63 - 1),
)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    kinds: tuple[str, ...],
    count: int,
    tiers: tuple[int, ...],
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("round") / "m.json"
    pattern = "[A-Z]{2}-[0-9a-f]{6}" if "pattern" in kinds else ""
    written = planted(seed, Canaries(kinds, count, tiers, pattern=pattern))
    manifests.write(written, path)
    read = manifests.read(path)
    assert read == written and read.digest == written.digest and read.unit == written.unit


def test_odd_names_survive(tmp_path: Path) -> None:
    for name in ("naïve 鍵 🔑", "caf\udce9"):  # the second: a file name that is not UTF-8
        odd = replace(planted(), name=name)
        manifests.write(odd, tmp_path / "m.json")
        assert manifests.read(tmp_path / "m.json") == odd


def test_nobody_else_can_read_it_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    really = os.fsync

    def fsync(descriptor: int) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        really(descriptor)

    monkeypatch.setattr(files.os, "fsync", fsync)
    before = os.umask(0)
    try:
        manifests.write(planted(), tmp_path / "m.json")
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert stat.S_IMODE((tmp_path / "m.json").stat().st_mode) == 0o600


def places(document: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a JSON document that is no container."""
    if isinstance(document, dict):
        return [p for key, value in document.items() for p in places(value, (*where, key))]
    if isinstance(document, list):
        return [p for i, value in enumerate(document) for p in places(value, (*where, i))]
    return [where]


@given(st.data())
def test_an_edit_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("edited") / "m.json"
    manifests.write(planted(canaries=Canaries(("code", "id"), 3, (1,))), path)
    document = json.loads(path.read_text("utf-8"))
    *way, last = data.draw(st.sampled_from(places(document)))
    held = reduce(operator.getitem, way, document)
    old = held[last]
    held[last] = (
        not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}0"
    )
    path.write_text(json.dumps(document))
    refusals(manifests.read, [(path, str(path) if last == "form" else "was changed since")])


@given(st.floats(0, 1, exclude_max=True))
def test_a_cut_one_is_refused(tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    path = tmp_path_factory.mktemp("cut") / "m.json"
    manifests.write(planted(), path)
    whole = path.read_bytes().rstrip()
    path.write_bytes(whole[: int(share * len(whole))])
    refusals(manifests.read, [(path, str(path))])


def test_earlier_manifests_are_read_as_they_are(tmp_path: Path) -> None:
    """Their draws are of the seed alone; one below 2**53 was given, and may be of other text."""
    path = tmp_path / "m.json"
    for seed, alone in ((7, False), (2**62, True)):
        earlier = replace(
            planted(), seed=seed, source=None, sentences={}, stems={}, beacons=(), share=None
        )
        manifests.write(earlier, path)
        document = json.loads(path.read_text("utf-8"))
        assert document["form"] == "audit plant 1" and "source" not in document
        again = manifests.read(path)
        assert again == earlier and again.digest == document["checksum"]
        assert again.draws_are_its_own == alone
    assert planted(seed=7).draws_are_its_own


def test_sentences_are_stated_unless_a_user_gave_them() -> None:
    own = {"code": template_of("PIN {value}", "here")}
    manifest = planted(canaries=Canaries(("code", "id", "name", "record"), 4, templates=own))
    drawn = sentences(manifest)
    assert set(drawn) == {"id", "name"}
    for secret in (s for s in manifest.secrets if s.kind in drawn):
        assert secret.prefix == drawn[secret.kind].value
        assert re.fullmatch(drawn[secret.kind].space.form, secret.prefix)


def test_earlier_sentences_are_repeated_by_their_seed() -> None:
    """Words that the seed does not draw were given, however like drawn ones they are."""
    first = planted().secrets[0]
    prefix = wording("code", 2**60).prefix
    assert {wording("code", seed).prefix for seed in range(30)} & {prefix, "My code is #"} == set()
    for words, found in ((prefix, {"code"}), ("My code is #", set())):
        secrets = (replace(first, prefix=words),)
        earlier = replace(planted(), seed=2**60, secrets=secrets, source=None)
        assert set(sentences(earlier)) == found


def test_other_files_are_refused(tmp_path: Path) -> None:
    contents = (
        *(b"", b"[]", b"null", b'{"form":"audit plant 0"}', b'{"form":["audit plant 2"]}'),
        b'{"schema_version":"1","hash":"x","plan":{}}',  # of a run folder
        *(b"\xff\xfe\x00", b"[" * 100_000),
    )
    path = tmp_path / "m.json"
    for content in contents:
        path.write_bytes(content)
        refusals(manifests.read, [(path, "is not a manifest of this version")])
    nowhere = tmp_path / "none" / "m.json"
    refusals(manifests.read, [(tmp_path, "Is a directory"), (nowhere, f"{nowhere}: cannot be")])
    refusals(lambda place: manifests.write(planted(), place), [(nowhere, "cannot be written")])


def test_texts_digest_ignores_order_and_users() -> None:
    records = tuple(Record(f"u{i}", text) for i, text in enumerate(("one", "two", "two")))
    same = tuple(Record("v", r.text, split="private") for r in reversed(records))
    digest = manifests.texts_digest(Corpus("own", records))
    assert manifests.texts_digest(Corpus("other", same)) == digest
    assert manifests.texts_digest(Corpus("own", records[:2])) != digest
    joined = Corpus("own", (Record("u", "one\ntwo"), Record("u", "two")))
    assert manifests.texts_digest(joined) != digest


# with a checksum that is right

GONE = object()
CHANGES: list[tuple[str, Any, str]] = [  # where, what stands there then, and what is wrong with it
    ("secrets.0.copies", -1, "secrets.0.copies"),
    ("secrets.0.copies", True, "secrets.0.copies"),
    ("secrets.0.copies", 10**20, "secrets.0.copies"),
    ("secrets.0.copies", 7, "no two alike candidates"),
    ("secrets.0.kind", "pin", "secrets.0.kind"),
    ("secrets.0.value", None, "secrets.0.value"),
    ("secrets.0.value", "x", "none of its space"),
    ("secrets.0.owner", "somebody", "has no coin"),
    ("secrets.0.slot", 2, "secrets.0.slot"),
    ("secrets.0.space", 99, "its space is not there"),
    ("secrets.0.space", -1, "secrets.0.space"),
    ("secrets.1", lambda d: d["secrets"][0], "has a candidate twice"),
    ("secrets.0", GONE, "no two alike candidates"),
    ("secrets", [], "secrets"),
    ("secrets", [None], "secrets.0"),
    ("coins", GONE, "coins"),
    ("coins", {"a": "b"}, "coins.a"),
    ("coins.somebody", {"present": 1, "slot": 0}, "coins.somebody.present"),
    ("coins.somebody", {"present": True, "slot": 0}, "no secret"),
    ("spaces.0.places", [9], "spaces.0"),
    ("spaces.0.symbols", [[]], "spaces.0"),
    ("key", "zz", "key"),
    ("key", "abc", "key"),
    ("key", "ab" * 15, "key"),
    ("population.users", -1, "population.users"),
    ("records", None, "records"),
    ("seed", "1", "seed"),
    ("more", 1, "more"),
    ("corpus", "own", "corpus"),
    ("source", "own", "source"),
    ("form", "audit plant 1", "source: is of a later form"),
    *((name, GONE, f"{name}: is missing") for name in LATER),
    ("sentences.code.value", "My code is #", "sentences.code: its value is none of"),
    ("sentences.code", lambda d: d["sentences"]["id"], "sentences.code: is not that of"),
    ("sentences.key", lambda d: d["sentences"]["id"], "sentences.key: is not that of"),
    ("sentences.code.space", 99, "sentences.code: its space is not there"),
    ("stems.id.value", lambda d: "99" + d["stems"]["id"]["value"][:-2], "stems.id: is not that of"),
    ("stems.id.value", "1", "stems.id: its value is none of"),
    ("share", 2.0, "share"),
    ("beacons.0.value", "x", "beacons.0: its value is none of"),
    ("beacons.1.space", 99, "beacons.1: its space is not there"),
    ("beacons.0.value", lambda d: d["secrets"][0]["value"], "of a secret"),
    ("beacons.0.prefix", lambda d: d["secrets"][0]["prefix"], "of a secret"),
    ("beacons.0.users", lambda d: ["a", d["secrets"][0]["owner"]], "or has a coin"),
    ("beacons.0.users", ["a"], "beacons.0.users"),
    ("beacons.1.users", lambda d: d["beacons"][0]["users"], "is named twice"),
]


def test_a_right_checksum_saves_no_wrong_manifest(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    manifests.write(planted(), path)
    whole = path.read_text("utf-8")

    def read(change: tuple[str, Any]) -> Manifest:
        document = json.loads(whole)
        del document["checksum"]
        *way, last = (int(step) if step.isdecimal() else step for step in change[0].split("."))
        held = reduce(operator.getitem, way, document)
        if change[1] is GONE:
            del held[last]
        else:
            held[last] = change[1](document) if callable(change[1]) else change[1]
        path.write_text(json.dumps({**document, "checksum": digest_of_json(document)}))
        return manifests.read(path)

    refusals(read, [((place, value), (f"{path}: ", words)) for place, value, words in CHANGES])
