"""Estimates what a run takes, from its plan and a short measurement of this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import compress
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.machine import cores
from audit.core.machine import memory as memory_here
from audit.core.progress import attacking
from audit.core.secret import CODE_LIKE
from audit.core.training import Training
from audit.measure import rehearsal
from audit.measure.ahead import possible
from audit.measure.asking import askings
from audit.measure.rehearsal import rehearsed
from audit.models.external_model import TOKENIZER_ONLY
from audit.models.measuring import resident
from audit.models.sizes import weights_of
from audit.plan.plan import Plan
from audit.prepare.run import Run
from audit.results.words import count, duration, percent, storage
from audit.run.steps import label_of, numbered
from audit.silence import sightings, weights
from audit.silence.cost import training_seconds
from audit.train.first_steps import Cost, cost_of
from audit.train.task import Task

# Measured with the embedded model on two idle cores; see docs/performance.md.
START = 8.0  # seconds: imports, planting, starting the processes
REPORTS = 3.0  # seconds: pages and figures
PAGES = 0.25e9  # bytes that these take
WEAK = 32  # passes over a planted code, below which the undefended model hardly learns it
WEAK_ADAPTERS = 20  # the same of adapters, which take larger steps


@dataclass(frozen=True)
class Estimate:
    """Cost of a run. trainings, attacks: seconds on one process, by the name of the step.

    processes: that train at once. attackers: that attack at once. to_train, to_attack: bytes of
    memory. disk: bytes. spikes: seconds of the attacks that are for spiked copies. threads: of each
    process. fitting: the processes that the cores would have room for, of which memory holds these.
    divided: seconds of the trainings that `together` processes share, one training after another.
    """

    trainings: Mapping[str, float]
    attacks: Mapping[str, float]
    processes: int
    attackers: int
    to_train: float
    to_attack: float
    disk: float
    spikes: float = 0.0
    threads: int = 1
    fitting: int = 0
    divided: Mapping[str, float] = field(default_factory=dict)
    together: int = 1

    @property
    def memory(self) -> float:
        """The most memory at any time, in bytes."""
        return max(self.to_train, self.to_attack)

    @property
    def steps(self) -> dict[str, float]:
        """All steps with the time that each adds to the whole, in seconds."""
        return {
            **_shares(self.trainings, self.processes),
            **self.divided,
            **_shares(self.attacks, self.attackers),
        }

    @property
    def seconds(self) -> float:
        """The whole run, in seconds."""
        return START + sum(self.steps.values()) + REPORTS

    @property
    def sentence(self) -> str:
        """Whole estimate on one line."""
        steps = dict.fromkeys(map(label_of, self.steps), 0.0)
        for name, time in self.steps.items():
            steps[label_of(name)] += time
        most = max(steps, key=lambda label: steps[label], default="")
        share = steps[most] / sum(steps.values()) if most else 0.0
        whose = f", {percent(round(share, 2))} of it for {most}" if share > 0.25 else ""
        return says(self.seconds, self.processes, self.memory, self.disk, whose)

    @property
    def decided(self) -> str:
        """Describe how many processes train, and why, on one line; "" where cores alone decide."""
        if self.together > 1:
            return (
                f"processes: {self.together} of {count(self.threads, 'thread')} train each model "
                "of dp_sgd, s_dpsgd and dp_ftrl together; others are trained by "
                f"{count(self.processes, 'process', 'processes')} (--workers)"
            )
        if self.threads == 1 and self.processes >= self.fitting:
            return ""
        why = (
            f"the cores have room for {self.fitting}, memory for {self.processes}"
            if self.processes < self.fitting
            else f"{count(self.fitting * self.threads, 'core')}"
        )
        return (
            f"workers: {count(self.processes, 'process', 'processes')} of "
            f"{count(self.threads, 'thread')} ({why}); --workers and --threads set others"
        )

    @property
    def spiked(self) -> str:
        """Describe the time of the spiked copies, on one line."""
        share = percent(round(self.spikes / self.seconds, 2))
        return f"spiked copy: {duration(self.spikes)} of it ({share}), to show which measures see"


def says(seconds: float, processes: int, memory: float, disk: float, whose: str = "") -> str:
    """Describe in one line what something takes. whose: what most of the time is for."""
    return (
        f"about {duration(seconds)} on {count(processes, 'process', 'processes')}{whose}; "
        f"{memory / 1e9:.1f} GB of memory, {storage(disk)} in stages/"
    )


def _shares(times: Mapping[str, float], processes: int) -> dict[str, float]:
    """Spread tasks over processes: what each adds to the whole, in seconds.

    The whole takes at least as long as the longest task.
    """
    every = sum(times.values())
    if not every:
        return dict(times)
    whole = max(max(times.values()), every / processes)
    return {label: time * whole / every for label, time in times.items()}


def estimate(run: Run, workers: int | str, together: int = 1) -> Estimate | None:
    """Estimate a run on this machine; None where the model or the workers are elsewhere.

    The first steps of each training, and a few questions to each release, are measured. Trainings
    that are finished already cost nothing. workers: as `--workers`. together: as `--processes`;
    with several, whatever they cannot divide is trained by one process unless `workers` says more.
    """
    plan = run.plan
    if isinstance(workers, str) or plan.model.kind == TOKENIZER_ONLY or plan.source.served:
        return None
    fitting = workers or max(1, cores() // plan.threads)
    missing = list({task.path: task for task in run.wanted if not task.path.exists()}.values())
    read = _read_by_readers(run)
    texts = tuple(record.text for record in plan.corpus.of("heldout"))
    reader = Training("reader", texts, plan.training, plan.seed)
    every = [*missing, Task(reader, plan.model, plan.device, plan.threads, Path())]
    costs = [cost_of(task, run.tokenizer) for task in (every if read else missing)]
    ahead = possible(run)
    shared, own = weights_of(plan.model)
    attacks, memory, spikes = _attacks(run, own)
    models = sum(len(tasks) for tasks in run.tasks.values()) + 1
    kept = sorted((2 * own + cost.memory for cost in costs[: len(missing)]), reverse=True)
    here = resident()
    seconds = _numbered(run, zip(missing, costs, strict=False))
    shares = [together > 1 and task.training.method.divided for task in missing]
    faster = min(together, max(1, cores() // plan.threads))
    divided = {label: time / faster for label, time in compress(seconds.items(), shares)}
    each = [here + shared + 2 * own + cost.memory for cost in compress(costs, shares)]
    others = (together - 1) * max(each, default=0.0)

    def with_processes(processes: int) -> Estimate:
        training = kept[:processes]
        apart = len(training) * here if len(missing) > 1 and processes > 1 else 0.0
        attackers = processes if ahead else 1
        return Estimate(
            trainings={
                **{label: time for label, time in seconds.items() if label not in divided},
                **{label: costs[-1].seconds * tokens for label, tokens in read.items()},
            },
            attacks=attacks,
            processes=processes,
            attackers=attackers,
            to_train=here + shared + models * own + sum(training) + apart + others,
            to_attack=here + PAGES + attackers * (here + shared + memory),
            disk=len(missing) * own,
            spikes=spikes,
            threads=plan.threads,
            fitting=fitting,
            divided=divided,
            together=together if divided else 1,
        )

    if workers or together > 1:
        return with_processes(workers or 1)
    most = memory_here()
    fewer = (with_processes(n) for n in range(fitting, 0, -1))
    return next((one for one in fewer if one.memory <= most), with_processes(1))


def check_fits(expected: Estimate | None, workers: int | str) -> None:
    """Raise UsageError where a run needs more memory than this machine has, even in one process.

    workers: as `--workers`; whoever states a number has decided.
    """
    most = memory_here()
    if expected is not None and not workers and expected.memory > most:
        raise UsageError(
            f"the run needs about {expected.memory / 1e9:.1f} GB of memory, and this machine has "
            f"{most / 1e9:.1f} GB; train adapters (--lora r=8), fewer tokens at once (batch_tokens "
            "and max_length in [training]) or a smaller model, or give --workers 1 to try it"
        )


def _numbered(run: Run, costs: Iterable[tuple[Task, Cost]]) -> dict[str, float]:
    """Compute the seconds of each training, by its label as the steps of a run are numbered."""
    labels, seconds = Counter[str](), {}
    for task, cost in costs:
        label = task.training.label
        labels[label] += 1
        seconds[numbered(label, labels[label])] = cost.seconds * run.tokens(task.training)
    return seconds


def _attacks(run: Run, own: float) -> tuple[dict[str, float], float, float]:
    """Measure the seconds of each release, the most bytes that one takes beside its base, and the
    seconds of these that are for spiked copies, each of which is attacked as its release is.

    own: bytes of weights that each trained model has.
    """
    asked = cache(partial(rehearsed, run))
    seconds, memory, spikes = {}, 0.0, 0.0
    trained, measured = training_seconds(run), askings(run)
    for chosen, tasks in run.tasks.items():
        labels = (chosen.label, chosen.unprotected_label)
        for label, one in zip(labels, measured[chosen], strict=False):
            queries = asked(one.readable, one.remaining)
            seconds[attacking(label)] = sum(map(one.seconds, queries.values()))
            if chosen.plugin.external:
                if run.plan.text is None:
                    seconds[attacking(label)] += one.scored * weights.tokens_compared(run)
                lit = rehearsal.opened(run, one.readable, one.remaining)
                sightings.rehearse(run, lit)
                seconds[attacking(label)] += one.seconds(lit.asked)
            if chosen.plugin.external and trained:
                again = trained + sum(one.seconds(queries[c.label]) for c in run.plan.attacks)
                seconds[attacking(label)] += again
                spikes += again
            memory = max(memory, (len(tasks) + 1) * own + one.memory)
    return seconds, memory, spikes


def _read_by_readers(run: Run) -> dict[str, float]:
    """Count the tokens on which the reader of each release of texts is trained, by its label."""
    text, tokens = run.plan.text, {}
    for chosen in run.tasks if text else ():
        labels = [(chosen.label, getattr(chosen.plugin, "budget", None))]
        labels += [(chosen.unprotected_label, None)] if chosen in run.mixed else []
        for label, budget in () if chosen.plugin.external else labels:
            assert text is not None
            read = text.affordable(budget) * text.tokens
            tokens[f"reader of {label}"] = float(read * run.plan.training.epochs)
    return tokens


def announced(run: Run, expected: Estimate | None) -> list[str]:
    """Describe a run's cost, who wrote most, and a positive control that is weak or missing."""
    weak, (largest, tokens) = weak_control(run), largest_user(run)
    return [
        *(f"corpus: {note}" for note in run.plan.corpus.notes),
        *([f"expected: {expected.sentence}"] if expected else []),
        *([expected.decided] if expected and expected.decided else []),
        *([expected.spiked] if expected and expected.spikes else []),
        *([f"largest user: {largest:,} of {tokens:,} tokens"] if tokens else []),
        *([f"note: {weak}"] if weak else []),
        *([f"note: {NO_CONTROL}"] if not has_control(run.plan) else []),
    ]


