"""A plan made ready: the corpus planted, every training named, no model loaded yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audit.attack import Attack
from audit.errors import UsageError
from audit.plan import Chosen, Plan
from audit.predictor import continuation, record_tokens
from audit.secrets import Planted, Secret, plant
from audit.training import Task
from audit.utility import Heldout, heldout

if TYPE_CHECKING:
    from audit.models.loading import TextTokenizer


@dataclass(frozen=True)
class Prepared:
    """What a run works on, and what a dry run describes.

    text: the held-out text. tasks: the trainings of each defense, in its own order.
    """

    plan: Plan
    planted: Planted
    tokenizer: TextTokenizer
    text: Heldout
    tasks: dict[Chosen, tuple[Task, ...]]

    def secrets_for(self, attack: Attack) -> tuple[Secret, ...]:
        """The candidates of the kinds the attack goes for."""
        return tuple(s for s in self.planted.secrets if s.kind in attack.kinds)

    def train_tokens(self, chosen: Chosen) -> int:
        """Tokens that the trainings of a defense predict, over all epochs."""
        texts = (text for task in self.tasks[chosen] for text in task.training.texts)
        tokens = sum(len(record_tokens(self.tokenizer, text)) - 1 for text in texts)
        return tokens * self.plan.training.epochs


def prepare(plan: Plan, stages: Path) -> Prepared:
    """Plants, and asks every defense for its trainings. Raises UsageError; writes nothing."""
    from audit.models.loading import load_tokenizer

    tokenizer = load_tokenizer(plan.model)

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text))

    planted = plant(plan.corpus, plan.planting, plan.seed, count_tokens)
    for secret in planted.secrets:
        if secret.kind in ("code", "id"):
            continuation(tokenizer, secret.prefix, secret.value)
    for chosen in plan.attacks:
        if not any(secret.kind in chosen.plugin.kinds for secret in planted.secrets):
            kinds = ", ".join(chosen.plugin.kinds)
            raise UsageError(f"{chosen.label} goes for {kinds}; add it to planting.kinds")
    tasks = {}
    for chosen in plan.defenses:
        trainings = chosen.plugin.trainings(planted.corpus, plan.training, plan.seed)
        tasks[chosen] = tuple(
            Task(training, plan.model, plan.device, plan.threads, stages) for training in trainings
        )
    texts = [record.text for record in plan.corpus.of("heldout")]
    text = heldout(texts, tokenizer, plan.model.max_length - 1)
    return Prepared(plan, planted, tokenizer, text, tasks)
