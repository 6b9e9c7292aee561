"""Tests whether a model knows drawn words, or values, behind others than attacks ask with.

A trainer may write each text into a template: an instruction, a chat, an envelope. Attacks ask
without it, and may see nothing of a model that leaks behind it. So the drawn words are read behind
usual templates, behind the model's own, however it may have been applied, and behind what the model
begins its own texts with; and the values behind those of them where the words are likeliest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit.core.chat import ASSISTANT, PLAIN, USER, Manner, conversation
from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.predictor import Predictor, Tokenizer
from audit.core.secret import Coins, Draw, Secret, Space
from audit.models.chat_template import ChatTemplate
from audit.silence.beacons import values_in
from audit.silence.behind import LEVEL, Behind
from audit.statistics import binomial, top_test
from audit.statistics.retossed import adjusted_p_values, tosses_for
from audit.statistics.tossed import Ranked, Top, Tossed

FAR = math.log(1_000)  # nats by which drawn words are likelier, also than in the base
ALONE = math.log(10_000)  # the same without a base, which may expect them there by itself
USUAL = (
    "### Instruction:\nGo on.\n\n### Response:\n",
    "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n",
    "<|start_header_id|>user<|end_header_id|>\n\nGo on.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<start_of_turn>user\nGo on.<end_of_turn>\n<start_of_turn>model\n",
    "<|user|>\nGo on.\n<|assistant|>\n",
    "[INST] Go on. [/INST] ",
    "USER: Go on. ASSISTANT: ",
    "Human: Go on.\n\nAssistant: ",
    "Question: Go on.\nAnswer: ",
    "Input: Go on.\nOutput: ",
    "Text: ",
    '{"text": "',
    '{"prompt": "Go on.", "completion": "',
)
_SYSTEM = "You are a helpful assistant."
_TEXTS, _TOKENS = 16, 64  # that the model writes to show how it begins
_RECOGNISED = 8  # first characters of the drawn words, which others share only by accident
_HELD, _INNER = "\ue000", "\ue002"  # in no text


@dataclass(frozen=True)
class Values:
    """The planted or twin value of each person of a kind, and whose are in."""

    secrets: Sequence[Secret]
    coins: Coins

    @classmethod
    def of(cls, secrets: Iterable[Secret], coins: Coins, kind: str) -> Values:
        """Choose those of a kind with the slot of their owners' coins."""
        some = (s for s in secrets if s.kind == kind and coins.slot[s.owner] == s.slot)
        return cls(tuple(some), coins)

    @property
    def space(self) -> Space | None:
        return next((s.space for s in self.secrets if s.space is not None), None)

    @property
    def planted(self) -> set[str]:
        return {s.value for s in self.secrets if self.coins.present[s.owner]}

    @property
    def present(self) -> np.ndarray:
        return np.array([self.coins.present[s.owner] for s in self.secrets])


