"""A model that FSDP 2 shards over two processes, with the callback: python sharded_trainer.py OUT

What each audit would read is copied to OUT instead of being audited.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, AutoTokenizer

from audit import callback
from audit.callback import AuditCallback

base, manifest, out, how = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
dist.init_process_group("gloo")
main = dist.get_rank() == 0
model = AutoModelForCausalLM.from_pretrained(base)
if how == "lora":
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    layers = ["c_attn", "c_proj"]
    config = LoraConfig(target_modules=layers, task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(model, config)
if main:
    model.save_pretrained(out / "whole")
mesh = init_device_mesh("cpu", (2,))
inside = "transformer.h" if how == "whole" else "base_model.model.transformer.h"
for block in model.get_submodule(inside):
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)


def copied(words: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    read = Path(words[words.index("--model") + 1])
    shutil.copytree(read, out / Path(words[words.index("--output") + 1]).name)
    return subprocess.CompletedProcess(words, 0, "a headline\nreport.html\n", "")


callback.subprocess.run = copied  # type: ignore[assignment]
audits = AuditCallback(manifest, out / "audits", every=1, base=base)
state = SimpleNamespace(global_step=1, max_steps=1, is_world_process_zero=main)
arguments = SimpleNamespace(fsdp="full_shard", deepspeed=None)
loader = SimpleNamespace(dataset=[], collate_fn=None)
given = {"model": model, "processing_class": AutoTokenizer.from_pretrained(base)}
audits.on_train_begin(arguments, state, None, train_dataloader=loader, **given)
audits.on_step_end(arguments, state, None, **given)
audits.on_train_end(arguments, state, None, **given)
dist.destroy_process_group()
