"""The run folder: everything a run writes, so that a killed run can be resumed.

manifest.json is written first and replaced atomically; ledger.jsonl and samples.jsonl are appended
and flushed, and an incomplete last line is dropped. stages/ stores costly results under the hash of
everything that determines them, signed. The lock is a flock: it ends with its process.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets as random_bytes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.core import stage_key, stages, writing
from audit.core.digest import digest_of_json, sha256_of_file
from audit.core.errors import DamagedError, UsageError
from audit.core.files import read_json, read_lines
from audit.core.scratch import remove_abandoned
from audit.core.writing import append_lines, write_atomically
from audit.results import foreign


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one plan.

    trust: whether stages that this user's key did not sign are used. command: what resumes it.
    """

    path: Path
    plan_hash: str
    trust: bool = False
    command: str = field(default="", compare=False)

    @property
    def stages(self) -> Path:
        return self.path / "stages"

    @contextlib.contextmanager
    def held(self, plan: dict[str, Any]) -> Iterator[None]:
        """Create the folder, lock it, and mark it as running until the block ends.

        Removes what killed runs of this machine left half-written, here and in scratch folders.
        """
        _make(self)
        with _locked(self.stages):
            remove_abandoned()
            writing.remove_abandoned(self.path)
            stages.remove_abandoned(self.stages)
            self.mark("running", plan)
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out other sweeps until the block ends; its runs lock the stages themselves."""
        _make(self)
        with _locked(self.stages, "sweep.lock"):
            yield

    def admit(self) -> list[str]:
        """Put aside what a stranger may have made of this run; return what to say of it.

        That is every stage without a signature of this user's key; and what has grown line by line,
        where no signed stage says that it is this user's; answers have a seal each.
        """
        notes = list(filter(None, [stage_key.made()]))
        aside = stages.admit(self.stages, self.trust)
        mine = self.stage(f"{self._owner}.json")
        lines = [self.path / "ledger.jsonl", self.path / "samples.jsonl"] * (not mine.exists())
        answers = self.stage("answers.jsonl")
        if self.trust:
            _seal_all(answers)
        lines += [answers] * (not _all_sealed(answers))
        strange = [path for path in lines if path.exists() and not self.trust]
        stages.put_aside(self.stages, strange)
        _ = self.began  # from now on
        return [*notes, *_put_aside(self.stages, len(aside) + len(strange))]

    @property
    def began(self) -> str:
        """Return the day (UTC) on which this plan was first run here, whenever it is resumed."""
        today = datetime.now(UTC).date().isoformat()
        first = {"plan": self.plan_hash, "began": today}
        return str(self.stored(self._owner, lambda: first).get("began", ""))

    @property
    def _owner(self) -> str:
        return f"owner-{self.plan_hash}"

    def seal(self) -> None:
        """Sign results.json, so that it need not be made again."""
        stages.write(self._seal, sha256_of_file(self.path / "results.json"))

    @property
    def sealed(self) -> bool:
        """Return whether results.json is as this user signed it."""
        results = self.path / "results.json"
        if not (results.is_file() and stages.is_signed(self._seal)):
            return False
        return self._seal.read_text() == sha256_of_file(results)

    @property
    def _seal(self) -> Path:
        return self.stage(f"finished-{self.plan_hash}.txt")

    def mark(self, status: str, plan: dict[str, Any]) -> None:
        """Replace manifest.json: "running", "interrupted", "failed" or "complete"."""
        record = {"schema_version": "1", "status": status, "hash": self.plan_hash, "plan": plan}
        record |= {"command": self.command} if self.command else {}
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
            with contextlib.suppress(OSError):  # the disk may be full: then it stays "running"
                self.mark("failed", plan)
            raise
        self.mark("complete", plan)

    def stage(self, name: str) -> Path:
        """Return the path of a costly result named by the hash of what determines it."""
        return self.stages / name

    def stored(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Read the JSON result stored under `key`, or make and store it."""
        path = self.stage(f"{key}.json")
        if stages.is_signed(path):
            document: dict[str, Any] = read_json(path)
            return document
        made = make()
        stages.write(path, json.dumps(made))
        return made

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
            stages.write(path, random_bytes.token_hex(32))
        key = path.read_bytes()
        if len(key) != 64:
            raise UsageError(f"{path}: is damaged; put it back, or run again with another --output")
        return key


