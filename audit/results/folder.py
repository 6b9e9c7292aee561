"""The run folder: everything a run writes, so that a killed run can be resumed.

manifest.json is written first and replaced atomically; ledger.jsonl and samples.jsonl are appended
and flushed, and an incomplete last line is dropped. stages/ stores costly results under the hash of
everything that determines them. The lock is a flock: it ends with its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets as random_bytes
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.core.digest import digest_of_json
from audit.core.errors import DamagedError, UsageError
from audit.core.files import append_lines, read_json, read_lines, write_atomically
from audit.core.scratch import remove_abandoned


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one plan."""

    path: Path
    plan_hash: str

    @property
    def stages(self) -> Path:
        return self.path / "stages"

    @contextlib.contextmanager
    def held(self, plan: dict[str, Any]) -> Iterator[None]:
        """Create the folder, lock it, and mark it as running until the block ends.

        Removes what killed runs of this machine left in their scratch folders.
        """
        _make(self.stages)
        with _locked(self.stages):
            remove_abandoned()
            self.mark("running", plan)
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out other sweeps until the block ends; its runs lock the stages themselves."""
        _make(self.stages)
        with _locked(self.stages, "sweep.lock"):
            yield

    def mark(self, status: str, plan: dict[str, Any]) -> None:
        """Replace manifest.json: "running", "interrupted", "failed" or "complete"."""
        record = {"schema_version": "1", "status": status, "hash": self.plan_hash, "plan": plan}
        write_atomically(self.path / "manifest.json", json.dumps(record, indent=1) + "\n")

    @contextlib.contextmanager
    def marked(self, plan: dict[str, Any]) -> Iterator[None]:
        """Mark the folder by how the block ends: complete, interrupted or failed."""
        try:
            yield
        except KeyboardInterrupt:
            self.mark("interrupted", plan)
            raise
        except Exception:
            self.mark("failed", plan)
            raise
        self.mark("complete", plan)

    def stage(self, name: str) -> Path:
        """Return the path of a costly result named by the hash of what determines it."""
        return self.stages / name

    def stored(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Read the JSON result stored under `key`, or make and store it."""
        path = self.stage(f"{key}.json")
        document = _read_stage(path) if path.exists() else None
        if document is None:
            document = make()
            text = json.dumps({"digest": _digest(document), **document})
            write_atomically(path, text, private=True)
        return document

    def journal(self, session: str) -> FileJournal:
        """Open the ledger of one session, and the answers of external servers in all sessions."""
        answers = self.stage("answers.jsonl")
        return FileJournal(self.path / "ledger.jsonl", session, self.key, answers)

    @property
    def key(self) -> bytes:
        """The folder's own key for hashes, made at first use.

        Without a key, anyone could find a five-digit code by hashing all of them.
        """
        path = self.stage("mask.key")
        if not path.exists():
            write_atomically(path, random_bytes.token_hex(32), private=True)
        key = path.read_bytes()
        if len(key) != 64:
            raise UsageError(f"{path}: is damaged; put it back, or run again with another --output")
        return key


def _read_stage(path: Path) -> dict[str, Any] | None:
    """Read a stage; None for one that is torn.

    Raises DamagedError for one that is not what was written.
    """
    try:
        document = read_json(path)
    except json.JSONDecodeError:
        return None
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict) or document.pop("digest", None) != _digest(document):
        raise DamagedError(f"{path}: is damaged; remove it to measure it again")
    return document


def _digest(document: dict[str, Any]) -> str:
    return digest_of_json(document, sort_keys=False)


