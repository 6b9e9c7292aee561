"""States what `audit plant` wrote, what it cannot earn, and the command that audits."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.core.corpus import Corpus
from audit.corpora import scripts
from audit.corpora.writing import FILES
from audit.planting import own
from audit.planting.insertion import Canaries
from audit.planting.manifest import Manifest
from audit.results.words import percent


@dataclass(frozen=True)
class Written:
    """source: as named. corpus, whole: before and after planting. canaries: what was chosen.

    base: the model with new tokens; None where none are planted.
    """

    source: str
    output: Path
    manifest: Path
    corpus: Corpus
    whole: Corpus
    record: Manifest
    canaries: Canaries
    base: Path | None = None


def summary(written: Written, limits: Sequence[str], base: str | None) -> str:
    """Return the lines for the user; the last ones are the audit's command and what it lacks."""
    lines = [f"{written.source}: {note}" for note in written.corpus.notes]
    lines += [_planted(written), *_beacons(written.record), *_own(written)]
    lines += [*_split(written), *filter(None, [scripts.warning(written.corpus.records)])]
    lines += _new_tokens(written)
    named = base if written.base is None else str(written.base)
    return "\n".join([*lines, *limits, *_command(written, named)])


def _planted(written: Written) -> str:
    kept, canaries = written.corpus, written.canaries
    if written.record.own is not None:
        kept = written.record.own.kept(kept)
    own, share = len(kept.records), written.record.share or 0.0
    added = len(written.whole.records) - own
    tiers = ",".join(map(str, canaries.repetitions))
    return (
        f"{written.output}: {own:,} records and {added:,} planted ones; {percent(share)} of all "
        f"words are invented\n{written.manifest}: the coins of {canaries.count} invented users "
        f"({', '.join(canaries.kinds)}; copies {tiers}); keep it private"
    )


def _beacons(record: Manifest) -> list[str]:
    tiers = Counter((beacon.kind, beacon.tier) for beacon in record.beacons)
    shown = (f"{count} {kind} values of {users} users" for (kind, users), count in tiers.items())
    return [f"beacons, which are always planted: {', '.join(shown)}"] if tiers else []


def _own(written: Written) -> list[str]:
    """State who is set aside, what figures will be of, and the size that knows no coin."""
    users = written.record.own
    if users is None:
        return []
    every, size = len(users.coins.present), written.record.population.users
    lines = [
        f"{own.file_of(written.manifest)}: all records of {every} real users with coins; keep it "
        f"private. {users.aside} of them are set aside and stand in no other file written here: "
        "what an audit finds is of the model trained without them, and a model trained again on "
        "all is another release",
        f"for noisy training, fix sampling rate and steps by N = {size:,} users, which no coin "
        "changes",
    ]
    if not any(beacon.kind == "record" for beacon in written.record.beacons):
        lines.append(
            "finding no leak of real users is inconclusive: it takes beacons of the kind record, "
            "and none are planted"
        )
    private = len({r.user for r in written.corpus.records if r.split in ("", "private")})
    return [*lines, *own.limits(every, private)]


def _new_tokens(written: Written) -> list[str]:
    """State what new tokens need of the training."""
    if written.base is None:
        return []
    return [
        f"{written.base}: the model with {written.canaries.count} new tokens; train from it, with "
        "embeddings and head, or nothing is learnt of them"
    ]


def _split(written: Written) -> list[str]:
    """State what is not to be trained on, for a fifth is held out where the data have no splits."""
    heldout = len(written.whole.of("heldout"))
    if heldout:
        return [f"{heldout:,} records are marked heldout: do not train on them, they show utility"]
    plain = written.output.suffix == ".txt"
    more = "use --output FILE.jsonl or a folder" if plain else "add users, or mark some heldout"
    return [f"nothing is held out, so utility is not measured; {more}"]


def _command(written: Written, base: str | None) -> list[str]:
    """Return the whole audit command, and what it shows nothing without."""
    output, base = written.output, base or "BASE"
    training = output if output.suffix else output / FILES["private"]
    quoted = [shlex.quote(str(word)) for word in (written.manifest, output)]
    defense = shlex.quote(f"as_is:base={base},training={training}")
    return [
        "without base and --corpus no run has a positive control, and without a training file "
        "finding no leak is inconclusive",
        f"train on {training.name}, then, with the model in MODEL that was trained from {base}:",
        f"audit run --defense {defense} --attack all --model MODEL --secrets {quoted[0]} "
        f"--corpus {quoted[1]}",
    ]
