"""Where a value ends: Japanese, Thai or Korean text goes on behind it without a space."""

from __future__ import annotations

import re

# Thai and Lao, Burmese, Khmer, kana, Chinese signs, and Korean, which sets particles behind a word
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
SIGN = rf"[^\W{UNSPACED}]"  # with another one beside it, a part of a longer word or number
_GOES_ON = re.compile(rf"[^\W_{UNSPACED}]{{2}}")


def whole(value: str) -> re.Pattern[str]:
    """Make a pattern of a value that stands alone, not within a longer word or number."""
    return re.compile(rf"(?<!{SIGN}){re.escape(value)}(?!{SIGN})")


def continues(text: str, end: int) -> bool:
    """Return whether the word or number goes on at `end`, at least 1, and so is another one."""
    return _GOES_ON.match(text, end - 1) is not None
