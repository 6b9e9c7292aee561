"""Texts by user, split into private, held-out and public; read from files, folders or a hub."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from audit.errors import UsageError

SPLITS = ("private", "heldout", "public")
_SUFFIXES = (".jsonl", ".json", ".ndjson", ".txt")
_SPLIT_OF_FILE = {
    "train": "private",
    "valid": "heldout",
    "validation": "heldout",
    "test": "heldout",
    "public": "public",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One text of one user. `split` is "" until the corpus has been split; `where` is its place
    in the files it came from, for messages only."""

    user: str
    text: str
    name: str | None = None
    split: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Corpus:
    """All records of a corpus, in the order of its files. `sha256` is of the records."""

    name: str
    records: tuple[Record, ...]
    embedded: bool = False

    def of(self, split: str) -> tuple[Record, ...]:
        """The records of one split: "private", "heldout" or "public"."""
        return tuple(record for record in self.records if record.split == split)

    def users(self, split: str | None = None) -> tuple[str, ...]:
        """User ids, each once, in order of first appearance."""
        chosen = self.records if split is None else self.of(split)
        return tuple(dict.fromkeys(record.user for record in chosen))

    @property
    def sha256(self) -> str:
        """Hash of every record's user, name, split and text, in order."""
        digest = hashlib.sha256()
        for r in self.records:
            digest.update(json.dumps([r.user, r.name, r.split, r.text]).encode())
        return digest.hexdigest()

    @property
    def near_duplicates(self) -> int:
        """Records that repeat an earlier one when case, digits and punctuation are ignored."""
        kept = (re.sub(r"[\W\d_]+", " ", record.text.casefold()) for record in self.records)
        return len(self.records) - len({text.strip() for text in kept})


def load(source: str, embedded: Path) -> Corpus:
    """Reads the corpus named `source`: "helpdesk", a file, a folder, or hf:NAME[/CONFIG].

    embedded: folder of the embedded default. Raises UsageError with file and line.
    """
    if source == "helpdesk":
        records = list(_read_jsonl(embedded / "helpdesk.jsonl"))
        return replace(_split("helpdesk", records), embedded=True)
    if source.startswith("hf:"):
        return _split(source, list(_read_hub(source[3:])))
    path = Path(source)
    if not path.exists():
        raise UsageError(
            f"corpus {source!r}: no such file or folder; give a .jsonl or .txt file, a folder, "
            "hf:NAME, or helpdesk"
        )
    records = list(_read_folder(path) if path.is_dir() else _read_file(path))
    if not records:
        raise UsageError(f"{path}: the corpus is empty; it needs at least one record with text")
    return _split(path.stem or path.name, records)


def _read_file(path: Path) -> Iterator[Record]:
    if path.suffix in _SUFFIXES[:-1]:
        return _read_jsonl(path)
    if path.suffix == ".txt":
        return _read_text(path)
    raise UsageError(f"{path}: unknown kind of file; a corpus is .jsonl, .txt or a folder of them")


def _read_lines(path: Path) -> list[str]:
    try:
        # not splitlines(): form feeds and the like stand inside lines of real text
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _read_jsonl(path: Path, owner: str = "line") -> Iterator[Record]:
    # split on "\n" alone: JSON strings may hold other line separators
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _record_of(line, f"{path}:{number}", default_user=f"{owner}-{number}")


def _record_of(line: str, where: str, default_user: str) -> Record:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: broken JSON ({error.msg} at column {error.colno})") from None
    except (ValueError, RecursionError):  # a number or a nesting that Python does not read
        raise UsageError(f"{where}: broken JSON (too many digits or brackets)") from None
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: expected an object with a 'text', found {type(entry).__name__}")
    text = entry.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: the record has no 'text'; give it a non-empty string")
    user, name, split = entry.get("user"), entry.get("name"), entry.get("split", "")
    user = default_user if user is None else user
    split = "" if split is None else split
    if not isinstance(user, (str, int)) or isinstance(user, bool):
        raise UsageError(f"{where}: 'user' must be a string or a whole number")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"{where}: 'name' must be a string")
    if split not in ("", *SPLITS):
        raise UsageError(f"{where}: 'split' is {split!r}; it can be {', '.join(SPLITS)}")
    if any("\ud800" <= c <= "\udfff" for c in f"{user}{name}{text}"):
        raise UsageError(f"{where}: half of a surrogate pair; write the whole character")
    return Record(user=str(user), text=text, name=name, split=split, where=where)


