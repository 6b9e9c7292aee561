"""The hub, played by a module of ours: names, splits, forms, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.corpora.reading import Reading
from tests.corpora.reading import read
from tests.refusals import refusals

DIALOG = "SYS: Your full name?\nUSR: {}\nSYS: Bye."


def texts(*values: Any) -> list[dict[str, Any]]:
    return [{"text": value} for value in values]


def test_a_row_is_a_record(hub: Any) -> None:
    rows = [
        {"text": "one", "user": 0, "name": "Ann"},
        {"text": " ", "user": "b"},
        {"text": None, "user": "b"},
        {"text": "two\n\nmore", "user": None, "name": 3},
    ]
    hub({("mail", None): {"train": rows, "test": texts("three"), "extra": texts("four")}})
    corpus = read("hf:mail")
    assert [(r.user, r.text, r.name, r.split) for r in corpus.records] == [
        ("0", "one", "Ann", "private"),
        ("train-4", "two\n\nmore", None, "private"),
        ("test-1", "three", None, "heldout"),
        ("extra-1", "four", None, "private"),
    ]
    assert corpus.name == "hf:mail"


def test_a_name_may_have_owner_and_configuration(hub: Any) -> None:
    for name, key in (
        ("mail", ("mail", None)),
        ("owner/mail", ("owner/mail", None)),
        ("mail/small", ("mail", "small")),
        ("owner/mail/small", ("owner/mail", "small")),
        ("owner/mail/a/b", ("owner/mail", "a/b")),
    ):
        asked = hub({key: {"train": texts("one", "two")}})
        assert len(read(f"hf:{name}").records) == 2
        assert asked[-1] == key


WIKI = [
    "",
    " = Elm = \n",
    "",
    " A tree . \n",
    " = 2 tall = \n",
    "",
    " = = Bark = = \n",
    "",
    " Grey . \n",
]


@pytest.mark.parametrize("name", ["wikitext/wikitext-2-raw-v1", "Salesforce/wikitext/wikitext-2"])
def test_lines_of_wikitext_are_put_together_to_articles(hub: Any, name: str) -> None:
    path, _, config = name.rpartition("/")
    hub({(path, config): {
        "test": texts("", " = Oak = \n", "", " Old . \n"),
        "train": texts(*WIKI, "", " = Ash = \n", "", " Pale . \n"),
        "validation": texts("", " = Elm = \n", "", " Another . \n"),
    }})  # fmt: skip
    corpus = read(f"hf:{name}")
    assert [(r.user, r.text) for r in corpus.of("private")] == [
        ("Elm", "A tree ."), ("Elm", "= 2 tall ="), ("Elm", "Grey ."), ("Ash", "Pale ."),
    ]  # fmt: skip
    assert [r.text for r in corpus.of("heldout")] == ["Old .", "Another ."]
    assert len(corpus.users()) == 4


@pytest.mark.parametrize("lines", [False, True])
def test_dialogs_come_by_row_or_line(hub: Any, lines: bool) -> None:
    dialogs = [DIALOG.format(name) for name in ("Ann Lee", "Bo Fox", "Cy Orr")]
    rows = "\n\n".join(dialogs).split("\n") if lines else dialogs
    hub({("owner/customersim", None): {"train": texts(*rows)}})
    corpus = read("hf:owner/customersim")
    assert [r.text for r in corpus.records] == dialogs
    assert [r.name for r in corpus.records] == ["Ann Lee", "Bo Fox", "Cy Orr"]


def test_users_of_the_data_go_before_their_form(hub: Any) -> None:
    rows = [{"text": DIALOG.format("Ann Lee"), "user": "a"} for _ in range(3)]
    hub({("chat", None): {"train": rows}})
    assert read("hf:chat").users() == ("a",)


@pytest.mark.parametrize("column, user", [("User", None), ("customer", "customer")])
def test_user_of_a_row_is_the_column_that_was_recognised_or_said(
    hub: Any, column: str, user: str | None
) -> None:
    rows = [{"text": DIALOG.format(name), column: "a"} for name in ("Ann Lee", "Bo Fox")]
    hub({("chat", None): {"train": rows}})
    assert read("hf:chat", Reading(user=user)).users() == ("a",)


def test_what_the_hub_has_not_is_refused(hub: Any) -> None:
    hub({("images", None): {"train": [{"image": 1}]}})
    refusals(
        read,
        [
            ("hf:own/data", "hf:own/data: cannot be loaded (no own/data with None"),
            ("hf:images", "hf:images/train:1: the record has no 'text'"),
        ],
    )


def test_folder_here_stands_in_for_no_data_set(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub({("mail", None): {"train": [{"text": "a"}]}})
    monkeypatch.chdir(tmp_path)
    assert len(read("hf:mail").records) == 1
    (tmp_path / "mail").mkdir()
    refusals(read, [("hf:mail", "hf:mail: mail is here, too; give --corpus mail")])


def test_without_the_hub_library_pip_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match="pip install"):
        read("hf:mail")
