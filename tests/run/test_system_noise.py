"""Noise of the operating system: weights that are drawn again are another model."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import api
from audit.results.schema import Results


def audited(folder: Path) -> Results:
    return api.run(
        defense=["dp_sgd:noise=system,epochs=1"],
        attack=["membership"],
        references=False,
        workers=1,
        format=["json"],
        output=folder,
    )


@pytest.mark.slow
def test_weights_that_are_drawn_again_are_attacked_again(tmp_path: Path) -> None:
    """A resumed run reads what was found; where the weights were removed, nothing found is kept."""
    folder = tmp_path / "run"
    once, resumed = audited(folder), audited(folder)
    assert resumed.releases[0].findings == once.releases[0].findings
    (weights,) = (folder / "stages").glob("trained-*.safetensors")
    weights.unlink()
    again = audited(folder)
    values = [[f.value for f in r.releases[0].findings] for r in (once, again)]
    assert values[0] != values[1]
    assert again.releases[0].utility != once.releases[0].utility
    twice = "dp_sgd:epochs=1.0,noise=system: noise was drawn for 2 models"
    assert any(line.startswith(twice) for line in again.warnings)
    assert not any("noise was drawn" in line for line in once.warnings)
