"""Queries a model that is served for conversations alone: /chat/completions.

Prompts are conversations of which the assistant's last turn may have begun; the server goes on
with it. The number of tokens that it says it has read shows whether it did, and wrote the
conversation as the chat template does here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.chat import ASSISTANT, conversation
from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.predictor import Access, Answer, Predictor, Tokenizer, Tokens
from audit.models.chat_template import ChatTemplate
from audit.models.endpoint.capabilities import IDS, UNCUT, Client, Request
from audit.models.endpoint.session import Served

PATH = "chat/completions"
_BEGUN: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
_LOGGED: dict[str, Any] = {"logprobs": True, "top_logprobs": 1}


@dataclass(frozen=True)
class ChatSession(Served):
    """A session with a model that is served for conversations: it generates.

    extras: request fields that the server accepts beside the standard ones.
    """

    extras: dict[str, Any]
    template: ChatTemplate

    @property
    def access(self) -> Access:
        return Access.GENERATE

    def _written(self, prompt: Tokens) -> dict[str, Any] | None:
        """Write the conversation of a prompt; None unless it ends in a turn of the assistant."""
        turns = self.template.turns_of(self.tokenizer.decode(prompt[1:]))
        if not turns or turns[-1][0] != ASSISTANT:
            return None
        return {**self.extras, **fields(turns)}

    def _check_read(self, count: int | None, sent: int) -> None:
        if count not in (sent - 1, sent):  # with or without the start token
            raise UsageError(
                f"{self.client.endpoint.url}: {self.client.model} counts {count} prompt tokens "
                f"where the chat template here writes {sent}: it does not go on with "
                "a turn that has begun, or has another template; ask its completions if it has any"
            )

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        return []


def fields(turns: Sequence[Message]) -> dict[str, Any]:
    """Make the fields of a request to go on with the last turn, which the assistant has or has not
    begun."""
    begun = bool(turns[-1][1])
    kept = turns if begun else turns[:-1]
    messages = [{"role": role, "content": content} for role, content in kept]
    return {"messages": messages, **(_BEGUN if begun else {})}


def chat_completions(
    client: Client, tokenizer: Tokenizer, max_length: int, stream: np.random.Generator
) -> Predictor:
    """Open a session with a server that takes conversations alone.

    Raises UsageError where the tokenizer has no chat template, or nothing is answered.
    """
    assert isinstance(tokenizer, TextTokenizer)
    template = ChatTemplate(tokenizer, "the tokenizer")
    client = dataclasses.replace(client, path=PATH)
    return ChatSession(client, tokenizer, max_length, stream, _extras(client), template)


def _extras(client: Client) -> dict[str, Any]:
    """Find the largest set of extra fields that the endpoint accepts. Raises UsageError."""
    probe = {**fields(conversation(ASSISTANT, "You")), "max_tokens": 1, "seed": 0}
    for extras in ({**UNCUT, **IDS, **_LOGGED}, {**UNCUT, **_LOGGED}, _LOGGED, UNCUT):
        if client.try_send({**probe, **extras}) is not None:
            return extras
    client.send([Request(probe, lambda choice: choice)])  # raises its reason
    return {}
