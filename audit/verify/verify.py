"""Verifies a run folder, or that of a sweep with all its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit import __version__
from audit.core.errors import UsageError
from audit.findings import stored
from audit.measure import evidence_file
from audit.results import sums
from audit.verify.documents import Stated, stated
from audit.verify.frozen import Proofs, of_frozen
from audit.verify.outcome import Verification
from audit.verify.run import NOT_VERIFIABLE, collected, counted, of_run
from audit.verify.stages import left_out, not_compared, written_here
from audit.verify.sweep import of_sweep, seed_folders


def verify(folder: Path, proofs: Proofs | None = None) -> Verification:
    """Derive results.json again from what lies beside it, and list what does not follow.

    proofs: of a plan that was frozen before the run. Raises UsageError for a folder that is not a
    complete run, or has no evidence.
    """
    one = stated(folder)
    if one.results.sweep is not None:
        if proofs is not None:
            raise UsageError(f"{folder}: a sweep; a plan is frozen for a run")
        return _sweep(one)
    return _run(one) if proofs is None else _beside(_run(one), *of_frozen(one, proofs))


def _beside(
    run: Verification, lines: Sequence[str], shown: Sequence[str], not_shown: Sequence[str]
) -> Verification:
    """Add to a run's verification that of its frozen plan; where one differs, nothing is shown."""
    different = (*run.differences, *lines)
    verified = () if different else (*run.verified, *shown)
    return Verification(different, verified, (*run.not_verifiable, *not_shown))


def _run(run: Stated) -> Verification:
    evidence = evidence_file.read(run.folder)
    lines = [*sums.altered(run.folder), *_contradiction(run), *of_run(run, evidence)]
    own, sessions = written_here(run.folder)
    signed = f"stages/: {own} of {sessions} sessions are signed with your key"
    verified = () if lines else (counted(run), *([signed] if own else []))
    left = left_out(run, evidence)
    open_ = (*_of_another_version(run), *NOT_VERIFIABLE, *left, *not_compared(run.folder))
    return Verification(tuple(lines), verified, open_)


def _of_another_version(run: Stated) -> list[str]:
    """State that sentences may be worded otherwise; their content is compared all the same."""
    made = run.results.environment.get("audit")
    if made == __version__:
        return []
    which = f"the run was made by audit {str(made)[:20]!a}, this is {__version__}"
    return [f"how another version words sentences: {which}"]


def _contradiction(run: Stated) -> list[str]:
    """Describe where results.json contradicts itself, as every other reader of it does."""
    try:
        stored.load(run.folder / "results.json")
    except UsageError as error:
        return [str(error)]
    return []


def _sweep(sweep: Stated) -> Verification:
    runs = [stated(home) for home in seed_folders(sweep)]
    if not runs:
        raise UsageError(f"{sweep.folder}: its plan names no seeds")
    each = {f"seeds/{run.folder.name}": _run(run) for run in runs}
    lines = [*sums.altered(sweep.folder), *_contradiction(sweep)]
    lines += [f"{name}: {line}" for name, one in each.items() for line in one.differences]
    nothing = "results.json: nothing follows from its seeds"
    lines += collected(nothing, lambda: of_sweep(sweep, runs))
    verified = [f"{name}: {line}" for name, one in each.items() for line in one.verified]
    together = f"{len(sweep.results.sweep.cells)} settings over {len(runs)} seeds"  # type: ignore[union-attr]
    open_ = dict.fromkeys(line for one in each.values() for line in one.not_verifiable)
    whole = () if lines else (together,)
    return Verification(tuple(lines), (*verified, *whole), tuple(open_))
