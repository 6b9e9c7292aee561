"""Make what a student reads: pseudo-sentences that a public model completes, or prefixes alone.

Pseudo-sentences are D̃pub of SeqPATE (arXiv 2210.05281, section 4.1), public prefixes are Dpub.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.errors import UsageError
from audit.core.language_model import draw
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.progress import ShareDone
from audit.core.randomness import stream
from audit.core.training import NO_TEACHERS, FineTuning, Method, Teachers, Training
from audit.models.causal import CausalLM
from audit.models.training.fine_tuning import fine_tune
from audit.models.training.resume import Resume

_AT_ONCE = 128  # sentences completed together


class StudentText(ABC):
    """The text of a student, made from public text alone."""

    @abstractmethod
    def complete(
        self, model: PreTrainedModel, tokenizer: TextTokenizer, texts: Sequence[str], seed: int
    ) -> list[list[int]]:
        """Make the sentences: start, and the token ids after it. texts: the public texts.

        Raises UsageError where there are none.
        """


@dataclass(frozen=True)
class PseudoData(StudentText):
    """The making of pseudo-sentences, from public text alone.

    sentences: how many are completed. prefix: tokens of public text at the start of each.
    shortest, longest: tokens of a sentence; a shorter one is dropped, a longer one is cut.
    """

    sentences: int = 500
    prefix: int = 4
    shortest: int = 8
    longest: int = 40

    def __post_init__(self) -> None:
        if self.sentences < 1 or self.prefix < 1:
            raise UsageError("pseudo-data: sentences and prefix must be at least 1")
        if not self.prefix <= self.shortest <= self.longest:
            raise UsageError(
                f"pseudo-data: prefix {self.prefix}, shortest {self.shortest} and longest "
                f"{self.longest} must be in ascending order"
            )

    def complete(
        self, model: PreTrainedModel, tokenizer: TextTokenizer, texts: Sequence[str], seed: int
    ) -> list[list[int]]:
        """Sample sentences: start, at most `longest` token ids, and stop if the model ended there.

        texts: the public texts whose prefixes are used, in random order, repeatedly if few.
        Raises UsageError where no text is as long as a prefix, or no sentence is long enough.
        """
        generator = stream(seed, "pseudo-data")
        prompts = prefixes(tokenizer, texts, self.prefix)
        order = generator.permutation(len(prompts))
        chosen = [prompts[order[i % len(prompts)]] for i in range(self.sentences)]
        uniforms = generator.random((self.sentences, self.longest - self.prefix + 1))
        public = CausalLM(model, tokenizer, self.longest + 1)
        sentences = []
        for first in range(0, len(chosen), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            answers = draw(public, chosen[some], uniforms[some])
            for prompt, answer in zip(chosen[some], answers, strict=True):
                sentences.append([*prompt, *self._ended(answer.tokens, tokenizer.stop)])
        ended = (len(s) - 1 - (s[-1] == tokenizer.stop) for s in sentences)  # without start, stop
        enough = [s for s, own in zip(sentences, ended, strict=True) if own >= self.shortest]
        if not enough:
            raise UsageError(
                f"the public model completes no public prefix to {self.shortest} tokens; "
                "lower shortest"
            )
        return enough

    def _ended(self, tokens: Sequence[int], stop: int) -> list[int]:
        """Cut after the first stop token; without one, drop the last token."""
        if stop in tokens:
            return list(tokens[: tokens.index(stop) + 1])
        return list(tokens[:-1])


@dataclass(frozen=True)
class PublicPrefixes(StudentText):
    """Public prefixes as they are, for a student without pseudo-data (Appendix J, Table 9).

    most: at most so many, each once. prefix: tokens of each.
    """

    most: int
    prefix: int

    def __post_init__(self) -> None:
        if self.most < 1 or self.prefix < 1:
            raise UsageError("pseudo-data: sentences and prefix must be at least 1")

    def complete(
        self, model: PreTrainedModel, tokenizer: TextTokenizer, texts: Sequence[str], seed: int
    ) -> list[list[int]]:
        """Draw distinct prefixes and completes none of them: start, and `prefix` token ids."""
        found = prefixes(tokenizer, texts, self.prefix)
        distinct = [list(one) for one in dict.fromkeys(map(tuple, found))]
        order = stream(seed, "prefixes").permutation(len(distinct))
        return [distinct[i] for i in order[: self.most]]


def prefixes(tokenizer: TextTokenizer, texts: Sequence[str], length: int) -> list[list[int]]:
    """Return start and the first `length` token ids of every text that has so many.

    Raises UsageError where none has.
    """
    heads = (tokenizer.encode(text)[:length] for text in texts)
    long_enough = [[tokenizer.start, *head] for head in heads if len(head) == length]
    if not long_enough:
        raise UsageError(
            f"no public text has {length} tokens to begin a pseudo-sentence with; "
            'mark longer records with "split": "public"'
        )
    return long_enough


@dataclass(frozen=True)
class PseudoTuning(Method):
    """Fine-tuning on pseudo-sentences alone."""

    reads = ("texts",)

    recipe: FineTuning
    pseudo: PseudoData

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        sentences = self.pseudo.complete(model, tokenizer, training.texts, training.seed)
        resume = Resume(training.checkpoint)
        fine_tune(model, sentences, self.recipe, training.seed, progress, resume)

    def idle(self, training: Training) -> bool:
        return self.recipe.epochs == 0

    @property
    def passes(self) -> float:
        return self.recipe.epochs
