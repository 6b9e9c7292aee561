"""What a reader must know beside the figures: what was not tested, and what weakens them."""

from __future__ import annotations

from collections.abc import Sequence

from audit import policies
from audit.core.policy import Policy
from audit.core.secret import Secret
from audit.core.spans import merged
from audit.findings.verdict import leaks
from audit.plan import elsewhere
from audit.plan.plan import Plan
from audit.plugins import registry
from audit.results.schema import ReleaseResult
from audit.train.prepare import Prepared


def not_tested(plan: Plan) -> list[str]:
    """What no finding of the run speaks about."""
    asked = {chosen.name for chosen in plan.attacks}
    others = [name for name in registry.names("attacks") if name not in asked]
    lines = [f"the attacks that were not asked for: {', '.join(others)}"] if others else []
    return [
        *lines,
        "what an attacker learns from when a release stops answering",
        "secrets other than the planted kinds, and attackers stronger than these attacks",
        "differences between seeds: this is one seed, and defenses are not ranked on it",
    ]


def warnings(prepared: Prepared, releases: Sequence[ReleaseResult]) -> list[str]:
    """What a reader of the results must be warned of."""
    general = _warnings(prepared, releases)
    return [*general, *_elsewhere(prepared), *_served(releases), *_missed(prepared)]


def _warnings(prepared: Prepared, releases: Sequence[ReleaseResult]) -> list[str]:
    plan, alike = prepared.plan, prepared.near_duplicates
    lines = [
        "choosing hyperparameters, checkpoints or β on private data is not in ε",
        "several defended models of one corpus compose: their ε add up when released together",
    ]
    if alike:
        lines.append(
            f"{alike} of {len(plan.corpus.records)} records repeat another "
            "up to case, digits and punctuation: protection per record is weaker for them"
        )
    for release in releases:
        claimed = release.guarantee
        population = claimed.population
        if population and claimed.delta is not None and claimed.delta * population >= 1:
            lines.append(
                f"{release.defense}: δ = {claimed.delta:.3g} is not below 1/N (N = {population}): "
                "such a promise allows to publish somebody whole"
            )
        if release.role == "null control" and any(leaks(f) for f in release.findings):
            lines.append("the null control leaks: the public model has seen planted text")
    if not plan.references:
        lines.append("no references were run: no silence is conclusive")
    return lines


def _elsewhere(prepared: Prepared) -> list[str]:
    """What is to be known of a training that was not seen."""
    plan = prepared.plan
    if plan.manifest is None:
        return []
    lines = [f"{reach.sentence}" for reach in prepared.reaches]
    if not any(c.plugin.training for c in plan.defenses if c.plugin.finished):
        lines.append(
            "whether the canaries reached the training is not known, so silence shows nothing: "
            "say what was trained on with as_is:training=FILE"
        )
    if not plan.base_known:
        lines.append(
            "no base was named: twins are the only null, and nothing is a positive control"
        )
    if elsewhere.differs(plan.manifest, plan.corpus):
        lines.append(
            "the corpus is not, text for text, the one that the canaries were planted into"
        )
    return lines


def _served(releases: Sequence[ReleaseResult]) -> list[str]:
    """What an endpoint hides, and what could therefore not be measured."""
    lines = []
    for release in releases:
        if "served_sha256" not in release.parameters:
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
    return list(dict.fromkeys(lines))


def _missed(prepared: Prepared) -> list[str]:
    """Which planted values the policy leaves unmarked, where a defense or the plan relies on it."""
    policy = prepared.plan.policy
    relied = any(task.training.private for task in prepared.trainings)
    if not relied and policy == policies.named("digits"):
        return []
    planted = [s for s in prepared.planted.secrets if prepared.planted.coins.planted(s)]
    lines = []
    for kind in dict.fromkeys(s.kind for s in planted if s.kind != "record"):
        values = [s for s in planted if s.kind == kind]
        missed = sum(not _marked(s, policy) for s in values)
        if missed:
            lines.append(
                f"policy {policy.label}: {missed} of {len(values)} planted {kind} values are not "
                "marked in full: to a defense that protects what is marked they are public, and "
                "their leaking is outside its guarantee"
            )
    return lines


def _marked(secret: Secret, policy: Policy) -> bool:
    """Whether every character of the value is private."""
    low, high = len(secret.prefix), len(secret.prefix) + len(secret.value)
    return any(a <= low and high <= b for a, b in merged(policy(secret.text)))
