"""The hub, played by a module of ours: names, splits, forms, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora.loading import load

Hub = dict[tuple[str, str | None], dict[str, list[dict[str, Any]]]]
DIALOG = "SYS: Your full name?\nUSR: {}\nSYS: Bye."


def read(name: str) -> Corpus:
    return load(f"hf:{name}", EMBEDDED_FOLDER)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hub], list[Any]]:
    """hub(data sets): puts them on a hub; returns what will have been asked for."""

    def make(known: Hub) -> list[Any]:
        asked: list[Any] = []

        def load_dataset(path: str, name: str | None = None) -> Any:
            asked.append((path, name))
            if (path, name) not in known:
                raise ValueError(f"no {path} with {name}\nsecond line")
            return known[path, name]

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
        return asked

    return make


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
    corpus = read("mail")
    assert [(r.user, r.text, r.name, r.split) for r in corpus.records] == [
        ("0", "one", "Ann", "private"),
        ("train-3", "two\n\nmore", None, "private"),
        ("test-0", "three", None, "heldout"),
        ("extra-0", "four", None, "private"),
    ]
    assert corpus.name == "hf:mail"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("mail", ("mail", None)),
        ("owner/mail", ("owner/mail", None)),
        ("mail/small", ("mail", "small")),
        ("owner/mail/small", ("owner/mail", "small")),
        ("owner/mail/a/b", ("owner/mail", "a/b")),
    ],
)
def test_a_name_may_have_an_owner_and_a_configuration(
    hub: Any, name: str, key: tuple[str, str | None]
) -> None:
    asked = hub({key: {"train": texts("one", "two")}})
    assert len(read(name).records) == 2
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
    corpus = read(name)
    assert [(r.user, r.text) for r in corpus.of("private")] == [
        ("Elm", "A tree ."), ("Elm", "= 2 tall ="), ("Elm", "Grey ."), ("Ash", "Pale ."),
    ]  # fmt: skip
    assert [r.text for r in corpus.of("heldout")] == ["Old .", "Another ."]
    assert len(corpus.users()) == 4


@pytest.mark.parametrize("lines", [False, True])
def test_dialogs_come_one_a_row_or_line_by_line(hub: Any, lines: bool) -> None:
    dialogs = [DIALOG.format(name) for name in ("Ann Lee", "Bo Fox", "Cy Orr")]
    rows = "\n\n".join(dialogs).split("\n") if lines else dialogs
    hub({("owner/customersim", None): {"train": texts(*rows)}})
    corpus = read("owner/customersim")
    assert [r.text for r in corpus.records] == dialogs
    assert [r.name for r in corpus.records] == ["Ann Lee", "Bo Fox", "Cy Orr"]


def test_users_of_the_data_go_before_their_form(hub: Any) -> None:
    rows = [{"text": DIALOG.format("Ann Lee"), "user": "a"} for _ in range(3)]
    hub({("chat", None): {"train": rows}})
    assert read("chat").users() == ("a",)


def test_what_the_hub_refuses_is_one_line(hub: Any) -> None:
    hub({})
    with pytest.raises(UsageError, match=r"^hf:own/data: cannot be loaded \(no own/data with None"):
        read("own/data")
    with pytest.raises(UsageError) as raised:
        read("data")
    assert "\n" not in str(raised.value)


def test_a_data_set_without_text_is_refused(hub: Any) -> None:
    hub({("images", None): {"train": [{"image": 1}]}})
    with pytest.raises(UsageError, match="hf:images/train:1: the record has no 'text'"):
        read("images")


def test_without_the_hub_library_the_way_to_get_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match="pip install"):
        read("mail")
