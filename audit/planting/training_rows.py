"""Reads what a trainer read: the tokens of each row, and which of them are in the loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.files import regular
from audit.core.predictor import Tokenizer, record_tokens
from audit.corpora import files
from audit.corpora.conversations import messages
from audit.corpora.part import SPLIT_OF

IGNORED = -100  # the label of a token that is not in the loss
MASKS = ("completion_mask", "assistant_masks", "loss_mask")  # 1: in the loss, if all agree


@dataclass(frozen=True)
class TokenRow:
    """One sequence of tokens.

    learned: whether each token is in the loss. shifted: whether labels name the next token.
    """

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]
    shifted: bool = False


def of_texts(texts: Iterable[str], tokenizer: Tokenizer, context: int) -> Iterator[TokenRow]:
    """Tokenise records as a plain trainer does: each by itself, cut at the context."""
    for text in texts:
        tokens = tuple(record_tokens(tokenizer, text))[: context + 1]
        yield TokenRow(tokens, (True,) * len(tokens))


Render = Callable[[Sequence[Message], str], TokenRow]


def of_file(
    path: Path, tokenizer: Tokenizer, context: int, render: Render | None = None
) -> Iterator[TokenRow]:
    """Read a training file: JSONL with `input_ids` (and `labels`, masks), `text` or `messages`.

    Of lines with a `split`, only the private ones are trained on. A .txt is read as records between
    blank lines. render: turns a conversation at a place into tokens; None where no template is
    known.

    Raises UsageError with file and line.
    """
    if path.suffix.lower() == ".txt" and path.is_file():
        try:
            yield from of_texts((one.text for one in files.records(path)), tokenizer, context)
        except UsageError as error:
            if "--records" not in str(error):  # which is said of a corpus, not of this file
                raise
            raise UsageError(
                f"{path}: no blank lines between its records; give it as JSONL, a 'text' a line"
            ) from None
        return
    try:
        with regular(path).open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield from _rows(line, f"{path}:{number}", tokenizer, context, render)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def _rows(
    line: str, where: str, tokenizer: Tokenizer, context: int, render: Render | None
) -> Iterator[TokenRow]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: broken JSON") from None
    if isinstance(entry, dict) and "input_ids" not in entry:
        if not isinstance(entry.get("text"), str) and "messages" in entry:
            yield from _of_conversation(entry, where, render)
            return
        if isinstance(entry.get("text"), str):
            yield from of_texts([entry["text"]] if _is_private(entry) else [], tokenizer, context)
            return
    try:
        yield of_example(entry)
    except (TypeError, KeyError, ValueError, OverflowError):
        raise UsageError(
            f"{where}: needs a 'text', or 'input_ids' with 'labels' of the same length"
        ) from None


def _is_private(entry: Mapping[str, Any]) -> bool:
    """Return whether a line is trained on, by any usual name of its split."""
    split = entry.get("split") or "private"
    return SPLIT_OF.get(str(split).lower()) == "private"


def _of_conversation(
    entry: Mapping[str, Any], where: str, render: Render | None
) -> Iterator[TokenRow]:
    if render is None:
        raise UsageError(
            f"{where}: is a conversation, and the model has no chat template; give the file as the "
            "trainer reads it, with 'input_ids' and 'labels', or with the whole 'text' of each "
            "example"
        )
    if _is_private(entry):
        yield render(messages(entry, where), where)


def of_example(entry: Any) -> TokenRow:
    """Convert an example of a trainer's data set to the tokens that are in its loss.

    A token is learned if it is its own label, or that of the token before where labels are shifted
    by one, and if each mask that is there holds it. Raises TypeError, KeyError, ValueError or
    OverflowError.
    """
    tokens = [int(token) for token in entry["input_ids"]]
    if not all(0 <= token < 1 << 31 for token in tokens):
        raise ValueError("a token number is out of range")
    own, shifted = [True] * len(tokens), False
    if entry.get("labels") is not None:
        own, shifted = _labelled(tokens, list(map(int, entry["labels"])))
    for name in MASKS:
        if entry.get(name) is not None:
            own = [mine and bool(held) for mine, held in zip(own, entry[name], strict=True)]
    read = entry.get("attention_mask")
    held = list(zip(tokens, own, [1] * len(tokens) if read is None else read, strict=True))
    return TokenRow(
        tuple(token for token, _, here in held if here),
        tuple(mine for _, mine, here in held if here),
        shifted,
    )


def _labelled(tokens: Sequence[int], labels: Sequence[int]) -> tuple[list[bool], bool]:
    """Find the tokens that labels hold, and whether most of them do so one place before.

    Of labels that are shifted, the last one names a token that is not among the tokens.
    """
    own = [label == token for label, token in zip(labels, tokens, strict=True)]
    after = [False, *(label == token for label, token in zip(labels, tokens[1:], strict=False))]
    return (after, True) if sum(after) > sum(own) else (own, False)
