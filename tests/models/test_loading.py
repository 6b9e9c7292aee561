"""Model folders: hashed whole, refused when torn, and of any architecture."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.language_model import OpenSession
from audit.core.model import ModelFolder
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights

PUBLIC = EMBEDDED_FOLDER / "public_model"
TINY: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2},
    "gpt_neox": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2},
    "mistral": {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_key_value_heads": 1, "sliding_window": 4,
    },
    "opt": {"hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 2, "word_embed_proj_dim": 16},
    "openai-gpt": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "mamba": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
}  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A writable copy of the embedded model."""
    return Path(shutil.copytree(PUBLIC, tmp_path / "model"))


def found(path: Path) -> ModelFolder:
    return describe(str(path), EMBEDDED_FOLDER)


def edit(path: Path, **changes: Any) -> None:
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_the_embedded_model_is_described_without_loading_it() -> None:
    folder = describe("embedded", EMBEDDED_FOLDER)
    width, layers = 128, 2
    block = 12 * width**2 + 13 * width  # attention 4, feed-forward 8; biases and norms 13
    assert folder.parameters == (1024 + 256) * width + layers * block + 2 * width
    assert (folder.name, folder.vocabulary, folder.max_length) == ("embedded", 1024, 256)
    assert folder.path == PUBLIC


def test_the_hash_is_of_the_content_and_not_of_the_place(copied: Path) -> None:
    assert found(copied).sha256 == describe("embedded", EMBEDDED_FOLDER).sha256


def flip_last_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def retell(file: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text())) + " ")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.safetensors", flip_last_byte),
        ("tokenizer.json", retell),
        ("tokenizer_config.json", retell),
        ("config.json", retell),
    ],
)
def test_one_changed_byte_changes_the_hash(
    copied: Path, name: str, change: Callable[[Path], None]
) -> None:
    before = found(copied).sha256
    change(copied / name)
    assert found(copied).sha256 != before


def test_a_sentencepiece_tokenizer_is_in_the_hash(copied: Path) -> None:
    """Llama's tokenizer can be a single tokenizer.model; it decides every token id."""
    (copied / "tokenizer.model").write_bytes(b"one")
    one = found(copied).sha256
    (copied / "tokenizer.model").write_bytes(b"two")
    assert found(copied).sha256 != one


@pytest.mark.parametrize("kept", [0, 4, 8, 200, -2_000_000, -1])
def test_weights_that_are_cut_short_are_refused(copied: Path, kept: int) -> None:
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(UsageError, match=r"model\.safetensors"):
        found(copied)


@pytest.mark.parametrize(
    ("length", "header"),
    [
        (2**62, b"{}"),  # more than any memory holds
        (90_000_000, b"{}"),  # more than the file
        (3, b"[1]"),
        (12, b'{"a": {"b":1'),
        (59, b'{"a":{"dtype":"F32","shape":[-1,2],"data_offsets":[0,4]}}  '),
    ],
)
def test_a_hostile_header_is_refused_at_once(copied: Path, length: int, header: bytes) -> None:
    (copied / "model.safetensors").write_bytes(length.to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(UsageError, match=r"model\.safetensors: corrupt weights"):
        found(copied)


@pytest.mark.parametrize("name", ["transformer.h.1.mlp.c_fc.weight", "transformer.wte.weight"])
def test_a_missing_tensor_is_refused_and_never_filled_with_noise(copied: Path, name: str) -> None:
    tensors = load_file(copied / "model.safetensors")
    del tensors[name]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="lack"):
        load_weights(found(copied), "cpu")


