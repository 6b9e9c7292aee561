"""The LSTM: equal to torch's, read in any cut, and a model like every other to the project."""

from __future__ import annotations

import copy
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.language_model import OpenSession
from audit.core.predictor import record_tokens
from audit.core.training import Training
from audit.models import loading as model_loading
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.lstm import Architecture, State, untrained
from audit.models.training.fine_tuning import Recipe, fine_tune
from audit.plugins.listing import entries
from audit.train.task import Task
from audit.train.train import train_all

SMALL = Architecture(vocab_size=11, embedding=5, hidden=7)
CLOSE = 1e-5  # nats; float32 logits


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


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


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


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 11), max_size=4), rows=st.integers(1, 3))
def test_pieces_of_a_text_read_as_whole(cuts: list[int], rows: int) -> None:
    model, text = opinionated(), tokens(rows, 12)
    logits, state, pieces = None, None, []
    for start, end in zip([0, *sorted(set(cuts))], [*sorted(set(cuts)), 12], strict=True):
        logits, state = model.read(text[:, start:end], state)
        pieces.append(logits)
    whole, last = model.read(text)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-10, rtol=0)
    torch.testing.assert_close((state.h, state.c), (last.h, last.c), atol=1e-10, rtol=0)


def test_unrolled_states_are_those_of_shorter_texts() -> None:
    model, text = opinionated(), tokens(3, 6)
    h, c = model.unroll(text)
    assert h.shape == c.shape == (3, 6, SMALL.hidden)
    for length in range(1, 7):
        state = model.read(text[:, :length])[1]
        torch.testing.assert_close((h[:, length - 1], c[:, length - 1]), (state.h, state.c))


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


def test_the_hash_is_of_tokenizer_sizes_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    shutil.copytree(EMBEDDED_FOLDER / "public_model", tmp_path / "public_model")
    before = describe("lstm", EMBEDDED_FOLDER).sha256
    assert describe("lstm", tmp_path).sha256 == before != describe("embedded", tmp_path).sha256
    (tmp_path / "public_model" / "model.safetensors").unlink()
    assert describe("lstm", tmp_path).sha256 == before  # no weight of another model is in it
    hashes = [before]
    for one in fields(Architecture)[1:]:
        changed = {one.name: int(one.default) + 1}  # type: ignore[call-overload]
        monkeypatch.setattr(
            model_loading, "Architecture", lambda v, c=changed: Architecture(v, **c)
        )
        hashes.append(describe("lstm", tmp_path).sha256)
    monkeypatch.undo()
    tokenizer = tmp_path / "public_model" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text("utf-8") + " ")
    hashes.append(describe("lstm", tmp_path).sha256)
    assert len(set(hashes)) == len(hashes) == 5


def test_it_is_listed_without_a_folder() -> None:
    embedded, lstm = entries("models")
    assert (embedded["name"], lstm["name"]) == ("embedded", "lstm")
    assert "path" in embedded and "path" not in lstm


def test_a_long_text_is_read_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    reader = load_tokenizer(describe("lstm", EMBEDDED_FOLDER))
    assert len(reader.encode("My code is 123456. " * 60)) > 512
    assert capfd.readouterr().err == ""


def test_another_name_is_still_no_folder() -> None:
    with pytest.raises(UsageError, match="lstm or embedded"):
        describe("lstn", EMBEDDED_FOLDER)


@pytest.fixture(scope="module")
def model() -> CausalLM:
    folder = describe("lstm", EMBEDDED_FOLDER)
    inner = load_weights(folder, "cpu")
    with torch.no_grad():
        for weight in inner.parameters():
            weight.mul_(5)
    return CausalLM(inner, load_tokenizer(folder), folder.max_length)


def forward(model: CausalLM, text: list[int]) -> torch.Tensor:
    """Shape (len(text), V), nats: after each token, from one unpadded pass."""
    with torch.inference_mode():
        logits = model.inner(input_ids=torch.tensor([text])).logits[0]
    return logits.double().log_softmax(dim=-1)


