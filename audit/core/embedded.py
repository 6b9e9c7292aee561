"""Locates the embedded corpora and model: in an installed wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "fixtures", _PACKAGE.parent / "fixtures")

EMBEDDED_FOLDER = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
