"""Functions for notebooks, in one place: run an audit, read results, look at them, gate them.

Settings mean what they mean on the command line and in a plan file. Nothing heavy is imported
before a function needs it. Results, findings and figures show themselves where a notebook asks.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

from audit.cli.progress import Progress
from audit.core.errors import UsageError
from audit.plugins import registry
from audit.results.schema import Results

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from audit.check import Engine, Examination
    from audit.confounding import Comparison
    from audit.core.guarantee import Guarantee
    from audit.gate.outcome import Outcome
    from audit.planting.designs import Base
    from audit.run.service import Service
    from audit.scores.audited import Audited
    from audit.verify import Verification
    from reports._content.figure import Figure, Figures
    from reports._findings import Findings

__all__ = [
    "Audited",
    "Figure",
    "Figures",
    "Findings",
    "Planned",
    "Results",
    "audit_scores",
    "check",
    "check_data",
    "compare",
    "dry_run",
    "export",
    "figures",
    "findings",
    "gate",
    "load",
    "log",
    "planned",
    "planned_sweep",
    "plant",
    "run",
    "serve",
    "sweep",
    "verify",
    "write_comparison",
    "write_figure",
    "write_reports",
]
Report = Callable[[str, float], None]  # is called with what is done, and how much of all
_SHOWN = {  # classes by the module that is loaded when they are asked for
    "Audited": "audit.scores.audited",
    "Figure": "reports._content.figure",
    "Figures": "reports._content.figure",
    "Findings": "reports._findings",
}


def __getattr__(name: str) -> Any:
    """Load a class of what functions return."""
    if name not in _SHOWN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_SHOWN[name]), name)


class Settings(TypedDict, total=False):
    """All settings, as in `audit run --help`; the last three as tables of a plan file."""

    defense: str | Sequence[str]
    attack: str | Sequence[str]
    corpus: str | Path
    text: str
    user: str
    messages: str
    split: str
    records: str
    user_form: str
    model: str | Path
    secrets: str | Path
    coin_users: float
    epsilon: float
    delta: float
    policy: str
    release: str
    seed: int
    device: str
    references: bool
    remedies: bool
    lora: str
    utility_tokens: int
    looks: int
    after: str | Path
    until: str
    threads: int
    output: str | Path
    format: str | Sequence[str]
    workers: int | str
    processes: int
    sharded: bool
    reveal: bool
    author: str
    planting: Mapping[str, Any]
    training: Mapping[str, Any]
    silence: Mapping[str, Any]


@final
class Shown(Results):
    """Results that show themselves: a few lines as text, a table and a picture in a notebook.

    Otherwise they are the results: equal to them, and written as they are.
    """

    @classmethod
    def of(cls, results: Results) -> Shown:
        """Show results without copying or checking them again."""
        values = {name: getattr(results, name) for name in Results.model_fields}
        return cls.model_construct(results.model_fields_set, **values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and dict(self) == dict(other)

    def __repr__(self) -> str:
        from reports._content import glance

        return glance.text(self)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        from reports import _notebook

        return _notebook.markup(self)


def audit_scores(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    delta: float = 1e-5,
    claim: Guarantee | float | None = None,
    control: tuple[ArrayLike, ArrayLike] | None = None,
    beacons: tuple[ArrayLike, ArrayLike] | None = None,
) -> Audited:
    """Audit the scores of your own attack on a model of your own, by the tests of `run`.

    in_scores, out_scores: (n,), (m,), one score for each person whom a fair coin put in or out of
    the training text; higher = more like a member. delta: δ of the bound on ε. claim: ε in nats
    for (ε, δ)-DP per user, added or removed; or a `Guarantee`. control: the scores (in, out) of a
    model trained without protection, by the same attack on at least as many people. beacons: the
    scores (b,) of b values that many users wrote, and (b, k) of k others, drawn likewise and
    planted nowhere, by the same function. "No leak found" needs control and beacons. Raises
    UsageError for scores that are not finite numbers, too few or all the same.
    """
    from audit.scores.audited import audit_scores as audited

    return audited(
        in_scores, out_scores, delta=delta, claim=claim, control=control, beacons=beacons
    )


@dataclass(frozen=True)
class Planned:
    """A run or a sweep whose settings are resolved; nothing is trained or written yet.

    folder: the run folder. formats: the reports that a run writes.
    describe: what a dry run prints. run: runs or resumes it; takes a callback for its progress.
    freeze: states a run's plan in a new file, signed by an SSH key where one is given, with the
        digest of the gate's rules where a file of them is given; None for a sweep.
    """

    folder: Path
    formats: tuple[str, ...]
    describe: Callable[[], str]
    run: Callable[[Report], Results]
    freeze: Callable[[Path, Path | None, Path | None], str] | None = None


def planned(
    plan: str | Path | None = None,
    *,
    trust_config: bool = False,
    trust_stages: bool = False,
    **settings: Unpack[Settings],
) -> Planned:
    """Resolve the settings of a run. Raises UsageError for what cannot be run.

    trust_config: whether pyproject.toml may run code and lead outside its folder.
    trust_stages: whether stages are used that are not signed with this user's key.
    """
    from audit.plan.execution import check_gpus, execution
    from audit.plan.resolve import resolve
    from audit.plan.settings import gather
    from audit.results.find import begun_with, find
    from audit.run import dry_run, pipeline
    from audit.run import freeze as freezing

    path = None if plan is None else Path(plan)
    given = gather(_checked(settings), path, trust_config=trust_config)
    how = execution(given)
    made = resolve({**begun_with(how.output), **given})
    check_gpus(how.processes, made.device)
    again = made.command.replace("PLAN.toml", shlex.quote(str(path or "PLAN.toml")))
    folder = find(how.output, made.document, trust_stages, again)
    return Planned(
        folder.path,
        how.formats,
        partial(dry_run.describe, made, folder, how.workers, how.processes, how.sharded),
        _showing(partial(pipeline.run, made, how, folder)),
        partial(freezing.freeze, made, folder),
    )


def planned_sweep(
    plan: str | Path,
    *,
    trust_config: bool = False,
    trust_stages: bool = False,
    **settings: Unpack[Settings],
) -> Planned:
    """Resolve the settings and the grid of a sweep, as `planned` does. Raises UsageError."""
    from audit.plan.execution import check_gpus, execution
    from audit.results.find import begun_with, find
    from audit.run.sweep import sweep as sweeping

    given, table = sweeping.read(Path(plan), _checked(settings), trust_config)
    how = execution(given)
    made = sweeping.resolve({**begun_with(how.output), **given}, table)
    check_gpus(how.processes, made.plans[0].device)
    again = shlex.join(["audit", "sweep", str(plan)])
    folder = find(how.output, made.document, trust_stages, again)
    return Planned(
        folder.path,
        how.formats,
        partial(sweeping.describe, made, folder, how.workers, how.processes),
        _showing(partial(sweeping.run, made, how, folder)),
    )


def run(plan: str | Path | None = None, **settings: Unpack[Settings]) -> Results:
    """Run or resume an audit as `audit run` does, and return what it wrote.

    plan: a plan file; settings given here go before its own. Progress and the folder are shown on
    stderr. In a script, call it under `if __name__ == "__main__"`, or with workers=1: other
    processes train. Raises UsageError for what cannot be run.
    """
    return _carried_out(planned(plan, **settings))


def dry_run(plan: str | Path | None = None, **settings: Unpack[Settings]) -> str:
    """Describe what the same call of `run` would do, and the least leak that it could show.

    The first steps of each training are timed; nothing is written. Raises UsageError for what
    cannot be run.
    """
    return planned(plan, **settings).describe()


def sweep(plan: str | Path, **settings: Unpack[Settings]) -> Results:
    """Run or resume a sweep as `audit sweep` does, and return what it wrote."""
    return _carried_out(planned_sweep(plan, **settings))


def _checked(settings: Settings) -> dict[str, Any]:
    from audit.plan.settings import checked

    given = {k: [*v] if isinstance(v, tuple) else v for k, v in settings.items() if v is not None}
    return checked(given, "run")


def _showing(run: Callable[[Report], Results]) -> Callable[[Report], Results]:
    return lambda report: Shown.of(run(report))


def _carried_out(job: Planned) -> Results:
    with Progress() as progress:
        job.run(progress.report)
        progress.report(f"results in {job.folder}", 1.0)
    return load(job.folder)


def plant(corpus: str | Path, output: str | Path, manifest: str | Path, **given: Any) -> str:
    """Plant canaries as `audit plant` does, and return what was written.

    given: kind, pattern, turn, count, repetitions, template, design, base, seed, beacons, share,
    coin_users, each as `audit plant --help` describes it. Raises UsageError.
    """
    from audit.planting import plant_corpus

    places = str(corpus), Path(output), Path(manifest)
    return plant_corpus.plant(*places, given, _base, _base_with_tokens)


def _base(source: str) -> Base:
    """Load the model that designed records are made with. Raises UsageError."""
    from audit.core.embedded import EMBEDDED_FOLDER
    from audit.models.causal import CausalLM
    from audit.models.gradient_sketch import Sketch
    from audit.models.loading import LSTM, describe, load_tokenizer, load_weights
    from audit.planting.designs import Base

    folder = describe(source, EMBEDDED_FOLDER)
    if folder.kind == LSTM:
        raise UsageError(f"--base {source}: is untrained, so its texts are noise; give a model")
    model = CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)
    sketch = partial(Sketch, model.inner, model.tokenizer, folder.max_length)
    return Base(folder.name, folder.sha256, model, sketch)


def _base_with_tokens(source: str, tokens: Sequence[str], to: Path) -> tuple[Base, str]:
    """Write a base with new tokens and load it; return also the SHA-256 of the one without."""
    from audit.core.embedded import EMBEDDED_FOLDER
    from audit.models.loading import LSTM, describe
    from audit.models.new_rows import write_with_tokens

    folder = describe(source, EMBEDDED_FOLDER)
    if folder.kind == LSTM:
        raise UsageError(f"--base {source}: an LSTM has no file to add tokens to; give a model")
    write_with_tokens(folder, tokens, to)
    return _base(str(to)), folder.sha256


def export(folder: str | Path, release: str, output: str | Path) -> str:
    """Hand over a release of a run into a new folder, as `audit export` does. Raises UsageError.

    release: its label, such as "dp_sgd" or "submix:k=4".
    """
    from audit.run import export as exporting

    return exporting.export(Path(folder), release, Path(output))


def serve(folder: str | Path, ledger: str | Path) -> AbstractContextManager[Service]:
    """Open an exported service: `complete(text, tokens)`, `remaining` and `guarantee`.

    ledger: a folder of its own, made at first use. What it answered stays spent: a budget is spent
    once, in however many processes. Raises UsageError.
    """
    from audit.run import service

    return service.serve(Path(folder), Path(ledger))


def write_reports(folder: str | Path, formats: Sequence[str]) -> list[Path]:
    """Write reports again, from results.json alone; return the path of each. Raises UsageError.

    Those that state the gate's verdict are written of a complete run only, as the gate reads it.
    """
    from audit.run import reports
    from reports import Report

    for name in formats:
        registry.check("reports", name)
    home = Path(folder)
    return reports.write(Report(load(home), home, reread=True), formats)


def log(folder: str | Path, target: str) -> None:
    """Log a finished run to a tracker, as `--log` does. Raises UsageError.

    target: `mlflow:URI`, the tracking URI of MLflow, which audit does not install.
    """
    from reports.exports import _mlflow

    _mlflow.log(load(folder), Path(folder), target)


def check_log(target: str) -> None:
    """Raise UsageError where `log` could not begin, before anything is run."""
    from reports.exports import _mlflow

    _mlflow.checked(target)


def write_comparison(
    one: Results, other: Results, output: str | Path, formats: Sequence[str]
) -> list[Path]:
    """Write two runs side by side into a folder. Raises UsageError."""
    from audit.run import reports
    from reports import TwoRuns

    return reports.write_comparison(TwoRuns(one, other), formats, Path(output))


def write_figure(
    folder: str | Path,
    x: str = "epsilon",
    y: str = "perplexity",
    by: str = "defense",
    formats: Sequence[str] = ("svg",),
    output: str | Path | None = None,
) -> tuple[list[str], list[Path]]:
    """Draw one measure over another as `audit figure` does: its caption, and its files.

    x: "epsilon", a parameter or a measure. by: "defense" or a parameter. formats: of svg, pdf, png,
    tex and csv. output: the run folder unless given. Raises UsageError.
    """
    from audit.run import reports
    from reports._figures import paper

    drawn = paper.paper(load(folder), x, y, by)
    home = Path(folder if output is None else output)
    return drawn.caption, reports.write_figure(paper.files(drawn, formats), home)


def load(folder: str | Path) -> Results:
    """Return the results of a run or a sweep, from its folder. Raises UsageError if absent."""
    from audit.findings import stored

    return Shown.of(stored.load(Path(folder) / "results.json"))


def findings(results: Results) -> Findings:
    """Return all findings of all releases, references included, as a table."""
    from reports._findings import Findings

    return Findings(results)


def figures(results: Results) -> Figures:
    """Return the figures of the report, as far as the run has data for them."""
    from reports import Report

    return Report(results).figures


def gate(
    results: Results,
    policy: str | Path | None = None,
    baseline: str | Path | None = None,
    strict: bool = False,
) -> Outcome:
    """Return the verdict of `audit gate`: its `headline`, its `checks`, its `exit_code`.

    policy, baseline: files; audit.toml and audit-baseline.json in the working directory unless
    given, and the default policy where there is neither. strict: inconclusive is not enough.
    Raises UsageError for a run that is not complete.
    """
    from audit.gate import files

    held, earlier = (None if path is None else Path(path) for path in (policy, baseline))
    return files.judged(results, held, earlier, strict)


def verify(
    folder: str | Path,
    frozen: str | Path | None = None,
    *,
    signers: str | Path | None = None,
    timestamp: str | Path | None = None,
    authority: str | Path | None = None,
    rules: str | Path | None = None,
    bundle: str | Path | None = None,
    identity: str | None = None,
    issuer: str | None = None,
    trusted_root: str | Path | None = None,
) -> Verification:
    """Derive results.json of a run or sweep again from the evidence beside it; needs no model.

    frozen: a plan that `audit plan --freeze` wrote, which the run must have followed; signers,
    timestamp, authority, rules, bundle, identity, issuer, trusted_root: as `audit verify --help`
    describes them. `differences` lists what does not follow, one line each; `holds` is whether all
    does. Raises UsageError for a folder that is not a complete run, or has no evidence, and for a
    proof that proves something else.
    """
    from audit.verify import Proofs, sigstore_bundle
    from audit.verify import verify as derive

    given = (signers, timestamp, authority, rules, bundle, trusted_root)
    files = [None if one is None else Path(one) for one in given]
    if frozen is None:
        if any(one is not None for one in (*given, identity, issuer)):
            raise UsageError(
                "--signers, --timestamp, --authority, --rules and --bundle are about --frozen "
                "FILE; give it"
            )
        return derive(Path(folder))
    *proofs, path, root = files
    signed = sigstore_bundle.asked(path, identity, issuer, root)
    return derive(Path(folder), Proofs(Path(frozen), *proofs, bundle=signed))


def compare(one: Results, other: Results, names: tuple[str, str] = ("A", "B")) -> str:
    """Describe what differs between two runs, as text: settings, claims, answers, measures.

    A measure is told apart only where its intervals do not overlap and a test, adjusted for all
    measures, rejects. What is the same takes one line. names: what the runs are called.
    """
    from audit.gate import comparison

    return comparison.text(comparison.compare(one, other, names))


def check(
    engine: str | Engine = "own",
    *,
    seed: int = 0,
    texts: bool = True,
    report: Callable[[str], None] = lambda _: None,
    **stated: Any,
) -> Examination:
    """Examine an engine as `audit check` does: its `outcomes`, its `claim`, `passed`.

    engine: "own", "opacus", "module:adapter", or an `audit.check.Engine`. stated: what it is said
    to be: noise_multiplier, max_norm, sampling_probability, steps, unit, bands (more than one:
    DP-FTRL, else DP-SGD). texts: whether a causal language model is trained too. report: is called
    with the name of each run. Raises UsageError.
    """
    from audit.check import Claim, examine

    return examine(engine, Claim(**stated), seed, texts, report)


def check_data(
    inside: str | Path,
    outside: str | Path | None = None,
    *,
    secrets: str | Path | None = None,
    kind: str | None = None,
    seed: int = 0,
    permutations: int = 999,
    **reading: str,
) -> Comparison:
    """Compare two sets of texts without a model, as `audit check-data` does.

    inside, outside: members and others, each a corpus as `run` reads it. secrets: in place of
    `outside`, the manifest of `audit plant`; `inside` is then the training file. kind: of the
    manifest's people, "own" or a kind of secret. reading: text, user, messages, split, records,
    user_form. Returns its `outcomes`, those that `failed`, and `exit_code`. Raises UsageError.
    """
    from audit import confounding

    others = None if outside is None else str(outside)
    manifest = None if secrets is None else Path(secrets)
    sides = confounding.of_files(str(inside), others, manifest, kind, reading)
    return confounding.compare(sides, seed, permutations)
