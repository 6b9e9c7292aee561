"""Sentences of a sweep: its headline, its warnings, what it did not test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from audit.core.terms import Leaked, OnClaim
from audit.findings.headline import NULL_LEAKS, headline
from audit.results.quoting import leaked_of
from audit.results.schema import Cell, GuaranteeResult, ReleaseResult, Results
from audit.results.words import at_most, count

ONE_SEED = "differences between seeds"


def sweep_headline(releases: Sequence[ReleaseResult], cells: Sequence[Cell]) -> list[str]:
    """Write one line on all, one on each defense; settings stand in the grid's order, unranked."""
    audited = [r for r in releases if not r.reference]
    seeds = len({r.seed for r in releases})
    mine = [c for c in cells if not releases[c.releases[0]].reference]
    if len(mine) == 1 and seeds == 1:
        return headline(releases)
    parts = [
        f"{count(len(mine), 'setting')} over {count(seeds, 'seed')}, {len(audited)} releases: "
        f"{_found(mine, releases)}{_controls(releases, cells)} {_claims(mine)}"
    ]
    defenses = dict.fromkeys(releases[c.releases[0]].defense for c in mine)
    parts += [_defense(name, releases, mine) for name in defenses]
    beside = [f"{word} {value}" for word, value in _references(releases, cells)]
    parts += [f"Beside them: {', '.join(beside)}."] if beside else []
    parts += ["One seed: defenses are not ranked."] if seeds == 1 else []
    return parts


def _found(cells: Sequence[Cell], releases: Sequence[ReleaseResult]) -> str:
    """Write `these attacks find a leak in 3 and nothing conclusive in 1 (submix: k = 2).`

    A count of none is left out. A few settings among others are named.
    """
    searched = [cell for cell in cells if not _searches_nothing(cell)]
    if not searched:
        return "these attacks look for no planted secret."
    inside = [cell for cell in searched if leaked_of(cell).endswith(Leaked.INSIDERS)]
    others = [cell for cell in searched if cell not in inside]
    counts = Counter(cell.leaked for cell in others)
    open_ = [cell for cell in others if cell.leaked not in (Leaked.LEAK, Leaked.NONE_FOUND)]
    answers = {"a leak": counts[Leaked.LEAK], "a leak to insiders only": len(inside),
               "no leak": counts[Leaked.NONE_FOUND], "nothing conclusive": len(open_)}  # fmt: skip
    named = _named(open_, cells, releases) if len(open_) < len(searched) else ""
    parts = [f"{answer} in {number}" for answer, number in answers.items() if number]
    parts[-1] += named
    if len(searched) < len(cells):
        parts.append(f"look for no planted secret in {len(cells) - len(searched)}")
    found = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return f"these attacks find {found}."


def _named(few: Sequence[Cell], cells: Sequence[Cell], releases: Sequence[ReleaseResult]) -> str:
    """Name up to three settings by what differs between them all."""
    firsts = [releases[cell.releases[0]] for cell in few]
    differing = _differing([releases[cell.releases[0]] for cell in cells])
    names = [f"{one.defense}{_at(one, differing)}" for one in firsts]
    return f": {', '.join(names)}" if 0 < len(names) <= 3 else ""


def _controls(releases: Sequence[ReleaseResult], cells: Sequence[Cell]) -> str:
    """State where a leak may be spurious (the null control leaks), or its absence shows nothing."""
    if all(_searches_nothing(cell) for cell in cells):
        return ""
    null = [c for c in cells if releases[c.releases[0]].role == "null control"]
    undefended = [c for c in cells if _is_undefended(releases[c.releases[0]])]
    notes = ""
    if any(cell.leaked == Leaked.LEAK for cell in null):
        notes += f" The null control leaks: {NULL_LEAKS}."
    if not undefended:
        notes += " No undefended model was run beside them: finding no leak shows nothing."
    elif all(cell.leaked != Leaked.LEAK for cell in undefended):
        notes += " Not even the undefended model was found to leak: finding no leak shows nothing."
    return notes


def _searches_nothing(cell: Cell) -> bool:
    """Return whether a setting was only asked for its charges, which do not search for a leak."""
    return bool(cell.findings) and all(f.charge_test is not None for f in cell.findings)


def _is_undefended(release: ReleaseResult) -> bool:
    plain = not release.parameters  # not one that trains on less, or for a shorter time
    return release.defense == "none" and plain  # as a reference, or asked for as a defense


def _claims(cells: Sequence[Cell]) -> str:
    counts = Counter(cell.claim for cell in cells)
    tested = counts[OnClaim.REFUTED] + counts[OnClaim.NOT_REFUTED]
    if not tested:
        return "No claim could be tested."
    refuted = counts[OnClaim.REFUTED]
    verb = "is" if refuted < 2 else "are"
    return f"Of {count(tested, 'claim')} tested, {refuted or 'none'} {verb} refuted."


def _defense(name: str, releases: Sequence[ReleaseResult], cells: Sequence[Cell]) -> str:
    """Write `submix: perplexity 8.1 (ε = 1, k = 4) to 6.2 (ε = 8, k = 8)`, with all that differs.

    ε in nats of the kind that the report names.
    """
    mine = [(c, releases[c.releases[0]]) for c in cells]
    mine = [(c, release) for c, release in mine if release.defense == name]
    differing = _differing([release for _, release in mine])
    measured = [
        (c.utility["perplexity"].value, _at(release, differing))
        for c, release in mine
        if "perplexity" in c.utility
    ]
    if not measured:
        return f"{name}: no perplexity."
    worst, best = max(measured, key=_first), min(measured, key=_first)
    ends = [worst] if worst == best else [worst, best]
    shown = " to ".join(f"{_number(v)}{at}" for v, at in ends)
    return f"{name}: perplexity {shown}{_stopped([c for c, _ in mine], releases)}."


