"""Refuse GGUF files whose header would take more memory than the machine may have.

Its reader makes several objects of each value, so a header of zeros grows a hundredfold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_VALUES = 1 << 21  # in arrays: a vocabulary of 256,000 tokens has a million
_ENTRIES = 1 << 16  # settings, or tensors
_COUNT = 1 << 12  # blocks or experts of a model
_DEEPEST = 4  # arrays in arrays
_LONGEST = 1 << 12  # bytes of a token: its library tries all its parts
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes, by type
_TEXT, _ARRAY = 8, 9  # types


def check_header(path: Path) -> None:
    """Raise ValueError where a header claims more than a model has, or than its file holds."""
    with path.open("rb") as file:
        _Header(file).check()


class _Header:
    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, _VALUES
        self._size = os.fstat(file.fileno()).st_size

    def check(self) -> None:
        if self._file.read(4) != b"GGUF":
            raise ValueError("it does not begin as one")
        self._number(4)  # the version
        tensors, settings = self._number(8), self._number(8)
        if max(tensors, settings) > _ENTRIES:
            raise ValueError(f"it claims {tensors:,} tensors and {settings:,} settings")
        for _ in range(settings):
            name, kind = self._text(), self._number(4)
            if name.endswith(b"_count") and kind in _SIZES:
                if self._number(_SIZES[kind]) > _COUNT:
                    raise ValueError(f"it claims more than {_COUNT:,} blocks or experts")
            else:
                self._value(kind)

    def _value(self, kind: int, count: int = 1, depth: int = 0) -> None:
        """Pass over so many values of one type."""
        if kind in _SIZES:
            self._skip(_SIZES[kind] * count)
        elif kind == _TEXT:
            for _ in range(count):
                if len(self._text()) > _LONGEST and depth:
                    raise ValueError(f"it has a token of more than {_LONGEST:,} bytes")
        elif kind == _ARRAY and depth < _DEEPEST:
            for _ in range(count):
                inner, inside = self._number(4), self._number(8)
                self._left -= inside
                if self._left < 0:
                    raise ValueError(f"it claims more than {_VALUES:,} values")
                self._value(inner, inside, depth + 1)
        else:
            raise ValueError("it has a value of an unknown type")

    def _text(self) -> bytes:
        size = self._number(8)
        place = self._file.tell()
        self._skip(size)
        self._file.seek(place)
        return self._file.read(size)

    def _number(self, size: int) -> int:
        content = self._file.read(size)
        if len(content) < size:
            raise ValueError("it is cut short")
        return int.from_bytes(content, "little")

    def _skip(self, size: int) -> None:
        if size > self._size - self._file.tell():
            raise ValueError("it is cut short")
        self._file.seek(size, os.SEEK_CUR)
