"""Write files where a stranger may have prepared the place: the only module that writes any.

A file appears whole or not at all, even if the process is killed: it is filled under a name of its
own and renamed. Nothing is written through a link, or into what is not a plain file. What is
half-written is locked while its process lives, so that what a killed process left can be told.
Errors are OSErrors that name the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from audit.core.files import regular

PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial")
FULL = (errno.ENOSPC, errno.EDQUOT)
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OF_RUST = re.compile(r"\(os error (\d+)\)")  # in the messages of libraries that write themselves


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Replace a file: readers see the old content or the new, never a part.

    private: readable by its owner only, from the first byte on.
    """
    if isinstance(content, str):  # a lone surrogate, hostile or not, becomes a valid JSON escape
        content = content.encode("utf-8", errors="backslashreplace")
    with _named(path):
        check_plain(path)
        partial = _beside(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
        with _open(partial, flags, 0o600 if private else 0o666) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _write(descriptor, content)
                os.fsync(descriptor)
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a free path for a library to write to; its file replaces `path` when the block ends.

    Readable by its owner only. It lies in a folder of its own, with all that the library leaves.
    """
    with _named(path), new_folder(path) as folder:
        check_plain(path)
        made = folder / path.name
        yield made
        with _open(made, os.O_RDWR | _SAFE) as descriptor:
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
        made.replace(path)


def write_once(path: Path, content: str) -> None:
    """Write a file of its owner only, unless it is there: the first of several processes wins."""
    with _named(path), _shared(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size < len(content):  # new, or torn by a kill
            os.ftruncate(descriptor, 0)
            _write(descriptor, content.encode())
            os.fsync(descriptor)


def append_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Cut off a torn last line, append rows, and wait until they are on disk: all or none."""
    if rows:
        lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        append(path, lines, whole_lines=True)


def append(path: Path, text: str, whole_lines: bool = False) -> None:
    """Append text to a file, made at first use for its owner only. A part of it is taken back.

    whole_lines: whether a last line that was torn by a kill is cut off before.
    """
    with _named(path), _shared(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # other processes of a run may append, too
        size = _end(descriptor, whole_lines)
        os.ftruncate(descriptor, size)
        try:
            _write(descriptor, text.encode())
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, made at first use. Raises BlockingIOError where another does."""
    with _named(path), _shared(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def copy_file(source: Path, to: Path) -> None:
    """Copy a regular file to one that its owner only can read."""
    with replacing(to) as partial:
        shutil.copyfile(regular(source), partial)


def move(path: Path, to: Path) -> None:
    """Give a file or a folder another name; replaces a file of that name."""
    with _named(to):
        path.replace(to)


def make_folder(path: Path, private: bool = False) -> None:
    """Make a folder, and those above it, unless it is there.

    private: only its owner may look into it. A link, and another user's folder, are refused.
    """
    with _named(path):
        path.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        check_folder(path)
        if private:
            with _open(path, os.O_RDONLY | os.O_DIRECTORY | _SAFE) as descriptor:
                os.fchmod(descriptor, 0o700)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a private folder beside `path`, removed when the block ends unless it was moved."""
    with _named(path), held_folder(lambda: _beside(path)) as folder:
        yield folder


@contextlib.contextmanager
def held_folder(fresh: Callable[[], Path]) -> Iterator[Path]:
    """Yield a private folder, locked while this process lives, and remove it when the block ends.

    fresh: draws its name, again where somebody took the folder for abandoned before it was locked.
    """
    folder, lock = _held(fresh)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


@contextlib.contextmanager
def alone(path: Path, near: Path) -> Iterator[Path]:
    """Yield a link to a file in a private folder beside `near`, for a library that reads what lies
    beside a file, too. It is removed when the block ends."""
    with new_folder(near) as folder:
        link = folder / path.name
        link.symlink_to(path.resolve())
        yield link


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; nothing where there is none. A link is refused."""
    if os.path.lexists(path):
        with _named(path):
            check_folder(path)
            shutil.rmtree(path)


def remove_abandoned(folder: Path, name: str | None = None) -> int:
    """Remove what killed processes left half-written in a folder; return its size in bytes.

    name: of the file or folder that was being written; None: any.
    """
    size = 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        partial = PARTIAL.fullmatch(path.name)
        if partial and name in (None, partial[1]):
            size += remove_if_abandoned(path)
    return size


def remove_if_abandoned(path: Path) -> int:
    """Remove a file or folder that no process has locked; return its size, 0 where it stays."""
    # gone, of a process that lives, or too deep to be removed
    with contextlib.suppress(OSError, RecursionError):
        found = path.lstat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            path.unlink()
            return 0
        with _open(path, os.O_RDONLY | _SAFE) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_uid != os.getuid():
                return 0
            size = _size(path)
            _remove(path)
            return size
    return 0


def check_plain(path: Path) -> None:
    """Refuse what has this name, unless it is a file of this name alone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if reason := refusal(found):
        raise OSError(errno.EINVAL, reason, str(path))


def check_folder(path: Path) -> None:
    """Refuse a link, what is not a folder, and a folder of another user."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.EINVAL, f"it is a link to {path.resolve()}; name that", str(path))
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if found.st_uid != os.geteuid():
        raise OSError(errno.EINVAL, "it belongs to another user; copy it first", str(path))


def refusal(found: os.stat_result) -> str:
    """Explain why nothing is read from or written to what was found; "": a plain file."""
    if stat.S_ISLNK(found.st_mode):
        return "it is a link; remove it, or put the file itself there"
    if stat.S_ISDIR(found.st_mode):
        return "it is a folder; remove it"
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file; remove it"
    if found.st_nlink > 1:
        return "it is a hard link, with another name elsewhere; remove it, or put a copy there"
    return ""


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


@contextlib.contextmanager
def _open(path: Path, flags: int, mode: int = 0o600) -> Iterator[int]:
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _shared(path: Path) -> Iterator[int]:
    """Open a file that several processes hold open, made at first use for its owner only."""
    check_plain(path)
    with _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _SAFE) as descriptor:
        if reason := refusal(os.fstat(descriptor)):
            raise OSError(errno.EINVAL, reason, str(path))
        yield descriptor


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _end(descriptor: int, whole_lines: bool) -> int:
    """Return the size of a file, without a last line that has no end."""
    size = os.fstat(descriptor).st_size
    if whole_lines and size and os.pread(descriptor, 1, size - 1) != b"\n":
        return os.pread(descriptor, size, 0).rfind(b"\n") + 1
    return size


def _held(fresh: Callable[[], Path]) -> tuple[Path, int]:
    """Make and lock a folder; another one if it was taken for abandoned before it was locked."""
    while True:
        folder = fresh()
        folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _size(path: Path) -> int:
    size = 0
    for one in path.rglob("*") if path.is_dir() else [path]:
        with contextlib.suppress(FileNotFoundError):
            size += one.lstat().st_size
    return size


def _remove(path: Path) -> None:
    """Remove a file or folder, with retries: processes that are ending write for a moment more."""
    for _ in range(50):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if not path.exists():
            return
        time.sleep(0.1)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an error of the system that names none, or its partial."""
    try:
        yield
    except OSError as error:
        known = error.filename and not any(map(PARTIAL.fullmatch, Path(error.filename).parts))
        if known or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise OSError(errno.EINVAL, "its name is none of a file", str(path)) from None
    except Exception as error:
        number = _OF_RUST.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
