"""Prepares a plan: plants secrets, marks private spans and lists every training; loads no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from audit.canaries import shadows
from audit.canaries.coverage import Coverage
from audit.canaries.planting import trained_on
from audit.core.attack import Attack
from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.heldout import Heldout, heldout
from audit.core.model import TextTokenizer
from audit.core.policy import Policy
from audit.core.predictor import continuation, token_mask
from audit.core.secret import CODE_LIKE, Coins, Planted, Secret
from audit.core.spans import Span
from audit.core.training import Training
from audit.models.loading import load_tokenizer
from audit.plan.plan import Chosen, Plan
from audit.train.publication import Publication
from audit.train.task import Task


@dataclass(frozen=True)
class Prepared:
    """A plan with everything that its trainings read.

    corpus: what every defense reads: with secrets planted and private spans marked by the policy.
    heldout: the held-out text. tasks: the trainings of each defense, in the order it lists them.
    shadow_coins: the coins of each shadow model. shadow_tasks: for each defense and shadow model,
        the trainings.
    coverage: how much of each kind of planted secret reached an external training, if known.
    published: what is published of each release by its label, where only texts are released and
        they are written already.
    """

    plan: Plan
    planted: Planted
    corpus: Corpus
    tokenizer: TextTokenizer
    heldout: Heldout
    tasks: dict[Chosen, tuple[Task, ...]]
    shadow_coins: tuple[Coins, ...]
    shadow_tasks: dict[Chosen, tuple[tuple[Task, ...], ...]]
    coverage: tuple[Coverage, ...] = ()
    published: Mapping[str, Publication] = field(default_factory=dict)

    @cached_property
    def near_duplicates(self) -> int:
        """Counts records that repeat another, planted ones aside."""
        source = self.plan.source
        return source.without_canaries(self.planted, self.plan.corpus).near_duplicates

    @property
    def tests(self) -> int:
        """The largest number of tests that leaks of a release are adjusted for."""
        every = (c.plugin.tests(self.secrets_for(c.plugin)) for c in self.plan.attacks)
        return sum(map(int, every)) - self._not_made

    @property
    def claim_tests(self) -> int:
        """The largest number of tests that refuting a claim is adjusted for."""
        every = (c.plugin.claim_tests(self.secrets_for(c.plugin)) for c in self.plan.attacks)
        return sum(map(int, every)) - self._not_made

    @property
    def _not_made(self) -> int:
        """Counts the tests that need the public model, where it is unknown."""
        if self.plan.source.base_known:
            return 0
        return sum(c.plugin.public_tests(self.secrets_for(c.plugin)) for c in self.plan.attacks)

    @cached_property
    def private_share(self) -> float:
        """The share of training tokens that the policy marks as private."""
        marks = [
            mark
            for record in self.corpus.of("private")
            for mark in token_mask(self.tokenizer.ends(record.text), record.private)
        ]
        return sum(marks) / max(1, len(marks))

    @property
    def trainings(self) -> list[Task]:
        """Every training of the run, without those that these build on."""
        own = [task for tasks in self.tasks.values() for task in tasks]
        return own + [t for sets in self.shadow_tasks.values() for tasks in sets for t in tasks]

    @property
    def wanted(self) -> list[Task]:
        """Every training and all that it builds on; one that several want comes several times."""
        every = (t for task in self.trainings for t in (task, *task.all_earlier))
        return [task for task in every if not task.idle]

    def mixes(self, chosen: Chosen) -> bool:
        """Whether the unprotected mixture of a defense's models is to be attacked beside it.

        Some defenses of several models have none; that shows when they are assembled.
        """
        return len(self.tasks[chosen]) > 1 and self.plan.references

    def secrets_for(self, attack: Attack) -> tuple[Secret, ...]:
        """Selects the secrets of the kinds that the attack targets."""
        return tuple(s for s in self.planted.secrets if s.kind in attack.kinds)

    def train_tokens(self, chosen: Chosen) -> int:
        """Counts the tokens that the trainings of a defense predict, over all epochs."""
        return round(sum(self._all_tokens(task.training) for task in self.tasks[chosen]))

    def _all_tokens(self, training: Training) -> float:
        return self.tokens(training) + sum(map(self._all_tokens, training.earlier))

    def tokens(self, training: Training) -> float:
        """Counts the tokens that one training predicts, over all epochs."""
        return sum(map(self.tokenizer.predicted, training.texts)) * training.method.passes


def prepare(plan: Plan, stages: Path) -> Prepared:
    """Plants secrets and lists the trainings of every defense, and writes nothing.

    Raises UsageError.
    """
    tokenizer = load_tokenizer(plan.model)
    tokenizer.read([record.text for record in plan.corpus.records])
    planted = plan.source.plant(plan.corpus, plan.seed, lambda text: len(tokenizer.encode(text)))
    _check_secrets(plan, planted, tokenizer)
    wanted = max(chosen.plugin.shadows for chosen in plan.attacks)
    coins = shadows.tosses(planted.coins, plan.source.shadows(wanted), plan.seed)
    texts = [record.text for record in plan.corpus.of("heldout")]
    text = heldout(texts, tokenizer, plan.model.max_length - 1, plan.policy)
    shadow_corpora = [trained_on(plan.corpus, planted.secrets, of_one) for of_one in coins]
    corpus, *shadow_corpora = marked([planted.corpus, *shadow_corpora], plan.policy)
    seeds = [seed for seed, _ in shadows.seeded(coins, plan.seed)]
    return Prepared(
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
    """Raises UsageError for a secret that no tokens express, or an attack without secrets.

    Also for a drawn one that a training here would cut in two, so that it could not leak.
    """
    longest = plan.training.max_length
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
            raise UsageError(f"{chosen.label} targets {kinds}; add it to planting.kinds")


def marked(corpora: Sequence[Corpus], policy: Policy) -> list[Corpus]:
    """Marks the private spans of private records; the policy reads each distinct text once."""
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
    """Gives a training that learns only these spans of its texts, and so do those before it.

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