def _put_aside(folder: Path, files: int) -> list[str]:
    if not files:
        return []
    which = "1 file is" if files == 1 else f"{files} files are"
    return [
        f"{folder}: {which} not signed with your key ({stage_key.where()}), so put aside in "
        f"{stages.ASIDE}/ and not used; where you know who made them, --trust-stages uses them in "
        "a fresh copy of the folder"
    ]


@contextlib.contextmanager
def _locked(folder: Path, name: str = "lock") -> Iterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(writing.locked(folder / name))
        except BlockingIOError:
            raise UsageError(f"{folder.parent}: another run is working in this folder") from None
        yield


PERSONAL = ("secrets.jsonl", "exposed.jsonl", "samples.jsonl", "evidence.json")


def clean(folder: Path) -> int:
    """Remove a run's stages, and what killed runs of this machine left in scratch folders.

    Returns their size in bytes. Raises UsageError if this is not a run folder, or a run is working
    in it.
    """
    if run_record(folder) is None:
        raise UsageError(f"{folder}: is not a run folder; nothing was removed")
    foreign.check(folder)
    size, there = remove_abandoned() + writing.remove_abandoned(folder), folder / "stages"
    if not there.exists():
        return size
    if there.is_symlink():
        sweep = foreign.stages_of(folder).parent
        raise UsageError(f"{folder}: its stages belong to a sweep; clean {sweep} instead")
    with _locked(there), _locked(there, "sweep.lock"):
        size += sum(path.stat().st_size for path in there.rglob("*") if path.is_file())
        writing.remove_folder(there)
    return size


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


def _make(folder: RunFolder) -> None:
    """Make a run folder with its stages; refuse one that holds what no run puts there."""
    try:
        writing.make_folder(folder.path)
        foreign.check(folder.path)
        there = foreign.stages_of(folder.path)
        writing.make_folder(there, private=True)
        # unprotected models are never committed
        write_atomically(there / ".gitignore", "*\n")
    except OSError as error:
        raise UsageError(
            f"{folder.path}: cannot be written ({error.strerror}); choose another --output"
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
            rows = filter(_is_sealed, read_lines(self.answers))
            return {row["question"]: row["answer"] for row in rows}
        except (DamagedError, KeyError, TypeError):
            raise UsageError(f"{self.answers}: is damaged; remove it to ask again") from None

    def recall(self, question: str) -> Any:
        return self._known.get(question)

    def keep(self, question: str, answer: Any) -> None:
        self._known[question] = answer
        if self.answers is not None:
            append_lines(self.answers, [_sealed(question, answer)])


def _sealed(question: str, answer: Any) -> dict[str, Any]:
    seal = stage_key.signature(f"answer {question}", digest_of_json(answer))
    return {"question": question, "answer": answer, "seal": seal}


def _is_sealed(row: dict[str, Any]) -> bool:
    """Return whether this user's key sealed a row of answers: any endpoint may have given others.

    Raises KeyError or TypeError for a row of another form.
    """
    return hmac.compare_digest(
        str(row.get("seal")), _sealed(row["question"], row["answer"])["seal"]
    )


def _all_sealed(path: Path) -> bool:
    try:
        return all(map(_is_sealed, read_lines(path)))
    except (DamagedError, KeyError, TypeError):  # refused where it is read
        return True


def _seal_all(path: Path) -> None:
    rows = [] if _all_sealed(path) else read_lines(path)
    if rows:
        sealed = (json.dumps(_sealed(row["question"], row["answer"])) for row in rows)
        write_atomically(path, "".join(f"{line}\n" for line in sealed), private=True)


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


def run_record(folder: Path) -> dict[str, Any] | None:
    """Read manifest.json of a run folder: plan, its hash and the run's status; None: no run's."""
    try:
        record = read_json(folder / "manifest.json")
    except (OSError, ValueError):
        return None
    ours = isinstance(record, dict) and {"schema_version", "status", "plan"} <= set(record)
    return record if ours and record.get("hash") else None
