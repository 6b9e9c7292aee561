"""One session with SubMix's service: every query is charged before it is answered (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from audit.language_model import (
    Tempered,
    answers_of,
    draw,
    equal_length_batches,
    sample,
    temper,
)
from audit.ledger import Ledger
from audit.predictor import Access, Answer, Tokenizer, Tokens
from audit.release import Journal
from defenses._mixing import Mixed, clip, mix, pairwise

if TYPE_CHECKING:
    import numpy as np
    import torch

    from defenses.submix import SubMixRelease

_PMFS_AT_ONCE = 1 << 21  # float64 numbers of member pmfs mixed at once: 16 MiB


class SubMixSession:
    """One session: a ledger for every part, and a budget of B queries (a Predictor).

    Queries are numbered in the order of the caller's lists. Batches are computed ahead, but
    charged, stopped and answered in that order, so batching cannot move STOP.
    """

    access = Access.GENERATE
    readable = Access.DISTRIBUTION

    def __init__(
        self, release: SubMixRelease, stream: np.random.Generator, journal: Journal
    ) -> None:
        d = release.defense
        self._release = release
        self._public = Tempered(release.public, d.temperature)
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

        if ahead is None:
            self._ledger.skip(len(uniforms))
            return replace(draw(self._public, [prompt], uniforms[None])[0], answered=0)
        whole, mixed = ahead
        texts = [(*prompt, *whole.tokens[:i], float(u)) for i, u in enumerate(uniforms)]
        admitted = self._ledger.admit(
            mixed.charges.numpy(), mixed.lambdas.numpy(), list(map(self._ledger.mark, texts))
        )
        if admitted == len(uniforms):
            return whole
        kept = whole.tokens[:admitted]
        rest = draw(self._public, [[*prompt, *kept]], uniforms[None, admitted:])[0]
        return Answer(
            kept + rest.tokens,
            np.concatenate([whole.log_probs[:admitted], rest.log_probs]),
            np.concatenate([whole.top1[:admitted], rest.top1]),
            answered=admitted,
        )

    def _draw(self, prompts: Sequence[Tokens], uniforms: np.ndarray) -> list[tuple[Answer, Mixed]]:
        """What would be answered if nothing stopped; a Mixed has one row a token here."""
        import torch

        cursor = self._release.ensemble.cursor(prompts)
        tokens, log_probs, top1, steps = [], [], [], []
        for step in range(uniforms.shape[1]):
            mixed = self._mix(cursor.log_pmfs())
            chosen = sample(mixed.log_h, uniforms[:, step])
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

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        import torch

        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        log_pmfs, answered = self._read(texts, list(map(len, prefixes)), lambda log_h: log_h)
        if not log_pmfs:
            return []
        return answers_of(continuations, torch.cat(log_pmfs), answered, moments)

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        import torch

        texts = [[*context, choices[0]] for context in contexts]
        rows, answered = self._read(
            texts, list(map(len, contexts)), lambda log_h: log_h[:, list(choices)].cpu()
        )
        return torch.cat([torch.empty(0, len(choices)), *rows]).double().numpy(), answered

    def _read(
        self,
        texts: Sequence[Tokens],
        starts: Sequence[int],
        keep: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[list[torch.Tensor], int]:
        """What `keep` takes of log h at every text[start:], and how many queries were admitted."""
        kept, answered = [], 0
        for segments in self._segments(starts, [len(text) for text in texts]):
            some = [texts[i][:stop] for i, _, stop in segments]
            log_h, admitted = self._score_some(some, [start for _, start, _ in segments])
            kept.append(keep(log_h))
            answered += admitted
        self._ledger.flush()
        return kept, answered

    def _score_some(
        self, texts: Sequence[Tokens], starts: Sequence[int]
    ) -> tuple[torch.Tensor, int]:
        """log h at each query (after STOP: of the public model), and how many were admitted."""
        import torch

        if self._ledger.stopped:
            public = self._public.log_pmfs(texts, starts)
            self._ledger.skip(len(public))
            return public, 0
        log_pmfs = self._release.ensemble.log_pmfs(texts, starts)
        fallback = temper(log_pmfs[:, -1], self._release.defense.temperature)
        mixed = self._mix(log_pmfs)
        charges, lambdas = mixed.charges.cpu().numpy(), mixed.lambdas.cpu().numpy()
        marks = [
            self._ledger.mark(text[: i + 1])
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

    def _mix(self, log_pmfs: torch.Tensor) -> Mixed:
        """log_pmfs: (n, 2k + 1, V), the public model's last."""
        d = self._release.defense
        members, public = pairwise(log_pmfs[:, :-1]), log_pmfs[:, -1]
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
