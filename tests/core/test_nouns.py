"""The names that authors import from audit.core."""

import importlib

import pytest

from audit import core


def test_each_noun_is_that_of_its_file():
    assert {"Defense", "Attack", "Training"} <= core.HOME.keys()
    for noun, file in core.HOME.items():
        assert getattr(core, noun) is getattr(importlib.import_module(f"audit.core.{file}"), noun)
    with pytest.raises(AttributeError, match="no attribute 'Coins'"):
        core.Coins  # noqa: B018
