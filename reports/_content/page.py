"""Content of every format: Results turned once into plain rows and sentences.

All strings in a Page are visible text: see `audit.core.visible`. Formats only lay them out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from audit.gate.stored import Gated
from audit.results import badge, words
from audit.results.schema import CorpusResult, ReleaseResult, Results, SweepResult
from reports._content import attacks, claims, detail, first, summary, verdicts, wording
from reports._content.boxes import Box, boxes
from reports._content.detail import Detail
from reports._content.releases import NamedRelease
from reports._content.table import Pair, Table
from reports._content.terms import TERMS

MOST_LINES = 12  # of the headline
MOST_PROMISES = 4  # on page one
_LEAST = 1e-9  # a share of tokens, above 0
SETTINGS = (
    "Every row is one setting over its seeds. Counts are pooled over the trained models; all else "
    "is a mean over seeds, and its n counts seeds; its 95 % interval is exact for normal values "
    "and covers somewhat less for skewed ones. What leaked, and what it says about the claim, "
    "is answered by one test over all seeds, which combines their p-values (Fisher's method)."
)


@dataclass(frozen=True)
class Page:
    """The whole report without its figures.

    facts: on what, by which attacks, when and by which version. badges: one, or those of two
    runs. warned: what speaks against relying on it. gate: what the gate answered, where it passed.
    headline: a sentence a release. promises: apart from any evidence. changes: the differences of
    two compared runs.
    """

    title: str
    subtitle: str
    facts: str
    badges: list[first.Verdict]
    warned_title: str
    warned: list[str]
    gate: str
    boxes: list[Box]
    headline: list[str]
    tested: list[Pair]
    summary: summary.Summary
    promises: list[Detail]
    promises_note: str
    not_tested: list[str]
    command: str
    plan_hash: str
    verdicts: list[Pair]
    terms: list[Pair]
    attacks: list[attacks.Attack]
    comparisons: list[claims.Comparison]
    bounds_note: str
    details: list[Detail]
    environment: list[Pair]
    costs: Table
    warnings: list[str]
    changes: list[Table] = field(default_factory=list)


def build(
    results: Results,
    shown: Sequence[NamedRelease],
    gated: Gated | None = None,
    sweep: SweepResult | None = None,
) -> Page:
    """Build the page of results that have gone through `inert`.

    gated: the gate's last answer. sweep: of which settings are shown; None: releases are.
    """
    releases = [one.release for one in shown]
    audited = [release for release in releases if not release.reference]
    subjects = list(dict.fromkeys(release.defense for release in audited or releases))
    kind = "audit" if sweep is None else "sweep"
    seeds = None if sweep is None else _seeds(sweep)
    details = [detail.detail(one, seeds) for one in shown]
    promises = _promises(shown, details)
    left = len(promises) - MOST_PROMISES
    note = f"{left} more {'stands' if left == 1 else 'stand'} under Each release."
    badges = [first.verdict(results, shown)]
    table = summary.summary(results, shown)
    if sweep is not None and len(sweep.seeds) > 1:
        table = replace(table, note=f"{SETTINGS} {table.note}".strip())
    return Page(
        title=f"Privacy {kind} of {_subject(results, subjects)}",
        subtitle=f"Privacy {kind} · {wording.clip(results.corpus.name, 60)}",
        facts=_facts(results, subjects, audited),
        badges=badges,
        warned_title=first.warned_title(badges),
        warned=list(first.warnings(results, releases, gated)),
        gate=first.passed(gated),
        boxes=boxes(results, shown),
        headline=_headline(results.headline),
        tested=_tested(results, subjects, releases, sweep),
        summary=table,
        promises=promises[:MOST_PROMISES],
        promises_note=note if left > 0 else "",
        not_tested=_not_tested(results),
        command=results.again,
        plan_hash=str(results.plan.get("hash", "unknown")),
        verdicts=list(verdicts.MEANINGS.items()),
        terms=TERMS,
        attacks=attacks.attacks(shown),
        comparisons=claims.comparisons(shown),
        bounds_note=claims.NOTE,
        details=details,
        environment=[(key, wording.setting(value)) for key, value in results.environment.items()],
        costs=detail.costs(shown),
        warnings=results.warnings,
    )


def _subject(results: Results, subjects: list[str]) -> str:
    """Name what was audited: the defenses, or the model that others trained, and the corpus."""
    model = results.plan.get("finished")
    plain = ["an undefended model (none)" if name == "none" else name for name in subjects]
    named = f"the model “{model.get('name', '')}”" if isinstance(model, dict) else ", ".join(plain)
    return f"{wording.clip(named, 80)} on {wording.clip(results.corpus.name, 60)}"


def _not_tested(results: Results) -> list[str]:
    """List what was not tested; of each attack that was not run, the question that it asks."""
    left = [
        f"not run: {wording.spelled(name)} ({wording.ATTACKS[name]})"
        if name in wording.ATTACKS
        else f"not run: {name}"
        for name in badge.untried(results)
    ]
    return [*left, *(line for line in results.not_tested if not line.startswith(badge.NOT_RUN))]


def _facts(results: Results, subjects: list[str], audited: Sequence[ReleaseResult]) -> str:
    """Say in plain words what was audited, then when, by which version and by whom."""
    known = [f"{name}: {wording.DEFENSES[name]}" for name in subjects if name in wording.DEFENSES]
    plain = known[:1] if len(subjects) == 1 else []
    environment = results.environment
    attacked = summary.attacks_of(audited)
    author = environment.get("author")
    parts = [
        *plain,
        f"{_people(results.corpus)}, trained on or not by coin",
        f"attacked by {', '.join(attacked)}" if attacked else "",
        _day(str(environment.get("date", ""))),
        f"audit {environment['audit']}" if "audit" in environment else "",
        f"run by {author}" if author else "",
    ]
    return wording.clip(" · ".join(filter(None, parts)), 300)


def _people(corpus: CorpusResult) -> str:
    """Count those whom coins decide about: users of the corpus, invented people, or both."""
    every, invented = corpus.planted_users, corpus.invented_users
    if invented is None:
        return f"{every:,} people"
    kinds = {"users of the corpus": every - invented, "invented people": invented}
    return " and ".join(f"{n:,} {what}" for what, n in kinds.items() if n)


def _day(date: str) -> str:
    """Write an ISO date with the name of its month; anything else as it is."""
    try:
        return f"{datetime.date.fromisoformat(date):%-d %B %Y}"
    except ValueError:
        return date


def _headline(lines: Sequence[str]) -> list[str]:
    """Shorten the headline to 12 lines at most."""
    kept = [wording.sentences(line, 700) for line in lines[:MOST_LINES]]
    rest = len(lines) - len(kept)
    return [*kept, f"… and {rest} more, below."] if rest else kept


def _tested(
    results: Results,
    subjects: list[str],
    releases: Sequence[ReleaseResult],
    sweep: SweepResult | None,
) -> list[Pair]:
    corpus = results.corpus
    seeds = dict.fromkeys(str(release.seed) for release in releases)
    return [
        ("Defenses", ", ".join(subjects)),
        (
            "Corpus",
            f"{corpus.name}: {corpus.records:,} records of {corpus.users:,} users, "
            f"{corpus.near_duplicates:,} near-duplicates",
        ),
        ("Users by coin", _coins(corpus) if sweep is None else _coins_of_seeds(sweep)),
        *_tokens(results),
        *_models(results.plan),
        ("Attacks", _attacks_run(releases, counted=sweep is None)),
        *_reach(results.plan),
        ("Seed", ", ".join(seeds)) if sweep is None else ("Seeds", _seeds(sweep)),
    ]


def _tokens(results: Results) -> Iterator[Pair]:
    """Yield which shares of the tokens trained on are planted, and private."""
    planted, private = results.corpus.planted_token_share, results.corpus.private_token_share
    if planted:
        often = f"one token in {round(1 / max(planted, _LEAST)):,}"
        often = often if planted < 0.4 else words.share(planted)
        yield "Invented text", f"{often} of what these models learn from is planted"
    if private is not None:
        policy = results.plan.get("policy", "unknown")
        yield "Private tokens", f"{words.share(private)} of those trained on (policy {policy})"


def _coins(corpus: CorpusResult) -> str:
    every, twins = corpus.planted_users, corpus.twins
    return (
        f"{every:,} decided by a fair coin: {every - twins:,} planted, {twins:,} twins; "
        f"{corpus.trained_users:,} trained on in all"
    )


def _coins_of_seeds(sweep: SweepResult) -> str:
    planted, trained, twins = (
        _between([getattr(seed, name) for seed in sweep.seeds])
        for name in ("planted_users", "trained_users", "twins")
    )
    return f"{planted} decided by a fair coin in each seed: {trained} trained on, {twins} twins"


def _seeds(sweep: SweepResult) -> str:
    return ", ".join(str(one.seed) for one in sweep.seeds)


def _reach(plan: Mapping[str, Any]) -> list[Pair]:
    """State how "no leak found" was made easier or harder to earn; nothing where it was not."""
    table = plan.get("silence")
    changed = table if isinstance(table, dict) else {}
    usual = {"hits": "0.25", "scores": "0.333", "power": "0.8"}
    parts = [f"{k} = {wording.setting(v)} (default {usual.get(k)})" for k, v in changed.items()]
    return [("Silence, changed", ", ".join(parts))] if parts else []


def _models(plan: Mapping[str, Any]) -> list[Pair]:
    """Return the model that was audited as it is, and the public one that training starts from."""
    models = {"Model as it is": plan.get("finished"), "Model": plan.get("model")}
    named = {term: model for term, model in models.items() if isinstance(model, dict)}
    return [(term, str(model.get("name", "unknown"))) for term, model in named.items()]


def _attacks_run(releases: Sequence[ReleaseResult], counted: bool) -> str:
    """List the attacks; counted: with how often each of them tried."""
    trials: dict[str, list[int]] = {}
    for finding in (f for release in releases for f in release.findings):
        trials.setdefault(finding.attack, []).append(finding.n)
    named = []
    for attack, counts in trials.items():
        n = f" (n = {_between([n for n in counts if n] or counts)})" if counted else ""
        named.append(f"{wording.spelled(attack)}{n}")
    return ", ".join(named) or "none"


def _between(counts: list[int]) -> str:
    low, high = words.integer(min(counts)), words.integer(max(counts))
    return low if low == high else f"{low} to {high}"


def _promises(shown: Sequence[NamedRelease], details: Sequence[Detail]) -> list[Detail]:
    """Choose the audited releases, by their guarantees; equal ones are listed once."""
    alike: dict[str, list[Detail]] = {}
    for one, known in zip(shown, details, strict=True):
        if not known.reference:
            alike.setdefault(repr(one.release.guarantee), []).append(known)
    return [
        replace(first, name=f"{first.name} and {len(rest)} more" if rest else first.name)
        for first, *rest in alike.values()
    ]
