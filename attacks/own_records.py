"""Own records: does the model go on with a user's own words, and nobody else's?

It is prompted with the beginnings of records of real users with coins, heads and tails alike, and
of other users, who were trained on. A hit is a run of tokens of the user's own records that stands
neither in the prompt nor with any other user of the corpus as it was before the coins. A user's own
records never count against that user: else nobody set aside could be hit, and fair coins would look
like a leak. So does a value that the policy marks in them, such as a code or a name, after a prompt
without it. Of users with coins, hits are tests; of others, each is an exhibit beside what the base
model writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from attacks.texts.own_runs import Copy, OwnRuns, Prompt
from attacks.texts.own_values import named, own_values
from audit.core.attack import Attack, Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Exhibits, Likelihoods, Successes
from audit.core.predictor import Access, Predictor, Tokens, affordable
from audit.core.rules import at_least
from audit.core.secret import OWN, Secret

Answers = list[tuple[Prompt, Tokens]]
_BY_SAMPLING = ("own_sampled", "own_values")


@dataclass(frozen=True)
class OwnRecords(Attack):
    """Prompts with beginnings of real users' records, and looks for their own words in the answers.

    k: tokens of a run that counts; at least 1.
    prefix: tokens of a record that a prompt is; at least 1.
    records: most records of a user that are tried; at least 1.
    samples: texts that are sampled after each prompt; 0 samples none.
    others: users without coins that are tried, for exhibits; 0 tries none.
    length: tokens of a sampled text; at least k.
    """

    k: Annotated[int, at_least(1)] = 20
    prefix: Annotated[int, at_least(1)] = 20
    records: Annotated[int, at_least(1)] = 4
    samples: Annotated[int, at_least(0)] = 4
    others: Annotated[int, at_least(0)] = 100
    length: Annotated[int, at_least(1)] = 40
    kinds = (OWN,)
    access = Access.GENERATE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < self.k:
            raise UsageError(
                f"own_records: length is {self.length}; a run of k={self.k} tokens needs as many"
            )

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        unread = np.full(len(secrets), np.nan)
        return [
            *(_share(metric, unread) for metric in _BY_SAMPLING if self.samples),
            _share("own_greedy", unread),
            Likelihoods(unread, kind=OWN),
            *([Exhibits.none(OWN)] if self.others else []),
        ]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Sample first, with half of a limited budget, then read."""
        texts = {secret.owner: secret.records for secret in secrets if secret.kind == OWN}
        others = self._others(texts, knowledge)
        runs = OwnRuns(self.k, predictor.tokenizer, {**texts, **others}, knowledge.corpus)
        prompts = runs.prompts(self.prefix, self.records, self.length, predictor.max_length)
        asked, sampled = self._sample(predictor, prompts)
        read, greedy, chances = self._read(predictor, prompts)
        by_sampling, by_reading = runs.copies(sampled), runs.copies(greedy)
        evidence: list[Evidence] = []
        if self.samples:
            values = own_values(texts.keys(), knowledge.corpus)
            came_up = named(values, sampled, predictor.tokenizer)
            hit = {copy.user for copy in by_sampling if copy.users == 1}
            won = _won(secrets, hit, asked), _won(secrets, came_up, asked & values.keys())
            evidence += map(_share, _BY_SAMPLING, won)
        hit = {copy.user for copy in by_reading if copy.users == 1}
        evidence.append(_share("own_greedy", _won(secrets, hit, read)))
        log_probs = [chances.get(secret.owner, math.nan) for secret in secrets]
        evidence.append(Likelihoods(np.array(log_probs), kind=OWN))
        if self.others:
            places = self.samples * (self.length - self.k + 1) + 1
            tried = [of.user for of in prompts if of.user in others and of.user in asked | read]
            copies = [copy for copy in (*by_sampling, *by_reading) if copy.user in others]
            known = _known(copies, runs.unshared(copies), knowledge.public)
            evidence.append(_exhibits(copies, known, len(tried) * places, len(set(tried))))
        return evidence

    def _others(
        self, texts: Mapping[str, Sequence[str]], knowledge: Knowledge
    ) -> dict[str, list[str]]:
        """Draw users without coins, and collect their records."""
        records: dict[str, list[str]] = {}
        for record in knowledge.corpus:
            if record.split == "private" and record.user not in texts:
                records.setdefault(record.user, []).append(record.text)
        users = sorted(records)
        drawn = knowledge.stream.permutation(len(users))[: self.others]
        return {users[i]: records[users[i]] for i in sorted(drawn.tolist())}

    def _sample(self, predictor: Predictor, prompts: Sequence[Prompt]) -> tuple[set[str], Answers]:
        """Sample after each prompt; return the users who were asked for whole, and the texts."""
        count = len(prompts) * self.samples
        if predictor.remaining is not None:
            count = min(count, predictor.remaining // 2 // self.length)
        each = [prompt for prompt in prompts for _ in range(self.samples)]
        answers = predictor.generate([list(of.head) for of in each[:count]], self.length)
        texts: Answers = [
            (of, answer.tokens[: answer.answered])
            for of, answer in zip(each, answers, strict=False)
        ]
        return _whole(each, count), texts

    def _read(
        self, predictor: Predictor, prompts: Sequence[Prompt]
    ) -> tuple[set[str], Answers, dict[str, float]]:
        """Read how each record goes on; return the users who were asked for whole, what greedy
        decoding writes of their records, and the largest log-probability of the next k tokens.

        Greedy decoding writes the tokens that are all the most likely ones after those before.
        """
        if predictor.readable < Access.SCORE:
            return set(), [], {}
        count = affordable([len(of.tail) for of in prompts], predictor.remaining)
        some = prompts[:count]
        answers = predictor.score([list(of.head) for of in some], [list(of.tail) for of in some])
        greedy: Answers = []
        chances: dict[str, float] = {}
        missed = {
            of.user for of, a in zip(some, answers, strict=False) if a.answered < len(of.tail)
        }
        for of, answer in zip(some, answers, strict=False):
            if of.user not in missed:
                right = int(np.cumprod(answer.top1).sum())
                greedy.append((of, of.tail[:right]))
                chance = float(answer.log_probs[: self.k].sum())
                chances[of.user] = max(chance, chances.get(of.user, -math.inf))
        read = _whole(prompts, count) - missed if answers else set()
        return read, greedy, {user: chances[user] for user in read}


def _whole(prompts: Sequence[Prompt], count: int) -> set[str]:
    """Name the users all of whose prompts are among the first ones."""
    return {of.user for of in prompts[:count]} - {of.user for of in prompts[count:]}


def _won(secrets: Sequence[Secret], hit: Collection[str], asked: Collection[str]) -> np.ndarray:
    """Mark the owners of whom something came up that stands with nobody else; NaN if not asked."""
    return np.array([float(s.owner in hit) if s.owner in asked else math.nan for s in secrets])


def _share(metric: str, won: np.ndarray) -> Successes:
    access = Access.SCORE if metric == "own_greedy" else Access.GENERATE
    return Successes(metric, "share of users", won, None, access, OWN)


def _known(
    copies: Sequence[Copy], unshared: Sequence[np.ndarray], base: Predictor | None
) -> np.ndarray:
    """Read the log-probability of each run under the base after all before it; NaN: unknown.

    Tokens that others' text explains, too, count nothing.
    """
    if base is None or base.readable < Access.SCORE or not copies:
        return np.full(len(copies), np.nan)
    answers = base.score([list(c.before) for c in copies], [list(c.run) for c in copies])
    return np.array(
        [float(answer.log_probs[own].sum()) for answer, own in zip(answers, unshared, strict=True)]
    )


def _exhibits(copies: Sequence[Copy], known: np.ndarray, tried: int, users: int) -> Exhibits:
    """Keep one copy of each user: of a run that stands with the fewest, the least likely one."""
    best: dict[str, tuple[int, float]] = {}
    for copy, log_prob in zip(copies, known.tolist(), strict=True):
        mine = (copy.users, log_prob)
        best[copy.user] = min(mine, best.get(copy.user, mine), key=lambda one: (one[0], one[1]))
    return Exhibits(
        log_probs=np.array([log_prob for _, log_prob in best.values()]),
        users=np.array([count for count, _ in best.values()], dtype=np.int64),
        tried=tried,
        asked=users,
        kind=OWN,
    )
