"""Which releases are attacked side by side: those that processes can each have in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.measure.ahead import possible

LARGE = 124_000_000


def prepared(
    folder: Path, members: int, *, lora: Lora | None = None, device: str = "cpu", parameters: int
) -> Any:
    model = ModelFolder("m", folder, "0", parameters, 50_257, 512, blocks=12, lora=lora)
    plan = SimpleNamespace(
        model=model, device=device, defenses=[SimpleNamespace(plugin=SimpleNamespace(external=0))]
    )
    return SimpleNamespace(plan=plan, tasks={"a": [None] * members, "b": []})


@pytest.mark.parametrize(
    ("parameters", "members", "lora", "device", "expected"),
    [
        (560_640, 16, None, "cpu", True),
        (560_640, 16, None, "cuda", False),
        (LARGE, 1, None, "cpu", True),
        (LARGE, 8, None, "cpu", False),  # eight models of half a gigabyte
        (LARGE, 8, Lora(8, 16), "cpu", True),  # one base and eight adapters of 5 MB
        (3 * LARGE, 8, Lora(8, 16), "cpu", False),
    ],
)
def test_adapters_share_their_base(
    tmp_path: Path, parameters: int, members: int, lora: Any, device: str, expected: bool
) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(4 * parameters)  # a file of that size, without its bytes
    given = prepared(tmp_path, members, lora=lora, device=device, parameters=parameters)
    assert possible(given) is expected
