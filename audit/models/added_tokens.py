"""Refuse tokenizers whose added tokens grow without an end when they are normalized.

A library normalizes each as it loads them, in the process that asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from audit.core.errors import UsageError
from audit.core.files import read_json
from audit.core.tokenizer_process import TokenizerProcess

_OF_NUMBERS = "added_tokens.json"  # its keys are the tokens
_OTHERS = ("tokenizer_config.json", "special_tokens_map.json", _OF_NUMBERS)
_CLASS = "tokenizer_class"
_ALWAYS, _TIMES = 1 << 20, 8  # characters that tokens may grow to, and more for each of theirs
_MOST = 1 << 22  # characters of all


def check_added(file: Path, document: Any) -> None:
    """Raise UsageError where the added tokens of a tokenizer grow, or take much memory.

    file: its tokenizer.json; document: what that holds. Files beside it name tokens, too.
    """
    if not isinstance(document, dict) or not document.get("normalizer"):
        return
    beside = [file.with_name(name) for name in _OTHERS]
    named = [_named(other) for other in beside if other.is_file()]
    texts = sorted(set(_texts([document.get("added_tokens"), *named])))
    alone = json.loads(Tokenizer(WordLevel({"": 0}, unk_token="")).to_str())
    process = TokenizerProcess(json.dumps({**alone, "normalizer": document["normalizer"]}))
    size = sum(map(len, texts))
    try:
        if size > _MOST or process.normalized(texts) > _ALWAYS + _TIMES * size:
            raise UsageError(f"{file}: its added tokens take too much memory; give another one")
    finally:
        process.close()


def _named(file: Path) -> Any:
    """Read what a file names as tokens."""
    try:
        document = read_json(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read ({error}); save the tokenizer again") from None
    if not isinstance(document, dict) or file.name == _OF_NUMBERS:
        return list(document) if isinstance(document, dict | list) else []
    return [value for key, value in document.items() if "token" in key and key != _CLASS]


def _texts(value: Any) -> Iterator[str]:
    """Yield every text at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
