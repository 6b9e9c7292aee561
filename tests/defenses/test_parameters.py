"""Parameters of services that cannot be, beside those that test_services.py refuses of all."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from defenses.capped_submix import CappedSubMix
from defenses.gnmax import GNMax
from defenses.invisible_ink_prompts import InvisibleInkPrompts
from defenses.pmixed import PMixed
from defenses.submix import SubMix
from defenses.subsample_aggregate import SubsampleAggregate
from tests.refusals import refusals

BAD: dict[type, dict[str, tuple[object, ...]]] = {
    SubMix: {
        "beta": (0.0, math.nan, math.inf, "papr", "0.1"),
        "clip": (-1.0,),
        "temperature": (0.0,),
    },
    PMixed: {"q": (0.0, -0.1, 1.1, math.nan)},
    SubsampleAggregate: {"floor": (0.0,)},
    CappedSubMix: {
        "weight": (0.0, 1.1, math.nan, math.nextafter(1, 0), math.nextafter(1 - 1e-6, 1)),
        "multiple": (0.99, 0.0, math.inf, math.nan),
    },
    InvisibleInkPrompts: {
        "delta": (0.0,),
        "references": (0,),
        "tokens": (0,),
        "temperature": (0.0, math.inf),
        "longest": (0,),
    },
}


@pytest.mark.parametrize("cls", BAD, ids=lambda cls: cls.__name__)
def test_impossible_values_are_refused_by_name(cls: Callable[..., object]) -> None:
    name = cls.__module__.removeprefix("defenses.")
    rows = [({key: one}, f"{name}: {key} is") for key, some in BAD[cls].items() for one in some]  # type: ignore[index]
    refusals(lambda given: cls(**given), rows)


def test_parameters_that_do_not_go_together_are_refused() -> None:
    together = "give both epsilon and noise_multiplier"
    refusals(
        lambda make: make(),
        [
            (lambda: GNMax(noise_multiplier=1.0), "gnmax: "),
            (lambda: GNMax(epsilon=None), "gnmax: "),
            (lambda: GNMax(epsilon=None, noise_multiplier=0.0), "gnmax: "),
            (lambda: GNMax(charge="data"), together),
            (lambda: GNMax(charge="data", epsilon=None), together),
            (lambda: GNMax(charge="data", epsilon=None, noise_multiplier=2.0), together),
            (lambda: GNMax(charge="Theorem 6"), "charge is Theorem 6; it must be worst or data"),
            (lambda: CappedSubMix(multiple=3.5, budget=3), "it must be at most budget, 3"),
        ],
    )
    assert CappedSubMix(multiple=3.0, budget=3).multiple == 3.0
