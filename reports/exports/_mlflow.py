"""Logs a run to an MLflow server or folder: `--log mlflow:URI`. MLflow is installed by its user.

One MLflow run for the audit, with the reports as artifacts and three metrics to sort by, and one
within it for each release. One experiment a project, unless MLflow's own variables name another.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError, first_line
from audit.core.visible import without_passwords
from audit.results import badge, quoting
from audit.results.badge import Badge
from audit.results.schema import ReleaseResult, Results
from reports._content import verdicts, wording
from reports._content.releases import inert, named, rank, settings

_LONGEST = 250  # of a name or a value, in all versions of MLflow
_EXPERIMENT = {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"}
_WHOLE = "mlflow-skinny logs to a server, and to no database; for one run: pip install mlflow"
_ARTIFACTS = ("results.json", "report.html", "report.pdf", "findings.csv")


def checked(target: str) -> str:
    """Return the URI of `mlflow:URI`. Raises UsageError for another form, or without MLflow."""
    tracker, colon, uri = target.partition(":")
    if tracker != "mlflow" or not colon or not uri:
        raise UsageError("--log: expected mlflow:URI, such as mlflow:http://localhost:5000")
    if find_spec("mlflow") is None:
        raise UsageError("--log mlflow:… needs MLflow; run: pip install mlflow (or mlflow-skinny)")
    return uri


def log(results: Results, folder: Path, target: str) -> None:
    """Log every release and the reports that are there. Raises UsageError where it cannot."""
    uri = checked(target)
    mlflow: Any = importlib.import_module("mlflow")
    clean = inert(results)
    try:
        mlflow.set_tracking_uri(uri)
        project, commit = _project()
        if not _EXPERIMENT & os.environ.keys():
            mlflow.set_experiment(_text(project))
        with mlflow.start_run(run_name=_text(folder.name)):
            mlflow.set_tags(_tags(clean, commit))
            mlflow.log_metrics(dict(_overall(clean)))
            for path in filter(Path.is_file, (folder / name for name in _ARTIFACTS)):
                mlflow.log_artifact(str(path))
            for one in named(clean.releases):
                with mlflow.start_run(run_name=_text(one.name), nested=True):
                    _log_release(mlflow, clean, one.release)
    except Exception as error:  # a server, or the library, may raise anything
        why = without_passwords(first_line(error))
        lacks = isinstance(error, ImportError) or "unsupported URI" in why
        need = f"; {_WHOLE}" if lacks else ""
        raise UsageError(
            f"--log mlflow:…: could not be logged ({why}){need}; the run is kept"
        ) from None


def _project() -> tuple[str, str]:
    """Return the name of the project that is worked in, and its commit; "" without a repository."""
    words = ["git", "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=10, check=True)
        top, commit = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):  # no git, no repository, no commit
        return Path.cwd().name or "audit", ""
    return Path(top).name, commit


def _tags(results: Results, commit: str) -> dict[str, str]:
    """Tag the run of the whole audit, with its commit by MLflow's own name."""
    tags = {
        "plan": results.plan.get("hash"),
        "status": results.status,
        "corpus": results.corpus.name,
        "headline": " ".join(results.headline),
        **({"mlflow.source.git.commit": commit} if commit else {}),
    }
    return {key: _text(value) for key, value in tags.items()}


def _overall(results: Results) -> Iterator[tuple[str, float]]:
    """List what runs are sorted by: the worst answer, and of the release that has it ε and utility.

    worst_leak: 0 no leak found, 1 inconclusive, 2 a leak to insiders, 3 a leak, 4 a refuted claim,
    as the badge of page one: of a sweep, over the seeds of a setting.
    """
    audited = [release for release in settings(results) if not release.reference]
    if not audited:
        return
    worst = min(audited, key=rank)
    yield "worst_leak", float(_SEVERITY[badge.over(audited, results.status)])
    values = [("epsilon", worst.guarantee.epsilon)]
    values += [(name, one.value) for name, one in worst.utility.items() if name == "perplexity"]
    for name, value in values:
        if value is not None and math.isfinite(value):
            yield name, value


_SEVERITY = {
    Badge.REFUTED: 4,
    Badge.LEAK: 3,
    Badge.PERMITTED: 3,
    Badge.INSIDERS: 2,
    Badge.INCONCLUSIVE: 1,
    Badge.NONE_FOUND: 0,
}


def _log_release(mlflow: Any, results: Results, release: ReleaseResult) -> None:
    params = {_name(f"parameter.{k}"): wording.setting(v) for k, v in release.parameters.items()}
    about = {"defense": release.defense, "seed": release.seed, "corpus": results.corpus.name}
    mlflow.log_params({key: _text(value) for key, value in {**params, **about}.items()})
    mlflow.log_metrics(dict(metrics(release)))
    tags = {
        "leaked": quoting.leaked_of(release),
        "claim": release.claim,
        "claimed": wording.claim(release.guarantee),
        "role": release.role,
        "status": results.status,
        **dict(_about(release)),
    }
    mlflow.set_tags({key: _text(value) for key, value in tags.items()})


def _about(release: ReleaseResult) -> Iterator[tuple[str, str]]:
    """Describe of each measure what it shows, its unit, n and method, as (tag, text)."""
    for name, measure in release.utility.items():
        yield _name(f"{name}.about"), wording.about(measure)
    for f in release.findings:
        about = f"{wording.answer(f)}; {verdicts.claim(f)}; {wording.about(f)}"
        yield _name(f"{f.attack}.{f.metric}.about"), about


def metrics(release: ReleaseResult) -> Iterator[tuple[str, float]]:
    """List utility and findings as (name, value), with `.low` and `.high` for interval ends.

    The claimed ε is in nats, for the unit and relation that the tag `claimed` names. What is not
    finite is left out: MLflow has no form for it.
    """
    values: list[tuple[str, float | None]] = [("claimed_epsilon", release.guarantee.epsilon)]
    measured: list[tuple[str, Any]] = [*release.utility.items()]
    measured += [(f"{found.attack}.{found.metric}", found) for found in release.findings]
    for name, one in measured:
        low, high = one.ci or (None, None)
        values += [(name, one.value), (f"{name}.low", low), (f"{name}.high", high)]
    for name, value in values:
        if value is not None and math.isfinite(value):
            yield _name(name), value


def _name(text: str) -> str:
    """Keep letters, digits, `_`, `-` and dots within a name; MLflow takes names as file names."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).strip(".")[:_LONGEST] or "_"


def _text(value: object) -> str:
    return wording.clip(str(value), _LONGEST)
