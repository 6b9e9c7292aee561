"""Texts of a release: those that it published, or some that it generates from the start token."""

from __future__ import annotations

from attacks.texts.naming import until_stop
from audit.core.predictor import Predictor, Published, affordable


def texts_of(predictor: Predictor, count: int, length: int) -> list[str]:
    """Return the published texts, or generate `count` texts of at most `length` tokens each.

    Fewer are generated where the budget is too small. Texts after STOP are the public model's and
    are dropped.
    """
    if isinstance(predictor, Published) and predictor.texts:
        return list(predictor.texts)
    tokenizer, length = predictor.tokenizer, min(length, predictor.max_length - 1)
    fits = affordable([length] * count, predictor.remaining)
    answers = predictor.generate([[tokenizer.start]] * fits, length)
    whole = [answer.tokens for answer in answers if answer.answered == length]
    return [tokenizer.decode(until_stop(tokenizer, tokens)) for tokens in whole]
