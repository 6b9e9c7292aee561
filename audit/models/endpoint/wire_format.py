"""Read the answers of a completions API: the tokens of a choice and their log-probabilities.

Two forms are known: OpenAI's, which vLLM uses too (parallel lists, tokens as text, or as
"token_id:7" on request), and llama.cpp's (one object per token, with its id), which is that of
chat completions, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from audit.core.errors import UsageError
from audit.core.masking import as_stored
from audit.core.predictor import Given, Tokenizer, Tokens

_NUMBERS = 1 << 31  # more than any vocabulary or context has
_SHOWN = 40  # characters of a reason of the server's
_ABOVE_ONE = 1e-3  # nats: rounding of a log-probability of a sure token
_ID = "token_id:"
_NOT_TEXT = (_ID, "bytes:")  # how a token begins that is not written as its text
_FULL = ("length", "max_tokens")  # why a text ends: as long as was requested
_ENDED = ("stop", "eos", "eos_token", "stop_sequence", "end_turn")  # or at its end
# fields of a choice that hold no text of the model
_ABOUT = ("finish_reason", "stop_reason", "matched_stop", "logprobs", "role", "id", "type", "index")
_STOPS = ("stop_reason", "matched_stop")  # of vLLM and SGLang: the text that ended a generation
_SPACES = str.maketrans("▁Ġ", "  ")  # how vocabularies write a space


@dataclass(frozen=True)
class TokenReport:
    """One token as a server reports it.

    id: None where only its text is reported. log_prob, nats: None where it is missing, as for a
    prompt's first token. top: the log-probability of the most likely token there, or None.
    """

    id: int | None
    text: str
    log_prob: float | None
    top: float | None

    @property
    def scored(self) -> bool:
        """Return whether both log-probabilities are reported."""
        return self.log_prob is not None and self.top is not None


@dataclass(frozen=True)
class Choice:
    """One completion. completion_tokens, prompt_tokens: the server's counts, or None.

    stopped: whether it ended before its largest length. at_text: whether at a text that the server
    looks for. withheld: why it is not the model's text, or not all of it; "" where it is. more:
    other texts that whoever asked could read. served: the names of the model, and of its
    configuration, in the answer; "" for none.
    """

    text: str
    tokens: tuple[TokenReport, ...]
    stopped: bool
    completion_tokens: int | None
    prompt_tokens: int | None
    at_text: bool = False
    withheld: str = ""
    more: tuple[str, ...] = ()
    served: tuple[str, str] = ("", "")


def choice_of(answer: dict[str, Any]) -> Choice:
    """Read the one choice of an answer. Raises UsageError for any other form."""
    try:
        (choice,) = answer["choices"]
        usage = answer.get("usage") or {}
        message = choice.get("message") or {}
        main = choice.get("text") or message.get("content")
        parts = main if isinstance(main, list) else [main]
        text = as_stored("".join(_strings([part for part in parts if _is_text(part)])))
        beside = [*(part for part in parts if not _is_text(part)), message, choice]
        others = [found for found in _strings(beside) if found not in (main, text)]
        return Choice(
            text=text,
            tokens=_tokens(choice.get("logprobs") or {}),
            stopped=choice.get("finish_reason") not in _FULL,
            completion_tokens=_count(usage.get("completion_tokens")),
            prompt_tokens=_count(usage.get("prompt_tokens")),
            at_text=any(_is_stop_text(choice.get(name)) for name in _STOPS),
            withheld=_withheld(choice, {**message, **_refusal(parts)}, text),
            more=tuple(dict.fromkeys(others)),
            served=(str(answer.get("model") or ""), str(answer.get("system_fingerprint") or "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise UsageError(
            "the endpoint's answers have not the form of the completions API; is it one?"
        ) from None


def _strings(value: Any) -> list[str]:
    """List all texts within a JSON value, in order, but for what is about them."""
    found, left = list[str](), [value]
    while left:
        one = left.pop()
        if isinstance(one, str) and one:
            found.append(one)
        elif isinstance(one, list):
            left += reversed(one)
        elif isinstance(one, dict):
            left += reversed([inner for name, inner in one.items() if name not in _ABOUT])
    return found


def _is_stop_text(value: Any) -> bool:
    return isinstance(value, str) and value not in (*_FULL, *_ENDED)


def _is_text(part: Any) -> bool:
    """Return whether a part of a message is text as such, no refusal or reasoning."""
    return not isinstance(part, dict) or part.get("type", "text") in ("text", "output_text")


def _refusal(parts: list[Any]) -> dict[str, Any]:
    """Find the part of a message that refuses."""
    return next((part for part in parts if isinstance(part, dict) and part.get("refusal")), {})


def _withheld(choice: dict[str, Any], message: dict[str, Any], text: str) -> str:
    """Name why an answer is not, or not all of, what the model generated; "" where it is."""
    reason = choice.get("finish_reason")
    if message.get("refusal"):
        return "refusal"
    if message.get("tool_calls") or message.get("function_call"):
        return "call"
    if reason not in (*_FULL, *_ENDED):
        return " ".join(str(reason).split())[:_SHOWN]
    return "" if text.strip() else "empty"


def _count(value: Any) -> int | None:
    """Read a number of tokens, or of one token. Raises ValueError if a vocabulary has no such."""
    if value is None:
        return None
    number = int(value)
    if not 0 <= number < _NUMBERS:
        raise ValueError
    return number


def _tokens(logprobs: dict[str, Any]) -> tuple[TokenReport, ...]:
    if logprobs.get("content") is not None:
        return tuple(_llama_cpp(token) for token in logprobs["content"])
    texts: list[Any] = logprobs.get("tokens") or []
    log_probs = logprobs.get("token_logprobs") or [None] * len(texts)
    tops = logprobs.get("top_logprobs") or [None] * len(texts)
    columns = zip(texts, log_probs, tops, strict=True)
    return tuple(
        TokenReport(_id(_text(text)), text, _nats(log_prob), _largest((top or {}).values()))
        for text, log_prob, top in columns
    )


def _llama_cpp(token: dict[str, Any]) -> TokenReport:
    tops = [top["logprob"] for top in token.get("top_logprobs") or []]
    log_prob = _nats(token["logprob"])
    number = _id(token["token"]) if token.get("id") is None else _count(token["id"])
    return TokenReport(number, _text(token["token"]), log_prob, _largest(tops))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _id(text: str) -> int | None:
    return _count(text.removeprefix(_ID)) if text.startswith(_ID) else None


def _nats(value: Any) -> float | None:
    """Read a log-probability. Raises ValueError for NaN, or more than that of a sure token."""
    number = None if value is None else float(value)
    if number is not None and not number <= _ABOVE_ONE:
        raise ValueError
    return number


def _largest(values: Any) -> float | None:
    return max((number for v in values if (number := _nats(v)) is not None), default=None)


def same_tokens(tokenizer: Tokenizer, ids: Tokens, reported: Sequence[TokenReport]) -> bool:
    """Return whether a server writes at least half of the tokens as the tokenizer here does.

    Servers differ in how they write special tokens and parts of characters; with another
    vocabulary nearly every token differs.
    """
    ours = [tokenizer.decode([token]) for token in ids]
    pairs = [
        (one.translate(_SPACES).strip(), token.text.translate(_SPACES).strip())
        for one, token in zip(ours, reported, strict=False)
        if token.text and "�" not in one + token.text and not token.text.startswith(_NOT_TEXT)
    ]
    return 2 * sum(one == other for one, other in pairs) >= len(pairs)


class Generated(NamedTuple):
    """The tokens of a completion, the reports of those before its stop token, and how much of what
    was requested this is."""

    tokens: list[int]
    reports: list[TokenReport]
    given: Given


def generated(choice: Choice, tokenizer: Tokenizer, length: int) -> Generated:
    """Read the `length` tokens of a completion.

    A server stops where a text ends: the rest is filled with stop tokens. Where it reports no ids,
    its text is tokenized here, and there are no reports. Raises UsageError where the completion is
    too short for another reason.
    """
    ids = [token.id for token in choice.tokens if token.id is not None]
    count = choice.completion_tokens
    exact = bool(ids) and len(ids) == len(choice.tokens) and count in (None, len(ids))
    if exact and as_stored(written := tokenizer.decode(ids)) != written:
        exact = False  # a key in pieces
    tokens = ids if exact else tokenizer.encode(choice.text)
    if count is None and exact:
        count = len(ids)
    if not choice.stopped and not choice.withheld and count is not None and count < length:
        raise UsageError(
            f"the endpoint gave {count} of {length} tokens; its context is too small for the "
            "attack's prompts, or it lowers max_tokens, so give a smaller length or prefix"
        )
    until = tokens.index(tokenizer.stop) if tokenizer.stop in tokens else len(tokens)
    text = tokens[: min(until, length)]
    filled = text + [tokenizer.stop] * (length - len(text))
    whole = max(count or 0, len(tokens)) >= length or tokenizer.stop in tokens
    return Generated(
        filled, list(choice.tokens[: len(text)]) if exact else [], _given(choice, whole)
    )


def _given(choice: Choice, whole: bool) -> Given:
    """Classify an answer. whole: whether it has all tokens, or ends in the model's own end."""
    if choice.withheld:
        return Given.WITHHELD
    if choice.at_text:
        return Given.CUT
    if whole:
        return Given.TEXT
    return Given.STOPPED if choice.stopped else Given.CUT
