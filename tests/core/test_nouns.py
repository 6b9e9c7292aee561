"""The names that authors import from audit.core."""

import importlib
from pathlib import Path

import pytest

from audit import core


def test_the_nouns_and_their_types_agree():
    stub = (Path(core.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    told = {
        line.split()[-1]: line.split()[1].split(".")[-1]
        for line in stub.splitlines()
        if " as " in line
    }
    assert told == core.HOME
    for noun, file in core.HOME.items():
        assert getattr(core, noun) is getattr(importlib.import_module(f"audit.core.{file}"), noun)
    with pytest.raises(AttributeError, match="no attribute 'Coins'"):
        core.Coins  # noqa: B018
