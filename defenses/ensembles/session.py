"""Sessions with an ensemble behind a mechanism: every query is charged before it is answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from audit.core.ensemble import Ensemble
from audit.core.language_model import LanguageModel, answers_of, draw, equal_length_batches, sample
from audit.core.law import Law
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from defenses.ensembles.mechanisms.mixing import Aside, Mixed

Kept = TypeVar("Kept")

_GENERATED = -1  # stands for the unknown token in the mark of a generated query
_PMFS_AT_ONCE = 1 << 21  # float64 numbers of member pmfs read at once: 16 MiB
_LONGER = 8  # times as many for one long text: each group reads it again from its beginning


class Mechanism(Protocol):
    """Computes what is released of the members' answers, and its cost. Members influence an answer
    only through `mix`."""

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Answers n queries from the ensemble's log_pmfs (n, m, V), nats.

        seeds: 256 bits for the noise of each query, used nowhere else.
        """


@runtime_checkable
class Filtering(Protocol):
    """Charges queries in their order before it answers them, and decides by its accounts whom they
    hear. No query may be charged before all those with smaller numbers are."""

    @property
    def place(self) -> int:
        """The number of the last query in the ledger of all processes: no two have the same."""

    def charged(self, log_pmfs: torch.Tensor, marks: Sequence[str]) -> tuple[Mixed, int]:
        """Charges and answers n queries from the ensemble's log_pmfs (n, m, V), nats; gives how
        many were admitted before STOP."""


class Accounts(Protocol):
    """What a session charges before it answers: a Ledger, or what stands for one."""

    @property
    def queries(self) -> int: ...

    @property
    def stopped(self) -> bool: ...

    @property
    def remaining(self) -> int | None: ...

    def mark(self, query: Sequence[int | float]) -> str: ...

    def admit(
        self,
        charges: np.ndarray,
        lambdas: np.ndarray,
        marks: Sequence[str],
        local: np.ndarray | None = None,
    ) -> int:
        """Charges queries in order; gives how many of them were admitted before STOP."""

    def skip(self, queries: int) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Service:
    """An ensemble behind a mechanism. models: how many models the ensemble reads.

    public: the model that answers after STOP. access: what an answer gives away.
    """

    mechanism: Mechanism | Filtering
    ensemble: Ensemble
    models: int
    public: LanguageModel
    access: Access = Access.GENERATE


