import os
from pathlib import Path

import pytest

from audit.core.errors import UsageError
from audit.plan.execution import check_gpus, execution
from audit.plan.settings import KNOWN, gather
from tests.refusals import refusals


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """An empty working directory and no AUDIT_* variable."""
    for variable in list(os.environ):
        if variable.startswith("AUDIT_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def plan_file(text):
    Path("plan.toml").write_text(text, encoding="utf-8")
    return Path("plan.toml")


def pyproject(text):
    Path("pyproject.toml").write_text(text, encoding="utf-8")


SOURCES = ("pyproject", "plan", "variable", "flag")


@pytest.mark.parametrize(
    "given", [SOURCES[:n] for n in range(5)] + [("plan", "flag"), ("pyproject", "variable")]
)
def test_the_nearer_source_wins(given, monkeypatch):
    flags, plan = {}, None
    if "pyproject" in given:
        pyproject("[tool.audit]\nseed = 1\n")
    if "plan" in given:
        plan = plan_file("seed = 2\n")
    if "variable" in given:
        monkeypatch.setenv("AUDIT_SEED", "3")
    if "flag" in given:
        flags = {"seed": 4}
    expected = {} if not given else {"seed": 1 + SOURCES.index(given[-1])}
    assert gather(flags, plan) == expected


def test_each_key_is_resolved_by_itself(monkeypatch):
    pyproject('[tool.audit]\nseed = 1\nmodel = "m"\ndevice = "cpu"\n')
    monkeypatch.setenv("AUDIT_MODEL", "n")
    found = gather({"policy": "digits"}, plan_file('device = "cuda"\n'))
    assert found == {"seed": 1, "model": "n", "device": "cuda", "policy": "digits"}


def test_flags_that_were_not_given_hide_nothing():
    plan = plan_file('seed = 5\ndefense = ["submix"]\n')
    assert gather({"seed": None, "defense": ()}, plan) == {"seed": 5, "defense": ("submix",)}
    assert gather({"seed": 0}, plan)["seed"] == 0


def test_tables_are_merged_key_by_key():
    pyproject(
        "[tool.audit.planting]\nusers = 3\ncode_digits = 4\n[tool.audit.training]\nepochs = 2\n"
    )
    found = gather({}, plan_file("[planting]\nusers = 9\n"))
    assert found == {"planting": {"users": 9, "code_digits": 4}, "training": {"epochs": 2}}


def test_values_of_every_source_have_the_same_types(monkeypatch):
    text = """
defense = ["submix:k=4", "none"]
attack = "extraction"
epsilon = 3
delta = 1e-5
seed = 7
references = false
threads = 2
format = ["json", "csv"]
"""
    expected = {
        "defense": ("submix:k=4", "none"),
        "attack": ("extraction",),
        "epsilon": 3.0,
        "delta": 1e-5,
        "seed": 7,
        "references": False,
        "threads": 2,
        "format": ("json", "csv"),
    }
    from_plan = gather({}, plan_file(text))
    for key, value in expected.items():
        words = " ".join(value) if isinstance(value, tuple) else str(value)
        monkeypatch.setenv(f"AUDIT_{key.upper()}", words)
    from_variables = gather({}, None)
    for found in (from_plan, from_variables):
        assert found == expected
        assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in expected.items()}


def test_words_in_a_variable_are_read_as_flags(monkeypatch):
    monkeypatch.setenv("AUDIT_FORMAT", "json,html")
    monkeypatch.setenv("AUDIT_DEFENSE", "made:sizes=1+2 none")
    found = gather({}, None)
    assert found == {"format": ("json", "html"), "defense": ("made:sizes=1+2", "none")}
    monkeypatch.delenv("AUDIT_DEFENSE")
    plan = plan_file('defense = "made:sizes=1+2"\n')
    assert gather({}, plan)["defense"] == ("made:sizes=1+2",)


def test_a_bad_plan_is_refused_with_a_reason():
    refusals(
        lambda text: gather({}, plan_file(text)),
        [
            ("sede = 1", "plan.toml: unknown key 'sede'; did you mean 'seed'?"),
            ("[trainig]\nepochs = 1", "plan.toml: unknown key 'trainig'; did you mean 'training'?"),
            ("xyz = 1", "plan.toml: unknown key 'xyz'; known: "),
            ("seed = 1.5", "plan.toml: seed is '1.5'; expected a whole number"),
            ("seed = true", "plan.toml: seed is 'True'; expected a whole number"),
            ('epsilon = "much"', "plan.toml: epsilon is 'much'; expected a number"),
            ("epsilon = false", "plan.toml: epsilon is 'False'; expected a number"),
            ("references = 3", "plan.toml: references is '3'; expected true or false"),
            ("[seed]\nx = 1", "plan.toml: seed cannot be a table"),
            ("planting = 3", "plan.toml: planting must be a table"),
            ("seed = [1]", "plan.toml: seed "),
            ('corpus = ["a.jsonl"]', "plan.toml: corpus "),
            ("epsilon = [1.0, 2.0]", "plan.toml: epsilon "),
            ("seed = ", "plan.toml: cannot be read as TOML"),
            ("seed = 1\nseed = 2", "plan.toml: cannot be read as TOML"),
        ],
    )


def test_a_file_that_cannot_be_read_is_named():
    Path("folder.toml").mkdir()
    Path("latin.toml").write_bytes('policy = "é"'.encode("latin-1"))
    names = ("missing.toml", "folder.toml", "latin.toml")
    refusals(lambda name: gather({}, Path(name)), [(name, f"{name}: ") for name in names])

    def own(text):
        pyproject(text)
        gather({}, None)

    texts = ("[tool.audit]\nsede = 1\n", "[tool]\naudit = 3\n", "tool = 3\n")
    refusals(own, [(text, "pyproject.toml") for text in texts])


def test_tables_and_variables_of_others_are_ignored(monkeypatch):
    pyproject('[tool.ruff]\nseed = 3\n[project]\nname = "x"\n')
    monkeypatch.setenv("AUDIT_DEBUG", "1")
    monkeypatch.setenv("AUDIT_LOG_SERVER_URL", "x")
    monkeypatch.setenv("NAUDIT_SEED", "3")
    assert gather({}, None) == {}


def test_variables_are_checked(monkeypatch):
    monkeypatch.setenv("AUDIT_EPSILON", "much")
    with pytest.raises(UsageError, match=r"^AUDIT_EPSILON is 'much'; expected a number"):
        gather({}, None)
    monkeypatch.delenv("AUDIT_EPSILON")
    monkeypatch.setenv("AUDIT_EPSILN", "1")
    with pytest.raises(UsageError, match="AUDIT_EPSILN; did you mean 'epsilon'"):
        gather({}, None)


def test_every_flag_of_run_is_a_setting():
    from audit.cli.app import run

    aside = {"plan_file", "dry_run", "no_references", "formats", "log", "template"}
    aside |= {"trust_config", "trust_stages"}
    flags = {option.name for option in run.params}
    assert flags - aside <= set(KNOWN)


@pytest.mark.parametrize("number", [0, 1025, 10**20])
def test_processes_that_no_machine_starts_are_refused(number: int) -> None:
    with pytest.raises(UsageError, match="at least 1 and at most 1,024"):
        execution({"processes": number})


@pytest.mark.parametrize(("processes", "device", "gpus"), [(2, "cuda", 1), (9, "cuda", 8)])
def test_more_processes_than_gpus_are_refused(
    processes: int, device: str, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    with pytest.raises(UsageError, match="give fewer, or --device cpu"):
        check_gpus(processes, device)
    check_gpus(processes, "cpu")
    check_gpus(gpus, device)
