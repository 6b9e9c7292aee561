"""SeqPATE (arXiv 2210.05281): a student that learns from the noisy answers of disjoint teachers.

Private texts are split over M teachers by user. The public model completes public prefixes to
pseudo-sentences; a student is warmed up on them, asks the teachers for the next token at k hard
places at most, and learns from the noised sum of their distributions. The student is the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.accounting import distribution
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from audit.models.seqpate.pseudo_data import PseudoData
from audit.models.seqpate.student import Distillation
from audit.models.seqpate.teachers import SumNoise
from defenses import _answers, _checks, _partition, _phrases, _private, _pseudo, _public_text


@dataclass(frozen=True)
class SeqPATE(Defense):
    """Distils private teachers into a student by noisy answers about public pseudo-sentences.

    epsilon: target for one user, in nats (unit: user; relation: add_or_remove, and replace; at δ).
    sigma: σ of the noise on the sum (b for Laplace), in place of a target; with epsilon=none.
    delta: δ; 1/(10·N) for N users unless given.
    teachers: M; a third of the users unless given.
    spread: J, over how many teachers the records of one user may go; ε covers them all.
    queries: k, the questions asked at most; accounted at this cap, however many are asked.
    rounds: in how many rounds they are asked; later ones are chosen knowing earlier answers.
    top_p: candidates an answer is given over: the student's likeliest tokens that hold this much.
    top_k: or its k likeliest tokens; top_k=10 where neither is given.
    threshold: a place is asked about where the pseudo-label's rank is worse.
    weight: λ, of the teachers' loss.
    sentences: how many pseudo-sentences are completed.
    prefix: tokens that a public text gives to each.
    shortest: tokens of a sentence; shorter ones are left out.
    longest: tokens of a sentence; longer ones are cut.
    batch: sentences in a batch of the student's, at least one.
    learning_rate: the student's peak; a fifth of the plan's unless given.
    warmup_epochs: passes over the pseudo-sentences before anything is asked.
    epochs: passes over them after each round of answers.
    aggregation: what is summed: the teachers' distributions ("mean") or their first tokens
        ("vote"; Table 3, −Merge_P).
    loss: "kl", or "ce" with the most likely answer (Table 3, −KL).
    pseudo_loss: whether pseudo-labels count beside answers (Table 3, −L_pseudo if false).
    efficient_kd: whether only hard places are asked about (Table 3, −Effi KD if false).
    noise: "gaussian", or "laplace" (Table 3, −Gaussian).
    train: which layers teachers train: "all" that the recipe trains, or "top:N".
    phrases: a file, one phrase a line, over which the distribution of ε is reported.
    source: of the noise: "seed", or "system" for the operating system's entropy.
    """

    epsilon: float | None = 8.0
    sigma: float | None = None
    delta: float | None = None
    teachers: int | None = None
    spread: int = 1
    queries: int = 80
    rounds: int = 1
    top_p: float | None = None
    top_k: int | None = None
    threshold: int = 2
    weight: float = 300.0
    sentences: int = 1000
    prefix: int = 4
    shortest: int = 8
    longest: int = 60
    batch: int = 32
    learning_rate: float | None = None
    warmup_epochs: int = 1
    epochs: int = 4
    aggregation: str = "mean"
    loss: str = "kl"
    pseudo_loss: bool = True
    efficient_kd: bool = True
    noise: str = "gaussian"
    train: str = ALL
    phrases: str | None = None
    source: str = "seed"

    def __post_init__(self) -> None:
        _checks.check_noise("seqpate", self.epsilon, self.sigma, "sigma")
        _checks.check_delta("seqpate", self.delta)
        _checks.check_positive(self, "seqpate", "weight", "learning_rate")
        _checks.check_choice(
            self,
            "seqpate",
            aggregation=("mean", "vote"),
            loss=("kl", "ce"),
            noise=("gaussian", "laplace"),
            source=("seed", "system"),
        )
        _checks.check_least(
            self, "seqpate", 1, "teachers", "spread", "queries", "rounds", "top_k", "batch"
        )
        _checks.check_least(self, "seqpate", 0, "threshold", "warmup_epochs", "epochs")
        _checks.check_train("seqpate", self.train)
        if self.rounds > self.queries:
            raise _checks.refused("seqpate", self.rounds, "rounds", "at most queries")
        if self.top_p is not None and (self.top_k is not None or not 0 < self.top_p <= 1):
            raise _checks.refused("seqpate", self.top_p, "top_p", "in (0, 1], and without top_k")
        if self.phrases is not None:
            _phrases.read("seqpate", self.phrases)

    @property
    def pseudo(self) -> PseudoData:
        """D̃pub."""
        return PseudoData(self.sentences, self.prefix, self.shortest, self.longest)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """The student, whose teachers are trained first."""
        _pseudo.check_writes("seqpate", model)
        _checks.check_layers("seqpate", self.train, model)
        users = corpus.population.users
        count = self.teachers or max(1, users // 3)
        if count > users:
            raise UsageError(
                f"seqpate: teachers is {count}, but there are {users} users to teach them; lower it"
            )
        public = _public_text.of("seqpate", corpus)
        return [
            Training(
                "seqpate student",
                public,
                self._distillation(users, recipe),
                derived_seed(seed, "seqpate", "student"),
                teachers=self._teachers(corpus, count, recipe, seed),
            )
        ]

    def _distillation(self, users: int, recipe: FineTuning) -> Distillation:
        delta = _private.default_delta(self.delta, users)
        scale = self.sigma
        if scale is None:
            assert self.epsilon is not None
            scale = _answers.scale_for(self.noise, self.epsilon, self.queries, delta, self.spread)
        lessons = replace(
            recipe,
            epochs=self.epochs,
            learning_rate=self.learning_rate or recipe.learning_rate / 5,
            batch_tokens=self.batch * self.longest,
        )
        return Distillation(
            noise=SumNoise(scale, self.noise, self.source),
            queries=self.queries,
            population=users,
            pseudo=self.pseudo,
            warmup=replace(lessons, epochs=self.warmup_epochs),
            recipe=lessons,
            rounds=self.rounds,
            aggregation=self.aggregation,
            loss=self.loss,
            pseudo_loss=self.pseudo_loss,
            hard_rank=self.threshold if self.efficient_kd else 0,
            weight=self.weight,
            top_p=self.top_p,
            top_k=10 if self.top_p is None and self.top_k is None else self.top_k,
        )

    def _teachers(
        self, corpus: Corpus, count: int, recipe: FineTuning, seed: int
    ) -> tuple[Training, ...]:
        """M trainings on disjoint parts of the users; one without users is the public model."""
        records = corpus.of("private")
        placed = _partition.partition(
            records, count, self.spread, derived_seed(seed, "seqpate", "partition")
        )
        method = replace(recipe, layers=self.train)
        return tuple(
            Training(
                f"seqpate teacher {m + 1}/{count}",
                tuple(record.text for record, t in zip(records, placed, strict=True) if t == m),
                method,
                derived_seed(seed, "seqpate", "teacher", m),
                tuple(record.user for record, t in zip(records, placed, strict=True) if t == m),
            )
            for m in range(count)
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        (student,) = trained
        method, teachers = student.training.method, student.training.teachers
        assert isinstance(method, Distillation)
        delta = _private.default_delta(self.delta, method.population)
        heard = [(owner, m) for m, teacher in enumerate(teachers) for owner in teacher.owners]
        promise = replace(
            _answers.promised(method, delta, self.spread),
            phrases=self._over_phrases(method, teachers, delta),
            teachers_per_user=_partition.histogram(heard),
        )
        return ModelRelease(student.model, promise)

    def _over_phrases(
        self, method: Distillation, teachers: Sequence[Training], delta: float
    ) -> tuple[dict[str, Any], ...]:
        if self.phrases is None:
            return ()
        texts = [text for teacher in teachers for text in teacher.texts]
        labels = [teacher.label for teacher in teachers for _ in teacher.texts]
        counts = _phrases.counts("seqpate", self.phrases, labels, texts)
        noise, k = method.noise, method.queries
        by_count = {
            n: _answers.epsilon_of(noise.kind, noise.scale, k, delta, n) for n in set(counts)
        }
        found = distribution([by_count[n] for n in counts])
        return tuple(_phrases.table(r, delta, found) for r in _phrases.RELATIONS)
