"""Adapters that were trained elsewhere: whatever they replace, the public model stays as it is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from audit.models import external_model

SIZES: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 13}
KINDS: dict[str, dict[str, Any]] = {
    "low rank only": {},
    "with biases": {"bias": "all"},
    "with biases of its layers": {"bias": "lora_only"},
    "with a whole layer": {"modules_to_save": ["ln_f"]},
    "begun at principal components": {"init_lora_weights": "pissa"},
}


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        answer: torch.Tensor = model(input_ids=torch.arange(12)[None]).logits
    return answer


@pytest.fixture
def base() -> Any:
    torch.manual_seed(5)
    config = GPT2Config(
        **SIZES, n_positions=20, bos_token_id=0, eos_token_id=0, initializer_range=0.5
    )
    model: Any = GPT2LMHeadModel(config)
    return model.eval()


def saved(base: Any, folder: Path, **settings: Any) -> torch.Tensor:
    """Saves an adapter whose every own weight was changed; gives its logits."""
    model: Any = get_peft_model(
        copy.deepcopy(base), LoraConfig(r=2, target_modules=["c_attn"], **settings)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter))
    model.save_pretrained(str(folder))
    return logits(model.eval())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_adapter_and_base_answer_as_before(base: Any, tmp_path: Path, kind: str) -> None:
    before, said = copy.deepcopy(base.state_dict()), logits(base)
    expected = saved(base, tmp_path, **KINDS[kind])
    adapted = external_model.load(tmp_path, base)
    torch.testing.assert_close(logits(adapted), expected, atol=1e-4, rtol=0)
    assert not torch.allclose(logits(adapted), said, atol=0.1)
    assert torch.equal(logits(base), said)
    assert all(torch.equal(value, before[name]) for name, value in base.state_dict().items())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["transformer.wpe.weight", "lm_head.weight"])
def test_base_weights_in_a_file_leave_the_base(base: Any, tmp_path: Path, name: str) -> None:
    said = logits(base)
    saved(base, tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    extra = {f"base_model.model.{name}": torch.randn_like(base.state_dict()[name])}
    save_file({**load_file(weights), **extra}, weights)
    external_model.load(tmp_path, base)
    assert torch.equal(logits(base), said)


@pytest.mark.filterwarnings("ignore")
def test_a_low_rank_adapter_copies_no_base(base: Any, tmp_path: Path) -> None:
    saved(base, tmp_path)
    adapted: Any = external_model.load(tmp_path, base)
    rest = {p.data_ptr() for n, p in adapted.named_parameters() if "lora_" not in n}
    assert rest == {p.data_ptr() for p in base.parameters()}
