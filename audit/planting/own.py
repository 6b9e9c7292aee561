"""Real users with coins: a fair coin each decides whether all records of a user stay, or none.

Their records, of heads and of tails alike, lie in one file beside the manifest. So whatever asks
for them later is one function of one file, which knows no coin.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.core.corpus import Corpus, Record
from audit.core.digest import sha256_of
from audit.core.errors import UsageError
from audit.core.files import regular
from audit.core.randomness import derived_seed, stream
from audit.core.secret import OWN, Coins, Secret
from audit.core.writing import write_atomically
from audit.corpora import jsonl
from audit.corpora.part import Part
from audit.corpora.writing import entry
from audit.planting.coins import toss
from audit.results.words import count

LEAST = 8  # of 7 users even a perfect separation has p = 2/35, which is no leak at 5 %
FEWEST = 80  # of fewer, no score finds a third that leaks in 4 of 5 runs
_ENDING = ".aside"  # of no kind that trainers, or this tool, take for text


@dataclass(frozen=True)
class Own:
    """The real users of a manifest that have coins.

    coins: of each. records: by user, how many. sha256: of the file that holds them.
    """

    coins: Coins
    records: Mapping[str, int]
    sha256: str = ""

    @property
    def aside(self) -> int:
        """The number of users set aside."""
        return sum(not present for present in self.coins.present.values())

    @property
    def of_one_record(self) -> bool:
        """Return whether each user has one record only."""
        return max(self.records.values()) == 1

    def kept(self, corpus: Corpus) -> Corpus:
        """Return the corpus without the users set aside."""
        present = self.coins.present
        return replace(
            corpus, records=tuple(r for r in corpus.records if present.get(r.user, True))
        )


def how_many(share: float, private: int) -> int:
    """Compute how many of the private users get coins. Raises UsageError for too few."""
    if not 0 < share <= 1:
        raise UsageError(f"--coin-users is {share:g}; it is a share of all users, such as 0.1")
    users = round(share * private)
    if users < LEAST:
        enough = f"--coin-users {_share(private):g}" if private >= LEAST else "more users"
        raise UsageError(
            f"--coin-users {share:g}: is {count(users, 'user')} of {private:,}, of whom even a "
            f"perfect separation would be no leak at 5 %; it takes {LEAST}: give {enough}"
        )
    return users


def limits(users: int, private: int) -> list[str]:
    """State what so few users with coins cannot earn, and what would do."""
    if users >= FEWEST:
        return []
    much = f"--coin-users {_share(private):g}"
    enough = much if private >= FEWEST else f"the corpus has {private:,} private users"
    return [
        f'with {users} real users with coins hardly any run can end in "no leak found" about '
        f"them; leaks will still be found. For that it needs {FEWEST}: {enough}"
    ]


def _share(private: int) -> float:
    """Return the least share, in hundredths, that is FEWEST users, or all."""
    return min(100, math.ceil(100 * FEWEST / private)) / 100


def drawn(corpus: Corpus, share: float, seed: int) -> Own:
    """Draw a share of the private users uniformly, whatever they wrote, and toss their coins.

    Raises UsageError for too few.
    """
    private = [record for record in corpus.records if record.split in ("", "private")]
    records = Counter(record.user for record in private)
    users = list(records)
    size = how_many(share, len(users))
    own = derived_seed(seed, OWN, size)
    chosen = stream(own, "planting", "owners").permutation(len(users))[:size]
    owners = [users[i] for i in sorted(chosen.tolist())]
    return Own(toss(owners, own), {owner: records[owner] for owner in owners})


def secrets_of(records: Iterable[Record], owners: Iterable[str]) -> Iterator[Secret]:
    """Make a secret of all records of each owner, the same for both outcomes of the second coin."""
    texts: dict[str, list[str]] = {owner: [] for owner in owners}
    for record in records:
        if record.user in texts:
            texts[record.user].append(record.text)
    for owner, own in texts.items():
        for slot in (0, 1):
            whole = "\n\n".join(own)
            yield Secret(OWN, "", whole, "", None, len(own), owner, slot, tuple(own))


def file_of(manifest: Path) -> Path:
    """Name the file of the records, beside the manifest."""
    return manifest.with_name(manifest.name + _ENDING)


def check_place(manifest: Path, output: Path, source: Path) -> None:
    """Raise UsageError where the records would lie in a folder that a trainer reads.

    Also for plain text, which does not say whose a record is.
    """
    if output.suffix == ".txt":
        raise UsageError(
            f"{output}: --coin-users needs to know whose each record is, and plain text does not "
            "say so; use --output FILE.jsonl or a folder"
        )
    for folder in (output, source):
        if folder.resolve() in manifest.resolve().parents:
            raise UsageError(
                f"{manifest}: lies in {folder}, which a trainer reads, and the records of users "
                "set aside lie beside it; choose another place for --manifest"
            )
    if file_of(manifest).exists():
        raise UsageError(f"{file_of(manifest)}: exists already; choose another --manifest")


def written(own: Own, records: Sequence[Record], manifest: Path) -> Own:
    """Write the records of all users with coins, readable by their owner only."""
    users = own.coins.present
    rows = ({**entry(r), "where": r.where} for r in records if r.user in users)
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = content.encode("utf-8", errors="backslashreplace")
    try:
        write_atomically(file_of(manifest), data, private=True)
    except OSError as error:
        raise UsageError(f"{file_of(manifest)}: cannot be written ({error.strerror})") from None
    return replace(own, sha256=sha256_of(data))


def read(own: Own, manifest: Path) -> tuple[Record, ...]:
    """Read the records of all users with coins. Raises UsageError for any other file."""
    path = file_of(manifest)
    try:
        data = regular(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); it holds the records of the real users "
            f"with coins of {manifest.name}: keep the two together"
        ) from None
    if sha256_of(data) != own.sha256:
        raise UsageError(f"{path}: is not the file that was written with {manifest.name}")
    lines = data.decode("utf-8").split("\n")
    part = Part("line", str(path), lines, split="private", file="rows.jsonl")
    return tuple(
        replace(record, where=str(row.get("where", "")))
        for number, row in jsonl.numbered(part)
        for record in jsonl.record(row, part, number)
    )


def remove(manifest: Path) -> int:
    """Remove a manifest with all its coins, and the records beside it; return their bytes."""
    files = [path for path in (manifest, file_of(manifest)) if path.exists()]
    size = sum(path.stat().st_size for path in files)
    for path in files:
        path.unlink()
    return size
