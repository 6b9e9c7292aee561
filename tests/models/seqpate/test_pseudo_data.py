"""Pseudo-sentences: public prefixes, completed by the model that is given, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from audit.core.training import Training
from audit.models.seqpate.pseudo_data import PseudoData, PseudoTuning, PublicPrefixes
from audit.models.training.fine_tuning import Recipe
from tests.refusals import refusals

TEXTS = ("Agent: Dalton Garden.\nCustomer: This is Ann.", "Good morning! My parcel is lost.", "Hi")
PSEUDO = PseudoData(sentences=40, prefix=4, shortest=8, longest=14)


@pytest.mark.parametrize("longest", [14, 48])
def test_sentences_keep_prefix_and_length(base: Any, longest: int) -> None:
    model, tokenizer = base
    sentences = PseudoData(40, 4, 8, longest).complete(model, tokenizer, TEXTS, seed=0)
    prefixes = {tuple(tokenizer.encode(text)[:4]) for text in TEXTS[:2]}
    assert {tuple(s[1:5]) for s in sentences} == prefixes  # both serve, the short text never
    for sentence in sentences:
        assert sentence[0] == tokenizer.start and tokenizer.stop not in sentence[1:-1]
        text = sentence[1:-1] if sentence[-1] == tokenizer.stop else sentence[1:]
        assert 8 <= len(text) <= longest
        assert sentence[-1] == tokenizer.stop or len(text) == longest  # cut, or ended by the model
    assert any(s[-1] == tokenizer.stop for s in sentences) == (longest == 48)
    assert any(s[-1] != tokenizer.stop for s in sentences)


def test_prefixes_are_used_evenly(base: Any) -> None:
    model, tokenizer = base
    sentences = PseudoData(sentences=30, prefix=4, shortest=4, longest=6).complete(
        model, tokenizer, TEXTS, seed=0
    )
    first = tuple(tokenizer.encode(TEXTS[0])[:4])
    assert sum(tuple(s[1:5]) == first for s in sentences) == 15


def test_sentences_are_of_the_seed_alone(base: Any) -> None:
    model, tokenizer = base
    one = PSEUDO.complete(model, tokenizer, TEXTS, seed=0)
    torch.manual_seed(99)
    assert PSEUDO.complete(model, tokenizer, TEXTS, seed=0) == one
    assert PSEUDO.complete(model, tokenizer, TEXTS, seed=1) != one


def test_without_a_prefix_it_is_refused(base: Any) -> None:
    for method in (PSEUDO, PublicPrefixes(1, 4)):
        refusals(
            lambda texts, method=method: method.complete(*base, texts, seed=0),
            [(["Hi", ""], "no public text has 4 tokens"), ([], "no public text has 4 tokens")],
        )


def test_impossible_lengths_are_refused() -> None:
    lengths = ({"sentences": 0}, {"prefix": 0}, {"prefix": 9, "shortest": 8}, {"shortest": 41})
    refusals(lambda given: PseudoData(**given), [(given, "pseudo-data") for given in lengths])
    refusals(lambda given: PublicPrefixes(*given), [((0, 4), "pseudo-data"), ((1, 0), "pseudo-")])


def test_public_prefixes_are_distinct_and_nobody_completes_them(base: Any) -> None:
    tokenizer = base[1]
    texts = (*TEXTS, TEXTS[0] + " Longer, with the same beginning.")
    everyone = {(tokenizer.start, *tokenizer.encode(text)[:4]) for text in TEXTS[:2]}
    nobody: Any = None  # no model is asked
    both = PublicPrefixes(most=9, prefix=4).complete(nobody, tokenizer, texts, seed=0)
    assert len(both) == 2 and set(map(tuple, both)) == everyone
    drawn = [
        tuple(*PublicPrefixes(1, 4).complete(nobody, tokenizer, texts, seed)) for seed in range(20)
    ]
    assert set(drawn) == everyone  # of the seed


def test_tuning_reads_public_text_only(base: Any) -> None:
    import copy

    model, tokenizer = base
    recipe = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=256, max_length=64)
    method = PseudoTuning(recipe, PSEUDO)
    trained = []
    for private in ("a", "b"):
        student = copy.deepcopy(model)
        method.train(student, tokenizer, Training("x", TEXTS, method, 5, owners=(private,) * 3))
        trained.append(student.state_dict()["transformer.wte.weight"])
    assert torch.equal(*trained)
    assert not torch.equal(trained[0], model.state_dict()["transformer.wte.weight"])
