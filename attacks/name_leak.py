"""Name leak: counts generated texts that name people of the training data.

R_name of SeqPATE (Tian et al., NeurIPS 2022, appendix) is the share of generated texts that contain
the full name of a user of the training data. Counted are the users for whom a coin decided about
the training (`planting.users` of them; all, where the figure is held against the paper's). Prompts
are the first tokens of held-out texts, and names in the prompt do not count. If probabilities can
be read, each name is also reconstructed from the text before it, against decoys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from attacks.texts import naming
from audit.core.attack import Attack, Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Mentions, Successes
from audit.core.language_model import runs_of
from audit.core.predictor import Access, Answer, Given, Predictor, Tokenizer, Tokens, affordable
from audit.core.rules import at_least, between
from audit.core.secret import Secret

_AT_ONCE = 512  # queries a call: a session may store a whole distribution for each
_FEW = 9  # decoys where queries are few: more names tell more than more decoys
_ATTEMPTS = 100  # most draws for each decoy, which a small space repeats


@dataclass(frozen=True)
class NameLeak(Attack):
    """Counts generated texts that name users, and reconstructs each name against decoys.

    generations: number of generated texts, fewer if the session's budget is too small; at least 1.
    length: tokens of each generated text; at least 1.
    prefix: tokens of a held-out text that form a prompt after the start token; at least 0.
    decoys: names compared with each name, fewer if there are not enough, and at most 9 where
        a session has a budget of queries; at least 1.
    pipeline: name or folder of a trained spaCy pipeline to count names of other people, too;
        default none.
    """

    generations: Annotated[int, between(1, 1_000_000)] = 100
    length: Annotated[int, at_least(1)] = 32
    prefix: Annotated[int, at_least(0)] = 4
    decoys: Annotated[int, at_least(1)] = 39
    pipeline: str | None = None
    kinds = ("name",)
    access = Access.GENERATE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pipeline is not None:
            naming.load_pipeline(self.pipeline)  # reports a missing one before any training

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        nobody = Mentions(((),) * self.generations, np.full(self.generations, np.nan))
        return [nobody, _targeted(np.full(len(secrets), np.nan), None)]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Generate first; of a limited budget, half is reserved for reading if it is possible."""
        reads = predictor.readable >= Access.SCORE
        budget = predictor.remaining
        if budget is not None and reads:
            budget //= 2
        count = affordable([self.length] * self.generations, budget)
        generated = self._generate(predictor, knowledge.texts, count)
        mentions = self._mentions(generated, secrets, len(generated) == count)
        contests = _contests(predictor, secrets, self.decoys, knowledge) if reads else []
        return [mentions, _reconstruct(predictor, secrets, contests)]

    def _generate(self, predictor: Predictor, texts: Sequence[str], count: int) -> list[_Text]:
        """Generate texts; drop those after STOP, which are the public model's."""
        prompts = naming.prompts(predictor.tokenizer, texts, self.prefix, count)
        needed = self.length + max(map(len, prompts), default=0)
        if needed > predictor.max_length:
            raise UsageError(
                f"name_leak: prompt and generation are {needed} tokens, but the model reads "
                f"{predictor.max_length}; give a smaller length or prefix"
            )
        answers = predictor.generate(prompts, self.length)
        return [
            _read(predictor.tokenizer, prompt, answer)
            for prompt, answer in zip(prompts, answers, strict=True)
            if answer.answered == self.length
        ]

    def _mentions(
        self, generated: Sequence[_Text], secrets: Sequence[Secret], whole: bool
    ) -> Mentions:
        """Find the people that each generated text names after its prompt."""
        find = naming.finder(secret.value for secret in secrets)
        index = naming.attributable(secrets)
        named = [
            {
                index[span.label_]
                for text in one.texts
                for span in naming.mentions(find, one.prompt, text)
                if span.label_ in index
            }
            for one in generated
        ]
        missed = sum(one.cut and not found for one, found in zip(generated, named, strict=True))
        others = np.full(len(generated), np.nan)
        if self.pipeline is not None:
            pipeline = naming.load_pipeline(self.pipeline)
            others[:] = [
                naming.names_another(pipeline, find, one.prompt, one.texts[0]) for one in generated
            ]
        return Mentions(
            named=tuple(tuple(sorted(indices)) for indices in named),
            others=others,
            texts=tuple(one.texts[0] for one in generated),
            whole=whole,
            withheld=(missed,) if missed else (),
        )


