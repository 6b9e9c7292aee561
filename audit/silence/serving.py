"""Find out by public prompts whether an endpoint samples the one model that was named.

None of these requests holds planted text, so their answers depend on no coin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from audit.core.predictor import Answer, Given, Predictor, Tokenizer
from audit.models.endpoint.session import Reply, Served

OPENINGS = (
    "Last week we",
    "The best way to",
    "I would like to",
    "Once there was a",
    "In the evening",
    "She looked at the",
    "There are many",
    "Nobody knows why",
)
LENGTH = 32  # tokens of an answer: two alike are no chance
_LEVEL = 0.001  # at which log-probabilities are refuted
_DIGITS = 1  # decimals of log-probabilities that are too few to rank values by
_APART = 0.1  # nats, at the median: more than half precision and batches make of a token
_FEWEST = 20  # tokens from which on reports are judged

ONE_ANSWER = "so at most one of all planted values can come up."


# what no check of answers can see
UNSEEN = (
    "an endpoint that changes the chances of tokens, as by a penalty or a temperature of its own, "
    "where it reports no log-probabilities",
    "an endpoint that replaces an answer with planted text by another text, or answers prompts of "
    "some length or with some words by another model",
    "an endpoint that answers by another model while it is scored, and for that long only",
    "an endpoint that mixes up the answers to requests of the same length, or adds text that it "
    "does not count",
    "a template that only the trainer applied to the planted text, where it is unlike usual ones",
)


def prompts(tokenizer: Tokenizer, frame: str) -> list[list[int]]:
    """Encode each opening twice, after the text that comes before every prompt."""
    return [[tokenizer.start, *tokenizer.encode(frame + text)] for text in OPENINGS * 2]


class Heard(NamedTuple):
    """The faults of an endpoint, as sentences, and the number of answers behind it."""

    faults: list[str]
    n: int


def look(session: Served, base: Predictor | None, frame: str) -> Heard:
    """Ask every opening twice. base: the public model, if it is here; frame: before each prompt."""
    asked = prompts(session.tokenizer, frame)
    replies = session.ask(asked, LENGTH)
    if len(replies) < len(asked):
        return Heard(["The endpoint continues no text of a user, so nothing can be asked."], 0)
    withheld = sum(one.answer.given is Given.WITHHELD for one in replies)
    if 2 * withheld > len(replies):
        why = f"{withheld} of {len(replies)} answers to public prompts were withheld"
        return Heard([f"{why}{_reasons(replies)}."], len(replies))
    public = None if base is None else base.generate(asked, LENGTH)
    faults = [
        *_names(replies, session.client.model),
        *_sampling(replies, public),
        *_uncounted(replies),
        *_reports(replies),
        *_scoring(session, asked[: len(OPENINGS)], replies[: len(OPENINGS)]),
    ]
    return Heard(faults, len(replies))


def _reasons(replies: Sequence[Reply]) -> str:
    reasons = dict.fromkeys(one.choice.withheld for one in replies if one.choice.withheld)
    return f" ({', '.join(reasons)})" if reasons else ""


def _names(replies: Sequence[Reply], wanted: str) -> Iterator[str]:
    """Compare the names of the model and of its configuration in all answers."""
    models, prints = (
        dict.fromkeys(filter(None, names))
        for names in zip(*(one.choice.served for one in replies), strict=True)
    )
    if len(models) > 1:
        yield f"The answers come from several models: {', '.join(models)}."
    elif models and wanted not in models:
        yield (
            f"The answers come from {next(iter(models))}, not from {wanted}; if it is the same, "
            "name it so with as_is:served=NAME."
        )
    if len(prints) > 1:
        yield f"The server's configuration changed between answers: {', '.join(prints)}."


def _sampling(replies: Sequence[Reply], public: Sequence[Answer] | None) -> Iterator[str]:
    """Compare the two answers to each prompt, and the number of different answers with the base's.

    Where the base gives equal answers, too, they do not count.
    """
    pairs = [(replies[i], replies[i + len(OPENINGS)]) for i in range(len(replies) - len(OPENINGS))]
    alike = sum(
        one.choice.text == other.choice.text
        for one, other in pairs
        if Given.WITHHELD not in (one.answer.given, other.answer.given)
    )
    different = len({one.choice.text for one in replies})
    usual = len(replies) if public is None else len({answer.tokens for answer in public})
    repeated = len(replies) - usual
    if alike > repeated:
        yield f"{alike} of {len(pairs)} prompts had the same answer twice, {ONE_ANSWER}"
    elif 2 * different < usual:
        yield f"The base gives {usual} different answers, the endpoint {different}, {ONE_ANSWER}"


def _uncounted(replies: Sequence[Reply]) -> Iterator[str]:
    """Find answers without the number of tokens that the server has read."""
    missing = sum(one.choice.prompt_tokens is None for one in replies)
    if missing:
        yield (
            f"{missing} of {len(replies)} answers do not state how many prompt tokens were read, "
            "so a prompt may be cut, or have a text of the server's before it."
        )


def _reports(replies: Sequence[Reply]) -> Iterator[str]:
    """Test the log-probabilities of sampled tokens: the most likely ones are drawn as often.

    Given the tokens before, each is the most likely one with the probability that is reported, so
    the sum of differences is a martingale with steps of range 1 (Hoeffding 1963, Azuma 1967).
    """
    reports = [token for one in replies for token in one.choice.tokens]
    pairs = [(t.log_prob, t.top) for t in reports if t.log_prob is not None and t.top is not None]
    if len(pairs) < _FEWEST:
        return
    log_probs, tops = np.array(pairs).T
    if (np.round(log_probs, _DIGITS) == log_probs).all():
        yield "Its log-probabilities are rounded, so values share ranks."
    drawn, predicted = int((log_probs >= tops).sum()), float(np.exp(tops).sum())
    if abs(drawn - predicted) > math.sqrt(len(pairs) * math.log(2 / _LEVEL) / 2):
        yield (
            f"{drawn} of {len(pairs)} sampled tokens are the most likely ones, where its "
            f"log-probabilities predict {predicted:.0f}: it does not sample what it reports."
        )


def _scoring(
    session: Served, asked: Sequence[list[int]], replies: Sequence[Reply]
) -> Iterator[str]:
    """Score the prompts and what followed them; compare with what was reported when it followed."""
    texts = [[*prompt[1:], *one.answer.tokens] for prompt, one in zip(asked, replies, strict=True)]
    scored = session.score([prompt[:1] for prompt in asked], texts)
    if not scored:
        return
    opened = [one.top1[: len(p) - 1] for one, p in zip(scored, asked, strict=True)]
    if np.concatenate(opened).all():
        yield "Its log-probabilities of a prompt are those of the most likely tokens."
    apart = np.concatenate(
        [
            one.log_probs[len(prompt) - 1 :] - then.answer.log_probs
            for one, prompt, then in zip(scored, asked, replies, strict=True)
        ]
    )
    apart = np.abs(apart[np.isfinite(apart)])
    if len(apart) >= _FEWEST and np.median(apart) > _APART:
        yield (
            f"It scores a text {np.median(apart):.2g} nats a token otherwise than when it "
            "generated it: its scores are not of the model that answers."
        )
