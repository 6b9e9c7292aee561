"""What every plugin and every public name owes its reader."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from audit import api, contract
from audit.contract import plugin as plugin_checks
from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.guarantee import Guarantee
from audit.plugins import registry
from audit.results.measurement import FindingResult, Measurement
from audit.results.schema import GuaranteeResult, Results
from reports import Format, Report
from tests import by_hand
from tests.command_line import audit
from tests.reports.pages import HIDDEN

PROJECT = Path(__file__).parents[2]
PRODUCT = ("audit", "attacks", "defenses", "reports")
ANCESTORS = {"defenses": Defense, "attacks": Attack}
PLUGINS = [(kind, name) for kind in ANCESTORS for name in registry.names(kind)]
QUICK = {
    "extraction": "generations=10,searched=5",
    "exposure": "budget=200,samples=50",
    "name_leak": "generations=8,length=6,decoys=2",
    "dp_ftrl": "epochs=2",
    "dp_sgd": "epochs=2",
    "s_dpsgd": "epochs=2",
    "seqpate": "sentences=40,longest=24,warmup_epochs=1,epochs=1",
}


# ours are held to the checks that strangers run on theirs


def quick(kind, name):
    return registry.build(kind, f"{name}:{QUICK.get(name, '')}", ANCESTORS[kind], {})[1]


@pytest.mark.parametrize("name", registry.names("defenses"))
def test_a_defense(name):
    contract.check_defense(quick("defenses", name))


def test_a_defense_whose_parts_have_accounts():
    accounts = "capped_submix:k=4,multiple=1.5"
    contract.check_defense(registry.build("defenses", accounts, Defense, {})[1])


@pytest.mark.parametrize("name", registry.names("attacks"))
def test_an_attack(name):
    contract.check_attack(quick("attacks", name))


# the registry


FORMATS = [registry.plugin("reports", name, Format)() for name in registry.names("reports")]


TWICE = ("Annex", "Html", "Pdf")  # which tests/reports renders twice


@pytest.mark.parametrize("made", FORMATS, ids=lambda made: type(made).__name__)
def test_a_format(made):
    for check in plugin_checks.CHECKS:
        check(made)


def test_a_format_returns_files_and_writes_none(tmp_path, monkeypatch):
    """Plain names, bytes, the same again, and no character that hides something."""
    monkeypatch.chdir(tmp_path)
    report = Report(by_hand.hostile(by_hand.ordinary()), tmp_path)
    for made in FORMATS:
        files = made.files(report)
        if type(made).__name__ not in TWICE:
            assert made.files(Report(report.stored, tmp_path)) == files, made
        assert list(tmp_path.iterdir()) == [], made
        for name, content in files.items():
            assert name == Path(name).name
            if not name.endswith(".pdf"):
                assert not HIDDEN.search(content.decode("utf-8")), name


def test_the_list_names_every_plugin():
    done = audit("list", cwd=PROJECT)
    assert done.returncode == 0
    for _, name in PLUGINS:
        assert f"\n  {name} " in done.stdout


# docstrings


FILES = sorted(path for package in PRODUCT for path in (PROJECT / package).rglob("*.py"))


def test_every_public_name_has_a_docstring_and_each_begins_with_allowed_words():
    """The first of the seven rules of English in CONTRIBUTING.md, which lists the words."""
    page = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.search(r"Not first: \*(.*?)\*", page, re.S)
    forbidden = set(re.findall(r"\w+", listed[1]))
    assert {"Tells", "What"} <= forbidden
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    others = (p for name in ("benchmarks", "experiments", "fixtures")
              for p in (PROJECT / name).rglob("*.py"))  # fmt: skip
    for path in (*FILES, *others):
        module = ast.parse(path.read_text(encoding="utf-8"))
        public = [n for n in module.body if isinstance(n, documented) and n.name[0] != "_"]
        bare = [n for n in (module, *public) if not ast.get_docstring(n)] if module.body else []
        assert not bare or path not in FILES, path
        for node in ast.walk(module):
            text = ast.get_docstring(node) if isinstance(node, (ast.Module, *documented)) else ""
            assert not forbidden & set(re.findall(r"\w+", text or "")[:1]), (path, text)


# classes


def is_concrete_and_ours(base):
    """A class of the project that could be made; a marker of its own says that it is abstract."""
    ours = base.__module__.split(".")[0] in PRODUCT
    markers = {"ABC", "Protocol", "BaseModel"} & {b.__name__ for b in base.__bases__}
    return ours and not markers and not inspect.isabstract(base)


def test_every_class_is_abstract_or_final():
    """No class of the project derives from a concrete class of the project.

    But one: the results that a notebook gets are results, and show themselves by reports, which
    the schema of results may not import.
    """
    wrong = set()
    for path in FILES:
        name = ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        if path.name == "__main__.py":
            continue
        for cls in vars(importlib.import_module(name)).values():
            if inspect.isclass(cls) and cls.__module__ == name:
                wrong |= {(cls, base) for base in cls.__bases__ if is_concrete_and_ours(base)}
    held = {
        (FindingResult, Measurement),
        (GuaranteeResult, Guarantee),
    }  # each holds more than the last
    assert wrong == {(api.Shown, Results), *held}
