"""Reads one measure of one setting from results.json: its value for every seed.

A measure is named `[RUN/]SETTING MEASURE`. SETTING is a defense with the parameters that tell it
from the others of its sweep (`submix:k=4`). MEASURE is a measure of utility (`perplexity`), a
finding (`extraction/hit_rate`), or one of these:

- `gain`: the share that is kept of what fine-tuning gains in log perplexity;
  `gain_in_perplexity`: of what it gains in perplexity itself;
- `answered`: the share of utility's queries that were answered before the session stopped;
- `epsilon`; `teachers_per_user` (their mean); a field of the guarantee's phrases under a relation
  (`phrases.replace.mean`).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from audit.core.errors import UsageError
from audit.results.schema import FindingResult, ReleaseResult, Results, SessionResult

LARGEST = sys.float_info.max  # a perplexity that no float holds is at least this, and reads so
Runs = Mapping[str, Results]  # the results of a claim's runs by name


def is_perplexity(measure: str) -> bool:
    """Return whether a measure is a perplexity, of which ratios count; a share of a gain is not."""
    return "perplexity" in measure and "gain" not in measure


def is_share(measure: str) -> bool:
    """Return whether a measure lies from 0 to 1: a rate, an accuracy, what was answered."""
    ends = ("rate", "accuracy", "auc", "percent", "answered", "name", "discoverable", "below mean")
    return measure.replace("_", " ").endswith(ends)


def in_words(value: float | None) -> str:
    """Write a measured value: three digits, or what is known of it."""
    if value is None:
        return "no trial"
    return "over 1e+308" if value == LARGEST else f"{value:.3g}"


@dataclass(frozen=True)
class Values:
    """A measure over seeds.

    name: as it was asked for. seeds: in ascending order. values: one a seed, None where it is the
    share of no trial. log: whether ratios count (perplexity) rather than differences. counts:
    (k, n) of each seed, where it is a share of n independent trials. cut: whether each seed's
    session stopped within a trial, which is in neither k nor n. may_stop: whether the sessions
    have a budget, and so their number of trials depends on how they come out.
    """

    name: str
    seeds: tuple[int, ...]
    values: tuple[float | None, ...]
    log: bool = False
    counts: tuple[tuple[int, int], ...] | None = None
    cut: tuple[bool, ...] = ()
    may_stop: bool = False

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Return the least and the largest that each value may be.

        They differ where no float holds a perplexity. Raises UsageError for the share of no trial.
        """
        known = [_number(value, self.name) for value in self.values]
        return tuple((value, math.inf if value == LARGEST else value) for value in known)


def values(name: str, runs: Runs) -> Values:
    """Read a measure. Raises UsageError where a run has no such setting, or several."""
    place, _, measure = name.partition(" ")
    run, _, setting = place.rpartition("/")
    results = runs.get(run or "main")
    if results is None or not measure or not setting:
        raise UsageError(f"{name!r}: names no run of the claim; write [RUN/]SETTING MEASURE")
    releases = of_setting(setting, results)
    seeds = tuple(release.seed for release in releases)
    if "/" in measure:
        found = [_finding(release, measure, name) for release in releases]
        whole = [(f.k, f.n) for f in found if f.k is not None]
        counts = tuple(whole) if len(whole) == len(found) else None
        pairs = list(zip(releases, found, strict=True))
        cut = tuple(_cut(release, f, measure, results, name) for release, f in pairs)
        if counts is None and any(cut):
            raise UsageError(f"{name!r}: a session stopped before it was measured")
        read = tuple(None if c and not f.n else _number(f.value, name)
                     for f, c in zip(found, cut, strict=True))  # fmt: skip
        may_stop = any(one.budget is not None for pair in pairs for one in _own(*pair))
        return Values(name, seeds, read, counts=counts, cut=cut, may_stop=may_stop)
    read = tuple(_utility(release, measure, results, name) for release in releases)
    return Values(name, seeds, read, log=is_perplexity(measure))


def of_setting(setting: str, results: Results) -> list[ReleaseResult]:
    """Return the releases of a setting, one a seed. Raises UsageError."""
    defense, _, rest = setting.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    if not all(equals for _, equals, _ in pairs):
        raise UsageError(f"{setting!r}: write DEFENSE:NAME=VALUE,…")
    wanted = {key: value for key, _, value in pairs}
    fits = [
        release
        for release in results.releases
        if release.defense == defense
        and all(_same(release.parameters.get(key), value) for key, value in wanted.items())
    ]
    kinds = {json.dumps(release.parameters, sort_keys=True) for release in fits}
    if len(kinds) != 1:
        raise UsageError(f"{setting!r}: {len(kinds)} settings of the run are meant; name one")
    by_seed = {release.seed: release for release in fits}
    return [by_seed[seed] for seed in sorted(by_seed)]


