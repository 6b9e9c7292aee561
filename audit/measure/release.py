"""Measures one release: its utility, and what every attack finds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from audit.core.evidence import Hits, Mentions, to_json
from audit.core.predictor import Access, Predictor
from audit.core.randomness import stream
from audit.core.secret import Secret
from audit.findings import Case, bets
from audit.findings.controls import leaks_in, sight_by
from audit.findings.rejections import Family
from audit.findings.shows import Shows, silence_over
from audit.findings.verdict import claim_overall, judge
from audit.measure import bleu, earlier_look, lots, perplexity, samples
from audit.measure.attacked import Attacked, look_at, of_release
from audit.measure.bench import Bench
from audit.measure.evidence_file import UTILITY_STREAM, OfRelease, Tosses, facts, of_attack
from audit.measure.knowledge import knowledge
from audit.measure.ratios import measures
from audit.measure.releases import Audited
from audit.measure.session import Look, Looked, Session
from audit.measure.spending import cut
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.results.joined import leaked_overall
from audit.results.measurement import FindingResult, Measurement
from audit.results.schema import (
    Cost,
    GuaranteeResult,
    Measure,
    ReleaseResult,
    SessionResult,
)

_UTILITY, _COMPLETION = ("audit.measure.perplexity",), ("audit.measure.bleu",)  # their modules


@dataclass(frozen=True)
class Measured:
    """All measurements of one release, before any verdict.

    shows: what it has shown by itself. tosses: of one look of several.
    """

    audited: Audited
    utility: dict[str, Measure]
    sessions: tuple[SessionResult, ...]
    measurements: tuple[Measurement, ...]
    attacked: tuple[Attacked, ...]
    blocks: tuple[dict[str, Any], ...]
    seconds: float
    seed: int
    family: Family
    shows: Shows = field(default_factory=Shows)
    tosses: Tosses | None = None

    @cached_property
    def leaks(self) -> tuple[FindingResult, ...]:
        """Its leaks, where it is a positive control."""
        guarantee = GuaranteeResult.of(self.audited.release.guarantee)
        return leaks_in(self.measurements, guarantee, self.family)

    @property
    def evidence(self) -> OfRelease:
        """Evidence that its findings follow from."""
        one = self.audited
        return OfRelease(
            defense=one.name,
            parameters=one.parameters,
            reference=one.reference,
            role=one.role,
            ledger=one.determined[0],
            guarantee=one.release.guarantee,
            sessions=tuple(map(facts, self.sessions)),
            utility=self.blocks,
            attacks=tuple(of_attack(seen, self.measurements) for seen in self.attacked),
            shows=self.shows,
            tosses=self.tosses,
        )

    def result(self, leaks: Sequence[FindingResult] | None) -> ReleaseResult:
        """Return the release as results.json shows it.

        leaks: of its positive controls; None without references.
        """
        one = self.audited
        guarantee = GuaranteeResult.of(one.release.guarantee)
        control = None if leaks is None else sight_by(leaks, self.measurements)
        findings = judge(self.measurements, guarantee, self.shows.beside(control), self.family)
        return ReleaseResult(
            defense=one.name,
            parameters=one.parameters,
            seed=self.seed,
            reference=one.reference,
            role=one.role,
            guarantee=guarantee,
            utility=self.utility,
            cost=Cost(
                train_tokens=one.train_tokens,
                queries=sum(session.queries for session in self.sessions),
                seconds=self.seconds,
            ),
            sessions=list(self.sessions),
            findings=findings,
            tests=self.family.tests,
            claim_tests=self.family.claims,
            leaked=leaked_overall(findings),
            claim=claim_overall(findings, guarantee),
            silence=silence_over(findings),
        )


def measure_release(bench: Bench, one: Audited) -> Measured:
    """Hold the sessions of a release and compute what every attack found in them."""
    run, began = bench.run, time.monotonic()
    utility, sessions, held, blocks = hold_sessions(bench, one)
    attacked = tuple(_attacked(run, one, *pair) for pair in held.items())
    before = earlier_look.crossed(run, one.name, one.reference)
    look = look_at(attacked, run.family, before)
    return Measured(
        one,
        utility,
        tuple(sessions),
        tuple(look.measurements),
        attacked,
        tuple(blocks),
        time.monotonic() - began,
        run.plan.seed,
        run.family,
        tosses=Tosses(before, look.crossed) if run.plan.looks > 1 else None,
    )


def _attacked(run: Run, one: Audited, chosen: Chosen, stored: dict[str, Any]) -> Attacked:
    """Join what is stored of an attack's session with the coins."""
    plan = run.plan
    case = Case(
        attack=chosen.label,
        secrets=run.secrets_for(chosen.plugin),
        coins=run.planted.coins,
        delta=plan.delta,
        seed=plan.seed,
        access=Access(stored["access"]),
        tainted=stored["seen"]["tainted"],
        tests=run.family.tests,
        claim_tests=run.family.claims,
        unit=plan.source.unit,
        lost=lost(run, one),
        guarantee=one.release.guarantee,
        cut=cut(stored["session"], one.release.guarantee.basis),
        reach=plan.reach,
        lots=run.family.lots,
    )
    charges = stored["charges"] if chosen.plugin.neighbours else None
    return Attacked(case, stored["seen"]["evidence"], charges, stored["session"]["budget"])