def _stopped(cells: Sequence[Cell], releases: Sequence[ReleaseResult]) -> str:
    """Count the settings in which the public model had to answer for a service, in some seed."""
    early = [
        cell
        for cell in cells
        if any(
            session.purpose == "utility" and session.stopped_at is not None
            for place in cell.releases
            for session in releases[place].sessions
        )
    ]
    if not early:
        return ""
    return f", its session stopped early in {len(early)} of {count(len(cells), 'setting')}"


def _first(pair: tuple[float, str]) -> float:
    return pair[0]


def _differing(settings: Sequence[ReleaseResult]) -> list[str]:
    """List the parameters, ε aside, that differ between settings."""
    names = dict.fromkeys(key for release in settings for key in release.parameters)
    values = {key: {repr(release.parameters.get(key)) for release in settings} for key in names}
    return [key for key, several in values.items() if len(several) > 1 and key != "epsilon"]


def _at(release: ReleaseResult, differing: Sequence[str]) -> str:
    epsilon = release.guarantee.epsilon
    known = epsilon is not None and math.isfinite(epsilon)
    parts = [f"ε = {at_most(epsilon)}"] if epsilon is not None and known else []
    parts += [f"{key} = {release.parameters.get(key)}" for key in differing[:2]]
    return f" ({', '.join(parts)})" if parts else ""


def _references(
    releases: Sequence[ReleaseResult], cells: Sequence[Cell]
) -> Iterable[tuple[str, str]]:
    for name, word in (("none", "undefended"), ("public", "public")):
        for cell in cells:
            release = releases[cell.releases[0]]
            if release.defense == name and release.reference and "perplexity" in cell.utility:
                yield word, _number(cell.utility["perplexity"].value)


def warnings(runs: Sequence[Results], releases: Sequence[ReleaseResult]) -> list[str]:
    """List the warnings of every seed, of single seeds, and of the sweep as a whole."""
    common = [line for line in runs[0].warnings if all(line in run.warnings for run in runs)]
    own = [
        f"seed {run.plan['seed']}: {line}"
        for run in runs
        for line in run.warnings
        if line not in common
    ]
    settings = sum(not release.reference for release in runs[0].releases)
    picked = (
        f"choosing one of these {settings} settings by what the sweep measured on private data is "
        "not in its ε"
    )
    verdicts = (
        "the answers on a setting are of all its seeds together, adjusted for "
        f"{count(settings, 'setting')}: in at most 5 of 100 sweeps without any leak, a setting of "
        "several seeds is called a leak; a leak of one seed that the others do not confirm is named"
    )
    return [*common, picked, verdicts, *few_seeds(len(runs)), *joint(releases), *own]


def few_seeds(seeds: int) -> list[str]:
    """Warn where intervals over seeds say next to nothing."""
    if seeds != 2:
        return []
    return [
        "two seeds give intervals that reach 12.7 standard errors to each side, so hardly any "
        "difference shows; run three seeds or more (4.3 standard errors)"
    ]


def joint(releases: Sequence[ReleaseResult]) -> list[str]:
    """Compute the ε (nats) of all releases together, for guarantees of one unit: the sum.

    Each counts under every relation it holds for. Parts of another partition are other units: they
    are added up within one partition only, which defenses with the same k and seed share.
    """
    kinds: dict[tuple[Any, ...], list[GuaranteeResult]] = {}
    for release in releases:
        claim, parts = release.guarantee, release.guarantee.unit == "part"
        if not release.reference and claim.epsilon is not None and 0 < claim.epsilon < math.inf:
            partition = (release.parameters.get("k"), release.seed) if parts else (None, None)
            for relation in dict.fromkeys([claim.relation, *claim.also]):
                kind = (claim.unit, relation, claim.alpha, *partition)
                kinds.setdefault(kind, []).append(claim)
    per_kind = Counter(_sum(kind, claims) for kind, claims in kinds.items() if len(claims) > 1)
    return [
        f"released together, {line}" + (f", on each of {times} partitions" if times > 1 else "")
        for line, times in per_kind.items()
    ]


def _sum(kind: tuple[Any, ...], claims: Sequence[GuaranteeResult]) -> str:
    unit, relation, alpha, k, _ = kind
    total = math.fsum(claim.epsilon or 0.0 for claim in claims)
    delta = math.fsum(claim.delta or 0.0 for claim in claims)
    also = f" at δ = {at_most(delta)}" if delta else ""
    order = f", Rényi order {alpha:g}" if alpha is not None else ""
    worst = all(claim.basis == "worst case" for claim in claims)
    where = f" on one partition (k = {k})" if unit == "part" else ""
    basis = "worst case" if worst else "data-dependent"
    return (
        f"the {len(claims)} releases{where} with ε per {unit} ({relation}{order}, {basis}) "
        f"promise ε = {at_most(total, 4)} nats{also}"
    )


def not_tested(runs: Sequence[Results]) -> list[str]:
    """List what no seed tested; how seeds differ was tested."""
    lines = list(dict.fromkeys(line for run in runs for line in run.not_tested))
    return [line for line in lines if len(runs) == 1 or not line.startswith(ONE_SEED)]


def _number(value: float) -> str:
    """Format three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
