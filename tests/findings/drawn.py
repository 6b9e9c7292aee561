"""Findings, claims and controls of all kinds, for properties."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from audit.results.measurement import Measurement
from audit.results.schema import Control, Power
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from tests.findings.by_hand import R, finding, promise

RENYI = {"delta": None, "alpha": 2.0}
PART = {"unit": "part", "relation": "removed", "basis": "data-dependent", "delta": None}
CLAIMS = (promise(0.0, delta=0.0), promise(2.0), promise(8.0), promise(math.inf), promise(None))


def an_interval(value: float, side: float) -> Interval:
    return Interval(value, max(0.0, value - side), min(1.0, value + side), 90, 0.95, "by hand")


units = st.floats(0.0, 1.0)
intervals = st.one_of(st.builds(an_interval, units, units), st.just(clopper_pearson(0, 0)))
controls = st.builds(lambda v: Control(value=v, ci=None, n=9), units)
p_values = st.one_of(st.none(), st.floats(1e-300, 1.0), st.sampled_from([1e-9, 4.6e-5, 0.04, 0.06]))


@st.composite
def any_finding(draw: st.DrawFn, place: int) -> Measurement:
    right = draw(st.one_of(st.none(), st.integers(0, R)))
    return finding(
        draw(p_values),
        right,
        metric=f"m{place}",
        interval=draw(intervals),
        k=None,
        unit=draw(st.sampled_from(["AUC", "bits", "share of generations"])),
        chance=draw(st.one_of(st.none(), units)),
        control=draw(st.one_of(st.none(), controls)),
        test=draw(st.sampled_from(["one", "two", f"own {place}"])),
        sides=draw(st.sampled_from([1, 2])),
        least_p=draw(st.sampled_from([0.0, 1.0])),
        stronger_than_release=draw(st.booleans()),
        untrained=draw(st.sampled_from(["", "Lost."])),
        blind=draw(st.one_of(st.none(), st.just(Control(value=0.9, ci=(0.8, 1.0), n=9)))),
        power=Power(smallest_rate=None, largest_epsilon=draw(st.none() | st.floats(0, 9)), n=9),
    )  # fmt: skip


@st.composite
def any_findings(draw: st.DrawFn) -> list[Measurement]:
    found = [draw(any_finding(place)) for place in range(draw(st.integers(1, 6)))]
    p_of = {f.test: f.p_value for f in found}  # measures that share a test share its p-value
    return [f.changed(p_value=p_of[f.test]) for f in found]


any_claim = st.sampled_from(
    [*CLAIMS, promise(2.0, **RENYI), promise(2.0, **PART), promise(1.0, delta=1e-9)]
)
any_control = st.one_of(
    st.none(), st.dictionaries(st.tuples(st.just("extraction"), st.just("m0")), st.booleans())
)
