"""Tests by the answers of a served model whether it learnt what a manifest drew.

What was drawn of a kind is the sentence before its values, and its beacons. Where prompts are
scored, each is ranked among others that might have been drawn. Elsewhere the first word of the
sentence, and the whole sentence of the beacons, are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.model import TextTokenizer
from audit.core.predictor import Access, Predictor, Tokenizer, continuation
from audit.core.randomness import stream
from audit.measure.session import Looked
from audit.models.endpoint.chat import ChatSession
from audit.models.endpoint.session import Served
from audit.prepare.run import Run
from audit.silence import beacons, form
from audit.silence.accounts import LEVEL, Learnt
from audit.silence.drawn_words import ByTier, Sentence, beacons_of, sentences
from audit.silence.learnt import Gain
from audit.silence.sightings import times
from audit.silence.surroundings import (
    Surroundings,
    Values,
    generated,
    said_by_users,
    templates_of,
)
from audit.statistics.first_words import FirstWord, split
from audit.statistics.fisher import combined_p_value

EACH = 1_000  # texts to compare, with what was drawn, for each way: the best has p = 0.001 / ways
_AT_ONCE = 50  # of them, until it is known whether more are needed
FEWEST_SENTENCES = 1000  # with the same first word, for each way that is tried
_TEMPLATES = 2  # behind which values are scored
_TRIES = 15  # of the sentence behind each: where one try in four is a leak, 9 in 10 see two
_MORE = 2  # tokens, by which what might have been drawn may be longer

Prompts = tuple[list[list[int]], int]  # and the tokens to sample after each


@dataclass(frozen=True)
class Drawn:
    """The texts that a manifest drew of a kind, and how often it is asked.

    sentence: None where it is not asked, or was not drawn among many. words: how often its first
    word is asked, and all of it behind templates. tiers: its beacons. tries: how often their
    sentence is asked; 0: no attack generates values of the kind. seed: of the others that are
    drawn. values: of people in and out.
    """

    sentence: Sentence | None
    words: int
    tiers: ByTier
    tries: int
    seed: int
    values: Values

    @property
    def ways(self) -> int:
        return (self.sentence is not None) + bool(self.tiers)

    @property
    def others(self) -> int:
        """Count the others that each is ranked among."""
        return EACH * self.ways - 1

    def scored(self) -> Iterator[tuple[Sentence, np.random.Generator]]:
        """Yield the sentence, then each beacon after its own, with the draws of their others."""
        if self.sentence is not None:
            words = stream(self.seed, "silence", "words", self.sentence.draw.value)
            yield self.sentence, words
        for some in self.tiers.values():
            for one in some:
                value = stream(self.seed, "silence", "beacon", one.value)
                yield Sentence(one.prefix, one.draw), value

    def first_word(self) -> FirstWord | None:
        """Split the sentence; None where too few others begin alike."""
        if self.sentence is None:
            return None
        word = split(self.sentence.draw.space.symbols, self.sentence.draw.value)
        return word if word.sentences >= FEWEST_SENTENCES * self.ways else None

    def of_first_word(self, word: FirstWord, tokenizer: Tokenizer) -> Prompts:
        assert self.sentence is not None
        prompt, whole = (
            self.sentence.prompt(tokenizer, text) for text in (word.word, self.sentence.draw.value)
        )
        return [prompt] * self.words, len(whole) - len(prompt) + _MORE

    def behind(
        self, tokenizer: Tokenizer, chat: bool = False
    ) -> tuple[dict[str, list[list[int]]], int]:
        """List prompts of the whole sentence by the words before it, and the tokens to sample.

        chat: whether conversations alone are answered, of which servers change unusual ones.
        """
        if self.sentence is None or self.values.space is None:
            return {}, 0
        frame, words = self.sentence.frame, self.sentence.draw.value
        if chat and isinstance(tokenizer, TextTokenizer):
            every = said_by_users(tokenizer)
        else:
            every = [*templates_of(tokenizer, frame)]
        prompts = {w: [[tokenizer.start, *tokenizer.encode(w + words)]] * _TRIES for w in every}
        return prompts, self._longest(tokenizer)

    def of_values(self, tokenizer: Tokenizer) -> Prompts:
        """List prompts of the whole sentence as attacks ask, and the tokens to sample."""
        question = self.question(tokenizer)
        if question is None:
            return [], 0
        prompt = [tokenizer.start, *tokenizer.encode(question.words)]
        return [prompt] * _TRIES, self._longest(tokenizer)

    def question(self, tokenizer: Tokenizer) -> form.Question | None:
        """Return the words that values follow, as attacks ask; None where they are not asked."""
        if self.sentence is None or self.values.space is None:
            return None
        value = self.values.secrets[0].value
        return form.Question.of(tokenizer, self._before, self.values.space, value)

    @property
    def _before(self) -> str:
        """The frame and the sentence."""
        assert self.sentence is not None
        return self.sentence.frame + self.sentence.draw.value

    def _longest(self, tokenizer: Tokenizer) -> int:
        """Count the tokens that a value may take after the sentence."""
        texts = (self._before + value for value in ("", *(s.value for s in self.values.secrets)))
        head, *whole = (len(tokenizer.encode(text)) for text in texts)
        return max(whole) - head + _MORE

    def surroundings(self, session: Predictor, base: Predictor | None) -> Surroundings:
        assert self.sentence is not None
        return Surroundings(session, base, self.sentence.draw, self.sentence.frame, _TEMPLATES)

    def form_of_beacons(self, tokenizer: Tokenizer, answers: Sequence[str]) -> form.Form | None:
        """Count the answers to the sentence of beacons that begin as their values do."""
        one = next((one for some in self.tiers.values() for one in some), None)
        if one is None or not answers:
            return None
        question = form.Question.of(tokenizer, one.prefix, one.space, one.value)
        return question.counted(answers)

    def of_beacons(self, tokenizer: Tokenizer) -> Prompts:
        every = [one for some in self.tiers.values() for one in some]
        prompt = [tokenizer.start, *tokenizer.encode(every[0].prefix)] if every else []
        longest = max((len(continuation(tokenizer, b.prefix, b.value)) for b in every), default=0)
        return [prompt] * (self.tries if every else 0), longest + _MORE


def drawn(run: Run, kind: str, words: int) -> Drawn:
    """Collect what is asked of a kind. words: how often its sentence is; 0: not."""
    tiers = beacons_of(run).get(kind, {})
    attacks = [c for c in run.plan.attacks if kind in c.plugin.kinds]
    tries = max((times(run, c, kind, tiers) or 0 for c in attacks), default=0) if tiers else 0
    sentence = sentences(run).get(kind) if words else None
    values = Values.of(run.planted.secrets, run.planted.coins, kind)
    return Drawn(sentence, words, tiers, tries, run.plan.seed, values)


def look(session: Served, base: Predictor | None, of: Drawn) -> Looked:
    """Test what was drawn of a kind. base: the public model, if it is here."""
    return _scored(session, base, of) if session.readable >= Access.SCORE else _asked(session, of)


def _scored(session: Predictor, base: Predictor | None, of: Drawn) -> Looked:
    gain = Gain(session, base, _AT_ONCE)
    found = [gain.learnt(one.draw, one.frame, of.others, draws) for one, draws in of.scored()]
    queries, each = sum(one.n for one in found), iter(found)
    sentence = next(each) if of.sentence is not None else None
    tiers = [
        [users, combined_p_value([next(each).p_value for _ in some])]
        for users, some in of.tiers.items()
    ]
    behind = None
    if of.sentence is not None:
        draws = stream(of.seed, "silence", "behind", of.sentence.draw.value)
        surroundings = of.surroundings(session, base)
        behind = surroundings.behind(of.values, draws)
        queries += surroundings.most_read(len(of.values.secrets))
    prompts, length = of.of_values(session.tokenizer)
    texts = [session.tokenizer.decode(one.tokens) for one in session.generate(prompts, length)]
    queries += len(texts) * length
    written = _form(session, of, texts)
    return _looked(queries, sentence=sentence, tiers=tiers, behind=behind, form=written)


def _asked(session: Served, of: Drawn) -> Looked:
    word, sentence, tiers, queries, behind = of.first_word(), None, list[Any](), 0, None
    plain, texts = list[str](), list[str]()
    if word is not None:
        prompts, length = of.of_first_word(word, session.tokenizer)
        replies = session.ask(prompts, length)
        sentence = Learnt(word.p_value(one.choice.text for one in replies), len(replies))
        queries += len(replies) * length
        by_words, length = of.behind(session.tokenizer, isinstance(session, ChatSession))
        answers = {words: session.ask(some, length) for words, some in by_words.items()}
        behind = generated(
            of.values, {w: [one.text for one in some] for w, some in answers.items()}
        )
        prompts, _ = of.of_values(session.tokenizer)
        plain = [one.text for one in session.ask(prompts, length)]
        queries += (sum(map(len, answers.values())) + len(plain)) * length
    if of.tries:
        prompts, length = of.of_beacons(session.tokenizer)
        replies = session.ask(prompts, length)
        texts = [one.text for one in replies]
        queries += len(replies) * length
        for users, some in of.tiers.items():
            seen = beacons.generated(users, [b.value for b in some], some[0].space, texts)
            tiers.append([users, seen.p_value])
    written = _form(session, of, plain)
    if word is None and all(p_value > LEVEL for _, p_value in tiers):
        written = of.form_of_beacons(session.tokenizer, texts)  # a reason why none was seen
    return _looked(queries, sentence=sentence, tiers=tiers, behind=behind, form=written)


def _looked(queries: int, **seen: Any) -> Looked:
    """Return the ways that were tried, by queries that all were answered."""
    return Looked({**seen, "stem": None}, queries, queries)


def _form(session: Predictor, of: Drawn, answers: Sequence[str]) -> form.Form | None:
    """Count the answers to the sentence that begin as a value does; None where it was not asked."""
    question = of.question(session.tokenizer)
    return question.counted(answers) if question is not None and answers else None


def rehearse(session: Predictor, of: Drawn) -> None:
    """Ask all that `look` may ask."""
    tokenizer = session.tokenizer
    if session.readable >= Access.SCORE:
        for one, draws in of.scored():
            texts = Gain(session, None).candidates(one.draw, one.frame, of.others, draws)
            session.score([text[:1] for text in texts], [text[1:] for text in texts])
        if of.sentence is not None:
            of.surroundings(session, None).behind(of.values, stream(of.seed, "rehearsal"))
            session.generate(*of.of_values(tokenizer))
        return
    word = of.first_word()
    if word is not None:
        session.generate(*of.of_first_word(word, tokenizer))
        by_words, length = of.behind(tokenizer)
        for some in by_words.values():
            session.generate(some, length)
        session.generate(*of.of_values(tokenizer))
    if of.tries:
        session.generate(*of.of_beacons(tokenizer))
