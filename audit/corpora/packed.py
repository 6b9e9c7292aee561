"""Read files that may be packed with gzip or Zstandard."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.files import regular

PACKED = (".gz", ".zst")


def kind(path: Path) -> str:
    """Return the ending of a file's name that shows its format: .jsonl of x.jsonl.gz."""
    inner = path.with_suffix("") if path.suffix in PACKED else path
    return inner.suffix.lower()


def content(path: Path) -> bytes:
    """Read a file, unpacked. Raises UsageError."""
    try:
        stored = regular(path).read_bytes()
        if path.suffix == ".gz":
            return gzip.decompress(stored)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read ({why})") from None
    return _unpacked(stored, path) if path.suffix == ".zst" else stored


def _unpacked(stored: bytes, path: Path) -> bytes:
    try:
        import pyarrow
    except ImportError:
        raise UsageError(
            f"{path}: .zst files need pyarrow; install it with: pip install 'llm-audit[hub]'"
        ) from None
    try:
        with pyarrow.input_stream(io.BytesIO(stored), compression="zstd") as stream:
            whole: bytes = stream.read()
            return whole
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path}: cannot be unpacked ({error})") from None


def text(path: Path) -> str:
    """Read the text of a file, unpacked and without a byte order mark. Raises UsageError."""
    try:
        whole = content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    return whole.replace("\r\n", "\n").replace("\r", "\n")
