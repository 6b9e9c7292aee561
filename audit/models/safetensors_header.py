"""Read what a safetensors file holds from its header, without its weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from audit.core.errors import UsageError, first_line
from audit.core.files import regular


class Stored(NamedTuple):
    """A tensor of a file. dtype: as the format names it, such as "BF16"."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


def header(file: Path) -> dict[str, Stored]:
    """Read dtype and shape of each tensor, by its name. Raises UsageError for a corrupt file."""
    try:
        with safe_open(regular(file), framework="np") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            return {n: Stored(s.get_dtype(), tuple(s.get_shape())) for n, s in slices.items()}
    except SafetensorError as error:
        reason = first_line(error).removeprefix("Error while deserializing header: ")
        raise UsageError(
            f"{file}: corrupt weights, or cut short ({reason}); copy the model again"
        ) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror or error})") from None
