import json
from hashlib import sha256

import pytest

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora.loading import NAMES, load
from audit.plugins.listing import entries
from tests.corpora.reading import jsonl, read
from tests.refusals import refusals


def people(n):
    return [{"user": f"u{i}", "text": f"text of {i}"} for i in range(n)]


def texts(corpus):
    return [record.text for record in corpus.records]


def test_every_field_of_a_jsonl_record_is_kept(tmp_path):
    rows = (
        {"user": "ann", "name": "Ann Lee", "split": "private", "text": " one "},
        {"user": 7, "split": "heldout", "text": "two"},
        {"user": "bo", "name": None, "split": "public", "text": "three"},
    )
    assert read(jsonl(tmp_path / "c.jsonl", *rows)) == Corpus(
        "c",
        (
            Record("ann", " one ", "Ann Lee", "private"),
            Record("7", "two", None, "heldout"),
            Record("bo", "three", None, "public"),
        ),
    )


def test_the_embedded_corpus_reads_as_it_is_described():
    corpus = load("helpdesk", EMBEDDED_FOLDER)
    assert corpus.name == "helpdesk"
    assert {record.split for record in corpus.records} == {"private", "heldout", "public"}
    assert len(corpus.users("private")) >= 100
    assert corpus.sha256 == load("helpdesk", EMBEDDED_FOLDER).sha256


def test_every_named_corpus_is_listed_and_loads():
    listed = entries("corpora")
    names = [entry["name"] for entry in listed]
    assert names == list(NAMES) == ["helpdesk", "customersim", "airdialogue"]
    for entry in listed:
        corpus = load(entry["name"], EMBEDDED_FOLDER)
        assert corpus.name == entry["name"]
        assert corpus.embedded == (entry["name"] == "helpdesk")
        assert corpus.records == read(entry["path"]).records


def test_without_public_records_the_embedded_public_text_serves(tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"text": "one two"}\n{"text": "three four"}\n')
    public = load("helpdesk", EMBEDDED_FOLDER).of("public")
    assert load(str(file), EMBEDDED_FOLDER).spare == tuple(record.text for record in public)
    file.write_text('{"text": "one two", "split": "private"}\n{"text": "x", "split": "public"}\n')
    assert load(str(file), EMBEDDED_FOLDER).spare == ()


def test_an_unknown_name_lists_what_there_is(tmp_path):
    with pytest.raises(
        UsageError, match=r"'helpdsk': no such file.*hf:NAME.*helpdesk, customersim, airdialogue"
    ):
        load("helpdsk", tmp_path)


LINE = '{"user": "a", "text": "x"}\n'
BROKEN = {
    "json": '{"text": "x"',
    "no text": '{"user": "b"}',
    "text is a number": '{"text": 3}',
    "a list": '["x"]',
    "a string": '"x"',
    "user is a list": '{"text": "x", "user": ["b"]}',
    "user is true": '{"text": "x", "user": true}',
    "user is a fraction": '{"text": "x", "user": 1.5}',
    "name is a number": '{"text": "x", "name": 4}',
    "unknown split": '{"text": "x", "split": "elsewhere"}',
    "split is a list": '{"text": "x", "split": []}',
    "half a character": '{"text": "x \\ud800"}',
    "half a character in the user": '{"text": "x", "user": "\\ud800"}',
    "too many digits": '{"text": "x", "n": ' + "9" * 5000 + "}",
    "too deep": '{"text": "x", "n": ' + "[" * 200_000 + "]" * 200_000 + "}",
}


def test_a_bad_record_is_named_by_line(tmp_path):
    path = tmp_path / "c.jsonl"

    def written(what):
        path.write_text(LINE + "\n" + LINE + BROKEN[what] + "\n" + LINE, encoding="utf-8")
        try:
            read(path)
        except UsageError as error:
            assert str(error).startswith(f"{path}:4: ") and len(str(error)) < 300, what
            raise

    refusals(written, [(what, "") for what in BROKEN])


def test_line_endings_and_order_marks_change_nothing(tmp_path):
    lines = [json.dumps(row) for row in people(10)]
    plain = read(jsonl(tmp_path / "d.jsonl", *people(10))).records
    for ending in ("\n", "\r\n"):
        for mark in ("", "\ufeff"):
            path = tmp_path / "c.jsonl"
            path.write_bytes((mark + ending.join(lines) + ending).encode())
            assert read(path).records == plain
            path = tmp_path / "c.txt"
            path.write_bytes(f"{mark}one{ending}more{ending}{ending}two{ending}".encode())
            assert texts(read(path)) == ["one\nmore", "two"]


