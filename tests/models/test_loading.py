"""Model folders: hashed whole, refused when torn, and of any architecture."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.models.loading import describe, load_tokenizer, load_weights
from tests.refusals import refusals

PUBLIC = EMBEDDED_FOLDER / "public_model"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A writable copy of the embedded model."""
    return Path(shutil.copytree(PUBLIC, tmp_path / "model"))


def found(path: Path) -> ModelFolder:
    return describe(str(path), EMBEDDED_FOLDER)


def edit(path: Path, **changes: Any) -> None:
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changes}))


def test_the_embedded_model_is_described_without_loading_it() -> None:
    folder = describe("embedded", EMBEDDED_FOLDER)
    width, layers = 128, 2
    block = 12 * width**2 + 13 * width  # attention 4, feed-forward 8; biases and norms 13
    assert folder.parameters == (1024 + 256) * width + layers * block + 2 * width
    assert (folder.name, folder.vocabulary, folder.max_length) == ("embedded", 1024, 256)
    assert folder.path == PUBLIC


def test_the_hash_is_of_the_content(copied: Path) -> None:
    assert found(copied).sha256 == describe("embedded", EMBEDDED_FOLDER).sha256


def flip_last_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def retell(file: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text("utf-8"))) + " ")


def test_one_changed_byte_changes_the_hash(copied: Path) -> None:
    """Llama's tokenizer can be a single tokenizer.model; it decides every token id."""
    seen = [found(copied).sha256]
    flip_last_byte(copied / "model.safetensors")
    seen.append(found(copied).sha256)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        retell(copied / name)
        seen.append(found(copied).sha256)
    for content in (b"one", b"two"):
        (copied / "tokenizer.model").write_bytes(content)
        seen.append(found(copied).sha256)
    assert len(set(seen)) == len(seen)


def weights(content: bytes) -> Callable[[Path], Any]:
    return lambda path: (path / "model.safetensors").write_bytes(content)


def config(content: str) -> Callable[[Path], Any]:
    return lambda path: (path / "config.json").write_text(content)


def tensors(**changes: Any) -> Callable[[Path], Any]:
    """Puts other tensors into the file, or takes them out where they are None."""
    left = {**load_file(PUBLIC / "model.safetensors"), **changes}
    kept = {name: value for name, value in left.items() if value is not None}
    return weights(save(kept, metadata={"format": "pt"}))


def pickled(path: Path) -> None:
    (path / "model.safetensors").unlink()
    torch.save({}, path / "pytorch_model.bin")


WHOLE = (PUBLIC / "model.safetensors").read_bytes()
HOSTILE = [  # headers, and how long they say that they are
    (2**62, b"{}"),  # more than any memory holds
    (90_000_000, b"{}"),  # more than the file
    (3, b"[1]"),
    (12, b'{"a": {"b":1'),
    (59, b'{"a":{"dtype":"F32","shape":[-1,2],"data_offsets":[0,4]}}  '),
]
BROKEN: list[tuple[Callable[[Path], Any], str]] = [
    *((weights(WHOLE[:kept]), "model.safetensors") for kept in (0, 4, 8, 200, -2_000_000, -1)),
    *(
        (weights(length.to_bytes(8, "little") + header + bytes(4)), "corrupt weights")
        for length, header in HOSTILE
    ),
    (tensors(**{"transformer.h.1.mlp.c_fc.weight": None}), "lack"),  # never filled with noise
    (tensors(**{"transformer.wte.weight": None}), "lack"),
    (tensors(**{"transformer.ln_f.weight": torch.ones(64)}), "cannot be loaded"),
    (lambda path: (path / "model.safetensors").unlink(), "no .safetensors"),
    (pickled, "pickled"),
    *((config(content), "config.json") for content in ("", "{", "[1]", "\x00")),
    (lambda path: edit(path, vocab_size=None), "config.json"),
    (lambda path: edit(path, n_positions="many"), "config.json"),
    (lambda path: edit(path, vocab_size=[1]), "config.json"),
    (lambda path: edit(path, auto_map={"AutoModelForCausalLM": "a.Evil"}), "remote code"),
    (lambda path: (path / "config.json").unlink(), "no config.json"),
    (lambda path: [file.unlink() for file in path.glob("tokenizer*")], "tokenizer"),
    (shutil.rmtree, "no such folder"),
]


def test_a_broken_folder_is_refused(tmp_path: Path) -> None:
    def loaded(number: int) -> None:
        path = tmp_path / str(number)
        shutil.copytree(PUBLIC, path)
        BROKEN[number][0](path)
        load_weights(found(path), "cpu")
        load_tokenizer(found(path))

    refusals(loaded, [(i, words) for i, (_, words) in enumerate(BROKEN)])


def test_an_empty_tokenizer_is_refused(tmp_path: Path) -> None:
    """The library makes Gemma's of its settings alone: five tokens, all words unknown."""
    path = shutil.copytree(PUBLIC, tmp_path / "gemma")
    folder = found(path)
    for file in path.glob("tokenizer*"):
        file.unlink()
    edit(path, model_type="gemma3_text")
    with pytest.raises(UsageError, match="knows no word"):
        load_tokenizer(folder)


def test_every_digit_is_a_token() -> None:
    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    text = "My code is #40718. Grüße, 5 €\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("40718")) == 5
    assert [tokenizer.decode([t]) for t in tokenizer.encode("40718")] == list("40718")
