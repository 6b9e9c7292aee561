"""Lists what a reader must know beside the figures: what was not tested, what weakens them."""

from __future__ import annotations

from collections.abc import Sequence

from audit import policies
from audit.core.policy import Policy
from audit.core.secret import OWN, Secret
from audit.core.spans import merged
from audit.findings import bets
from audit.findings.controls import is_served
from audit.findings.headline import NULL_LEAKS
from audit.findings.loose_delta import loose_delta
from audit.findings.verdict import leaks
from audit.plan import choices
from audit.plan.plan import Plan
from audit.plan.text import Text
from audit.plugins import registry
from audit.prepare.run import Run
from audit.results.badge import CLOSES, FOREIGN, NOT_RUN
from audit.results.labels import ELSEWHERE
from audit.results.schema import ReleaseResult
from audit.results.words import quantity, share
from audit.run import group_text, unknown_text
from audit.silence import serving, weights


def not_tested(plan: Plan) -> list[str]:
    """List what no finding of the run is about."""
    run = {chosen.name for chosen in plan.attacks}
    fitting = choices.fitting(plan.text is not None, plan.source.kinds)
    left_out = [name for name in fitting if name not in run]
    foreign = [name for name in registry.names("attacks") if name not in {*run, *fitting}]
    stops = any(getattr(chosen.plugin, "budget", None) for chosen in plan.defenses)
    return [
        *([f"{NOT_RUN}{', '.join(left_out)}"] if left_out else []),
        *(
            ["what an attacker learns from the moment at which a release stops answering"]
            if stops
            else []
        ),
        "secrets other than the planted kinds, and attackers stronger than these attacks",
        "a release that knows planted text by more than its words, such as repeated numbers, new "
        "users or a seed that its author had",
        "differences between seeds: one seed was run, which does not rank defenses",
        *(weights.UNSEEN if plan.source.model and not plan.source.served else ()),
        *(serving.UNSEEN if plan.source.served else ()),
        *([f"{FOREIGN}{', '.join(foreign)}"] if foreign else []),
    ]


def warnings(run: Run, releases: Sequence[ReleaseResult]) -> list[str]:
    """List what weakens the results or must be known to use them."""
    general = _warnings(run, releases)
    unseen = run.plan.source.limitations(run.coverage, run.plan.corpus)
    return [*general, *unseen, *_served(releases), *_missed(run), *_remedy(run, releases)]


def _remedy(run: Run, releases: Sequence[ReleaseResult]) -> list[str]:
    """State the command that trains what may close a leak of a model trained elsewhere."""
    leaking = any(r.defense == ELSEWHERE and any(map(leaks, r.findings)) for r in releases)
    if not leaking or not run.plan.remedy:
        return []
    return [f"{CLOSES}{run.plan.remedy}"]


def _warnings(run: Run, releases: Sequence[ReleaseResult]) -> list[str]:
    plan, alike = run.plan, run.near_duplicates
    lines = [
        "choosing hyperparameters, checkpoints or β on private data is not counted in ε",
        "several defended models of one corpus compose: released together, ε of one unit and "
        "relation add up",
    ]
    if alike:
        lines.append(
            f"{alike} of {len(plan.corpus.records)} records repeat another "
            "up to case, digits and punctuation: protection per record is weaker for them"
        )
    size = plan.source.size(plan.corpus)
    for release in releases:
        loose = loose_delta(release.guarantee, size["users"], size["records"])
        lines += [f"{release.defense}: {loose}"] if loose else []
        lines += [*_overfit(release), *_fewer(release, plan.text), *_stopped(release, plan.lots)]
        if release.role == "null control" and any(leaks(f) for f in release.findings):
            lines.append(f"the null control leaks: {NULL_LEAKS}")
    if plan.text:
        lines.append(
            "only texts are released: what is said of perplexity, exposure, extraction, membership "
            "and names is of a model that was trained on them, which whoever has the texts can do; "
            "a reader who learns more from them is not excluded"
        )
    lines += [*unknown_text.lines(run, releases), *group_text.lines(run, releases)]
    lines += [*_set_aside(run), *_redrawn(run)]
    if plan.model.precision:
        lines.append(
            f"the model's weights are stored in {plan.model.precision} and were unpacked to "
            "float32; a program that computes with packed weights rounds its answers otherwise"
        )
    if not plan.references:
        lines.append(
            "no references were run: finding no leak is conclusive only where a spiked copy or "
            "beacons were seen"
        )
    return lines


