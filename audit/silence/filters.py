"""Find out whether a server withholds answers where planted text is asked for, and only there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from audit.core.predictor import Given, Tokens
from audit.models.endpoint.session import Reply, Served

OTHERS = 19  # sentences that were never planted: above all of them has chance 1/20
TRIES = 20  # of each sentence
_SHARE = 10  # an answer that makes up one part in so many of all tries is common


def look(session: Served, planted: Tokens, others: Sequence[Tokens], length: int) -> str:
    """Ask a planted prompt and others that were never planted; name what is withheld; "" if none.

    The sentences are drawn alike. A server that does not know which of them was planted withholds
    most answers of the planted one, more than of every other, with probability at most 1/20.
    """
    prompts = [planted, *others]
    replies = session.ask([prompt for prompt in prompts for _ in range(TRIES)], length)
    ours, rest = replies[:TRIES], replies[TRIES:]
    each = [sum(map(_withheld, rest[i : i + TRIES])) for i in range(0, len(rest), TRIES)]
    withheld = sum(map(_withheld, ours))
    if len(others) >= OTHERS and withheld > max(each):
        return (
            f"Answers are withheld where planted text is asked for: {withheld} of {TRIES}, of "
            f"{len(others)} sentences that were never planted at most {max(each)}."
        )
    return _common(ours, rest)


def is_common(times: int, tries: int) -> bool:
    """Return whether an answer given so often makes up a tenth of all tries."""
    return times > 1 and _SHARE * times >= tries


def _withheld(reply: Reply) -> bool:
    return reply.answer.given is not Given.TEXT


def _common(ours: Sequence[Reply], rest: Sequence[Reply]) -> str:
    """Name an answer that the planted prompt often has, and no other."""
    elsewhere = {reply.choice.text for reply in rest}
    texts = Counter(reply.choice.text for reply in ours if not _withheld(reply))
    text, times = next(iter(texts.most_common(1)), ("", 0))
    if is_common(times, len(ours)) and text not in elsewhere:
        return f"{times} of {len(ours)} answers to planted prompts are the same, and no others are."
    return ""
