"""Reads results.json, whatever stands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from audit.core import files
from audit.core.errors import UsageError
from audit.results.schema import SCHEMA_VERSION, Results, first_error

AGAIN = "; run its plan again, which trains nothing that is there"


def read(path: Path, context: dict[str, str] | None = None) -> tuple[dict[str, Any], Results]:
    """Read results.json, as it stands and as typed.

    context: FROM_FILE where numbers that contradict each other are refused, too. Raises UsageError
    if it is missing, broken, of another version or of another form.
    """
    document = _document(path)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path}: schema version {version!r}; this audit reads {SCHEMA_VERSION!r}")
    try:
        return document, Results.model_validate(document, context=context)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error)}") from None
    except UnicodeEncodeError:  # of a refusal that would quote it
        raise UsageError(f"{path}: what is wrong in it holds half a character{AGAIN}") from None


def _document(path: Path) -> dict[str, Any]:
    try:
        document = files.read_json(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no results here; `audit run` writes them") from None
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None
    return document if isinstance(document, dict) else {}