def _same(have: object, wanted: str) -> bool:
    """Compare a parameter with a word of a setting: numbers by value."""
    if isinstance(have, bool) or have is None or isinstance(have, str):
        return str(have).lower() == wanted.lower()
    try:
        return float(str(have)) == float(wanted)
    except ValueError:
        return False


def _finding(release: ReleaseResult, measure: str, name: str) -> FindingResult:
    attack, _, metric = measure.partition("/")
    alike = [f for f in release.findings if f.metric == metric and _is(f.attack, attack)]
    found = [f for f in alike if f.attack == attack] or alike
    if len(found) != 1:
        raise UsageError(f"{name!r}: {len(found)} findings of this name; one is needed")
    return found[0]


def _cut(
    release: ReleaseResult, finding: FindingResult, measure: str, results: Results, name: str
) -> bool:
    """Return whether a session stopped within a trial of a finding.

    It then has fewer trials than the finding of the undefended model, which answers all.
    """
    if all(one.stopped_at is None for one in _own(release, finding)):
        return False
    undefended = _of_seed("none", release.seed, results, name)
    return finding.n < _finding(undefended, measure, name).n


def _own(release: ReleaseResult, finding: FindingResult) -> list[SessionResult]:
    """Return the sessions in which a finding was measured."""
    return [one for one in release.sessions if one.purpose == finding.attack]


def _is(label: str, attack: str) -> bool:
    """Return whether an attack's label has the name and parameters that are meant."""
    have, wanted = ((one.partition(":")[0], set(filter(None, one.partition(":")[2].split(","))))
                    for one in (label, attack))  # fmt: skip
    return have[0] == wanted[0] and wanted[1] <= have[1]


def _utility(release: ReleaseResult, measure: str, results: Results, name: str) -> float:
    if measure == "epsilon":
        return _number(release.guarantee.epsilon, name)
    if measure == "teachers_per_user":
        heard = release.guarantee.teachers_per_user
        if not heard:
            raise _unmeasured(name)
        return sum(n * users for n, users in heard.items()) / sum(heard.values())
    if measure.startswith("phrases."):
        return _number(_of_phrases(release, measure, name), name)
    if measure in ("gain", "gain_in_perplexity"):
        others = (_of_seed(one, release.seed, results, name) for one in ("none", "public"))
        every = (release, *others)
        own, low, high = (_number(one.utility["perplexity"].value, name) for one in every)
        if low >= high:
            raise UsageError(f"{name!r}: fine-tuning gained nothing with seed {release.seed}")
        if measure == "gain":
            own, low, high = math.log(own), math.log(low), math.log(high)
        return (high - own) / (high - low)
    if measure == "answered":
        session = next((s for s in release.sessions if s.purpose == "utility"), None)
        if session is None or not session.queries:
            raise _unmeasured(name)
        return session.answered / session.queries
    if measure not in release.utility:
        raise UsageError(f"{name!r}: the run measured {', '.join(release.utility)}")
    value = release.utility[measure].value
    return LARGEST if is_perplexity(measure) and value == math.inf else _number(value, name)


def _of_phrases(release: ReleaseResult, measure: str, name: str) -> object:
    """Read `phrases.RELATION.FIELD`. Raises UsageError unless there is one such table."""
    relation, _, field = measure.removeprefix("phrases.").partition(".")
    tables = [one for one in release.guarantee.phrases if one.get("relation") == relation]
    if len(tables) != 1 or field not in tables[0]:
        raise UsageError(f"{name!r}: has no phrases under {relation!r} with a field {field!r}")
    return tables[0][field]


def _of_seed(defense: str, seed: int, results: Results, name: str) -> ReleaseResult:
    """Find the one release of a defense with a seed. Raises UsageError."""
    found = [r for r in results.releases if r.defense == defense and r.seed == seed]
    if len(found) != 1:
        raise UsageError(f"{name!r}: needs {defense!r} once with seed {seed}, not {len(found)}")
    return found[0]


def _number(value: object, name: str) -> float:
    """Return a finite number. Raises UsageError."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _unmeasured(name)
    return float(value)


def _unmeasured(name: str) -> UsageError:
    return UsageError(f"{name!r}: was not measured")
