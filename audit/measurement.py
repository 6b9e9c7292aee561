"""All that is measured on one release: its utility, and what every attack finds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from audit import policies, samples
from audit.assembly import Audited
from audit.attack import Attack, Evidence, Hits, Likelihoods
from audit.findings import Finding, findings_of, tests_of
from audit.folder import RunFolder
from audit.predictor import Access, Predictor
from audit.preparation import Prepared
from audit.results import Cost, GuaranteeResult, Measure, ReleaseResult, SessionResult
from audit.secrets import Secret
from audit.session import Session
from audit.streams import stream
from audit.utility import measure
from audit.verdict import judge


@dataclass(frozen=True)
class Measured:
    """All measurements of one release, before any verdict."""

    audited: Audited
    utility: dict[str, Measure]
    sessions: tuple[SessionResult, ...]
    findings: tuple[Finding, ...]
    seconds: float
    seed: int

    def result(self, sensitive: dict[tuple[str, str], bool], references: bool) -> ReleaseResult:
        """The release as results.json shows it."""
        one = self.audited
        guarantee = one.release.guarantee
        fields = GuaranteeResult.model_fields
        return ReleaseResult(
            defense=one.name,
            parameters=one.parameters,
            seed=self.seed,
            reference=one.reference,
            role=one.role,
            guarantee=GuaranteeResult(**{f: getattr(guarantee, f) for f in fields}),
            utility=self.utility,
            cost=Cost(
                train_tokens=one.train_tokens,
                queries=sum(session.queries for session in self.sessions),
                seconds=self.seconds,
            ),
            sessions=list(self.sessions),
            findings=judge(self.findings, guarantee, sensitive if references else None),
        )


def measure_release(prepared: Prepared, one: Audited, folder: RunFolder, reveal: bool) -> Measured:
    """Opens one session for the utility and one for each attack."""
    plan = prepared.plan
    began = time.monotonic()
    session = Session(prepared, one, folder, "utility", [plan.utility_tokens, plan.policy])
    stored = session.stored(lambda predictor: _utility(prepared, predictor))
    utility = {name: Measure.model_validate(m) for name, m in stored["seen"].items()}
    sessions = [SessionResult.model_validate(stored["session"])]
    findings: list[Finding] = []
    for chosen in plan.attacks:
        session = Session(prepared, one, folder, chosen.label, [chosen.name, chosen.parameters])
        secrets = prepared.secrets_for(chosen.plugin)
        looked = partial(_attack, chosen.plugin, secrets, folder, session.name, reveal)
        stored = session.stored(looked)
        sessions.append(SessionResult.model_validate(stored["session"]))
        findings += findings_of(
            chosen.label,
            _evidence(stored["seen"]),
            secrets,
            prepared.planted.coins,
            plan.delta,
            plan.seed,
            stronger=stored["access"] < Access.SCORE,
            tests=tests_of(plan.attacks),
        )
    seconds = time.monotonic() - began
    return Measured(one, utility, tuple(sessions), tuple(findings), seconds, plan.seed)


def _utility(prepared: Prepared, predictor: Predictor) -> tuple[dict[str, Any], int, int]:
    plan = prepared.plan
    utility, queries, answered = measure(
        predictor,
        prepared.text,
        plan.utility_tokens,
        policies.named(plan.policy),
        stream(plan.seed, "utility", "bootstrap"),
    )
    return {n: m.model_dump(mode="json") for n, m in utility.items()}, queries, answered


def _attack(
    attack: Attack,
    secrets: Sequence[Secret],
    folder: RunFolder,
    name: str,
    reveal: bool,
    predictor: Predictor,
) -> tuple[dict[str, Any], int, int]:
    """Evidence without any text: generations go to samples.jsonl, masked."""
    counted = samples.Counted(predictor)
    evidence = attack.run(counted, secrets)
    if evidence.hits is not None:
        samples.write(folder, name, evidence.hits.texts, reveal)
    seen: dict[str, Any] = {"hits": None, "likelihoods": None}
    if evidence.hits is not None:
        found = [int(i) for i in evidence.hits.found]
        stronger = counted.generated_after_reading
        seen["hits"] = {"found": found, "repeats": evidence.hits.repeats, "stronger": stronger}
    if evidence.likelihoods is not None:
        log_probs = [float(x) for x in evidence.likelihoods.log_probs]
        seen["likelihoods"] = [None if x != x else x for x in log_probs]
    return seen, counted.queries, counted.answered


def _evidence(seen: dict[str, Any]) -> Evidence:
    import numpy as np

    hits, likelihoods = seen["hits"], seen["likelihoods"]
    return Evidence(
        hits=None
        if hits is None
        else Hits(
            np.array(hits["found"], dtype=int), tuple(hits["repeats"]), stronger=hits["stronger"]
        ),
        likelihoods=None
        if likelihoods is None
        else Likelihoods(np.array([np.nan if x is None else x for x in likelihoods])),
    )