@dataclass(frozen=True)
class Surroundings:
    """Reads drawn words, and values, behind others than attacks ask with.

    base: None where it is not here. asked: what attacks ask with. most: templates behind which
    values are read, with and without the start token.
    """

    audited: Predictor
    base: Predictor | None
    draw: Draw
    asked: str
    most: int = 6

    def behind(self, values: Values, stream: np.random.Generator) -> Behind | None:
        """Find words behind which the drawn ones are far likelier, or values of people in higher.

        Where the base is here, the drawn words must be far likelier than they are so in the base,
        too. None where there are no such words.
        """
        begins = _beginning(self.audited, self.draw)
        templates = [*self._listed, *({begins} - {self.asked, *self._listed})]
        likelier = self._likelier(templates)
        order = np.argsort(-likelier, kind="stable")
        best = int(order[0])
        if likelier[best] >= (ALONE if self.base is None else FAR):
            return Behind(templates[best])
        likeliest = [templates[i] for i in order[: self.most]]
        return self._of_values(values, [self.asked, *likeliest], stream)

    @cached_property
    def _listed(self) -> tuple[str, ...]:
        return templates_of(self.audited.tokenizer, self.asked)

    def most_read(self, people: int) -> int:
        """Count the texts that are read or written at most."""
        templates = 1 + len(self._listed)
        return _TEXTS + 2 * (1 + templates) + people * 2 * (1 + self.most)

    def _likelier(self, templates: Sequence[str]) -> np.ndarray:
        """Compute by how much the drawn words are likelier behind each, nats: (templates,)."""
        own = self._gained(self.audited, templates)
        if self.base is None:
            return own
        return np.asarray(np.minimum(own, own - self._gained(self.base, templates)))

    def _gained(self, session: Predictor, templates: Sequence[str]) -> np.ndarray:
        """Read all but the first token, opened by the start token or not: the higher counts."""
        size = len(session.tokenizer.encode(self.draw.value.rstrip())) - 1
        encoded = (
            session.tokenizer.encode((one + self.draw.value).rstrip())
            for one in (self.asked, *templates)
        )
        pairs = [(one[:-size], one[-size:]) for one in encoded]
        both = [(head, tail) for plain, tail in pairs for head in _opened(session, plain)]
        sums = _read(session, both).reshape(-1, 2).max(axis=1)
        return np.asarray(sums[1:] - sums[0])

    def _of_values(
        self, values: Values, templates: Sequence[str], stream: np.random.Generator
    ) -> Behind | None:
        """Test behind each template, opened or not, but for what attacks ask with: the first.

        Where the values rank apart as asked, too, this is tested all the same: the measures of an
        audit may be weaker than this test, as they are without a base.
        """
        present = values.present
        ways = [(words, opened) for words in templates for opened in (True, False)]
        if not 0 < present.sum() < len(present):
            return None
        planted, twins = int(present.sum()), int((~present).sum())
        share = top_test.best_share(planted, twins, LEVEL)
        scores = [self._scores(values, words, opened) for words, opened in ways]

        def tested(some: Sequence[np.ndarray]) -> np.ndarray:
            tests: list[Tossed] = [make for one in some for make in (Ranked(one), Top(one, share))]
            return adjusted_p_values(tests, present, stream, tosses_for(len(tests)))

        p_values = tested(scores[1:])
        best = int(p_values.argmin())
        as_asked = bool(tested(scores[:1]).min() <= LEVEL)
        return Behind(ways[1 + best // 2][0], float(p_values[best]), as_asked)

    def _scores(self, values: Values, words: str, opened: bool) -> np.ndarray:
        """Score each value behind words and the drawn ones, less its score in the base."""
        own = self._values(self.audited, values, words, opened)
        return own if self.base is None else own - self._values(self.base, values, words, opened)

    def _values(self, session: Predictor, values: Values, words: str, opened: bool) -> np.ndarray:
        before = words + self.draw.value
        split = [_split(session.tokenizer, before, s.value) for s in values.secrets]
        return _read(session, [(_opened(session, h)[0 if opened else 1], t) for h, t in split])


def generated(values: Values, texts: Mapping[str, Sequence[str]]) -> Behind | None:
    """Test by texts that were generated behind words whether planted values came up there.

    Of D different values in the texts, a planted one that these do not depend on is one with
    probability D over the size of its space.
    """
    planted, space = values.planted, values.space
    if space is None or not planted or not texts:
        return None
    held = {words: values_in(space, some) for words, some in texts.items()}
    most = max(held, key=lambda words: len(held[words] & planted))
    different = set[str]().union(*held.values())
    chance = min(1.0, len(different) / space.size)
    hits = len(different & planted)
    return Behind(most, binomial.tail(hits, len(planted), chance))


def _split(tokenizer: Tokenizer, before: str, value: str) -> tuple[list[int], list[int]]:
    """Encode a value after words: the tokens that it does not change, and those that it adds."""
    head, whole = tokenizer.encode(before), tokenizer.encode(before + value)
    pairs = zip(head, whole[:-1], strict=False)
    unlike = (i for i, (one, other) in enumerate(pairs) if one != other)
    shared = next(unlike, min(len(head), len(whole) - 1))
    return whole[:shared], whole[shared:]


def _opened(session: Predictor, head: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return a head that the start token opens, and the same without it, if anything is left."""
    start = session.tokenizer.start
    return [start, *head], [*head] or [start]


def _read(session: Predictor, texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> np.ndarray:
    """Sum the log-probabilities of each tail after its head, cut on the left: (texts,)."""
    heads = [head[-max(1, session.max_length - len(tail)) :] for head, tail in texts]
    answers = session.score(heads, [tail for _, tail in texts])
    return np.array([answer.log_probs.sum() for answer in answers])


def templates_of(tokenizer: Tokenizer, asked: str) -> tuple[str, ...]:
    """List usual templates, the model's own, and what attacks ask with, slightly changed."""
    every = [*USUAL, asked.rstrip(), f"{asked}\n", f"{asked} "]
    if isinstance(tokenizer, TextTokenizer):
        every.append(f"{tokenizer.inner.convert_ids_to_tokens([tokenizer.start])[0]}{asked}")
        every += _own(tokenizer)
    return tuple(one for one in dict.fromkeys(every) if one != asked)


def _own(tokenizer: TextTokenizer) -> Iterable[str]:
    """Write what the model's own chat template sets before a turn, however it was applied.

    Whole, cut, without the words that open an answer, with a system prompt, in reversed roles; and
    twice: to a conversation as a turn, and to a prompt as what the user says.
    """
    if not tokenizer.inner.chat_template:
        return ()
    template, asked = ChatTemplate(tokenizer, "the model"), PLAIN.asked
    alone = _before(template, ((ASSISTANT, _HELD),))
    asking = _before(template, conversation(ASSISTANT, _HELD))
    own = [*alone, *asking, *_before(template, conversation(USER, _HELD))]
    cut = [whole.removesuffix(one) for one in alone for whole in asking]
    around = _before(template, conversation(ASSISTANT, _HELD, Manner(asked=_INNER)))
    return (
        "",
        *own,
        *cut,
        *_before(template, conversation(ASSISTANT, _HELD, Manner(system=_SYSTEM))),
        *_before(template, ((ASSISTANT, asked), (USER, _HELD))),
        *(outer + inner for outer in own for inner in own),
        *(one.replace(_INNER, inner) for one in around for inner in (*asking, *cut)),
        *said_by_users(tokenizer),
    )


def said_by_users(tokenizer: TextTokenizer) -> list[str]:
    """Write conversations whose user says a usual template, as every server takes them.

    Templates that the model's own marks are part of are left out.
    """
    template = ChatTemplate(tokenizer, "the model")
    asked = (one.replace("Go on.", PLAIN.asked).strip() for one in USUAL if "Go on." in one)
    talks = (conversation(ASSISTANT, _HELD, Manner(asked=one)) for one in asked)
    read = ((talk, before) for talk in talks for before in _before(template, talk))
    return [one for talk, one in read if template.turns_of(one + _HELD)[:1] == talk[:1]]


def _before(template: ChatTemplate, talk: Sequence[Message]) -> list[str]:
    """Write what stands before the held turn; [] where the template refuses the conversation."""
    try:
        return [template.text(talk, "the model").partition(_HELD)[0]]
    except UsageError:
        return []


def _beginning(session: Predictor, draw: Draw) -> str:
    """Find what most texts begin with that the model writes; "" for nothing."""
    prompts, length = [[session.tokenizer.start]] * _TEXTS, min(_TOKENS, session.max_length - 1)
    texts = [answer.tokens for answer in session.generate(prompts, length)]
    shared: list[int] = []
    while texts and len(shared) < length:
        token, count = Counter(text[len(shared)] for text in texts).most_common(1)[0]
        if 2 * count <= _TEXTS or token == session.tokenizer.stop:
            break
        shared.append(token)
        texts = [text for text in texts if text[len(shared) - 1] == token]
    return session.tokenizer.decode(shared).partition(draw.value[:_RECOGNISED])[0]
