"""Find out by a few requests what a completions endpoint supports, and cache every answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.core.predictor import PROBE, Access, Tokenizer, Tokens
from audit.core.release import Memory
from audit.models.endpoint.http import Endpoint, RefusedError
from audit.models.endpoint.wire_format import Choice, choice_of, same_tokens

T = TypeVar("T")

_USED = ("choices", "usage", "model", "system_fingerprint")  # of an answer
PROBES = 16  # requests at most, until an endpoint's capabilities are known
_PLAIN: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}
# switch off all that cuts or reweights the distribution, in the words of vLLM and of llama.cpp,
# which has a penalty of another name
UNCUT: dict[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
}
_UNCUT: dict[str, Any] = {**UNCUT, "add_special_tokens": False}  # chat templates write their own
IDS: dict[str, Any] = {"return_tokens_as_token_ids": True}
_LOGGED: dict[str, Any] = {"logprobs": 1}
# the same for transformers' server, which else writes the likeliest tokens whatever the temperature
_SAMPLED: dict[str, Any] = {
    "generation_config": json.dumps({"do_sample": True, "top_k": 0, "repetition_penalty": 1.0}),
    **_LOGGED,
}
_EXTRAS: tuple[dict[str, Any], ...] = (
    {**_UNCUT, **IDS, **_LOGGED},
    {**_UNCUT, "top_k": 0, **IDS, **_LOGGED},
    *(_SAMPLED, _LOGGED, _UNCUT, {}),
)
_SHORT: dict[str, Any] = {"max_tokens": 1, "seed": 0}


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of an endpoint.

    extras: request fields that it accepts beside the standard ones.
    least: `max_tokens` of a request that only scores: 0, or 1 where the server must generate.
    by_text: whether it takes prompts as text alone, and no token ids. starts: whether it then sets
        a start token before a text.
    """

    access: Access
    extras: dict[str, Any]
    least: int = 1
    by_text: bool = False
    starts: bool = False

    @property
    def scoring(self) -> dict[str, Any]:
        """The fields of a request that scores its prompt; the server writes tokens as text."""
        extras = {name: value for name, value in self.extras.items() if name not in IDS}
        return {**extras, "max_tokens": self.least, "echo": True}


@dataclass(frozen=True)
class Request(Generic[T]):
    """The fields of a request, and how its answer is read."""

    fields: dict[str, Any]
    read: Callable[[Choice], T]


@dataclass(frozen=True)
class Client:
    """Sends requests about one model; an answer in `memory` is not requested again."""

    endpoint: Endpoint
    model: str
    memory: Memory
    path: str = "completions"

    def send(self, requests: Sequence[Request[T]]) -> list[T]:
        """Read the answer to each request. Raises UsageError where one is refused."""
        try:
            return self._send(requests)
        except RefusedError as error:
            raise UsageError(str(error)) from None

    def try_send(self, fields: dict[str, Any]) -> Choice | None:
        """Read the answer to a request; None where the server refuses it."""
        try:
            return self._send([Request(fields, lambda choice: choice)])[0]
        except RefusedError:
            return None

    def _send(self, requests: Sequence[Request[T]]) -> list[T]:
        """Send requests; an answer is stored only once it could be read."""
        values = []
        with self.endpoint.connected() as post:
            for request in requests:
                fields = {"model": self.model, **_PLAIN, **request.fields}
                name = digest_of_json(fields)
                stored = self.memory.recall(name)
                answer = post(self.path, fields) if stored is None else stored
                values.append(request.read(choice_of(answer)))
                if stored is None:
                    self.memory.keep(name, {part: answer.get(part) for part in _USED})
        return values