@contextlib.contextmanager
def _locked(stages: Path, name: str = "lock") -> Iterator[None]:
    with (stages / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{stages.parent}: another run is working in this folder") from None
        yield


PERSONAL = ("secrets.jsonl", "exposed.jsonl", "samples.jsonl", "evidence.json")


def clean(folder: Path) -> int:
    """Remove a run's stages, and what killed runs of this machine left in scratch folders.

    Returns their size in bytes. Raises UsageError if this is not a run folder, or a run is working
    in it.
    """
    if run_record(folder) is None:
        raise UsageError(f"{folder}: is not a run folder; nothing was removed")
    abandoned, stages = remove_abandoned(), folder / "stages"
    if not stages.exists():
        return abandoned
    if stages.is_symlink():
        sweep = stages.resolve().parent
        raise UsageError(f"{folder}: its stages belong to a sweep; clean {sweep} instead")
    with _locked(stages), _locked(stages, "sweep.lock"):
        size = sum(path.stat().st_size for path in stages.rglob("*") if path.is_file())
        shutil.rmtree(stages)
    return size + abandoned


def clean_personal(folder: Path) -> int:
    """Remove what names people: revealed secrets, texts and users, and the evidence with coins.

    Returns the size in bytes, stages included. What was gated and reported stays; `audit verify`
    has nothing to derive it from any more. Raises UsageError as `clean` does.
    """
    size = clean(folder)
    for name in PERSONAL:
        path = folder / name
        if path.is_file():
            size += path.stat().st_size
            path.unlink()
    return size


def _make(stages: Path) -> None:
    try:
        stages.mkdir(parents=True, exist_ok=True, mode=0o700)
        stages.chmod(0o700)
        (stages / ".gitignore").write_text("*\n")  # unprotected models are never committed
    except OSError as error:
        where = stages.parent
        raise UsageError(
            f"{where}: cannot be written ({error.strerror}); choose another --output"
        ) from None


@dataclass(frozen=True)
class FileJournal:
    """Ledger rows on disk: one JSON object per line, each with the session's name.

    answers: the file that stores the answers of external servers for all sessions; None: none.
    """

    path: Path
    session: str
    key: bytes
    answers: Path | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Read all rows of this session. Raises DamagedError for what is not a row."""
        rows = [row for row in read_lines(self.path) if row.get("session") == self.session]
        if not all(map(_is_row, rows)):
            raise DamagedError(
                f"{self.path}: has a damaged row of {self.session}; put the file back, or run "
                "with another --output"
            )
        return [row["row"] for row in rows]

    def previous(self) -> Sequence[dict[str, Any]]:
        return self.rows()

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        append_lines(self.path, [{"session": self.session, "row": row} for row in rows])

    @cached_property
    def _known(self) -> dict[str, Any]:
        if self.answers is None:
            return {}
        try:
            return {row["question"]: row["answer"] for row in read_lines(self.answers)}
        except (DamagedError, KeyError, TypeError):
            raise UsageError(f"{self.answers}: is damaged; remove it to ask again") from None

    def recall(self, question: str) -> Any:
        return self._known.get(question)

    def keep(self, question: str, answer: Any) -> None:
        self._known[question] = answer
        if self.answers is not None:
            append_lines(self.answers, [{"question": question, "answer": answer}])


def _is_row(line: dict[str, Any]) -> bool:
    """Return whether a line of a ledger has a query's number, its charges and how it ended."""
    row = line.get("row")
    return (
        isinstance(row, dict)
        and type(row.get("query")) is int
        and type(row.get("stopped")) is bool
        and isinstance(charges := row.get("charge"), list)
        and all(type(charge) in (int, float) and charge >= 0 for charge in charges)
    )


def find(output: Path | None, plan_hash: str) -> RunFolder:
    """Choose the folder to run in: `output`, else the newest of this plan, else a new one.

    Raises UsageError if `output` holds another plan or something else.
    """
    if output is None:
        return RunFolder(_newest(plan_hash) or _fresh(plan_hash), plan_hash)
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: is a file; --output needs a folder")
    record = run_record(output)
    if record is None:
        # a run killed before it wrote manifest.json leaves no more than these
        names = {p.name for p in output.iterdir()} if output.exists() else set()
        if any(n != "stages" and not n.startswith(".manifest.json.") for n in names):
            raise UsageError(f"{output}: is not empty and holds no run; choose another --output")
    elif record.get("hash") != plan_hash:
        raise UsageError(f"{output}: holds a run of another plan; choose another --output")
    return RunFolder(output, plan_hash)


def run_record(folder: Path) -> dict[str, Any] | None:
    """Read manifest.json of a run folder: plan, its hash and the run's status; None: no run."""
    try:
        record = read_json(folder / "manifest.json")
    except (OSError, ValueError):
        return None
    ours = isinstance(record, dict) and {"schema_version", "hash", "plan"} <= set(record)
    return record if ours else None


def _newest(plan_hash: str) -> Path | None:
    folders = [path.parent for path in Path("audits").glob("*/manifest.json")]
    same = [path for path in folders if (run_record(path) or {}).get("hash") == plan_hash]
    return max(same, key=lambda path: (path.stat().st_mtime, path.name), default=None)


def _fresh(plan_hash: str) -> Path:
    return Path("audits") / f"{date.today().isoformat()}-{plan_hash[:8]}"
