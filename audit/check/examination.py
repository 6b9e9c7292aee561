"""An examination: every run, every check, and what a reader has to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from audit.check import runs
from audit.check.catalogue import Check
from audit.check.checks import claim, exact, groups, noise, sampling
from audit.check.checks.claim import ClaimTest
from audit.check.engine import Engine
from audit.check.loading import load
from audit.check.observed import EngineStoppedError, Observed
from audit.check.outcome import Outcome, Status
from audit.check.runs import Runs
from audit.check.stated import Claim
from audit.core.errors import UsageError


@dataclass(frozen=True)
class Examination:
    """The outcome of all checks of an engine, and apart from them the test of the claim.

    engine: its name. stated: its stated mechanism.
    """

    engine: str
    stated: Claim
    outcomes: tuple[Outcome, ...]
    claim: ClaimTest

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failed)

    @property
    def passed(self) -> bool:
        """Return whether no check failed and the claim is not refuted."""
        return not self.failed and not self.claim.refuted


def examine(
    engine: str | Engine,
    stated: Claim,
    seed: int = 0,
    texts: bool = True,
    report: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Examine an engine white-box: is it the DP-SGD, or DP-FTRL, that is stated?

    engine: "own", "opacus", "module:adapter" or an Engine. texts: whether it also trains a causal
    language model. report: is called with the name of each run before it begins. Raises UsageError
    where the engine stops.
    """
    name = engine if isinstance(engine, str) else type(engine).__name__
    loaded = load(engine) if isinstance(engine, str) else engine
    with one_thread(), torch.random.fork_rng(devices=[]):
        try:
            made = runs.make(runs.Examiner(loaded, stated, seed, report), texts)
        except EngineStoppedError as stopped:
            raise UsageError(str(stopped)) from stopped
        report("claim")
        return Examination(name, stated, outcomes(made), claim.claim(made.noise))


@contextmanager
def one_thread() -> Iterator[None]:
    """Make torch compute in one thread: with trials this small, threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def outcomes(made: Runs) -> tuple[Outcome, ...]:
    """List the outcomes of all checks but the claim."""
    quiet = made.quiet
    counted = exact.inclusion(quiet)
    readable = counted.status == Status.PASSED or quiet.steps.included is not None
    grouped = of_groups(quiet, made.resumed) if quiet.trial.bands > 1 else ()
    readable = readable and not any(outcome.failed for outcome in grouped)
    return (
        counted,
        exact.norms(Check.CLIPPING, quiet),
        exact.absent(quiet),
        sampling.rate(quiet, readable),
        sampling.poisson(quiet, readable),
        exact.releases((quiet, made.few, made.again, made.noise)),
        noise.scale(made.few, Check.EMPTY),
        *noise.alone(made.noise),
        noise.over_runs(made.few, made.again),
        noise.with_batch(quiet, readable),
        exact.update(made.update),
        sampling.over_runs(made.update, made.tied),
        *(of_users(made.users) if made.users else ()),
        exact.infinite(made.infinite, quiet.units.name),
        exact.norms(Check.TIED, made.tied),
        *grouped,
        groups.resumed(made.resumed),
        *(of_texts(*made.texts) if made.texts else ()),
    )


def of_users(run: Observed) -> tuple[Outcome, ...]:
    """List the outcomes of users of several records: they are clipped, and sampled, as one."""
    clipped = exact.norms(Check.USERS, run)
    return clipped, sampling.rate(run, not clipped.failed)


def of_groups(quiet: Observed, resumed: Observed) -> tuple[Outcome, ...]:
    """List the outcomes of DP-FTRL: the steps of each unit."""
    both = (quiet, resumed)
    return groups.distance(both), groups.groups(both), groups.count(both)


def of_texts(quiet: Observed, noisy: Observed) -> tuple[Outcome, ...]:
    """List the outcomes of a language model: tied embeddings, tensors of many sizes."""
    return (
        exact.inclusion(quiet),
        exact.norms(Check.CLIPPING, quiet),
        exact.absent(quiet),
        *noise.alone(noisy),
    )