def capabilities(client: Client, tokenizer: Tokenizer) -> Capabilities:
    """Find out what the endpoint supports, by requests of one token each; store the result.

    Raises UsageError where nothing is answered, or where the endpoint's tokenizer differs.
    """
    stored = client.memory.recall("ability")
    if stored is not None:
        return Capabilities(**{**stored, "access": Access(stored["access"])})
    ids = [tokenizer.start, *tokenizer.encode(PROBE)]
    by_ids = _accepted(client, [*ids])
    extras, choice = by_ids or _accepted_text(client)
    if by_ids:
        _check_tokens(client, tokenizer, choice, len(ids))
    starts = _check_text(client, tokenizer, extras)
    scoring = _scoring(client, tokenizer, extras, ids) if by_ids else None
    by_text = by_ids is None
    result = scoring or Capabilities(Access.GENERATE, extras, 1, by_text, by_text and starts)
    client.memory.keep("ability", {**asdict(result), "access": int(result.access)})
    return result


def _accepted(client: Client, prompt: Tokens | str) -> tuple[dict[str, Any], Choice] | None:
    """Find the largest set of extra fields that the endpoint accepts, and its answer to it."""
    for extras in _EXTRAS:
        choice = client.try_send({"prompt": prompt, **_SHORT, **extras})
        if choice is not None:
            return extras, choice
    return None


def _accepted_text(client: Client) -> tuple[dict[str, Any], Choice]:
    """Do the same with text. Raises UsageError with the server's reason where it is refused."""
    found = _accepted(client, PROBE)
    if found is None:
        client.send([Request({"prompt": PROBE, **_SHORT}, lambda choice: choice)])  # raises it
        raise UsageError(
            f"{client.endpoint.url}: refused a request and then answered the same one; run again"
        )
    return found


def _scoring(
    client: Client, tokenizer: Tokenizer, extras: dict[str, Any], ids: Tokens
) -> Capabilities | None:
    """Find out how the endpoint scores prompts; None where it does not."""
    for least in (0, 1) if "logprobs" in extras else ():
        candidate = Capabilities(Access.SCORE, extras, least)
        choice = client.try_send({"prompt": [*ids], **candidate.scoring})
        if choice is not None and scores(choice, len(ids)):
            if not same_tokens(tokenizer, ids, choice.tokens):
                raise _wrong_tokenizer(client, "writes its tokens otherwise than")
            return candidate
    return None


def _check_tokens(client: Client, tokenizer: Tokenizer, choice: Choice, sent: int) -> None:
    """Raise UsageError unless the endpoint counts and writes tokens as the tokenizer does."""
    if choice.prompt_tokens not in (None, sent):
        raise _wrong_tokenizer(
            client, f"counts {choice.prompt_tokens} prompt tokens where {sent} were sent from"
        )
    by_id = {token.id: token for token in choice.tokens if token.id is not None}
    if not same_tokens(tokenizer, [*by_id], [*by_id.values()]):
        raise _wrong_tokenizer(client, "writes its tokens otherwise than")


def _check_text(client: Client, tokenizer: Tokenizer, extras: dict[str, Any]) -> bool:
    """Return whether the endpoint sets a start token before a text.

    Raises UsageError where it reads a text as more or fewer tokens than the tokenizer does.
    """
    own = len(tokenizer.encode(PROBE))
    text = client.try_send({"prompt": PROBE, **_SHORT, **extras})
    read = None if text is None else text.prompt_tokens
    if read not in (None, own, own + 1):
        raise _wrong_tokenizer(client, f"reads a text as {read} tokens, which is {own} tokens for")
    return read == own + 1


def _wrong_tokenizer(client: Client, difference: str) -> UsageError:
    return UsageError(
        f"{client.endpoint.url}: wrong tokenizer: {client.model} {difference} the one given here; "
        "give the served model's own with as_is:base=DIR or as_is:tokenizer=DIR"
    )


def scores(choice: Choice, length: int) -> bool:
    """Return whether every token of a prompt but the first has a log-probability."""
    scored = choice.tokens[1:length]
    return len(scored) == length - 1 and all(token.scored for token in scored)
