"""Blacklist: masks listed values in the output of an unprotected model (SeqPATE, App. P).

The list has every value that the policy marks in the private text (arXiv 2210.05281, Table 13). It
has no guarantee: only whole listed values are masked, and the model behind it is unprotected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.model import ModelFolder
from audit.core.predictor import Access, Answer, Predictor, Tokenizer, Tokens
from audit.core.randomness import derived_seed
from audit.core.release import Journal, Release
from audit.core.rules import VISIBLE
from audit.core.spans import merged
from audit.core.training import FineTuning, Trained, Training
from audit.policies.list import Listed
from defenses.training.redacting import check_marks


@dataclass(frozen=True)
class Blacklist(Defense):
    """Generates from an unprotected model and masks the private values it lists; no guarantee.

    mask: word whose first token replaces every token of a listed value; not blank.
    """

    mask: Annotated[str, VISIBLE] = "_"

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        check_marks("blacklist", corpus)
        records = corpus.of("private")
        heldout = tuple(record.text for record in corpus.of("heldout"))
        # the same training as `none`, so a run with references trains it once
        return [
            Training(
                "blacklist",
                tuple(record.text for record in records),
                recipe,
                derived_seed(seed, "none", "training"),
                private=tuple(record.private for record in records),
                heldout=heldout,
            )
        ]

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        training = trained[0].training
        values = {
            text[low:high]
            for text, spans in zip(training.texts, training.private, strict=True)
            for low, high in merged(spans)
        }
        listed = Listed("blacklist", frozenset(values))
        return BlacklistRelease(trained[0].model, listed, self.mask, trained[0].best)


@dataclass(frozen=True)
class BlacklistRelease(Release):
    """A service that masks listed values in what it generates; `none` is it without the mask.

    best: as of a ModelRelease: its utility is that of the best step, as of the model without it.
    """

    model: LanguageModel
    listed: Listed
    mask: str
    best: tuple[LanguageModel, float] | None = None

    @property
    def guarantee(self) -> Guarantee:
        return no_guarantee(
            f"no formal guarantee: {len(self.listed.literals)} values are masked if they appear as "
            "a whole; parts of them, values that the policy misses, and probabilities are not "
            "covered; perplexity is that of the model behind the list",
            release="predictions",
        )

    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        return FilteredSession(OpenSession(self.model, stream), self.listed, self.mask)

    def at_best_step(self) -> tuple[Release, float] | None:
        if self.best is None:
            return None
        model, share = self.best
        return replace(self, model=model, best=None), share


@dataclass(frozen=True)
class FilteredSession:
    """A session that masks listed values in generations (a Predictor).

    Only its auditor can read the probabilities of the model behind it.
    """

    inner: OpenSession
    listed: Listed
    mask: str
    access = Access.GENERATE
    readable = Access.DISTRIBUTION
    remaining = None

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def max_length(self) -> int:
        return self.inner.max_length

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        answers = self.inner.generate(prompts, length)
        return [self._searched(p, a) for p, a in zip(prompts, answers, strict=True)]

    def _searched(self, prompt: Tokens, answer: Answer) -> Answer:
        """Mask every token of the answer in a listed value, which may begin in the prompt."""
        tokenizer = self.inner.tokenizer
        whole = [*prompt, *answer.tokens]
        ends = [len(tokenizer.decode(whole[: i + 1])) for i in range(len(prompt) - 1, len(whole))]
        spans = self.listed(tokenizer.decode(whole))
        mask = tokenizer.encode(self.mask)[0]
        tokens = tuple(
            mask if any(low < end and start < high for low, high in spans) else token
            for token, start, end in zip(answer.tokens, ends[:-1], ends[1:], strict=True)
        )
        return replace(answer, tokens=tokens)

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        return self.inner.score(prefixes, continuations, moments)

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        return self.inner.distribution(contexts, choices)
