"""Describes what a run would do and what it could show, and times its first steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from audit.core.evidence import Evidence, Hits, Mentions
from audit.core.guarantee import Guarantee
from audit.core.predictor import Access
from audit.core.visible import printed
from audit.findings import Case, bounds, mechanism
from audit.findings.hits import rate_power
from audit.findings.loose_delta import loose_delta
from audit.findings.reach import runs
from audit.measure import bleu, earlier_look
from audit.measure.rehearsal import Rehearsal, of_endpoint, rehearsed
from audit.models.endpoint.capabilities import PROBES
from audit.models.external_model import TOKENIZER_ONLY
from audit.plan.plan import Chosen, Plan
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.results.words import at_least, at_most, count, percent
from audit.run.cut_records import cut_records
from audit.run.estimate import announced, check_fits, estimate
from audit.run.group_text import text_of_several
from audit.silence import answers, sightings
from audit.statistics.power import smallest_rate
from audit.train.task import check_sharded


def describe(
    plan: Plan,
    folder: RunFolder,
    workers: int | str = 0,
    processes: int = 1,
    sharded: bool = False,
) -> str:
    """List plan, trainings, queries and tokens, and the least leak that this n can show.

    workers, processes, sharded: as `--workers` and so on. Raises UsageError where the machine has
    too little memory, and where no model of the run can be sharded.
    """
    run = prepare(plan, folder.stages)
    earlier_look.check(run)
    if sharded:
        check_sharded(run.trainings)
    expected = estimate(run, workers, processes)
    check_fits(expected, workers)
    lines = [
        *_plan_lines(run, folder),
        *_training_lines(run),
        *announced(run, expected),
        *query_lines(run),
        *_request_lines(run),
    ]
    return "\n".join(map(printed, lines))


def _plan_lines(run: Run, folder: RunFolder) -> list[str]:
    plan, coins = run.plan, run.planted.coins
    present, shared = sum(coins.present.values()), text_of_several(run)
    return [
        f"plan {plan.hash[:12]}: {plan.command}",
        f"folder: {folder.path}",
        f"corpus {plan.corpus.name}: {_size(plan)}; {len(coins.present)} {_who(plan)} decided by "
        f"coin{_invented(plan)}, {present} trained on, {len(coins.present) - present} twins",
        *([] if shared is None else [shared.sentence]),
        *[
            f"policy {plan.policy.label}: {percent(run.private_share)} of the tokens to train on "
            "are private"
        ]
        * bool(plan.corpus.records),
        f"model {plan.model.name}: {plan.model.parameters:,} parameters, on {plan.device}"
        if plan.model.kind != TOKENIZER_ONLY
        else f"tokenizer {plan.model.name}: the model that it belongs to is not here",
    ]


def _invented(plan: Plan) -> str:
    """Count the invented users among those with coins."""
    invented = (plan.source.document["planting"] or {}).get("invented", 0)
    return f" ({invented} of them invented, because the corpus has few)" if invented else ""


def _who(plan: Plan) -> str:
    """Name who has the coins: of a model trained elsewhere, whoever `audit plant` gave one."""
    return "users" if plan.source.document["planting"] else "planted users"


def _size(plan: Plan) -> str:
    records, users = len(plan.corpus.records), len(plan.corpus.users())
    if not records:
        size = plan.source.size(plan.corpus)
        return (
            f"{size['records']:,} records of {size['users']:,} users, as its manifest counts them"
        )
    if records == users:
        return f"{records:,} records, no user with two: every record counts as a user of its own"
    return f"{records:,} records of {users:,} users"


def _training_lines(run: Run) -> list[str]:
    lines, total = ["trainings:"], 0
    for chosen, tasks in run.tasks.items():
        tokens = run.train_tokens[chosen]
        total += tokens
        trainings = sum(1 + len(task.all_earlier) for task in tasks)
        lines.append(f"  {chosen.label}: {count(trainings, 'training')}, {tokens:,} tokens")
    shadows = len(run.shadow_coins)
    if shadows:
        lines.append(f"  and as many again for each of {count(shadows, 'shadow')} of each defense")
    lines.append(f"  in all: {total * (1 + shadows):,} tokens")
    lines += [f"  {line}" for line in cut_records(run)]
    text = run.plan.text
    if text and not all(chosen.plugin.external for chosen in run.tasks):
        lines.append(
            f"released: {text.texts:,} texts of at most {text.tokens} tokens each, fewer where a "
            "budget of queries ends before; what others learn from them is measured on a reader, a "
            "model trained on them"
        )
    return lines


def query_lines(run: Run) -> list[str]:
    """State what each release is asked, the least leak that shows, and the largest ε."""
    plan, asked = run.plan, rehearsed(run)
    lines = [
        "queries of each release:",
        f"  utility: {sum(map(len, run.heldout.once(plan.utility_tokens)))}",
        f"  completion: the first {bleu.RECORDS} held-out texts, "
        f"{bleu.FULL_RECORDS} where queries are free",
    ]
    for chosen in plan.attacks:
        queries = asked[chosen.label].queries
        lines.append(
            f"  {chosen.label}: up to {queries:,} token queries, fewer where a session has a budget"
            f"{_shown(run, chosen)}"
        )
    m = len(run.planted.coins.present)
    if plan.lots > 1:
        lines.append(
            f"  of {plan.lots} lots of people in turn, until bets on coins show a leak; only where "
            "none does all people are tested, for a leak and a claim, at half the level"
        )
    tests = count(run.family.claims, "test")
    if not run.family.claims:
        return lines
    largest = bounds.largest(m, plan.delta, None, run.family.claims) or 0.0
    return [
        *lines,
        f"largest ε that {m} coins can refute as (ε, δ) with δ = {at_most(plan.delta)}, adjusted "
        f"for {tests} of a claim: {at_least(largest)} nats",
        *_claim_lines(run),
    ]


def _claim_lines(run: Run) -> list[str]:
    """State for each claim with a known mechanism whether this many coins could refute it."""
    plan, coins = run.plan, run.planted.coins
    m, lines = len(coins.present), []
    for chosen, tasks in run.tasks.items():
        promise = chosen.plugin.promised([task.training for task in tasks])
        if chosen.reference or promise is None or promise.epsilon is None:
            continue
        lines += [f"  {chosen.label}: {line}" for line in _at_own_delta(run, promise)]
        access, tests = Access.DISTRIBUTION, run.family.claims
        case = Case(chosen.label, (), coins, plan.delta, plan.seed, access, claim_tests=tests,
                    unit=plan.source.unit, guarantee=promise)  # fmt: skip
        able = mechanism.refutable(case, m)
        if able is None:
            continue
        claim = f"  {chosen.label}: ε = {at_most(promise.epsilon)} on the curve of its mechanism"
        if able:
            lines.append(f"{claim}: {m} coins can refute it")
        else:
            needed = mechanism.coins_needed(case)
            least = "more than 100,000" if needed is None else f"{needed:,}"
            lines.append(f"{claim}: {m} coins cannot refute it, not even without noise; it takes "
                         f"{least}")  # fmt: skip
    return lines


def _at_own_delta(run: Run, promise: Guarantee) -> Iterator[str]:
    """State what a claim's own δ permits, and the largest ε that can be refuted at it."""
    plan, m = run.plan, len(run.planted.coins.present)
    if promise.delta is not None and promise.delta != plan.delta:
        largest = bounds.largest(m, promise.delta, None, run.family.claims) or 0.0
        yield f"at its own δ = {at_most(promise.delta)} they can refute {at_least(largest)} nats"
    size = plan.source.size(plan.corpus)
    loose = loose_delta(promise, size["users"], size["records"])
    if loose:
        yield loose


