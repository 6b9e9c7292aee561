"""Reads corpora as a run does, from files that a test writes or from a hub that it plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora.loading import load
from audit.corpora.reading import USUAL, Reading


def read(source: Path | str, reading: Reading = USUAL) -> Corpus:
    return load(str(source), EMBEDDED_FOLDER, reading)


def jsonl(path: Path, *rows: Any) -> Path:
    """Writes a row a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
