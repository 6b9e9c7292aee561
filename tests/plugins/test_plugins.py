import dataclasses
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest

from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.plugins import registry
from audit.plugins.listing import entries
from tests.refusals import refusals

PROJECT = Path(__file__).parents[2]


# the folder is the registry


@pytest.mark.parametrize("kind", ["defenses", "attacks", "reports"])
def test_names_are_the_files_of_the_folder(kind):
    folders = (PROJECT / kind, PROJECT / kind / "exports")
    files = {path.stem for folder in folders for path in folder.glob("*.py")}
    assert set(registry.names(kind)) == {name for name in files if not name.startswith("_")}
    assert registry.names(kind) == sorted(registry.names(kind))


def test_other_files_are_not_plugins(tmp_path, monkeypatch):
    for name in ("b.py", "a.py", "_hidden.py", "__init__.py", "notes.txt", "c.pyc"):
        (tmp_path / name).touch()
    for folder in ("_templates", "exports", "others"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"of_{folder}.py").touch()
    monkeypatch.setattr(registry, "_folder", lambda kind: tmp_path)
    assert registry.names("defenses") == ["a", "b", "of_exports"]


@dataclass
class EntryPoint:
    name: str
    module: str


def test_other_distributions_join_by_entry_point(monkeypatch):
    points = [EntryPoint("elsewhere", "defenses.submix"), EntryPoint("submix", "nowhere")]
    monkeypatch.setattr(registry, "_entry_points", lambda kind: points)
    assert "elsewhere" in registry.names("defenses")
    assert registry.names("defenses").count("submix") == 1
    assert registry.module("defenses", "elsewhere").__name__ == "defenses.submix"
    assert registry.module("defenses", "submix").__name__ == "defenses.submix"  # its own goes first