NO_CONTROL = (
    "no positive control: nothing is trained on the planted text without protection; give the "
    "planted corpus (--corpus) and, to as_is, the base (as_is:base=DIR), and leave --no-references "
    "out"
)


def has_control(plan: Plan) -> bool:
    """Return whether the undefended model is trained beside what is audited, or is audited."""
    return any(chosen.name == "none" for chosen in plan.defenses)


def largest_user(run: Run) -> tuple[int, int]:
    """Count the tokens of the user who wrote most, and those of all: (largest, all)."""
    tokens: dict[str, int] = {}
    for record in run.corpus.of("private"):
        read = tokens.get(record.user, 0)
        tokens[record.user] = read + run.tokenizer.predicted(record.text)
    return max(tokens.values(), default=0), sum(tokens.values())


def weak_control(run: Run) -> str:
    """Warn where the undefended model reads a planted value too seldom to learn it; else ""."""
    plan, planting = run.plan, run.plan.source.document.get("planting")
    attacked = {kind for chosen in plan.attacks for kind in chosen.plugin.kinds}
    if planting is None or not plan.references:
        return ""
    kinds = [k for k in CODE_LIKE if k in attacked and k in planting["kinds"]]
    kind = min(kinds, key=lambda kind: int(planting[f"{kind}_copies"]), default="")
    enough = WEAK_ADAPTERS if plan.model.lora else WEAK
    passes = plan.training.epochs * planting[f"{kind}_copies"] if kind else enough
    if passes >= enough:
        return ""
    return (
        f"the positive control looks too weak: it reads each planted {kind} {passes} times, and "
        f"below about {enough} it may not leak, so that finding no leak shows nothing; set epochs "
        f"in [training] or {kind}_copies in [planting] higher"
    )