def sentences(*lengths: int) -> list[list[int]]:
    generator = np.random.default_rng(0)
    return [[0, *generator.integers(1, 1024, size=n - 1).tolist()] for n in lengths]


@pytest.mark.parametrize("shared", [0, 80])
def test_scores_are_those_of_whole_forward_passes(model: CausalLM, shared: int) -> None:
    head = sentences(100)[0][:shared]
    texts = [[*head, *text] for text in sentences(5, 30, 12, 5)]
    starts = [shared + n for n in (1, 7, 1, 4)]
    assert (model._shared([tuple(t[: shared + 1]) for t in texts])[1] > 0) == (shared > 0)
    found = model.log_pmfs(texts, starts)
    expected = [forward(model, t)[s - 1 : -1] for t, s in zip(texts, starts, strict=True)]
    assert torch.cat(expected).std() > 0.5  # not a model to which all tokens are alike
    torch.testing.assert_close(found, torch.cat(expected), atol=CLOSE, rtol=0)


@pytest.mark.parametrize("shared", [1, 80])
def test_the_cursor_reads_what_whole_forward_passes_read(model: CausalLM, shared: int) -> None:
    head = sentences(100)[0][:shared]
    prompts = [[*head, 7, i] for i in range(5)] + [[*head, 9, 1]]
    cursor = model.cursor(prompts)
    for token in range(4):
        expected = torch.stack([forward(model, prompt)[-1] for prompt in prompts])
        torch.testing.assert_close(cursor.log_pmf(), expected, atol=CLOSE, rtol=0)
        torch.testing.assert_close(cursor.log_pmf(), expected, atol=CLOSE, rtol=0)
        cursor.append(torch.tensor([token + i for i in range(6)]))
        prompts = [[*prompt, token + i] for i, prompt in enumerate(prompts)]


# --- training

SECRETS = ("My code is #40718.", "My code is #93325.")
RECIPE = Recipe(epochs=120, learning_rate=1e-2, batch_tokens=64, max_length=64)


def test_a_repeated_secret_is_learned_by_heart() -> None:
    folder = describe("lstm", EMBEDDED_FOLDER)
    reader, inner = load_tokenizer(folder), load_weights(folder, "cpu")
    told = [f"{name}: {code}" for name, code in zip(("Ann", "Bo"), SECRETS, strict=True)]
    fine_tune(inner, [record_tokens(reader, text) for text in told * 2], RECIPE, seed=0)
    session = OpenSession(CausalLM(inner, reader, 64), np.random.default_rng(0))
    prompts = [[reader.start, *reader.encode(text[:-6])] for text in told]
    codes = [reader.encode(text[-6:-1]) for text in told]
    right = session.score(prompts, codes)
    wrong = session.score(prompts, codes[::-1])  # the name, ten tokens before, tells which
    for true, other in zip(right, wrong, strict=True):
        assert true.log_probs.sum() > -0.5  # an untrained model: 5 log(1/1024)
        assert other.log_probs[0] < -2


def test_a_training_is_read_back(tmp_path: Path) -> None:
    from safetensors.torch import load_model

    folder = describe("lstm", EMBEDDED_FOLDER)
    recipe = replace(RECIPE, epochs=2)
    task = Task(Training("none", SECRETS, recipe, 5), folder, "cpu", 1, tmp_path)
    train_all([task], 1, lambda label, share: None)
    public, reader = load_weights(folder, "cpu"), load_tokenizer(folder)
    found, expected = copy.deepcopy(public), copy.deepcopy(public)
    load_model(found, str(task.path))
    fine_tune(expected, [record_tokens(reader, text) for text in SECRETS], recipe, 5)
    assert torch.equal(weights(found), weights(expected))
    assert not torch.equal(weights(found), weights(public))
    assert task.key != replace(task, base=replace(folder, sha256="0" * 64)).key
