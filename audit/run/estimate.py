"""Estimates what a run takes, from its plan and a short measurement of this machine."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from audit.core.language_model import TOKENS_AT_ONCE, at_once
from audit.core.model import ModelFolder
from audit.core.progress import attacking
from audit.core.secret import CODE_LIKE
from audit.core.training import Method, Training
from audit.measure import bleu
from audit.measure.ahead import possible
from audit.measure.perplexity import FULL_TOKENS
from audit.models import own_blocks, usual_block
from audit.models.external_model import TOKENIZER_ONLY
from audit.models.sizes import weights_of, width_of
from audit.models.token_cost import TokenCost
from audit.plan.plan import Plan
from audit.prepare.run import Run
from audit.results.words import count, duration, percent, storage
from audit.run.steps import label_of, numbered

# Measured with the embedded model on two idle cores; see docs/performance.md.
START = 8.0  # seconds: imports, planting, starting the processes
REPORTS = 3.0  # seconds: pages and figures
MIXTURE = 8_000  # queries of an attack on an unprotected mixture, which gives no distributions
PROCESS, MAIN = 0.45e9, 0.7e9  # bytes of a process that trains, and of the one that attacks
COPIES = 5  # of the weights in training: public, trained, gradients, two moments
LOGITS = 3  # numbers for each word of the vocabulary and each token, on both ways
PADDED = 1.2  # tokens that DP-SGD reads for each of a text, padding included
AGAIN = 4 / 3  # time of a pass whose blocks compute twice (checkpoint_activations)
LEFT = 0.45  # share of their activations that such blocks keep
HELD = 24  # bytes of each number of the distributions that are read at once
SAMPLED = 2048  # tokens of the texts that are written at once
WEAK = 32  # passes over a planted code, below which the undefended model hardly learns it


@dataclass(frozen=True)
class Estimate:
    """What a run takes. trainings, attacks: seconds on one process, by the name of the step.

    processes: that train at once. attackers: that attack at once. to_train, to_attack: bytes of
    memory. disk: bytes.
    """

    trainings: Mapping[str, float]
    attacks: Mapping[str, float]
    processes: int
    attackers: int
    to_train: float
    to_attack: float
    disk: float

    @property
    def memory(self) -> float:
        """The most memory at any time, in bytes."""
        return max(self.to_train, self.to_attack)

    @property
    def steps(self) -> dict[str, float]:
        """All steps with the time that each adds to the whole, in seconds."""
        return {
            **_shares(self.trainings, self.processes),
            **_shares(self.attacks, self.attackers),
        }

    @property
    def seconds(self) -> float:
        """The whole run, in seconds."""
        return START + sum(self.steps.values()) + REPORTS

    @property
    def sentence(self) -> str:
        """Says all of it in one line."""
        steps = dict.fromkeys(map(label_of, self.steps), 0.0)
        for name, time in self.steps.items():
            steps[label_of(name)] += time
        most = max(steps, key=lambda label: steps[label], default="")
        share = steps[most] / sum(steps.values()) if most else 0.0
        whose = f", {percent(round(share, 2))} of it for {most}" if share > 0.25 else ""
        return says(self.seconds, self.processes, self.memory, self.disk, whose)


def says(seconds: float, processes: int, memory: float, disk: float, whose: str = "") -> str:
    """Says in one line what something takes. whose: what most of the time is for."""
    return (
        f"about {duration(seconds)} on {count(processes, 'process', 'processes')}{whose}; "
        f"{memory / 1e9:.1f} GB of memory, {storage(disk)} in stages/"
    )


def _shares(times: Mapping[str, float], processes: int) -> dict[str, float]:
    """Spreads tasks over processes: what each adds to the whole, in seconds.

    The whole is no shorter than the longest task.
    """
    every = sum(times.values())
    if not every:
        return dict(times)
    whole = max(max(times.values()), every / processes)
    return {label: time * whole / every for label, time in times.items()}


def estimate(run: Run, workers: int | str, asked: Mapping[str, int]) -> Estimate | None:
    """Estimates a run on this machine; None where the model or the workers are elsewhere.

    Trainings that are finished already cost nothing. workers: as `--workers`.
    """
    plan = run.plan
    if isinstance(workers, str) or plan.model.kind == TOKENIZER_ONLY or plan.source.served:
        return None
    processes = workers or os.cpu_count() or 1
    cost = _cost_of_token(plan)
    missing = {task.path: task for task in run.wanted if not task.path.exists()}
    wanted = [task.training for task in missing.values()]
    trainings, labels = {}, Counter[str]()
    for training in wanted:
        labels[training.label] += 1
        name = numbered(training.label, labels[training.label])
        trainings[name] = cost.training * _effort(training, run)
    trainings |= {label: tokens * cost.training for label, tokens in _readers(run)}
    attackers = processes if possible(run) else 1
    models = sum(len(tasks) for tasks in run.tasks.values()) + 1
    shared, own = weights_of(plan.model)
    kept = sorted(_activations(t.method, plan.model, cost, _rows(t, run)) for t in wanted)
    together = [COPIES * own + most for most in kept[-processes:]]
    apart = len(together) * PROCESS if len(missing) > 1 else 0.0  # one alone is trained here
    held = shared + models * own + sum(together) + apart
    return Estimate(
        trainings=trainings,
        attacks=dict(_attacks(run, cost, asked)),
        processes=processes,
        attackers=attackers,
        to_train=MAIN + held,
        to_attack=MAIN + attackers * _attacking(run),
        disk=len(missing) * own,
    )


def _cost_of_token(plan: Plan) -> TokenCost:
    """Measures a large model, or one with adapters, by its own blocks; others by a usual one."""
    model = plan.model
    if model.blocks and (model.lora is not None or model.parameters >= own_blocks.LARGE):
        return own_blocks.cost_of_token(model, plan.device, plan.threads)
    return usual_block.cost_of_token(model, plan.device, plan.threads)


def _attacking(run: Run) -> float:
    """Counts the bytes of a process that attacks the release with the most models."""
    model = run.plan.model
    models = 1 + max((len(tasks) for tasks in run.tasks.values()), default=0)
    shared, own = weights_of(model)
    numbers, kept = models * model.vocabulary, 2 * models * model.blocks * width_of(model)
    read = at_once(TOKENS_AT_ONCE, numbers, kept) * numbers
    written = at_once(SAMPLED, numbers, kept) * kept
    return PROCESS + shared + models * own + HELD * read + 4.0 * written


def _effort(training: Training, run: Run) -> float:
    """Counts the tokens of plain fine-tuning that take as long.

    Below adapters, per-example gradients cost no more than those of a batch, but for more padding:
    a user's rows stay together.
    """
    method, whole = training.method, run.plan.model.lora is None
    effort = method.effort if whole else min(method.effort, PADDED)
    again = AGAIN if _computes_twice(method) else 1.0
    return again * (effort * run.tokens(training) + method.overhead)


def _computes_twice(method: Method) -> bool:
    return getattr(method, "checkpoint_activations", False)


def _kept(method: Method, model: ModelFolder) -> float:
    """The share of their activations that blocks keep.

    All, unless they compute twice; and all again for per-example gradients of all weights.
    """
    per_example = model.lora is None and method.effort > 1.0
    return LEFT if _computes_twice(method) and not per_example else 1.0


def _rows(training: Training, run: Run) -> float:
    """Counts the tokens of the largest pass; a batch of coins is seldom half as large again."""
    method, longest = training.method, run.plan.training.max_length
    if physical := getattr(method, "physical_tokens", 0):
        large = 1.5 * run.tokens(training) / getattr(method, "steps", 1)
        return max(longest, min(physical, large))
    return max(longest, getattr(method, "batch_tokens", 0))


def _activations(method: Method, model: ModelFolder, cost: TokenCost, tokens: float) -> float:
    """Counts bytes that a pass over so many tokens keeps for its way back."""
    kept = _kept(method, model) * cost.kept
    logits = 4.0 * LOGITS * model.vocabulary
    head = 0.0 if model.lora is None else 4.0 * model.vocabulary * width_of(model)  # in float32
    return tokens * (kept + logits) + head


def _readers(run: Run) -> Iterator[tuple[str, float]]:
    """Counts the tokens that the readers of released texts are trained on, over all epochs."""
    text = run.plan.text
    for chosen in run.tasks if text else ():
        labels = [(chosen.label, getattr(chosen.plugin, "budget", None))]
        labels += [(chosen.unprotected_label, None)] if run.mixes(chosen) else []
        for label, budget in () if chosen.plugin.external else labels:
            assert text is not None
            tokens = text.affordable(budget) * text.tokens * run.plan.training.epochs
            yield f"reader of {label}", tokens


def _attacks(run: Run, cost: TokenCost, asked: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """Estimates the seconds of each release; an ensemble is followed by its unprotected mixture."""
    for chosen, tasks in run.tasks.items():
        members = max(1, len(tasks))
        budget = getattr(chosen.plugin, "budget", None) if members > 1 else None
        query = cost.query * members
        yield attacking(chosen.label), query * _queries(run, asked, budget)
        if run.mixes(chosen):
            queries = _queries(run, asked, MIXTURE, whole=False)
            yield attacking(chosen.unprotected_label), query * queries


def _queries(run: Run, asked: Mapping[str, int], budget: int | None, whole: bool = True) -> float:
    """Counts the queries of one release, within the budget of each session."""
    plan, most = run.plan, math.inf if budget is None else budget
    utility = sum(map(len, run.heldout.once(plan.utility_tokens)))
    completed = bleu.RECORDS
    if whole and not budget:
        utility = min(run.heldout.tokens, FULL_TOKENS)
        completed = bleu.FULL_RECORDS
    completion = completed * (bleu.LONGEST - bleu.PREFIX)
    return sum(min(most, queries) for queries in [*asked.values(), utility, completion])


def announced(run: Run, expected: Estimate | None) -> list[str]:
    """Says what a run takes, who wrote most, and whether its positive control looks too weak."""
    weak, (largest, tokens) = weak_control(run), largest_user(run)
    return [
        *([f"expected: {expected.sentence}"] if expected else []),
        *([f"largest user: {largest:,} of {tokens:,} tokens"] if tokens else []),
        *([f"note: {weak}"] if weak else []),
    ]


def largest_user(run: Run) -> tuple[int, int]:
    """Counts the tokens of the user who wrote most, and those of all: (largest, all)."""
    tokens: dict[str, int] = {}
    for record in run.corpus.of("private"):
        read = tokens.get(record.user, 0)
        tokens[record.user] = read + run.tokenizer.predicted(record.text)
    return max(tokens.values(), default=0), sum(tokens.values())


def weak_control(run: Run) -> str:
    """Warns where the undefended model reads a planted value too seldom to learn it; else ""."""
    plan, planting = run.plan, run.plan.source.document.get("planting")
    attacked = {kind for chosen in plan.attacks for kind in chosen.plugin.kinds}
    if planting is None or not plan.references:
        return ""
    kinds = [k for k in CODE_LIKE if k in attacked and k in planting["kinds"]]
    kind = min(kinds, key=lambda kind: int(planting[f"{kind}_copies"]), default="")
    passes = plan.training.epochs * planting[f"{kind}_copies"] if kind else WEAK
    if passes >= WEAK:
        return ""
    return (
        f"the positive control looks too weak: it reads each planted {kind} {passes} times, and "
        f"below about {WEAK} it may not leak, so that finding no leak shows nothing; set epochs in "
        f"[training] or {kind}_copies in [planting] higher"
    )
