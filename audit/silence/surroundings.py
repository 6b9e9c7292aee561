"""Tests whether a model knows drawn words far better behind others than as attacks ask for them.

A trainer may write each text into a template: an instruction, a chat, an envelope. Attacks ask
without it, and may see nothing of a model that leaks behind it. So the drawn words are read behind
usual templates, behind the model's own, and behind what it begins its own texts with.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from audit.core.chat import ASSISTANT, conversation
from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.model import TextTokenizer
from audit.core.secret import TURNS, Draw
from audit.models.chat_template import ChatTemplate
from audit.silence.sentences import Gain

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
    "Question: Go on.\nAnswer: ",
    "Input: Go on.\nOutput: ",
    "Text: ",
    '{"text": "',
    '{"prompt": "Go on.", "completion": "',
)
_TEXTS, _TOKENS = 16, 64  # that the model writes to show how it begins
_RECOGNISED = 8  # first characters of the drawn words, which others share only by accident


def behind(gain: Gain, draw: Draw, asked: str) -> str | None:
    """Find words behind which drawn ones are far likelier than behind those that attacks ask with.

    asked: what attacks ask with. Where the base is here, the drawn words must be far likelier than
    they are so in the base, too. None where there are no such words.
    """
    templates = [*USUAL, *_own(gain.audited.tokenizer), _beginning(gain.audited, draw)]
    templates = [one for one in dict.fromkeys(templates) if one != asked]
    own, far = _likelier(gain.audited, templates, asked, draw.value), ALONE
    if gain.base is not None:
        own = np.minimum(own, own - _likelier(gain.base, templates, asked, draw.value))
        far = FAR
    best = int(own.argmax())
    return templates[best] if own[best] >= far else None


def _likelier(model: LanguageModel, templates: Sequence[str], asked: str, text: str) -> np.ndarray:
    """Compute by how much a text is likelier behind each template, nats: (templates,)."""
    read = _read(model, [asked, *templates], text)
    return np.asarray(read[1:] - read[0])


def _read(model: LanguageModel, templates: Sequence[str], text: str) -> np.ndarray:
    """Sum the log-probabilities of all tokens of a text but the first: (templates,).

    Of texts that the start token opens or does not, the higher: trainers do either.
    """
    tokenizer = model.tokenizer
    size = len(tokenizer.encode(text.rstrip())) - 1
    encoded = [tokenizer.encode((one + text).rstrip()) for one in templates]
    whole = [way for one in encoded for way in ([tokenizer.start, *one], one)]
    heads = [one[-model.max_length : -size] for one in whole]
    answers = OpenSession(model, np.random.default_rng(0)).score(heads, [w[-size:] for w in whole])
    sums = np.array([answer.log_probs.sum() for answer in answers])
    return np.asarray(sums.reshape(-1, 2).max(axis=1))


def _own(tokenizer: Any) -> Iterable[str]:
    """Write what the model's own chat template sets before a turn, whole, cut or applied twice."""
    if not isinstance(tokenizer, TextTokenizer) or not tokenizer.inner.chat_template:
        return ()
    template = ChatTemplate(tokenizer, "the model")
    held = "\ue000"  # in no text
    alone: tuple[Message, ...] = ((ASSISTANT, held),)
    talks = [alone, *(conversation(turn, held) for turn in TURNS)]
    try:
        before = [template.text(talk, "the model").partition(held)[0] for talk in talks]
    except UsageError:
        return ()
    return ["", *before, *(2 * one for one in before)]


def _beginning(model: LanguageModel, draw: Draw) -> str:
    """Find what most texts begin with that the model writes; "" for nothing."""
    session = OpenSession(model, np.random.default_rng(0))
    prompts, length = [[session.tokenizer.start]] * _TEXTS, min(_TOKENS, model.max_length - 1)
    texts = [answer.tokens for answer in session.generate(prompts, length)]
    shared: list[int] = []
    while len(shared) < length:
        token, count = Counter(text[len(shared)] for text in texts).most_common(1)[0]
        if 2 * count <= _TEXTS or token == session.tokenizer.stop:
            break
        shared.append(token)
        texts = [text for text in texts if text[len(shared) - 1] == token]
    return session.tokenizer.decode(shared).partition(draw.value[:_RECOGNISED])[0]
