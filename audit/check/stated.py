"""The stated mechanism of an engine: DP-SGD, or DP-FTRL with banded noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from audit.core.rules import POSITIVE, Rule, at_least, check_fields, one_of
from audit.core.terms import Unit

_SHARE = Rule("0.001 to 1", lambda share: 0.001 <= share <= 1)  # less takes too many blanks
_BANDS = Rule("1 to 16", lambda bands: 1 <= bands <= 16)  # of more, too few units are in a group
_NORM = Rule("above 0, finite and not 1", lambda norm: 0 < norm < math.inf and norm != 1)


@dataclass(frozen=True)
class Claim:
    """DP-SGD with Poisson sampling, or DP-FTRL: the mechanism that the engine is said to run.

    noise_multiplier: σ, the noise's standard deviation over C.
    max_norm: C; not 1, which would hide noise that is not multiplied by C.
    sampling_probability: q, at least 0.001. steps: T. unit: "record" or "user".
    bands: b̂, 1 to 16. With more than one it is DP-FTRL: noise C⁻¹Z, where C is the banded square
        root of b̂ bands, scaled to norm 1, and σ is that of Z; step t samples one of b̂ groups of
        units, always the same for t mod b̂, with probability q = b̂·B/N.
    Raises UsageError.
    """

    noise_multiplier: Annotated[float, POSITIVE] = 1.0
    max_norm: Annotated[float, _NORM] = 1.5
    sampling_probability: Annotated[float, _SHARE] = 0.01
    steps: Annotated[int, at_least(20)] = 1000
    unit: Annotated[str, one_of(Unit.RECORD, Unit.USER)] = Unit.RECORD
    bands: Annotated[int, _BANDS] = 1

    def __post_init__(self) -> None:
        check_fields("claim", self)
