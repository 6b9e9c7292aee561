"""GGUF files: written here block by block, and read as the numbers that the blocks stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.models import gguf_file
from audit.models.adapters import fresh
from audit.models.external_model import describe_external
from audit.models.loading import describe, load_tokenizer, load_weights
from tests.refusals import refusals

gguf = pytest.importorskip("gguf")

PUBLIC = EMBEDDED_FOLDER / "public_model"
WIDTH, INNER, HEADS, BLOCKS = 64, 96, 4, 2
TEXT = "My code is #83914, and my order 20931."
PLACES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
}


def model() -> Any:
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "num_key_value_heads": 2}
    config = Qwen2Config(
        **sizes,
        vocab_size=1024,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
        rope_theta=10_000.0,
    )
    return Qwen2ForCausalLM(config).eval()


def written(file: Path, leave_out: str = "", besides: str = "", joins: int | None = None) -> Any:
    """Write a model as llama.cpp does, matrices in Q8_0; return it with the rounded matrices.

    joins: how many of the tokenizer's merges are written; None: all.
    """
    made = model()
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    spoken = json.loads((PUBLIC / "tokenizer.json").read_text("utf-8"))
    words = sorted(spoken["model"]["vocab"], key=spoken["model"]["vocab"].get)
    ends = {one["id"]: one["content"] for one in spoken["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([ends.get(i, word) for i, word in enumerate(words)])
    writer.add_token_types([3 if i in ends else 1 for i in range(len(words))])
    merges = [one if isinstance(one, str) else " ".join(one) for one in spoken["model"]["merges"]]
    writer.add_token_merges(merges[:joins])
    writer.add_bos_token_id(min(ends))
    writer.add_eos_token_id(min(ends))
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            stored = name.replace("model.layers.", "blk.")
            for ours, theirs in PLACES.items():
                stored = stored.replace(ours, theirs)
            if leave_out and leave_out in stored:
                continue
            values = tensor.numpy()
            if values.ndim == 1:
                writer.add_tensor(stored, values)
                continue
            kind = gguf.GGMLQuantizationType.Q8_0
            blocks = gguf.quants.quantize(values, kind)
            writer.add_tensor(stored, blocks, raw_dtype=kind)
            tensor.copy_(torch.tensor(np.asarray(gguf.quants.dequantize(blocks, kind))))
    if besides:
        writer.add_tensor(besides, np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_is_read_as_its_blocks_state(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "there" / "one.gguf"
    file.parent.mkdir()
    expected = written(file)
    for source in (file, file.parent):
        folder = describe(str(source), EMBEDDED_FOLDER)
        assert (folder.name, folder.precision, folder.blocks) == ("one.gguf", "Q8_0", BLOCKS)
    assert folder.path.is_relative_to(cache)
    tokenizer = load_tokenizer(folder)
    tokens = tokenizer.encode(TEXT)
    assert tokens == load_tokenizer(describe("embedded", EMBEDDED_FOLDER)).encode(TEXT)
    assert tokenizer.decode(tokens) == TEXT
    found = load_weights(folder, "cpu")
    with torch.inference_mode():
        one, other = (m(torch.tensor([tokens])).logits for m in (found, expected))
    assert torch.equal(one, other)
    assert describe_external(str(file), str(file), EMBEDDED_FOLDER).sha256 == folder.sha256
    adapted = fresh(found, Lora(2, 4))
    assert sum(p.requires_grad for p in adapted.parameters()) == 2 * 2 * BLOCKS


def test_a_file_is_unpacked_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one.gguf"
    written(file)
    first = describe(str(file), EMBEDDED_FOLDER)
    monkeypatch.setattr(gguf_file, "_unpack", None)
    file.rename(tmp_path / "other.gguf")
    again = describe(str(tmp_path / "other.gguf"), EMBEDDED_FOLDER)
    assert (again.path, again.sha256) == (first.path, first.sha256)
    assert [one.name for one in first.path.parent.iterdir()] == [first.path.name]


def test_what_lies_beside_a_file_is_not_read(tmp_path: Path, cache: Path) -> None:
    """Or the user's cache would hold a stranger's model under the digest of another."""
    own, other = tmp_path / "own" / "one.gguf", tmp_path / "other"
    own.parent.mkdir()
    written(own)
    other.mkdir()
    named = {"base_model_name_or_path": str(other), "peft_type": "LORA"}
    (own.parent / "adapter_config.json").write_text(json.dumps(named))
    assert found(own).blocks == BLOCKS


def found(path: Path) -> Any:
    return describe(str(path), EMBEDDED_FOLDER)


def test_what_is_not_read_whole_is_refused(tmp_path: Path, cache: Path) -> None:
    names = ("torn", "more", "empty", "split")
    torn, more, empty, split = (tmp_path / f"{name}.gguf" for name in names)
    written(torn, leave_out="ffn_up")
    written(more, besides="blk.0.attn_unknown.weight")
    empty.write_bytes(b"GGUF")
    written(split, joins=1)
    refusals(
        found,
        [
            (torn, "does not fit its architecture (missing_keys: "),
            (more, "transformers does not read it whole"),
            (empty, "not a valid GGUF file (it is cut short)"),
            (split, "words of its vocabulary 0 are read as one token"),
            (tmp_path, "holds 4 GGUF files; give one"),
        ],
    )
    assert not list((cache / "llm-audit" / "gguf").iterdir())


def test_more_than_a_file_holds_is_not_read(tmp_path: Path, cache: Path) -> None:
    asks, shares, zeros = (tmp_path / f"{name}.gguf" for name in ("asks", "shares", "zeros"))
    written(asks)
    inner = b"qwen2.feed_forward_length" + (4).to_bytes(4, "little")
    content, wide = asks.read_bytes(), (1 << 30).to_bytes(4, "little")
    asks.write_bytes(content.replace(inner + INNER.to_bytes(4, "little"), inner + wide))
    shares.write_bytes(tensors(2, kind=0, length=1 << 10) + bytes(1 << 12))
    zeros.write_bytes(tensors(1, kind=2, length=1 << 42))  # 16 TB of Q4_0, read as the reader maps
    with zeros.open("r+b") as file:
        file.truncate(1 << 42)
    reasons = [(asks, "its settings ask for "), (shares, "its tensors share bytes")]
    refusals(found, reasons)
    with pytest.raises(UsageError, match="more memory than there is"):
        gguf_file._header(zeros)  # its digest would take hours


def tensors(count: int, kind: int, length: int) -> bytes:
    """Write the head of a file whose tensors all begin at its first byte."""
    named = [(1, 8), (ord("a"), 1), (1, 4), (length, 8), (kind, 4), (0, 8)]
    one = b"".join(value.to_bytes(size, "little") for value, size in named)
    all_of_them = b"".join(one.replace(b"a", bytes([ord("a") + i])) for i in range(count))
    head = b"GGUF" + b"".join(v.to_bytes(s, "little") for v, s in [(3, 4), (count, 8), (0, 8)])
    return (head + all_of_them).ljust(128, b"\0")


def test_quantised_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    model().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = "quantised weights are read from GGUF files alone; give one, or the weights that these"
    refusals(found, [(tmp_path, words)])
