"""Reports of progress by long-running work."""

from __future__ import annotations

from collections.abc import Callable

WHOLE = "the whole run"  # the label of the share of all steps together

StepProgress = Callable[[str, float], None]  # label of the step, share done from 0 to 1
ShareDone = Callable[[float], None]  # share done of one training, from 0 to 1


class Remark(str):
    """A line that is shown once beside the steps; its share means nothing."""


def attacking(label: str) -> str:
    """Name the step in which a release is attacked. label: of the release."""
    return f"attacking {label}"
