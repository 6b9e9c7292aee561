"""Stages: costly results of a run, each signed with a key that lies outside the run folder.

A run folder may come from a stranger, with weights and sessions in it. What is not signed with the
key of this user is put aside before anything is trained. A lost key costs time, never results.
"""

from __future__ import annotations

import contextlib
import hmac
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path

from audit.core import stage_key, writing
from audit.core.digest import sha256_of, sha256_of_file
from audit.core.files import regular

ASIDE = "untrusted"  # folder of what is not used
_SIGNATURES = "signatures"  # folder with a file for each stage
_LARGEST = 1 << 10  # bytes of signatures
_OTHERS = ("lock", "sweep.lock", "answers.jsonl", "audited", ASIDE, _SIGNATURES)  # no stages


def write(path: Path, content: str | bytes) -> None:
    """Write a stage atomically, readable by its owner only."""
    content = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    _sign(path, len(content), sha256_of(content))
    writing.write_atomically(path, content, private=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a free path for a library to write a stage to, as `writing.replacing` does."""
    with writing.replacing(path) as made:
        yield made
        _sign(path, made.stat().st_size, sha256_of_file(made))


def is_signed(path: Path) -> bool:
    """Return whether a stage is there, as a process with this user's key wrote it."""
    signatures = _signature_path(path)
    if not (path.is_file() and signatures.is_file() and stage_key.exists()):
        return False
    known = _signatures(signatures)
    size = _of_size(path.name, path.stat().st_size)
    if not any(line.startswith(size) for line in known):  # before a file of any size is read
        return False
    own = size + _of_content(path.name, _digest(path))
    return any(hmac.compare_digest(own, line) for line in known)


def admit(folder: Path, trust: bool) -> list[Path]:
    """Put aside what is not signed with this user's key, and return it; sign it if trusted."""
    for path in _stages(folder) if trust else ():
        if path.is_file() and not is_signed(path):
            _sign(path, path.stat().st_size, _digest(path))
    aside = [path for path in _stages(folder) if not is_signed(path)]
    put_aside(folder, aside)
    return aside


def put_aside(folder: Path, paths: Iterable[Path]) -> None:
    """Move files to where nothing is used. folder: of the stages."""
    for path in paths:
        writing.make_folder(folder / ASIDE, private=True)
        places = (folder / ASIDE / f"{path.name}.{n}" for n in count(1))
        writing.move(path, next(place for place in places if not os.path.lexists(place)))


def unsigned(folder: Path) -> int:
    """Count the stages that are not signed with this user's key; changes nothing."""
    return sum(not is_signed(path) for path in _stages(folder))


def remove_abandoned(folder: Path) -> None:
    """Remove what killed processes left half-written among the stages."""
    for each in (folder, folder / _SIGNATURES):
        writing.remove_abandoned(each)


def _stages(folder: Path) -> list[Path]:
    """List all that has the place of a stage, even if it is a folder."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if path.name[0] != "." and path.name not in _OTHERS]


def _of_size(name: str, size: int) -> bytes:
    return stage_key.signature(name, f"{size} bytes").encode()


def _of_content(name: str, digest: str) -> bytes:
    return stage_key.signature(name, digest).encode()


def _sign(path: Path, size: int, digest: str) -> None:
    """Write the signature of what a stage will hold, before that of what it holds now.

    A process may be killed before the stage is written; then the old one counts.
    """
    signatures = _signature_path(path)
    writing.make_folder(signatures.parent, private=True)
    own = _of_size(path.name, size) + _of_content(path.name, digest)
    before = _signatures(signatures)[:1] if path.exists() else []
    writing.write_atomically(signatures, b"\n".join([own, *before]), private=True)


def _signature_path(path: Path) -> Path:
    return path.parent / _SIGNATURES / path.name


def _signatures(path: Path) -> list[bytes]:
    try:
        return regular(path, _LARGEST).read_bytes().split(b"\n")
    except OSError:
        return []


def _digest(path: Path) -> str:
    found = path.stat()
    return _digest_of(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _digest_of(path: Path, *changes: int) -> str:
    """Compute the digest of a file. changes: what differs where it was written since."""
    return sha256_of_file(path)