def _request_lines(run: Run) -> list[str]:
    """Count the requests to an endpoint; none is sent."""
    served = run.plan.source.served
    if served is None:
        return []
    least, most = (_rehearsed(run, access) for access in (Access.GENERATE, Access.SCORE))
    lines = [
        f"requests to the endpoint, of {count(served.releases, 'release')} (none was sent now):",
        f"  where it gives log-probabilities of a prompt: {_cost(most, served.releases)}",
        f"  where it does not: {_cost(least, served.releases)}",
        f"  and up to {PROBES} of one token, to see what it gives; where it withholds answers, up "
        f"to {answers.most_filters(run):,} to see whether it does so where planted text is asked "
        "for",
    ]
    if served.rate:
        minutes = most.requests * served.releases / served.rate / 60
        lines.append(f"  at {served.rate:g} requests a second at least {minutes:,.1f} minutes")
    return lines


def _rehearsed(run: Run, access: Access) -> Rehearsal:
    """Count what attacks, utility and the auditor ask of an endpoint with this access."""
    session = of_endpoint(run, access)
    answers.rehearse(run, session)
    sightings.rehearse(run, session)
    return session


def _cost(one: Rehearsal, times: int) -> str:
    return (
        f"{one.requests * times:,} requests, {one.prompt_tokens * times:,} prompt tokens, at most "
        f"{one.generated_tokens * times:,} generated tokens"
    )


def _shown(run: Run, chosen: Chosen) -> str:
    """Name the smallest rate that an attack on generations can show."""
    plan, secrets = run.plan, run.secrets_for(chosen.plugin)
    shape = chosen.plugin.shape(secrets, plan.source.base_known)
    sampled = next((one for one in shape if _tries(one)), None)
    if sampled is None:
        return ""
    n, tests = _tries(sampled), run.family.tests
    about = tuple(s for s in secrets if sampled.kind in (None, s.kind))
    coins, access = run.planted.coins, Access.GENERATE
    case = Case(
        chosen.label, about, coins, plan.delta, plan.seed, access, tests=tests, reach=plan.reach
    )
    rate = rate_power(n, case).detectable_rate or smallest_rate(n, plan.reach.power)
    least = math.ceil(n * rate)
    often = f"{runs(plan.reach.power)} such runs"
    so_many = f"about {least} of {n} generations planted secrets"
    return f"; a leak shows from a rate of {percent(rate)} on, {so_many}, in {often}"


def _tries(evidence: Evidence) -> int:
    """Count the generations that evidence is of."""
    if isinstance(evidence, Hits):
        return len(evidence.found) if evidence.sampled else 0
    return len(evidence.named) if isinstance(evidence, Mentions) else 0