@dataclass(frozen=True)
class _Text:
    """A prompt, the texts that continue it, the generation first, and whether this was cut."""

    prompt: str
    texts: tuple[str, ...]
    cut: bool


def _read(tokenizer: Tokenizer, prompt: Tokens, answer: Answer) -> _Text:
    """Decode the prompt and the whole text, both without the start token."""
    given = list(prompt[1:])
    before = tokenizer.decode(given)
    text = tokenizer.decode([*given, *naming.until_stop(tokenizer, answer.tokens)])
    more = (f"{before} {one}" for one in answer.more)
    return _Text(before, (text, *more), answer.given in (Given.CUT, Given.WITHHELD))


@dataclass(frozen=True)
class _Contest:
    """One name against its decoys. tails: tokens of each after `head`, beginning with the name."""

    name: str
    head: list[int]
    tails: list[list[int]]

    @property
    def cost(self) -> int:
        """Number of queries."""
        return sum(map(len, self.tails))


def _contests(
    predictor: Predictor, secrets: Sequence[Secret], decoys: int, knowledge: Knowledge
) -> list[_Contest]:
    """Make one contest for each name, in the order of secrets, with equally many decoys."""
    taken = {secret.value for secret in secrets}
    people = dict.fromkeys(knowledge.names)
    pool = [name for name in people if name.strip() and name not in taken]
    targets = [secrets[i] for i in naming.attributable(secrets).values()]
    drawn = [_decoys(target, decoys, pool, taken, knowledge.stream) for target in targets]
    fewest = min(map(len, drawn), default=0)
    contests = []
    for target, names in zip(targets, drawn, strict=True):
        values = [target.value, *names[:fewest]]
        context, tails = naming.continuations(predictor.tokenizer, target.prefix, values)
        head = [predictor.tokenizer.start, *context]
        # all use the same context, which leaves room for the longest tail
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
    """Draw up to `count` distinct names of no user, from the secret's space or the pool."""
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
    """Test whether each name is the most likely one, ties lost, within the budget."""
    budget = predictor.remaining
    if budget is not None:
        contests = [replace(c, tails=c.tails[: 1 + _FEW]) for c in contests]
    chosen = contests[: affordable([c.cost for c in contests], budget)]
    won: dict[str, float] = {}
    for some in runs_of([contest.cost for contest in chosen], _AT_ONCE):
        won |= _play(predictor, chosen[some])
    return _targeted(
        np.array([won.get(secret.value, np.nan) for secret in secrets]),
        chance=1 / len(contests[0].tails) if contests else None,
    )


def _targeted(won: np.ndarray, chance: float | None) -> Successes:
    return Successes("targeted", "share of planted names", won, chance)


def _play(predictor: Predictor, contests: Sequence[_Contest]) -> dict[str, float]:
    """Play contests: map names to 1.0 or 0.0; omit contests that STOP interrupted."""
    heads = [contest.head for contest in contests for _ in contest.tails]
    tails = [tail for contest in contests for tail in contest.tails]
    answers = iter(predictor.score(heads, tails))
    won = {}
    for contest in contests:
        own, *decoys = [next(answers) for _ in contest.tails]
        if all(a.answered == len(a.tokens) for a in (own, *decoys)):
            won[contest.name] = float(own.log_probs.sum() > max(a.log_probs.sum() for a in decoys))
    return won
