"""The command that runs a plan again."""

from __future__ import annotations

from audit.plan.defaults import make_plan, plan_of
from audit.plan.plan import Plan

_TABLES = ("planting", "training", "utility_tokens", "threads")


def reproduce(plan: Plan) -> str:
    """The command that runs this plan again, with names in place of paths."""
    words = ["audit run"]
    words += [f"--defense {c.label}" for c in plan.defenses if not c.reference]
    words += [f"--attack {c.label}" for c in plan.attacks]
    words += _sources(plan)
    defaults = _defaults(plan)
    words += [
        f"--{name} {getattr(plan, name)}"
        for name in ("delta", "device")
        if getattr(plan, name) != getattr(defaults, name)
    ]
    if plan.policy != defaults.policy:
        words.append(f"--policy {plan.policy.label}")
    if any(getattr(plan, name) != getattr(defaults, name) for name in _TABLES):
        words.append("--plan PLAN.toml")  # planting, training …: as `plan` in results.json
    words.append(f"--seed {plan.seed}")
    if not plan.references:
        words.append("--no-references")
    return " ".join(words)


def _sources(plan: Plan) -> list[str]:
    """Corpus, model and manifest, by name."""
    words = []
    if plan.corpus.records and not plan.corpus.embedded:
        words.append(f"--corpus {plan.corpus.name}")
    if plan.finished:
        words.append(f"--model {plan.finished['name']} --secrets MANIFEST.json")
    elif not plan.model.embedded:
        words.append(f"--model {plan.model.name}")
    return words


def _defaults(plan: Plan) -> Plan:
    """What the plan would be had nothing been asked for."""
    settings = {"defense": ["none"], "attack": ["extraction"]}
    if plan.manifest is None:
        return make_plan(settings, plan.corpus, plan.model)
    users = plan.manifest.population.users
    return plan_of(settings, plan.corpus, plan.model, users, (), None)
