"""Name leak: does the release name people whom it was trained on?

R_name of SeqPATE (Tian et al., NeurIPS 2022, appendix): the share of generated texts that contain
the full name of a user of the training data. Texts are prompted by the first tokens of held-out
texts, and a name that stands in the prompt is no leak. Beside it, where probabilities can be read,
each name is reconstructed from the text before it, against decoys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks import _names
from audit.core.attack import Attack, Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Mentions, Successes
from audit.core.language_model import runs_of
from audit.core.predictor import Access, Predictor, Tokenizer, Tokens, affordable
from audit.core.secret import Secret

_AT_ONCE = 512  # queries of one call: a session may hold a whole distribution for each of them
_ATTEMPTS = 100  # draws from a small space for each decoy wanted


@dataclass(frozen=True)
class NameLeak(Attack):
    """Counts generated texts that name somebody, and picks each name out of decoys.

    generations: how many texts are sampled; fewer where a session's budget does not reach.
    length: tokens of each.
    prefix: tokens of the held-out text that it is prompted with, after the start token.
    decoys: names that each secret's name is compared with; fewer where there are not as many.
    pipeline: name or folder of an installed trained spaCy pipeline, for names of anybody else.
    """

    generations: int = 100
    length: int = 32
    prefix: int = 4
    decoys: int = 9
    pipeline: str | None = None
    kinds = ("name",)
    access = Access.GENERATE

    def __post_init__(self) -> None:
        least = {"generations": 1, "length": 1, "prefix": 0, "decoys": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value < smallest:
                raise UsageError(f"name_leak: {name} is {value}; it must be at least {smallest}")
        if self.pipeline is not None:
            _names.load_pipeline(self.pipeline)  # a missing one is told before anything is trained

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """Every decoy is counted as long as the longest name among the secrets."""
        targets = [secrets[i] for i in _names.attributable(secrets).values()]
        tails = [_names.continuations(tokenizer, s.prefix, [s.value])[1][0] for s in targets]
        longest = max(map(len, tails), default=0)
        return self.generations * self.length + len(targets) * (self.decoys + 1) * longest

    def trials(self) -> int:
        return self.generations

    def tests(self, secrets: Sequence[Secret]) -> int:
        """The names generated, and the names reconstructed."""
        return 2

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Generates first; of a limited budget one half is left for reading, where one may."""
        reads = predictor.readable >= Access.SCORE
        budget = predictor.remaining
        if budget is not None and reads:
            budget //= 2
        count = affordable([self.length] * self.generations, budget)
        mentions = self._mentions(self._generate(predictor, knowledge.texts, count), secrets)
        contests = _contests(predictor, secrets, self.decoys, knowledge) if reads else []
        return [mentions, _reconstruct(predictor, secrets, contests)]

    def _generate(
        self, predictor: Predictor, texts: Sequence[str], count: int
    ) -> list[tuple[str, str]]:
        """(prompt, whole text) of each generation; those after STOP are the public model's and
        left out."""
        prompts = _names.prompts(predictor.tokenizer, texts, self.prefix, count)
        needed = self.length + max(map(len, prompts), default=0)
        if needed > predictor.max_length:
            raise UsageError(
                f"name_leak: prompt and generation are {needed} tokens, but the model reads "
                f"{predictor.max_length}; give a smaller length or prefix"
            )
        answers = predictor.generate(prompts, self.length)
        return [
            _read(predictor.tokenizer, prompt, answer.tokens)
            for prompt, answer in zip(prompts, answers, strict=True)
            if answer.answered == self.length
        ]

    def _mentions(
        self, generated: Sequence[tuple[str, str]], secrets: Sequence[Secret]
    ) -> Mentions:
        """Whom each generated text names, its prompt apart."""
        find = _names.finder(secret.value for secret in secrets)
        index = _names.attributable(secrets)
        named = [
            {index[span.label_] for span in _names.mentions(find, *one) if span.label_ in index}
            for one in generated
        ]
        others = np.full(len(generated), np.nan)
        if self.pipeline is not None:
            pipeline = _names.load_pipeline(self.pipeline)
            others[:] = [_names.others(pipeline, find, *one) for one in generated]
        return Mentions(
            named=tuple(tuple(sorted(indices)) for indices in named),
            others=others,
            texts=tuple(text for _, text in generated),
        )


