"""Results made by hand: an ordinary run, four attacks, sweeps, and each with every string hostile.

The builders give each value a default, so that a test names only what it is about.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from audit.core.terms import Leaked, OnClaim, Shown
from audit.findings.controls import BY_CONTROL
from audit.findings.shows import shown, silence_over
from audit.findings.verdict import claim_overall
from audit.plugins import registry
from audit.results.joined import leaked_overall
from audit.results.schema import (
    Control,
    CorpusResult,
    Cost,
    EpsilonLower,
    Exposures,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    Results,
    SeedResult,
    SessionResult,
    Silence,
    SweepResult,
)
from audit.run.sweep.over_seeds import cells
from reports import Format, Report
from reports._content.releases import NamedRelease

HOSTILE = (
    '=cmd|"/C calc"!A1 <script>alert(1)</script> <img src=//evil.example/x onerror=alert(1)> '
    '</style></title> #eval("1+1") $x^2$ {{7*7}} \x1b[31m \u202eexe.gnp \u2066 \x00 \ud800 \u200b '
    "javascript:alert(1) 中文 العربية " + "A" * 90
)
SILENCE = Silence(
    contact=shown("trained by this tool", 60),
    sight=shown(BY_CONTROL, 100),
    reach=shown(
        "If one person in four leaked wholly, it would have been found in 4 of 5 such runs.", 100
    ),
)
KEPT = {"schema_version", "status", "kind"}
LITERALS = {"inf", "one_run", "rank", *Leaked, *OnClaim, *Shown}


def guarantee(epsilon: float | None, **changes: Any) -> GuaranteeResult:
    fields: dict[str, Any] = {
        "epsilon": epsilon,
        "unit": "user",
        "relation": "add_or_remove",
        "release": "model",
        "basis": "worst case",
        "theorem": "a theorem",
        "conditions": [],
    }
    return GuaranteeResult(**{**fields, **changes})


def finding(value: float | None = 0.0, **changes: Any) -> FindingResult:
    fields: dict[str, Any] = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        "value": value,
        "ci": None if value is None else (max(0.0, value - 0.05), min(1.0, value + 0.0362)),
        "confidence": 0.95,
        "method": "Clopper-Pearson, two-sided",
        "kind": "clopper_pearson",
        "k": None if value is None else round(100 * value),
        "n": 100,
        "chance": 6e-4,
        "control": Control(value=0.0, ci=(0.0, 0.0301), k=0, n=98),
        "p_value": 0.25,
        "epsilon_lower": None,
        "power": Power(smallest_rate=0.0295, largest_epsilon=3.67, n=100),
        "leaked": "no leak found",
        "sentence": "A sentence about it.",
        "claim": "not testable",
        "claim_sentence": "No test of the claim: this measure gives no bound on ε.",
        "silence": SILENCE,
    }
    return FindingResult(**{**fields, **changes})


def bound(value: float, **changes: Any) -> EpsilonLower:
    """A lower bound on ε by guesses on the coins of one run."""
    fields: dict[str, Any] = {
        "value": value,
        "method": "one_run",
        "hypothesis": "none",
        "unit": "user",
        "relation": "add_or_remove",
        "delta": 1e-5,
        "m": 120,
        "guesses": [(80, 71)],
    }
    return EpsilonLower(**{**fields, **changes})


def by_rank(value: float, **changes: Any) -> EpsilonLower:
    """A lower bound on ε by the rank of planted secrets among their candidates."""
    fields = {"method": "rank", "m": None, "guesses": None, "rank": 153, "space": SPACE, "n": 20}
    return bound(value, **{**fields, **changes})


def session(**changes: Any) -> SessionResult:
    """A session whose ε ended it."""
    fields: dict[str, Any] = {
        "purpose": "extraction",
        "queries": 900,
        "answered": 812,
        "budget": 1024,
        "remaining": 212,
        "stopped_at": 812,
        "epsilon_spent": [0.31, 1.46],
        "spent_curve": [(0, 0.0), (400, 0.7), (812, 1.46)],
    }
    return SessionResult(**{**fields, **changes})


def perplexity(value: float) -> Measure:
    ci = (0.8 * value, 1.2 * value)
    return Measure(value=value, ci=ci, n=17, method="bootstrap", unit="perplexity", answered=1024)


def release(defense: str, claim: GuaranteeResult, *found: FindingResult, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "defense": defense,
        "parameters": {"k": 8, "beta": 0.001953125},
        "seed": 0,
        "reference": False,
        "role": "audited",
        "guarantee": claim,
        "utility": {"perplexity": perplexity(12.4)},
        "cost": Cost(train_tokens=512345, queries=1524, seconds=14.2),
        "sessions": [],
        "findings": list(found),
        "leaked": leaked_overall(found),
        "claim": claim_overall(found, claim),
        "silence": silence_over(found),
    }
    return ReleaseResult(**{**fields, **changes})


def named(releases: Iterable[ReleaseResult], names: Iterable[str]) -> list[NamedRelease]:
    """The releases as pages show them, under other names."""
    pairs = enumerate(zip(releases, names, strict=False), 1)
    return [NamedRelease(release, name, f"release-{place}") for place, (release, name) in pairs]


def run(*releases: ReleaseResult, **changes: Any) -> Results:
    fields: dict[str, Any] = {
        "status": "complete",
        "headline": ["submix: no leak found by extraction."],
        "not_tested": ["STOP timing was not attacked"],
        "warnings": ["releases of one corpus compose"],
        "reproduce": "audit run --defense submix --attack extraction",
        "plan": {"model": {"name": "embedded"}, "hash": "1f3a9c2e"},
        "environment": {"audit": "0.1.0"},
        "corpus": CorpusResult(
            name="helpdesk",
            sha256="ab12",
            records=1540,
            users=190,
            near_duplicates=3,
            planted_users=120,
            invented_users=120,
            trained_users=61,
            twins=59,
        ),
        "releases": list(releases),
    }
    return Results(**{**fields, **changes})


@functools.cache
def ordinary() -> Results:
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
    auc = {
        "attack": "membership",
        "metric": "auc",
        "unit": "area under the curve",
        "chance": 0.5,
        "k": None,
    }
    return run(
        release(
            "submix",
            guarantee(2.0, **part, conditions=["the partition is fixed"], published_epsilon=4.91),
            finding(0.0),
            finding(0.613, **auc, leaked="leak", ci=(0.55, 0.68)),
            sessions=[session()],
        ),
        release(
            "none",
            guarantee(math.inf),
            finding(0.96, leaked="leak", claim="nothing claimed",
                    epsilon_lower=bound(2.61, guesses=[(119, 116)])),
            finding(
                None, **auc, leaked="not measured", claim="nothing claimed", control=None
            ),
            reference=True,
            role="positive control",
        ),
        release("as_is", guarantee(None), finding(0.5, leaked="inconclusive", claim="unknown")),
        release("dp_sgd", guarantee(8.0, delta=1e-5), finding(0.4, leaked="leak", claim="refuted")),
        release(
            "public", guarantee(0.0), finding(0.0, claim="not refuted"), reference=True,
            role="null control",
        ),
    )  # fmt: skip


SPACE = 1e6
NORMAL = NormalDist()
STRENGTHS = {"submix": 0.03, "submix_unprotected": 0.85, "none": 1.0, "public": 0.0}
ROLES = {
    "submix": "audited",
    "submix_unprotected": "positive control of submix",
    "none": "positive control",
    "public": "null control",
}
CLAIMED = {"submix": "not testable", "public": "not refuted"}
SCORES = {"loss": 1.0, "ratio": 1.6, "zlib": 1.1, "min_k": 1.2, "min_k_plus_plus": 0.9}


class Attacked:
    """The findings that four attacks would have on one release, by how much it leaks (0 to 1)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.strength = STRENGTHS[name]
        self.draw = random.Random(name)
        self.findings = [*self.extraction(), *self.exposure(), *self.membership(), *self.names()]

    def one(
        self,
        attack: str,
        metric: str,
        unit: str,
        value: float | None,
        leaks: bool = False,
        access: str = "score",
        **changes: Any,
    ) -> FindingResult:
        stronger = self.name == "submix" and access != "generate"
        word = "no leak found" if value is not None else "not measured"
        if leaks:
            word = "leak to insiders" if stronger else "leak"
        elif bound := changes.get("epsilon_lower"):
            changes["epsilon_lower"] = bound.changed(value=0.0)
        fields: dict[str, Any] = {
                  "attack": attack, "metric": metric, "unit": unit, "access": access,
                  "k": None, "control": None, "p_value": 1e-9 if leaks else 0.41,
                  "stronger_than_release": stronger, "leaked": word,
                  "claim": CLAIMED.get(self.name, "nothing claimed"),
                  "sentence": f"{metric} of {self.name}: {value}.",
                  "power": Power(largest_epsilon=3.67, n=120)}  # fmt: skip
        return finding(value, **{**fields, **changes})

    def rate(self, attack: str, metric: str, unit: str, k: int, n: int, **changes: Any) -> Any:
        share = k / n
        power = Power(smallest_rate=0.0295, detectable_rate=0.048, largest_epsilon=3.67, n=n)
        fields: dict[str, Any] = {
                  "k": k, "n": n, "power": power, "epsilon_lower": self.coins(share),
                  "ci": (max(0.0, share - 0.05), min(1.0, share + 0.036)),
                  "control": Control(value=0.0, ci=(0.0, 0.0362), k=0, n=59),
                  "leaks": k > n / 20}  # fmt: skip
        return self.one(attack, metric, unit, share, **{**fields, **changes})

    def coins(self, strength: float, relation: str = "add_or_remove") -> EpsilonLower:
        guesses = [(80, round(40 + 38 * strength))]
        return bound(round(max(0.0, 3.2 * strength), 2), relation=relation, guesses=guesses)

    def extraction(self) -> list[FindingResult]:
        s = self.strength if self.strength > 0.1 else 0.0
        rows = [
            ("hit_rate", "share of generations", 100, "generate"),
            ("recall", "share of planted secrets", 61, "generate"),
            ("searched_rate", "share of the most likely values", 100, "distribution"),
            ("searched_recall", "share of planted secrets", 61, "distribution"),
            ("probability", "probability of a planted secret per generation", 61, "score"),
            ("discoverable", "share of planted secrets expected in 1,000 generations", 61, "score"),
            ("verbatim", "share of planted records continued word for word", 61, "generate"),
        ]
        return [
            self.rate("extraction", metric, unit, round(0.96 * s * n), n, access=access)
            for metric, unit, n, access in rows
        ]

    def exposure(self) -> list[FindingResult]:
        found = []
        for metric, reach in (("1_copy", 4.0), ("4_copies", 14.0), ("16_copies", 60.0)):
            twins = sorted(min(19.9, self.draw.expovariate(math.log(2))) for _ in range(20))
            planted = sorted(
                min(19.93, self.draw.expovariate(math.log(2)) + self.draw.gauss(reach, 2) * f)
                for f in [max(0.0, self.strength - 0.03)] * 20
            )
            median = planted[10]
            shown: dict[str, Any] = {
                "ci": (planted[5], planted[15]),
                "n": 20,
                "chance": 1.0,
                "control": Control(value=twins[10], ci=(twins[5], twins[15]), n=20),
                "method": "order statistics",
                "epsilon_lower": by_rank(
                    round(max(0.0, 0.69 * median - 3), 2), rank=round(SPACE / 2**median)
                ),
                "exposures": Exposures(planted=planted, twins=twins, null=1.4427),
                "space": SPACE,
            }
            found.append(self.one("exposure", f"exposure_{metric}", "bits", median, median > 2.5,
                                  "distribution", **shown))  # fmt: skip
        return found

    def membership(self) -> list[FindingResult]:
        found = []
        for target in ("record", "span"):
            for score, weight in SCORES.items():
                hint = 0.2 * weight if self.name == "submix" else 0.0
                d = self.draw.gauss(1.3 * weight * self.strength + hint, 0.03)
                found += self.scored(f"{target}_{score}", d)
                if score == "loss":
                    found += self.protocols(target, d)
        right = round(61 * (0.5 + 0.45 * self.strength))
        bound = self.coins(self.strength, "replace")
        choice = ("membership", "span_choice", "share of trained-on users", right, 61)
        power = Power(largest_epsilon=3.1, n=61)
        return [*found, self.rate(*choice, control=None, chance=0.5, epsilon_lower=bound,
                                  power=power, leaks=self.strength > 0.1)]  # fmt: skip

    def scored(self, name: str, d: float, controls: int = 240) -> list[FindingResult]:
        area = NORMAL.cdf(d / math.sqrt(2))
        grid = [0, *sorted({max(1, round(controls ** (i / 60))) for i in range(61)})]
        roc = [(i / controls, NORMAL.cdf(NORMAL.inv_cdf(min(1 - 1e-9, (i + 0.5) / controls)) + d))
               for i in grid]  # fmt: skip
        whole: dict[str, Any] = {
                 "n": 480, "chance": 0.5, "sides": 2, "roc": roc, "leaks": d > 0.2,
                 "ci": (max(0.0, area - 0.07), min(1.0, area + 0.07)),
                 "method": "binomial tail means, two-sided",
                 "blind": Control(value=0.51, ci=(0.44, 0.58), n=480),
                 "epsilon_lower": self.coins(min(1.0, d))}  # fmt: skip
        unit = "share of members"
        return [
            self.one("membership", f"{name}_auc", "AUC", area, **whole),
            self.one("membership", f"{name}_tpr_at_1_percent", unit, roc[2][1], leaks=d > 0.2,
                     n=240, chance=0.01),
            self.one("membership", f"{name}_tpr_at_0.1_percent", unit, None, n=240, chance=0.001),
        ]  # fmt: skip

    def protocols(self, target: str, d: float) -> list[FindingResult]:
        right = NORMAL.cdf(d / 2)
        return [
            self.one("membership", f"{target}_loss_{name}", "share of right calls", value,
                     leaks=d > 0.2, n=480, chance=0.5)
            for name, value in (("accuracy", right), ("refined_accuracy", right**0.7))
        ]  # fmt: skip

    def names(self) -> list[FindingResult]:
        unit, k = "share of generations", round(34 * self.strength) if self.strength > 0.1 else 0
        generated: dict[str, Any] = {"chance": None, "access": "generate"}
        return [
            self.rate("name_leak", "r_name", unit, k, 200, **generated),
            self.rate("name_leak", "targeted", "share of trained-on users", k, 61, **generated),
            self.rate("name_leak", "other_names", unit, 11, 200, control=None, **generated,
                      leaked="inconclusive", leaks=False),
        ]  # fmt: skip


