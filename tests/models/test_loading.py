"""Model folders: hashed whole, refused when torn, and of any architecture."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.models.loaded_whole import weights_digest
from audit.models.loading import describe, load_tokenizer, load_weights
from tests.refusals import refusals

PUBLIC = EMBEDDED_FOLDER / "public_model"
HEAD, TABLE = "lm_head.weight", "transformer.wte.weight"
LAYER = "transformer.h.1.mlp.c_fc.weight"
Weights = dict[str, Tensor]


def found(path: Path) -> ModelFolder:
    return describe(str(path), EMBEDDED_FOLDER)


def edit(path: Path, **changes: Any) -> None:
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changes}))


def load(folder: Path) -> Any:
    return load_weights(found(folder), "cpu")


def rewrite(folder: Path, change: Callable[[Weights], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def prefixed(weights: Weights, prefix: str, cut: str = "") -> None:
    for name in list(weights):
        weights[prefix + name.removeprefix(cut)] = weights.pop(name)


def test_the_embedded_model_is_described_without_loading_it() -> None:
    folder = describe("embedded", EMBEDDED_FOLDER)
    width, layers = 128, 2
    block = 12 * width**2 + 13 * width  # attention 4, feed-forward 8; biases and norms 13
    assert folder.parameters == (1024 + 256) * width + layers * block + 2 * width
    assert (folder.name, folder.vocabulary, folder.max_length) == ("embedded", 1024, 256)
    assert folder.path == PUBLIC


def test_the_hash_is_of_the_content(copied: Path) -> None:
    assert found(copied).sha256 == describe("embedded", EMBEDDED_FOLDER).sha256


def test_one_changed_byte_changes_the_hash(copied: Path) -> None:
    """Llama's tokenizer can be a single tokenizer.model; it decides every token id."""
    seen = [found(copied).sha256]
    names = ("model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json")
    for name in (*names, "tokenizer.model", "tokenizer.model"):
        file = copied / name
        content = file.read_bytes() if file.exists() else b"one"
        changed = content[:-1] + bytes([content[-1] ^ 1])
        file.write_bytes(changed if name == "model.safetensors" else content + b" ")
        seen.append(found(copied).sha256)
    assert len(set(seen)) == len(seen)


def weights(content: bytes) -> Callable[[Path], Any]:
    return lambda path: (path / "model.safetensors").write_bytes(content)


def config(content: str) -> Callable[[Path], Any]:
    return lambda path: (path / "config.json").write_text(content)


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
    (lambda path: rewrite(path, lambda w: w.pop(LAYER)), LAYER),  # never filled with noise
    (lambda path: rewrite(path, lambda w: w.update(v_head=torch.ones(2))), "v_head"),
    (lambda path: rewrite(path, lambda w: prefixed(w, "_orig_mod.")), ".weight"),
    (lambda path: rewrite(path, lambda w: w.update({LAYER: torch.empty(0, 3)})), "loaded"),
    (lambda path: edit(path, n_layer=1), "transformer.h.1"),
    (lambda path: edit(path, n_embd=64), "loaded"),
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
        load(path)
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


def test_untied_head_is_kept_or_refused(copied: Path) -> None:
    """config.json ties the head; the file holds another one, which must not be passed over."""
    head = torch.randn(1024, 128)
    rewrite(copied, lambda w: w.update({HEAD: head}))
    try:
        model = load(copied)
    except UsageError as error:
        assert HEAD in str(error) or TABLE in str(error)
    else:
        assert torch.equal(model.lm_head.weight, head)


def test_equal_tied_head_in_file_is_accepted(copied: Path) -> None:
    rewrite(copied, lambda w: w.update({HEAD: w[TABLE].clone()}))
    load(copied)


@pytest.mark.parametrize("change, refused", [(0.0, False), (0.1, True)])
def test_second_file_with_same_tensors_must_agree(
    copied: Path, change: float, refused: bool
) -> None:
    weights = {name: w + change for name, w in load_file(copied / "model.safetensors").items()}
    save_file(weights, copied / "ema.safetensors", metadata={"format": "pt"})
    if not refused:
        load(copied)
        return
    with pytest.raises(UsageError, match=r"ema\.safetensors"):
        load(copied)


def shard(folder: Path) -> dict[str, Path]:
    """Splits the weights over two files with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-00001-of-00002.safetensors": names[::2]}
    parts["model-00002-of-00002.safetensors"] = names[1::2]
    for file, own in parts.items():
        save_file({n: weights[n] for n in own}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {n: f for f, own in parts.items() for n in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return {file: folder / file for file in parts}


def test_shards_load_as_one_file_does(copied: Path) -> None:
    whole = load(copied).state_dict()
    shard(copied)
    assert all(torch.equal(whole[name], w) for name, w in load(copied).state_dict().items())


def test_missing_shard_is_refused(copied: Path) -> None:
    shard(copied)["model-00002-of-00002.safetensors"].unlink()
    with pytest.raises(UsageError):
        load(copied)


def test_folder_of_checkpoints_names_them(tmp_path: Path) -> None:
    for step in (100, 200):
        shutil.copytree(PUBLIC, tmp_path / f"checkpoint-{step}")
    with pytest.raises(UsageError, match="checkpoint-100, checkpoint-200"):
        found(tmp_path)


def test_weights_digest_depends_on_each_byte_and_no_file_name(copied: Path) -> None:
    one = weights_digest([copied / "model.safetensors"])
    assert weights_digest(shard(copied).values()) == one
    other = Path(shutil.copytree(PUBLIC, copied.parent / "other"))
    rewrite(other, lambda w: w[LAYER].view(-1)[:1].add_(1e-3))
    assert weights_digest([other / "model.safetensors"]) != one
