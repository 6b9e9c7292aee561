"""Read data sets of the Hugging Face hub: with a `text` column, or of a known form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from audit.core.corpus import Record
from audit.core.errors import UsageError, first_line
from audit.corpora import columns, customersim, europarl, forms, tables, wikitext
from audit.corpora.part import SPLIT_OF, Part
from audit.corpora.reading import COLUMNS, USUAL, Reading

Row = Mapping[str, Any]

_LOOSE = ("name", "split")  # columns that many data sets have for something else


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
    make = partial(Part, titles=set[str](), reading=reading, notes=taken)
    splits = _load(name)
    parts = []
    for split, rows in splits.items():
        of_corpus = SPLIT_OF.get(split, "") if "train" in splits else ""
        lines, file = _content(rows, reading)
        parts.append(make(split, f"hf:{name}/{split}", lines, of_corpus, file=file))
    yield from forms.records(parts)


def _content(rows: Sequence[Row], reading: Reading) -> tuple[list[str], str]:
    """Write rows as a file's lines, of text or of JSON, with the name that shows which."""
    first = rows[0] if rows else {}
    if europarl.is_row(first):
        return _lines(rows, europarl.english), "pairs.en"
    named = any(getattr(reading, name) is not None for name in COLUMNS)
    if "text" in first and "user" not in map(str.lower, first) and not named:
        lines = _lines(rows, _text)
        text = Part("", "", lines)
        if wikitext.recognises(text) or customersim.recognises(text):
            return lines, ""
    fitting = (
        {n: v for n, v in row.items() if n not in _LOOSE or columns.fits(n, v)} for row in rows
    )
    return tables.lines(fitting), tables.FILE


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


def _lines(rows: Sequence[Row], text_of: Callable[[Row], str]) -> list[str]:
    """Write rows as lines: one line per row (blank for an empty row), or a block per row."""
    texts = [text_of(row) for row in rows]
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    return between.join(texts).split("\n")


def _text(row: Row) -> str:
    return str(row.get("text") or "").strip("\n")