@functools.cache
def four_attacks() -> Results:
    """All four attacks on SubMix and its three references."""
    submix = guarantee(
        2.0, unit="part", relation="removed", alpha=2.0, basis="data-dependent",
        release="predictions", published_epsilon=8.91,
        theorem="Rényi divergence between this run and its leave-one-part-out run, under this "
        "run's own STOP (derived; arXiv 2201.00971, Algorithm 2)",
        conditions=[
            "this data set and this partition into 8 parts of users",
            "against those who do not know the seed",
            "choosing β or a checkpoint on private data is not in ε",
            "the run without a part stops at its own time: not proved, not claimed",
        ],
    )  # fmt: skip
    claims = {"submix": submix, "public": guarantee(0.0, theorem="never saw the private text")}
    nothing = guarantee(math.inf, theorem="nothing is promised: trained without protection")
    purposes = ("utility", "extraction", "exposure", "membership", "name_leak")
    sessions = [
        SessionResult(
            purpose=purpose, queries=1100, answered=900 + 20 * i, budget=1024,
            remaining=124 - 20 * i, stopped_at=812 if i == 2 else None,
            epsilon_spent=[0.31, 1.1 + i / 5],
            spent_curve=[(q, (1.1 + i / 5) * q / 1000) for q in range(0, 1001, 10)],
        )
        for i, purpose in enumerate(purposes)
    ]  # fmt: skip
    used = {"submix": 12.4, "submix_unprotected": 8.3, "none": 6.1, "public": 21.9}
    return run(
        *(
            release(name, claims.get(name, nothing), *Attacked(name).findings, role=ROLES[name],
                    reference=name != "submix", sessions=sessions if name == "submix" else [],
                    utility={"perplexity": perplexity(used[name])})
            for name in STRENGTHS
        ),
        headline=["submix: extraction finds no leak (hit rate 0 of 100, at most 2.95 %, undefended "
        "96 of 100); exposure asks more than the release gives; membership asks more than the "
        "release gives; name_leak finds no leak (r name 0 of 200, at most 1.49 %, undefended 34 of "
        "200). Promised: ε = 2 nats per part (removed), Rényi order 2, data-dependent; spent at "
        "most 1.9. Perplexity 12.4 (undefended 6.1, public 21.9)."],
        not_tested=[
            "STOP timing was not attacked",
            "membership by shadow models (lira, rmia) was not run",
            "one seed: nothing is ranked",
            "hyperparameters were chosen outside the guarantee",
        ],
        reproduce="audit run --defense submix --attack extraction --attack exposure "
        "--attack membership --attack name_leak",
    )  # fmt: skip


