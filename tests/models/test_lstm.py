"""The LSTM: equal to torch's, read in any cut, and a model like every other to the project."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from audit.core.embedded import EMBEDDED_FOLDER
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.lstm import Architecture, State, untrained
from audit.plugins.listing import entries
from tests.models.alike import check_cursor, check_log_pmfs, weights

SMALL = Architecture(vocab_size=11, embedding=5, hidden=7)


def opinionated(architecture: Architecture = SMALL) -> Any:
    """A random network whose gates are far from linear, in float64."""
    model = untrained(architecture).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(15)
    return model


def tokens(rows: int, width: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(SMALL.vocab_size, (rows, width), generator=generator)


# --- the cell


def reference(model: Any) -> nn.LSTM:
    """torch's own LSTM with the same weights."""
    lstm = nn.LSTM(SMALL.embedding, SMALL.hidden, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(model.input.weight)
        lstm.weight_hh_l0.copy_(model.recurrent.weight)
        lstm.bias_ih_l0.copy_(model.input.bias)
        lstm.bias_hh_l0.zero_()
    return lstm


@pytest.mark.parametrize("begun", [False, True])
def test_states_and_gradients_equal_torchs_lstm(begun: bool) -> None:
    model, inputs, targets = opinionated(), tokens(4, 9), tokens(4, 9, seed=1)
    lstm = reference(model)
    h, c = torch.linspace(-1, 1, 8 * SMALL.hidden, dtype=torch.float64).view(2, 4, -1) * begun
    logits, state = model.read(inputs, State(h, c) if begun else None)
    out, (last_h, last_c) = lstm(model.embedding(inputs), (h[None], c[None]))
    expected = model.head(out)
    torch.testing.assert_close(logits, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(state.h, last_h[0], atol=1e-9, rtol=0)
    torch.testing.assert_close(state.c, last_c[0], atol=1e-9, rtol=0)

    ours = (model.input.weight, model.recurrent.weight, model.input.bias, model.embedding.weight)
    theirs = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, model.embedding.weight)
    loss = [
        nn.functional.cross_entropy(one.flatten(0, 1), targets.flatten())
        for one in (logits, expected)
    ]
    for mine, other in zip(
        torch.autograd.grad(loss[0], ours), torch.autograd.grad(loss[1], theirs), strict=True
    ):
        assert float(mine.abs().max()) > 1e-4
        torch.testing.assert_close(mine, other, atol=1e-9, rtol=0)


def test_layers_are_called_as_hooks_expect() -> None:
    model, calls = opinionated(), []
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda *seen, n=name: calls.append((n, tuple(seen[2].shape))))
    model(input_ids=tokens(2, 3), position_ids=torch.arange(3).expand(2, 3))
    gates = 4 * SMALL.hidden
    assert calls == [
        ("embedding", (2, 3, SMALL.embedding)),
        ("input", (2, 3, gates)),
        *[("recurrent", (2, gates))] * 3,
        ("head", (2, 3, SMALL.vocab_size)),
    ]


def test_reading_never_changes_a_state() -> None:
    model, text = opinionated(), tokens(3, 5)
    state = model(input_ids=text, use_cache=True).past_key_values
    kept = State(state.h.clone(), state.c.clone())
    more = tokens(3, 2, seed=3)
    expected = model(input_ids=torch.cat([text, more], dim=1)).logits[:, 5:]
    for _ in range(2):
        found = model(input_ids=more, past_key_values=state).logits
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    assert torch.equal(state.h, kept.h) and torch.equal(state.c, kept.c)
    state.batch_select_indices(torch.tensor([2, 0, 2, 1]))
    rows = torch.tensor([2, 0, 2, 1])
    found = model(input_ids=more[rows], past_key_values=state).logits
    torch.testing.assert_close(found, expected[rows], atol=1e-10, rtol=0)


def test_states_are_chosen_and_mixed_by_text() -> None:
    one, other = (State(torch.full((3, 2), x), torch.full((3, 2), -x)) for x in (1.0, 2.0))
    mixed = one.where(torch.tensor([True, False, True]), other)
    assert mixed.h[:, 0].tolist() == [1, 2, 1] and mixed.c[:, 1].tolist() == [-1, -2, -1]
    some = mixed.rows(torch.tensor([1, 1, 0, 2]))
    assert some.h[:, 1].tolist() == [2, 2, 1, 1] and some.c[:, 0].tolist() == [-2, -2, -1, -1]
    assert mixed.rows(slice(1, 2)).h.tolist() == [[2, 2]]