def test_line_numbers_count_crlf_once(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"text": "x"}\r\n\r\n{"text": 3}\r\n')
    with pytest.raises(UsageError, match=rf"^{path}:3: "):
        read(path)


def test_other_separators_belong_to_the_text(tmp_path):
    path = tmp_path / "c.jsonl"
    for separator in ("\u2028", "\u2029", "\x85", "\x0c", "\x1e"):
        text = f"one{separator}two"
        rows = LINE + json.dumps({"text": text}, ensure_ascii=ord(separator) < 32) + "\n"
        path.write_text(f"{rows}broken\n", encoding="utf-8")
        refusals(read, [(path, f"{path}:3: ")])
        path.write_text(rows, encoding="utf-8")
        assert texts(read(path)) == ["x", text]


def test_blank_lines_are_skipped(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('\n  \n{"text": "x"}\n\n\n{"text": "y"}', encoding="utf-8")
    assert texts(read(path)) == ["x", "y"]


def test_a_text_file_has_a_user_a_block(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("\n\none\n line\n\n \t\n\ntwo\n\n\nthree", encoding="utf-8")
    corpus = read(path)
    assert texts(corpus) == ["one\n line", "two", "three"]
    assert len(corpus.users()) == 3


def test_a_file_without_records_is_refused(tmp_path):
    for name in ("c.jsonl", "c.txt"):
        for content in ("", "\n \n", "\ufeff"):
            (tmp_path / name).write_text(content, encoding="utf-8")
            refusals(read, [(tmp_path / name, (name, "empty"))])


def test_what_cannot_be_a_corpus_is_named(tmp_path):
    (tmp_path / "c.docx").write_text("text\nx\n")
    (tmp_path / "latin.jsonl").write_bytes('{"text": "é"}'.encode("latin-1"))
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    (tmp_path / "bare").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    names = ("c.docx", "latin.jsonl", "latin.txt", "bare", "folder.jsonl", "missing.jsonl")
    refusals(lambda name: read(tmp_path / name), [(name, name) for name in names])


def test_a_user_stands_in_one_split_only(tmp_path):
    rows = [{"user": "ann", "split": s, "text": "x"} for s in ("private", "heldout")]
    with pytest.raises(UsageError, match="'ann' is in two splits"):
        read(jsonl(tmp_path / "c.jsonl", *rows))
    rows[1]["split"] = ""  # unmarked is private where others are marked
    assert len(read(jsonl(tmp_path / "c.jsonl", *rows)).of("private")) == 2


def test_something_must_be_private(tmp_path):
    rows = [{"user": s, "split": s, "text": "x"} for s in ("public", "heldout")]
    with pytest.raises(UsageError, match="no private record"):
        read(jsonl(tmp_path / "c.jsonl", *rows))


def heldout_of(tmp_path, rows):
    return set(read(jsonl(tmp_path / "c.jsonl", *rows)).users("heldout"))


def test_a_fifth_of_users_is_held_out(tmp_path):
    rows = people(1000)
    corpus = read(jsonl(tmp_path / "c.jsonl", *rows, *rows))
    heldout = set(corpus.users("heldout"))
    assert 150 < len(heldout) < 250  # 4 standard deviations
    assert not heldout & set(corpus.users("private"))
    assert len(corpus.of("heldout")) == 2 * len(heldout)
    # users of several records by their id: the lowest fifth of SHA-256
    below = {r["user"] for r in rows if sha256(r["user"].encode()).digest()[0] < 51}
    above = {r["user"] for r in rows if sha256(r["user"].encode()).digest()[0] > 51}
    assert below <= heldout and not above & heldout


@pytest.mark.parametrize("copies", [1, 2])
def test_removing_a_user_moves_nobody_else(tmp_path, copies):
    rows = people(60) * copies
    whole = heldout_of(tmp_path, rows)
    for user in (row["user"] for row in people(60)[::4]):
        rest = [row for row in rows if row["user"] != user]
        assert heldout_of(tmp_path, rest) == whole - {user}


def test_removing_a_userless_record_moves_no_other(tmp_path):
    def held(rows):
        corpus = read(jsonl(tmp_path / "c.jsonl", *rows))
        return {record.text for record in corpus.of("heldout")}

    rows = [{"text": f"text {i}"} for i in range(60)]
    whole = held(rows)
    for i in range(0, 60, 4):
        assert held(rows[:i] + rows[i + 1 :]) == whole - {f"text {i}"}


def test_a_small_corpus_keeps_both_sides(tmp_path):
    for users in (2, 3, 6, 11):
        for salt in "abcdefgh":
            rows = [{"user": f"{salt}{i}", "text": f"{salt} {i}"} for i in range(users)]
            corpus = read(jsonl(tmp_path / "c.jsonl", *rows))
            assert corpus.users("heldout") and corpus.users("private")


def test_files_split_a_folder(tmp_path):
    for name in ("train", "valid", "test", "public"):
        (tmp_path / f"{name}.txt").write_text(f"a {name}\n\nb {name}\n")
    (tmp_path / "README.md").write_text("no corpus")
    corpus = read(tmp_path)
    assert {r.text for r in corpus.of("private")} == {"a train", "b train"}
    assert {r.text for r in corpus.of("heldout")} == {
        f"{x} {n}" for x in "ab" for n in ("valid", "test")
    }
    assert {r.text for r in corpus.of("public")} == {"a public", "b public"}
    assert corpus.name == tmp_path.name


def test_a_records_split_precedes_its_files(tmp_path):
    jsonl(
        tmp_path / "train.jsonl",
        {"user": "a", "text": "x"},
        {"user": "b", "text": "y", "split": "public"},
    )
    assert texts(Corpus("", read(tmp_path).of("public"))) == ["y"]


def test_other_text_files_are_one_user(tmp_path):
    (tmp_path / "sub").mkdir()
    for path in ("ann.txt", "bo.txt", "sub/ann.txt"):
        (tmp_path / path).write_text("one\n\ntwo\n")
    corpus = read(tmp_path)
    assert len(corpus.users()) == 3
    assert all(len([r for r in corpus.records if r.user == user]) == 2 for user in corpus.users())
    assert len(corpus.users("heldout")) == 1


def test_a_folder_may_mix_forms(tmp_path):
    jsonl(tmp_path / "b.jsonl", {"text": "two"}, {"text": "three"})
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "c.txt").write_text(" = Elm = \n\n four \n")
    (tmp_path / "d.txt").write_text("SYS: Your full name?\nUSR: Ann Lee\n")
    corpus = read(tmp_path)
    assert [text.split()[0] for text in texts(corpus)] == ["one", "two", "three", "four", "SYS:"]
    assert corpus.users() == ("a", "b.jsonl-1", "b.jsonl-2", "Elm", "d")
    assert [record.name for record in corpus.records][-2:] == [None, "Ann Lee"]


RECORD = Record("u", "text", "name", "private")


def test_the_hash_sees_records_and_their_order():
    fields = (
        *(("v", "text", "name", "private"), ("u", "text.", "name", "private")),
        *(("u", "text", "nam", "private"), ("u", "text", None, "private")),
        *(("u", "text", "name", "public"), ("u", "name", "text", "private")),
    )
    others = [(), (RECORD,), *((Record(*one),) for one in fields)]
    hashes = {Corpus("c", (RECORD, *other)).sha256 for other in others}
    assert len(hashes) == len(others)
    rows = (RECORD, Record("v", "other", None, "private"))
    assert Corpus("c", rows).sha256 == Corpus("d", rows).sha256  # not of the name
    assert Corpus("c", rows).sha256 != Corpus("c", rows[::-1]).sha256


def duplicates(*rows):
    return Corpus("c", tuple(Record("u", text) for text in rows)).near_duplicates


def test_near_duplicates_ignore_case_digits_and_punctuation():
    assert duplicates("My code is 12", "my code IS 7!7", "another") == 1
    assert duplicates("a b", "a\n b", "a, b", "ab") == 2
    assert duplicates("x", "x", "x") == 2
    assert duplicates("x", "y", "x y") == 0
    for other in ("Hello.", "Hello!?", "“Hello”", "Hello 5", " hello"):
        assert duplicates("Hello", other) == 1
