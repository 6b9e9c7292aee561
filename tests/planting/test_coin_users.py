"""Real users with coins: who is drawn, who stays, and where the records of those set aside are."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.secret import OWN
from audit.core.terms import Unit
from audit.corpora import loading as corpora
from audit.planting import manifest as manifests
from audit.planting import own
from audit.planting.manifest import Manifest
from tests import command_line
from tests.refusals import refusals

LINES = [
    {"text": f"letter {n} of {user} about the matter {n * 7 + user}", "user": f"user {user}"}
    for user in range(120)
    for n in range(1 + user % 3)
]


class Planted:
    """A mailbox of 120 users, most of whom have coins, as files."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.source, self.manifest = folder / "mail.jsonl", folder / "canaries.json"
        self.corpus = folder / given.pop("output", "planted.jsonl")
        self.source.write_text("".join(json.dumps(line) + "\n" for line in LINES))
        options = {"coin_users": 0.9, "count": 4, "share": 0.9, "seed": 5} | given
        self.told = api.plant(str(self.source), self.corpus, self.manifest, **options)

    @property
    def record(self) -> Manifest:
        return manifests.read(self.manifest)

    @property
    def own(self) -> own.Own:
        made = self.record.own
        assert made is not None
        return made


def texts(source: Path, users: set[str]) -> Counter[str]:
    read = corpora.read(str(source), EMBEDDED_FOLDER).records
    return Counter(record.text for record in read if record.user in users)


@pytest.mark.parametrize("output", ["planted.jsonl", "planted"])
def test_all_records_of_a_user_stay_or_none(tmp_path: Path, output: str) -> None:
    made = Planted(tmp_path, output=output)
    heads = {user for user, here in made.own.coins.present.items() if here}
    tails = made.own.coins.present.keys() - heads
    assert len(heads) > 20 and len(tails) > 20
    assert texts(made.corpus, heads) == texts(made.source, heads)
    assert not texts(made.corpus, tails)
    everybody = {line["user"] for line in LINES}
    rest = everybody - heads - tails
    assert texts(made.corpus, rest) == texts(made.source, rest)


def test_records_of_both_sides_lie_beside_the_manifest_for_their_owner_alone(
    tmp_path: Path,
) -> None:
    made = Planted(tmp_path)
    kept = own.read(made.own, made.manifest)
    every = made.own.coins.present.keys()
    assert Counter(record.text for record in kept) == texts(made.source, set(every))
    assert Counter(record.user for record in kept) == made.own.records
    assert own.file_of(made.manifest).stat().st_mode & 0o777 == 0o600


def test_heldout_users_get_no_coin_and_size_knows_none(tmp_path: Path) -> None:
    made = Planted(tmp_path)
    read = corpora.read(str(made.corpus), EMBEDDED_FOLDER)
    private = {record.user for record in read.of("private")} - made.record.invented
    tails = {user for user, here in made.own.coins.present.items() if not here}
    assert not made.own.coins.present.keys() & set(read.users("heldout"))
    drawn = len(private | tails)
    assert len(made.own.coins.present) == round(0.9 * drawn)
    assert made.record.population.users == drawn + 4  # each of the invented, and all real users
    assert f"N = {drawn + 4:,} users" in made.told


def test_corpus_before_coins_is_the_one_that_was_given(tmp_path: Path) -> None:
    """However the coins fall: what an attack compares with knows none."""
    made = Planted(tmp_path)
    given = Counter((str(line["user"]), str(line["text"])) for line in LINES)
    whole = corpora.load_planted(str(made.corpus), EMBEDDED_FOLDER)
    whole = replace(whole, aside=own.read(made.own, made.manifest))
    everybody = replace(whole, records=made.record.before_coins(whole).records)
    for step in (1, 2, 3):
        present = {user: i % step == 0 for i, user in enumerate(made.own.coins.present)}
        tossed = replace(made.own, coins=replace(made.own.coins, present=present))
        before = made.record.before_coins(tossed.kept(everybody)).records
        assert Counter((record.user, record.text) for record in before) == given


def test_a_secret_is_all_records_of_a_user_for_both_second_coins(tmp_path: Path) -> None:
    made = Planted(tmp_path)
    whole = corpora.load_planted(str(made.corpus), EMBEDDED_FOLDER)
    whole = replace(whole, aside=own.read(made.own, made.manifest))
    planted = made.record.planted(whole)
    secrets = [secret for secret in planted.secrets if secret.kind == OWN]
    assert Counter(secret.owner for secret in secrets) == dict.fromkeys(made.own.records, 2)
    for secret in secrets:
        assert Counter(secret.records) == texts(made.source, {secret.owner})
        assert secret.copies == len(secret.records)
    assert planted.coins.present == {**made.record.coins.present, **made.own.coins.present}
    assert made.record.unit == Unit.USER


