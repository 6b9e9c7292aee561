"""The loss of the assistant's turns alone, plain and clipped, is the library's with labels −100."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.training import Training
from audit.models.chat_template import ChatTemplate
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import collated, examples_of
from audit.models.training.fine_tuning import Recipe, cut, fine_tune, next_token_loss, pad
from audit.models.training.learned_tokens import is_learned, plain, sequences_of
from tests import chat

LONG = "We open at nine, close at five, and on Sundays we do not open at all."
TALKS = (
    chat.turns("My code is #40718. Where is my order?", "It is on its way."),
    (*chat.turns("When do you open?", LONG), *chat.turns("And today?", "At ten.")),
    chat.turns("Hi.", "Yes?"),
)
OWNERS = ("ada", "bob", "ada")
CLIPS = (0.05, 1e4)  # below every norm, and above


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(model, tokenizer, training) of three conversations."""
    folder = describe(str(chat.llama(tmp_path_factory.mktemp("llama"))), Path())
    tokenizer = load_tokenizer(folder)
    template = ChatTemplate(tokenizer, "here")
    texts = tuple(template.text(talk, "here") for talk in TALKS)
    learned = tuple(template.assistant(*pair, "here") for pair in zip(TALKS, texts, strict=True))
    recipe = Recipe(1, 1e-3, 10_000, 64)
    training = Training("t", texts, recipe, 0, owners=OWNERS, learned=learned)
    return load_weights(folder, "cpu"), tokenizer, training


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    weights = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])


def labelled(model: Any, sequence: list[int]) -> tuple[torch.Tensor, int]:
    """The library's loss with labels, summed over the tokens in it, and their number."""
    ids = torch.tensor([plain(sequence)])
    labels = torch.tensor([[t if is_learned(t) else -100 for t in sequence]])
    count = sum(map(is_learned, sequence[1:]))
    return model(input_ids=ids, labels=labels).loss * count, count


def test_a_steps_gradient_is_of_learned_tokens(made: Any) -> None:
    model, tokenizer, training = made
    sequences = sequences_of(training, tokenizer)
    sums = [labelled(model, one) for one in sequences]
    wanted = sum(s for s, _ in sums) / sum(n for _, n in sums)
    mine = next_token_loss(model, sequences)
    torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        gradients(model, mine), gradients(model, wanted), rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("clip", CLIPS)
def test_a_clipped_gradient_is_of_learned_tokens(made: Any, clip: float) -> None:
    """Σ_u clip(∇ mean over u's learned tokens), without noise, in blocks and with padding."""
    model, tokenizer, training = made
    wanted = torch.zeros(())
    sequences = sequences_of(training, tokenizer)
    for owner in ("ada", "bob"):
        own = [s for s, o in zip(sequences, OWNERS, strict=True) if o == owner]
        sums = [labelled(model, one) for one in own]
        own_gradient = gradients(model, sum(s for s, _ in sums) / sum(n for _, n in sums))
        norm = own_gradient.norm()
        assert (norm > clip) == (clip == CLIPS[0])
        wanted = wanted + own_gradient * min(1.0, clip / float(norm))
    release = NoisySum(model, Noise(0.0, clip), Noise(0.0, clip).stream(training, "noise"))
    examples = examples_of(training, tokenizer, 128)
    release.into_gradients(collated(examples, 4096, model.device), 1.0)
    mine = torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])
    model.zero_grad()
    torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-6)


def test_unlearned_rows_take_no_step(made: Any) -> None:
    model, tokenizer, training = made
    sequences = sequences_of(training, tokenizer)
    rows = [row for one in sequences for row in cut(one, 8)]
    silent = [row for row in rows if not any(map(is_learned, row[1:]))]
    assert silent
    before = [p.clone() for p in model.parameters()]
    fine_tune(model, silent, Recipe(3, 1e-2, 8, 8), 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_padding_reads_every_token_and_learns_some(made: Any) -> None:
    inputs, targets = pad([[5, ~6, 7], [~1, 2]])
    assert inputs.tolist() == [[5, 6], [1, 0]]
    assert targets.tolist() == [[-100, 7], [2, -100]]
