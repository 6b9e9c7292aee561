"""The release where only texts are released: the texts, and the training of whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.train.task import Task


@dataclass(frozen=True)
class Written:
    """Texts that a release wrote, and the training of a reader: the public model, on these texts.

    What the reader gives away, the texts give away: whoever has them can train it.
    """

    texts: tuple[str, ...]
    reader: Task


@dataclass(frozen=True)
class Publication:
    """All that is published of one release.

    session: the session that wrote the texts, as in results.json. stage: the file with the texts.
    shadows: the same of each shadow model.
    """

    written: Written
    session: Mapping[str, Any]
    stage: str
    shadows: tuple[Written, ...] = ()

    @property
    def readers(self) -> list[Task]:
        """The trainings of all readers."""
        return [written.reader for written in (self.written, *self.shadows)]
