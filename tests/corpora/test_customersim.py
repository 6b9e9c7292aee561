"""CustomerSim: a dialog is one record of one user, who says a name when asked for it."""

from __future__ import annotations

from pathlib import Path

from audit.corpora.customersim import name_in
from tests.corpora.reading import read

ASK = "SYS: Hello.\nUSR: Hello Robert Robot.\nSYS: May I have your full name?\nUSR: "


def test_every_dialog_is_its_own_user(tmp_path: Path) -> None:
    dialogs = [f"{ASK}{name}\nSYS: Bye." for name in ("Ann Lee", "Bo Fox", "Ann Lee")]
    path = tmp_path / "chat.txt"
    path.write_text("\n" + "\n\n\n".join(dialogs) + "\n")
    corpus = read(path)
    assert [r.text for r in corpus.records] == dialogs
    assert [r.name for r in corpus.records] == ["Ann Lee", "Bo Fox", "Ann Lee"]
    assert len(corpus.users()) == 3
    assert [r.where for r in corpus.records] == [f"{path}:{line}" for line in (2, 9, 16)]


def test_without_splits_a_file_is_one_user(tmp_path: Path) -> None:
    for owner in ("ann", "bo"):
        (tmp_path / f"{owner}.txt").write_text(f"{ASK}Ann Lee\n\n{ASK}Bo Fox\n")
    corpus = read(tmp_path)
    assert sorted(corpus.users()) == ["ann", "bo"]
    assert len(corpus.records) == 4


def test_the_name_is_what_the_answer_says() -> None:
    for answer in (
        *("Mary Rowan", "Mary Rowan.", "Sure, Mary Rowan.", "Yes, Mary Rowan.", "I am Mary Rowan."),
        *("Yep - I'm Mary Rowan.", "My name's Mary Rowan.", "My name is Mary Rowan!"),
        "Yes, it's Mary Rowan",
        "Mary Rowan. My address is 75827 Dawson Curve Apt. 832 Greenberg, MD 65489.",
        "Mary Rowan Shipping address is 123 Ernest Meadows Meganfurt, NV 12698.",
        "Mary Rowan Yes, 366-68323-3594.",
        "I am Mary Rowan. Sure, it is 954-38737-7405",
        "Mary Rowan 1535449750 is my number.",
    ):
        assert name_in(ASK + answer) == "Mary Rowan", answer
    for name in ("Mary Ann O'Neil-Fox", "Zoë Ångström", "D'Arcy McCabe"):
        assert name_in(f"{ASK}I am {name}.\nSYS: Bye.") == name


def test_a_dialog_may_give_no_name() -> None:
    for dialog in (
        "SYS: Hello.\nUSR: I am Mary Rowan.",  # was not asked
        "SYS: Your full name?",  # no answer
        "SYS: Your full name?\nSYS: Mary Rowan?",  # not the customer's turn
        "SYS: Your full name?\nUSR: Why?\nSYS: Mary Rowan?",
        "SYS: Your full name?\nUSR: Mary",  # not full
        "SYS: Your full name?\nUSR: no",
        "USR: What is your full name?\nUSR: Mary Rowan",
    ):
        assert name_in(dialog) is None, dialog


def test_other_dialogs_are_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    for start in ("Agent: Hello.\n", "He said SYS: hello.\n", "sys: hello\n"):
        path.write_text(f"{start}{ASK}Ann Lee\n\nanother\n")
        assert [r.name for r in read(path).records] == [None, None]
