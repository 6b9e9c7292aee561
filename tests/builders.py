"""Builds what several tests share: corpora, small runs, models trained by a plain loop."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora import loading as corpora
from audit.corpora import writing
from audit.models.loading import describe
from audit.plan.execution import execution
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.planting import manifest as manifests
from audit.planting.insertion import Canaries, plant_into
from audit.planting.manifest import Manifest
from audit.results.folder import RunFolder
from audit.run import pipeline

BASE = EMBEDDED_FOLDER / "public_model"


@dataclass(frozen=True)
class Elsewhere:
    """What somebody else has made: a corpus with canaries, and models trained on it."""

    corpus: Path
    manifest: Path
    whole: Path
    adapter: Path

    @classmethod
    def of(cls, folder: Path) -> Elsewhere:
        names = ("t.jsonl", "m.json", "whole", "adapter")
        return cls(*(folder / name for name in names))

    @property
    def planted(self) -> Manifest:
        return manifests.read(self.manifest)


def dialogs(users: int) -> Corpus:
    """Private dialogs of the embedded corpus, and as many held-out users again."""
    records = corpora.read("helpdesk", EMBEDDED_FOLDER).records
    chosen: list[Record] = []
    for split in ("private", "heldout"):
        owners = list(dict.fromkeys(r.user for r in records if r.split == split))[:users]
        chosen += [r for r in records if r.split == split and r.user in owners]
    return Corpus("dialogs", tuple(chosen))


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hellos(folder: Path, public: int = 0) -> Path:
    """A corpus file of eleven short texts or more, one a user, each with a number of its own."""
    splits = ["private"] * 8 + ["heldout"] * 3 + ["public"] * public
    rows = (
        {"user": f"u{i}", "text": f"Hello {i}, this is number {7 * i}.", "split": split}
        for i, split in enumerate(splits)
    )
    return write_rows(folder / "corpus.jsonl", rows)


def planned(corpus: Path, **settings: Any) -> Plan:
    """A plan of the embedded model for a corpus file: few tokens are read, one epoch is trained."""
    given = {"utility_tokens": 8, "device": "cpu", "training": {"epochs": 1}, **settings}
    model = describe("embedded", EMBEDDED_FOLDER)
    return resolve_on(given, corpora.load(str(corpus), EMBEDDED_FOLDER), model)


def run_of(plan: Plan, path: Path) -> Path:
    """The folder of a plan that was run in this process, without reports."""
    folder = RunFolder(path, plan.hash)
    pipeline.run(plan, execution({"format": (), "workers": 1}), folder, lambda label, share: None)
    return path


def comparable(folder: Path) -> str:
    """results.json without the two places where runs may differ."""
    document = json.loads((folder / "results.json").read_text("utf-8"))
    document.pop("environment")
    for release in document["releases"]:
        release.pop("cost")
    return json.dumps(document)


def without_digests(path: Path) -> str:
    """What a file says, its digests left out: any five digits stand in one of a few thousand."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    return re.sub(r"\b(?=[0-9]*[a-f])[0-9a-f]{16,}\b", "", text)


def rows_of(path: Path) -> list[str]:
    """The texts of a corpus file that are to be trained on."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [e["text"] for e in entries if e.get("split", "private") == "private"]


def fit(
    model: Any, tokenizer: Any, texts: Sequence[str], steps: int, rate: float, longest: int = 56
) -> None:
    """Adam, 24 texts a step, each closed by the end of text and cut at `longest`; no dropout."""
    import torch

    torch.manual_seed(0)
    model.eval()
    optimiser = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=rate)
    places = torch.randperm(len(texts)).repeat(steps * 24 // len(texts) + 1)
    for step in range(steps):
        batch = [texts[i] + tokenizer.eos_token for i in places[step * 24 : step * 24 + 24]]
        read = tokenizer(
            batch, return_tensors="pt", padding=True, truncation=True, max_length=longest
        )
        labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
        optimiser.zero_grad()
        model(**read, labels=labels).loss.backward()
        optimiser.step()


def loaded(folder: Path = BASE) -> tuple[Any, Any]:
    """A model, by default the public one, and its tokenizer, which learns to pad."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    return AutoModelForCausalLM.from_pretrained(folder), tokenizer


def narrow(folder: Path, **changes: Any) -> Path:
    """Random weights of one narrow block that read the public model's tokens."""
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"vocab_size": 1024, "n_positions": 256, "n_embd": 16, "n_layer": 1, "n_head": 2}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    GPT2LMHeadModel(GPT2Config(**{**sizes, **ends, **changes})).save_pretrained(folder)
    AutoTokenizer.from_pretrained(BASE).save_pretrained(folder)
    return folder


def with_adapter(model: Any) -> Any:
    """The model under a LoRA adapter that is still to be trained."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # one library's, about another's
        return get_peft_model(model, config)


def train_elsewhere(folder: Path) -> None:
    """Planted, and trained on: a model that has memorised, and an adapter that has begun to."""
    made = Elsewhere.of(folder)
    planted, manifest = plant_into(dialogs(5), Canaries(count=16, repetitions=(4,)), seed=5)
    manifests.write(manifest, made.manifest)
    writing.write(planted.records, made.corpus)
    model, tokenizer = loaded()
    fit(model, tokenizer, rows_of(made.corpus), steps=48, rate=5e-3)
    model.save_pretrained(made.whole)
    tokenizer.save_pretrained(made.whole)
    model, tokenizer = loaded()
    adapted = with_adapter(model)
    fit(adapted, tokenizer, rows_of(made.corpus), steps=10, rate=1e-2)
    adapted.save_pretrained(made.adapter)
    tokenizer.save_pretrained(made.adapter)
