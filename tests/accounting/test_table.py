import json

import dp_accounting
import pytest
from dp_accounting import dp_event, pld
from scipy.stats import binom

from audit.accounting import Gaussians, Mechanism, epsilon, from_table, recompute, to_table
from audit.core.errors import UsageError

MECHANISMS = [
    Mechanism((Gaussians(1.1, 50, 0.05),), "add_or_remove"),
    Mechanism((Gaussians(1.1, 50, 0.05), Gaussians(9.0, 8)), "replace"),
    Mechanism((Gaussians(4.0, 9, 0.05, 3), Gaussians(20.0, 2, 1.0, 2)), "add_or_remove"),
]


def third_party(text, interval=1e-3):
    """What a reader with results.json and dp-accounting would write."""
    table = json.loads(text)
    relation = {
        "add_or_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[table["relation"]]
    accountant = pld.PLDAccountant(relation, interval)
    for term in table["terms"]:
        sigma, q, n = (term[k] for k in ("noise_multiplier", "sampling_probability", "records"))
        if q == 1.0:
            event = dp_event.GaussianDpEvent(sigma / n)
        elif n == 1:
            event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma))
        else:
            weights = [float(binom.pmf(k, n, q)) for k in range(n + 1)]
            event = dp_event.MixtureOfGaussiansDpEvent(sigma, list(range(n + 1)), weights)
        accountant.compose(event, term["count"])
    return accountant.get_epsilon(table["delta"])


@pytest.mark.parametrize(
    "mechanism",
    [*MECHANISMS[:2], pytest.param(MECHANISMS[2], marks=pytest.mark.calibration)],
)
def test_epsilon_can_be_worked_out_from_the_table_alone(mechanism):
    text = json.dumps(to_table(mechanism, 1e-5), allow_nan=False)
    stated = epsilon(mechanism, 1e-5)
    assert recompute(json.loads(text)) == stated
    assert stated == pytest.approx(third_party(text), rel=1e-3)
    assert from_table(json.loads(text)) == (mechanism, 1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"relation": "both"},
        {"terms": [{"noise_multiplier": 1.0}]},
        {"terms": [{"noise_multiplier": 1.0, "count": 1, "colour": "red"}]},
        {"terms": [{"noise_multiplier": "1", "count": 1}]},
        {"terms": None},
        {"delta": None},
        {"sigma": 3},
    ],
)
def test_a_broken_table_is_refused_in_one_line(change):
    with pytest.raises(UsageError, match="accounting table") as error:
        from_table({**to_table(MECHANISMS[0], 1e-5), **change})
    assert "\n" not in str(error.value)


def test_a_table_that_is_not_one_is_refused():
    for wrong in (None, [], "text"):
        with pytest.raises(UsageError, match="accounting table"):
            from_table(wrong)
