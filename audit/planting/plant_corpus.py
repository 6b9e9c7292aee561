"""Carries out `audit plant`: reads a corpus, inserts canaries, writes corpus and manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_text
from audit.core.wording import by_kind
from audit.core.writing import remove_folder
from audit.corpora import loading as corpora
from audit.corpora import writing
from audit.corpora.reading import NAMES, Reading
from audit.planting import designs, gradients, new_tokens, own
from audit.planting import manifest as manifests
from audit.planting.budget import SHARE, budget_of, notes, within
from audit.planting.designs import DESIGNS, RANDOM, Base, Designed
from audit.planting.gradients import GRADIENT
from audit.planting.insertion import Canaries, draws_of, fresh_seed, plant_into
from audit.planting.manifest import Manifest
from audit.planting.new_tokens import NEW_TOKEN
from audit.planting.summary import Written, summary
from audit.planting.templates import template_of

Extended = Callable[[str, Sequence[str], Path], tuple[Base, str]]


def plant(
    source: str,
    output: Path,
    manifest: Path,
    given: Mapping[str, Any],
    opened: Callable[[str], Base],
    extended: Extended,
) -> str:
    """Plant canaries and return a summary.

    Writes the manifest first: without it the planted corpus is useless. Raises UsageError.

    given: kind, pattern, turn, count, repetitions, template, design, base, seed, beacons, share,
        coin_users, and how the corpus is read. opened: loads a base by its name. extended: writes
        a base with new tokens into a folder, and returns it with the SHA-256 of the one without.
    """
    given = _checked(given)
    if manifest.exists():
        raise UsageError(f"{manifest}: exists already, and its coins would be lost; choose another")
    writing.check_free(output)
    if manifest.absolute() == output.absolute():
        raise UsageError(f"{output}: is both --output and --manifest; give each a file of its own")
    if "coin_users" in given:
        own.check_place(manifest, output, Path(source))
    asked = _canaries(given)
    corpus = _held_out(corpora.read(source, EMBEDDED_FOLDER, Reading.of(given)), output)
    budget = budget_of(corpus, asked, given.get("share", SHARE))
    with_beacons = _wants_beacons(given)
    lit = [k for k in asked.kinds if k != "record" or _design(given) == RANDOM]
    of_records = "record" if "coin_users" in given else ""  # they show what is seen of real users
    fields = {_FIELDS.get(name, name) for name in given}
    canaries = within(budget, asked, fields, lit if with_beacons else (), of_records)
    seed = given.get("seed", fresh_seed())
    draws = draws_of(seed, corpus, canaries)
    made = _new_base(given, output)
    try:
        if made is None:
            designed = _designed(given, canaries, corpus, draws, opened)
        else:
            designed = _of_new_tokens(given, canaries, corpus, draws, extended, made)
        users = own.drawn(corpus, given["coin_users"], draws) if "coin_users" in given else None
        planted, record = plant_into(corpus, canaries, seed, designed, users)
        record = _write(record, planted, corpus, manifest, output)
    except (UsageError, KeyboardInterrupt) as error:
        if made is not None and not _came_late(error, output):
            remove_folder(made)
        raise
    written = Written(source, output, manifest, corpus, planted, record, canaries, made)
    limits = notes(budget, asked, canaries, len(corpus.records), with_beacons)
    return summary(written, limits, given.get("base"))


def _write(
    record: Manifest, planted: Corpus, corpus: Corpus, manifest: Path, output: Path
) -> Manifest:
    """Write the records of users with coins, the manifest and the corpus: all, or nothing."""
    files = [manifest] if record.own is None else [manifest, own.file_of(manifest)]
    try:
        if record.own is not None:
            kept = own.written(record.own, corpus.records, manifest)
            record = replace(record, own=kept)
        manifests.write(record, manifest)
        writing.write(planted.records, output)
    except (UsageError, KeyboardInterrupt) as error:
        for file in [] if _came_late(error, output) else files:
            file.unlink(missing_ok=True)
        raise
    return record


def _came_late(error: BaseException, output: Path) -> bool:
    """Return whether an interrupt came once the corpus was written, which needs its manifest."""
    return isinstance(error, KeyboardInterrupt) and output.exists()


_SEVERAL = ("kind", "template")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(
        (*_SEVERAL, "pattern", "turn", "repetitions", "beacons", "design", "base"), str
    ),
    **dict.fromkeys(("count", "seed"), int),
    **dict.fromkeys(("share", "coin_users"), float),
    **dict.fromkeys(NAMES, str),
}


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is given as its type; None is absent. Raises UsageError."""
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _TYPES:
            raise UsageError(f"plant: unknown setting {name!r}{did_you_mean(name, list(_TYPES))}")
        if name in _SEVERAL and value is not None:
            checked[name] = (value,) if isinstance(value, str) else tuple(value)
        elif value is not None:
            whole = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            checked[name] = from_text(whole, _TYPES[name], f"--{name.replace('_', '-')}")
    return checked


