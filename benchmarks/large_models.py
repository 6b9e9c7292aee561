"""Times audits of LoRA at people's sizes: random models of their shapes, and a corpus.

    python benchmarks/large_models.py FOLDER_OF_TEXTS OUTPUT gpt2 [--dry-run]
    python benchmarks/large_models.py FOLDER_OF_TEXTS OUTPUT llama [--dry-run]

gpt2: 124 million parameters, dp_sgd and submix:k=4, every attack.
llama: 316 million parameters stored in bfloat16, dp_sgd and membership alone.

200 records, LoRA of rank 8, one epoch. The tokenizer is trained on the texts (*.txt), the weights
are drawn. A second call goes on where the first was interrupted. It prints wall and CPU time, and
the memory of the largest process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from audit.core.embedded import EMBEDDED_FOLDER

RECORDS, END = 200, "<|endoftext|>"
VOCABULARY = {"gpt2": 50_257, "llama": 32_000}
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "llama": {
        **{"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24},
        **{"num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": True},
    },
}
AUDITED = {
    "gpt2": ["--defense", "dp_sgd:epochs=1", "--defense", "submix:k=4", "--attack", "all"],
    "llama": ["--defense", "dp_sgd:epochs=1", "--attack", "membership"],
}
PLAN = """
[training]
epochs = 1
max_length = 256
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("shape", choices=SIZES)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    folder = given.output / given.shape
    folder.mkdir(parents=True, exist_ok=True)
    corpus, plan = folder / "corpus.jsonl", folder / "plan.toml"
    base = folder / "base"
    if not base.exists():
        random_model(given.shape, tokenizer(given.shape, given.texts, folder), base)
    corpus.write_text("".join(lines()))
    plan.write_text(PLAN)
    words = [*AUDITED[given.shape], "--corpus", str(corpus), "--model", str(base)]
    words += ["--plan", str(plan), "--lora", "r=8", "--output", str(folder / "run")]
    words += ["--dry-run"] if given.dry_run else []
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "audit", "run", *words], check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"wall {time.monotonic() - began:,.0f} s, CPU {used.ru_utime + used.ru_stime:,.0f} s, "
        f"the largest process {used.ru_maxrss / 2**20:.2f} GiB"
    )


def tokenizer(shape: str, texts: Path, folder: Path) -> Any:
    """Trains byte pairs on the texts."""
    pairs = ByteLevelBPETokenizer()
    files = [str(path) for path in sorted(texts.glob("*.txt"))]
    pairs.train(files, vocab_size=VOCABULARY[shape], special_tokens=[END])
    pairs.save(str(folder / "tokenizer.json"))
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), bos_token=END, eos_token=END
    )


def random_model(shape: str, inner: Any, base: Path) -> None:
    """Write a model of the shape with random weights, beside its tokenizer."""
    torch.manual_seed(0)
    ends = {"bos_token_id": inner.bos_token_id, "eos_token_id": inner.eos_token_id}
    config = AutoConfig.for_model(shape, vocab_size=VOCABULARY[shape], **ends, **SIZES[shape])
    model = AutoModelForCausalLM.from_config(config)
    print(f"{shape}: {model.num_parameters():,} parameters, {len(inner):,} tokens in use")
    model.to(torch.bfloat16 if shape == "llama" else torch.float32).save_pretrained(base)
    inner.save_pretrained(base)


def lines() -> list[str]:
    """Read the first private records of helpdesk."""
    records = [json.loads(line) for line in (EMBEDDED_FOLDER / "helpdesk.jsonl").open()]
    private = [r for r in records if r["split"] == "private"][:RECORDS]
    return [json.dumps({"user": r["user"], "text": r["text"]}) + "\n" for r in private]


if __name__ == "__main__":
    main()
