"""Verifies one run: derives its results from evidence.json and ledger.jsonl, and compares them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from audit.core.errors import UsageError, first_line
from audit.core.secret import Coins
from audit.findings.controls import Named, leaks_beside
from audit.findings.headline import headline
from audit.measure.evidence_file import EvidenceFile
from audit.results.schema import CorpusResult, ReleaseResult, Results, to_json
from audit.verify.differences import differences
from audit.verify.documents import Stated
from audit.verify.evidence import of_lost, of_noise, of_pieces
from audit.verify.ledgers import of_ledgers, of_promises, of_utility
from audit.verify.plan import of_coins, of_looks, of_plan, of_releases
from audit.verify.release import Derived
from audit.verify.stages import of_stages

NOT_VERIFIABLE = (
    "what the models answered (evidence.json), which only the plan run again shows",
    "BLEU: it needs the models and the texts",
    "corpus but for name, digest and coins, and of `audit plant` its coins; what a coin decides",
    "of a guarantee what no accounting of noisy sums gives, and the noise, steps and sampling that "
    "an accounting is of",
    "blind baselines (need the texts), the number of tests of a family, trained tokens, seconds",
    "which planted copies reached the training: contact, and sight but by controls, as stored",
    "warnings, not_tested (also which attacks page one says were not run), reproduce, environment, "
    "samples.jsonl: only their digests, if signed",
    "report.html and other reports; `audit report` writes them again from results.json",
)
_BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(RuntimeError, StopIteration, TypeError, ValueError, UsageError),
)


def of_run(run: Stated, evidence: EvidenceFile) -> list[str]:
    """List what of a run's results does not follow from its evidence."""
    ours = cache(partial(each, run, evidence))  # read where a damaged ledger is one line
    lines = [
        *collected("results.json, manifest.json: hold no plan of a run", lambda: of_plan(run)),
        *collected("results.json: its plan holds no releases", lambda: of_releases(run)),
        *of_stages(run, evidence),
        *collected("evidence.json: holds no coins of this plan", lambda: of_coins(run, evidence)),
        *collected("evidence.json: holds no tests", lambda: of_looks(run, evidence)),
        *collected("ledger.jsonl: is none of this run", lambda: of_ledgers(run, evidence)),
        *collected("ledger.jsonl: is none of this run", lambda: of_promises(run, evidence)),
        *collected("evidence.json: holds no sessions", lambda: of_utility(evidence)),
        *collected("evidence.json: holds no attacks", lambda: of_pieces(evidence)),
        *collected("evidence.json: holds no contact", lambda: of_lost(run, evidence)),
        *collected("evidence.json: holds no guarantee", lambda: of_noise(evidence)),
    ]
    if evidence.plan_hash != run.results.plan.get("hash"):
        lines.append(f"evidence.json: is of the plan {evidence.plan_hash}, not of this one")
    lines += collected("evidence.json: holds no tosses", lambda: of_tosses(ours()))
    nothing = "evidence.json, ledger.jsonl: no results follow from them"
    return [*lines, *collected(nothing, lambda: _differences(run, evidence, ours()))]


def collected(otherwise: str, lines: Callable[[], Iterable[str]]) -> list[str]:
    """Collect lines, or report where a file holds what no run writes."""
    try:
        return list(lines())
    except _BROKEN as error:
        return [f"{otherwise} ({type(error).__name__}: {first_line(error)})"]


def each(run: Stated, evidence: EvidenceFile) -> list[Derived]:
    """Return what derives each release of a run from its evidence."""
    return [Derived(evidence, of, run.results.plan, run.ledger) for of in evidence.releases]


def _differences(run: Stated, evidence: EvidenceFile, ours: Sequence[Derived]) -> Iterator[str]:
    return differences("", run.document, json.loads(to_json(derived(run, evidence, ours))))


def derived(run: Stated, evidence: EvidenceFile, ours: Sequence[Derived]) -> Results:
    """Return the results as they follow; what needs a model or the corpus is taken as it stands."""
    plan = run.results.plan
    named = [Named(one.of.defense, one.of.role, one.of.reference) for one in ours]
    releases = []
    for place, one in enumerate(ours):
        leaks = leaks_beside(place, named, lambda i: ours[i].leaks) if plan["references"] else None
        releases.append(one.result(leaks, _beside(one, run.results.releases)))
    update = {
        "status": "complete",
        "headline": headline(releases),
        "corpus": _corpus(run.results.corpus, evidence.coins, plan),
        "releases": releases,
        "sweep": None,
    }
    return run.results.model_copy(update=update)


def of_tosses(ours: Sequence[Derived]) -> Iterator[str]:
    """List the releases whose tosses crossed other limits than those of their look."""
    for one in ours:
        if one.of.tosses is None:
            continue
        stands, follows = one.of.tosses.after, one.look.crossed
        alike = np.array_equal(stands.tosses, follows.tosses)
        if stands.looks != follows.looks or not alike:
            where = f"evidence.json: {one.of.ledger}"
            yield f"{where}: other tosses have crossed the limit of this look"


def _beside(one: Derived, stated: Sequence[ReleaseResult]) -> ReleaseResult | None:
    def named(defense: str, parameters: dict[str, Any]) -> tuple[str, str]:
        return defense, json.dumps(parameters, sort_keys=True)

    mine = named(one.of.defense, one.of.parameters)
    return next((r for r in stated if named(r.defense, r.parameters) == mine), None)


def _corpus(corpus: CorpusResult, coins: Coins, plan: Mapping[str, Any]) -> CorpusResult:
    """Return the corpus with the counts of its coins, and its plan's facts if it planted here."""
    tossed = list(coins.present.values())
    counts = {"planted_users": len(tossed), "twins": sum(not here for here in tossed)}
    if (planting := plan.get("planting")) is not None:
        counts |= {**plan["corpus"], "invented_users": planting.get("invented", 0)}
    return corpus.model_copy(update=counts)


def counted(run: Stated) -> str:
    """Describe how much of a run was derived."""
    releases = run.results.releases
    findings = sum(len(release.findings) for release in releases)
    rows = sum(map(len, run.ledger.values()))
    return (
        f"{findings} findings with all their bounds, p-values and answers, {len(releases)} "
        f"releases, {rows} rows of ledgers, the headline and the plan's hash"
    )
