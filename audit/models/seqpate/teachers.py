"""SeqPATE's teachers behind their noise: the only way by which private text reaches the student."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from audit.core.digest import digest_of_json
from audit.core.language_model import runs_of
from audit.core.noise import NoiseStream
from audit.core.randomness import noise_stream
from audit.core.training import Question, Teachers, Training
from audit.models.seqpate.aggregation import Answers, Questions, aggregated
from audit.models.training.fine_tuning import pad

_TOKENS_AT_ONCE = 4096  # read by a teacher in one forward pass


@dataclass(frozen=True)
class SumNoise:
    """Noise added to the sum of the teachers' distributions, for every candidate.

    scale: σ of N(0, σ²), or b of Laplace(b); above 0. kind: "gaussian" or "laplace".
    source: "seed", a stream derived from everything that determines the training, or "system", the
        operating system's entropy.
    """

    scale: float
    kind: str = "gaussian"
    source: str = "seed"

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"the noise's scale must be above 0 and finite; got {self.scale}")

    def stream(self, training: Training) -> NoiseStream:
        """Open the noise stream of a training; no two trainings share one."""
        return noise_stream(training.key or training.digest, "answers", self.source)

    def draws(self, count: int, stream: NoiseStream) -> Tensor:
        """Draw noise in float64, shape (count,)."""
        if self.kind == "laplace":
            return torch.from_numpy(stream.laplace(0.0, self.scale, count))
        return torch.from_numpy(stream.standard_normal(count) * self.scale)


@dataclass
class NoisyTeachers:
    """Answers at most `remaining` questions, each with fresh noise, and reveals nothing else.

    aggregation: "mean" of the teachers' distributions, or "vote", their most likely tokens.
    """

    teachers: Teachers
    noise: SumNoise
    stream: NoiseStream
    remaining: int
    aggregation: str

    def answer(self, questions: Questions, sentences: Sequence[Sequence[int]]) -> Answers:
        """Compute p_agg of each question about the sentences; every question is one query.

        Raises RuntimeError, before any teacher reads, where `remaining` is exceeded.
        """
        if len(questions) > self.remaining:
            raise RuntimeError(f"{len(questions)} questions, but only {self.remaining} remain")
        self.remaining -= len(questions)
        total = torch.zeros(len(questions.rows), dtype=torch.float64)
        asked = Contribution(questions, sentences, self.aggregation)
        for values in self.teachers.answers(asked):
            total += values
        total += self.noise.draws(len(total), self.stream)
        return aggregated(questions, total)


@dataclass(frozen=True)
class Contribution(Question):
    """Asks a teacher for what it adds to the sum: (Σ candidates,), float64; as private as itself.

    aggregation: "mean" or "vote", as for NoisyTeachers.
    """

    questions: Questions
    sentences: Sequence[Sequence[int]]
    aggregation: str

    @property
    def digest(self) -> str:
        asked = self.questions
        tensors = [t.tolist() for t in (asked.places, asked.rows, asked.tokens)]
        return digest_of_json([tensors, self.sentences, self.aggregation])

    def __call__(self, model: Any) -> Tensor:
        """Compute the teacher's probability, or vote, for every candidate."""
        asked = self.questions
        values = torch.zeros(len(asked.rows), dtype=torch.float64)
        for some, log_pmf in next_log_pmfs(model, self.sentences, asked.places):
            mine = torch.isin(asked.rows, some)
            row, token = torch.searchsorted(some, asked.rows[mine]), asked.tokens[mine]
            finite = log_pmf.isfinite().all(dim=-1, keepdim=True)  # else broken weights: uniform
            log_pmf = torch.where(finite, log_pmf, -math.log(log_pmf.shape[-1]))
            if self.aggregation == "vote":
                values[mine] = (log_pmf.argmax(dim=-1)[row] == token).double()
            else:
                values[mine] = log_pmf[row, token].exp()
        return values


def next_log_pmfs(
    model: Any, sentences: Sequence[Sequence[int]], places: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (ascending indices into places; log-pmfs there, (n, V), float64 nats), in batches.

    places: (k, 2), the sentence's index and the index ≥ 1 of the token to predict.
    """
    texts, kind = places[:, 0].contiguous(), model.device.type
    for some in _batches(sentences, sorted(set(texts.tolist()))):
        here = torch.isin(texts, torch.tensor(some)).nonzero()[:, 0]
        rows = torch.searchsorted(torch.tensor(some), texts[here])
        inputs, _ = pad([sentences[i] for i in some])
        with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            logits = model(input_ids=inputs.to(model.device), use_cache=False).logits
        chosen = logits[rows, places[here, 1] - 1]
        yield here, torch.log_softmax(chosen.double(), dim=-1).cpu()


def _batches(sentences: Sequence[Sequence[int]], chosen: Sequence[int]) -> Iterator[list[int]]:
    """Group sentences of similar length, by a limit of tokens; indices ascend in each group."""
    order = sorted(chosen, key=lambda i: (len(sentences[i]), i))
    for some in runs_of([len(sentences[i]) for i in order], _TOKENS_AT_ONCE):
        yield sorted(order[some])
