"""ci/lowest.txt holds the lowest versions that pyproject.toml allows, and .ci/run tries them."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(PROJECT / "ci" / "lowest.py"))


def declared() -> list[str]:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[str] = tomllib.loads(text)["project"]["dependencies"]
    return found


def test_the_file_is_what_the_script_prints() -> None:
    written = (PROJECT / "ci" / "lowest.txt").read_text(encoding="utf-8")
    assert written == SCRIPT["lowest"](declared())


def test_every_dependency_has_a_lowest_version() -> None:
    pins = SCRIPT["lowest"](declared()).splitlines()[1:]
    assert [pin.split("==")[0] for pin in pins] == [one.split(">=")[0] for one in declared()]


def test_a_pin_is_the_bound_itself() -> None:
    asked = ["click>=8.2", "dp-accounting>=0.6,<0.7", "ray[client]>=2.9"]
    assert SCRIPT["lowest"](asked).splitlines()[1:] == [
        "click==8.2",
        "dp-accounting==0.6",
        "ray==2.9",
    ]


def test_the_pinned_versions_are_allowed() -> None:
    """constraints.txt is what the README installs: no pin of it lies below its bound."""
    from packaging.requirements import Requirement

    lines = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pins = {name.lower(): version for name, version in (line.split("==") for line in lines)}
    for requirement in map(Requirement, declared()):
        assert requirement.specifier.contains(pins[requirement.name]), requirement
