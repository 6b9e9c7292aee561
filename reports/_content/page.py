"""Content of every format: Results turned once into plain rows and sentences.

All strings in a Page are visible text: see `audit.core.visible`. Formats only lay them out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from audit.core.visible import visible_tree
from audit.gate.stored import Gated
from audit.results import badge, words
from audit.results.schema import CorpusResult, ReleaseResult, Results
from reports._content import attacks, claims, detail, first, summary, verdicts, wording
from reports._content.boxes import Box, boxes
from reports._content.table import Pair, Table
from reports._content.terms import TERMS

MOST_LINES = 12  # of the headline
MOST_PROMISES = 4  # on page one
_LEAST = 1e-9  # a share of tokens, above 0


@dataclass(frozen=True)
class Promise:
    """A formal guarantee, apart from any evidence."""

    name: str
    claim: str
    theorem: str
    published: str
    conditions: list[str]


@dataclass(frozen=True)
class Page:
    """The whole report without its figures.

    facts: on what, by which attacks, when and by which version. badges: one, or those of two
    runs. warned: what speaks against relying on it. gate: what the gate answered, where it passed.
    headline: a sentence a release. changes: the differences of two compared runs.
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
    promises: list[Promise]
    promises_note: str
    not_tested: list[str]
    command: str
    plan_hash: str
    verdicts: list[Pair]
    terms: list[Pair]
    attacks: list[attacks.Attack]
    comparisons: list[claims.Comparison]
    bounds_note: str
    details: list[detail.Detail]
    environment: list[Pair]
    costs: Table
    warnings: list[str]
    changes: list[Table] = field(default_factory=list)


def inert(results: Results) -> Results:
    """Make every string of the results visible; all formats start from this."""
    return Results.model_validate(visible_tree(results.model_dump()))


def build(results: Results, gated: Gated | None = None) -> Page:
    """Build the page of results that have gone through `inert`. gated: the gate's last answer."""
    names = labels(results.releases)
    releases = results.releases
    audited = [r for r in releases if not r.reference] or releases
    subjects = list(dict.fromkeys(release.defense for release in audited))
    promises = _promises(results, names)
    badges = [first.verdict(results, releases, names)]
    return Page(
        title=_title(results, subjects),
        subtitle=f"Privacy audit · {wording.clip(results.corpus.name, 60)}",
        facts=_facts(results, subjects),
        badges=badges,
        warned_title=first.warned_title(badges),
        warned=first.warnings(results, releases, gated),
        gate=first.passed(gated),
        boxes=boxes(results, releases),
        headline=_headline(results.headline),
        tested=_tested(results, subjects),
        summary=summary.summary(results, names),
        promises=promises[:MOST_PROMISES],
        promises_note=_promises_note(len(promises[MOST_PROMISES:])),
        not_tested=_not_tested(results),
        command=results.again,
        plan_hash=str(results.plan.get("hash", "unknown")),
        verdicts=list(verdicts.MEANINGS.items()),
        terms=TERMS,
        attacks=attacks.attacks(releases, names),
        comparisons=claims.comparisons(releases, names),
        bounds_note=claims.NOTE,
        details=[
            detail.detail(release, name, summary.anchor(i))
            for i, (release, name) in enumerate(zip(releases, names, strict=True))
        ],
        environment=[(key, wording.setting(value)) for key, value in results.environment.items()],
        costs=detail.costs(releases, names),
        warnings=results.warnings,
    )


def _title(results: Results, subjects: list[str]) -> str:
    """Name what was audited: the defenses, or the model that others trained, and the corpus."""
    model = results.plan.get("finished")
    plain = ["an undefended model (none)" if name == "none" else name for name in subjects]
    named = f"the model “{model.get('name', '')}”" if isinstance(model, dict) else ", ".join(plain)
    on = wording.clip(results.corpus.name, 60)
    return f"Privacy audit of {wording.clip(named, 80)} on {on}"


def _not_tested(results: Results) -> list[str]:
    """List what was not tested; of each attack that was not run, the question that it asks."""
    left = [
        f"not run: {wording.spelled(name)} ({wording.ATTACKS[name]})"
        if name in wording.ATTACKS
        else f"not run: {name}"
        for name in badge.untried(results)
    ]
    return [*left, *(line for line in results.not_tested if not line.startswith(badge.NOT_RUN))]


