"""Sessions with an ensemble behind a mechanism: every query is charged before it is answered."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch

from audit.core.ensemble import Ensemble
from audit.core.language_model import (
    NOTHING,
    LanguageModel,
    R,
    answers_of,
    at_once,
    draw,
    equal_length_batches,
    read_in_parts,
    read_tokens,
    sample,
)
from audit.core.law import Law
from audit.core.ledger import Ledger
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from defenses.ensembles.accounts import Account
from defenses.ensembles.mechanism import Mechanism, Mixed
from defenses.ensembles.segments import Sizes, grouped, unanswered

_GENERATED = -1  # stands for the unknown token in the mark of a generated query
_PMFS_AT_ONCE = 1 << 21  # float64 numbers of member pmfs read at once: 16 MiB
_LEAST = 8  # queries read at once: with a large vocabulary, a model's head is read for each group
_IN_PARTS = 64  # queries read at once where few of their pmfs are held at a time
_LONGER = 8  # times as many for one long text: each group reads it again from its beginning


@dataclass(frozen=True)
class Service:
    """An ensemble behind a mechanism. models: how many models the ensemble reads.

    public: the model that answers after STOP.
    """

    mechanism: Mechanism
    account: Account
    ensemble: Ensemble
    models: int
    public: LanguageModel


class EnsembleSession:
    """One session with a ledger for every part and a budget of B queries (a Predictor).

    Queries are numbered in the order of the caller's lists. Batches are computed ahead, but
    charged, stopped and answered in that order, so batching cannot move STOP. A prompt that is
    drawn alone is charged token by token, so an account that allows no more than one prompt ahead
    decides before each token which parts it includes.

    secret: key of the randomness besides the stream; b"" if the stream alone determines it.
    """

    readable = Access.DISTRIBUTION

    def __init__(
        self, service: Service, ledger: Ledger, stream: np.random.Generator, secret: bytes = b""
    ) -> None:
        self._service = service
        self._account = service.account
        self._public = service.public
        self._ledger = ledger
        self._stream = stream
        own = stream.spawn(1)[0].bytes(32)  # takes nothing from the stream itself
        self._key = hashlib.blake2b(own, key=secret, digest_size=32).digest()
        self.access = service.mechanism.access
        self.tokenizer: Tokenizer = service.public.tokenizer
        self.max_length = service.public.max_length

    @property
    def remaining(self) -> int | None:
        """Queries left of B. The ε left to each part is private and stays hidden."""
        return self._account.remaining(self._ledger)

    @property
    def _stopped(self) -> bool:
        return self._account.stopped(self._ledger)

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        after = self._stream.random((len(prompts), length))  # for the public model, after STOP
        answers: list[Answer] = []
        tokens = max(map(len, prompts), default=0) + length
        size = min(self.at_once, self._account.ahead, self._sizes.tokens // max(1, tokens)) or 1
        for first in range(0, len(prompts), size):
            rows = slice(first, first + size)
            answers += self._generate_some(prompts[rows], after[rows])
        self._ledger.flush()
        return answers

    def _generate_some(self, prompts: Sequence[Tokens], after: np.ndarray) -> list[Answer]:
        if len(prompts) == 1:
            return [self._in_order(prompts[0], after[0])]
        ahead: list[tuple[Answer, Mixed] | None] = [None] * len(prompts)
        if not self._stopped:
            length = after.shape[1]
            for batch in equal_length_batches(prompts, len(prompts)):
                numbers = [self._ledger.queries + i * length for i in batch]
                drawn = self._draw([prompts[i] for i in batch], length, numbers)
                for i, one in zip(batch, drawn, strict=True):
                    ahead[i] = one
        return [
            self._released(prompt, row, one)
            for prompt, row, one in zip(prompts, after, ahead, strict=True)
        ]

    def _released(
        self, prompt: Tokens, after: np.ndarray, ahead: tuple[Answer, Mixed] | None
    ) -> Answer:
        """Join the admitted tokens of an answer computed ahead with the public model's."""
        if ahead is None:
            self._ledger.skip(len(after))
            return self._finished(prompt, NOTHING, after)
        whole, mixed = ahead
        texts = [(*prompt, *whole.tokens[:i], _GENERATED) for i in range(len(after))]
        admitted = self._account.admit(self._ledger, mixed, self._marks(texts)).count
        begun = whole.tokens[:admitted], whole.log_probs[:admitted], whole.top1[:admitted]
        return self._finished(prompt, Answer(*begun, admitted), after)

    def _finished(self, prompt: Tokens, begun: Answer, after: np.ndarray) -> Answer:
        """Join the tokens of an answer before STOP with the public model's."""
        admitted = len(begun.tokens)
        if admitted == len(after):
            return begun
        rest = draw(self._public, [[*prompt, *begun.tokens]], after[None, admitted:])[0]
        return Answer(
            begun.tokens + rest.tokens,
            np.concatenate([begun.log_probs, rest.log_probs]),
            np.concatenate([begun.top1, rest.top1]),
            answered=admitted,
        )

    def _in_order(self, prompt: Tokens, after: np.ndarray) -> Answer:
        """Draw the tokens after one prompt, each charged before the next is read."""
        end = self._ledger.queries + len(after)
        columns = [] if self._stopped else list(self._tokens(prompt, len(after)))
        self._ledger.skip(end - self._ledger.queries)
        tokens, log_probs, top1 = zip(*columns, strict=True) if columns else ((), (), ())
        begun = Answer(tokens, np.array(log_probs), np.array(top1, dtype=bool), len(tokens))
        return self._finished(prompt, begun, after)

    def _tokens(self, prompt: Tokens, length: int) -> Iterator[tuple[int, float, bool]]:
        """Draw tokens until STOP; return each, its log-probability, nats, and whether none is
        likelier."""
        cursor, text = self._service.ensemble.cursor([prompt]), [*prompt]
        for _ in range(length):
            mixed, seeds, admitted = self._answer(cursor.log_pmfs(), [[*text, _GENERATED]])
            if not admitted:
                return
            chosen = sample(mixed.log_h, uniforms(seeds))
            cursor.append(chosen)
            text.append(token := int(chosen))
            yield token, float(mixed.log_h[0, token]), int(mixed.log_h.argmax()) == token

    def _answer(
        self, log_pmfs: torch.Tensor, queries: Sequence[Tokens]
    ) -> tuple[Mixed, list[bytes], int]:
        """Mix and charge the answers to queries, contexts and a token each; return their seeds,
        and how many were admitted.

        The public model takes the place of parts whose accounts do not hold a query's cost.
        """
        marks = self._marks(queries)
        places = self._account.places(self._ledger, marks)
        seeds = [self._seed(n, query[:-1]) for n, query in zip(places, queries, strict=True)]
        log_pmfs = distributions(log_pmfs)
        mixed = self._service.mechanism.mix(log_pmfs, seeds)
        admitted = self._account.admit(self._ledger, mixed, marks)
        if admitted.heard is not None and not admitted.heard[: admitted.count].all():
            mixed = self._service.mechanism.mix(emptied(log_pmfs, admitted.heard), seeds)
        return mixed, seeds, admitted.count

    def _marks(self, queries: Sequence[Tokens]) -> list[str]:
        return list(map(self._ledger.mark, queries))

    def _draw(
        self, prompts: Sequence[Tokens], length: int, numbers: Sequence[int]
    ) -> list[tuple[Answer, Mixed]]:
        """Draw answers as if nothing stopped; each Mixed has one row a token.

        numbers: number of the first query of each prompt.
        """
        cursor = self._service.ensemble.cursor(prompts)
        texts = [list(prompt) for prompt in prompts]
        log_probs, top1, steps = [], [], []
        for step in range(length):
            seeds = [self._seed(n + step, t) for n, t in zip(numbers, texts, strict=True)]
            mixed = self._service.mechanism.mix(distributions(cursor.log_pmfs()), seeds)
            chosen = sample(mixed.log_h, uniforms(seeds))
            cursor.append(chosen)
            for text, token in zip(texts, chosen.tolist(), strict=True):
                text.append(token)
            log_probs.append(mixed.log_h.gather(1, chosen[:, None])[:, 0].cpu())
            top1.append((mixed.log_h.argmax(dim=1) == chosen).cpu())
            steps.append(_charged(mixed))
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
        tokens = iter([token for tail in continuations for token in tail])

        def answer(mixed: Mixed, admitted: int) -> Answer:
            some = list(islice(tokens, len(mixed.log_h)))
            return replace(
                read_tokens(some, mixed.log_h, moments, mixed.log_caps), answered=admitted
            )

        return answers_of(continuations, self._read(texts, list(map(len, prefixes)), answer))

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        texts = [[*context, choices[0]] for context in contexts]
        read = self._read(
            texts,
            list(map(len, contexts)),
            lambda mixed, admitted: (mixed.log_h[:, list(choices)].cpu(), admitted),
        )
        rows = torch.cat([torch.empty(0, len(choices)), *(some for some, _ in read)])
        return rows.double().numpy(), sum(n for _, n in read)

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        """Return the law of the answer at each token, of those that are admitted before STOP."""
        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]

        def law(mixed: Mixed, admitted: int) -> Law | None:
            return (mixed.law or Law(mixed.log_h.cpu().numpy())) if admitted else None

        read = self._read(texts, list(map(len, prefixes)), law)
        laws = [some for some in read if some is not None]
        if not laws:
            return Law(np.empty((0, self._public.vocabulary)))
        return replace(laws[0], log_pmfs=np.concatenate([law.log_pmfs for law in laws]))

    def _read(
        self,
        texts: Sequence[Tokens],
        starts: Sequence[int],
        use: Callable[[Mixed, int], R],
    ) -> list[R]:
        """Answer every text[start:], in pieces that fit in memory; charges are on disk afterwards.

        use: called with each piece, in order, and how many of its queries were admitted: all, or
            none after STOP, where log h is the public model's.
        """
        used: list[R] = []
        for segments in grouped(starts, list(map(len, texts)), self._sizes):
            some = [texts[i][:stop] for i, _, stop in segments]
            firsts = [start for _, start, _ in segments]
            answered = self._answered(some, firsts, use)
            used += [one for one, _ in answered]
            some, firsts = unanswered(some, firsts, sum(n for _, n in answered))
            if some:
                used += read_in_parts(self._public, some, firsts, lambda p, _: use(Mixed(p), 0))
        self._ledger.flush()
        return used

    def _answered(
        self, texts: Sequence[Tokens], starts: Sequence[int], use: Callable[[Mixed, int], R]
    ) -> list[tuple[R, int]]:
        """Charge every text[start:]; use the answers before STOP, and count those of each piece."""
        pairs = zip(texts, starts, strict=True)
        queries = [text[: i + 1] for text, start in pairs for i in range(start, len(text))]
        if self._stopped:
            self._ledger.skip(len(queries))
            return []

        def answer(log_pmfs: torch.Tensor, at: slice) -> tuple[R, int] | None:
            if self._stopped:
                self._ledger.skip(len(log_pmfs))
                return None
            mixed, _, n = self._answer(log_pmfs, queries[at])
            return (use(mixed.first(n), n), n) if n else None

        read = self._service.ensemble.in_parts(texts, starts, answer)
        return [one for one in read if one is not None]

    def _seed(self, number: int, context: Tokens) -> bytes:
        """Return the 256-bit seed of one query's noise and sampled token.

        It depends on the query's text, so a killed session that meets another query at the same
        place shares no randomness with answers already given. The same query at the same place is
        a replay and gets the same answer.
        """
        text = json.dumps([number, *context]).encode()
        return hashlib.blake2b(text, digest_size=32, key=self._key).digest()

    @property
    def at_once(self) -> int:
        """Return the number of queries whose pmfs are held together."""
        return max(_LEAST, _PMFS_AT_ONCE // self._numbers)

    @property
    def _numbers(self) -> int:
        return self._service.models * self._public.vocabulary

    @property
    def _sizes(self) -> Sizes:
        """Return how much is read together."""
        size, ensemble = self.at_once, self._service.ensemble
        if ensemble.is_parted:
            size = max(size, _IN_PARTS)
            return Sizes(size, _LONGER * size, at_once(sys.maxsize, 1, ensemble.kept))
        longest = min(_LONGER * size, _LONGER * _PMFS_AT_ONCE // self._numbers)
        return Sizes(size, max(size, longest), sys.maxsize)


def uniforms(seeds: Sequence[bytes]) -> np.ndarray:
    """Draw a number in [0, 1) for each query's token, independent of its noise."""
    digests = (hashlib.blake2b(seed, digest_size=8, person=b"token").digest() for seed in seeds)
    return np.array([(int.from_bytes(digest, "big") >> 11) * 2.0**-53 for digest in digests])


def distributions(log_pmfs: torch.Tensor) -> torch.Tensor:
    """Replace what is not a distribution by the uniform one: log-pmfs (…, V), nats.

    The worst case covers every distribution, but broken weights may give none at all.
    """
    sums = log_pmfs.logsumexp(dim=-1, keepdim=True)
    is_one = sums.abs() < 1e-3  # NaN compares false
    if bool(is_one.all()):
        return log_pmfs
    uniform = torch.full_like(log_pmfs, -math.log(log_pmfs.shape[-1]))
    return torch.where(is_one, log_pmfs, uniform)


def emptied(log_pmfs: torch.Tensor, heard: np.ndarray) -> torch.Tensor:
    """Put the public model, the last of (n, k + 1, V), in the place of parts that are not in
    `heard`, (n, k)."""
    own = torch.from_numpy(heard).to(log_pmfs.device)[..., None]
    public = log_pmfs[:, -1:]
    return torch.cat([torch.where(own, log_pmfs[:, :-1], public), public], dim=1)


_NO_ANSWER = torch.empty(0)


def _charged(mixed: Mixed) -> Mixed:
    """Keep what is charged; V numbers a token are dropped to save memory."""
    return Mixed(_NO_ANSWER, mixed.weights, mixed.costs)


def _rows(steps: Sequence[Mixed], i: int) -> Mixed:
    """Collect the i-th query of every step, the tokens of text i, as one Mixed on the CPU."""
    weights = [mixed.weights[i] for mixed in steps if mixed.weights is not None]
    costs = [mixed.costs[i] for mixed in steps if mixed.costs is not None]
    return Mixed(
        _NO_ANSWER,
        weights=torch.stack(weights).cpu() if weights else None,
        costs=torch.stack(costs).cpu() if costs else None,
    )
