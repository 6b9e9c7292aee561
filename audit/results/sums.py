"""SHA256SUMS: the digests of a run folder's files, as `sha256sum --check` reads them.

An edit of one file is found by them, an edit of all is not: whoever must exclude that signs this.
"""

from __future__ import annotations

from pathlib import Path

from audit.core.digest import sha256_of_file
from audit.core.files import LARGEST, MOST_LINES, regular
from audit.core.writing import write_atomically

NAME = "SHA256SUMS"
_FILES = ("results.json", "evidence.json", "ledger.jsonl", "samples.jsonl", "plan.toml")


def write(folder: Path) -> None:
    """Write the digests of the files that a run is verified by; of a sweep, its seeds' too."""
    lines = [f"{_digest(folder / name)}  {name}\n" for name in _present(folder)]
    write_atomically(folder / NAME, "".join(lines))


def altered(folder: Path) -> list[str]:
    """List the files that differ from those whose digests were written, one line each."""
    path = folder / NAME
    try:
        text = regular(path, LARGEST).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return [f"{NAME}: is not here, or cannot be read"]
    there = {}
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        there[name] = digest
    present = _present(folder)
    lines = [f"{name}: has no digest in {NAME}" for name in present if name not in there]
    for name, digest in there.items():
        if name not in present:
            lines.append(f"{name}: is not here, or no file of a run; {NAME} has its digest")
        elif (now := _digest(folder / name)) != digest:
            lines.append(f"{name}: was changed: its SHA-256 was {digest}, now it is {now}")
    return lines


def _present(folder: Path) -> list[str]:
    seeds = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"seeds/*/{NAME}"))
    return [name for name in (*_FILES, *seeds) if (folder / name).is_file()]


def _digest(path: Path) -> str:
    """Compute a file's digest; of one that no run writes, why there is none."""
    try:
        return sha256_of_file(regular(path, MOST_LINES))
    except OSError as error:
        return f"unknown, for {error.strerror}"