Blocks = list[dict[str, Any]]
Held = tuple[dict[str, Measure], list[SessionResult], dict[Chosen, dict[str, Any]], Blocks]


def hold_sessions(bench: Bench, one: Audited) -> Held:
    """Hold a release's sessions for its utility and one for each attack; load stored ones.

    Returns the utility, all sessions, by attack what is stored of its session, and the sums that
    the utility was measured by.
    """
    utility, sessions, blocks = _measured_utility(bench, one)
    sessions = [*([one.written] if one.written else []), *sessions]
    # references cost no requests, and show sight by the tests of all people
    in_lots = one.external and bench.run.plan.lots > 1
    attacked = _in_lots(bench, one) if in_lots else _at_once(bench, one)
    sessions += [SessionResult.model_validate(stored["session"]) for stored in attacked.values()]
    return utility, sessions, attacked, blocks


def _at_once(bench: Bench, one: Audited) -> dict[Chosen, dict[str, Any]]:
    attacks = bench.run.plan.attacks
    return {c: _held(bench, one, c, partial(_attack, bench, one, c)) for c in attacks}


def _in_lots(bench: Bench, one: Audited) -> dict[Chosen, dict[str, Any]]:
    """Ask about one lot of people after the other, until a leak is decided."""
    run, count = bench.run, bench.run.plan.lots
    held: dict[Chosen, dict[str, Any]] = {}
    for lot in range(count):
        for chosen in run.plan.attacks:
            look = partial(_attack_lot, bench, one, chosen, lot, held.get(chosen))
            held[chosen] = _held(bench, one, chosen, look, ["lot", lot + 1, count])
        attacked = [_attacked(run, one, *pair) for pair in held.items()]
        if lot + 1 < count and bets.decided(of_release(attacked, run.family)):
            break
    return held


def _held(bench: Bench, one: Audited, chosen: Chosen, look: Look, *more: Any) -> dict[str, Any]:
    """Load what one attack saw, or hold its session. more: of what determines it."""
    what, charged = [chosen.name, chosen.parameters, *more], chosen.plugin.neighbours
    code = (type(chosen.plugin).__module__,)
    return Session(bench, one, chosen.label, what, charged, code).stored(look)