class EnsembleSession:
    """One session with a ledger for every part and a budget of B queries (a Predictor).

    Queries are numbered in the order of the caller's lists. Batches are computed ahead, but
    charged, stopped and answered in that order, so batching cannot move STOP. A filter charges
    before it answers: then tokens are drawn one by one, prompt after prompt, and nothing is ahead.

    secret: key of the randomness besides the stream; b"" if the stream alone determines it.
    """

    readable = Access.DISTRIBUTION

    def __init__(
        self, service: Service, ledger: Accounts, stream: np.random.Generator, secret: bytes = b""
    ) -> None:
        self._service = service
        self._public = service.public
        self._ledger = ledger
        self._stream = stream
        own = stream.spawn(1)[0].bytes(32)  # takes nothing from the stream itself
        self._key = hashlib.blake2b(own, key=secret, digest_size=32).digest()
        self.access = service.access
        self.tokenizer: Tokenizer = service.public.tokenizer
        self.max_length = service.public.max_length

    @property
    def remaining(self) -> int | None:
        """Queries left of B. The ε left to each part is private and stays hidden."""
        return self._ledger.remaining

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        after = self._stream.random((len(prompts), length))  # for the public model, after STOP
        answers: list[Answer] = []
        mechanism = self._service.mechanism
        if isinstance(mechanism, Filtering):
            answers = [
                self._one_by_one(mechanism, *one) for one in zip(prompts, after, strict=True)
            ]
            self._ledger.flush()
            return answers
        size = self._queries_at_once()
        for first in range(0, len(prompts), size):
            rows = slice(first, first + size)
            answers += self._generate_some(prompts[rows], after[rows])
        return answers

    def _generate_some(self, prompts: Sequence[Tokens], after: np.ndarray) -> list[Answer]:
        ahead: list[tuple[Answer, Mixed] | None] = [None] * len(prompts)
        if not self._ledger.stopped:
            length = after.shape[1]
            for batch in equal_length_batches(prompts, len(prompts)):
                numbers = [self._ledger.queries + i * length for i in batch]
                drawn = self._draw([prompts[i] for i in batch], length, numbers)
                for i, one in zip(batch, drawn, strict=True):
                    ahead[i] = one
        answers = [
            self._released(prompt, row, one)
            for prompt, row, one in zip(prompts, after, ahead, strict=True)
        ]
        self._ledger.flush()
        return answers

    def _released(
        self, prompt: Tokens, after: np.ndarray, ahead: tuple[Answer, Mixed] | None
    ) -> Answer:
        """Joins the admitted tokens of an answer computed ahead with the public model's."""
        if ahead is None:
            self._ledger.skip(len(after))
            return replace(draw(self._public, [prompt], after[None])[0], answered=0)
        whole, mixed = ahead
        texts = [(*prompt, *whole.tokens[:i], _GENERATED) for i in range(len(after))]
        admitted = self._admit(mixed, texts)
        if admitted == len(after):
            return whole
        kept = whole.tokens[:admitted], whole.log_probs[:admitted], whole.top1[:admitted]
        return self._finished(prompt, Answer(*kept, admitted), after)

    def _finished(self, prompt: Tokens, begun: Answer, after: np.ndarray) -> Answer:
        """Joins the tokens of an answer before STOP with the public model's."""
        admitted = len(begun.tokens)
        rest = draw(self._public, [[*prompt, *begun.tokens]], after[None, admitted:])[0]
        return Answer(
            begun.tokens + rest.tokens,
            np.concatenate([begun.log_probs, rest.log_probs]),
            np.concatenate([begun.top1, rest.top1]),
            answered=admitted,
        )

    def _one_by_one(self, filtering: Filtering, prompt: Tokens, after: np.ndarray) -> Answer:
        """Draws the tokens after one prompt, each charged before the next is read."""
        end = self._ledger.queries + len(after)
        columns = list(self._tokens(filtering, prompt, len(after)))
        self._ledger.skip(end - self._ledger.queries)
        tokens, log_probs, top1 = zip(*columns, strict=True) if columns else ((), (), ())
        begun = Answer(tokens, np.array(log_probs), np.array(top1, dtype=bool), len(tokens))
        return begun if len(tokens) == len(after) else self._finished(prompt, begun, after)

    def _tokens(
        self, filtering: Filtering, prompt: Tokens, length: int
    ) -> Iterator[tuple[int, float, bool]]:
        """Draws tokens until STOP; gives each, its log-probability, nats, and whether none is
        likelier."""
        cursor, text = self._service.ensemble.cursor([prompt]), [*prompt]
        while len(text) < len(prompt) + length and not self._ledger.stopped:
            mark = self._ledger.mark([*text, _GENERATED])
            mixed, admitted = filtering.charged(cursor.log_pmfs(), [mark])
            if not admitted:
                return
            # by place: asked again after a kill, a query may meet other accounts, and another law
            seed = self._seed(filtering.place, text)
            chosen = sample(mixed.log_h, uniforms([seed]))
            cursor.append(chosen)
            text.append(token := int(chosen))
            yield token, float(mixed.log_h[0, token]), int(mixed.log_h.argmax()) == token

    def _admit(self, mixed: Mixed, queries: Sequence[Tokens]) -> int:
        local = mixed.aside.local
        return self._ledger.admit(
            mixed.charges.cpu().numpy(),
            mixed.lambdas.cpu().numpy(),
            list(map(self._ledger.mark, queries)),
            None if local is None else local.cpu().numpy(),
        )

    def _draw(
        self, prompts: Sequence[Tokens], length: int, numbers: Sequence[int]
    ) -> list[tuple[Answer, Mixed]]:
        """Draws answers as if nothing stopped; each Mixed has one row a token.

        numbers: number of the first query of each prompt.
        """
        mechanism, cursor = self._service.mechanism, self._service.ensemble.cursor(prompts)
        assert not isinstance(mechanism, Filtering)  # which computes nothing ahead
        texts = [list(prompt) for prompt in prompts]
        log_probs, top1, steps = [], [], []
        for step in range(length):
            seeds = [self._seed(n + step, t) for n, t in zip(numbers, texts, strict=True)]
            mixed = mechanism.mix(cursor.log_pmfs(), seeds)
            chosen = sample(mixed.log_h, uniforms(seeds))
            cursor.append(chosen)
            for text, token in zip(texts, chosen.tolist(), strict=True):
                text.append(token)
            log_probs.append(mixed.log_h.gather(1, chosen[:, None])[:, 0].cpu())
            top1.append((mixed.log_h.argmax(dim=1) == chosen).cpu())
            steps.append(mixed)
        columns = (
            (tuple(t[len(p) :]) for t, p in zip(texts, prompts, strict=True)),
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
        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        pairs, answered = self._read(texts, list(map(len, prefixes)), lambda *pair: pair)
        if not pairs:
            return []
        log_h = torch.cat([log_h for log_h, _ in pairs])
        own = any(log_caps is not log_h for log_h, log_caps in pairs)
        log_caps = torch.cat([log_caps for _, log_caps in pairs]) if own else None
        return answers_of(continuations, log_h, answered, moments, log_caps)

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        texts = [[*context, choices[0]] for context in contexts]
        rows, answered = self._read(
            texts, list(map(len, contexts)), lambda log_h, _: log_h[:, list(choices)].cpu()
        )
        return torch.cat([torch.empty(0, len(choices)), *rows]).double().numpy(), answered

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        """Gives the law of the answer at each token, of those that are admitted before STOP."""
        starts = list(map(len, prefixes))
        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        law, read = Law(np.empty((0, self._public.vocabulary))), []
        for segments in self._segments(starts, list(map(len, texts))):
            if self._ledger.stopped:
                self._ledger.skip(sum(stop - start for _, start, stop in segments))
                continue
            some = [texts[i][:stop] for i, _, stop in segments]
            mixed, admitted = self._ask(some, [start for _, start, _ in segments])
            law = mixed.aside.law or Law(mixed.log_h.cpu().numpy())
            read.append(law.log_pmfs[:admitted])
        self._ledger.flush()
        return replace(law, log_pmfs=np.concatenate(read)) if read else law

    def _read(
        self,
        texts: Sequence[Tokens],
        starts: Sequence[int],
        keep: Callable[[torch.Tensor, torch.Tensor], Kept],
    ) -> tuple[list[Kept], int]:
        """Applies `keep` to (log h, its upper bounds) at every text[start:], in pieces that fit in
        memory; also gives how many queries were admitted."""
        results, answered = [], 0
        for segments in self._segments(starts, [len(text) for text in texts]):
            some = [texts[i][:stop] for i, _, stop in segments]
            pair, admitted = self._score_some(some, [start for _, start, _ in segments])
            results.append(keep(*pair))
            answered += admitted
        self._ledger.flush()
        return results, answered

    def _score_some(
        self, texts: Sequence[Tokens], starts: Sequence[int]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], int]:
        """Gives (log h of each query, its upper bounds or log h again) and how many were admitted;
        after STOP, log h is the public model's."""
        if self._ledger.stopped:
            public = self._public.log_pmfs(texts, starts)
            self._ledger.skip(len(public))
            return (public, public), 0
        mixed, admitted = self._ask(texts, starts)
        log_caps = mixed.log_h if mixed.aside.log_caps is None else mixed.aside.log_caps
        if admitted == len(mixed.log_h):
            return (mixed.log_h, log_caps), admitted
        after = self._public.log_pmfs(texts, starts)[admitted:]
        log_h = torch.cat([mixed.log_h[:admitted], after])
        if log_caps is mixed.log_h:
            return (log_h, log_h), admitted
        return (log_h, torch.cat([log_caps[:admitted], after])), admitted

    def _ask(self, texts: Sequence[Tokens], starts: Sequence[int]) -> tuple[Mixed, int]:
        """Mixes and charges the answers to every text[start:]; gives how many were admitted."""
        queries = [
            text[: i + 1]
            for text, start in zip(texts, starts, strict=True)
            for i in range(start, len(text))
        ]
        mechanism = self._service.mechanism
        log_pmfs = self._service.ensemble.log_pmfs(texts, starts)
        if isinstance(mechanism, Filtering):
            return mechanism.charged(log_pmfs, list(map(self._ledger.mark, queries)))
        first = self._ledger.queries
        seeds = [self._seed(first + i, text[:-1]) for i, text in enumerate(queries)]
        mixed = mechanism.mix(log_pmfs, seeds)
        return mixed, self._admit(mixed, queries)

    def _segments(
        self, starts: Sequence[int], stops: Sequence[int]
    ) -> Iterator[list[tuple[int, int, int]]]:
        """Groups (text, start, stop), in order, so that each group is read at once.

        A text is cut only if it needs more than `_LONGER` times the usual number of queries; padded
        texts together stay below that, too.
        """
        size = self._queries_at_once()
        group: list[tuple[int, int, int]] = []
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            for first in range(start, stop, _LONGER * size):
                one = (i, first, min(stop, first + _LONGER * size))
                _, firsts, lasts = zip(*group, one, strict=True)
                padded = len(firsts) * (max(lasts) - min(firsts))
                if group and (sum(lasts) - sum(firsts) > size or padded > _LONGER * size):
                    yield group
                    group = []
                group.append(one)
        if group:
            yield group

    def _seed(self, number: int, context: Tokens) -> bytes:
        """Gives the 256-bit seed of one query's noise and sampled token.

        It depends on the query's text, so a killed session that meets another query at the same
        place shares no randomness with answers already given. The same query at the same place is
        a replay and gets the same answer.
        """
        text = json.dumps([number, *context]).encode()
        return hashlib.blake2b(text, digest_size=32, key=self._key).digest()

    def _queries_at_once(self) -> int:
        return max(1, _PMFS_AT_ONCE // (self._service.models * self._public.vocabulary))


def uniforms(seeds: Sequence[bytes]) -> np.ndarray:
    """Draws a number in [0, 1) for each query's token, independent of its noise."""
    digests = (hashlib.blake2b(seed, digest_size=8, person=b"token").digest() for seed in seeds)
    return np.array([(int.from_bytes(digest, "big") >> 11) * 2.0**-53 for digest in digests])


def _rows(steps: Sequence[Mixed], i: int) -> Mixed:
    """Collects the i-th query of every step, the tokens of text i, as one Mixed on the CPU."""
    local = [mixed.aside.local[i] for mixed in steps if mixed.aside.local is not None]
    return Mixed(
        log_h=torch.empty(0),  # V numbers a token, dropped to save memory
        lambdas=torch.stack([mixed.lambdas[i] for mixed in steps]).cpu(),
        charges=torch.stack([mixed.charges[i] for mixed in steps]).cpu(),
        aside=Aside(local=torch.stack(local).cpu()) if local else Aside(),
    )