def _read(tokenizer: Tokenizer, prompt: Tokens, generated: Tokens) -> tuple[str, str]:
    """(the prompt as text, the whole text with it), both without the start token."""
    given = list(prompt[1:])
    return (
        tokenizer.decode(given),
        tokenizer.decode([*given, *_names.until_stop(tokenizer, generated)]),
    )


@dataclass(frozen=True)
class _Contest:
    """One name against its decoys. tails: the tokens of each after `head`, the name's first."""

    name: str
    head: list[int]
    tails: list[list[int]]

    @property
    def cost(self) -> int:
        """Queries."""
        return sum(map(len, self.tails))


def _contests(
    predictor: Predictor, secrets: Sequence[Secret], decoys: int, knowledge: Knowledge
) -> list[_Contest]:
    """One contest for each name, in the order of the secrets, all with as many decoys."""
    taken = {secret.value for secret in secrets}
    people = dict.fromkeys(knowledge.names)
    pool = [name for name in people if name.strip() and name not in taken]
    targets = [secrets[i] for i in _names.attributable(secrets).values()]
    drawn = [_decoys(target, decoys, pool, taken, knowledge.stream) for target in targets]
    fewest = min(map(len, drawn), default=0)
    contests = []
    for target, names in zip(targets, drawn, strict=True):
        values = [target.value, *names[:fewest]]
        context, tails = _names.continuations(predictor.tokenizer, target.prefix, values)
        head = [predictor.tokenizer.start, *context]
        # the same context for all of them: as much as the longest leaves room for
        room = predictor.max_length - max(map(len, tails))
        if fewest and room > 0 and all(tails):
            contests.append(_Contest(target.value, head[-room:], tails))
    return contests


def _decoys(
    secret: Secret,
    count: int,
    pool: Sequence[str],
    taken: set[str],
    stream: np.random.Generator,
) -> list[str]:
    """At most `count` different names of nobody's: from the secret's own space, or the pool."""
    if secret.space is None:
        return [pool[int(i)] for i in stream.permutation(len(pool))[:count]]
    drawn: dict[str, None] = {}
    for _ in range(_ATTEMPTS * count):
        if len(drawn) == count:
            break
        value = secret.space.draw(stream)
        if value not in taken:
            drawn[value] = None
    return list(drawn)


def _reconstruct(
    predictor: Predictor, secrets: Sequence[Secret], contests: Sequence[_Contest]
) -> Successes:
    """Whether each name is the most likely one, ties lost; as many as the budget allows."""
    chosen = contests[: affordable([c.cost for c in contests], predictor.remaining)]
    won: dict[str, float] = {}
    for some in runs_of([contest.cost for contest in chosen], _AT_ONCE):
        won |= _play(predictor, chosen[some])
    return Successes(
        metric="targeted",
        unit="share of planted names",
        won=np.array([won.get(secret.value, np.nan) for secret in secrets]),
        chance=1 / len(contests[0].tails) if contests else None,
    )


def _play(predictor: Predictor, contests: Sequence[_Contest]) -> dict[str, float]:
    """Name → 1.0 or 0.0, of the contests that were answered in full."""
    heads = [contest.head for contest in contests for _ in contest.tails]
    tails = [tail for contest in contests for tail in contest.tails]
    answers = iter(predictor.score(heads, tails))
    won = {}
    for contest in contests:
        own, *others = [next(answers) for _ in contest.tails]
        if all(a.answered == len(a.tokens) for a in (own, *others)):
            won[contest.name] = float(own.log_probs.sum() > max(a.log_probs.sum() for a in others))
    return won