def test_a_tensor_of_another_shape_is_refused(copied: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    tensors["transformer.ln_f.weight"] = torch.ones(64)
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_weights(found(copied), "cpu")


def test_remote_code_is_refused(copied: Path) -> None:
    edit(copied, auto_map={"AutoModelForCausalLM": "modeling_evil.Evil"})
    with pytest.raises(UsageError, match="remote code"):
        found(copied)


def test_pickled_weights_are_refused(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"no \.safetensors"):
        found(copied)
    torch.save({}, copied / "pytorch_model.bin")
    with pytest.raises(UsageError, match="pickled"):
        found(copied)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00"])
def test_a_config_that_is_no_object_is_refused(copied: Path, content: str) -> None:
    (copied / "config.json").write_text(content)
    with pytest.raises(UsageError, match=r"config\.json"):
        found(copied)


@pytest.mark.parametrize(
    "changes", [{"vocab_size": None}, {"n_positions": "many"}, {"vocab_size": [1]}]
)
def test_a_config_with_senseless_sizes_is_refused(copied: Path, changes: dict[str, Any]) -> None:
    edit(copied, **changes)
    with pytest.raises(UsageError, match=r"config\.json"):
        found(copied)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        found(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"no config\.json"):
        found(tmp_path)


def test_a_missing_tokenizer_is_refused(copied: Path) -> None:
    for file in copied.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(UsageError, match="tokenizer"):
        load_tokenizer(found(copied))


def test_the_embedded_tokenizer_gives_every_digit_its_own_token() -> None:
    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    text = "My code is #40718. Grüße, 5 €\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("40718")) == 5
    assert [tokenizer.decode([t]) for t in tokenizer.encode("40718")] == list("40718")


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[[str], tuple[ModelFolder, Any]]:
    """tiny(architecture): a random model folder with the embedded tokenizer, and its model."""

    def make(name: str) -> tuple[ModelFolder, Any]:
        from transformers import AutoConfig, AutoModelForCausalLM, logging

        logging.disable_progress_bar()
        torch.set_num_threads(1)
        heads = {"num_attention_heads": 2, "max_position_embeddings": 32}
        ids = {"vocab_size": 1024, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        config = AutoConfig.for_model(name, **{**heads, **ids, **TINY[name]})
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(4 if weight.dim() > 1 else 1)  # a random model with opinions
        path = tmp_path / name
        model.save_pretrained(path)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(PUBLIC / file, path)
        return found(path), model

    return make


def expected_log_pmfs(model: Any, texts: list[list[int]], starts: list[int]) -> torch.Tensor:
    rows = []
    for text, start in zip(texts, starts, strict=True):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([text])).logits[0, start - 1 : -1].double()
        rows.append(logits - logits.logsumexp(dim=-1, keepdim=True))
    return torch.cat(rows)


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "mistral", "opt"])
def test_other_architectures_load_score_and_generate(name: str, tiny: Any) -> None:
    folder, plain = tiny(name)
    assert folder.parameters == sum(p.numel() for p in plain.parameters())
    assert folder.max_length == 32
    model = CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)
    generator = np.random.default_rng(0)
    texts = [generator.integers(1, 1024, size=n).tolist() for n in (5, 14, 9)]
    scored = model.log_pmfs(texts, [1, 3, 2])
    expected = expected_log_pmfs(plain, texts, [1, 3, 2])
    torch.testing.assert_close(scored, expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.3  # not a model to which all tokens are alike
    check_generation(model)


def check_generation(model: CausalLM) -> None:
    """The cursor, cached keys and all, agrees with whole forward passes."""
    prompts = [[0, 9], [0, 8], [0]]
    session = OpenSession(model, np.random.default_rng(0))
    generated = session.generate(prompts, 8)
    scored = session.score(prompts, [list(answer.tokens) for answer in generated])
    for one, other in zip(generated, scored, strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)


@pytest.mark.parametrize("name", ["openai-gpt", "mamba"])
def test_a_model_without_cached_keys_generates_or_is_refused(name: str, tiny: Any) -> None:
    folder, _ = tiny(name)
    try:
        inner = load_weights(folder, "cpu")
        check_generation(CausalLM(inner, load_tokenizer(folder), folder.max_length))
    except UsageError:
        pass
