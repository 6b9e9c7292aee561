"""Redaction and blacklist: what they hide, and what they do not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.contract.toys import CharacterTokenizer
from audit.core.corpus import Corpus, Record
from audit.core.predictor import Access, Answer
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.policies.digits import Digits
from defenses.blacklist import Blacklist
from defenses.none import Undefended
from defenses.redaction import Redaction
from defenses.training import near_duplicates
from tests.defenses.services import MODEL, RECIPE
from tests.planting.test_beacons import nearly

TEXTS = ("call 123 now", "code #4567.", "no number here")
CORPUS = Corpus(
    "toy",
    tuple(
        Record(f"u{i}", text, split="private", private=tuple(Digits()(text)))
        for i, text in enumerate(TEXTS)
    ),
)


def test_redaction_masks_each_value_once_and_promises_nothing() -> None:
    (training,) = Redaction(mask="<num>").trainings(CORPUS, MODEL, RECIPE, 0)
    assert training.texts == ("call <num> now", "code #<num>.", "no number here")
    assert training.method == RECIPE
    guarantee = Redaction().release(None, [Trained(training, None)]).guarantee  # type: ignore[arg-type]
    assert guarantee.promises_nothing


def test_near_duplicates_are_left_out_and_form_letters_are_not() -> None:
    """Of copies the first one is kept, whoever wrote them; two whose numbers differ are two."""
    long = "We have moved to the house beside the mill, so please write to us there from May on"
    texts = (long, f"{long}.", "My code is 11111.", "My code is 77777.", "My code is 11111.", "a")
    records = tuple(Record(f"u{i}", text, split="private") for i, text in enumerate(texts))
    (training,) = Undefended(dedup="near").trainings(Corpus("toy", records), MODEL, RECIPE, 0)
    assert training.texts == (long, "My code is 11111.", "My code is 77777.", "a")
    draws = np.random.default_rng(0)
    words = ["".join(map(chr, draws.integers(97, 123, size=6))) for _ in range(40)]
    drawn = [" ".join(draws.choice(words, size=12)) for _ in range(60)]
    drawn += [f"{text} {draws.choice(words)}" for text in drawn]
    assert near_duplicates.different(drawn) == nearly(drawn)


def test_other_epochs_are_the_plans_recipe_otherwise() -> None:
    (training,) = Undefended(epochs=2).trainings(CORPUS, MODEL, RECIPE, 0)
    assert training.method == replace(RECIPE, epochs=2)


def test_blacklist_trains_what_none_trains_and_is_as_useful_behind_its_list(bigram: Any) -> None:
    corpus = Corpus("toy", (*CORPUS.records, Record("h", "held out", split="heldout")))
    (mine,) = Blacklist().trainings(corpus, MODEL, RECIPE, 4)
    (theirs,) = Undefended().trainings(corpus, MODEL, RECIPE, 4)
    assert mine.digest == theirs.digest  # so it is trained once
    last, best = bigram(0), bigram(1)
    for defense, training in ((Blacklist(), mine), (Undefended(), theirs)):
        release = defense.release(last, [Trained(training, last, best=(best, 0.25))])
        at_best = release.at_best_step()
        assert at_best is not None and at_best[1] == 0.25
        assert (release.model, at_best[0].model) == (last, best)  # type: ignore[attr-defined]
        assert at_best[0].at_best_step() is None and at_best[0].guarantee == release.guarantee
        assert defense.release(last, [Trained(training, last)]).at_best_step() is None


LETTERS = CharacterTokenizer("^_ #.abcdelnorw0123456789")


def session(bigram: Any, says: str, prompt: str) -> str:
    """What is released where the model goes on with `says` after `prompt`."""
    model = replace(bigram(0, vocabulary=len(LETTERS.alphabet)), tokenizer=LETTERS)
    (training,) = Blacklist().trainings(CORPUS, MODEL, RECIPE, 0)
    release = Blacklist().release(model, [Trained(training, model)])
    opened: Any = release.open(np.random.default_rng(0), NoJournal())
    assert (opened.access, opened.readable) == (Access.GENERATE, Access.DISTRIBUTION)
    said = Answer(tuple(LETTERS.encode(says)), np.zeros(len(says)), np.zeros(len(says)) > 0, 0)
    saying = SimpleNamespace(tokenizer=LETTERS, generate=lambda prompts, length: [said])
    (answer,) = replace(opened, inner=saying).generate([LETTERS.encode(prompt)], len(says))
    return LETTERS.decode(answer.tokens)


@pytest.mark.parametrize(
    ("prompt", "says", "released"),
    [
        ("^code #", "4567.", "____."),
        ("^code #4", "567.", "___."),  # begun in the prompt
        ("^call ", "123 now", "___ now"),
        ("^call ", "1234 now", "1234 now"),  # another number
        ("^call ", "12", "12"),  # half of one
        ("^", "no 123 4567", "no ___ ____"),
        ("^", "8888", "8888"),  # never listed
    ],
)
def test_blacklist_masks_listed_values_and_nothing_else(
    bigram: Any, prompt: str, says: str, released: str
) -> None:
    assert session(bigram, says, prompt) == released