def test_a_broken_plugin_is_named(monkeypatch, tmp_path):
    (tmp_path / "broken_by_others.py").write_text("import no_such_package_of_theirs\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("theirs", "broken_by_others")]
    monkeypatch.setattr(registry, "_entry_points", lambda kind: points)
    with pytest.raises(UsageError, match="'theirs': broken_by_others cannot be imported"):
        registry.module("defenses", "theirs")
    listed = {entry["name"]: entry for entry in entries("defenses")}
    assert "no_such_package_of_theirs" in listed["theirs"]["summary"]
    assert listed["submix"]["parameters"]["k"] == 8


def test_only_a_plugins_name_is_ever_imported():
    strange = ("_mixing", "__init__", "", ".", "submix.py", "../reports/html", "../audit/cli")
    refusals(
        lambda given: registry.module(*given),
        [
            (("defenses", "submx"), "unknown defense 'submx'; did you mean 'submix'?"),
            (("attacks", "extractoin"), "unknown attack 'extractoin'; did you mean 'extraction'?"),
            (("defenses", "zzz"), "unknown defense 'zzz'; known: "),
            (("defenses", "./mine.py"), "by an entry point, as docs/adding-a-defense.md shows"),
            *((("defenses", name), "unknown defense") for name in (*strange, "x" * 300, "/etc")),
        ],
    )


class Made(ABC):
    @abstractmethod
    def go(self): ...


def module_of(monkeypatch, *classes):
    import types

    found = types.ModuleType("made")
    for cls in classes:
        cls.__module__ = "made"
        setattr(found, cls.__name__, cls)
    monkeypatch.setattr(registry, "module", lambda kind, name: found)


@dataclass(frozen=True)
class One(Made):
    count: int = 1
    rate: float = 0.5
    on: bool = False
    sizes: tuple[int, ...] = (1, 2)
    bound: float | None = None
    older: Optional[int] = None  # noqa: UP045
    word: str = "w"

    def go(self):
        return self


@dataclass(frozen=True)
class Two(Made):
    def go(self):
        return self


def test_a_module_defines_exactly_one_plugin(monkeypatch):
    module_of(monkeypatch, One)
    assert registry.plugin("defenses", "made", Made) is One
    for classes in ((), (One, Two)):
        module_of(monkeypatch, *classes)
        with pytest.raises(UsageError, match=f"defines {len(classes)} concrete Made classes"):
            registry.plugin("defenses", "made", Made)


# parameters


def built(monkeypatch, text, **extra):
    module_of(monkeypatch, One)
    return registry.build("defenses", text, Made, extra)


def test_values_get_the_type_of_their_field(monkeypatch):
    for text, expected in (
        ("made", One()),
        ("made:", One()),
        (" made : count = 7 , rate = 2 ", One(count=7, rate=2.0)),
        ("made:rate=1e-3", One(rate=0.001)),
        ("made:rate=inf", One(rate=float("inf"))),
        ("made:on=true", One(on=True)),
        ("made:on=Yes,sizes=3", One(on=True, sizes=(3,))),
        ("made:on=0", One(on=False)),
        ("made:sizes=4+5+6", One(sizes=(4, 5, 6))),
        ("made:bound=none", One(bound=None)),
        ("made:bound=3", One(bound=3.0)),
        ("made:older=null", One(older=None)),
        ("made:older=-3", One(older=-3)),
        ("made:word=none", One(word="none")),
        ("made:word=a=b:c", One(word="a=b:c")),
    ):
        name, made = built(monkeypatch, text)
        assert (name, made) == ("made", expected)
        assert list(map(type, vars(made).values())) == list(map(type, vars(expected).values()))


def test_a_bad_parameter_says_what_was_expected(monkeypatch):
    refusals(
        lambda text: built(monkeypatch, text),
        [
            ("made:cuont=3", "made: unknown parameter 'cuont'; did you mean 'count'?"),
            ("made:zzzzz=3", "made: unknown parameter 'zzzzz'; known: bound, count, "),
            ("made:count=1.5", "made: count is '1.5'; expected a whole number"),
            ("made:count=none", "made: count is 'none'; expected a whole number"),
            *((text, "made: count has no value") for text in ("made:count=", "made:count")),
            ("made:count=3,count=4", "count"),  # no silent choice
            ("made:rate=fast", "made: rate is 'fast'; expected a number"),
            ("made:on=maybe", "made: on is 'maybe'; expected true or false"),
            ("made:sizes=1+x", "made: sizes is 'x'; expected a whole number"),
            ("made:sizes=1+", "made: sizes is ''; expected a whole number"),
            *((f"made:{x}=1", f"made: unknown parameter '{x}'") for x in ("__class__", "go", "")),
        ],
    )


def test_extra_values_fill_in(monkeypatch):
    assert built(monkeypatch, "made", count=9, unknown=1)[1] == One(count=9)
    assert built(monkeypatch, "made:count=3", count=9)[1] == One(count=3)


def test_a_defense_names_its_parameters():
    with pytest.raises(UsageError, match="unknown parameter 'k'; known: pseudo"):
        registry.build("defenses", "public:k=3", Defense, {})


def test_every_plugin_is_listed_as_built():
    for kind, ancestor in (("defenses", Defense), ("attacks", Attack)):
        assert {"submix", "extraction"} & set(registry.names(kind))
        for entry in entries(kind):
            name, built = registry.build(kind, entry["name"], ancestor, {})
            fields = dataclasses.asdict(built)
            own = {"model", "sha256", "training_sha256"} if name == "as_is" else set()
            assert fields.keys() - entry["parameters"].keys() == own, "set by the run, not given"
            given = {name: fields[name] for name in entry["parameters"]}
            assert entry["parameters"] == given, "read from source, as built"
            assert entry["summary"] and json.dumps(entry, allow_nan=False)
            assert (name, built) == (entry["name"], registry.plugin(kind, name, ancestor)())


# lightness


def test_listing_imports_nothing_heavy():
    code = (
        "import sys, json; from audit.plugins.listing import entries\n"
        "for kind in ('defenses', 'attacks', 'corpora', 'models', 'policies'): entries(kind)\n"
        "print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=PROJECT, encoding="utf-8"
    )
    heavy = {"torch", "transformers", "matplotlib", "typst", "scipy", "peft", "opacus", "spacy"}
    assert not heavy & set(json.loads(done.stdout))


def test_packages_from_several_places_are_refused(tmp_path, monkeypatch):
    registry.check_one_place()
    own = registry._folder
    stranger = tmp_path / "reports"
    monkeypatch.setattr(
        registry, "_folder", lambda kind: stranger if kind == "reports" else own(kind)
    )
    with pytest.raises(UsageError, match="different places"):
        registry.check_one_place()
