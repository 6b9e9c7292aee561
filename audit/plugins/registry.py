"""The folder is the registry: defenses/submix.py *is* `submix`. Other packages join by entry point.

Entry points of the groups `audit.defenses`, `audit.attacks` and `audit.reports` name a module; its
one concrete class is the plugin, as in the project's own folders. Listing imports no plugin.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import types
import typing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from audit.core.errors import UsageError, did_you_mean, first_line
from audit.core.fields import from_text, pairs

T = TypeVar("T")
_PAGES = {
    "defenses": "adding-a-defense",
    "attacks": "adding-an-attack",
    "reports": "adding-a-format",
}
_EXPORTS = "exports"  # a folder within `reports/` whose files are formats as well


def names(kind: str) -> list[str]:
    """Return the names of all plugins of a kind: "defenses", "attacks" or "reports"."""
    return sorted({*_own(kind), *(point.name for point in _entry_points(kind))})


def of_others(kind: str) -> set[str]:
    """Return the names of the plugins of a kind that other packages bring."""
    return {point.name for point in _entry_points(kind)} - {*_own(kind)}


def _own(kind: str) -> dict[str, Path]:
    """Find the files of the project's own plugins of a kind, by name."""
    home = _folder(kind)
    files = (path for folder in (home, home / _EXPORTS) for path in folder.glob("*.py"))
    return {path.stem: path for path in files if not path.stem.startswith("_")}


def module(kind: str, name: str) -> types.ModuleType:
    """Import the plugin's module. Raises UsageError for an unknown name, or another's module
    that cannot be imported."""
    if path := _own(kind).get(name):
        place = path.relative_to(_folder(kind).parent).with_suffix("")
        return importlib.import_module(".".join(place.parts))
    for point in _entry_points(kind):
        if point.name == name:
            try:
                return importlib.import_module(point.module)
            except Exception as error:  # a third-party module may raise anything
                why = f"cannot be imported ({first_line(error)}); mend or uninstall it"
                raise UsageError(f"{kind[:-1]} {name!r}: {point.module} {why}") from error
    if "/" in name or name.endswith(".py"):
        raise UsageError(
            f"unknown {kind[:-1]} {name!r}; {kind} are called by name, and your own file joins "
            f"by an entry point, as docs/{_PAGES[kind]}.md shows"
        )
    raise UsageError(f"unknown {kind[:-1]} {name!r}{did_you_mean(name, names(kind))}")


def check(kind: str, name: str) -> None:
    """Raise UsageError as `module` does; import only what another package brings."""
    if name not in _own(kind):
        module(kind, name)


def source(kind: str, name: str) -> Path:
    """Find the file of a plugin without importing it. Raises UsageError where it cannot."""
    if path := _own(kind).get(name):
        return path
    (point,) = (point for point in _entry_points(kind) if point.name == name)
    try:
        spec = importlib.util.find_spec(point.module)
    except Exception as error:  # a third-party package may raise anything
        raise UsageError(f"{kind[:-1]} {name!r}: {point.module}: {first_line(error)}") from error
    if spec is None or spec.origin is None:
        raise UsageError(f"{kind[:-1]} {name!r}: {point.module} is not installed; uninstall it")
    return Path(spec.origin)


def plugin(kind: str, name: str, ancestor: type[T]) -> type[T]:
    """Return the one concrete subclass of `ancestor` that the plugin's module defines."""
    imported = module(kind, name)
    classes = [
        value
        for value in vars(imported).values()
        if inspect.isclass(value)
        and issubclass(value, ancestor)
        and value.__module__ == imported.__name__
        and not inspect.isabstract(value)
    ]
    if len(classes) != 1:
        raise UsageError(
            f"{kind[:-1]} {name!r}: {imported.__name__} defines {len(classes)} concrete "
            f"{ancestor.__name__} classes; it must define one"
        )
    return classes[0]


def build(kind: str, text: str, ancestor: type[T], extra: dict[str, Any]) -> tuple[str, T]:
    """Make the plugin that `NAME[:key=value,…]` describes; lists inside a value join with "+".

    extra: further values by field name, where the class has a field that the text does not set.
    Raises UsageError for an unknown name or key, or a value of the wrong type.
    """
    name, _, rest = text.partition(":")
    name = name.strip()
    cls = plugin(kind, name, ancestor)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values = {key: value for key, value in extra.items() if key in fields}
    given = pairs(filter(str.strip, rest.split(",")), fields, name, "parameter")
    for key, value in given.items():
        values[key] = from_text(value, hints[key], f"{name}: {key}")
    return name, cls(**values)


def check_one_place() -> None:
    """Raise UsageError unless the four packages come from one place.

    Their names are common words: another distribution's `reports` must not become part of a report.
    """
    places = {_folder(kind).parent for kind in ("audit", "attacks", "defenses", "reports")}
    if len(places) != 1:
        where = ", ".join(sorted(str(place) for place in places))
        raise UsageError(
            f"audit, attacks, defenses and reports come from different places ({where}); "
            "install audit into an environment of its own"
        )


def _folder(kind: str) -> Path:
    spec = importlib.util.find_spec(kind)
    if spec is None or spec.origin is None:
        raise UsageError(f"the package {kind!r} is missing; install audit again")
    return Path(spec.origin).parent


def _entry_points(kind: str) -> list[Any]:
    return list(entry_points(group=f"audit.{kind}"))
