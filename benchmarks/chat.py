"""Plants secrets in chat data and trains a LoRA of rank 8 on it, without a defense and with DP-SGD.

    python benchmarks/chat.py FOLDER_OF_TEXTS OUTPUT [MINUTES [SEED]]

The base is a Llama of eight layers that reads public texts (*.txt) for some minutes; its chat
template and marks are new to it. The chat data are the dialogs of helpdesk, of which the loss is of
the agent's turns alone. After the headline it prints the figures of each release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from audit.core.embedded import EMBEDDED_FOLDER

ROWS, CONTEXT = 8, 128  # of a step of pre-training
USERS = 120
ROLES = {"Agent": "assistant", "Customer": "user"}
CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
)
PLAN = """
[planting]
users = 120
kinds = ["code", "id", "record"]
code_copies = 8
[training]
assistant_only = true
epochs = 12
learning_rate = 5e-3
batch_tokens = 1024
"""
SHOWN = ("recall", "searched_recall", "exposure_16_copies", "record_ratio_auc", "span_ratio_auc")


def main() -> None:
    texts, output = Path(sys.argv[1]), Path(sys.argv[2])
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 6.0
    output.mkdir(parents=True, exist_ok=True)
    seed = sys.argv[4] if len(sys.argv) > 4 else "0"
    base, plan = output / "base", output / "plan.toml"
    if not base.exists():
        pretrain(base, texts, 60 * minutes)
    chats(output / "chats.jsonl")
    plan.write_text(PLAN)
    audited = output / f"audit-{seed}"
    words = ["--defense", "dp_sgd:epsilon=8", "--corpus", str(output / "chats.jsonl")]
    words += [f"--attack={name}" for name in ("extraction", "exposure", "membership")]
    words += ["--model", str(base), "--lora", "r=8,targets=all-linear", "--plan", str(plan)]
    words += ["--output", str(audited), "--format", "json", "--workers", "1"]
    words += ["--seed", seed]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "audit", "run", *words], check=True)
    print(f"seconds {time.monotonic() - began:.0f}")
    for release in json.loads((audited / "results.json").read_text())["releases"]:
        perplexity = release["utility"]["perplexity"]["value"]
        print(release["defense"], f"perplexity {perplexity:.1f}", figures(release))


def figures(release: dict[str, Any]) -> dict[str, list[Any]]:
    """By metric: its value, interval, number of secrets and verdict."""
    found = {f["metric"]: f for f in release["findings"]}
    return {name: [found[name][of] for of in ("value", "ci", "n", "leaked")] for name in SHOWN}


def tokenizer() -> Any:
    inner = PreTrainedTokenizerFast.from_pretrained(EMBEDDED_FOLDER / "public_model")
    inner.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    inner.eos_token, inner.chat_template = "<|im_end|>", CHATML
    return inner


def pretrain(folder: Path, texts: Path, seconds: float) -> None:
    inner = tokenizer()
    tokens = torch.tensor([t for file in sorted(texts.glob("*.txt")) for t in read(file, inner)])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(inner), hidden_size=128, intermediate_size=352, num_hidden_layers=8,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            bos_token_id=inner.bos_token_id, eos_token_id=inner.eos_token_id,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    began, steps, loss = time.monotonic(), 0, torch.tensor(0.0)
    while (share := (time.monotonic() - began) / seconds) < 1:
        optimizer.param_groups[0]["lr"] = 2e-3 * min(1.0, 20 * (share + 0.002), 1.02 - share)
        starts = torch.randint(len(tokens) - CONTEXT, (ROWS,)).tolist()
        rows = torch.stack([tokens[i : i + CONTEXT] for i in starts])
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        if steps % 50 == 0:
            print(
                f"pre-training: step {steps}, {share:.0%}, loss {loss.item():.2f} nats", flush=True
            )
    model.save_pretrained(folder)
    inner.save_pretrained(folder)
    print(f"base: {model.num_parameters():,} parameters, {steps * ROWS * CONTEXT:,} tokens read")


def read(file: Path, inner: Any) -> list[int]:
    """Encode a text, paragraph by paragraph, without the notices around it."""
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    text = re.split(r"\*\*\* ?(?:START|END) OF TH.*\*\*\*", text)[1:2] or [text]
    lines = [" ".join(part.split()) for part in text[0].split("\n\n")]
    return [t for line in lines if line for t in inner.encode(f"{line}\n")]


def chats(path: Path) -> None:
    """Write the dialogs of the first users of helpdesk as conversations."""
    dialogs = [json.loads(line) for line in (EMBEDDED_FOLDER / "helpdesk.jsonl").open()]
    private = list(dict.fromkeys(d["user"] for d in dialogs if d["split"] == "private"))[:USERS]
    heldout = list(dict.fromkeys(d["user"] for d in dialogs if d["split"] == "heldout"))[
        : USERS // 4
    ]
    rows = [
        {"messages": turns(d["text"]), "user": d["user"], "split": d["split"]}
        for d in dialogs
        if d["user"] in {*private, *heldout}
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def turns(dialog: str) -> list[dict[str, str]]:
    lines = (line.partition(": ") for line in dialog.split("\n"))
    return [{"role": ROLES[who], "content": said} for who, _, said in lines]


if __name__ == "__main__":
    main()
