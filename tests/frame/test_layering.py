"""Reads the imports of every module and enforces the arrows of the design."""

from functools import cache
from pathlib import Path

import pytest

from audit.contract.imports import COINS, HEAVY, imported, within

PROJECT = Path(__file__).parents[2]
PACKAGES = ("audit", "attacks", "defenses", "reports")


def modules(package):
    return {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((PROJECT / package).rglob("*.py"))
    }


OURS = {name: path for package in PACKAGES for name, path in modules(package).items()}


@cache
def imports(name, top_only=False):
    """Names of the modules (and of what is imported from them) that a module imports."""
    path = OURS[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return imported(path.read_text(encoding="utf-8"), package, top_only)


def of(package):
    return [name for name in OURS if name == package or name.startswith(f"{package}.")]


def reaches(name, *targets, top_only=False):
    """The imports of module `name` that are one of the targets or lie inside it."""
    return within(imports(name, top_only), *targets)


def test_the_reader_sees_imports():
    assert len(OURS) > 50
    assert reaches("audit.__main__", "audit.cli")
    assert reaches("audit.models.loading", "torch", "transformers.AutoTokenizer")  # in functions
    assert not reaches("audit.models.loading", *HEAVY, top_only=True)
    assert reaches("audit.language_model", "audit.predictor", top_only=True)
    assert "reports._page" in imports("reports.html")


def below(*names):
    return [f"audit.{name}" for name in names]


SHARED = below("corpus", "errors", "language_model", "models", "policies", "predictor", "streams")
FOR_ATTACKS = [*SHARED, "attacks", *below("attack", "evidence", "secrets", "statistics")]
FOR_DEFENSES = [
    *SHARED,
    "defenses",
    *below("accounting", "defense", "ensemble", "guarantee", "ledger", "release"),
]


def forbidden(name, allowed):
    """Imports from the project that are not among the allowed; packages alone are nothing."""
    return set(reaches(name, *PACKAGES)) - set(reaches(name, *allowed)) - set(PACKAGES)


@pytest.mark.parametrize("name", of("attacks"))
def test_an_attack_sees_no_defense_no_guarantee_and_no_coin(name):
    assert forbidden(name, FOR_ATTACKS) == set()
    assert reaches(name, *COINS) == []


@pytest.mark.parametrize("name", ["audit.attack", "audit.evidence", "audit.predictor"])
def test_what_an_attack_meets_holds_no_coin(name):
    assert reaches(name, *COINS) == []


@pytest.mark.parametrize("name", of("defenses"))
def test_a_defense_sees_no_attack_and_no_secret(name):
    assert forbidden(name, FOR_DEFENSES) == set()


@pytest.mark.parametrize("name", of("reports"))
def test_reports_see_results_only(name):
    assert forbidden(name, ["reports", *below("results", "quantities", "errors", "gate")]) == set()


# the command line, and the same for notebooks: above all else, so that they may join what is apart
ABOVE = {"audit.__main__", "audit.api", "audit.cli"}


@pytest.mark.parametrize("name", sorted(set(OURS) - ABOVE))
def test_nothing_reaches_back_to_the_command_line_or_the_api(name):
    assert reaches(name, *ABOVE) == []


@pytest.mark.parametrize("name", sorted(set(OURS) - set(of("audit.contract"))))
def test_no_product_code_needs_its_own_contract(name):
    assert reaches(name, "audit.contract") == []


@pytest.mark.parametrize("name", sorted(set(OURS) - set(of("reports"))))
def test_figures_are_drawn_in_reports_only(name):
    assert reaches(name, "matplotlib", "typst", "jinja2") == []


@pytest.mark.parametrize("name", of("audit.statistics"))
def test_statistics_know_nothing_of_the_project(name):
    assert forbidden(name, below("statistics")) == set()


@pytest.mark.parametrize("name", of("audit.findings"))
def test_findings_know_nouns_and_statistics_only(name):
    """No attack, no plan and no model: whoever returns evidence of a kind has its findings."""
    assert forbidden(name, [*NOUNS, *below("findings", "statistics")]) == set()


@pytest.mark.parametrize("name", of("audit"))
def test_audit_names_no_plugin(name):
    """The API alone names reports: what a notebook displays is what they draw and word."""
    displayed = () if name == "audit.api" else ("reports",)
    assert reaches(name, "attacks", "defenses", *displayed) == []


NOUNS = below(
    *(
        "accounting",
        "attack",
        "corpora",
        "corpus",
        "defense",
        "ensemble",
        "errors",
        "evidence",
        "guarantee",
        "language_model",
        "ledger",
    ),
    *("policies", "predictor", "quantities", "release", "results", "secrets", "streams"),
)


@pytest.mark.parametrize("name", [*NOUNS, *of("audit.models")])
def test_nouns_and_models_know_nouns_and_models_only(name):
    assert forbidden(name, [*NOUNS, *below("models")]) == set()


@pytest.mark.parametrize("name", sorted(OURS))
def test_nothing_heavy_is_imported_with_a_module(name):
    assert reaches(name, *HEAVY, top_only=True) == []


@pytest.mark.parametrize("name", sorted(OURS))
def test_imports_go_to_modules_that_exist(name):
    for found in reaches(name, *PACKAGES):
        parent = found.rpartition(".")[0]
        assert found in OURS or parent in OURS or found in PACKAGES
