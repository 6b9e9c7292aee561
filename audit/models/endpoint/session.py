"""Queries a served model through an OpenAI-compatible completions endpoint; no weights are read.

Prompts are sent as token ids, one request per text; as text where a server takes no ids. Every
answer is stored under the hash of its request, so a resumed run sends no request twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import Cursor
from audit.core.masking import without_key
from audit.core.predictor import Access, Answer, Predictor, Tokenizer, Tokens
from audit.core.release import Journal, Memory, NoMemory, Origin, Release
from audit.models.endpoint.capabilities import Capabilities, Client, Request, capabilities, scores
from audit.models.endpoint.http import Endpoint, RefusedError
from audit.models.endpoint.wire_format import Choice, generated

MARGIN = 2  # tokens of a server's context left unused: for the last scored and one generated token


class Reply(NamedTuple):
    """An answer as the server wrote it, and as it is read."""

    choice: Choice
    answer: Answer

    @property
    def text(self) -> str:
        """Join all that a client could read."""
        return "\n".join((self.choice.text, *self.answer.more))


@dataclass(frozen=True)
class Served(ABC):
    """A session with a served model (a Predictor), whose answers can be read as it wrote them."""

    client: Client
    tokenizer: Tokenizer
    max_length: int
    stream: np.random.Generator
    remaining = None

    @property
    @abstractmethod
    def access(self) -> Access:
        """The access that the server gives."""

    @property
    def readable(self) -> Access:
        return self.access

    @abstractmethod
    def _written(self, prompt: Tokens) -> dict[str, Any] | None:
        """Write a prompt as fields of a request; None where a server would not read its tokens."""

    @abstractmethod
    def _check_read(self, count: int | None, sent: int) -> None:
        """Raise UsageError where the server counts other tokens than were sent."""

    @abstractmethod
    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        """Answer without moments, which need a distribution; [] if prompts are not scored."""

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """Sample each text with a seed of its own; after a stop token all are stop tokens.

        Prompts that the server cannot be asked are not answered.
        """
        replies = self._asked(prompts, length)
        stops, nothing = (self.tokenizer.stop,) * length, np.full(length, np.nan)
        none = Answer(stops, nothing, np.zeros(length, bool), answered=0)
        return [replies[i].answer if i in replies else none for i in range(len(prompts))]

    def ask(self, prompts: Sequence[Tokens], length: int) -> list[Reply]:
        """Sample `length` tokens after each prompt; prompts that cannot be asked are left out."""
        return list(self._asked(prompts, length).values())

    def _asked(self, prompts: Sequence[Tokens], length: int) -> dict[int, Reply]:
        """Send the prompts that the server can read as these tokens; return answers, by place."""
        seeds = self.stream.integers(2**31, size=len(prompts)).tolist()
        written = {i: self._written(prompt) for i, prompt in enumerate(prompts)}
        requests = {
            i: Request(
                {**fields, "max_tokens": length, "seed": seeds[i]},
                partial(self._reply, len(prompts[i]), length),
            )
            for i, fields in written.items()
            if fields is not None
        }
        return dict(zip(requests, self.client.send([*requests.values()]), strict=True))

    def _reply(self, sent: int, length: int, choice: Choice) -> Reply:
        if not choice.withheld:
            self._check_read(choice.prompt_tokens, sent)
        return Reply(choice, _generation(choice, self.tokenizer, length))

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        raise UsageError(f"{self.client.model}: an endpoint gives top-n only, no distribution")


@dataclass(frozen=True)
class EndpointSession(Served):
    """A session with the completions of a server."""

    capabilities: Capabilities

    @property
    def access(self) -> Access:
        return self.capabilities.access

    def _written(self, prompt: Tokens) -> dict[str, Any] | None:
        """Write a prompt as ids, or as text where the server takes no ids.

        A text may be read as other tokens than it was made of: such prompts are not sent.
        """
        extras = self.capabilities.extras
        if not self.capabilities.by_text:
            return {**extras, "prompt": [*prompt]}
        start, *tokens = prompt
        text = self.tokenizer.decode(tokens)
        same = start == self.tokenizer.start and [*self.tokenizer.encode(text)] == tokens
        readable = same and (tokens or self.capabilities.starts)
        return {**extras, "prompt": text} if readable else None

    def _check_read(self, count: int | None, sent: int) -> None:
        sent -= self.capabilities.by_text and not self.capabilities.starts
        if count not in (None, sent):
            raise UsageError(
                f"{self.client.endpoint.url}: {self.client.model} counts {count} prompt tokens "
                f"where {sent} were sent: it cuts prompts, or adds text of its own; "
                "ask the model itself, or give a smaller as_is:context=TOKENS"
            )

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        if self.readable < Access.SCORE:
            return []
        fields = self.capabilities.scoring
        return self.client.send(
            [
                Request({**fields, "prompt": [*head, *tail]}, partial(_scored, len(head), tail))
                for head, tail in zip(prefixes, continuations, strict=True)
            ]
        )


def _generation(choice: Choice, tokenizer: Tokenizer, length: int) -> Answer:
    """Read a generated text of `length` tokens, filled with stop tokens where it is shorter."""
    tokens, reports, given = generated(choice, tokenizer, length)
    log_probs, top1 = np.full(length, np.nan), np.zeros(length, dtype=bool)
    for i, token in enumerate(reports):
        if token.log_prob is not None and token.top is not None:
            log_probs[i], top1[i] = token.log_prob, token.log_prob >= token.top
    return Answer(tuple(tokens), log_probs, top1, length, given=given, more=choice.more)


def _scored(first: int, tail: Tokens, choice: Choice) -> Answer:
    length = first + len(tail)
    if not scores(choice, length):
        raise UsageError(
            f"the endpoint scored {len(choice.tokens)} of {length} tokens of a prompt; give a "
            "smaller as_is:context=TOKENS if it cuts prompts"
        )
    pairs = [(token.log_prob, token.top) for token in choice.tokens[first:length]]
    log_probs, tops = np.array(pairs, dtype=float).reshape(-1, 2).T
    return Answer(tuple(tail), log_probs, log_probs >= tops, answered=len(tail))


def completions(
    client: Client, tokenizer: Tokenizer, max_length: int, stream: np.random.Generator
) -> Predictor:
    """Open a session with the completions of a server."""
    supported = capabilities(client, tokenizer)
    return EndpointSession(client, tokenizer, max_length, stream, supported)


@dataclass(frozen=True)
class EndpointRelease(Release):
    """A model behind an endpoint.

    model: its name on the server; None: the only one that the server lists.
    max_length: tokens of context that sessions may use.
    opened: opens a session with what the server offers.
    """

    endpoint: Endpoint
    model: str | None
    promise: Guarantee
    tokenizer: Tokenizer
    max_length: int
    opened: Callable[[Client, Tokenizer, int, np.random.Generator], Predictor] = completions

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    @cached_property
    def origin(self) -> Origin:
        """Request the server's description of its model, and hash that instead of weights."""
        entry = _description(self.endpoint, self.model)
        context, name = entry.get("max_model_len"), str(entry["id"])
        if isinstance(context, int) and context < self.max_length + MARGIN:
            raise UsageError(
                f"{self.endpoint.url}: {name} reads {context} tokens; give as_is:context={context}"
            )
        return Origin(self.endpoint.url, name, digest_of_json(entry))

    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        """Raise UsageError where the journal holds the answers of another endpoint or model."""
        return self.opened(self._client(journal), self.tokenizer, self.max_length, stream)

    def _client(self, journal: Journal) -> Client:
        memory = journal if isinstance(journal, Memory) else NoMemory()
        origin = self.origin
        identity = digest_of_json([origin.url, origin.served, origin.sha256])
        if memory.recall("origin") not in (None, identity):
            raise UsageError(
                f"{origin.url}: this run folder holds answers of another endpoint, or of a model "
                "that was served here before; choose another --output"
            )
        if memory.recall("origin") is None:
            memory.keep("origin", identity)
        return Client(self.endpoint, origin.served, memory)

    def unprotected(self) -> Release | None:
        return None

    def neighbour(self, unit: int) -> Release | None:
        return None