def _measured_utility(
    bench: Bench, one: Audited
) -> tuple[dict[str, Measure], list[SessionResult], Blocks]:
    """Measure the utility of a model at its best step, and what is left of it at the end.

    An unprotected mixture is compared on the first texts only, and asked no more. Returns also the
    sums that it was measured by, session by session.
    """
    run, whole = bench.run, not one.bare
    short = [] if whole else ["first texts"]
    what = [run.plan.utility_tokens, run.plan.policy.digest]
    best, share = one.release.at_best_step() or (one.release, None)
    usable = replace(one, release=best)
    looks = [
        (
            Session(bench, usable, "utility", [*what, *short], code=_UTILITY),
            partial(_utility, run, whole),
            share,
        ),
        (
            Session(bench, usable, "completion", [*bleu.SETTINGS, *short], code=_COMPLETION),
            partial(_completion, run, whole),
            share,
        ),
    ]
    if share is not None:
        at_end = Session(bench, one, "utility at the end", [*what, "end"], code=_UTILITY)
        looks.append((at_end, partial(_utility, run, False, at_end=True), None))
    utility, sessions, blocks = {}, [], []
    for session, look, where in looks:
        stored = session.stored(look)
        sessions.append(SessionResult.model_validate(stored["session"]))
        seen = {"blocks": [], **stored["seen"]}
        blocks.append({"share": where, "blocks": seen.pop("blocks")})
        for name, m in seen.items():
            utility[name] = Measure.model_validate({**m, "share": where})
    return utility, sessions, blocks


def _utility(run: Run, whole: bool, predictor: Predictor, at_end: bool = False) -> Looked:
    tokens = run.plan.utility_tokens
    ratios, queries, answered = perplexity.read(predictor, run.heldout, tokens, whole)
    if at_end:
        ratios = [replace(ratios[0], name="perplexity_at_end")]
    utility = _dumped(measures(ratios, stream(run.plan.seed, *UTILITY_STREAM)))
    return Looked({**utility, "blocks": list(map(asdict, ratios))}, queries, answered)


def _completion(run: Run, whole: bool, predictor: Predictor) -> Looked:
    plan = run.plan
    texts = [record.text for record in plan.corpus.of("heldout")]
    draws = stream(plan.seed, "completion", "bootstrap")
    utility, queries, answered = bleu.measure(predictor, texts, draws, whole)
    return Looked(_dumped(utility), queries, answered)


def _dumped(utility: dict[str, Measure]) -> dict[str, Any]:
    return {name: measure.model_dump(mode="json") for name, measure in utility.items()}


def _attack(bench: Bench, one: Audited, chosen: Chosen, predictor: Predictor) -> Looked:
    """Collect evidence about all secrets that an attack targets."""
    return _attack_on(bench.run.secrets_for(chosen.plugin), bench, one, chosen, predictor)


def _attack_on(
    secrets: Sequence[Secret], bench: Bench, one: Audited, chosen: Chosen, predictor: Predictor
) -> Looked:
    """Collect evidence without any text; generations go to samples.jsonl, masked."""
    run, counted = bench.run, samples.Counted(predictor)
    name = f"{one.label}/{chosen.label}"
    evidence = chosen.plugin.run(counted, secrets, knowledge(run, one, chosen, name))
    texts = [t for e in evidence if isinstance(e, (Hits, Mentions)) for t in e.texts]
    samples.write(bench.folder, name, texts, bench.reveal)
    seen = {"evidence": list(map(to_json, evidence)), "tainted": counted.generated_after_reading}
    return Looked(seen, counted.queries, counted.answered)


def _attack_lot(
    bench: Bench,
    one: Audited,
    chosen: Chosen,
    lot: int,
    earlier: dict[str, Any] | None,
    predictor: Predictor,
) -> Looked:
    """Attack the people up to a lot, and add those of the lot to what was seen of earlier ones.

    What was asked before is asked again, and answered by an endpoint's stored answers.
    """
    run = bench.run
    secrets, owners = run.secrets_for(chosen.plugin), run.planted.coins
    dealt = lots.of_secrets(secrets, owners, run.plan.lots, run.plan.seed)
    asked = [secrets[i] for i in lots.places(dealt, lot)]
    looked = _attack_on(asked, bench, one, chosen, predictor)
    before = [] if earlier is None else earlier["seen"]["evidence"]
    joined = lots.joined(before, looked.seen["evidence"], dealt, lot)
    return looked._replace(seen={**looked.seen, "evidence": joined})


def lost(run: Run, one: Audited) -> dict[str, str]:
    """Return by kind what may never have reached a model: in training, or from its prompt."""
    kinds = dict.fromkeys(secret.kind for secret in run.planted.secrets)
    if one.release.unheard:
        return dict.fromkeys(kinds, one.release.unheard)
    return run.plan.source.lost(run.coverage, kinds) if one.external else {}
