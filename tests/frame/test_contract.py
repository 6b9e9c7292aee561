"""What every plugin and every public name owes its reader."""

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from audit import plugins
from audit.attack import Attack
from audit.defense import Defense
from audit.predictor import Access
from audit.secrets import KINDS

PROJECT = Path(__file__).parents[2]
ANCESTORS = {"defenses": Defense, "attacks": Attack}
PLUGINS = [(kind, name) for kind in ANCESTORS for name in plugins.names(kind)]


@pytest.fixture(params=PLUGINS, ids=lambda pair: ":".join(pair))
def plugin(request):
    kind, name = request.param
    return kind, name, plugins.plugin(kind, name, ANCESTORS[kind])


def test_there_are_plugins():
    assert {name for kind, name in PLUGINS if kind == "defenses"} >= {"none", "public", "submix"}
    assert {name for kind, name in PLUGINS if kind == "attacks"} >= {"extraction"}


def test_it_is_a_frozen_dataclass(plugin):
    _, _, cls = plugin
    assert dataclasses.is_dataclass(cls)
    assert "__dataclass_params__" in vars(cls)
    assert cls.__dataclass_params__.frozen
    assert cls.__dataclass_params__.eq


def test_it_is_final_on_top_of_abstract_classes(plugin):
    _, _, cls = plugin
    assert not inspect.isabstract(cls)
    assert cls.__subclasses__() == []
    ours = [c for c in cls.__mro__[1:] if c.__module__.split(".")[0] in ("audit", *ANCESTORS)]
    assert ours
    assert all(inspect.isabstract(c) for c in ours)


def test_it_says_what_it_is_and_every_parameter_what_it_does(plugin):
    _, _, cls = plugin
    text = inspect.cleandoc(cls.__doc__)
    assert not text.startswith(f"{cls.__name__}(")  # the dataclass's own
    assert len(text.split("\n")[0]) > 20
    assert inspect.getmodule(cls).__doc__
    for field in dataclasses.fields(cls):
        assert f"\n{field.name}:" in text


def test_it_builds_from_its_bare_name(plugin):
    kind, name, cls = plugin
    assert all(f.default is not dataclasses.MISSING for f in dataclasses.fields(cls)), (
        "every field has a default that can be listed"
    )
    called, made = plugins.build(kind, name, ANCESTORS[kind], {})
    assert called == name
    assert made == cls()
    assert hash(made) == hash(cls())


def test_its_parameters_can_be_written_on_a_command_line(plugin):
    kind, name, cls = plugin
    for field in dataclasses.fields(cls):
        value = field.default
        word = "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
        _, made = plugins.build(kind, f"{name}:{field.name}={word}", ANCESTORS[kind], {})
        assert made == cls()


def test_it_is_listed(plugin):
    from audit.listing import entries

    kind, name, cls = plugin
    (entry,) = (entry for entry in entries(kind) if entry["name"] == name)
    assert entry["summary"]
    assert set(entry["parameters"]) == {f.name for f in dataclasses.fields(cls)}
    json.dumps(entry, allow_nan=False)


@pytest.mark.parametrize("name", plugins.names("attacks"))
def test_an_attack_declares_its_secrets_and_its_access(name):
    made = plugins.plugin("attacks", name, Attack)()
    assert made.kinds
    assert set(made.kinds) <= set(KINDS)
    assert isinstance(made.access, Access)
    assert made.trials() >= 1


@pytest.mark.parametrize("name", plugins.names("defenses"))
def test_every_default_epsilon_is_finite(name):
    epsilon = getattr(plugins.plugin("defenses", name, Defense)(), "epsilon", 1.0)
    assert 0 < epsilon < float("inf")


@pytest.mark.parametrize("name", plugins.names("reports"))
def test_a_report_can_be_written(name):
    module = plugins.module("reports", name)
    assert list(inspect.signature(module.write).parameters) == ["results", "folder"]
    assert module.__doc__


def test_the_list_names_every_plugin():
    done = subprocess.run(
        [sys.executable, "-m", "audit", "list"],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=True,
    )
    for _, name in PLUGINS:
        assert f"\n  {name} " in done.stdout


# docstrings


def public(path):
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [node for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


FILES = sorted(
    p for package in ("audit", "attacks", "defenses") for p in (PROJECT / package).rglob("*.py")
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PROJECT)))
def test_every_module_and_public_name_has_a_docstring(path):
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text))
    assert [node.name for node in public(path) if not ast.get_docstring(node)] == []


# classes


def test_every_class_is_abstract_or_final():
    """No class of the project derives from a concrete class of the project."""
    classes = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = [ast.unparse(base).split("[")[0] for base in node.bases]
    markers = {"ABC", "Protocol", "BaseModel"}
    abstract = {name for name, bases in classes.items() if markers & set(bases)}
    wrong = {
        name: base
        for name, bases in classes.items()
        for base in bases
        if base in classes and base not in abstract
    }
    assert wrong == {}