def _set_aside(run: Run) -> list[str]:
    """State of which model the figures of real users are."""
    own = {secret.owner for secret in run.planted.secrets if secret.kind == OWN}
    aside = sum(not run.planted.coins.present[owner] for owner in own)
    if not own:
        return []
    return [
        f"what is found of {len(own)} real users with coins is of the model trained without the "
        f"{aside} users set aside; a model trained again on all is another release"
    ]


def _redrawn(run: Run) -> list[str]:
    """Warn of models whose noise was drawn several times: each that is released counts."""
    return [
        f"{chosen.label}: noise was drawn for {task.draws} models, because the weights of earlier "
        "ones were removed; ε is of one: if another was released, too, their ε add up"
        for chosen, tasks in run.tasks.items()
        for task in tasks
        if task.draws > 1
    ]


def _overfit(release: ReleaseResult) -> list[str]:
    best, end = release.utility.get("perplexity"), release.utility.get("perplexity_at_end")
    if best is None or end is None or best.share is None:
        return []
    return [
        f"{release.defense} overfits: held-out perplexity {quantity(best.value, best.unit)} after "
        f"{share(best.share)} of its training, {quantity(end.value, end.unit)} at the end; its "
        "utility is that of the first, its leaks those of the last"
    ]


def _stopped(release: ReleaseResult, lots: int) -> list[str]:
    """State of which people the figures are where no more were asked about after a leak."""
    if not bets.stopped(release.findings, lots):
        return []
    own = list(filter(bets.is_bet, release.findings))
    return [
        f"{release.defense}: a leak was decided after lot {bets.asked(own)} of {lots}, so all "
        f"figures are of {max(bet.n for bet in own)} people, whose number followed from their "
        "coins: they overstate the leak, and intervals are those of a fixed number; no ε is shown "
        "and no claim of an ε is tested; ask about all people for these"
    ]


def _fewer(release: ReleaseResult, text: Text | None) -> list[str]:
    """State where a service wrote fewer texts than the references, or not all of them by itself."""
    lines = []
    for session in (s for s in release.sessions if text and s.purpose == "text"):
        assert text is not None
        written = session.queries // text.tokens
        if written < text.texts:
            lines.append(
                f"{release.defense}: its budget lasts for {written:,} of {text.texts:,} texts, and "
                "the undefended model wrote all of these: it may be silent only for writing less"
            )
        if session.answered < session.queries:
            lines.append(
                f"{release.defense}: the public model wrote {session.queries - session.answered:,} "
                f"of the {session.queries:,} tokens of its texts, in which nothing can leak"
            )
    return lines


def _served(releases: Sequence[ReleaseResult]) -> list[str]:
    """List what an endpoint hides, and what could therefore not be measured."""
    lines = []
    for release in releases:
        if not is_served(release.parameters):
            continue
        name = release.parameters["served"]
        lines.append(
            f"{name}: its weights were not seen, and may change between queries; its hash is of "
            "what the server says of itself"
        )
        unread = [f for f in release.findings if f.access == "score" and f.stronger_than_release]
        lines.append(
            f"{name}: the endpoint gives no log-probabilities of a prompt: only generations were "
            "attacked, and neither perplexity, exposure nor membership was measured"
            if unread
            else f"{name}: the endpoint gives top-n log-probabilities only, which are no "
            "distribution: exact ranks of exposure, searched codes and Min-K%++ were not measured"
        )
        queries = sum(session.queries for session in release.sessions)
        answered = sum(session.answered for session in release.sessions)
        if answered < queries:
            lines.append(
                f"{name}: {queries - answered:,} of {queries:,} tokens were not requested: the "
                "endpoint takes text or conversations, and would read those prompts as other tokens"
            )
    return list(dict.fromkeys(lines))


def _missed(run: Run) -> list[str]:
    """Count planted values that the policy leaves unmarked, where the run relies on the policy."""
    policy = run.plan.policy
    relied = any(task.training.private for task in run.trainings)
    if not relied and policy == policies.named("digits"):
        return []
    planted = [s for s in run.planted.secrets if run.planted.coins.planted(s)]
    lines = []
    for kind in dict.fromkeys(s.kind for s in planted if s.kind not in ("record", OWN)):
        values = [s for s in planted if s.kind == kind]
        missed = sum(not _marked(s, policy) for s in values)
        if missed:
            lines.append(
                f"policy {policy.label}: {missed} of {len(values)} planted {kind} values are not "
                "marked in full: a defense that protects marked text treats them as public, and "
                "its guarantee does not cover them"
            )
    return lines


def _marked(secret: Secret, policy: Policy) -> bool:
    """Return whether every character of the value is private."""
    low, high = len(secret.prefix), len(secret.prefix) + len(secret.value)
    return any(a <= low and high <= b for a, b in merged(policy(secret.text)))
