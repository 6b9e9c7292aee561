"""A training by TRL's SFTTrainer with LoRA, as its documentation shows it, and the callback.

python sft.py BASE STEPS ROWS RATE SECONDS      (data: planted.jsonl; canaries: canaries.json)
"""

import sys

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from audit.callback import AuditCallback

base, steps, batch, rate, seconds = sys.argv[1:]
rows = load_dataset("json", data_files="planted.jsonl", split="train")
rows = rows.filter(lambda row: row["split"] == "private").select_columns(["text"])
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained(base, dtype="float32"),
    processing_class=AutoTokenizer.from_pretrained(base),
    args=SFTConfig(
        "out", max_steps=int(steps), learning_rate=float(rate),
        per_device_train_batch_size=int(batch), max_length=128, use_cpu=True, bf16=False,
        report_to=[], save_strategy="no",
        disable_tqdm=True, gradient_checkpointing=False,
    ),
    train_dataset=rows,
    peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    callbacks=[
        AuditCallback(
            "canaries.json", "audits", ["membership"], base=base,
            corpus="planted.jsonl", seconds=float(seconds),
        )
    ],
)  # fmt: skip
trainer.train()
trainer.save_model("out")
trainer.train_dataset.to_json("seen.jsonl")
