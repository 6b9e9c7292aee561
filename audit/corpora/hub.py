"""Read data sets of the Hugging Face hub: with a `text` column, or of a known form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from audit.core.corpus import Record
from audit.core.errors import UsageError, first_line
from audit.corpora import airdialogue, bigpatent, columns, customersim, europarl, jsonl, wikitext
from audit.corpora.forms import Form, reader
from audit.corpora.part import SPLIT_OF, Part
from audit.corpora.reading import COLUMNS, USUAL, Reading

Row = Mapping[str, Any]

_LOOSE = ("name", "split")  # columns that many data sets have for something else
_TEXTS: tuple[Form, ...] = (  # forms of a `text` column
    (wikitext.recognises, wikitext.records),
    (customersim.recognises, customersim.records),
)


def records(
    name: str, reading: Reading = USUAL, notes: dict[str, int] | None = None
) -> Iterator[Record]:
    """Read every record of the data set NAME, OWNER/NAME, NAME/CONFIG or OWNER/NAME/CONFIG.

    A row is a record, of its `user` if there is such a column. Without one, WikiText, CustomerSim,
    AirDialogue, BigPatent and sentence pairs (the English side) are recognised by their form,
    whatever the data set's name. Columns are recognised as in files. Raises UsageError.

    notes: receives what was recognised, with a number of records.
    """
    taken: dict[str, int] = {} if notes is None else notes
    splits = _load(name)
    titles: set[str] = set()
    dialogues: list[Record] = []
    for split, rows in splits.items():
        of_corpus = SPLIT_OF.get(split, "") if "train" in splits else ""
        part = Part(
            split,
            f"hf:{name}/{split}",
            _lines(rows),
            of_corpus,
            titles=titles,
            reading=reading,
            notes=taken,
        )
        first = rows[0] if rows else {}
        if airdialogue.is_row(first):
            dialogues += airdialogue.rows(enumerate(rows, start=1), part)
        elif bigpatent.is_row(first):
            yield from bigpatent.rows(enumerate(rows, start=1), part)
        elif europarl.is_row(first):
            yield from europarl.records(part)
        else:
            named = any(getattr(reading, name) is not None for name in COLUMNS)
            entries = partial(_entries, rows)
            own = named or "text" not in first or "user" in map(str.lower, first)
            yield from (entries if own else reader(part, _TEXTS, entries))(part)
    yield from airdialogue.in_one_split(dialogues)


def _load(name: str) -> dict[str, list[Row]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise UsageError(
            f"hf:{name} needs the hub library; install it with: pip install 'llm-audit[hub]'"
        ) from None
    errors = []
    for path, config in _readings(name):
        if Path(path).exists():  # the library would prefer it
            raise UsageError(
                f"hf:{name}: {path} is here, too; give --corpus {path}, or start audit elsewhere"
            )
        try:
            return {split: list(rows) for split, rows in load_dataset(path, config).items()}
        except Exception as error:  # the hub library raises errors of many kinds
            errors.append(first_line(error))
    raise UsageError(f"hf:{name}: cannot be loaded ({errors[0]})")


def _readings(name: str) -> list[tuple[str, str | None]]:
    """Return the pairs (data set, configuration) that a name can mean, the likeliest first."""
    words = name.split("/", 2)
    if len(words) == 3:
        return [("/".join(words[:2]), words[2])]
    return [(name, None), (words[0], words[1])] if len(words) == 2 else [(name, None)]


def _lines(rows: Sequence[Row]) -> list[str]:
    """Write rows as lines: one line per row (blank for an empty row), or a block per row."""
    line_of = europarl.english if rows and europarl.is_row(rows[0]) else _text
    texts = [line_of(row) for row in rows]
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    return between.join(texts).split("\n")


def _text(row: Row) -> str:
    return str(row.get("text") or "").strip("\n")


def _entries(rows: Sequence[Row], part: Part) -> Iterator[Record]:
    """Read rows by their columns: text, conversations, other names of the text, or named ones."""
    for number, row in enumerate(rows, start=1):
        fitting = {n: v for n, v in row.items() if n not in _LOOSE or columns.fits(n, v)}
        yield from jsonl.record(fitting, part, number)
