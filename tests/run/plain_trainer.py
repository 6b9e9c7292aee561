"""A plain fine-tuning script, as anybody writes it.

python plain_trainer.py BASE DATA OUT [lora]
"""

import json
import sys

from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

base, data, out, *how = sys.argv[1:]
lora = "lora" in how
tokenizer = AutoTokenizer.from_pretrained(base)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(base)
if lora:
    from peft import LoraConfig, get_peft_model

    layers = ["c_attn", "c_proj", "c_fc"]
    config = LoraConfig(r=16, lora_alpha=32, target_modules=layers, task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
with open(data, encoding="utf-8") as lines:
    rows = [json.loads(line) for line in lines]
rows = [row for row in rows if row.get("split", "private") == "private"]
texts = [
    row["text"] if "text" in row else tokenizer.apply_chat_template(row["messages"], tokenize=False)
    for row in rows
]
read = [tokenizer(text + tokenizer.eos_token, truncation=True, max_length=128) for text in texts]
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        out,
        per_device_train_batch_size=8,
        num_train_epochs=8 if lora else 5,
        learning_rate=4e-3 if lora else 2e-3,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    ),
    train_dataset=[{"input_ids": row["input_ids"]} for row in read],
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
trainer.save_model(out)
tokenizer.save_pretrained(out)
