"""Read tables as lines of JSON: CSV, TSV, JSON arrays, parquet and Arrow."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from audit.core.errors import UsageError, first_line
from audit.corpora import packed

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ARROW = (".parquet", ".arrow", ".feather")
FILE = "rows.jsonl"  # the name of the lines of a table, by which they are known as JSON
_OTHERS = ";\t|"  # what spreadsheets put between cells where a comma is a decimal sign
_ROWS = 256  # that are read together
_A_VALUE = 8  # characters at least, as which each value counts
_LONGEST = 1 << 30  # characters of a cell; the library's own limit is 131,072


def lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Write each row as a line of JSON; what JSON has no form for, such as a date, as text."""
    return [json.dumps(row, default=_plain, ensure_ascii=False) for row in rows]


def _plain(cell: Any) -> Any:
    """Read bytes as UTF-8, and as nobody's text or id where they are not; write others as text."""
    if not isinstance(cell, bytes):
        return str(cell)
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": cell.hex()}


def separated(text: str, delimiter: str, place: str) -> Iterator[dict[str, str | None]]:
    """Read the rows below a header line; an empty cell is None. Raises UsageError."""
    csv.field_size_limit(_LONGEST)
    delimiter, text = _delimiter(text, delimiter)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        _check_names(header, f"{place}:1")
        for row in reader:
            if row and len(row) != len(header):
                raise UsageError(
                    f"{place}:{reader.line_num}: cells: {len(row)} here, {len(header)} in "
                    "the header"
                )
            if row:
                yield {name: cell or None for name, cell in zip(header, row, strict=True)}
    except csv.Error as error:
        raise UsageError(
            f"{place}:{reader.line_num}: cannot be read as a table ({error})"
        ) from None


def _delimiter(text: str, usual: str) -> tuple[str, str]:
    """Find what stands between cells: the usual sign, unless the header has another and not it.

    Returns it with the text below a line `sep=…`, by which spreadsheets state theirs.
    """
    header, _, below = text.partition("\n")
    if header.startswith("sep=") and len(header) == 5:
        return header[-1], below
    names = re.sub('"[^"]*"', "", header)
    return next((sign for sign in _OTHERS if sign in names and usual not in names), usual), text


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its names and values. Raises UsageError for a name that stands twice."""
    named: dict[str, Any] = {}
    for name, value in pairs:
        if name in named:
            raise UsageError(f"has {name!r} twice; keep one of them")
        named[name] = value
    return named


def array(text: str, place: str) -> list[dict[str, Any]] | None:
    """Read a JSON array of objects; None where the text does not begin as one.

    Raises UsageError.
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        rows = json.loads(text, object_pairs_hook=unique)
    except UsageError as error:
        raise UsageError(f"{place}: an object {error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{place}:{error.lineno}: broken JSON ({error.msg} at column {error.colno})"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{place}: broken JSON (too many digits or brackets)") from None
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise UsageError(
                f"{place}: element {number} is not an object with a 'text' but a "
                f"{type(row).__name__}"
            )
    return list(rows)


def arrow(content: bytes, suffix: str, place: str) -> list[dict[str, Any]]:
    """Read the rows of a parquet or Arrow file. Raises UsageError.

    A few bytes may stand for a thousand rows, so it has so many characters at most.
    """
    rows: list[dict[str, Any]] = []
    left = packed.most(content)
    for batch in batches(content, suffix, place):
        rows += (new := batch.to_pylist())
        left -= sum(len(str(row)) for row in new)
        if left < 0:
            raise UsageError(f"{place}: {packed.TOO_LONG}")
    return rows


def batches(content: bytes, suffix: str, place: str) -> Iterator[Any]:
    """Yield the rows of a parquet or Arrow file, some at a time.

    Raises UsageError, or MemoryError where the library can make no more.
    """
    pyarrow = packed.library(suffix, place)
    from pyarrow import ipc, parquet

    try:
        whole: Any
        if suffix == ".parquet":
            file = parquet.ParquetFile(io.BytesIO(content))
            names, whole = file.schema_arrow.names, file.iter_batches(_ROWS)
        elif content.startswith(b"ARROW1"):
            reader = ipc.open_file(io.BytesIO(content))
            names = reader.schema.names
            whole = map(reader.get_batch, range(reader.num_record_batches))
        else:
            whole = ipc.open_stream(io.BytesIO(content))
            names = whole.schema.names
        _check_names(names, place)
        yield from _bounded(whole, packed.most(content), place)
    except MemoryError:  # of the library, too
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{place}: cannot be read as {suffix[1:]} ({first_line(error)})") from None


def _check_names(names: Sequence[str], place: str) -> None:
    if len(set(names)) < len(names):
        raise UsageError(f"{place}: two columns have the same name; rename one")


def _bounded(batches: Iterable[Any], most: int, place: str) -> Iterator[Any]:
    """Cut batches into parts of a few rows; each may stand for so many characters at most."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            if sum(map(_size, part.columns)) > most:
                raise UsageError(f"{place}: {packed.TOO_LONG}")
            yield part


def _size(column: Any) -> int:
    """Count the characters that a column stands for, and several for each value, at any depth.

    Few bytes may stand for many: constants, and words of a dictionary.
    """
    import pyarrow
    from pyarrow import compute, types

    kind = column.type
    least: int = _A_VALUE * len(column)
    if isinstance(column, pyarrow.ExtensionArray):
        return _size(column.storage)
    if types.is_dictionary(kind) and _is_text(kind.value_type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return least + int(compute.sum(lengths).as_py() or 0)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        few = column.dictionary if types.is_dictionary(kind) else column.values
        return least + len(column) * _size(few)
    if types.is_struct(kind):
        return least + sum(map(_size, column.flatten()))
    if types.is_map(kind):
        place = slice(column.offsets[0].as_py(), column.offsets[-1].as_py())
        return least + _size(column.keys[place]) + _size(column.items[place])
    if str(kind).endswith("_view"):  # of texts, which may be one and the same
        return least + sum(int(one.as_buffer().size) for one in column if one.is_valid)
    if types.is_nested(kind) and hasattr(column, "flatten"):  # lists of all kinds
        return least + _size(column.flatten())
    if _is_text(kind):
        least += int(compute.sum(compute.binary_length(column)).as_py() or 0)
    return least


def _is_text(kind: Any) -> bool:
    return str(kind).endswith(("string", "binary"))
