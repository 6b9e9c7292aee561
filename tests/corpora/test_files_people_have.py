"""Exports as people have them: tables, mail, packed files, folders with more than the corpus."""

from __future__ import annotations

import csv
import gzip
import io
import json
import mailbox
import os
import resource
import sys
import time
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora import tables
from audit.corpora.loading import load, read
from audit.corpora.mail import NOTE
from audit.corpora.reading import Reading, RecordForm, UserForm
from audit.corpora.shared_text import shared_text
from tests import exports

ROWS: list[dict[str, Any]] = [
    {"text": 'The "parcel", 7 March.\nIt is late.', "user": "ann", "split": "train"},
    {"text": "Thank you; bye.", "user": "bo", "split": "test"},
]
WANTED = [(row["user"], row["text"]) for row in ROWS]


def pairs(path: Path, **reading: Any) -> list[tuple[str, str]]:
    corpus = read(str(path), EMBEDDED_FOLDER, Reading(**reading))
    return [(record.user, record.text) for record in corpus.records]


def table(delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(ROWS[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode("utf-8-sig")


def arrow(name: str, rows: list[dict[str, Any]] = ROWS) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    sink = io.BytesIO()
    whole = pyarrow.Table.from_pylist(rows)
    if name == "parquet":
        parquet.write_table(whole, sink)
        return sink.getvalue()
    with (ipc.new_file if name == "file" else ipc.new_stream)(sink, whole.schema) as writer:
        writer.write_table(whole)
    return sink.getvalue()


def zstandard(content: bytes) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
FILES: dict[str, Callable[[], bytes]] = {
    "t.csv": lambda: table(","),
    "excel.csv": lambda: table(";"),
    "stated.csv": lambda: b"sep=|\r\n" + table("|").removeprefix(b"\xef\xbb\xbf"),
    "unicode.tsv": lambda: table("\t").decode("utf-8-sig").encode("utf-16"),
    "t.tsv": lambda: table("\t"),
    "t.json": lambda: json.dumps(ROWS, indent=2).encode(),
    "t.jsonl": lambda: LINES,
    "t.jsonl.gz": lambda: gzip.compress(LINES),
    "t.csv.gz": lambda: gzip.compress(table(",")),
    "t.jsonl.zst": lambda: zstandard(LINES),
    "t.parquet": lambda: arrow("parquet"),
    "stream.arrow": lambda: arrow("stream"),
    "file.arrow": lambda: arrow("file"),
    "t.feather": lambda: arrow("file"),
    "t.parquet.gz": lambda: gzip.compress(arrow("parquet")),
    "t.arrow.zst": lambda: zstandard(arrow("stream")),
    "bytes.parquet": lambda: arrow(
        "parquet", [{**row, "text": row["text"].encode()} for row in ROWS]
    ),
}


@pytest.mark.parametrize("name", ["T.JSONL", "T.Json", "T.NDJSON.gz"])
def test_ending_in_capitals_is_the_same_kind(tmp_path: Path, name: str) -> None:
    """Its lines would else be texts with braces, each of a user of its own."""
    (tmp_path / name).write_bytes(gzip.compress(LINES) if name.endswith("gz") else LINES)
    assert pairs(tmp_path / name) == WANTED


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_name_that_stands_twice_is_refused(tmp_path: Path, name: str) -> None:
    row = '{"text": "Here.", "user": "ann", "user": "bo"}'
    (tmp_path / name).write_text(row if name == "t.jsonl" else f"[{row}]")
    with pytest.raises(UsageError, match="has 'user' twice; keep one of them"):
        pairs(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_table_gives_the_same_records(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    assert pairs(tmp_path / name) == WANTED
    splits = [r.split for r in load(str(tmp_path / name), EMBEDDED_FOLDER).records]
    assert splits == ["private", "heldout"]


@pytest.mark.parametrize(
    "content, named",
    [
        ("a,b\n1\n", r":2: cells: 1 here, 2 in the header"),
        ("a,a\n1,2\n", ":1: two columns"),
        ('text\n"open', "cannot be read as a table"),
        ("a,the letter\n1,a long one\n", "--text 'the letter'"),
        ("User,USER,text\n1,2,three\n", "'User' and 'USER' differ by case"),
        ("text\nna\xefve\n", "not UTF-8 at byte 7; .* iconv -f cp1252"),
        ("", "empty"),
        ("text,user\n,ann\n", "empty"),
    ],
)
def test_broken_table_is_one_line(tmp_path: Path, content: str, named: str) -> None:
    (tmp_path / "t.csv").write_bytes(content.encode("cp1252"))
    with pytest.raises(UsageError, match=named):
        pairs(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.jsonl.gz", "t.parquet", "t.arrow", "t.jsonl.zst"])
def test_file_that_is_not_what_it_is_called_is_one_line(tmp_path: Path, name: str) -> None:
    if not name.endswith("gz"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(UsageError, match=name):
        pairs(tmp_path / name)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.jsonl.zst"])
def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(UsageError, match=r"pip install 'llm-audit\[hub\]'"):
        pairs(tmp_path / name)


def test_bytes_that_are_not_text_are_nobodys(tmp_path: Path) -> None:
    rows = [{"text": "A letter.", "user": b"\xff", "photo": b"\xff\xd8"}]
    (tmp_path / "t.parquet").write_bytes(arrow("parquet", rows))
    with pytest.raises(UsageError, match="'user' must be"):
        pairs(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="its text is of type dict"):
        pairs(tmp_path / "t.parquet", text="photo")


def test_columns_of_one_name_are_refused_in_any_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    twice = pyarrow.Table.from_arrays([["one"], ["other"]], names=["text", "text"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="two columns have the same name"):
        pairs(tmp_path / "t.parquet")


# --- columns

SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "alpaca": ({"instruction": "Add.", "input": "1 2", "output": "3"}, "Add.\n1 2\n3"),
    "alpaca without input": ({"instruction": "Say.", "input": "", "output": "A"}, "Say.\nA"),
    "prompt and completion": ({"prompt": "Where is ", "completion": "7?"}, "Where is 7?"),
    "content": ({"content": "Here.", "id": 3}, "Here."),
    "body": ({"body": "There.", "subject": "x"}, "There."),
    "other case": ({" Text": "There.", "Text 2": "x"}, "There."),
    "message": ({"Message": "There.", "Messages": 4, "Split": "A"}, "There."),
    "turns in JSON": (
        {"Conversations": '[{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]'},
        "user: Q\nassistant: A",
    ),
    "turns by column": (
        {"Messages ": [], "conversations": {"from": ["human", "gpt"], "value": ["Q", "A"]}},
        "user: Q\nassistant: A",
    ),
    "sharegpt": (
        {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]},
        "user: Q\nassistant: A",
    ),
    "turns": (
        {
            "prompt": [{"role": "user", "content": "Q"}],
            "completion": [{"role": "assistant", "content": "A"}],
        },
        "user: Q\nassistant: A",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_usual_shape_is_recognised_and_noted(tmp_path: Path, shape: str) -> None:
    entry, text = SHAPES[shape]
    (tmp_path / "t.jsonl").write_text(json.dumps({**entry, "user": "u"}) + "\n")
    corpus = read(str(tmp_path / "t.jsonl"), EMBEDDED_FOLDER)
    assert [(r.user, r.text) for r in corpus.records] == [("u", text)]
    assert any("1 records" in note for note in corpus.notes)


def test_user_and_split_are_found_whatever_their_case(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Text,USER,Split\nOne.,7,Train\nTwo.,7.0,train\nSix.,9,Test\n")
    corpus = read(str(tmp_path / "t.csv"), EMBEDDED_FOLDER)
    assert [(r.user, r.split) for r in corpus.records] == [
        ("7", "private"), ("7.0", "private"), ("9", "heldout"),
    ]  # fmt: skip
    said = " ".join(corpus.notes)
    assert all(
        f"{old} is read as {new}" in said for old, new in (("'USER'", "user"), ("'Split'", "split"))
    )


def test_whole_numbers_that_a_table_made_floats_are_ids(tmp_path: Path) -> None:
    """A column of numbers becomes one of floats where a cell is missing."""
    rows = [{"text": "a", "user": 7.0}, {"text": "b", "user": 7}, {"text": "c", "user": None}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read(str(tmp_path / "t.jsonl"), EMBEDDED_FOLDER)
    assert [r.user for r in corpus.records] == ["7", "7", "line-3"]
    for user in (7.5, 2.0**53):
        (tmp_path / "t.jsonl").write_text(json.dumps({"text": "a", "user": user}))
        with pytest.raises(UsageError, match="'user' must be"):
            pairs(tmp_path / "t.jsonl")


def test_nobodys_records_are_noted_with_the_column_that_may_be_the_user(tmp_path: Path) -> None:
    """Each is a user of its own then, which no reader of a claim per user would guess."""
    (tmp_path / "t.csv").write_text("Body,Customer ID,From\nOne.,7,ann\nTwo.,7,ann\n")
    corpus = read(str(tmp_path / "t.csv"), EMBEDDED_FOLDER)
    assert len(corpus.users()) == 2 and "a user is one record" in corpus.user_is
    assert any("own; should it be 'From': --user From (2 records)" in note for note in corpus.notes)
    whose = read(str(tmp_path / "t.csv"), EMBEDDED_FOLDER, Reading(user="From"))
    assert whose.users() == ("ann",) and "id in the column From" in whose.user_is


def test_empty_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,user\nOne.,a\n,b\n" ",b\n')
    corpus = read(str(tmp_path / "t.csv"), EMBEDDED_FOLDER)
    assert corpus.users() == ("a",)
    assert "left out, with an empty text (2 records)" in corpus.notes


def test_named_columns_are_read(tmp_path: Path) -> None:
    ticket = {"letter": "Dear you.", "customer": 7}
    entry = {"ticket": ticket, "text": "no", "User": "no", "part": "validation"}
    (tmp_path / "t.jsonl").write_text(json.dumps(entry) + "\n")
    reading = Reading(text="ticket.letter", user="ticket.customer", split="part")
    (record,) = read(str(tmp_path / "t.jsonl"), EMBEDDED_FOLDER, reading).records
    assert (record.text, record.user, record.split) == ("Dear you.", "7", "heldout")


@pytest.mark.parametrize("option", ["text", "user", "messages", "split"])
def test_column_that_is_not_there_is_named_with_the_others(tmp_path: Path, option: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x", "mood": "y"}\n')
    with pytest.raises(UsageError, match=rf"no column 'sender' \(--{option}\).*'mood'"):
        pairs(tmp_path / "t.jsonl", **{option: "sender"})


@pytest.mark.parametrize("user", ["", "  ", None, float("nan")])
def test_empty_user_is_no_user(tmp_path: Path, user: Any) -> None:
    rows = [{"text": "one", "user": user}, {"text": "two", "user": user}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len({owner for owner, _ in pairs(tmp_path / "t.jsonl")}) == 2


# --- users


def spelled(tmp_path: Path, form: UserForm) -> Corpus:
    users = ["Jos\u00e9", "Jose\u0301", "JOS\u200bÉ\u00a0", "Ann"]
    rows = [json.dumps({"text": f"t{i}", "user": user}) for i, user in enumerate(users)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    return read(str(tmp_path / "t.jsonl"), EMBEDDED_FOLDER, Reading(user_form=form))


def test_spellings_of_one_id_are_noted_and_kept_apart(tmp_path: Path) -> None:
    corpus = spelled(tmp_path, UserForm.EXACT)
    assert len(corpus.users()) == 4
    assert any("4 users are 2" in note and "--user-form folded" in note for note in corpus.notes)


def test_folded_ids_are_joined_under_the_first(tmp_path: Path) -> None:
    corpus = spelled(tmp_path, UserForm.FOLDED)
    assert [record.user for record in corpus.records] == ["José"] * 3 + ["Ann"]
    assert corpus.notes


# --- plain text

PLAIN = "one\ntwo\nthree\n"


def test_text_without_blank_lines_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(PLAIN)
    with pytest.raises(UsageError, match="3 lines") as error:
        pairs(tmp_path / "t.txt")
    assert all(f"--records {form}" in str(error.value) for form in RecordForm)


@pytest.mark.parametrize(
    "form, texts",
    [
        (RecordForm.LINES, ["one", "two", "three"]),
        (RecordForm.PARAGRAPHS, ["one\ntwo\nthree"]),
        (RecordForm.FILE, ["one\ntwo\nthree"]),
    ],
)
def test_record_of_plain_text_is_as_said(
    tmp_path: Path, form: RecordForm, texts: list[str]
) -> None:
    (tmp_path / "t.txt").write_text(PLAIN)
    assert [text for _, text in pairs(tmp_path / "t.txt", records=form)] == texts


def test_files_of_one_name_in_splits_are_different_users(tmp_path: Path) -> None:
    for place in ("train/x/0.txt", "train/y/0.txt", "test/0.txt"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(place)
    corpus = load(str(tmp_path), EMBEDDED_FOLDER)
    assert len(corpus.users("private")) == 2 and len(corpus.users()) == 3


def test_name_of_a_file_that_is_not_utf8_can_be_written(tmp_path: Path) -> None:
    """A user's id goes into every file that is written of a corpus."""
    for name in (b"ann\xff.txt", b"bo.txt"):
        (tmp_path / os.fsdecode(name)).write_text("Here.")
    assert pairs(tmp_path) == [("ann\\xff", "Here."), ("bo", "Here.")]
    assert pairs(tmp_path / os.fsdecode(b"ann\xff.txt")) == [("ann\\xff-1", "Here.")]


# --- mail


def mail(sender: str, subject: str, text: str, html: str = "") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Subject"], message["To"] = sender, subject, "desk@example.com"
    if text:
        message.set_content(text)
    if html:
        message.add_alternative(html, "html") if text else message.set_content(html, "html")
    return message


MAILS = [
    mail("Ann Lee <ann@example.com>", "Parcel", "Where is it?\nFrom here I see nothing.\n"),
    mail(
        "bo@example.com", "Re: Grüße", "", "<style>p {}</style><p>On its way,</p><p>Bo &amp; Co</p>"
    ),
    mail("Ann Lee <ann@example.com>", "", "Thanks.\n", "<p>ignored</p>"),
]
MAILED = [
    ("ann@example.com", "Parcel\n\nWhere is it?\nFrom here I see nothing."),
    ("bo@example.com", "Re: Grüße\n\nOn its way,\nBo & Co"),
    ("ann@example.com", "Thanks."),
]


def test_mailbox_is_read_by_sender(tmp_path: Path) -> None:
    box = mailbox.mbox(str(tmp_path / "in.mbox"))
    for message in MAILS:
        box.add(message)
    box.close()
    found = [(user, text.replace(">From", "From")) for user, text in pairs(tmp_path / "in.mbox")]
    assert [(user, "\n".join(text.split("\n"))) for user, text in found] == MAILED


def test_user_of_a_mail_is_who_was_said(tmp_path: Path) -> None:
    """The sender, the first receiver, the thread's first mail, or the owner of the mailbox."""
    first, answer = (mail(who, "Parcel", "Here.") for who in ("ann@example.com", "ben@example.com"))
    del first["To"], answer["To"]
    first["To"], first["Message-ID"] = "Desk <desk@example.com>, x@example.com", "<1@x>"
    answer["To"], answer["References"] = "Ann Lee <ann@example.com>", "<1@x> <7@x>"
    answer["Message-ID"] = "<8@x>"
    box = mailbox.mbox(str(tmp_path / "ann.mbox"))
    for one in (first, answer):
        box.add(one)
    box.close()
    whose = {
        None: ["ann@example.com", "ben@example.com"],
        "from": ["ann@example.com", "ben@example.com"],
        "to": ["desk@example.com", "ann@example.com"],
        "thread": ["<1@x>", "<1@x>"],
        "mailbox": ["ann", "ann"],
    }
    for user, due in whose.items():
        found = read(str(tmp_path / "ann.mbox"), EMBEDDED_FOLDER, Reading(user=user))
        assert [record.user for record in found.records] == due
        assert ("sender of mail" in found.user_is) == (user is None) == (NOTE in found.notes)


def test_folder_of_mails_is_one_corpus(tmp_path: Path) -> None:
    for number, message in enumerate(MAILS):
        (tmp_path / f"{number}.eml").write_bytes(bytes(message))
    assert pairs(tmp_path) == MAILED


def test_headers_are_read_as_mail_programs_show_them(tmp_path: Path) -> None:
    """Encoded words, folded lines, a name with a comma, an attachment before the text."""
    (tmp_path / "m.eml").write_bytes(
        b"From: =?utf-8?q?Lee=2C_J=C3=B6rg?= <jl@example.com>\n"
        b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n =?utf-8?q?_an_alle?= und\n jeden\n"
        b"References: <1@x>\n <2@x>\nMIME-Version: 1.0\n"
        b'Content-Type: multipart/mixed; boundary="b"\n\n'
        b"--b\nContent-Type: text/plain\nContent-Disposition: attachment\n\nnot this\n"
        b"--b\nContent-Type: text/plain; charset=latin-1\n\nF\xfcr dich\n--b--\n"
    )
    (record,) = read(str(tmp_path), EMBEDDED_FOLDER).records
    assert (record.user, record.text) == ("jl@example.com", "Grüße an alle und jeden\n\nFür dich")
    (record,) = read(str(tmp_path), EMBEDDED_FOLDER, Reading(user="thread")).records
    assert record.user == "<1@x>"


@pytest.mark.parametrize(
    ("names", "mailbox"),
    [
        (["ann/cur/1.ann:2,S", "ann/cur/2.ann:2,", "ann/new/3.ann"], "ann"),  # Maildir
        (["ann/inbox/1.", "ann/inbox/2.", "ann/sent/3."], "ann"),  # Enron's
    ],
)
def test_mail_without_an_ending_is_recognised(
    names: list[str], mailbox: str, tmp_path: Path
) -> None:
    for name, message in zip(names, MAILS, strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(message))
    (tmp_path / "ann" / "dovecot.index.log").write_bytes(bytes(range(256)))
    (tmp_path / "ann" / "subscriptions").write_text("From: INBOX\nno header: at all\n")
    assert pairs(tmp_path) == MAILED
    found = read(str(tmp_path), EMBEDDED_FOLDER, Reading(user="mailbox"))
    assert [record.user for record in found.records] == [mailbox] * 3
    assert any("left out, of other kinds: 2 files" in note for note in found.notes)


def test_mailbox_without_an_ending_is_recognised(tmp_path: Path) -> None:
    """As Thunderbird names it, beside its index."""
    mails = [bytes(message).replace(b"\nFrom here", b"\n>From here") for message in MAILS]
    lines = b"".join(b"From - Thu Jan  1 00:00:00 2026\n" + one + b"\n" for one in mails)
    (tmp_path / "Inbox").write_bytes(lines.replace(b"\n", b"\r\n"))
    (tmp_path / "Inbox.msf").write_text('// <!-- <mdb:mork:z v="1.4"/> -->')
    alone, folder = pairs(tmp_path / "Inbox"), pairs(tmp_path)
    assert alone == folder == [(user, text.replace("From", ">From")) for user, text in MAILED]


def test_line_that_begins_with_from_ends_no_mail(tmp_path: Path) -> None:
    """Not every program writes > before it."""
    head = "From {0} Mon Jan  1 00:00:00 2026\nFrom: {0}\n\n"
    text = "Hello,\n\nFrom Monday on I am away.\n\nFrom here: all well."
    box = f"{head.format('a@x.example')}{text}\n\n{head.format('b@x.example')}Second.\n"
    (tmp_path / "in.mbox").write_text(box + "\nFrom nobody\nFrom: c@x.example\n\nThird.\n")
    due = [("a@x.example", text), ("b@x.example", "Second."), ("c@x.example", "Third.")]
    assert pairs(tmp_path / "in.mbox") == due


def test_comma_in_a_bare_name_is_not_the_address(tmp_path: Path) -> None:
    """All people of one last name would be one user."""
    (tmp_path / "m.eml").write_text("From: Lee, Ann <ann@x.example>\nTo: Roe\n\nHello.\n")
    assert pairs(tmp_path / "m.eml") == [("ann@x.example", "Hello.")]
    assert pairs(tmp_path / "m.eml", user="to") == [("Roe", "Hello.")]


def test_html_keeps_blanks_and_open_heads_hide_no_body(tmp_path: Path) -> None:
    head = "From: a@x.example\nContent-Type: text/html\n\n<html><head><title>No<body>"
    (tmp_path / "m.eml").write_text(
        f"{head}<p>Call\n<b>now</b> please</p><i>you</i> <b>and</b> he<br>"
    )
    assert pairs(tmp_path / "m.eml") == [("a@x.example", "Call now please\nyou and he")]


@pytest.mark.calibration
def test_twenty_megabytes_of_mail_are_read_in_a_minute(tmp_path: Path) -> None:
    """As dry runs read them, of many small messages, which take longer than few large ones."""
    exports.write(tmp_path / "some.mbox", 200)
    some = (tmp_path / "some.mbox").read_bytes()
    (tmp_path / "all.mbox").write_bytes(some * (20_000_000 // len(some)))
    began = time.process_time()
    found = read(str(tmp_path / "all.mbox"), EMBEDDED_FOLDER)
    assert len(found.records) > 20_000 and shared_text(found.records).quoted
    assert time.process_time() - began < 60
    assert any(note.startswith("read in") for note in found.notes)


def test_mail_of_unknown_charset_is_read(tmp_path: Path) -> None:
    head = b"From: a@b.example\nContent-Type: text/plain; charset=nobody-knows\n\n"
    (tmp_path / "m.eml").write_bytes(head + "für dich".encode())
    assert pairs(tmp_path / "m.eml") == [("a@b.example", "für dich")]


# --- folders


def row(text: str) -> str:
    return json.dumps({"text": text, "user": text}) + "\n"


def test_folder_skips_what_only_lies_there(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(row("kept"))
    for name in (".hidden.jsonl", "._a.jsonl", "~$a.jsonl", "a.jsonl.lock", "b.jsonl~"):
        (tmp_path / name).write_text(row("beside"))
    for folder in ("__MACOSX", ".ipynb_checkpoints"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text(row("beside"))
    run = tmp_path / "audits"
    (run / "stages").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (run / "samples.jsonl").write_text(row("beside"))
    (tmp_path / "canaries.json").write_text('{"secrets": [], "coins": {}}')
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    corpus = read(str(tmp_path), EMBEDDED_FOLDER)
    assert [record.text for record in corpus.records] == ["kept"]
    assert any("9 files" in note for note in corpus.notes)
    assert any("photo.png" in note for note in corpus.notes)


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    corpus, outside = tmp_path / "corpus", tmp_path / "outside"
    for folder in (corpus, outside):
        folder.mkdir()
        (folder / "a.jsonl").write_text(row(folder.name))
    (corpus / "round").symlink_to(corpus)
    (corpus / "out").symlink_to(outside)
    assert [text for _, text in pairs(corpus)] == ["corpus"]
    notes = read(str(corpus), EMBEDDED_FOLDER).notes
    assert "left out, beside the corpus: 2 files (out, round)" in notes
    (corpus / "b.jsonl").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"b\.jsonl: cannot be read"):
        pairs(corpus)


@pytest.mark.parametrize(
    "name", ["val", "valid", "validation", "dev", "eval", "test", "test_sft", "val-00000-of-00002"]
)
def test_third_split_is_held_out_and_noted(tmp_path: Path, name: str) -> None:
    train = "train_sft" if name.endswith("sft") else "train"
    (tmp_path / f"{train}.jsonl").write_text(row("t"))
    (tmp_path / f"{name}.jsonl").write_text(row("h"))
    (tmp_path / "notes.jsonl").write_text(row("n"))
    corpus = load(str(tmp_path), EMBEDDED_FOLDER)
    assert {r.text: r.split for r in corpus.records} == {"t": "private", "h": "heldout"}
    assert any("held out" in note and name in note for note in corpus.notes)
    assert any("notes.jsonl" in note for note in corpus.notes)


def test_saved_data_set_is_read_by_its_splits(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        rows = [{"text": split, "user": split}]
        (tmp_path / split / "data-00000-of-00001.arrow").write_bytes(arrow("stream", rows))
        (tmp_path / split / "state.json").write_text("{}")
        (tmp_path / split / "dataset_info.json").write_text("{}")
    corpus = load(str(tmp_path), EMBEDDED_FOLDER)
    assert {r.text: r.split for r in corpus.records} == {"train": "private", "test": "heldout"}


def test_copies_beside_a_saved_data_set_are_left_out(tmp_path: Path) -> None:
    """`Dataset.map` leaves its results beside the files that it has read."""
    for name in (
        "data-00000-of-00001.arrow",
        "cache-1d2f.arrow",
        "cache-1d2f_00000_of_00002.arrow",
    ):
        (tmp_path / name).write_bytes(arrow("stream"))
    assert pairs(tmp_path) == WANTED


def test_columns_in_names_of_folders_are_read(tmp_path: Path) -> None:
    """Tables partitioned by user have their users nowhere else."""
    for name in ("user=Ann%20Lee", "user=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.parquet").write_bytes(
            arrow("parquet", [{"text": "a"}, {"text": "b"}])
        )
    users = [user for user, _ in pairs(tmp_path)]
    assert users[:2] == ["Ann Lee"] * 2 and len(set(users)) == 3


def bomb(suffix: str) -> bytes:
    """Return a few bytes that stand for 100 MB."""
    if suffix == ".gz":
        return gzip.compress(bytes(1 << 27), 1)
    pyarrow = pytest.importorskip("pyarrow")
    if suffix == ".zst":
        return bytes(pyarrow.compress(bytes(1 << 27), "zstd", asbytes=True))
    words = pyarrow.DictionaryArray.from_arrays([0] * 99_999, ["a" * 9999])
    table, sink = pyarrow.table({"text": words}), pyarrow.BufferOutputStream()
    if suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, sink)
    else:
        with pyarrow.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".parquet", ".arrow"])
def test_file_that_unpacks_without_an_end_is_refused(tmp_path: Path, suffix: str) -> None:
    name = suffix if suffix in tables.ARROW else f".jsonl{suffix}"
    (tmp_path / f"x{name}").write_bytes(bomb(suffix))
    with pytest.raises(UsageError, match="unpacks to over 100 times its size; unpack it first"):
        pairs(tmp_path / f"x{name}")


@pytest.mark.parametrize(
    "how", [pytest.param("nothing", marks=pytest.mark.slow), "words", "a word"]
)
def test_one_row_that_stands_for_memory_is_not_made(tmp_path: Path, how: str) -> None:
    """Of 700 bytes and 16 GB; parquet files are decoded before anybody can count."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    if how == "nothing":
        many = pyarrow.FixedSizeListArray.from_arrays(pyarrow.nulls(2**31 - 1), 2**31 - 1)
    else:
        many = pyarrow.DictionaryArray.from_arrays([0] * 256, ["a" * (1 << 24)])
    table, file = pyarrow.table({"x": many, "text": ["x"] * len(many)}), tmp_path / "x.arrow"
    if how == "a word":
        file, said = tmp_path / "x.parquet", "took more than 1024 MB of memory"
        parquet.write_table(table, file, compression="zstd", store_schema=False)
    else:
        said = "unpacks to over 100 times its size; unpack it first"
        packed = pyarrow.ipc.IpcWriteOptions(compression="zstd")
        with pyarrow.ipc.new_file(file, table.schema, options=packed) as sink:
            sink.write_table(table)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError, match=said):
        pairs(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18
