"""The tests of a setting's ledgers over its seeds: exact ones are counted, bets combined."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import OnClaim
from audit.results.measurement import ChargeTest, FindingResult, Measurement
from audit.results.words import at_least, count, number
from audit.statistics.fisher import combined_p_value
from audit.statistics.interval import Interval, IntervalKind, no_interval


def pooled(per_seed: Sequence[FindingResult], seeds: int) -> ChargeTest | None:
    """Joins the tests of one measure; a seed that could not bet counts as p = 1."""
    tests = _tests(per_seed)
    queries = sum(test.queries for test in tests)
    exceeded = [test.exceeded for test in tests if test.exceeded is not None]
    p_values = [test.p_value for test in tests if test.p_value is not None]
    if exceeded:
        return ChargeTest(queries=queries, exceeded=sum(exceeded))
    if p_values:
        p = combined_p_value([*p_values, *[1.0] * (seeds - len(p_values))])
        return ChargeTest(queries=queries, p_value=p)
    return ChargeTest(queries=0) if tests else None


def value(measured: Sequence[FindingResult], test: ChargeTest) -> Interval:
    """Returns the figure over seeds: the largest share of a charge, or the mean wealth of bets.

    A mean share would hide the seed that refutes; a wealth has no interval in any seed.
    """
    figures = [f.value for f in measured if f.value is not None]
    n, seeds = test.queries, count(len(figures), "seed")
    if test.exceeded is not None:
        most = max(figures)
        method = f"largest of {seeds}, {measured[0].method}"
        return Interval(most, most, most, n, 0.95, method, IntervalKind.EXACT)
    mean = sum(figures) / len(figures)
    return no_interval(n, 0.95, f"mean over {seeds}, no interval", mean)


def sentence(joined: Measurement, per_seed: Sequence[FindingResult]) -> str:
    """Says what the queries of all seeds tell; empty where nothing was compared."""
    test = joined.charge_test
    if test is None or not test.queries:
        return ""
    if test.exceeded is None:
        seeds, won = count(_compared(per_seed), "seed"), number(joined.value or 0.0)
        bets = f"Bets on {test.queries:,} drawn tokens of {seeds} that the ledger charges too"
        return f"{bets} little turned 1 into {won} on average; together p = {test.p_value:.2g}."
    share = f"{at_least(joined.value or 0.0)} times its charge"
    if test.exceeded:
        comparison = f"{test.exceeded:,} of {test.queries:,} compared, the worst at {share}"
    else:
        comparison = f"{test.queries:,} compared, the nearest at {share}"
    return f"{_exact(per_seed)}: {comparison}."


def claim_sentence(
    joined: Measurement, per_seed: Sequence[FindingResult], word: OnClaim
) -> str | None:
    """Says why exact tests refute the claim or not; None for anything else."""
    test = joined.charge_test
    answered = word in (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
    if test is None or test.exceeded is None or not answered:
        return None
    fact = _exact(per_seed)
    return f"{str(word).capitalize()}: {fact[0].lower()}{fact[1:]}."


def _exact(per_seed: Sequence[FindingResult]) -> str:
    beyond, seeds = sum(bool(t.exceeded) for t in _tests(per_seed)), _compared(per_seed)
    if beyond:
        return f"In {beyond} of {count(seeds, 'seed')} a query tells more than it was charged"
    return f"In none of {count(seeds, 'seed')} does a query tell more than it was charged"


def _compared(per_seed: Sequence[FindingResult]) -> int:
    return sum(test.queries > 0 for test in _tests(per_seed))


def _tests(per_seed: Sequence[FindingResult]) -> list[ChargeTest]:
    return [f.charge_test for f in per_seed if f.charge_test is not None]
