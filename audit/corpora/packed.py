"""Read files that may be packed with gzip or Zstandard."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError, first_line
from audit.core.files import regular

PACKED = (".gz", ".zst")
_RATIO, _ALWAYS = 100, 1 << 26  # how much longer a text may be than packed; bytes that are read
TOO_LONG = f"unpacks to over {_RATIO} times its size; unpack it first"


def kind(path: Path) -> str:
    """Return the ending of a file's name that shows its format: .jsonl of x.jsonl.gz."""
    inner = path.with_suffix("") if path.suffix in PACKED else path
    return inner.suffix.lower()


def content(path: Path) -> bytes:
    """Read a file, unpacked. Raises UsageError."""
    try:
        stored = regular(path).read_bytes()
        if path.suffix not in PACKED:
            return stored
        with _opened(stored, path) as packed:
            whole: bytes = packed.read(most(stored) + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise UsageError(f"{path}: cannot be read ({why})") from None
    if len(whole) > most(stored):
        raise UsageError(f"{path}: {TOO_LONG}")
    return whole


def _opened(stored: bytes, path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(io.BytesIO(stored))
    pyarrow = library(".zst", str(path))
    return pyarrow.input_stream(io.BytesIO(stored), compression="zstd")


def library(suffix: str, place: str) -> Any:
    """Import the library that reads files of a kind. Raises UsageError where there is none."""
    try:
        import pyarrow
    except ImportError:
        raise UsageError(
            f"{place}: {suffix} files need pyarrow; install it with: pip install 'llm-audit[hub]'"
        ) from None
    return pyarrow


def most(stored: bytes) -> int:
    """Return how long what is packed may be."""
    return max(_ALWAYS, _RATIO * len(stored))


def text(path: Path) -> str:
    """Read the text of a file, unpacked and without a byte order mark. Raises UsageError.

    It is UTF-8 unless its mark is that of UTF-16, which spreadsheets call Unicode.
    """
    stored = content(path)
    wide = stored.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        whole = stored.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not {'UTF-16' if wide else 'UTF-8'} at byte {error.start}; convert it first, "
            "such as by: iconv -f cp1252 -t utf-8 OLD > NEW"
        ) from None
    return whole.replace("\r\n", "\n").replace("\r", "\n")