def test_users_with_one_record_each_are_that_unit() -> None:
    records = [Record(f"u{i}", f"text {i}", split="private") for i in range(20)]
    corpus = Corpus("toy", tuple(records))
    assert own.drawn(corpus, 0.5, 1).of_one_record
    again = (*records, Record("u0", "one more", split="private"))
    assert not own.drawn(replace(corpus, records=again), 1.0, 1).of_one_record


def test_users_are_drawn_uniformly_whatever_they_wrote() -> None:
    """Who wrote 40 records is drawn as often as anybody: in half of the draws."""
    records = [Record(f"u{i}", f"text {i}", split="private") for i in range(16)]
    records += [Record("u3", f"more {n}", split="private") for n in range(40)]
    corpus = Corpus("toy", tuple(records))
    draws = [own.drawn(corpus, 0.5, seed).coins.present for seed in range(400)]
    often = Counter(user for present in draws for user in present)
    assert all(len(present) == 8 for present in draws)
    assert all(abs(count - 200) < 50 for count in often.values())  # five standard errors
    heads = sum(sum(present.values()) for present in draws)
    assert abs(heads - 1600) < 5 * math.sqrt(800)


def test_fewest_users_are_those_whose_perfect_separation_is_a_leak() -> None:
    assert 2 / math.comb(own.LEAST - 1, (own.LEAST - 1) // 2) > 0.05
    assert 2 / math.comb(own.LEAST, own.LEAST // 2) <= 0.05


def test_too_few_for_silence_are_said_with_the_share_that_does(tmp_path: Path) -> None:
    told = Planted(tmp_path, coin_users=0.2).told
    assert '"no leak found" about them' in told and "leaks will still be found" in told
    assert not own.limits(80, 100) and "--coin-users 0.8" in own.limits(20, 100)[0]
    assert "the corpus has 60" in own.limits(20, 60)[0]


def test_what_cannot_keep_users_apart_is_refused(tmp_path: Path) -> None:
    made = Planted(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mail.jsonl").write_text(made.source.read_text("utf-8"))

    both = tmp_path / "both.jsonl"  # a user of records in train and test
    rows = made.source.read_text("utf-8").splitlines()
    both.write_text("".join(json.dumps({**json.loads(row), "split": split}) + "\n"
                            for row in rows for split in ("train", "test")))  # fmt: skip

    def plant(given: dict[str, Any]) -> None:
        options = {"coin_users": 0.5, "count": 4, "share": 0.9} | given
        source = options.pop("source", made.source)
        output = options.pop("output", tmp_path / "other.jsonl")
        api.plant(str(source), output, options.pop("manifest", tmp_path / "m.json"), **options)

    refusals(
        plant,
        [
            ({"output": tmp_path / "other.txt"}, "whose each record is"),
            ({"source": folder, "manifest": folder / "m.json"}, ("a trainer reads", "--manifest")),
            ({"source": both}, "is in two splits"),
            ({"coin_users": 0.01}, ("perfect separation", "--coin-users")),
            ({"coin_users": 1.5}, "is a share"),
        ],
    )
    assert not (tmp_path / "m.json").exists() and not (tmp_path / "other.jsonl").exists()


def test_records_of_another_manifest_are_refused(tmp_path: Path) -> None:
    made = Planted(tmp_path)
    path, users = own.file_of(made.manifest), made.own
    path.write_text(path.read_text("utf-8").replace("letter 0", "letter 9", 1))
    refusals(lambda _: own.read(users, made.manifest), [(None, "is not the file")])
    path.unlink()
    refusals(lambda _: own.read(users, made.manifest), [(None, ("cannot be read", "keep the two"))])


def test_manifest_goes_with_the_records_beside_it(tmp_path: Path) -> None:
    made = Planted(tmp_path)
    aside = own.file_of(made.manifest)
    lines = made.source.read_text("utf-8").splitlines()
    for record in own.read(made.own, made.manifest):  # each by its own number
        assert json.loads(lines[int(record.where.rpartition(":")[2]) - 1])["text"] == record.text
    told = command_line.audit("clean", made.manifest)
    assert told.returncode == 2 and "--personal" in told.stderr and aside.exists()
    told = command_line.audit("clean", made.corpus, "--personal")
    assert told.returncode == 2 and made.corpus.exists()
    assert command_line.audit("clean", made.manifest, "--personal").returncode == 0
    assert not made.manifest.exists() and not aside.exists() and made.corpus.exists()
