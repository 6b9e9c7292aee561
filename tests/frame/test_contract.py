"""What every plugin and every public name owes its reader."""

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audit import plugins
from audit.attack import Attack, Knowledge
from audit.defense import Defense
from audit.evidence import from_json, to_json
from audit.findings import Case, findings_of
from audit.language_model import OpenSession
from audit.predictor import Access
from audit.samples import Counted
from audit.secrets import KINDS, Coins, Secret, Space, digits

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
    assert isinstance(made.shadows, int) and made.shadows >= 0


# an attack against a toy: six users, two of them held out, a model of two tokens' memory

OWNERS = ("ann", "ben", "cat", "dan", "eve", "fay")
FIRST, LAST = ("ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal"), ("lee", "orr", "poe")


def planted():
    """Every kind of secret, all values different."""
    spaces = {"code": digits(3), "id": digits(2), "name": Space((FIRST, LAST)), "record": None}
    found = []
    for i, owner in enumerate(OWNERS):
        for slot in (0, 1):
            n = 2 * i + slot
            values = {"code": f"{n:03}", "id": f"{n:02}", "name": FIRST[i] + LAST[slot]}
            values["record"] = f"hello#{i}iam{owner}"
            for kind, value in values.items():
                prefix = "" if kind == "record" else f"my{kind}is#"
                found.append(Secret(kind, prefix, value, "", spaces[kind], 1 + i % 2, owner, slot))
    return tuple(found)


@pytest.fixture(params=plugins.names("attacks"))
def attacked(request, bigram):
    """(attack, its secrets, evidence, the session) for any access."""
    attack = plugins.plugin("attacks", request.param, Attack)()
    secrets = tuple(s for s in planted() if s.kind in attack.kinds)

    def run(access=Access.DISTRIBUTION, readable=None, remaining=None):
        class Session(OpenSession):
            pass

        Session.readable = access if readable is None else readable

        class Limited(Counted):
            @property
            def remaining(self):
                return None if remaining is None else remaining - self.queries

        vocabulary = 38
        session = Session(bigram(1, 3.0, vocabulary), np.random.default_rng(0), access=access)
        counted = Limited(session)
        knowledge = Knowledge(
            OpenSession(bigram(2, 1.0, vocabulary), np.random.default_rng(0)),
            texts=("good#morning", "see#you"),
            names=("guspoe", "hallee", "gusorr"),
            shadows=(),
            stream=np.random.default_rng(0),
        )
        return attack, secrets, attack.run(counted, secrets, knowledge), counted

    return run


COINS = Coins({owner: i % 2 == 0 for i, owner in enumerate(OWNERS)}, dict.fromkeys(OWNERS, 0))


@pytest.mark.parametrize("access", list(Access))
def test_its_evidence_becomes_findings_of_no_more_tests_than_it_says(attacked, access):
    attack, secrets, evidence, _ = attacked(access)
    case = Case("x", secrets, COINS, 0.0, 0, access, tests=attack.tests(secrets))
    found = findings_of(evidence, case)
    assert found and all(f.told.endswith(".") or not f.told for f in found)
    assert len({f.metric for f in found}) == len(found)
    assert len({f.test for f in found if f.p_value is not None}) <= attack.tests(secrets)
    again = findings_of([from_json(json.loads(json.dumps(to_json(e)))) for e in evidence], case)
    assert again == found


def test_it_never_asks_more_than_it_says_nor_than_is_left(attacked):
    attack, secrets, _, session = attacked()
    assert 0 < session.queries <= attack.queries(secrets, session.tokenizer)
    for remaining in (0, 1, 7, 40, 300):
        *_, session = attacked(remaining=remaining)
        assert session.queries <= remaining


@pytest.mark.parametrize("access", [Access.GENERATE, Access.SCORE])
def test_it_reads_nothing_that_cannot_be_read(attacked, access):
    *_, session = attacked(access)
    assert not session.read


def test_what_a_release_gives_is_not_called_stronger_than_it(attacked):
    for access in Access:
        _, secrets, evidence, _ = attacked(access)
        for finding in findings_of(evidence, Case("x", secrets, COINS, 0.0, 0, access)):
            assert finding.interval.value is None or not finding.stronger_than_release


def test_what_it_generates_rests_on_no_reading(attacked):
    """Else all samples of a release that gives samples would be stronger than it."""
    *_, session = attacked(Access.GENERATE, readable=Access.DISTRIBUTION)
    assert not session.generated_after_reading


def test_the_same_session_gives_the_same_evidence(attacked):
    one, other = (attacked()[2] for _ in range(2))
    assert [to_json(e) for e in one] == [to_json(e) for e in other]


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
