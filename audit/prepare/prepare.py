"""Prepares a plan: plants secrets, marks private spans and lists every training; loads no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.evidence import Scores
from audit.core.heldout import heldout
from audit.core.model import TextTokenizer
from audit.core.policy import Policy
from audit.core.predictor import Access, continuation
from audit.core.randomness import derived_seed
from audit.core.secret import CODE_LIKE, Planted
from audit.core.spans import Span
from audit.core.training import Training
from audit.models.loading import load_tokenizer
from audit.plan.plan import Chosen, Plan
from audit.planting.coins import tosses
from audit.planting.planting import trained_on
from audit.prepare.run import Run
from audit.train.task import Task


def prepare(plan: Plan, stages: Path) -> Run:
    """Plant secrets and list the trainings of every defense, and write nothing.

    Raises UsageError.
    """
    tokenizer = load_tokenizer(plan.model)
    tokenizer.read([record.text for record in plan.corpus.records])
    texts = [record.text for record in plan.corpus.of("heldout")]
    text = heldout(texts, tokenizer, plan.model.max_length - 1, plan.policy)
    planted = plan.source.plant(plan.corpus, plan.seed, lambda text: len(tokenizer.encode(text)))
    _check_secrets(plan, planted, tokenizer)
    _check_lots(plan, planted)
    wanted = max(chosen.plugin.shadows for chosen in plan.attacks)
    coins = tosses(planted.coins, plan.source.shadows(wanted), plan.seed)
    seeds = [derived_seed(plan.seed, "shadows", j) for j in range(len(coins))]
    shadow_corpora = [trained_on(plan.corpus, planted.secrets, of_one) for of_one in coins]
    corpus, *shadow_corpora = marked([planted.corpus, *shadow_corpora], plan.policy)
    return Run(
        plan,
        planted,
        corpus,
        tokenizer,
        heldout=text,
        tasks={c: _tasks(plan, c, corpus, plan.seed, stages) for c in plan.defenses},
        shadow_coins=coins,
        shadow_tasks={
            c: tuple(
                _tasks(plan, c, of_one, seed, stages)
                for seed, of_one in zip(seeds, shadow_corpora, strict=True)
            )
            for c in plan.defenses
        },
        coverage=plan.source.coverage(planted, tokenizer, plan.model.max_length),
    )


def _check_secrets(plan: Plan, planted: Planted, tokenizer: TextTokenizer) -> None:
    """Raise UsageError for a secret that no tokens express, or an attack without secrets.

    Also for a drawn one that a training here would cut in two, so that it could not leak.
    """
    longest = plan.training.max_length
    _check_vocabulary(plan, planted, tokenizer)
    for secret in planted.secrets:
        if secret.kind in ("id", *CODE_LIKE):
            continuation(tokenizer, secret.prefix, secret.value)
        if secret.space is None or plan.source.model:
            continue
        length = tokenizer.predicted(secret.text)
        if length > longest:
            raise UsageError(
                f"a planted {secret.kind} and its words have {length} tokens, but training cuts at "
                f"{longest}; shorten --template {secret.kind} or raise training.max_length"
            )
    for chosen in plan.attacks:
        if not any(secret.kind in chosen.plugin.kinds for secret in planted.secrets):
            kinds = ", ".join(chosen.plugin.kinds)
            remedy = "plant it with --kind" if plan.source.model else "add it to planting.kinds"
            raise UsageError(f"{chosen.label} targets {kinds}; {remedy}")


def _check_lots(plan: Plan, planted: Planted) -> None:
    """Raise UsageError where people cannot be asked about in lots: for few, or without scores."""
    people = len(planted.coins.present)
    if plan.lots == 1:
        return
    if people < 2 * plan.lots:
        raise UsageError(
            f"--until decided: asks about people in {plan.lots} lots, and {people} have coins; "
            f"plant {2 * plan.lots} or more, or leave it out"
        )
    for chosen in plan.attacks:
        secrets = [s for s in planted.secrets if s.kind in chosen.plugin.kinds]
        shape = chosen.plugin.shape(secrets, plan.source.base_known)
        if not all(isinstance(one, Scores) and one.access >= Access.SCORE for one in shape):
            raise UsageError(
                f"--until decided: bets on scores that are read of each person, and {chosen.label} "
                "has other evidence; choose membership, or leave it out"
            )


def _check_vocabulary(plan: Plan, planted: Planted, tokenizer: TextTokenizer) -> None:
    """Raise UsageError where the tokenizer gives tokens that the model has no embedding of."""
    size = plan.model.vocabulary
    largest = max((max(tokenizer.encode(s.text)) for s in planted.secrets), default=0)
    if size and largest >= size:
        raise UsageError(
            f"{plan.model.path}: the tokenizer gives token {largest} for planted text, but the "
            f"model has {size} tokens; resize its embedding, or give the tokenizer of its training"
        )


def marked(corpora: Sequence[Corpus], policy: Policy) -> list[Corpus]:
    """Mark the private spans of private records; the policy reads each distinct text once."""
    texts = list(dict.fromkeys(r.text for corpus in corpora for r in corpus.of("private")))
    spans = dict(zip(texts, map(tuple, policy.many(texts)), strict=True))
    return [
        replace(
            corpus,
            records=tuple(
                replace(r, private=spans[r.text]) if r.split == "private" else r
                for r in corpus.records
            ),
        )
        for corpus in corpora
    ]


def _tasks(plan: Plan, chosen: Chosen, corpus: Corpus, seed: int, stages: Path) -> tuple[Task, ...]:
    trainings = chosen.plugin.trainings(corpus, plan.model, plan.training, seed)
    if plan.training.assistant_only:
        learned = {record.text: record.learned for record in corpus.of("private")}
        trainings = [learning(training, learned, chosen.label) for training in trainings]
    return tuple(Task(t, plan.model, plan.device, plan.threads, stages) for t in trainings)


def learning(training: Training, learned: Mapping[str, tuple[Span, ...]], label: str) -> Training:
    """Return a training that learns only these spans of its texts, and so do those before it.

    Raises UsageError for one that would learn all of a text, naming its defense.
    """
    known = training.method.partial and all(text in learned for text in training.texts)
    if training.texts and not known:
        raise UsageError(
            f"{label}: cannot learn the assistant's turns alone; leave training.assistant_only "
            "out, or this defense"
        )
    return replace(
        training,
        learned=tuple(learned[text] for text in training.texts),
        after=training.after and learning(training.after, learned, label),
        teachers=tuple(learning(teacher, learned, label) for teacher in training.teachers),
    )
