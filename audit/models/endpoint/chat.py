"""Queries a model that is served for conversations alone: /chat/completions.

Prompts are conversations of which the assistant's last turn may have begun; the server goes on
with it. The number of tokens that it says it has read shows whether it did, and wrote the
conversation as the chat template does here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from audit.core.chat import ASSISTANT, conversation
from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.predictor import Access, Answer, Predictor, Tokenizer, Tokens
from audit.models.chat_template import ChatTemplate
from audit.models.endpoint.capabilities import Client, Request
from audit.models.endpoint.session import Told, generation, placed
from audit.models.endpoint.wire_format import Choice

PATH = "chat/completions"
_BEGUN: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
_LOGGED: dict[str, Any] = {"logprobs": True, "top_logprobs": 1}
_UNCUT: dict[str, Any] = {
    **{"top_k": -1, "min_p": 0.0},
    **{"repetition_penalty": 1.0, "repeat_penalty": 1.0},
}
_IDS: dict[str, Any] = {"return_tokens_as_token_ids": True}


@dataclass(frozen=True)
class ChatSession:
    """A session with a model that is served for conversations (a Predictor): it generates.

    extras: request fields that the server accepts beside the standard ones.
    """

    client: Client
    extras: dict[str, Any]
    template: ChatTemplate
    max_length: int
    stream: np.random.Generator
    access: Access = Access.GENERATE
    readable: Access = Access.GENERATE
    remaining = None

    @property
    def tokenizer(self) -> TextTokenizer:
        return self.template.tokenizer

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """Sample the assistant's turns; a prompt that does not end in its turn is not answered."""
        return placed(self._asked(prompts, length), len(prompts), self.tokenizer, length)

    def ask(self, prompts: Sequence[Tokens], length: int) -> list[Told]:
        return list(self._asked(prompts, length).values())

    def _asked(self, prompts: Sequence[Tokens], length: int) -> dict[int, Told]:
        """Send the prompts that end in the assistant's turn; return what was told, by place."""
        seeds = self.stream.integers(2**31, size=len(prompts)).tolist()
        talks = [self.template.turns_of(self.tokenizer.decode(prompt[1:])) for prompt in prompts]
        asked = [i for i, turns in enumerate(talks) if turns and turns[-1][0] == ASSISTANT]
        requests = [
            Request(
                {**self.extras, **fields(talks[i]), "max_tokens": length, "seed": seeds[i]},
                partial(self._told, len(prompts[i]), length),
            )
            for i in asked
        ]
        return dict(zip(asked, self.client.send(requests), strict=True))

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        return []

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        raise UsageError(f"{self.client.model}: an endpoint gives top-n only, no distribution")

    def _told(self, read: int, length: int, choice: Choice) -> Told:
        """Raise UsageError unless the server has read these tokens, with or without the start."""
        if not choice.withheld and choice.prompt_tokens not in (read - 1, read):
            raise UsageError(
                f"{self.client.endpoint.url}: {self.client.model} counts {choice.prompt_tokens} "
                f"prompt tokens where the chat template here writes {read}: it does not go on with "
                "a turn that has begun, or has another template; ask its completions if it has any"
            )
        return Told(choice, generation(choice, self.tokenizer, length))


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
    return ChatSession(client, _extras(client), template, max_length, stream)


def _extras(client: Client) -> dict[str, Any]:
    """Find the largest set of extra fields that the endpoint accepts. Raises UsageError."""
    probe = {**fields(conversation(ASSISTANT, "You")), "max_tokens": 1, "seed": 0}
    for extras in ({**_UNCUT, **_IDS, **_LOGGED}, {**_UNCUT, **_LOGGED}, _LOGGED, _UNCUT):
        if client.try_send({**probe, **extras}) is not None:
            return extras
    client.send([Request(probe, lambda choice: choice)])  # raises its reason
    return {}
