"""Who is on which side: users of two files, and people whose coins a manifest holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.confounding import Comparison, Sides, table
from audit.confounding.profile import Check
from audit.confounding.sides import of_manifest
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora import loading
from audit.planting import manifest as manifests
from audit.planting import own

Row = dict[str, Any]


def written(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def texts(word: str, count: int = 8) -> list[Row]:
    return [{"text": f"{word} {'x' * i}"} for i in range(count)]


def test_records_of_a_user_stay_together(tmp_path: Path) -> None:
    rows = [{"text": f"text {i}", "user": f"u{i % 9}"} for i in range(30)]
    compared = api.check_data(
        written(tmp_path / "in.jsonl", rows), written(tmp_path / "out.jsonl", texts("out"))
    )
    assert Counter(map(len, compared.sides.inside.users)) == {4: 3, 3: 6}
    assert [own[0] for own in compared.sides.outside.users] == [row["text"] for row in texts("out")]


def test_records_without_user_are_users_of_their_own_on_each_side(tmp_path: Path) -> None:
    """Named by the same lines in both files, with another line of a user between them."""
    rows = [*texts("a"), {"text": "b", "user": "me"}]
    both = [written(tmp_path / f"{side}.jsonl", rows) for side in ("in", "out")]
    with pytest.raises(UsageError, match="unknown setting 'usr'; did you mean 'user'"):
        api.check_data(*both, usr="me")
    with pytest.raises(UsageError, match=r"user 'me' has texts in .*in.jsonl, too, as have 1 "):
        api.check_data(*both)
    written(both[1], texts("a"))
    assert [side.every for side in _both(api.check_data(*both))] == [9, 8]
    plain = [tmp_path / "one" / "same.txt", tmp_path / "two" / "same.txt"]
    for file in plain:
        file.parent.mkdir()
        file.write_text("\n\n".join(str(row["text"]) for row in texts("a")))
    assert not api.check_data(*plain).failed
    for file in plain:  # in a folder of splits, where a file is named by its place
        (file.parent / "train" / "x").mkdir(parents=True)
        file.rename(file.parent / "train" / "x" / "same.txt")
    assert not api.check_data(*(file.parent for file in plain)).failed


@pytest.mark.parametrize("form", ["{}", "-{}", "n-{}", "user-{}"])
def test_users_named_by_numbers_are_users(form: str, tmp_path: Path) -> None:
    """User 3 on line 3 of both files is one person."""
    rows = [{"text": "x" * i, "user": form.format(i)} for i in range(1, 9)]
    both = [written(tmp_path / f"{side}.jsonl", rows) for side in ("in", "out")]
    with pytest.raises(UsageError, match="as have 8 in all"):
        api.check_data(*both)


def test_user_in_two_spellings_on_two_sides_is_refused_where_ids_are_folded(tmp_path: Path) -> None:
    both = [
        written(
            tmp_path / f"{side}.jsonl", [{"text": "x" * i, "user": f"{name} {i}"} for i in range(9)]
        )
        for side, name in enumerate(("Bob", " bob"))
    ]
    assert [side.every for side in _both(api.check_data(*both))] == [8, 8]
    with pytest.raises(UsageError, match=r"user 'Bob 1' has texts in .* as have 8 in all"):
        api.check_data(*both, user_form="folded")


def test_notes_tell_units_that_may_be_no_users_and_texts_on_both_sides(tmp_path: Path) -> None:
    rows = [{"text": "x" * i, "author": f"a {i % 3}"} for i in range(1, 10)]
    here, there = (written(tmp_path / f"{name}.jsonl", rows) for name in ("here", "there"))
    notes = [line for line in table.text(api.check_data(here, there)).split("\n")
             if line.startswith("note: ")]  # fmt: skip
    assert [note.split(": ")[1] for note in notes[:2]] == ["here", "there"]
    assert all("without a user" in note and "--user author" in note for note in notes[:2])
    assert notes[2].startswith("note: 9 texts on both sides") and len(notes) == 3
    assert "note: " not in table.text(api.check_data(
        written(here, [{"text": "x" * i, "user": f"h {i}"} for i in range(1, 10)]),
        written(there, [{"text": "y" * i, "user": f"t {i}"} for i in range(1, 10)]),
    ))  # fmt: skip


def _both(compared: Comparison) -> tuple[Any, Any]:
    return compared.sides.inside, compared.sides.outside


def test_named_columns_are_read(tmp_path: Path) -> None:
    rows = [{"words": f"text {i}", "who": i % 6} for i in range(12)]
    other = [{"words": f"text {i}", "who": 100 + i % 6} for i in range(12)]
    both = written(tmp_path / "in.jsonl", rows), written(tmp_path / "out.jsonl", other)
    compared = api.check_data(*both, text="words", user="who")
    assert [side.every for side in _both(compared)] == [6, 6]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 users with one to three letters each, 108 of whom have coins, and 60 invented ones."""
    folder = tmp_path_factory.mktemp("planted")
    rows = [
        {"text": f"letter {n} of {user} about the matter {n * 7 + user}", "user": f"user {user}"}
        for user in range(120)
        for n in range(1 + user % 3)
    ]
    source = written(folder / "mail.jsonl", rows)
    options = {"coin_users": 0.9, "count": 60, "share": 0.9, "seed": 5, "kind": ("code", "name")}
    api.plant(str(source), folder / "planted.jsonl", folder / "manifest.json", **options)
    return folder


