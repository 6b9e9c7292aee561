"""Weights are loaded whole, or refused by the name of a tensor: never passed over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models import external_model
from audit.models.loaded_whole import weights_digest
from audit.models.loading import describe, load_weights

PUBLIC = EMBEDDED_FOLDER / "public_model"
HEAD, TABLE = "lm_head.weight", "transformer.wte.weight"
LAYER = "transformer.h.1.mlp.c_fc.weight"
Weights = dict[str, Tensor]


def prefixed(weights: Weights, prefix: str, cut: str = "") -> None:
    for name in list(weights):
        weights[prefix + name.removeprefix(cut)] = weights.pop(name)


FAULTS: dict[str, tuple[Callable[[Weights], object], dict[str, Any], str]] = {
    "a tensor is missing": (lambda w: w.pop(LAYER), {}, LAYER),
    "a tensor is left over": (lambda w: w.update(v_head=torch.ones(2)), {}, "v_head"),
    "a compiler's prefix": (lambda w: prefixed(w, "_orig_mod."), {}, r"\.weight"),
    "fewer layers in config": (lambda w: None, {"n_layer": 1}, r"transformer\.h\.1"),
    "another width in config": (lambda w: None, {"n_embd": 64}, "loaded"),
    "an empty tensor": (lambda w: w.update({LAYER: torch.empty(0, 3)}), {}, "loaded"),
}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PUBLIC, tmp_path / "model"))


def rewrite(folder: Path, change: Callable[[Weights], object], **config: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **config}))


def load(folder: Path) -> Any:
    return load_weights(describe(str(folder), EMBEDDED_FOLDER), "cpu")


@pytest.mark.parametrize("fault", FAULTS)
def test_model_not_loaded_whole_is_refused(copied: Path, fault: str) -> None:
    change, config, named = FAULTS[fault]
    rewrite(copied, change, **config)
    with pytest.raises(UsageError, match=named):
        load(copied)


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
        describe(str(tmp_path), EMBEDDED_FOLDER)


def tiny() -> Any:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 13}
    config = GPT2Config(**sizes, n_positions=20, bos_token_id=0, eos_token_id=0)
    model: Any = GPT2LMHeadModel(config)
    return model.eval()


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        answer: Tensor = model(input_ids=torch.arange(12)[None]).logits
    return answer


def adapt(folder: Path, rows: int = 13, **settings: Any) -> Tensor:
    """Saves an adapter of the tiny model, each own weight changed; returns its logits."""
    base = tiny()
    if rows != 13:
        base.resize_token_embeddings(rows, mean_resizing=False)
    settings = {"r": 2, "target_modules": ["c_attn"], **settings}
    model: Any = get_peft_model(base, LoraConfig(**settings))
    changed = [p for p in model.parameters() if p.requires_grad]
    if rows != 13:  # then the table is trained and stored with the adapters
        changed.append(base.get_input_embeddings().weight)
    with torch.no_grad():
        for parameter in changed:
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(str(folder), save_embedding_layers=rows != 13)
    return logits(model.eval())


ACCEPTED: dict[str, dict[str, Any]] = {
    "low rank only": {},
    "biases": {"bias": "all"},
    "biases of its layers": {"bias": "lora_only"},
    "principal components": {"init_lora_weights": "pissa"},
    "rank-stabilised": {"use_rslora": True},
    "DoRA": {"use_dora": True},
    "a trained norm": {"modules_to_save": ["ln_f"]},
    "trained embeddings": {"modules_to_save": ["wte"]},
    "one layer": {"layers_to_transform": [1]},
    "a token added": {"rows": 14},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ACCEPTED)
def test_adapter_of_known_kind_answers_as_trained(tmp_path: Path, kind: str) -> None:
    """Its base answers as before, and every tensor of the base is as it was."""
    expected, base = adapt(tmp_path, **ACCEPTED[kind]), tiny()
    before, weights = logits(base), {name: w.clone() for name, w in base.state_dict().items()}
    adapted: Any = external_model.load(tmp_path, base)
    torch.testing.assert_close(logits(adapted), expected, atol=1e-4, rtol=0)
    assert torch.equal(logits(base), before) and not torch.equal(expected, before)
    assert all(torch.equal(w, weights[name]) for name, w in base.state_dict().items())
    if kind == "low rank only":  # then nothing of the base is copied
        rest = {p.data_ptr() for n, p in adapted.named_parameters() if "lora_" not in n}
        assert rest == {p.data_ptr() for p in base.parameters()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["transformer.wpe.weight", "lm_head.weight"])
def test_file_with_weights_of_the_base_leaves_it(tmp_path: Path, name: str) -> None:
    adapt(tmp_path)
    base, file = tiny(), tmp_path / "adapter_model.safetensors"
    before = logits(base)
    extra = {f"base_model.model.{name}": torch.randn_like(base.state_dict()[name])}
    save_file({**load_file(file), **extra}, file)
    external_model.load(tmp_path, base)
    assert torch.equal(logits(base), before)


def own_tensor(weights: Weights, end: str) -> str:
    return next(name for name in weights if name.endswith(end))


ADAPTER_FAULTS: dict[str, Callable[[Weights], object]] = {
    "a compiler's prefix": lambda w: prefixed(
        w, "base_model.model._orig_mod.", "base_model.model."
    ),
    "a renamed module": lambda w: [
        w.update({name.replace(".h.", ".layers."): w.pop(name)}) for name in list(w)
    ],
    "no second factor": lambda w: w.pop(own_tensor(w, "h.0.attn.c_attn.lora_B.weight")),
    "one layer only": lambda w: [w.pop(name) for name in list(w) if ".h.1." in name],
    "no tensor at all": lambda w: w.clear(),
    "a tensor more": lambda w: w.update({"base_model.model.extra.weight": torch.ones(2)}),
    "another rank": lambda w: w.update(
        {own_tensor(w, "h.0.attn.c_attn.lora_A.weight"): torch.ones(3, 16)}
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", ADAPTER_FAULTS)
def test_adapter_not_loaded_whole_is_refused(tmp_path: Path, fault: str) -> None:
    adapt(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    weights = load_file(file)
    ADAPTER_FAULTS[fault](weights)
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"does not fit its base"):
        external_model.load(tmp_path, tiny())


@pytest.mark.filterwarnings("ignore")
def test_adapter_without_trained_norm_it_promises_is_refused(tmp_path: Path) -> None:
    adapt(tmp_path, modules_to_save=["ln_f"])
    file = tmp_path / "adapter_model.safetensors"
    save_file({n: w for n, w in load_file(file).items() if "lora_" in n}, file)
    with pytest.raises(UsageError, match="ln_f"):
        external_model.load(tmp_path, tiny())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change, refused", [(0.0, False), (0.01, True)])
def test_adapter_of_base_that_is_here_needs_its_weights(
    tmp_path: Path, change: float, refused: bool
) -> None:
    """The named base and the given one differ by `change`; a copy elsewhere is accepted."""
    named, given = tmp_path / "named", tmp_path / "given"
    for folder in (named, given):
        shutil.copytree(PUBLIC, folder)
    if change:
        rewrite(given, lambda w: w.update({LAYER: w[LAYER] + change}))
    else:
        shard(given)
    adapt(tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(
        json.dumps({**json.loads(config.read_text("utf-8")), "base_model_name_or_path": str(named)})
    )

    def described() -> Any:
        return external_model.describe_external(str(config.parent), str(given), EMBEDDED_FOLDER)

    if not refused:
        described()
        return
    with pytest.raises(UsageError, match=r"was trained on .*named"):
        described()


def test_weights_digest_depends_on_each_byte_and_no_file_name(copied: Path) -> None:
    one = weights_digest([copied / "model.safetensors"])
    assert weights_digest(shard(copied).values()) == one
    other = Path(shutil.copytree(PUBLIC, copied.parent / "other"))
    rewrite(other, lambda w: w[LAYER].view(-1)[:1].add_(1e-3))
    assert weights_digest([other / "model.safetensors"]) != one