def test_the_last_logits_can_be_had_alone() -> None:
    model, text = opinionated(), tokens(2, 6)
    whole = model(input_ids=text).logits
    assert model(input_ids=text).past_key_values is None
    for kept in (1, 4, 6):
        answer = model(input_ids=text, use_cache=True, logits_to_keep=kept)
        torch.testing.assert_close(answer.logits, whole[:, -kept:], atol=1e-12, rtol=0)
        assert answer.past_key_values.h.shape == (2, SMALL.hidden)


# --- the beginning


def test_the_seed_alone_decides_the_initial_weights() -> None:
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(found))  # the global state differs, and must not matter
        expected = torch.rand(3)
        torch.manual_seed(len(found))
        found.append(weights(untrained(replace(SMALL, seed=seed))))
        assert torch.equal(torch.rand(3), expected)  # nor is it moved
    assert torch.equal(found[0], found[1])
    assert float((found[0] == found[2]).double().mean()) < 0.01


def test_nothing_is_tied_and_every_weight_is_drawn() -> None:
    model = untrained(SMALL)
    names = [name for name, _ in model.named_parameters()]
    assert len(names) == len(model.state_dict()) == 6
    assert all(len(w.unique()) == w.numel() for w in model.parameters())
    assert SMALL.parameters == len(weights(model))


# --- a model of the project


def test_it_is_described_without_being_built() -> None:
    folder = describe("lstm", EMBEDDED_FOLDER)
    model = load_weights(folder, "cpu")
    assert folder.parameters == sum(p.numel() for p in model.parameters()) == 731_424
    assert (folder.name, folder.kind, folder.max_length) == ("lstm", "lstm", 512)
    assert folder.vocabulary == model.config.vocab_size == 1024
    assert not folder.embedded and not model.training
    assert torch.equal(weights(model), weights(load_weights(folder, "cpu")))
    assert describe("embedded", EMBEDDED_FOLDER).kind == "transformer"


def test_the_hash_is_of_the_tokenizer_alone(tmp_path: Path) -> None:
    """And of its sizes and seed, which no setting changes."""
    shutil.copytree(EMBEDDED_FOLDER / "public_model", tmp_path / "public_model")
    before = describe("lstm", EMBEDDED_FOLDER).sha256
    assert before != describe("embedded", tmp_path).sha256
    (tmp_path / "public_model" / "model.safetensors").unlink()
    assert describe("lstm", tmp_path).sha256 == before
    tokenizer = tmp_path / "public_model" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text("utf-8") + " ")
    assert describe("lstm", tmp_path).sha256 != before


def test_it_is_listed_without_a_folder() -> None:
    embedded, lstm = entries("models")
    assert (embedded["name"], lstm["name"]) == ("embedded", "lstm")
    assert "path" in embedded and "path" not in lstm


def test_a_long_text_is_read_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    reader = load_tokenizer(describe("lstm", EMBEDDED_FOLDER))
    assert len(reader.encode("My code is 123456. " * 60)) > 512
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("shared", [1, 80])
def test_it_is_read_as_any_model(shared: int) -> None:
    """Texts after a common beginning, which is read once where it is long, and token by token."""
    head = tokens(1, shared)[0].tolist()
    tails = [tokens(1, n, seed=n)[0].tolist() for n in (5, 30, 12, 6)]
    model = CausalLM(opinionated(), None, 200)  # type: ignore[arg-type]
    texts = [[*head, *tail] for tail in tails]
    assert (model._shared([tuple(t[: shared + 1]) for t in texts])[1] > 0) == (shared > 1)
    check_log_pmfs([model], texts, [shared + n for n in (1, 7, 1, 4)])
    prompts = [[*head, 7, i] for i in range(5)] + [[*head, 9, 1]]
    check_cursor([model], prompts, tokens(4, 6, seed=1).tolist())
