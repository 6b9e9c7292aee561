"""`audit plant`: reads a corpus, plants canaries, writes the corpus and the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.canaries import manifest as manifests
from audit.canaries.insertion import Canaries, fresh_seed, plant_into
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora import loading as corpora
from audit.corpora import writing
from audit.plugins.registry import convert
from audit.results.words import percent


def plant(source: str, output: Path, manifest: Path, given: Mapping[str, Any]) -> str:
    """Plants what `given` asks for (kind, count, repetitions, seed), and says what was done.

    The manifest is written first: a corpus without it would be lost. Raises UsageError.
    """
    if manifest.exists():
        raise UsageError(f"{manifest}: is there already; its coins would be lost, choose another")
    writing.check_free(output)
    canaries = _canaries(given)
    corpus = corpora.read(source, EMBEDDED_FOLDER)
    planted, kept = plant_into(corpus, canaries, given.get("seed", fresh_seed()))
    manifests.write(kept, manifest)
    try:
        writing.write(planted.records, output)
    except UsageError:
        manifest.unlink()
        raise
    added = len(planted.records) - len(corpus.records)
    share = f"{percent(added / len(planted.records))} of all"
    if added > len(corpus.records) / 4:
        share += "; so many change what is learned, plant fewer"
    return (
        f"{output}: {len(corpus.records):,} records and {added:,} planted ones ({share})\n"
        f"{manifest}: the coins of {canaries.count} invented users; keep it to yourself\n"
        f"train on {output.name}, then: audit run --defense as_is --attack all --model MODEL "
        f"--secrets {manifest}"
    )


def _canaries(given: Mapping[str, Any]) -> Canaries:
    asked: dict[str, Any] = {}
    if "kind" in given:
        asked["kinds"] = tuple(given["kind"])
    if "count" in given:
        asked["count"] = given["count"]
    if "repetitions" in given:
        words = str(given["repetitions"]).replace(",", "+")
        asked["repetitions"] = convert(words, tuple[int, ...], "--repetitions")
    return Canaries(**asked)
