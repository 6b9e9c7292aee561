"""SubMix: private next-token prediction by an ensemble that mixes itself into the public model.

arXiv 2201.00971, Algorithms 1 and 2. What is released is one sampled token per query; every part
has its own ledger; a query is charged before it is answered; STOP is for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from audit.corpus import Corpus
from audit.defense import Defense, Training
from audit.errors import UsageError
from audit.guarantee import Guarantee, no_guarantee
from audit.language_model import (
    LanguageModel,
    Mean,
    Tempered,
    answers_of,
    draw,
    equal_length_batches,
    sample,
    temper,
)
from audit.ledger import Ledger, mark
from audit.models.fine_tuning import Recipe
from audit.predictor import Access, Answer, Tokenizer, Tokens
from audit.release import Journal, ModelRelease, Release
from audit.streams import derived_seed, stream
from defenses._mixing import Mixed, clip, mix, pairwise

if TYPE_CHECKING:
    import numpy as np
    import torch

_PMFS_AT_ONCE = 1 << 21  # float64 numbers of member pmfs mixed at once: 16 MiB


@dataclass(frozen=True)
class SubMix(Defense):
    """An ensemble on k disjoint parts; each prediction is mixed with the public model's.

    epsilon: budget of every part, in nats of D_α (unit: part; relation: removed).
    k: number of parts, at least 2; each part trains two models, on a half of its users each.
    alpha: order of the Rényi divergence, at least 1.01.
    budget: B, the queries a session answers at most; later ones meet the public model.
    beta: target leakage of a query, in nats; ε/B unless given. Fixed before the first query.
    clip: c, brings every member's pmf into [e^−c, e^c]·h_∅; off unless given.
    temperature: T of the released samples; the tempered distributions are what is charged.
    """

    epsilon: float = 2.0
    k: int = 8
    alpha: float = 2.0
    budget: int = 1024
    beta: float | None = None
    clip: float | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        def refuse(name: str, rule: str) -> UsageError:
            return UsageError(f"submix: {name} is {getattr(self, name)}; it must be {rule}")

        if not 0 < self.epsilon < math.inf:
            raise refuse("epsilon", "above 0 and finite")
        if self.k < 2:
            raise refuse("k", "at least 2")
        if not 1.01 <= self.alpha < math.inf:  # nearer to 1 the divergence cancels to 0
            raise refuse("alpha", "at least 1.01 and finite")
        if self.budget < 1:
            raise refuse("budget", "at least 1")
        for name in ("beta", "clip", "temperature"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise refuse(name, "above 0 and finite")

    @property
    def leakage(self) -> float:
        """β in nats: as given, or ε/B (the paper's Appendix B.1)."""
        return self.epsilon / self.budget if self.beta is None else self.beta

    def trainings(self, corpus: Corpus, recipe: Recipe, seed: int) -> Sequence[Training]:
        """Algorithm 1: a random k-partition of the users, each part halved by user."""
        users = corpus.users("private")
        if self.k > len(users):
            raise UsageError(
                f"submix: k is {self.k}, but only {len(users)} users are trained on; lower k"
            )
        texts: dict[str, list[str]] = {user: [] for user in users}
        for record in corpus.of("private"):
            texts[record.user].append(record.text)
        return tuple(
            Training(
                label=f"submix part {i // 2 + 1}/{self.k}, half {i % 2 + 1}",
                texts=tuple(text for user in half for text in texts[user]),
                recipe=recipe,
                seed=derived_seed(seed, "submix", "member", i),
            )
            for i, half in enumerate(halves(users, self.k, stream(seed, "submix", "partition")))
        )

    def release(self, public: LanguageModel, trained: Sequence[LanguageModel]) -> Release:
        pairs = tuple((trained[i], trained[i + 1]) for i in range(0, len(trained), 2))
        return SubMixRelease(self, public, pairs)


def halves(users: Sequence[str], k: int, generator: np.random.Generator) -> list[list[str]]:
    """2k lists of users: both halves of part 1, both of part 2, …; sizes differ by one at most."""
    shuffled = [users[int(i)] for i in generator.permutation(len(users))]
    parts = [shuffled[i::k] for i in range(k)]
    return [half for part in parts for half in (part[0::2], part[1::2])]


@dataclass(frozen=True)
class SubMixRelease(Release):
    """The prediction service: k pairs of members and the public model."""

    defense: SubMix
    public: LanguageModel
    pairs: tuple[tuple[LanguageModel, LanguageModel], ...]

    @property
    def guarantee(self) -> Guarantee:
        d = self.defense
        conditions = [
            "holds for this data set, this partition of the users and this run's own STOP",
            "the stopping time of the run without a part is not charged: Proposition C.3 "
            "(+ log CB) and Theorem C.1 (user level) are published, unproved, and not claimed",
            "what is released is one sampled token a query; perplexity is measured by the "
            "evaluator, outside the guarantee",
            "a secret that several parts hold is protected less, one that all hold not at all",
            f"β = {d.leakage:.6g} nats a query, fixed before the first query",
            "against those who do not know the run's seed, which fixes the partition and every "
            "sampled token",
            f"each session has the full budget; sessions of one release add up ({d.budget} queries "
            "each)",
        ]
        if d.clip is not None:
            conditions.append(f"members are clipped to [e^−{d.clip:g}, e^{d.clip:g}] × public")
        if d.temperature != 1.0:
            conditions.append(f"sampled, and charged, at temperature {d.temperature:g}")
        return Guarantee(
            epsilon=d.epsilon,
            alpha=d.alpha,
            unit="part",
            relation="removed",
            release="predictions",
            basis="data-dependent",
            theorem="SubMix (arXiv 2201.00971), Algorithm 2: for every part, the charged Rényi "
            "divergences of the answered queries sum to at most ε",
            conditions=tuple(conditions),
        )

    def open(self, stream: np.random.Generator, journal: Journal) -> SubMixSession:
        return SubMixSession(self, stream, journal)

    def unprotected(self) -> Release:
        """The plain mean of all members: what the ensemble leaks without the protocol."""
        members = tuple(member for pair in self.pairs for member in pair)
        promise = no_guarantee("the plain mean of SubMix's members promises nothing")
        return ModelRelease(Mean(members), promise)

    def neighbour(self, unit: int) -> Release | None:
        """The release without part `unit` (0 … k−1). Raises IndexError for another number."""
        if not 0 <= unit < len(self.pairs):
            raise IndexError(f"part {unit} of {len(self.pairs)}")
        rest = self.pairs[:unit] + self.pairs[unit + 1 :]
        return SubMixRelease(self.defense, self.public, rest)


class SubMixSession:
    """One session: a ledger for every part, and a budget of B queries (a Predictor).

    Queries are numbered in the order of the caller's lists. Batches are computed ahead, but
    charged, stopped and answered in that order, so batching cannot move STOP.
    """

    access = Access.GENERATE

    def __init__(
        self, release: SubMixRelease, stream: np.random.Generator, journal: Journal
    ) -> None:
        d = release.defense
        self._release = release
        self._stream = stream
        self._ledger = Ledger(d.epsilon, len(release.pairs), d.budget, journal)
        self.tokenizer: Tokenizer = release.public.tokenizer
        self.max_length = release.public.max_length

    @property
    def remaining(self) -> int | None:
        """B less the queries asked. What is left of a part's ε is private and not told."""
        return self._ledger.remaining

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        uniforms = self._stream.random((len(prompts), length))
        answers: list[Answer] = []
        size = self._queries_at_once()
        for first in range(0, len(prompts), size):
            rows = slice(first, first + size)
            answers += self._generate_some(prompts[rows], uniforms[rows])
        return answers

    def _generate_some(self, prompts: Sequence[Tokens], uniforms: np.ndarray) -> list[Answer]:
        ahead: list[tuple[Answer, Mixed] | None] = [None] * len(prompts)
        if not self._ledger.stopped:
            for batch in equal_length_batches(prompts, len(prompts)):
                drawn = self._draw([prompts[i] for i in batch], uniforms[batch])
                for i, one in zip(batch, drawn, strict=True):
                    ahead[i] = one
        answers = [
            self._released(prompt, row, one)
            for prompt, row, one in zip(prompts, uniforms, ahead, strict=True)
        ]
        self._ledger.flush()
        return answers

    def _released(
        self, prompt: Tokens, uniforms: np.ndarray, ahead: tuple[Answer, Mixed] | None
    ) -> Answer:
        """The admitted tokens of an answer computed ahead, and after them the public model's."""
        import numpy as np

        public = Tempered(self._release.public, self._release.defense.temperature)
        if ahead is None:
            self._ledger.skip(len(uniforms))
            return replace(draw(public, [prompt], uniforms[None])[0], answered=0)
        whole, mixed = ahead
        texts = [(*prompt, *whole.tokens[:i], float(u)) for i, u in enumerate(uniforms)]
        admitted = self._ledger.admit(
            mixed.charges.numpy(), mixed.lambdas.numpy(), list(map(mark, texts))
        )
        if admitted == len(uniforms):
            return whole
        kept = whole.tokens[:admitted]
        rest = draw(public, [[*prompt, *kept]], uniforms[None, admitted:])[0]
        return Answer(
            kept + rest.tokens,
            np.concatenate([whole.log_probs[:admitted], rest.log_probs]),
            np.concatenate([whole.top1[:admitted], rest.top1]),
            answered=admitted,
        )

    def _draw(self, prompts: Sequence[Tokens], uniforms: np.ndarray) -> list[tuple[Answer, Mixed]]:
        """What would be answered if nothing stopped; a Mixed has one row a token here."""
        import torch

        cursors = [model.cursor(prompts) for pair in self._release.pairs for model in pair]
        public = self._release.public.cursor(prompts)
        tokens, log_probs, top1, steps = [], [], [], []
        for step in range(uniforms.shape[1]):
            members = torch.stack([cursor.log_pmf() for cursor in cursors], dim=1)
            mixed = self._mix(pairwise(members), public.log_pmf())
            chosen = sample(mixed.log_h, uniforms[:, step])
            for cursor in (*cursors, public):
                cursor.append(chosen)
            tokens.append(chosen.tolist())
            log_probs.append(mixed.log_h.gather(1, chosen[:, None])[:, 0].cpu())
            top1.append((mixed.log_h.argmax(dim=1) == chosen).cpu())
            steps.append(mixed)
        columns = (
            zip(*tokens, strict=True),
            torch.stack(log_probs, dim=1).numpy(),
            torch.stack(top1, dim=1).numpy(),
        )
        return [
            (Answer(t, p, m, len(t)), _rows(steps, i))
            for i, (t, p, m) in enumerate(zip(*columns, strict=True))
        ]

    def score(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> list[Answer]:
        import torch

        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        parts = self._segments([len(head) for head in prefixes], [len(text) for text in texts])
        log_pmfs, answered = [], 0
        for segments in parts:
            read = [texts[i][:stop] for i, _, stop in segments]
            log_h, admitted = self._score_some(read, [start for _, start, _ in segments])
            log_pmfs.append(log_h)
            answered += admitted
        self._ledger.flush()
        return answers_of(continuations, torch.cat(log_pmfs), answered) if log_pmfs else []

    def _score_some(
        self, texts: Sequence[Tokens], starts: Sequence[int]
    ) -> tuple[torch.Tensor, int]:
        """log h at each query (after STOP: of the public model), and how many were admitted."""
        import torch

        public = self._release.public.log_pmfs(texts, starts)
        fallback = temper(public, self._release.defense.temperature)
        if self._ledger.stopped:
            self._ledger.skip(len(public))
            return fallback, 0
        members = [model.log_pmfs(texts, starts) for pair in self._release.pairs for model in pair]
        mixed = self._mix(pairwise(torch.stack(members, dim=1)), public)
        charges, lambdas = mixed.charges.cpu().numpy(), mixed.lambdas.cpu().numpy()
        marks = [
            mark(text[: i + 1])
            for text, start in zip(texts, starts, strict=True)
            for i in range(start, len(text))
        ]
        admitted = self._ledger.admit(charges, lambdas, marks)
        return torch.cat([mixed.log_h[:admitted], fallback[admitted:]]), admitted

    def _segments(
        self, starts: Sequence[int], stops: Sequence[int]
    ) -> Iterator[list[tuple[int, int, int]]]:
        """(text, start, stop) in order, in groups of as many queries as fit into memory."""
        size, room = self._queries_at_once(), self._queries_at_once()
        group: list[tuple[int, int, int]] = []
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            while start < stop:
                end = min(stop, start + room)
                group.append((i, start, end))
                room -= end - start
                start = end
                if not room:
                    yield group
                    group, room = [], size
        if group:
            yield group

    def _mix(self, members: torch.Tensor, public: torch.Tensor) -> Mixed:
        d = self._release.defense
        if d.clip is not None:
            members = clip(members, public, d.clip)
        return mix(members, public, d.alpha, d.leakage, d.temperature)

    def _queries_at_once(self) -> int:
        pmfs = 2 * len(self._release.pairs) * self._release.public.vocabulary
        return max(1, _PMFS_AT_ONCE // pmfs)


def _rows(steps: Sequence[Mixed], i: int) -> Mixed:
    """The tokens of text i: the i-th query of every step, as one Mixed on the CPU."""
    import torch

    return Mixed(
        log_h=torch.empty(0),  # V numbers a token, no longer needed
        lambdas=torch.stack([mixed.lambdas[i] for mixed in steps]).cpu(),
        charges=torch.stack([mixed.charges[i] for mixed in steps]).cpu(),
    )
