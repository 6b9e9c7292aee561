"""What every plugin owes, defense or attack: one class that can be listed, built and read about."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from audit.contract.imports import imported
from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.plugins.registry import convert

Plugin = Defense | Attack


def is_a_frozen_dataclass(made: Plugin) -> None:
    """Its parameters are part of a run's identity: they can neither change nor hide."""
    cls = type(made)
    found = vars(cls).get("__dataclass_params__")
    assert found is not None, f"{cls.__name__} is no dataclass: write @dataclass(frozen=True)"
    assert found.frozen, f"{cls.__name__} can be changed: write @dataclass(frozen=True)"
    assert found.eq, f"{cls.__name__} is not compared by its parameters: leave eq=True"


def is_final_on_top_of_abstract_classes(made: Plugin) -> None:
    """What it does is read in one class; what several share is abstract, or a function."""
    cls = type(made)
    assert not cls.__subclasses__(), f"{cls.__name__} has subclasses: a plugin is final"
    for base in cls.__mro__[1:]:
        concrete = issubclass(base, (Defense, Attack)) and not inspect.isabstract(base)
        assert not concrete, f"{cls.__name__} derives from {base.__name__}, which is not abstract"


def says_what_it_is_and_what_every_parameter_does(made: Plugin) -> None:
    """`audit list` shows the first line; a line `name: …` says what a parameter does."""
    cls = type(made)
    module = inspect.getmodule(cls)
    assert module is not None and module.__doc__, f"the module of {cls.__name__} has no docstring"
    text = inspect.cleandoc(cls.__doc__ or "")
    own = text and not text.startswith(f"{cls.__name__}(")  # the dataclass's own
    assert own, f"{cls.__name__} has no docstring"
    summary = text.split("\n")[0]
    assert len(summary) > 20, f"{cls.__name__} says too little of what it does: {summary!r}"
    for name in _defaults(cls):
        assert f"\n{name}:" in text, f"{cls.__name__} has no line `{name}: …` in its docstring"


def is_built_from_its_name_alone(made: Plugin) -> None:
    """Every field has a default, so that the name is enough, and equal settings are equal."""
    cls = type(made)
    for name, default in _defaults(cls).items():
        told = f"{cls.__name__}.{name} has no default that can be listed"
        assert default is not dataclasses.MISSING, told
    assert cls() == cls(), f"two {cls.__name__}() differ"
    assert cls.__hash__ is not None, f"{cls.__name__} has no hash: write @dataclass(frozen=True)"
    assert hash(cls()) == hash(cls()), f"two {cls.__name__}() have different hashes"


def has_parameters_that_can_be_written(made: Plugin) -> None:
    """`NAME:key=value` gives back every default, a tuple's parts joined by `+`."""
    cls = type(made)
    hints = typing.get_type_hints(cls)
    for name, default in _defaults(cls).items():
        word = "+".join(map(str, default)) if isinstance(default, tuple) else str(default)
        told = f"{cls.__name__}: {name}={word} cannot be written; use none for an empty default"
        assert word and "," not in word, told
        try:
            read = convert(word, hints[name], f"{cls.__name__}.{name}")
        except UsageError as error:
            raise AssertionError(f"{error}, as the field is annotated") from None
        assert read == default, f"{cls.__name__}: {name}={word} is read as {read!r}"


def imports_of(made: Plugin) -> frozenset[str]:
    """What the module of a plugin imports; see `imported`."""
    cls = type(made)
    module = inspect.getmodule(cls)
    assert module is not None and inspect.getsourcefile(cls), f"{cls.__name__} lies in no file"
    return imported(inspect.getsource(module), module.__package__ or "")


def _defaults(cls: type[Any]) -> dict[str, Any]:
    """Field names and defaults; MISSING where there is none. Empty for what is no dataclass."""
    return {name: f.default for name, f in getattr(cls, "__dataclass_fields__", {}).items()}


CHECKS = (
    is_a_frozen_dataclass,
    is_final_on_top_of_abstract_classes,
    says_what_it_is_and_what_every_parameter_does,
    is_built_from_its_name_alone,
    has_parameters_that_can_be_written,
)
