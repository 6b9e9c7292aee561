"""The planted corpus as files: what is read back is what was written, or nothing is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import api
from audit.core.corpus import Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora import loading as corpora
from audit.corpora import writing
from audit.planting import manifest as manifests
from audit.planting.kinds import sentence_space
from tests.refusals import refusals

SPLITS = ("private", "heldout", "public")
texts = st.text(min_size=1, max_size=30).filter(
    lambda text: bool(text.strip()) and not any("\ud800" <= c <= "\udfff" for c in text)
)
records = st.lists(
    st.builds(
        Record, user=texts, text=texts, name=st.none() | texts, split=st.sampled_from(SPLITS)
    ),
    min_size=1,
    max_size=6,
)


def read(path: Path) -> tuple[Record, ...]:
    return corpora.read(str(path), EMBEDDED_FOLDER).records


@given(records)
def test_jsonl_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    path = tmp_path_factory.mktemp("w") / "t.jsonl"
    writing.write(records, path)
    assert list(read(path)) == records


def test_kinds_on_request_are_planted(tmp_path: Path) -> None:
    forms = {
        "email": r"Write to <([a-z]+\.[a-z]+@example\.(?:com|net|org))>",
        "phone": r".*?([2-9]\d\d-555-01\d\d)\.",
        "key": r".*(sk-[A-Za-z0-9]{20})\.",
        "pattern": r".*(EMP-[0-9A-F]{6})\.",
    }
    given = {"kind": list(forms), "pattern": "EMP-[0-9A-F]{6}", "count": 20, "seed": 3}
    given["template"] = ["email=Write to <{value}>"]
    source, out, manifest = (tmp_path / name for name in ("c.txt", "o.jsonl", "m.json"))
    source.write_text("one text\n\nanother text\n")
    api.plant(str(source), out, manifest, **given)
    written = [record.text for record in read(out)]
    canaries = manifests.read(manifest)
    assert {s.kind for s in canaries.secrets} == set(forms)
    for secret in canaries.secrets:
        found = re.fullmatch(forms[secret.kind], secret.text)
        assert found and found.group(1) == secret.value
        assert secret.space and re.fullmatch(secret.space.form, secret.value)
        times = sum(text.startswith(f"{secret.text} ") for text in written)
        assert times == secret.copies * canaries.coins.planted(secret)


@given(records)
def test_a_folder_comes_back_split_by_split(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    path = tmp_path_factory.mktemp("w") / "t"
    if all(record.split != "private" for record in records):
        records.append(Record("u", "text", split="private"))  # a corpus has some
    writing.write(records, path)
    for split in SPLITS:
        mine = [record for record in records if record.split == split]
        assert [record for record in read(path) if record.split == split] == mine
    names = {"private": "train.jsonl", "heldout": "test.jsonl", "public": "public.jsonl"}
    assert {file.name for file in path.iterdir()} == {names[r.split] for r in records}


def test_load_dataset_finds_train_and_test(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    records = [Record("u", "one", name="Ann Lee"), Record("v", "two", split="heldout")]
    writing.write([*records, Record("w", "three", split="public")], tmp_path / "t")
    loaded = datasets.load_dataset(str(tmp_path / "t"), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"]["text"] == ["one"] and loaded["test"]["text"] == ["two"]
    assert loaded["train"]["name"] == ["Ann Lee"] and loaded["test"]["name"] == [None]


@given(st.lists(texts, min_size=1, max_size=4))
def test_text_comes_back_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("w") / "t.txt"
    try:
        writing.write([Record(f"u{i}", text) for i, text in enumerate(texts)], path)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
        assert not list(path.parent.iterdir())
    else:
        assert [record.text for record in read(path)] == texts
        assert list(path.parent.iterdir()) == [path]


def test_text_keeps_lines_and_spaces(tmp_path: Path) -> None:
    for i, ending in enumerate(("a\n b", "a\n\tb", "  a", "a  ", "鍵\nklüç")):
        writing.write([Record("u", "one"), Record("v", ending)], tmp_path / f"{i}.txt")
        assert [record.text for record in read(tmp_path / f"{i}.txt")] == ["one", ending]


@pytest.mark.parametrize(
    "first",
    [
        *("a\n\nb", "a\n \t\nb", "\na", "a\n"),  # a blank line
        "a\r\rb",  # line ends to whoever reads text
        "\ufeffa",  # a byte order mark, which is read away
        " = Title = ",  # what WikiText begins with
        '<SPEAKER ID=1 NAME="Ann">\nMr President',  # and Europarl
    ],
)
def test_a_text_that_txt_cannot_hold_is_refused(tmp_path: Path, first: str) -> None:
    whole = [Record("u", first, where="own.jsonl:7"), Record("v", "two")]
    with pytest.raises(UsageError, match=r"own.jsonl:7: .*use .jsonl"):
        writing.write(whole, tmp_path / "t.txt")
    assert not list(tmp_path.iterdir())
    writing.write(whole, tmp_path / "t.jsonl")
    assert [record.text for record in read(tmp_path / "t.jsonl")] == [first, "two"]


def test_held_out_text_in_txt_is_refused(tmp_path: Path) -> None:
    """Plain text has no splits: held-out records would be one with the others."""
    whole = [Record("u", "one", split="private"), Record("v", "two", "", "heldout", "own.jsonl:2")]
    with pytest.raises(UsageError, match=r"own.jsonl:2: .*heldout.*use .jsonl"):
        writing.write(whole, tmp_path / "t.txt")
    assert not list(tmp_path.iterdir())
    writing.write(whole[:1], tmp_path / "t.txt")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for taken in ("taken.jsonl", "taken.txt"):
        (tmp_path / taken).write_text("mine")
    (tmp_path / "taken").mkdir()
    refusals(
        lambda name: writing.write([Record("u", "one")], tmp_path / name),
        [
            *((name, "exists already") for name in ("taken.jsonl", "taken.txt", "taken")),
            *((name, "FILE.jsonl, FILE.txt or a folder") for name in ("t.csv", "t.json")),
            *((name, "no such folder") for name in ("none/t.jsonl", "none/t", "taken.jsonl/t.txt")),
        ],
    )
    assert (tmp_path / "taken.jsonl").read_text("utf-8") == "mine"


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    left = tmp_path / ".t.0123abcd.partial"
    left.mkdir()
    (left / "test.jsonl").write_text("half")
    writing.write([Record("u", "one")], tmp_path / "t")
    assert [record.text for record in read(tmp_path / "t")] == ["one"]
    assert not left.exists()


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., str]:
    """plant("t.jsonl", count=9): a small corpus with canaries, in such a file, and m.json."""
    source = tmp_path / "own.jsonl"
    source.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(20)))

    def run(output: str, manifest: str = "m.json", **changes: Any) -> str:
        asked = {"count": 4, "repetitions": "2", "seed": 1, **changes}
        return api.plant(str(source), tmp_path / output, tmp_path / manifest, **asked)

    return run


def test_settings_from_python_are_those_of_the_command_line(
    tmp_path: Path, plant: Callable[..., str]
) -> None:
    """What is absent, of another type or misspelt made manifests that nothing reads."""
    given = {"seed": None, "count": "4", "kind": "code", "repetitions": (1, 4), "records": None}
    plant("t.jsonl", **given)
    written = manifests.read(tmp_path / "m.json")
    assert len(written.coins.present) == 4 and {s.copies for s in written.secrets} == {1, 4}
    assert {s.kind for s in written.secrets} == {"code"}
    refusals(
        lambda changes: plant("u.jsonl", "u.json", **changes),
        [
            ({"seed": 1.5}, "--seed is '1.5'; expected a whole number"),
            ({"coin_users": "most"}, "--coin-users is 'most'; expected a number"),
            ({"cuont": 4}, "plant: unknown setting 'cuont'; did you mean 'count'?"),
        ],
    )
    words = [str(tmp_path / name) for name in ("own.jsonl", "v.jsonl", "v.json")]
    assert f"{words[1]}: 20 records" in api.plant(*words, count=4)


@pytest.mark.parametrize("output", ["t.jsonl", "t.txt", "t"])
def test_a_kill_leaves_the_manifest_alone(
    tmp_path: Path, plant: Callable[..., str], monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", killed)
        with pytest.raises(Killed):
            plant(output)
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl", "m.json"}
    before = (tmp_path / "m.json").read_bytes()
    with pytest.raises(UsageError, match=r"m.json: exists already"):
        plant(output)
    assert (tmp_path / "m.json").read_bytes() == before  # whoever was faster is not written over
    (tmp_path / "m.json").unlink()
    plant(output)
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl", "m.json", output}


def test_an_unwritable_corpus_leaves_no_manifest(tmp_path: Path, plant: Callable[..., str]) -> None:
    (tmp_path / "own.jsonl").write_text(json.dumps({"text": "a\n\nb"}) + "\n")
    with pytest.raises(UsageError, match=r"use .jsonl"):
        plant("t.txt")
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl"}


def test_the_same_file_for_both_is_refused(tmp_path: Path, plant: Callable[..., str]) -> None:
    with pytest.raises(UsageError, match=r"t\.jsonl: is both --output and --manifest"):
        plant("t.jsonl", "t.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl"}


def test_own_words_stand_around_every_value(tmp_path: Path, plant: Callable[..., str]) -> None:
    plant("t.jsonl", template=("code=PIN {value}, as agreed!", "name=Ask for {value}"))
    secrets = manifests.read(tmp_path / "m.json").secrets
    words = {(s.kind, s.prefix, s.suffix) for s in secrets if s.kind in ("code", "name")}
    assert words == {("code", "PIN ", ", as agreed!"), ("name", "Ask for ", "")}
    texts = [record.text for record in read(tmp_path / "t.jsonl")]
    assert any(re.match(r"PIN \d{5}, as agreed! [a-z]", text) for text in texts)
    (drawn,) = {s.prefix for s in secrets if s.kind == "id"}
    assert re.fullmatch(sentence_space("id").form, drawn)


def test_what_cannot_be_planted_leaves_no_file(tmp_path: Path, plant: Callable[..., str]) -> None:
    refusals(
        lambda changes: plant("t.jsonl", **changes),
        [
            ({"template": ("code",)}, "--template 'code': give KIND=TEXT"),
            ({"template": ("record=A {value}",)}, "KIND is code, id, name"),
            ({"template": ("code=A {value}", "code=B {value}")}, "--template code: is given twice"),
            ({"template": ("code=A",)}, "--template code is 'A': it holds {value} nowhere"),
            ({"template": ("id=A {value}",), "kind": ("code",)}, "--template id: no id is planted"),
            (
                {"template": ("code={My|Our} PIN {value}",)},
                "make 2 sentences; use 10,000 to 200,000",
            ),
            ({"design": "modle"}, "the designs are random, model, echo, gradient, new_token"),
            ({"design": "model"}, "--design model: give --base"),
            ({"design": "echo", "kind": ("code",)}, "--design echo: designs are of records"),
            ({"design": "random", "base": "embedded"}, "--base embedded: random records need none"),
            ({"base": "embedded", "kind": ("code",)}, "--design new_token: designs are of records"),
            ({"design": "echo", "base": "lstm"}, "--base lstm: is untrained"),
            ({"design": "echo", "base": "nowhere"}, "no such folder"),
        ],
    )
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl"}
