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

PROJECT = Path(__file__).parents[2]


# the folder is the registry


@pytest.mark.parametrize("kind", ["defenses", "attacks", "reports"])
def test_names_are_the_files_of_the_folder(kind):
    folders = (PROJECT / kind, PROJECT / kind / "exports")
    files = {path.stem for folder in folders for path in folder.glob("*.py")}
    assert set(registry.names(kind)) == {name for name in files if not name.startswith("_")}
    assert registry.names(kind) == sorted(registry.names(kind))


def test_files_and_folders_that_are_no_plugins_are_left_out(tmp_path, monkeypatch):
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


def test_a_broken_plugin_of_others_is_named_and_the_rest_is_listed(monkeypatch, tmp_path):
    (tmp_path / "broken_by_others.py").write_text("import no_such_package_of_theirs\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("theirs", "broken_by_others")]
    monkeypatch.setattr(registry, "_entry_points", lambda kind: points)
    with pytest.raises(UsageError, match="'theirs': broken_by_others cannot be imported"):
        registry.module("defenses", "theirs")
    listed = {entry["name"]: entry for entry in entries("defenses")}
    assert "no_such_package_of_theirs" in listed["theirs"]["summary"]
    assert listed["submix"]["parameters"]["k"] == 8


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("defenses", "submx", "unknown defense 'submx'; did you mean 'submix'?"),
        ("attacks", "extractoin", "unknown attack 'extractoin'; did you mean 'extraction'?"),
        ("defenses", "zzz", "unknown defense 'zzz'; known: "),
    ],
)
def test_an_unknown_name_is_answered_with_a_suggestion(kind, name, message):
    with pytest.raises(UsageError) as raised:
        registry.module(kind, name)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "name",
    [
        "_mixing",
        "__init__",
        "",
        ".",
        "submix.py",
        "../reports/html",
        "../audit/cli",
        "x" * 300,
        "/etc",
    ],
)
def test_only_a_plugin_name_is_ever_imported(name):
    with pytest.raises(UsageError, match="unknown defense"):
        registry.module("defenses", name)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
    ],
)
def test_values_get_the_type_of_their_field(monkeypatch, text, expected):
    name, made = built(monkeypatch, text)
    assert (name, made) == ("made", expected)
    for field, value in vars(made).items():
        assert type(value) is type(getattr(expected, field))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("made:cuont=3", "made: unknown parameter 'cuont'; did you mean 'count'?"),
        ("made:zzzzz=3", "made: unknown parameter 'zzzzz'; known: bound, count, "),
        ("made:count=1.5", "made: count is '1.5'; expected a whole number"),
        ("made:count=", "made: count has no value; write count=VALUE"),
        ("made:count", "made: count has no value; write count=VALUE"),
        ("made:rate=fast", "made: rate is 'fast'; expected a number"),
        ("made:count=none", "made: count is 'none'; expected a whole number"),
        ("made:on=maybe", "made: on is 'maybe'; expected true or false"),
        ("made:sizes=1+x", "made: sizes is 'x'; expected a whole number"),
        ("made:sizes=1+", "made: sizes is ''; expected a whole number"),
        ("made:__class__=1", "made: unknown parameter '__class__'"),
        ("made:go=1", "made: unknown parameter 'go'"),
        ("made:=1", "made: unknown parameter ''"),
    ],
)
def test_a_bad_parameter_says_what_was_expected(monkeypatch, text, message):
    with pytest.raises(UsageError) as raised:
        built(monkeypatch, text)
    assert str(raised.value).startswith(message)


def test_a_value_that_is_given_twice_is_no_silent_choice(monkeypatch):
    with pytest.raises(UsageError, match="count"):
        built(monkeypatch, "made:count=3,count=4")


def test_extra_values_fill_in_where_the_text_is_silent(monkeypatch):
    assert built(monkeypatch, "made", count=9, unknown=1)[1] == One(count=9)
    assert built(monkeypatch, "made:count=3", count=9)[1] == One(count=3)


def test_a_defense_without_parameters_says_so():
    with pytest.raises(UsageError, match="unknown parameter 'k'; it has no parameters"):
        registry.build("defenses", "none:k=3", Defense, {})


def test_parameters_are_fields_with_defaults():
    for kind, ancestor in (("defenses", Defense), ("attacks", Attack)):
        for entry in entries(kind):
            _, built = registry.build(kind, entry["name"], ancestor, {})
            fields = dataclasses.asdict(built)
            own = {"model", "sha256", "training_sha256"} if entry["name"] == "as_is" else set()
            assert fields.keys() - entry["parameters"].keys() == own, "set by the run, not given"
            given = {name: fields[name] for name in entry["parameters"]}
            assert entry["parameters"] == given, "read from source, as built"


# lightness


def test_listing_imports_nothing_heavy():
    code = (
        "import sys, json; from audit.plugins.listing import entries\n"
        "for kind in ('defenses', 'attacks', 'corpora', 'models', 'policies'): entries(kind)\n"
        "print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=PROJECT, text=True
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
