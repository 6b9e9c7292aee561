"""Train SeqPATE's student (arXiv 2210.05281, Algorithm 1): a warm-up, then distillation.

θ is the student, D̃pub the pseudo-sentences, p_agg the teachers' noisy answer, λ the weight of the
teachers' loss. The student chooses which tokens to ask the teachers about, and their candidates; it
has read only public text and answers already released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.progress import ShareDone
from audit.core.randomness import derived_seed
from audit.core.training import NO_TEACHERS, FineTuning, Method, Teachers, Training
from audit.models.seqpate.aggregation import Answers, Questions, ranks, top_k, top_p
from audit.models.seqpate.losses import Loss, with_answers
from audit.models.seqpate.pseudo_data import StudentText
from audit.models.seqpate.teachers import NoisyTeachers, SumNoise, next_log_pmfs
from audit.models.training.fine_tuning import descend, fine_tune


@dataclass(frozen=True)
class Distillation(Method):
    """The training of a student on pseudo-sentences and on its teachers' noisy answers.

    noise: added to each sum of answers. queries: k, the largest number of questions, fixed before
        training. population: N, the public number of users that k was chosen for.
    pseudo: what the student reads: pseudo-sentences, or public prefixes, which teach it nothing but
        the answers about them: then `warmup` has no epochs and `pseudo_loss` is false.
    warmup: fine-tuning on the pseudo-sentences before the first question.
    recipe: fine-tuning after each round of questions. rounds: how many rounds; in later ones the
        student has learned from earlier answers.
    aggregation: "mean" of the teachers' distributions, or "vote" (Table 3, −Merge_P).
    loss: "kl" (equation 2), or "ce" with the most likely answer (Table 3, −KL).
    pseudo_loss: whether equation 3 counts after the warm-up (Table 3, −L_pseudo).
    hard_rank: a token is eligible for a question if the pseudo-label's rank is above it; 0: any
        token (Table 3, −Effi KD). weight: λ of equation 4.
    top_p, top_k: how the student chooses candidates (Table 4); top_k, if given, overrides top_p.

    Killed, it starts anew; its teachers are trainings of their own, and stand.
    """

    reads = ("texts",)

    noise: SumNoise
    queries: int
    population: int
    pseudo: StudentText
    warmup: FineTuning
    recipe: FineTuning
    rounds: int = 1
    aggregation: str = "mean"
    loss: str = "kl"
    pseudo_loss: bool = True
    hard_rank: int = 10
    weight: float = 20.0
    top_p: float | None = 0.95
    top_k: int | None = None

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> None:
        seed = training.seed
        sentences = self.pseudo.complete(model, tokenizer, training.texts, seed)
        warmed_up, lesson = self.warmup.epochs, self.recipe.epochs
        say = self._part(progress, 0.0, warmed_up)
        fine_tune(model, sentences, self.warmup, derived_seed(seed, "warm-up"), say)
        noisy = NoisyTeachers(
            teachers, self.noise, self.noise.stream(training), self.queries, self.aggregation
        )
        loss = Loss(self.loss, self.pseudo_loss, self.weight)
        order = torch.Generator().manual_seed(derived_seed(seed, "questions"))
        released: list[Answers] = []
        for done in range(self.rounds):
            count = noisy.remaining // (self.rounds - done)
            questions = self.questions(model, sentences, released, count, order)
            if len(questions):
                released.append(noisy.answer(questions, sentences))
            rows = with_answers(sentences, released)
            if not self.pseudo_loss:
                rows = [row for row in rows if row.targets]
            say = self._part(progress, warmed_up + done * lesson, lesson)
            descend(model, rows, loss, self.recipe, derived_seed(seed, "lesson", done), say)
        if progress is not None:
            progress(1.0)

    def _part(self, progress: ShareDone | None, before: float, epochs: float) -> ShareDone | None:
        """Report the share of all passes for the share of these, after `before` others."""
        if progress is None:
            return None
        return lambda share: progress((before + share * epochs) / self.passes)

    def questions(
        self,
        student: PreTrainedModel,
        sentences: Sequence[Sequence[int]],
        released: Sequence[Answers],
        count: int,
        generator: torch.Generator,
    ) -> Questions:
        """Choose at most `count` hard tokens of the sentences that have no answer yet."""
        places = torch.tensor([(i, t) for i, s in enumerate(sentences) for t in range(1, len(s))])
        labels = torch.tensor([token for s in sentences for token in s[1:]])
        hard = torch.zeros(len(places), dtype=torch.bool)
        for some, log_pmf in next_log_pmfs(student, sentences, places):
            hard[some] = ranks(log_pmf, labels[some]) > self.hard_rank
        before = {place for answers in released for place in answers.questions.pairs}
        for i, place in enumerate(map(tuple, places.tolist())):
            hard[i] &= place not in before
        eligible = hard.nonzero()[:, 0]
        drawn = eligible[torch.randperm(len(eligible), generator=generator)[:count]]
        return self._with_candidates(student, sentences, places[drawn.sort().values])

    def _with_candidates(
        self, student: PreTrainedModel, sentences: Sequence[Sequence[int]], places: Tensor
    ) -> Questions:
        rows, tokens = [], []
        for some, log_pmf in next_log_pmfs(student, sentences, places):
            if self.top_k is not None:
                marked = top_k(log_pmf, self.top_k)
            else:
                marked = top_p(log_pmf, 1.0 if self.top_p is None else self.top_p)
            row, token = marked.nonzero(as_tuple=True)
            rows.append(some[row])
            tokens.append(token)
        if not rows:
            return Questions(places, *torch.empty(2, 0, dtype=torch.long))
        order = torch.cat(rows).argsort(stable=True)
        return Questions(places, torch.cat(rows)[order], torch.cat(tokens)[order])

    def idle(self, training: Training) -> bool:
        return False  # even without questions there is the warm-up

    @property
    def passes(self) -> float:
        return self.warmup.epochs + self.rounds * self.recipe.epochs
