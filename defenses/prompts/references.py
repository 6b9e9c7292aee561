"""Private texts that become references in prompts: no training, and batches by a keyed hash."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.counts import Counts, Piece
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.predictor import Tokenizer
from audit.core.progress import ShareDone
from audit.core.training import NO_TEACHERS, Method, Teachers, Training
from defenses.prompts.prompted import reference_of
from defenses.training.partition import teacher_of

Batch = tuple[tuple[int, ...], ...]  # the tokens of each reference


@dataclass(frozen=True)
class InPrompts(Method):
    """Trains nothing: all texts of an owner are one reference, in one batch.

    batches: n, a public number. longest: tokens to which a reference is cut. population: N, the
    public number of users. key: seed of the hash that places owners.
    """

    batches: int
    longest: int
    population: int
    key: int

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        return None

    def idle(self, training: Training) -> bool:
        return True

    @property
    def reads(self) -> tuple[str, ...]:
        return ("texts", "owners")

    @property
    def passes(self) -> float:
        return 0.0

    def prompted(self, training: Training, tokenizer: TextTokenizer) -> Counts:
        """Count the tokens of each text that its owner's reference holds, each text once."""
        counts, room = Counts(), dict.fromkeys(training.owners, self.longest)
        first: dict[tuple[str, str], int] = {}
        pairs = zip(training.owners, training.texts, strict=False)  # public texts have no owner
        for place, pair in enumerate(pairs):
            first.setdefault(pair, place)
        for (owner, text), place in first.items():
            read = reference_of(tokenizer, [text], room[owner])
            room[owner] -= len(read)
            counts.step([Piece(place, 0, b"\1" * len(read))], moved=bool(read))
        return counts

    def batch_of(self, owner: str) -> int:
        """Return the batch of an owner, 0 … n−1, which depends on no other owner and on no text."""
        return teacher_of(owner, 0, self.batches, 1, self.key)

    def references(self, training: Training, tokenizer: Tokenizer) -> tuple[Batch, ...]:
        """Return the references of each batch; an owner without any text has none."""
        texts: dict[str, list[str]] = {}
        for owner, text in zip(training.owners, training.texts, strict=True):
            texts.setdefault(owner, []).append(text)
        batches: list[list[tuple[int, ...]]] = [[] for _ in range(self.batches)]
        for owner, own in texts.items():
            reference = reference_of(tokenizer, own, self.longest)
            if reference:
                batches[self.batch_of(owner)].append(reference)
        return tuple(map(tuple, batches))
