"""A plan made ready: the corpus planted, every training named, no model loaded yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from audit.canaries import coverage, shadows
from audit.canaries.coverage import Reach
from audit.canaries.planting import plant, trained_on
from audit.core.attack import Attack
from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.heldout import Heldout, heldout
from audit.core.model import TextTokenizer
from audit.core.policy import Policy
from audit.core.predictor import continuation, record_tokens
from audit.core.secret import Coins, Planted, Secret
from audit.core.spans import token_mask
from audit.core.training import Training
from audit.models.loading import load_tokenizer
from audit.plan.plan import Chosen, Plan
from audit.train.task import Task


@dataclass(frozen=True)
class Prepared:
    """What a run works on, and what a dry run describes.

    corpus: what every defense is given: planted, its private spans marked by the policy.
    text: the held-out text. tasks: the trainings of each defense, in its own order.
    tosses: the coins of each shadow model. shadows: the trainings of each defense's shadows.
    reaches: what became of what others planted, where that can be seen.
    """

    plan: Plan
    planted: Planted
    corpus: Corpus
    tokenizer: TextTokenizer
    text: Heldout
    tasks: dict[Chosen, tuple[Task, ...]]
    tosses: tuple[Coins, ...]
    shadows: dict[Chosen, tuple[tuple[Task, ...], ...]]
    reaches: tuple[Reach, ...] = ()

    @cached_property
    def near_duplicates(self) -> int:
        """Of the corpus without what others planted into it."""
        corpus, owners = self.plan.corpus, self.planted.coins.present
        if self.plan.manifest is None:
            return corpus.near_duplicates
        own = tuple(record for record in corpus.records if record.user not in owners)
        return replace(corpus, records=own).near_duplicates

    @property
    def unit(self) -> str:
        """What one coin decides."""
        return "user" if self.plan.manifest is None else self.plan.manifest.unit

    @property
    def tests(self) -> int:
        """How many tests the verdicts on a release are adjusted for, at most."""
        return sum(c.plugin.tests(self.secrets_for(c.plugin)) for c in self.plan.attacks)

    @cached_property
    def private_share(self) -> float:
        """Share of the tokens to train on that the policy marks."""
        marks = [
            mark
            for record in self.corpus.of("private")
            for mark in token_mask(self.tokenizer.ends(record.text), record.private)
        ]
        return sum(marks) / max(1, len(marks))

    @property
    def trainings(self) -> list[Task]:
        """Every training of the run."""
        shadows = [task for sets in self.shadows.values() for tasks in sets for task in tasks]
        return [task for tasks in self.tasks.values() for task in tasks] + shadows

    def secrets_for(self, attack: Attack) -> tuple[Secret, ...]:
        """The candidates of the kinds the attack goes for."""
        return tuple(s for s in self.planted.secrets if s.kind in attack.kinds)

    def train_tokens(self, chosen: Chosen) -> int:
        """Tokens that the trainings of a defense predict, over all epochs."""
        return round(sum(self._tokens(task.training) for task in self.tasks[chosen]))

    def _tokens(self, training: Training) -> float:
        tokens = sum(len(record_tokens(self.tokenizer, text)) - 1 for text in training.texts)
        return tokens * training.method.passes + sum(map(self._tokens, training.earlier))


def prepare(plan: Plan, stages: Path) -> Prepared:
    """Plants, and asks every defense for its trainings. Raises UsageError; writes nothing."""
    tokenizer = load_tokenizer(plan.model)

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text))

    planted = _planted(plan, count_tokens)
    for secret in planted.secrets:
        if secret.kind in ("code", "id"):
            continuation(tokenizer, secret.prefix, secret.value)
    for chosen in plan.attacks:
        if not any(secret.kind in chosen.plugin.kinds for secret in planted.secrets):
            kinds = ", ".join(chosen.plugin.kinds)
            raise UsageError(f"{chosen.label} goes for {kinds}; add it to planting.kinds")
    count = 0 if plan.manifest else max(chosen.plugin.shadows for chosen in plan.attacks)
    tosses = shadows.tosses(planted.coins, count, plan.seed)
    texts = [record.text for record in plan.corpus.of("heldout")]
    text = heldout(texts, tokenizer, plan.model.max_length - 1, plan.policy)
    tossed = [trained_on(plan.corpus, planted.secrets, coins) for coins in tosses]
    corpus, *others = marked([planted.corpus, *tossed], plan.policy)
    tasks = {c: _tasks(plan, c, corpus, plan.seed, stages) for c in plan.defenses}
    seeds = [seed for seed, _ in shadows.seeded(tosses, plan.seed)]
    again = {
        c: tuple(
            _tasks(plan, c, other, seed, stages) for seed, other in zip(seeds, others, strict=True)
        )
        for c in plan.defenses
    }
    reaches = _reaches(plan, planted, tokenizer)
    return Prepared(plan, planted, corpus, tokenizer, text, tasks, tosses, again, reaches)


def _planted(plan: Plan, count_tokens: Callable[[str], int]) -> Planted:
    if plan.manifest is not None:
        return plan.manifest.planted(plan.corpus)
    assert plan.planting is not None  # one of the two
    return plant(plan.corpus, plan.planting, plan.seed, count_tokens)


def _reaches(plan: Plan, planted: Planted, tokenizer: TextTokenizer) -> tuple[Reach, ...]:
    """From what the trainer says it trained on; else from the corpus, of which more may have been
    lost since; else nothing is known."""
    said = [c.plugin.training for c in plan.defenses if c.plugin.finished and c.plugin.training]
    texts = [record.text for record in planted.trained_on]
    if plan.manifest is None or not (said or texts):
        return ()
    if said:
        rows = coverage.of_file(Path(said[0]), tokenizer, plan.model.max_length)
        return coverage.reaches(rows, planted.secrets, planted.coins, tokenizer)
    rows = coverage.of_texts(texts, tokenizer, plan.model.max_length)
    there = coverage.reaches(rows, planted.secrets, planted.coins, tokenizer)
    return tuple(replace(reach, where="stand in the corpus") for reach in there)


def marked(corpora: Sequence[Corpus], policy: Policy) -> list[Corpus]:
    """The corpora with the private spans of private records; each text is asked about once."""
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
    return tuple(Task(t, plan.model, plan.device, plan.threads, stages) for t in trainings)
