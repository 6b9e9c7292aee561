"""What a completions API says, read: the tokens of a choice and their log-probabilities.

Two forms are known: OpenAI's, which vLLM writes too (parallel lists, tokens as text, or as
"token_id:7" where asked for), and llama.cpp's (one object a token, with its id).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, Tokens

_ID = "token_id:"
_ODD = (_ID, "bytes:")  # how a token begins that is not told as text
_SPACES = str.maketrans("▁Ġ", "  ")  # how vocabularies write a space


@dataclass(frozen=True)
class Spoken:
    """One token as a server tells of it.

    id: None where only its text is told. log_prob, nats: None where it is not told, as that of a
    prompt's first token. top: the log-probability of the likeliest token there; None: not told.
    """

    id: int | None
    text: str
    log_prob: float | None
    top: float | None

    @property
    def known(self) -> bool:
        """Whether a score can be read off it."""
        return self.log_prob is not None and self.top is not None


@dataclass(frozen=True)
class Choice:
    """One completion. said: how many tokens were generated; None: not told."""

    text: str
    tokens: tuple[Spoken, ...]
    stopped: bool
    said: int | None
    read: int | None


def choice_of(answer: dict[str, Any]) -> Choice:
    """The one choice of an answer. Raises UsageError for what is none."""
    try:
        (choice,) = answer["choices"]
        usage = answer.get("usage") or {}
        return Choice(
            text=str(choice.get("text") or ""),
            tokens=_spoken(choice.get("logprobs") or {}),
            stopped=choice.get("finish_reason") != "length",
            said=_count(usage.get("completion_tokens")),
            read=_count(usage.get("prompt_tokens")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(
            "the endpoint's answers have not the form of the completions API; is it one?"
        ) from None


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _spoken(told: dict[str, Any]) -> tuple[Spoken, ...]:
    if told.get("content") is not None:
        return tuple(_object(token) for token in told["content"])
    texts: list[Any] = told.get("tokens") or []
    log_probs = told.get("token_logprobs") or [None] * len(texts)
    tops = told.get("top_logprobs") or [None] * len(texts)
    columns = zip(texts, log_probs, tops, strict=True)
    return tuple(
        Spoken(_id(text), text, _nats(log_prob), _most((top or {}).values()))
        for text, log_prob, top in columns
    )


def _object(token: dict[str, Any]) -> Spoken:
    tops = [top["logprob"] for top in token.get("top_logprobs") or []]
    return Spoken(_count(token.get("id")), token["token"], _nats(token["logprob"]), _most(tops))


def _id(text: str) -> int | None:
    return int(text.removeprefix(_ID)) if text.startswith(_ID) else None


def _nats(value: Any) -> float | None:
    number = None if value is None else float(value)
    if number is not None and math.isnan(number):
        raise ValueError
    return number


def _most(values: Any) -> float | None:
    return max((number for v in values if (number := _nats(v)) is not None), default=None)


def same_tokens(tokenizer: Tokenizer, ids: Tokens, told: Sequence[Spoken]) -> bool:
    """Whether a server writes tokens as the tokenizer here does, but for a few: servers differ in
    how they write what is special, or half a character; another vocabulary differs everywhere."""
    ours = [tokenizer.decode([token]) for token in ids]
    pairs = [
        (one.translate(_SPACES).strip(), spoken.text.translate(_SPACES).strip())
        for one, spoken in zip(ours, told, strict=False)
        if spoken.text and "�" not in one + spoken.text and not spoken.text.startswith(_ODD)
    ]
    return 2 * sum(one == other for one, other in pairs) >= len(pairs)


def generated(choice: Choice, tokenizer: Tokenizer, length: int) -> tuple[list[int], list[Spoken]]:
    """(the tokens of a completion, `length` of them; what is told of the first of them).

    A server stops where a text ends: what it did not say is filled up with stop tokens. Where it
    tells no ids, its text is read again, and nothing is told. Raises UsageError where it said less
    for another reason.
    """
    ids = [spoken.id for spoken in choice.tokens if spoken.id is not None]
    exact = bool(ids) and len(ids) == len(choice.tokens) and choice.said in (None, len(ids))
    tokens = ids if exact else tokenizer.encode(choice.text)
    said = choice.said if choice.said is not None or not exact else len(ids)
    if not choice.stopped and said is not None and said < length:
        raise UsageError(
            f"the endpoint gave {said} of {length} tokens; its context is too small for the "
            "attack's prompts, so give a smaller length or prefix"
        )
    until = tokens.index(tokenizer.stop) if tokenizer.stop in tokens else len(tokens)
    kept = tokens[: min(until, length)]
    filled = kept + [tokenizer.stop] * (length - len(kept))
    return filled, list(choice.tokens[: len(kept)]) if exact else []
