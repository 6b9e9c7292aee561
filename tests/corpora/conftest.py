"""The hub, played by a module of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

Hub = dict[tuple[str, str | None], dict[str, list[Any]]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hub], list[Any]]:
    """hub(data sets): puts them on a hub; returns what will have been asked for."""

    def make(known: Hub) -> list[Any]:
        asked: list[Any] = []

        def load_dataset(path: str, name: str | None = None) -> Any:
            asked.append((path, name))
            if (path, name) not in known:
                raise ValueError(f"no {path} with {name}\nsecond line")
            return known[path, name]

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
        return asked

    return make
