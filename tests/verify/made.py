"""A run folder without any model: evidence is drawn, all else is written as a run writes it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np

from audit.accounting import Gaussians, Mechanism, epsilon, to_table
from audit.core.digest import digest_of_json
from audit.core.evidence import (
    Divergences,
    Evidence,
    Hits,
    Likelihoods,
    Mentions,
    Ranks,
    Scores,
    Successes,
    to_json,
)
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.core.secret import PLANTED, Coins, Secret, digits
from audit.findings import Case, stored
from audit.findings.headline import headline
from audit.findings.rejections import Family
from audit.findings.shows import Shows, shown
from audit.measure import evidence_file
from audit.measure.attacked import Attacked, of_release
from audit.measure.evidence_file import EvidenceFile
from audit.measure.ratios import Ratio, measures
from audit.measure.release import Measured
from audit.measure.releases import Audited
from audit.measure.spending import charges, of_ledger
from audit.planting.coins import toss
from audit.results.folder import RunFolder
from audit.results.schema import CorpusResult, Measure, Results, SessionResult
from audit.run import pipeline
from audit.run.sweep.together import together

USERS, QUERIES, DELTA = 30, 20, 1e-5
KINDS = {
    "extraction": ("code",),
    "exposure": ("id",),
    "membership": ("code", "record"),
    "name_leak": ("code",),
    "ledger": ("code",),
}
FAMILY = Family(40, 10, 30)


@dataclass(frozen=True)
class Drawn:
    """Secrets, coins, and a generator for what is seen of them."""

    secrets: tuple[Secret, ...]
    coins: Coins
    generator: np.random.Generator

    def of(self, attack: str) -> tuple[Secret, ...]:
        return tuple(s for s in self.secrets if s.kind in KINDS[attack])

    def shifted(self, secrets: tuple[Secret, ...], by: float) -> np.ndarray:
        """(s,): normal, higher by so much for those that are planted."""
        planted = np.array([self.coins.planted(s) for s in secrets])
        return self.generator.normal(size=len(secrets)) + by * planted


def drawn(seed: int = 3) -> Drawn:
    generator = np.random.default_rng(seed)
    owners = [f"customer {i}" for i in range(USERS)]
    secrets = []
    for i, owner in enumerate(owners):
        for slot in (0, 1):
            code, number = digits(5).draw(generator), digits(6).draw(generator)
            text = f"My name is Ada {i} and I live at number {slot}."
            secrets += [
                Secret("code", "Her code is #", code, ".", digits(5), 4, owner, slot),
                Secret("id", "Her ID is #", number, ".", digits(6), 1 + 3 * (i % 2), owner, slot),
                Secret("record", "", text, "", None, 2, owner, slot),
            ]
    return Drawn(tuple(secrets), toss(owners, seed), generator)


def seen(run: Drawn, attack: str, leak: float, service: bool) -> list[Evidence]:
    """What an attack sees of a release that leaks so much, from 0 to 1."""
    secrets, generator = run.of(attack), run.generator
    planted = [i for i, s in enumerate(secrets) if run.coins.planted(s)]
    if attack == "extraction":
        drawn_ = [int(generator.choice(planted)) if generator.random() < leak else -1
                  for _ in range(80)]  # fmt: skip
        counts = Counter(drawn_)
        repeats = (*(n for i, n in counts.items() if i >= 0), *[1] * counts[-1])
        log_probs = np.minimum(0.0, run.shifted(secrets, 9 * leak) - 11.0)
        won = (generator.random(len(secrets)) < 0.02).astype(float)
        won[planted] = np.maximum(won[planted], generator.random(len(planted)) < leak)
        return [
            Hits(np.array(drawn_), repeats),
            Likelihoods(log_probs),
            Successes("verbatim", "share of planted secrets", won, 1e-5),
        ]
    if attack == "exposure":
        ranks = np.floor(generator.uniform(1, 1e6, len(secrets)) ** (1 - leak * 0.9)) + 1.0
        ranks[[i for i in range(len(secrets)) if i not in planted]] = 500_000.0
        ones = np.ones(len(secrets))
        return [
            Ranks(
                -np.log(ranks), ranks, ranks, ranks, 999_800.0 * ones, ranks, ones, math.nan * ones
            )
        ]
    if attack == "membership":
        span = np.array([s.kind == "code" for s in secrets])
        scores = run.shifted(secrets, 4 * leak)
        return [
            Scores("loss", "record", np.where(span, np.nan, scores), kind="record"),
            Scores("loss", "span", np.where(span, scores, np.nan), named=True, kind="code"),
        ]
    if attack == "name_leak":
        named = tuple((int(generator.choice(planted)),) if generator.random() < leak else ()
                      for _ in range(50))  # fmt: skip
        return [Mentions(named, (generator.random(50) < 0.3).astype(float))]
    nothing = np.zeros((0, 0))
    if not service:
        return [Divergences((), (), 2.0, nothing, nothing)]
    forth, back = (generator.uniform(0, 0.02, size=(2, QUERIES)) for _ in range(2))
    return [Divergences((0, 1), ("removed", "removed"), 2.0, forth, back)]


def promises() -> dict[str, Guarantee]:
    mechanism = Mechanism((Gaussians(2.0, 1),), "add_or_remove")
    return {
        "dp_sgd": Guarantee(
            epsilon(mechanism, DELTA), "user", "add_or_remove", "model", "worst case",
            "Gaussian noise", DELTA, conditions=("1 noised releases (σ = 2), not amplified",),
            accounting=to_table(mechanism, DELTA), population=90,
        ),
        "submix": Guarantee(
            2.0, "part", "removed", "predictions", "data-dependent", "SubMix", alpha=2.0
        ),
        "none": no_guarantee("no protection"),
    }  # fmt: skip


REFERENCES = ("none",)
LEAKS = {"dp_sgd": 0.05, "submix": 0.0, "none": 0.9}
PARAMETERS = {"dp_sgd": {"noise_multiplier": 2.0}, "submix": {"k": 2, "epsilon": 2.0}}


def plan(seed: int) -> dict[str, Any]:
    return {
        "defenses": [
            {
                "name": name,
                "parameters": PARAMETERS.get(name, {}),
                "reference": name in REFERENCES,
            }
            for name in LEAKS
        ],
        "attacks": [{"name": name, "parameters": {}} for name in KINDS],
        "corpus": {"name": "drawn", "sha256": "0" * 64},
        "planting": {"users": USERS},
        "seed": seed,
        "delta": DELTA,
        "references": True,
    }


def ledger_of(run: Drawn, purpose: str) -> list[dict[str, Any]]:
    """The rows of one session of SubMix; that of utility is stopped in the end."""
    rows = []
    for query in range(QUERIES):
        charge = [round(float(c), 6) for c in run.generator.uniform(0.02, 0.05, 2)]
        rows.append({"query": query, "asked": "ab", "charge": charge, "stopped": False})
    if purpose == "utility":
        rows.append({"query": QUERIES, "asked": "ab", "charge": [1.9, 0.1], "stopped": True})
    return rows


def release(run: Drawn, name: str, folder: Path, seed: int) -> Measured:
    guarantee, service = promises()[name], name == "submix"
    sessions, attacked, lines = [], [], []
    for purpose in ("utility", *KINDS):
        rows = ledger_of(run, purpose) if service else []
        lines += [{"session": f"{name}:k=2/{purpose}", "row": row} for row in rows]
        answered = QUERIES if service else 40
        sessions.append(
            SessionResult(
                purpose=purpose, queries=answered + 1, answered=answered,
                budget=1024 if service else None, remaining=1024 - answered if service else None,
                **of_ledger(rows, guarantee.epsilon),
            )
        )  # fmt: skip
        if purpose == "utility":
            continue
        case = Case(
            purpose, run.of(purpose), run.coins, DELTA, seed,
            Access.GENERATE if service else Access.DISTRIBUTION,
            tests=FAMILY.tests, claim_tests=FAMILY.claims, guarantee=guarantee,
            cut=True if service else None,  # a session has fewer answers than queries
            lost={"id": "2 of 15 planted id values were cut"} if service else {},
        )  # fmt: skip
        evidence = [to_json(e) for e in seen(run, purpose, LEAKS[name], service)]
        spent = charges(rows, answered) if purpose == "ledger" else None
        attacked.append(Attacked(case, evidence, spent, sessions[-1].budget))
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.writelines(json.dumps(line) + "\n" for line in lines)
    audited = SimpleNamespace(
        name=name,
        parameters=PARAMETERS.get(name, {}),
        reference=name in REFERENCES,
        role="positive control" if name in REFERENCES else "audited",
        release=SimpleNamespace(guarantee=guarantee),
        determined=(f"{name}:k=2" if service else name,),
        train_tokens=1000,
    )
    lengths = run.generator.integers(5, 60, 25)
    nats = 2.1 * lengths + run.generator.normal(size=25)
    ratio = Ratio("perplexity", nats.tolist(), lengths.tolist(), "perplexity", None, True)
    utility = measures([ratio], stream(seed, *evidence_file.UTILITY_STREAM))
    bleu = Measure(value=8.0, ci=(7.0, 9.0), n=30, method="by hand", unit="BLEU-4")
    return Measured(
        cast(Audited, audited),
        {name: one.model_copy(update={"share": 0.5}) for name, one in utility.items()}
        | {"bleu4": bleu},
        tuple(sessions),
        tuple(of_release(attacked, FAMILY)),
        tuple(attacked),
        ({"share": 0.5, "blocks": [asdict(ratio)]},),
        1.5,
        seed,
        FAMILY,
        Shows(dict.fromkeys(PLANTED, shown("trained by this tool", 15))),
    )


def write(folder: Path, seed: int = 3) -> None:
    """Writes a complete run folder, by the functions that a run writes it with."""
    run, document = drawn(seed), plan(seed)
    plan_hash = digest_of_json(document)
    measured = [release(run, name, folder, seed) for name in LEAKS]
    releases = tuple(one.evidence for one in measured)
    evidence_file.write(
        folder, EvidenceFile(plan_hash, "user", FAMILY, run.secrets, run.coins, releases)
    )
    results = pipeline.judged(measured, references=True)
    (folder / "samples.jsonl").write_text('{"session":"none/extraction","generation":0}\n')
    tossed = list(run.coins.present.values())
    pipeline.write(
        Results(
            status="complete",
            headline=headline(results),
            not_tested=["what was not run"],
            warnings=["what weakens it"],
            reproduce="audit run",
            plan={**document, "hash": plan_hash},
            environment={"audit": "1", "seconds": 2.0},
            corpus=CorpusResult(
                name="drawn", sha256="0" * 64, records=200, users=USERS + 30, near_duplicates=0,
                planted_users=USERS, invented_users=0, trained_users=sum(tossed) + 30,
                twins=tossed.count(False),
            ),
            releases=results,
        ),
        ("json",),
        folder,
        lambda label, share: None,
    )  # fmt: skip
    RunFolder(folder, plan_hash).mark("complete", document)


def write_sweep(folder: Path, seeds: Mapping[int, int] = MappingProxyType({3: 3, 4: 4})) -> None:
    """Writes a sweep of one setting over two seeds. seeds: of each planned one, that of its run."""
    runs = []
    for planned, seed in seeds.items():
        home = folder / "seeds" / str(planned)
        home.mkdir(parents=True)
        write(home, seed)
        runs.append(stored.load(home / "results.json"))
    common = {name: value for name, value in plan(3).items() if name != "seed"}
    document = {**common, "seeds": list(seeds), "sweep": {"defense": list(LEAKS)}}
    plan_hash = digest_of_json(document)
    hashes = [(seed, digest_of_json(plan(seed))) for seed in seeds.values()]
    (folder / "plan.toml").write_text("seeds = [3, 4]\n")
    results = together({**document, "hash": plan_hash}, "plan.toml", hashes, runs, 4.0)
    pipeline.write(results, ("json",), folder, lambda label, share: None)
    RunFolder(folder, plan_hash).mark("complete", document)
