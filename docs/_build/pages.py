"""Fills the generated parts of the site at build: `<!-- generated: NAME -->` in a page.

The text comes from the program itself (its schema, its help, its plugins), so it cannot be stale.
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from audit.cli.app import cli
from audit.core import HOME
from audit.results.schema import schema
from reports.exports._annex.document import schema as annex_schema

ROOT = Path(__file__).parents[2]
MEANINGS = tomllib.loads(Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8"))
MARKER = re.compile(r"^<!-- generated: ([\w. -]+) -->$", re.M)

_spec = importlib.util.spec_from_file_location("docs_fields", Path(__file__).with_name("fields.py"))
assert _spec and _spec.loader
_fields = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fields)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this for every page before it is converted."""
    return MARKER.sub(lambda marker: PARTS[marker[1]](), markdown)


def command_line() -> str:
    """The help of every command, as the terminal shows it."""
    return "\n\n".join(
        f"## {name}\n```text\n{text.strip()}\n```" for name, text in _helped(cli, "audit")
    )


def _helped(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=path, max_content_width=100)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _helped(inner, f"{path} {name}")


def results() -> str:
    """Every table of results.json with its keys."""
    return _tables("Results", schema())


def annex() -> str:
    """Every table of annex.json with its keys."""
    return _tables("Annex", annex_schema())


def _tables(name: str, document: dict[str, Any]) -> str:
    """Every table of a JSON Schema with its keys, the outermost first."""
    tables = {name: document, **document["$defs"]}
    keyed = {one: table for one, table in tables.items() if "properties" in table}  # no lists of words
    return "\n\n".join(_table(one, table) for one, table in keyed.items())


def _table(name: str, table: dict[str, Any]) -> str:
    parts = _fields.parsed(table.get("description", ""), table["properties"])
    meanings = dict(MEANINGS.get(name, {}))
    meanings |= {one: text for names, text in parts if names for one in names.split(", ")}
    text = "\n\n".join(text for names, text in parts if not names)
    rows = [
        f"| `{key}` | {_type(value)} | {_cell(value.get('description') or meanings.get(key, ''))} |"
        for key, value in table["properties"].items()
    ]
    head = "| key | type | meaning |\n|---|---|---|"
    return "\n".join([f"## {name}", "", text, "", head, *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _type(value: dict[str, Any]) -> str:
    """A JSON Schema type in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_type(one) for one in value["anyOf"]))
    if value.get("type") == "array":
        if "prefixItems" in value:
            return f"[{', '.join(_type(one) for one in value['prefixItems'])}]"
        return f"list of {_type(value['items'])}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"table of {_type(inner)}" if isinstance(inner, dict) and inner else "table"
    return str(value.get("type", "any value"))


def core() -> str:
    """A directive for each noun of audit.core, by the file it stands in."""
    files: dict[str, list[str]] = {}
    for name, file in HOME.items():
        files.setdefault(file, []).append(f"::: audit.core.{file}.{name}")
    return "\n\n".join(f"## {file}\n\n" + "\n\n".join(all_) for file, all_ in files.items())


def plugins(kind: str, base: str) -> str:
    """A directive for the class of every built-in plugin, by the name that a plan writes."""
    found = {
        path.stem: re.search(rf"^class (\w+)\(\w*{base}\):", path.read_text(encoding="utf-8"), re.M)
        for path in sorted((ROOT / kind).glob("[!_]*.py"))
    }
    return "\n\n".join(
        f"## {name}\n\n::: {kind}.{name}.{match[1]}\n    options: {{members: false}}"
        for name, match in found.items()
        if match
    )


PARTS: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "results.json": results,
    "annex.json": annex,
    "audit.core": core,
    "defenses": lambda: plugins("defenses", "Defense"),
    "attacks": lambda: plugins("attacks", "Attack"),
}
