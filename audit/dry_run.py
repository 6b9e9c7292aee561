"""What a run would do and what it could show, without loading a model."""

from __future__ import annotations

from audit.findings import guesses, rate_power, tests_of
from audit.folder import RunFolder
from audit.plan import Plan
from audit.preparation import Prepared, prepare
from audit.run import reproduce
from audit.statistics import power
from audit.verdict import percent


def describe(plan: Plan, folder: RunFolder) -> str:
    """Plan, trainings, queries, tokens, and the least leak that this n can show."""
    prepared = prepare(plan, folder.stages)
    return "\n".join(
        [*_plan_lines(prepared, folder), *_training_lines(prepared), *_query_lines(prepared)]
    )


def _plan_lines(prepared: Prepared, folder: RunFolder) -> list[str]:
    plan, coins = prepared.plan, prepared.planted.coins
    present = sum(coins.present.values())
    return [
        f"plan {plan.hash[:12]}: {reproduce(plan)}",
        f"folder: {folder.path}",
        f"corpus {plan.corpus.name}: {len(plan.corpus.records)} records of "
        f"{len(plan.corpus.users())} users; {len(coins.present)} users decided by coin, {present} "
        f"trained on, {len(coins.present) - present} twins",
        f"model {plan.model.name}: {plan.model.parameters:,} parameters, on {plan.device}",
    ]


def _training_lines(prepared: Prepared) -> list[str]:
    lines, total = ["trainings:"], 0
    for chosen, tasks in prepared.tasks.items():
        tokens = prepared.train_tokens(chosen)
        total += tokens
        lines.append(f"  {chosen.label}: {_count(len(tasks), 'training')}, {tokens:,} tokens")
    return [*lines, f"  in all: {total:,} tokens"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _query_lines(prepared: Prepared) -> list[str]:
    plan = prepared.plan
    lines = [
        "queries of each release:",
        f"  utility: {min(plan.utility_tokens, prepared.text.tokens)}",
    ]
    for chosen in plan.attacks:
        secrets = prepared.secrets_for(chosen.plugin)
        queries = chosen.plugin.queries(secrets, prepared.tokenizer)
        coins, tests = prepared.planted.coins, tests_of(plan.attacks)
        shown = rate_power(chosen.plugin.trials(), secrets, coins, plan.delta, tests)
        rate = shown.detectable_rate or shown.smallest_rate or 1.0
        lines.append(
            f"  {chosen.label}: {queries} (a session's own budget may allow fewer); the smallest "
            f"leak this can show is a rate of {percent(rate)} (95 %)"
        )
    m = len(prepared.planted.coins.present)
    largest = power.largest_epsilon(m, plan.delta, r=guesses(m))
    return [*lines, f"largest empirical ε that {m} coins can show: {largest:.3g} nats (95 %)"]
