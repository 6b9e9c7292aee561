"""Gathers settings: flag > AUDIT_* variable > plan file > pyproject.toml > default."""

from __future__ import annotations

import os
import sys
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.core import files
from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_text
from audit.core.visible import printed
from audit.corpora.reading import NAMES
from audit.plan import trust

KNOWN: dict[str, Any] = {
    "defense": tuple[str, ...],
    "attack": tuple[str, ...],
    "corpus": str,
    **dict.fromkeys(NAMES, str),
    "model": str,
    "secrets": str,
    "coin_users": float,
    "epsilon": float,
    "delta": float,
    "policy": str,
    "release": str,
    "lora": str,
    "seed": int,
    "device": str,
    "references": bool,
    "remedies": bool,
    "utility_tokens": int,
    "looks": int,
    "after": str,
    "until": str,
    "threads": int,
    "output": str,
    "format": tuple[str, ...],
    "workers": str,
    "processes": int,
    "sharded": bool,
    "reveal": bool,
    "author": str,
}
TABLES = ("planting", "training", "silence")


def gather(
    flags: Mapping[str, Any], plan_file: Path | None, own: str = "", trust_config: bool = False
) -> dict[str, Any]:
    """Resolve all settings by precedence. Flags that are None were not given.

    own: a table of the plan file that is the command's own; it is not looked into here.
    trust_config: whether pyproject.toml may run code, load plugins and lead outside its folder;
        what it may not do is ignored, with one line on stderr.
    Raises UsageError for an unknown key in a file, a value of the wrong type, or a file that
    cannot be read.
    """
    settings = _from_pyproject(trust_config)
    if plan_file is not None:
        written = checked(_read_toml(plan_file), str(plan_file), own)
        if code := trust.author_runs_code(plan_file, written):
            print(printed(code), file=sys.stderr)
        settings = _over(settings, written)
    settings = _over(settings, _from_environment())
    return _over(settings, {k: v for k, v in flags.items() if v is not None and v != ()})


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**below, **above}
    for table in TABLES:
        if table in below and table in above:
            merged[table] = {**below[table], **above[table]}
    return merged


def _from_pyproject(trusted: bool) -> dict[str, Any]:
    path = Path("pyproject.toml")
    if not path.is_file():
        return {}
    tool = _read_toml(path).get("tool", {})
    table = tool.get("audit", {}) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.audit] must be a table")
    settings = checked(table, f"{path} [tool.audit]")
    reasons = {} if trusted else trust.untrusted(settings)
    if reasons:
        print(printed(trust.ignored(path, reasons)), file=sys.stderr)
    return {key: value for key, value in settings.items() if key not in reasons}


def _from_environment() -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for variable, text in sorted(os.environ.items()):
        key = variable.removeprefix("AUDIT_").lower()
        if not variable.startswith("AUDIT_") or key in ("debug", "plan", "stage_key"):
            continue
        if key in KNOWN:
            if key in ("defense", "attack"):
                settings[key] = tuple(text.split())
            elif key == "format":
                settings[key] = tuple(text.replace(",", " ").split())
            else:
                settings[key] = from_text(text, KNOWN[key], variable)
        elif "did you mean" in did_you_mean(key, list(KNOWN)):
            raise UsageError(f"unknown variable {variable}{did_you_mean(key, list(KNOWN))}")
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(files.read_text(path))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error})") from None


def checked(table: Mapping[str, Any], where: str, own: str = "") -> dict[str, Any]:
    """Return a file's table with every key known and every value of its type."""
    checked: dict[str, Any] = {}
    for key, value in table.items():
        if key in (*TABLES, own):
            if not isinstance(value, dict):
                raise UsageError(f"{where}: {key} must be a table")
            checked[key] = value
        elif key == "sweep":
            raise UsageError(f"{where}: [sweep] is for `audit sweep`")
        elif key not in KNOWN:
            raise UsageError(f"{where}: unknown key {key!r}{did_you_mean(key, [*KNOWN, *TABLES])}")
        elif isinstance(value, list) and typing.get_origin(KNOWN[key]) is tuple:
            checked[key] = tuple(str(item) for item in value)
        elif isinstance(value, list):
            raise UsageError(f"{where}: {key} takes one value, not a list")
        elif isinstance(value, dict):
            raise UsageError(f"{where}: {key} cannot be a table")
        elif typing.get_origin(KNOWN[key]) is tuple:
            checked[key] = (str(value),)
        else:
            checked[key] = from_text(str(value), KNOWN[key], f"{where}: {key}")
    return checked