def _facts(results: Results, subjects: list[str]) -> str:
    """Say in plain words what was audited, then when, by which version and by whom."""
    known = [f"{name}: {wording.DEFENSES[name]}" for name in subjects if name in wording.DEFENSES]
    plain = known[:1] if len(subjects) == 1 else []
    environment = results.environment
    attacked = summary.attacks_of([r for r in results.releases if not r.reference])
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
        return f"{words.integer(every)} people"
    kinds = {"users of the corpus": every - invented, "invented people": invented}
    return " and ".join(f"{words.integer(n)} {what}" for what, n in kinds.items() if n)


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


def labels(releases: list[ReleaseResult]) -> list[str]:
    """Name each release by its defense and by what sets it apart within that defense."""
    return [_label(release, [o for o in releases if o.defense == release.defense])
            for release in releases]  # fmt: skip


def _label(release: ReleaseResult, alike: list[ReleaseResult]) -> str:
    def differs(values: Iterable[object]) -> bool:
        return len({repr(value) for value in values}) > 1

    parts = [
        f"{key}={wording.setting(value)}"
        for key, value in release.parameters.items()
        if differs(other.parameters.get(key) for other in alike)
    ]
    if differs(other.seed for other in alike):
        parts.append(f"seed={release.seed}")
    return wording.clip(" ".join([release.defense, *parts]), 80)


def _private(results: Results) -> list[Pair]:
    share = results.corpus.private_token_share
    if share is None:
        return []
    policy = results.plan.get("policy", "unknown")
    return [("Private tokens", f"{words.share(share)} of those trained on (policy {policy})")]


def _planted(results: Results) -> list[Pair]:
    share = results.corpus.planted_token_share
    if not share:
        return []
    often = f"one token in {round(1 / max(share, _LEAST)):,}" if share < 0.4 else words.share(share)
    return [("Invented text", f"{often} of what these models learn from is planted")]


def _tested(results: Results, subjects: list[str]) -> list[Pair]:
    corpus, plan = results.corpus, results.plan
    return [
        ("Defenses", ", ".join(subjects)),
        (
            "Corpus",
            f"{corpus.name}: {words.integer(corpus.records)} records of "
            f"{words.integer(corpus.users)} users, {words.integer(corpus.near_duplicates)} "
            "near-duplicates",
        ),
        (
            "Users by coin",
            f"{words.integer(corpus.planted_users)} decided by a fair coin: "
            f"{words.integer(corpus.planted_users - corpus.twins)} planted, "
            f"{words.integer(corpus.twins)} twins; "
            f"{words.integer(corpus.trained_users)} trained on in all",
        ),
        *_planted(results),
        *_private(results),
        *_models(plan),
        ("Attacks", _attacks_run(results)),
        *_reach(results.plan),
        ("Seed", ", ".join(dict.fromkeys(str(release.seed) for release in results.releases))),
    ]


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


def _attacks_run(results: Results) -> str:
    trials: dict[str, list[int]] = {}
    for release in results.releases:
        for finding in release.findings:
            trials.setdefault(finding.attack, []).append(finding.n)
    named = [f"{wording.spelled(attack)} (n = {_between(ns)})" for attack, ns in trials.items()]
    return ", ".join(named) or "none"


def _between(counts: list[int]) -> str:
    measured = [n for n in counts if n] or counts
    low, high = words.integer(min(measured)), words.integer(max(measured))
    return low if low == high else f"{low} to {high}"


def _promises(results: Results, names: list[str]) -> list[Promise]:
    """Return the guarantees of the audited releases; equal ones are listed once."""
    alike: dict[str, list[Promise]] = {}
    for release, name in zip(results.releases, names, strict=True):
        if not release.reference:
            key = repr(release.guarantee)
            alike.setdefault(key, []).append(promise(release, name))
    return [
        replace(first, name=f"{first.name} and {len(rest)} more" if rest else first.name)
        for first, *rest in alike.values()
    ]


def promise(release: ReleaseResult, name: str) -> Promise:
    """Describe the guarantee of one release, and the published ε where it differs."""
    guarantee = release.guarantee
    published = ""
    if guarantee.published_epsilon is not None:
        scope = wording.per_unit(guarantee.unit, guarantee.relation)
        value = words.epsilon(guarantee.published_epsilon)
        published = f"ε = {value} nats {scope}, as published; not the claim made here"
    return Promise(
        name=name,
        claim=wording.claim(guarantee),
        theorem=guarantee.theorem,
        published=published,
        conditions=list(guarantee.conditions),
    )


def _promises_note(left: int) -> str:
    if left == 0:
        return ""
    return f"{left} more {'stands' if left == 1 else 'stand'} under Each release."
