"""Joins the results of all seeds of a sweep in one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit.findings.settings import one_toss
from audit.results.commands import BESIDE
from audit.results.schema import Results, SeedResult, SweepResult
from audit.run.sweep import summary
from audit.run.sweep.over_seeds import cells

_COINS = ("planted_users", "trained_users", "twins", "private_token_share")  # differ by seed


def together(
    plan: Mapping[str, Any],
    plan_file: str,
    seeds: Sequence[tuple[int, str]],
    runs: Sequence[Results],
    seconds: float,
) -> Results:
    """Return all releases of all seeds, and what they show together.

    plan: of the sweep, with its hash. plan_file: its name. seeds: each seed with the hash of its
    plan, in the order of the runs.
    """
    first = runs[0]
    releases = [release for run in runs for release in run.releases]
    grouped = cells(releases, one_toss(plan))
    return Results(
        status="complete" if all(run.status == "complete" for run in runs) else "partial",
        headline=summary.sweep_headline(releases, grouped),
        not_tested=summary.not_tested(runs),
        warnings=summary.warnings(runs, releases),
        reproduce=f"audit sweep {plan_file}{BESIDE}",
        plan=dict(plan),
        environment={**first.environment, "seconds": round(seconds, 1)},
        corpus=first.corpus,
        releases=releases,
        sweep=SweepResult(
            seeds=[
                SeedResult(
                    seed=seed,
                    plan_hash=plan_hash,
                    **{name: getattr(run.corpus, name) for name in _COINS},
                )
                for (seed, plan_hash), run in zip(seeds, runs, strict=True)
            ],
            cells=grouped,
        ),
    )