BEACONS = "none"  # until it is measured, over 5 seeds, that they leave the AUC of coins as it is
_FIELDS = {"kind": "kinds"}  # of Canaries, by the option that gives them


def _held_out(corpus: Corpus, output: Path) -> Corpus:
    """Hold out a fifth of the users for utility, where the data have no splits and a file can.

    Raises UsageError for a user in two splits, whom no coin could set aside whole.
    """
    corpora.check_users_in_one_split(corpus.name, corpus.records)
    if output.suffix == ".txt" or any(record.split for record in corpus.records):
        return corpus
    return replace(corpus, records=corpora.split(corpus.name, corpus.records))


def _wants_beacons(given: Mapping[str, Any]) -> bool:
    wanted = given.get("beacons", BEACONS)
    if wanted not in ("auto", "none"):
        raise UsageError(f"--beacons {wanted}: is auto or none")
    return bool(wanted == "auto")


def _canaries(given: Mapping[str, Any]) -> Canaries:
    options = {name: given[name] for name in ("pattern", "turn", "count") if name in given}
    if "kind" in given:
        options["kinds"] = given["kind"]
    if "repetitions" in given:
        words = given["repetitions"].replace(",", "+")
        options["repetitions"] = from_text(words, tuple[int, ...], "--repetitions")
    options["templates"] = {
        kind: template_of(template, f"--template {kind}")
        for kind, template in by_kind(given.get("template", ())).items()
    }
    return Canaries(**options)


def _design(given: Mapping[str, Any]) -> str:
    """Return the design of records: who names the base has weights to audit, unless one is given.

    New tokens show more of what DP-SGD leaks than any text (docs/methods/record-designs.md).
    """
    design: str = given.get("design", NEW_TOKEN if "base" in given else RANDOM)
    return design


def _designed(
    given: Mapping[str, Any],
    canaries: Canaries,
    corpus: Corpus,
    seed: int,
    opened: Callable[[str], Base],
) -> Designed | None:
    """Make two records for each user by the design; None for random words."""
    name, base = _design(given), given.get("base")
    if name == RANDOM:
        if base is not None:
            raise UsageError(f"--base {base}: random records need none; add --design model")
        return None
    base = _named_base(name, base, canaries)
    public = corpus.of("public") or corpora.read("helpdesk", EMBEDDED_FOLDER).of("public")
    texts = [record.text for record in corpus.records]
    prompts = [record.text for record in public]
    if name == GRADIENT:
        return gradients.make(opened(base), prompts, 2 * canaries.count, seed)
    return designs.make(name, opened(base), texts, prompts, 2 * canaries.count, seed)


def _named_base(name: str, base: str | None, canaries: Canaries) -> str:
    """Return the base that a design needs. Raises UsageError."""
    known = [RANDOM, *DESIGNS, GRADIENT, NEW_TOKEN]
    if name not in known:
        hint = did_you_mean(name, known)
        raise UsageError(f"--design {name}: the designs are {', '.join(known)}{hint}")
    if "record" not in canaries.kinds:
        raise UsageError(f"--design {name}: designs are of records; add --kind record")
    if base is None:
        raise UsageError(f"--design {name}: give --base, the model that the training starts from")
    return base


def _new_base(given: Mapping[str, Any], output: Path) -> Path | None:
    """Return the free folder for a base with new tokens; None where none are planted."""
    if _design(given) != NEW_TOKEN:
        return None
    folder = output.with_name(f"{output.stem}-base")
    if folder.exists():
        raise UsageError(
            f"{folder}: exists already; remove it if it is left of a killed `audit plant`, "
            "or choose another --output"
        )
    return folder


def _of_new_tokens(
    given: Mapping[str, Any],
    canaries: Canaries,
    corpus: Corpus,
    seed: int,
    extended: Extended,
    folder: Path,
) -> Designed:
    """Write the base with a new token for each user, before any coin, and make their records."""
    base = _named_base(NEW_TOKEN, given.get("base"), canaries)
    tokens = new_tokens.words(canaries.count, [record.text for record in corpus.records], seed)
    with_tokens, without = extended(base, tokens, folder)
    return new_tokens.make(with_tokens, without, tokens)
