"""Reads the imports of every module and enforces the arrows that docs/design.md shows."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from audit.contract.imports import COINS, imported, within

PROJECT = Path(__file__).parents[1]
PACKAGES = ("audit", "attacks", "defenses", "reports")
OURS = {
    ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((PROJECT / package).rglob("*.py"))
}
DOORS = {"audit.__main__", "audit.api", "audit.cli"}  # above all else: they may join what is apart
FOR_ATTACKS = ["attacks", "audit.core", "audit.statistics"]
FOR_DEFENSES = ["defenses", "audit.accounting", "audit.core", "audit.models", "audit.policies"]


def arrows():
    """What a room of audit/ may import, by the table of docs/design.md."""
    page = (PROJECT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("## The arrows")[2].partition("\n## ")[0]
    rows = (row.partition(" | ") for row in re.findall(r"^\| (`.*)\|$", table, re.M))
    return {
        room: re.findall(r"`(\w+)`", below)
        for rooms, _, below in rows
        for room in re.findall(r"`(\w+)`", rooms)
    }


@cache
def imports(name):
    """Names of the modules (and of what is imported from them) that a module imports."""
    path = OURS[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return imported(path.read_text(encoding="utf-8"), package)


def of(*packages):
    return [n for n in OURS if any(n == p or n.startswith(f"{p}.") for p in packages)]


def wrong(names, allowed):
    """Imports from the project that are not among the allowed, by module; packages are nothing."""
    found = {
        name: set(within(imports(name), *PACKAGES)) - set(within(imports(name), *allowed))
        for name in names
    }
    parents = {module.rpartition(".")[0] for module in OURS} | {*PACKAGES, "audit.__version__"}
    return {name: bad for name, extra in found.items() if (bad := extra - parents)}


def reaching(names, *targets):
    """The imports that are one of the targets or lie inside it, by module."""
    found = {name: within(imports(name), *targets) for name in names}
    return {name: bad for name, bad in found.items() if bad}


def test_the_reader_sees_imports():
    assert len(OURS) > 200
    assert reaching(["audit.__main__"], "audit.cli")
    assert reaching(["audit.api"], "audit.plan.resolve")  # inside a function
    assert "reports._content.page" in imports("reports.html")


def test_attacks_see_no_defense_no_guarantee_and_no_coin():
    assert wrong(of("attacks"), FOR_ATTACKS) == {}
    met = ["audit.core.attack", "audit.core.evidence", "audit.core.predictor"]
    guarded = ("audit.core.defense", "audit.core.guarantee", "audit.core.release", *COINS)
    assert reaching([*of("attacks"), *met], *guarded) == {}


def test_defenses_see_no_attack_and_no_secret():
    assert wrong(of("defenses"), FOR_DEFENSES) == {}
    unseen = ("audit.core.attack", "audit.core.evidence", "audit.core.secret")
    assert reaching(of("defenses"), *unseen) == {}


def test_reports_see_results_only():
    core = [f"audit.core.{noun}" for noun in ("digest", "errors", "terms", "visible")]
    assert wrong(of("reports"), ["reports", "audit.results", "audit.gate", *core]) == {}


def test_rooms_import_only_rooms_below():
    rooms = arrows()
    assert len(rooms) >= 20 and all(of(f"audit.{room}") for room in rooms)
    for room, below in rooms.items():
        allowed = [f"audit.{other}" for other in (room, *below)]
        assert wrong(of(f"audit.{room}"), allowed) == {}


def test_nothing_reaches_back_to_the_command_line_or_the_api():
    inside = of(*DOORS)
    assert reaching([name for name in OURS if name not in inside], *DOORS) == {}


def test_no_product_code_needs_its_own_contract():
    inside = of("audit.contract")
    assert reaching([name for name in OURS if name not in inside], "audit.contract") == {}


def test_figures_are_drawn_in_reports_only():
    inside = of("reports")
    drawing = ("matplotlib", "typst", "jinja2")
    assert reaching([name for name in OURS if name not in inside], *drawing) == {}


def test_audit_names_no_plugin():
    """The API alone looks into reports: what a notebook displays is what they draw and word. A run
    knows what a format is, and what it is handed."""
    assert reaching(of("audit"), "attacks", "defenses") == {}
    nouns = {"reports", "reports.Format", "reports.Report", "reports.TwoRuns"}
    seen = reaching([name for name in of("audit") if name != "audit.api"], "reports")
    assert {name: set(found) - nouns for name, found in seen.items() if set(found) - nouns} == {}


def test_imports_go_to_modules_that_exist():
    for name in OURS:
        for found in within(imports(name), *PACKAGES):
            assert found in OURS or found.rpartition(".")[0] in OURS, (name, found)


def test_no_file_lies_loose_in_audit_but_the_doors():
    loose = {path.stem for path in (PROJECT / "audit").glob("*.py")}
    assert loose == {"__init__", "__main__", "api", "callback"}


def test_there_is_no_circle():
    """Modules that import each other cannot be put in an order."""
    below = {
        name: {other for other in OURS if other in imports(name) and not name.startswith(other)}
        for name in OURS
    }
    while free := [name for name, needs in below.items() if not needs & below.keys()]:
        for name in free:
            del below[name]
    assert below == {}


def test_imports_stand_at_the_top():
    """Inside a function only on the light paths, where a library is an extra, and where it takes
    seconds to import that a dry run does not have."""
    light = {*of("audit.cli"), "audit.api", "audit.__main__"}
    ray = {f"audit.train.workers.{name}" for name in ("ray", "on_ray", "ray_worker")}
    extras = {
        *ray,
        *(f"audit.corpora.{name}" for name in ("hub", "packed", "tables")),
        "audit.models.gguf_file",
        "audit.models.loading",
        "audit.verify.sigstore_bundle",
    }
    drawing = {"reports", "reports._content.comparison", "reports._figures"}
    slow = {
        "attacks.texts.naming",
        "audit.accounting.composition",
        "audit.accounting.gaussians",
        "audit.accounting.moments",
        "audit.accounting.trade_off",
        "audit.core.model",
        "audit.models.asked_size",
        "audit.plan.execution",
        "audit.models.endpoint.http",
        "audit.models.adapters",
        "audit.models.ensembles.adapters_of_one_base",
        "audit.models.ensembles.stacked_gpt2",
        "audit.models.external_model",
        "audit.models.hostile_folder",
        "audit.models.loaded_whole",
        "audit.models.measuring",
        "audit.models.template_process",
        "audit.train.workers.together",
    }
    lazy = {
        name
        for name, path in OURS.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset
    }
    assert lazy <= light | extras | slow | drawing


LIGHT = {  # what processes of these commands must not import
    ("torch", "scipy", "transformers", "matplotlib"): ["--help", "list --json"],
    ("torch", "transformers"): ["gate run", "compare run run", "verify run"],
    ("torch", "transformers", "matplotlib"): ["report run --format csv"],
}


@pytest.mark.parametrize("heavy", LIGHT, ids=" ".join)
def test_light_commands_import_nothing_heavy(heavy, tmp_path):
    code = (
        "import sys\n"
        "from audit.cli.app import main\n"
        f"for words in {LIGHT[heavy]}:\n"
        "    sys.argv = ['audit', *words.split()]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        f"    print('HEAVY', words, *sorted(sys.modules.keys() & {set(heavy)}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=True,
    )
    told = [line for line in ran.stdout.splitlines() if line.startswith("HEAVY ")]
    assert told == [f"HEAVY {words}" for words in LIGHT[heavy]], ran.stdout
