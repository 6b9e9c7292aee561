"""LoRA adapters in a plan's words: `r=8,alpha=16,targets=auto`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from audit.core.fields import from_text, pairs
from audit.core.rules import VISIBLE, at_least, check_fields

AUTO, ALL_LINEAR = "auto", "all-linear"
_READ = {"r": int, "alpha": int, "targets": str}


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters, which are trained in place of a model's own weights (arXiv 2106.09685).

    r: rank; at least 1. alpha: what an adapter adds is multiplied by alpha/r; at least 1.
    targets: layers that have adapters: "auto", those that PEFT names for the architecture, or all
        linear ones where it names none; "all-linear", without the head; or names of layers joined
        by "+", such as q_proj+v_proj.
    """

    r: Annotated[int, at_least(1)] = 8
    alpha: Annotated[int, at_least(1)] = 16
    targets: Annotated[str, VISIBLE] = AUTO

    def __post_init__(self) -> None:
        check_fields("--lora", self)

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in asdict(self).items())


def parsed(text: str) -> Lora:
    """Read `r=8,alpha=16,targets=auto`; alpha is 2r unless given. Raises UsageError."""
    words = pairs(filter(str.strip, text.split(",")), _READ, "--lora")
    given = {key: from_text(value, _READ[key], f"--lora: {key}") for key, value in words.items()}
    return Lora(**{"alpha": 2 * given.get("r", Lora.r)} | given)
