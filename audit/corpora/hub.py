"""Data sets of the Hugging Face hub, by name: with a `text` column, or of a form known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.core.corpus import Record
from audit.core.errors import UsageError, first_line
from audit.corpora import airdialogue, customersim, europarl, text, wikitext
from audit.corpora.part import SPLIT_OF, Part

Row = Mapping[str, Any]


def records(name: str) -> Iterator[Record]:
    """Every record of the data set NAME, OWNER/NAME, NAME/CONFIG or OWNER/NAME/CONFIG.

    A row is a record, of its `user` if there is such a column. Without one, WikiText, CustomerSim,
    AirDialogue and pairs of sentences (the English side) are known by their form, whatever their
    name. Raises UsageError.
    """
    splits = _load(name)
    articles: set[str] = set()
    dialogues: list[Record] = []
    for split, rows in splits.items():
        kept = SPLIT_OF.get(split, "") if "train" in splits else ""
        first = rows[0] if rows else {}
        if airdialogue.is_row(first):
            part = Part(split, f"hf:{name}/{split}", [], kept)
            dialogues += airdialogue.rows(enumerate(rows, start=1), part)
        elif europarl.is_row(first):
            lines = [europarl.english(row) for row in rows]
            yield from europarl.records(Part(split, f"hf:{name}/{split}", lines, kept))
        else:
            part = Part(split, f"hf:{name}/{split}", _lines(rows), kept)
            yield from _texts(rows, part, articles)
    yield from airdialogue.settled(dialogues)


def _texts(rows: Sequence[Row], part: Part, articles: set[str]) -> Iterator[Record]:
    plain = any("user" in row for row in rows[:1])
    if not plain and (wikitext.is_one(part) or customersim.is_one(part)):
        return text.records(part, articles)
    return _rows(rows, part.name, part.split)


def _load(name: str) -> dict[str, list[Row]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise UsageError(
            f"hf:{name} needs the hub library; install it with: pip install 'llm-audit[hub]'"
        ) from None
    refused = []
    for path, config in _meanings(name):
        try:
            return {split: list(rows) for split, rows in load_dataset(path, config).items()}
        except Exception as error:  # the hub library raises its own zoo of errors
            refused.append(first_line(error))
    raise UsageError(f"hf:{name}: cannot be loaded ({refused[0]})")


def _meanings(name: str) -> list[tuple[str, str | None]]:
    """(data set, configuration) that a name can stand for, the likeliest first."""
    words = name.split("/", 2)
    if len(words) == 3:
        return [("/".join(words[:2]), words[2])]
    return [(name, None), (words[0], words[1])] if len(words) == 2 else [(name, None)]


def _lines(rows: Sequence[Row]) -> list[str]:
    """The lines that rows are: one each (an empty row is a blank line), or a block each."""
    texts = [str(row.get("text") or "").strip("\n") for row in rows]
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    return between.join(texts).split("\n")


def _rows(rows: Sequence[Row], split: str, kept: str) -> Iterator[Record]:
    for number, row in enumerate(rows):
        said, user, name = row.get("text"), row.get("user"), row.get("name")
        if isinstance(said, str) and said.strip():
            user = f"{split}-{number}" if user is None else str(user)
            yield Record(user, said, name if isinstance(name, str) else None, kept)
