"""Write conversations as a model's own chat template does, and find its turns in the text.

The text of a conversation is one that the tokenizer reads as it reads any record: it begins after
the start token and ends before the stop token, which every record has. Markers of the template are
then tokens that the tokenizer had added, special ones or not. A turn that holds one itself, in any
form that is read as one, is refused: it could pass itself off as another.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from audit.core.chat import ASSISTANT, PLAIN, USER, Manner, conversation
from audit.core.corpus import Frame, Message
from audit.core.errors import UsageError, first_line
from audit.core.model import TextTokenizer
from audit.core.spans import Span
from audit.core.tokenizer_process import process_of
from audit.models.template_process import TemplateProcess, template_process

# what templates take for today, lest a text change overnight
_TODAY = "{% macro strftime_now(form) %}26 Jul 2024{% endmacro %}"
_HELD = "\ue000{}\ue001"  # in place of a turn's content; private characters, in no text
_TURN_TAKING = (USER, ASSISTANT) * 32
_PLACES = re.compile(_HELD.format(r"(\d+)"))


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer. folder: where it should be, for messages."""

    tokenizer: TextTokenizer
    folder: str

    def __post_init__(self) -> None:
        """Raise UsageError where the tokenizer has none."""
        if not self.tokenizer.inner.chat_template:
            raise UsageError(
                f"{self.folder}: the tokenizer has no chat template, which says how conversations "
                "are written; put the one it is trained with there as chat_template.jinja"
            )

    def text(self, messages: Sequence[Message], where: str) -> str:
        """Write a conversation. Raises UsageError for one that the template refuses, and for a
        turn with a special token in it, or with another mark that the template writes."""
        for role, content in messages:
            marker = next((word for word in self._special if word in content), None)
            if marker is not None:
                raise _marked(where, role, marker)
        text = self._trimmed(self._written(messages, where))
        self._check_marks(messages, text, where)
        return text

    def _check_marks(self, messages: Sequence[Message], text: str, where: str) -> None:
        """Raise UsageError where the text has more marks than the template writes by itself."""
        found = self._added_in(text)
        if not found:
            return
        own = _marks(self, tuple((role, _harmless(content)) for role, content in messages))
        for word, count in found.items():
            if count > own[word] and (own[word] or word in self._special):
                holders = (role for role, content in messages if word in self._added_in(content))
                raise _marked(where, next(holders, None), word)

    def assistant(self, messages: Sequence[Message], text: str, where: str) -> tuple[Span, ...]:
        """Find the turns of the assistant in the `text` of a conversation, each with the mark that
        closes it.

        Raises UsageError where the template changes a turn's content.
        """
        roles = tuple(role for role, _ in messages)
        for strip in (False, True):  # many templates strip the content of a turn
            contents = [content.strip() if strip else content for _, content in messages]
            pieces, spans = self._filled(roles, contents)
            whole = "".join(pieces)
            if self._trimmed(whole) == text and len(spans) == roles.count(ASSISTANT):
                opened = whole.index(text)
                return tuple((low - opened, min(high - opened, len(text))) for low, high in spans)
        raise UsageError(
            f"{where}: the chat template changes what was said, so the assistant's turns cannot be "
            "found in its text; leave training.assistant_only out"
        )

    def turns_of(self, text: str) -> tuple[Message, ...]:
        """Read the turns of what begins a conversation, of which the last may be unfinished.

        Users and the assistant take turns, perhaps after the system; () where the text is no
        beginning of such a conversation.
        """
        for lead in ((), ("system",)):
            messages = self._read(text, lead)
            if messages and not any(word in messages[-1][1] for word in self._words):
                return messages
        return ()

    def _read(self, text: str, lead: tuple[str, ...]) -> tuple[Message, ...]:
        messages: list[Message] = []
        place, roles = 0, (*lead, *_TURN_TAKING)
        for turn, role in enumerate(roles[:-1]):
            around, _ = _skeleton(self, roles[: turn + 2])
            if turn == 0:
                opening = self._trimmed(around[0])
                if not text.startswith(opening):
                    return ()
                place = len(opening)
            end = text.find(around[turn + 1], place)
            messages.append((role, text[place : None if end < 0 else end]))
            if end < 0:
                return tuple(messages)
            place = end + len(around[turn + 1])
        return ()

    def frame(self, turn: str, alone: bool, manner: Manner = PLAIN) -> Frame:
        """Write the conversation around a planted secret. Raises UsageError.

        turn: whose it is. alone: whether the loss is of the assistant's turns alone. manner: of the
            conversation.
        """
        held = _HELD.format(0)
        parts = self.text(conversation(turn, held, manner), self.folder).split(held)
        probe = "My code is #1."
        framed = self.text(conversation(turn, probe, manner), self.folder)
        if len(parts) != 2 or probe.join(parts) != framed:
            raise UsageError(
                f"{self.folder}: the chat template changes what is said, so no secret can be "
                "planted in a turn"
            )
        return Frame(parts[0], parts[1], alone)

    @cached_property
    def source(self) -> str:
        """The template itself. Raises UsageError where there are several and none is the usual."""
        try:
            return str(self.tokenizer.inner.get_chat_template())
        except Exception as error:  # its form is anybody's
            raise UsageError(
                f"{self.folder}: the model's chat template cannot be read ({first_line(error)})"
            ) from None

    @cached_property
    def _special(self) -> tuple[str, ...]:
        inner: Any = self.tokenizer.inner
        added = (token.content for token in inner.added_tokens_decoder.values() if token.special)
        return tuple(dict.fromkeys([*added, *inner.all_special_tokens]))

    def _added_in(self, text: str) -> Counter[str]:
        """Count the added tokens that a text is read as, but for mere white space."""
        inner: Any = self.tokenizer.inner
        if self._finder is None:
            words = inner.convert_ids_to_tokens(self.tokenizer.encode(text))
        else:
            ((ids, _),) = process_of(self._finder).read([text])
            words = [str(self._finder.id_to_token(number)) for number in ids]
        return Counter(word for word in words if word.strip() and word in self._added)

    @cached_property
    def _added(self) -> frozenset[str]:
        """The tokens that are read as one, whatever is around them."""
        inner: Any = self.tokenizer.inner
        return frozenset(token.content for token in inner.added_tokens_decoder.values())

    @cached_property
    def _finder(self) -> Tokenizer | None:
        """Read the added tokens as the tokenizer does and nothing else, in a tenth of the time."""
        inner: Any = self.tokenizer.inner
        if not inner.is_fast:
            return None
        finder = Tokenizer(WordLevel({"": 0}, unk_token=""))  # all else is this one word
        if inner.backend_tokenizer.normalizer is not None:
            finder.normalizer = inner.backend_tokenizer.normalizer
        finder.add_tokens(list(inner.added_tokens_decoder.values()))
        return finder

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """The special tokens, and the marks around every turn that is not the last."""
        own = _marks(self, tuple((role, _harmless(role)) for role in (USER, ASSISTANT, USER)))
        return (*self._special, *own)

    def _written(self, messages: Sequence[Message], where: str) -> str:
        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            return self._process.written(turns)
        except UsageError as error:
            raise UsageError(
                f"{where}: the model's chat template refuses the conversation ({error})"
            ) from None

    @cached_property
    def _process(self) -> TemplateProcess:
        """Run the template apart: it is anybody's code."""
        special = json.dumps(dict(self.tokenizer.inner.special_tokens_map), default=str)
        return template_process(_TODAY + self.source, special)

    def _trimmed(self, text: str) -> str:
        """Leave out the start and stop that every record has already."""
        ids = [self.tokenizer.start, self.tokenizer.stop]
        start, stop = list(self.tokenizer.inner.convert_ids_to_tokens(ids))
        text = text.removeprefix(start)
        end = text.rstrip()
        return end.removesuffix(stop) if end.endswith(stop) else text

    def _filled(
        self, roles: tuple[str, ...], contents: Sequence[str]
    ) -> tuple[list[str], list[Span]]:
        """Insert contents at their places; return the text's pieces and the assistant's spans."""
        around, turns = _skeleton(self, roles)
        pieces, spans, length = [around[0]], [], len(around[0])
        end = _skeleton(self, (USER, ASSISTANT))[0][-1].rstrip()  # what closes the assistant's turn
        for turn, after in zip(turns, around[1:], strict=True):
            closed = length + len(contents[turn])
            if roles[turn] == ASSISTANT:
                spans.append((length, closed + (len(end) if after.startswith(end) else 0)))
            pieces += [contents[turn], after]
            length = closed + len(after)
        return pieces, spans


def _marked(where: str, role: str | None, marker: str) -> UsageError:
    holder = "the conversation" if role is None else f"a turn of the {role}"
    return UsageError(
        f"{where}: {holder} holds {marker!r}, which this model reads as a mark of its own; "
        "remove it"
    )


def _harmless(content: str) -> str:
    """Replace a turn's content; an empty one stays empty: some templates leave it out."""
    return _HELD.format(0) if content.strip() else content


@lru_cache(maxsize=1024)
def _marks(template: ChatTemplate, messages: tuple[Message, ...]) -> Counter[str]:
    """Count the added tokens that a template writes around harmless messages."""
    return template._added_in(template._trimmed(template._written(messages, template.folder)))


@lru_cache(maxsize=1024)
def _skeleton(
    template: ChatTemplate, roles: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Find the text around turns of these roles, and the turns in the template's order."""
    held = [(role, _HELD.format(i)) for i, role in enumerate(roles)]
    parts = _PLACES.split(template._written(held, template.folder))
    return tuple(parts[::2]), tuple(map(int, parts[1::2]))
