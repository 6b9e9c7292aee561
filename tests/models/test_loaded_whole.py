"""An adapter's weights are loaded whole, or refused by the name of a tensor: never passed over."""

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

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models import external_model
from tests.models.alike import gpt2
from tests.models.test_loading import LAYER, Weights, prefixed, rewrite, shard

PUBLIC = EMBEDDED_FOLDER / "public_model"


def tiny() -> Any:
    return gpt2(5, n_layer=2).float()


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
def test_adapter_of_base_that_is_here_needs_its_weights(tmp_path: Path) -> None:
    """In whatever files the given base has them."""
    named, given, adapter = (tmp_path / name for name in ("named", "given", "adapter"))
    for folder in (named, given):
        shutil.copytree(PUBLIC, folder)
    adapt(adapter)
    config = adapter / "adapter_config.json"
    own = {**json.loads(config.read_text("utf-8")), "base_model_name_or_path": str(named)}
    config.write_text(json.dumps(own))
    rewrite(given, lambda w: w.update({LAYER: w[LAYER] + 0.01}))
    with pytest.raises(UsageError, match=r"was trained on .*named"):
        external_model.describe_external(str(adapter), str(given), EMBEDDED_FOLDER)
    shutil.copy(PUBLIC / "model.safetensors", given)
    shard(given)
    external_model.describe_external(str(adapter), str(given), EMBEDDED_FOLDER)