def poisoned(tree: Any, key: str = "") -> Any:
    if isinstance(tree, str):
        return tree if key in KEPT or tree in LITERALS else HOSTILE
    if isinstance(tree, dict):
        return {name: poisoned(value, name) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [poisoned(value, key) for value in tree]
    return tree


def hostile(results: Results) -> Results:
    """The same results with every string hostile, keys of open tables included."""
    document = poisoned(results.model_dump())
    document["plan"][HOSTILE] = HOSTILE
    document["releases"][0]["parameters"][HOSTILE] = [HOSTILE, {"a": HOSTILE}]
    document["environment"][HOSTILE] = None
    return Results.model_validate(document)


def swept(releases: Sequence[ReleaseResult], base: Results) -> Results:
    """A sweep of these releases, which name their seeds."""
    seeds = [
        SeedResult(seed=s, plan_hash="ab", planted_users=40, trained_users=20 + s, twins=20 - s)
        for s in sorted({release.seed for release in releases})
    ]
    sweep = SweepResult(seeds=seeds, cells=cells(releases))
    return base.model_copy(update={"releases": list(releases), "sweep": sweep})


def on_two_seeds(results: Results) -> Results:
    """The same releases on two seeds."""
    both = [r.model_copy(update={"seed": seed}) for seed in (0, 1) for r in results.releases]
    return swept(both, results)


@functools.cache
def silent_seeds(seeds: int) -> Results:
    """A sweep of one setting: no leak in any seed by itself, each at p = 0.16.

    Together, p is adjusted to 0.075 with 6 seeds, and to 0.044, which is a leak, with 8.
    """
    found = finding(0.0, p_value=0.16, adjusted_p=0.16, claim="nothing claimed")
    alone = [release("redaction", guarantee(math.inf), found, seed=s, tests=1)
             for s in range(seeds)]  # fmt: skip
    return swept(alone, run())


_REPORTS: dict[int, Report] = {}
_FILES: dict[tuple[str, int], dict[str, bytes]] = {}


def report(results: Results) -> Report:
    """The one report of these very results, which it keeps; they are drawn once a process."""
    return _REPORTS.setdefault(id(results), Report(results, Path("nowhere")))


def files(name: str, results: Results, folder: Path | None = None) -> dict[str, bytes]:
    """The files of a format, by name; without a folder they are made once."""
    made = registry.build("reports", name, Format, {})[1]  # type: ignore[type-abstract]
    if folder:
        return made.files(Report(results, folder))
    one = report(results)
    if (name, id(one)) not in _FILES:
        _FILES[name, id(one)] = made.files(one)
    return _FILES[name, id(one)]


def text(name: str, results: Results, folder: Path | None = None) -> str:
    """The text of the first file of a format."""
    return next(iter(files(name, results, folder).values())).decode("utf-8")


EVERY: dict[str, Callable[[], Results]] = {
    "results": ordinary,
    "four": four_attacks,
    "hostile": functools.cache(lambda: hostile(ordinary())),
    "hostile_four": functools.cache(lambda: hostile(four_attacks())),
    "unfinished": functools.cache(
        lambda: run(status="partial", not_tested=[], warnings=[], plan={}, environment={})
    ),
}
