"""Reads the two sides of a comparison from the files that `audit check-data` is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from audit.confounding.sides import Sides, of_corpora, of_manifest
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError, did_you_mean
from audit.core.secret import OWN
from audit.corpora import loading, users
from audit.corpora.reading import NAMES, Reading
from audit.planting import manifest as manifests
from audit.planting import own


def of_files(
    inside: str,
    outside: str | None,
    secrets: Path | None,
    kind: str | None,
    reading: Mapping[str, str],
) -> Sides:
    """Read members and others, each a corpus; or a training file and the manifest of its coins.

    kind: of the manifest's people; None: real users where they have coins, else the first kind.
    Raises UsageError.
    """
    if unknown := [name for name in reading if name not in NAMES]:
        hint = did_you_mean(unknown[0], list(NAMES))
        raise UsageError(f"check-data: unknown setting {unknown[0]!r}{hint}")
    if (outside is None) == (secrets is None):
        raise UsageError(
            "check-data compares IN with OUT, or FILE with --secrets MANIFEST; give one of the two"
        )
    if kind is not None and secrets is None:
        raise UsageError(f"--kind {kind}: is of a manifest; add --secrets MANIFEST")
    how = Reading.of(reading)
    members = loading.read(inside, EMBEDDED_FOLDER, how)
    if outside is not None:
        others = loading.read(outside, EMBEDDED_FOLDER, how)
        across: dict[str, int] = {}
        joined = users.in_form([*members.records, *others.records], how.user_form, across)
        both = (
            replace(members, records=tuple(joined[: len(members.records)])),
            replace(others, records=tuple(joined[len(members.records) :])),
        )
        sides = of_corpora(both, (inside, outside))
        read = [f"{corpus.name}: {note}" for corpus in both for note in corpus.notes]
        return replace(sides, notes=(*read, *across, *sides.notes))
    assert secrets is not None
    manifest = manifests.read(secrets)
    aside = () if manifest.own is None else own.read(manifest.own, secrets)
    chosen = kind or (manifest.secrets[0].kind if manifest.own is None else OWN)
    return of_manifest(manifest, aside, members, inside, chosen)
