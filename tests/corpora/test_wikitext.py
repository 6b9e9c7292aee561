"""WikiText: articles are users, paragraphs are records, headings are neither."""

from __future__ import annotations

from pathlib import Path

from tests.corpora.reading import read

ARTICLES = " \n".join(
    [
        *("", " = The Otter =", "", " An otter swims .", " It eats fish ; 1 + 1", " = 2 , and x ="),
        *(" 3 .", "", "", " = = Diet = =", "", "", " = = = Winter diet = = =", ""),
        *(" Ice is no bar .", "", " = A = B ( song ) =", "", " La .", ""),
    ]
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_paragraph_is_a_record_of_its_article(tmp_path: Path) -> None:
    corpus = read(written(tmp_path / "wiki.txt", ARTICLES))
    assert [(r.user, r.text) for r in corpus.records] == [
        ("The Otter", "An otter swims ."),
        ("The Otter", "It eats fish ; 1 + 1"),
        ("The Otter", "= 2 , and x ="),  # a broken equation, not an article
        ("The Otter", "3 ."),
        ("The Otter", "Ice is no bar ."),
        ("A = B ( song )", "La ."),
    ]


def test_a_record_knows_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "wiki.txt", ARTICLES)
    lines = path.read_text(encoding="utf-8").split("\n")
    for record in read(path).records:
        place, _, number = record.where.rpartition(":")
        assert (place, lines[int(number) - 1].strip()) == (str(path), record.text)


def test_two_articles_of_one_title_are_two_users(tmp_path: Path) -> None:
    again = " = Elm = \n\n one \n\n = Elm = \n\n two \n\n = Elm (2) = \n\n three \n"
    corpus = read(written(tmp_path / "wiki.txt", again))
    assert [r.text for r in corpus.records] == ["one", "two", "three"]
    assert len(corpus.users()) == 3
    assert corpus.users()[0] == "Elm"


def test_without_splits_articles_are_users_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / f"{name}.txt", f" = {name} one = \n\n x \n\n = {name} two = \n\n y \n")
    assert set(read(tmp_path).users()) == {"a one", "a two", "b one", "b two"}


def test_text_without_a_title_first_is_plain(tmp_path: Path) -> None:
    starts = ("= = Section = =", "= Title =\nfollowed at once", "Words.\n\n= Title =", "=")
    for start in starts:
        corpus = read(written(tmp_path / "plain.txt", f"{start}\n\none\ntwo\n"))
        assert corpus.records[0].text == start.split("\n\n")[0]
        assert corpus.records[-1].text == "one\ntwo"


def test_an_article_without_a_paragraph_is_no_user(tmp_path: Path) -> None:
    corpus = read(written(tmp_path / "wiki.txt", " = A = \n\n = B = \n\n b \n\n = C = \n\n c\n"))
    assert corpus.users() == ("B", "C")