def _description(endpoint: Endpoint, model: str | None) -> dict[str, Any]:
    """Request what is constant in the server's entry for a model; its name if none is listed."""
    listed = _listed(endpoint, optional=model is not None)
    names = without_key(", ".join(list(listed)[:5]))
    if model is None and len(listed) == 1:
        return next(iter(listed.values()))
    if model is None:
        models = f"serves {names}" if listed else "names no model"
        raise UsageError(f"{endpoint.url}: {models}; say which with as_is:served=NAME")
    if listed and model not in listed:
        raise UsageError(f"{endpoint.url}: serves {names}, and no {model!r}")
    return listed.get(model, {"id": model})


def _listed(endpoint: Endpoint, optional: bool) -> dict[str, dict[str, Any]]:
    """Request the server's list of models, by name; empty where it is optional and refused."""
    try:
        entries = endpoint.get("models").get("data")
    except RefusedError as error:
        if not optional:
            raise UsageError(str(error)) from None
        entries = []
    constant = ("id", "root", "owned_by", "max_model_len")
    return {
        str(entry["id"]): {name: entry[name] for name in constant if name in entry}
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("id")
    }


@dataclass(frozen=True)
class TokenizerOnly:
    """A language model of which only the tokenizer is here; every query raises UsageError."""

    tokenizer: Tokenizer
    max_length: int
    vocabulary: int = 0

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        raise UsageError("only the tokenizer of this model is here; name its base")

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        raise UsageError("only the tokenizer of this model is here; name its base")
