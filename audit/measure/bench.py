"""The bench on which releases are measured: a run, its folder, and whether texts are shown."""

from __future__ import annotations

from dataclasses import dataclass

from audit.prepare.run import Run
from audit.results.folder import RunFolder


@dataclass(frozen=True)
class Bench:
    """A run and the folder that keeps what its sessions measure.

    reveal: whether generations are written down in the clear.
    """

    run: Run
    folder: RunFolder
    reveal: bool = False
