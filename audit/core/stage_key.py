"""The key with which this user's stages are signed; it never lies in a run folder."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from audit.core import writing
from audit.core.errors import UsageError, first_line
from audit.core.user_state import state_path

VARIABLE = "AUDIT_STAGE_KEY"
_LEAST = 32  # characters
_ADVICE = f"remove it to get another one, or set {VARIABLE}"


def where() -> str:
    """Name the place of the key."""
    return VARIABLE if VARIABLE in os.environ else str(_file())


def made() -> str:
    """Make the key at first use. Return "", or why none can be kept: then it ends with the run.

    Raises UsageError for a key that others can read or guess.
    """
    if VARIABLE not in os.environ:
        try:
            _made(_file())
        except (OSError, RuntimeError) as error:  # no home
            os.environ[VARIABLE] = secrets.token_hex(_LEAST)  # of workers, too
            reason = first_line(error)
            return f"no key of stages can be kept ({reason}); set {VARIABLE} to resume this run"
    signature("", "")
    return ""


def exists() -> bool:
    """Return whether there is a key."""
    try:
        return VARIABLE in os.environ or _file().is_file()
    except RuntimeError:  # no home
        return False


def signature(name: str, digest: str) -> str:
    """Sign a stage: its name and the digest of its content. Raises UsageError for a poor key."""
    return hmac.new(_key(), f"{name}\0{digest}".encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    given = os.environ.get(VARIABLE)
    if given is None:
        return _read(_file())
    if len(given) < _LEAST:
        raise UsageError(
            f"{VARIABLE} has {len(given)} characters; give at least {_LEAST} that nobody can "
            "guess, such as those of openssl rand -hex 32"
        )
    return given.encode(errors="surrogateescape")


def _file() -> Path:
    return state_path("stages") / "key"


def _made(path: Path) -> None:
    writing.make_folder(path.parent, private=True)
    writing.write_once(path, secrets.token_hex(_LEAST))


def _read(path: Path) -> bytes:
    if not os.path.lexists(path):
        _made(path)
    found = path.lstat()
    if reason := writing.refusal(found):
        raise UsageError(f"{path}: {reason}")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(f"{path}: others can read or write it; {_ADVICE}")
    key = path.read_bytes()
    if len(key) != 2 * _LEAST:
        raise UsageError(f"{path}: is damaged; {_ADVICE}")
    return key