def _blocks(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of each block between blank lines."""
    block: list[str] = []
    first = 1
    for number, line in enumerate([*_read_lines(path), ""], start=1):
        if line.strip():
            if not block:
                first = number
            block.append(line)
        elif block:
            yield first, "\n".join(block)
            block = []


def _read_text(path: Path, split: str = "") -> Iterator[Record]:
    for number, text in _blocks(path):
        where = f"{path}:{number}"
        yield Record(user=f"{path.stem}-{number}", text=text, split=split, where=where)


def _read_folder(folder: Path) -> Iterator[Record]:
    """train/valid/test files are splits; any other .txt file of a folder is one user."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    if not files:
        raise UsageError(f"{folder}: no .jsonl or .txt file in this folder")
    splits = {path.stem for path in files} & set(_SPLIT_OF_FILE)
    for path in files:
        split = _SPLIT_OF_FILE.get(path.stem, "") if "train" in splits else ""
        if "train" in splits and not split:
            continue
        if path.suffix != ".txt":
            owner = str(path.relative_to(folder))
            yield from (replace(r, split=r.split or split) for r in _read_jsonl(path, owner))
        elif split:
            yield from _read_text(path, split)
        else:
            user = str(path.relative_to(folder).with_suffix(""))
            yield from (Record(user=user, text=text) for _, text in _blocks(path))


def _read_hub(name: str) -> Iterator[Record]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise UsageError(
            f"hf:{name} needs the hub library; install it with: pip install 'llm-audit[hub]'"
        ) from None
    path, _, config = name.partition("/")
    if "/" in config:  # hf:OWNER/NAME/CONFIG
        owner, config = config.split("/", 1)
        path = f"{path}/{owner}"
    try:
        parts = load_dataset(path, config or None)
    except Exception as error:  # the hub library raises its own zoo of errors
        raise UsageError(f"hf:{name}: cannot be loaded ({str(error).splitlines()[0]})") from None
    for part, rows in parts.items():
        split = _SPLIT_OF_FILE.get(part, "") if "train" in parts else ""
        for number, row in enumerate(rows):
            if isinstance(row.get("text"), str) and row["text"].strip():
                user = str(row.get("user", f"{part}-{number}"))
                yield Record(user=user, text=row["text"], name=row.get("name"), split=split)


def _split(name: str, records: list[Record]) -> Corpus:
    """Gives every record a split. Without one in the data, a fifth of the users is held out.

    Who is held out is the order of the hash of the user's id: it does not move with the seed, nor
    with the order of the file.
    """
    if not any(record.split for record in records):
        users = sorted({r.user for r in records}, key=lambda u: hashlib.sha256(u.encode()).digest())
        heldout = set(users[: max(1, len(users) // 5)] if len(users) > 1 else ())
        records = [replace(r, split="heldout" if r.user in heldout else "private") for r in records]
    records = [r if r.split else replace(r, split="private") for r in records]
    _check_users_in_one_split(name, records)
    return Corpus(name=name, records=tuple(records))


def _check_users_in_one_split(name: str, records: Iterable[Record]) -> None:
    split_of: dict[str, str] = {}
    for record in records:
        if split_of.setdefault(record.user, record.split) != record.split:
            raise UsageError(
                f"corpus {name}: user {record.user!r} is in two splits "
                f"({split_of[record.user]} and {record.split}); give each user one split"
            )
    if "private" not in split_of.values():
        raise UsageError(f'corpus {name}: no private record; mark some with "split": "private"')
