"""SeqPATE (arXiv 2210.05281): a student that learns from the noisy answers of disjoint teachers.

Private texts are split over M teachers by user. The public model completes public prefixes to
pseudo-sentences. A student is warmed up on them, asks the teachers for the next token at no more
than k hard positions, and learns from the noised sum of their distributions. Only the student is
released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from audit.accounting import distribution
from audit.core.corpus import Corpus, Record
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, default_delta, no_guarantee
from audit.core.layers import ALL, LAYERS
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.rules import POSITIVE, PROBABILITY, at_least, broken, one_of
from audit.core.training import FineTuning, Training
from audit.models.seqpate.pseudo_data import PseudoData, PublicPrefixes, StudentText
from audit.models.seqpate.student import Distillation
from audit.models.seqpate.teachers import SumNoise
from defenses.training import (
    checks,
    partition,
    phrases,
    pseudo_sentences,
    public_text,
    teacher_answers,
)

_SCALES = 1e-3, 1e7  # of the noise, where it is chosen by an average over phrases
_NEXT_TO_NOTHING = 1e-9  # σ of what is called no noise; sums of pmfs are read to 1e-7


@dataclass(frozen=True)
class SeqPATE(Defense):
    """Distils private teachers into a student by noisy answers about public pseudo-sentences.

    epsilon: target ε in nats, at δ, for one user under add_or_remove and replace; above 0, or none
        with sigma.
    sigma: standard deviation σ of the noise on the sum (scale b for Laplace), instead of a target
        ε; above 0, with epsilon=none.
    delta: δ of the guarantee; default min(1/(10·N), 1e-5) for N users; between 0 and 1.
    teachers: number of teachers M; default a third of the users; at least 1, at most all users.
    spread: most teachers J that learn from one user, all covered by ε; at least 1.
    queries: most questions k to the teachers; ε is accounted for all k even if fewer are asked; at
        least 1.
    rounds: number of rounds of questions, each chosen after the answers before it; 1 to queries.
    top_p: answer over the student's likeliest tokens that hold this probability; above 0, at most
        1; default off.
    top_k: answer over the student's k likeliest tokens; default 10, or off with top_p; at least 1.
    threshold: ask only where the student ranks the pseudo-label worse than this; at least 0.
    weight: weight λ of the teachers' loss; above 0.
    pseudo_data: whether public prefixes are completed to pseudo-sentences (false: Table 9, the
        student reads the prefixes alone and learns from nothing but the answers about their tokens,
        without warm-up and pseudo-labels).
    sentences: number of pseudo-sentences to complete; at least 1.
    prefix: tokens of a public text that each pseudo-sentence begins with; at least 1.
    shortest: least tokens of a pseudo-sentence, shorter ones are dropped; at least prefix.
    longest: most tokens of a pseudo-sentence, longer ones are cut; at least shortest.
    batch: sentences in a batch of the student; at least 1.
    learning_rate: peak learning rate of the student; default .15 times the plan's; above 0.
    warmup_epochs: passes over the pseudo-sentences before the first question; at least 0.
    epochs: passes over the pseudo-sentences after each round of answers; at least 0.
    aggregation: what is summed: the teachers' distributions ("mean") or their likeliest tokens
        ("vote"; Table 3, −Merge_P).
    loss: "kl", or "ce" with the likeliest answer (Table 3, −KL).
    pseudo_loss: whether the student also learns from pseudo-labels (false: Table 3, −L_pseudo).
    efficient_kd: whether only hard positions are asked about (false: Table 3, −Effi KD).
    noise: distribution of the noise: "gaussian", or "laplace" (Table 3, −Gaussian).
    train: layers that teachers train: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    phrases: file of phrases, one a line, for which ε is reported to the auditor; default none.
    phrase_epsilon: mean of ε over these phrases, in nats at δ, instead of a target ε; the noise
        then depends on private counts, and no claim is tested; above 0, with epsilon=none.
    source: source of the noise: "seed" (reproducible) or "system" (the operating system's entropy).
    answers: what the student hears: "teachers", or for controls "noise" alone, without teachers,
        or "exact" answers, without noise or any guarantee.
    """

    epsilon: Annotated[float | None, POSITIVE] = 8.0
    sigma: Annotated[float | None, POSITIVE] = None
    delta: Annotated[float | None, PROBABILITY] = None
    teachers: Annotated[int | None, at_least(1)] = None
    spread: Annotated[int, at_least(1)] = 1
    queries: Annotated[int, at_least(1)] = 80
    rounds: Annotated[int, at_least(1)] = 1
    top_p: float | None = None
    top_k: Annotated[int | None, at_least(1)] = None
    threshold: Annotated[int, at_least(0)] = 2
    weight: Annotated[float, POSITIVE] = 300.0
    pseudo_data: bool = True
    sentences: int = 1000
    prefix: int = 4
    shortest: int = 8
    longest: int = 60
    batch: Annotated[int, at_least(1)] = 32
    learning_rate: Annotated[float | None, POSITIVE] = None
    warmup_epochs: Annotated[int, at_least(0)] = 1
    epochs: Annotated[int, at_least(0)] = 4
    aggregation: Annotated[str, one_of("mean", "vote")] = "mean"
    loss: Annotated[str, one_of("kl", "ce")] = "kl"
    pseudo_loss: bool = True
    efficient_kd: bool = True
    noise: Annotated[str, one_of("gaussian", "laplace")] = "gaussian"
    train: Annotated[str, LAYERS] = ALL
    phrases: str | None = None
    phrase_epsilon: Annotated[float | None, POSITIVE] = None
    source: Annotated[str, one_of("seed", "system")] = "seed"
    answers: Annotated[str, one_of("teachers", "noise", "exact")] = "teachers"

    @property
    def controls(self) -> tuple[Defense, ...]:
        """Return the student of noise alone, and that of answers without noise.

        What noise alone improves is not a merit of the teachers; where both controls are alike, ε
        does not matter.
        """
        if self.answers != "teachers":
            return ()
        exact = replace(
            self, answers="exact", epsilon=SeqPATE.epsilon, sigma=None, phrase_epsilon=None
        )
        return replace(self, answers="noise"), exact

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_noise("seqpate", self.epsilon, self.sigma, "sigma", self.phrase_epsilon)
        phrases.check("seqpate", self.phrases, self.phrase_epsilon)
        if self.rounds > self.queries:
            raise broken("seqpate", "rounds", self.rounds, "at most queries")
        if self.top_p is not None and (self.top_k is not None or not 0 < self.top_p <= 1):
            raise broken("seqpate", "top_p", self.top_p, "in (0, 1], and without top_k")

    @property
    def pseudo(self) -> StudentText:
        """Describe the pseudo-sentences D̃pub, or the prefixes Dpub (both check their ranges)."""
        if not self.pseudo_data:
            return PublicPrefixes(self.sentences, self.prefix)
        return PseudoData(self.sentences, self.prefix, self.shortest, self.longest)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """Return the training of the student, which lists those of the teachers."""
        pseudo_sentences.check_writes("seqpate", model)
        checks.check_layers("seqpate", self.train, model)
        users = corpus.population.users
        count = self.teachers or max(1, users // 3)
        if count > users:
            raise UsageError(
                f"seqpate: teachers is {count}, but there are {users} users to teach them; lower it"
            )
        public = public_text.of("seqpate", corpus)
        teachers = self._teachers(corpus, count, recipe, seed)
        return [
            Training(
                "seqpate student",
                public,
                self._distillation(users, recipe, teachers),
                derived_seed(seed, "seqpate", "student"),
                teachers=() if self.answers == "noise" else teachers,
            )
        ]

    def _scale(self, delta: float, teachers: Sequence[Training]) -> float:
        """Return σ, or b, of the noise on a sum. teachers: whose texts hold the phrases."""
        if self.answers == "exact":
            return _NEXT_TO_NOTHING
        if self.sigma is not None:
            return self.sigma
        if self.epsilon is not None:
            return teacher_answers.scale_for(
                self.noise, self.epsilon, self.queries, delta, self.spread
            )
        assert self.phrase_epsilon is not None
        heard = self._teachers_of_phrases(teachers)

        def epsilon_of(scale: float, occurrences: int) -> float:
            return teacher_answers.epsilon_of(self.noise, scale, self.queries, delta, occurrences)

        return phrases.noise_for("seqpate", self.phrase_epsilon, heard, epsilon_of, _SCALES)

    def _distillation(
        self, users: int, recipe: FineTuning, teachers: Sequence[Training]
    ) -> Distillation:
        pseudo, delta = self.pseudo, self.delta or default_delta(users)
        scale = self._scale(delta, teachers)
        tuning = replace(
            recipe,
            epochs=self.epochs,
            learning_rate=self.learning_rate or 0.15 * recipe.learning_rate,
            batch_tokens=self.batch * (self.longest if self.pseudo_data else self.prefix),
        )
        return Distillation(
            noise=SumNoise(scale, self.noise, self.source),
            queries=self.queries,
            population=users,
            pseudo=pseudo,
            warmup=replace(tuning, epochs=self.warmup_epochs if self.pseudo_data else 0),
            recipe=tuning,
            rounds=self.rounds,
            aggregation=self.aggregation,
            loss=self.loss,
            pseudo_loss=self.pseudo_loss and self.pseudo_data,
            hard_rank=self.threshold if self.efficient_kd else 0,
            weight=self.weight,
            top_p=self.top_p,
            top_k=10 if self.top_p is None and self.top_k is None else self.top_k,
        )

    def _teachers(
        self, corpus: Corpus, count: int, recipe: FineTuning, seed: int
    ) -> tuple[Training, ...]:
        """Return M trainings on disjoint parts; a teacher without texts is the public model."""
        records = corpus.of("private")
        placed = partition.partition(
            records, count, self.spread, derived_seed(seed, "seqpate", "partition")
        )
        heard: list[list[Record]] = [[] for _ in range(count)]
        for record, teacher in zip(records, placed, strict=True):
            heard[teacher].append(record)
        method = replace(recipe, layers=self.train)
        return tuple(
            Training(
                f"seqpate teacher {m + 1}/{count}",
                tuple(record.text for record in own),
                method,
                derived_seed(seed, "seqpate", "teacher", m),
                tuple(record.user for record in own),
            )
            for m, own in enumerate(heard)
        )

    def promised(self, trainings: Sequence[Training]) -> Guarantee:
        (student,) = trainings
        method, teachers = student.method, student.teachers
        assert isinstance(method, Distillation)
        if self.answers == "noise" and self.phrase_epsilon is not None:
            return no_guarantee("a control: its noise was chosen from private counts of phrases")
        if self.answers == "noise":
            return public_text.NEVER_READ
        if self.answers == "exact":
            return no_guarantee("a control: the teachers' answers have no noise")
        delta = self.delta or default_delta(method.population)
        heard = [(owner, m) for m, teacher in enumerate(teachers) for owner in teacher.owners]
        return replace(
            teacher_answers.promised(method, delta, self.spread, self.phrase_epsilon),
            phrases=self._over_phrases(method, teachers, delta),
            teachers_per_user=partition.histogram(heard),
        )

    def _over_phrases(
        self, method: Distillation, teachers: Sequence[Training], delta: float
    ) -> tuple[dict[str, Any], ...]:
        if self.phrases is None:
            return ()
        counts = self._teachers_of_phrases(teachers)
        noise, k = method.noise, method.queries
        by_count = {
            n: teacher_answers.epsilon_of(noise.kind, noise.scale, k, delta, n) for n in set(counts)
        }
        spread = distribution([by_count[n] for n in counts])
        return tuple(phrases.table(r, delta, spread) for r in phrases.RELATIONS)

    def _teachers_of_phrases(self, teachers: Sequence[Training]) -> list[int]:
        """Count the teachers that are trained on each phrase of the file."""
        assert self.phrases is not None
        texts = [text for teacher in teachers for text in teacher.texts]
        labels = [teacher.label for teacher in teachers for _ in teacher.texts]
        return phrases.counts("seqpate", self.phrases, labels, texts)
