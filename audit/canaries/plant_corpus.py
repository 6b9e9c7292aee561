"""Carries out `audit plant`: reads a corpus, inserts canaries, writes corpus and manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.canaries import manifest as manifests
from audit.canaries.insertion import Canaries, fresh_seed, plant_into
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.fields import from_text
from audit.corpora import loading as corpora
from audit.corpora import writing
from audit.results.words import percent


def plant(source: str, output: Path, manifest: Path, given: Mapping[str, Any]) -> str:
    """Plants canaries as `given` (kind, count, repetitions, seed), and returns a summary.

    Writes the manifest first: without it the planted corpus is useless. Raises UsageError.
    """
    if manifest.exists():
        raise UsageError(f"{manifest}: exists already, and its coins would be lost; choose another")
    writing.check_free(output)
    canaries = _canaries(given)
    corpus = corpora.read(source, EMBEDDED_FOLDER)
    planted, record = plant_into(corpus, canaries, given.get("seed", fresh_seed()))
    manifests.write(record, manifest)
    try:
        writing.write(planted.records, output)
    except UsageError:
        manifest.unlink()
        raise
    added = len(planted.records) - len(corpus.records)
    share = f"{percent(added / len(planted.records))} of all"
    if added > len(corpus.records) / 4:
        share += "; so many change what the model learns, so plant fewer"
    return (
        f"{output}: {len(corpus.records):,} records and {added:,} planted ones ({share})\n"
        f"{manifest}: the coins of {canaries.count} invented users; keep it private\n"
        f"train on {output.name}, then: audit run --defense as_is --attack all --model MODEL "
        f"--secrets {manifest}"
    )


def _canaries(given: Mapping[str, Any]) -> Canaries:
    options: dict[str, Any] = {}
    if "kind" in given:
        options["kinds"] = tuple(given["kind"])
    if "count" in given:
        options["count"] = given["count"]
    if "repetitions" in given:
        words = str(given["repetitions"]).replace(",", "+")
        options["repetitions"] = from_text(words, tuple[int, ...], "--repetitions")
    return Canaries(**options)
