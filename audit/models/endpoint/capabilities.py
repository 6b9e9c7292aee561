"""What a completions endpoint gives, found by asking it: fields it takes, prompts it scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from audit.core.errors import UsageError
from audit.core.predictor import PROBE, Access, Tokenizer, Tokens
from audit.core.release import Memory
from audit.models.endpoint.http import Endpoint, RefusedError
from audit.models.endpoint.wire_format import Choice, choice_of, same_tokens

T = TypeVar("T")

PROBES = 8  # requests at most, until it is known what an endpoint gives
_PLAIN: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}
# nothing is cut off the distribution, and no token made less likely: vLLM's and llama.cpp's words
_UNCUT: dict[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "add_special_tokens": False,
}
_IDS: dict[str, Any] = {"return_tokens_as_token_ids": True}
_LOGGED: dict[str, Any] = {"logprobs": 1}
_SHORT: dict[str, Any] = {"max_tokens": 1, "seed": 0}


@dataclass(frozen=True)
class Ability:
    """What an endpoint gives. told: fields that it takes beside the plain ones. least: `max_tokens`
    of a request that only scores: 0, or 1 where the server always says something."""

    access: Access
    told: dict[str, Any]
    least: int = 1

    @property
    def scoring(self) -> dict[str, Any]:
        """The fields of a request that scores its prompt; tokens come as text."""
        told = {name: value for name, value in self.told.items() if name not in _IDS}
        return {**told, "max_tokens": self.least, "echo": True}


@dataclass(frozen=True)
class Asker:
    """Asks about one model what is not known yet."""

    endpoint: Endpoint
    model: str
    memory: Memory

    def ask(self, questions: Sequence[Question[T]]) -> list[T]:
        """What is read off each answer, which is kept once it could be read. Raises UsageError."""
        try:
            return self._asked(questions)
        except RefusedError as error:
            raise UsageError(str(error)) from None

    def may(self, fields: dict[str, Any]) -> Choice | None:
        """The answer to a request that may be refused; None where it is."""
        try:
            return self._asked([Question(fields, lambda choice: choice)])[0]
        except RefusedError:
            return None

    def _asked(self, questions: Sequence[Question[T]]) -> list[T]:
        found = []
        with self.endpoint.connected() as post:
            for question in questions:
                fields = {"model": self.model, **_PLAIN, **question.fields}
                name = digest(fields)
                known = self.memory.recall(name)
                answer = post("completions", fields) if known is None else known
                found.append(question.read(choice_of(answer)))
                if known is None:
                    kept = {"choices": answer["choices"], "usage": answer.get("usage")}
                    self.memory.keep(name, kept)
        return found


@dataclass(frozen=True)
class Question(Generic[T]):
    """A request, and what is read off its answer."""

    fields: dict[str, Any]
    read: Callable[[Choice], T]


def digest(value: Any) -> str:
    """SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def ability(asker: Asker, tokenizer: Tokenizer) -> Ability:
    """Found by asking, a token each time, and kept. Raises UsageError where nothing is answered, or
    where the endpoint reads other tokens than the tokenizer here."""
    known = asker.memory.recall("ability")
    if known is not None:
        return Ability(Access(known["access"]), known["told"], known["least"])
    ids = [tokenizer.start, *tokenizer.encode(PROBE)]
    told, said = _greeted(asker, ids)
    _check_tokens(asker, tokenizer, told, said, len(ids))
    found = _scoring(asker, tokenizer, told, ids) or Ability(Access.GENERATE, told)
    kept = {"access": int(found.access), "told": found.told, "least": found.least}
    asker.memory.keep("ability", kept)
    return found


def _greeted(asker: Asker, ids: Tokens) -> tuple[dict[str, Any], Choice]:
    """(the most fields that the endpoint takes, its answer)."""
    for told in ({**_UNCUT, **_IDS, **_LOGGED}, _LOGGED, _UNCUT, {}):
        said = asker.may({"prompt": [*ids], **_SHORT, **told})
        if said is not None:
            return told, said
    if asker.may({"prompt": PROBE, **_SHORT}) is not None:
        raise _wrong_tokenizer(asker, "takes text, and refuses the token ids of")
    asker.ask([Question({"prompt": PROBE, **_SHORT}, lambda choice: choice)])  # tells why
    raise UsageError(f"{asker.endpoint.url}: refuses and answers by turns; run again")


def _scoring(
    asker: Asker, tokenizer: Tokenizer, told: dict[str, Any], ids: Tokens
) -> Ability | None:
    """How the endpoint scores prompts; None where it does not."""
    for least in (0, 1) if "logprobs" in told else ():
        able = Ability(Access.SCORE, told, least)
        heard = asker.may({"prompt": [*ids], **able.scoring})
        if heard is not None and scores(heard, len(ids)):
            if not same_tokens(tokenizer, ids, heard.tokens):
                raise _wrong_tokenizer(asker, "writes its tokens otherwise than")
            return able
    return None


def _check_tokens(
    asker: Asker, tokenizer: Tokenizer, told: dict[str, Any], said: Choice, sent: int
) -> None:
    """Raises UsageError unless the endpoint counts and writes tokens as the tokenizer does."""
    if said.read not in (None, sent):
        raise _wrong_tokenizer(asker, f"reads {said.read} tokens where {sent} come from")
    spoken = {token.id: token for token in said.tokens if token.id is not None}
    if not same_tokens(tokenizer, [*spoken], [*spoken.values()]):
        raise _wrong_tokenizer(asker, "writes its tokens otherwise than")
    own = len(tokenizer.encode(PROBE))
    text = asker.may({"prompt": PROBE, **_SHORT, **told})
    # the server may set a start token before
    if text is not None and text.read not in (None, own, own + 1):
        raise _wrong_tokenizer(asker, f"reads {text.read} tokens where {own} are read by")


def _wrong_tokenizer(asker: Asker, difference: str) -> UsageError:
    return UsageError(
        f"{asker.endpoint.url}: wrong tokenizer: {asker.model} {difference} the one given here; "
        "give the served model's own with as_is:base=DIR or as_is:tokenizer=DIR"
    )


def scores(choice: Choice, length: int) -> bool:
    """Whether it scores all of a prompt but its first token."""
    scored = choice.tokens[1:length]
    return len(scored) == length - 1 and all(token.known for token in scored)