def filtered(folder: Path, name: str, keep: Callable[[Row], Row | None]) -> Path:
    lines = (folder / "planted.jsonl").read_text(encoding="utf-8").splitlines()
    kept = (keep(json.loads(line)) for line in lines)
    return written(folder / f"{name}.jsonl", [row for row in kept if row is not None])


def of(folder: Path, kind: str, file: str = "planted") -> Sides:
    manifest = manifests.read(folder / "manifest.json")
    assert manifest.own is not None
    aside = own.read(manifest.own, folder / "manifest.json")
    training = loading.read(str(folder / f"{file}.jsonl"), EMBEDDED_FOLDER)
    return of_manifest(manifest, aside, training, file, kind)


def test_unfiltered_real_users_are_divided_by_their_coins_alone(planted: Path) -> None:
    """Both sides are the same function of a user's records, so the coins are all that divides."""
    manifest = manifests.read(planted / "manifest.json")
    assert manifest.own is not None
    every: Mapping[str, list[str]] = {user: [] for user in manifest.own.coins.present}
    for record in own.read(manifest.own, planted / "manifest.json"):
        every[record.user].append(record.text)
    sides = of(planted, "own")
    for side, coin in ((sides.inside, True), (sides.outside, False)):
        due = (tuple(sorted(every[u])) for u, here in manifest.own.coins.present.items()
               if here is coin)  # fmt: skip
        assert Counter(tuple(sorted(texts)) for texts in side.users) == Counter(due)
    assert sides.of_coins and sides.inside.lost == 0


@pytest.mark.parametrize("kind", ["code", "name"])
def test_unfiltered_canaries_are_divided_by_their_coins_alone(planted: Path, kind: str) -> None:
    manifest = manifests.read(planted / "manifest.json")
    sides = of(planted, kind)
    for side, chosen in ((sides.inside, manifest.coins.planted),
                         (sides.outside, manifest.coins.twin)):  # fmt: skip
        due = [(s.prefix + s.value,) * s.copies for s in manifest.secrets
               if s.kind == kind and chosen(s)]  # fmt: skip
        assert list(side.users) == due


def test_unfiltered_training_file_passes(planted: Path) -> None:
    """An accident of the coins fails one in twenty; this seed has none."""
    for kind in ("own", "code", "name"):
        compared = api.check_data(
            planted / "planted.jsonl", secrets=planted / "manifest.json", kind=kind
        )
        assert compared.exit_code == 0


def test_filter_that_cuts_texts_is_found(planted: Path) -> None:
    cut = filtered(planted, "cut", lambda row: {**row, "text": row["text"][:20]})
    found = api.check_data(cut, secrets=planted / "manifest.json")
    assert Check.LENGTH in {outcome.check for outcome in found.failed}


def test_filter_that_drops_long_names_is_found(planted: Path) -> None:
    manifest = manifests.read(planted / "manifest.json")
    names = [s for s in manifest.secrets if s.kind == "name" and manifest.coins.planted(s)]
    median = sorted(len(secret.value) for secret in names)[len(names) // 2]
    long = [secret.prefix + secret.value for secret in names if len(secret.value) > median]
    short = filtered(
        planted, "short", lambda row: None if any(one in row["text"] for one in long) else row
    )
    found = api.check_data(short, secrets=planted / "manifest.json", kind="name")
    assert Check.LENGTH in {outcome.check for outcome in found.failed}
    assert found.sides.inside.lost == len(long)


def test_copies_are_found_without_users(planted: Path) -> None:
    filtered(planted, "nobodys", lambda row: {"text": row["text"]})
    bare, whole = of(planted, "code", "nobodys"), of(planted, "code")
    assert (bare.inside.users, bare.outside.users) == (whole.inside.users, whole.outside.users)
    with pytest.raises(UsageError, match="nobodys: holds no record of those whose coin"):
        of(planted, "own", "nobodys")


def test_held_out_rows_are_not_of_the_training(planted: Path) -> None:
    heldout = filtered(planted, "heldout", lambda row: {**row, "split": "heldout"})
    with pytest.raises(UsageError, match="holds no"):
        api.check_data(heldout, secrets=planted / "manifest.json")


def test_file_with_people_set_aside_is_refused(planted: Path) -> None:
    with pytest.raises(UsageError, match="whose coin set them aside"):
        api.check_data(planted / "mail.jsonl", secrets=planted / "manifest.json")


def test_unknown_people_are_refused(planted: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'code'"):
        of(planted, "cod")
