"""A run: a plan with everything that its trainings read, its secrets and their coins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from audit.core.attack import Attack
from audit.core.corpus import Corpus, Record
from audit.core.heldout import Heldout
from audit.core.model import TextTokenizer
from audit.core.predictor import token_mask
from audit.core.secret import OWN, Coins, Planted, Secret
from audit.core.training import Training
from audit.findings import family_of
from audit.findings.rejections import NONE, Family
from audit.plan.plan import Chosen, Plan
from audit.planting.coverage import Coverage
from audit.train.publication import Publication
from audit.train.task import Task


@dataclass(frozen=True)
class Run:
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
        """Count records that repeat another, planted ones aside."""
        plan = self.plan
        return plan.source.before_coins(plan.corpus).near_duplicates if plan.corpus.records else 0

    @cached_property
    def before_coins(self) -> tuple[Record, ...]:
        """The corpus as it was before the coins, in an order that knows none.

        Private spans are marked in the records of real users with coins.
        """
        plan, own = self.plan, {s.owner for s in self.planted.secrets if s.kind == OWN}
        records = plan.source.before_coins(plan.corpus).records
        texts = list(dict.fromkeys(r.text for r in records if r.user in own))
        spans = dict(zip(texts, map(tuple, plan.policy.many(texts)), strict=True))
        marked = (replace(r, private=spans[r.text]) if r.user in own else r for r in records)
        return tuple(sorted(marked, key=lambda record: (record.user, record.text)))

    @cached_property
    def family(self) -> Family:
        """Number of tests of a release for which leaks and refuted claims are adjusted."""
        public, family = self.plan.source.base_known, NONE
        for chosen in self.plan.attacks:
            secrets = self.secrets_for(chosen.plugin)
            family += family_of(chosen.plugin.shape(secrets, public), secrets)
        return family.over(self.plan.looks).in_lots(self.plan.lots)

    @cached_property
    def private_share(self) -> float:
        """The share of training tokens that the policy marks as private."""
        marks = [
            mark
            for record in self.corpus.of("private")
            for mark in token_mask(self.tokenizer.ends(record.text), record.private)
        ]
        return sum(marks) / max(1, len(marks))

    @cached_property
    def planted_share(self) -> float | None:
        """The share of planted tokens in all that is trained on, coins at expectation.

        Of a corpus that was planted before, as its manifest states it; None: it does not.
        """
        record = self.plan.source.record
        if record is not None:
            return record.share
        coins, count = self.planted.coins.present, self.tokenizer.predicted
        own = sum(
            count(record.text) * (0.5 if record.user in coins else 1.0)
            for record in self.plan.corpus.of("private")
        )
        # one of four: the person is in, and this value is the person's
        drawn = (s for s in self.planted.secrets if s.space is not None)
        planted = sum(count(secret.text) * secret.copies for secret in drawn) / 4
        return planted / max(1.0, own + planted)

    @property
    def trainings(self) -> list[Task]:
        """Every training of the run, without those that these build on."""
        own = [task for tasks in self.tasks.values() for task in tasks]
        return own + [t for sets in self.shadow_tasks.values() for tasks in sets for t in tasks]

    @property
    def wanted(self) -> list[Task]:
        """Every training and all that it builds on; one that several want is repeated."""
        every = (t for task in self.trainings for t in (task, *task.all_earlier))
        return [task for task in every if not task.idle]

    @cached_property
    def mixed(self) -> frozenset[Chosen]:
        """The defenses of which the unprotected mixture of their models is to be attacked, too.

        Some defenses of several models have none; that shows when they are assembled.
        """
        several = (chosen for chosen, tasks in self.tasks.items() if len(tasks) > 1)
        return frozenset(several if self.plan.references else ())

    def secrets_for(self, attack: Attack) -> tuple[Secret, ...]:
        """Select the secrets of the kinds that the attack targets."""
        return tuple(s for s in self.planted.secrets if s.kind in attack.kinds)

    @cached_property
    def train_tokens(self) -> dict[Chosen, int]:
        """The tokens that the trainings of each defense predict, over all epochs."""
        return {
            chosen: round(sum(self._all_tokens(task.training) for task in tasks))
            for chosen, tasks in self.tasks.items()
        }

    def _all_tokens(self, training: Training) -> float:
        return self.tokens(training) + sum(map(self._all_tokens, training.earlier))

    def tokens(self, training: Training) -> float:
        """Count the tokens that one training predicts, over all epochs."""
        return sum(map(self.tokenizer.predicted, training.texts)) * training.method.passes
