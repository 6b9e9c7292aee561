"""Audits one fine-tuned model with this tool and with memaudit (https://pypi.org/project/memaudit).

    pip install memaudit && python benchmarks/beside_memaudit.py

Both tools plant canaries of their own into one corpus, with equal numbers, coins and copies. One
model is trained on the result, and each tool audits it against the base model. The benchmark prints
the findings of each and the cost of a scored text. (The file is not named memaudit, which would
hide the package.)
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from audit import api
from audit.canaries import manifest
from audit.canaries.insertion import Canaries, plant_into
from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora import loading

BASE = EMBEDDED_FOLDER / "public_model"
USERS = 240  # with a coin each: about 120 twins, because memaudit needs 100 controls
COPIES = (1, 4, 16)
STEPS, BATCH, RATE = 150, 24, 2e-3
OURS = (  # the closest metrics: memaudit's score is Min-K%++ minus that of the base model
    ("AUC", "record_ratio_auc"),
    ("TPR at 1 % FPR", "record_ratio_tpr_at_1_percent"),
    ("given back verbatim", "verbatim"),
)


def main() -> None:
    try:
        memaudit = importlib.import_module("memaudit")
        running = importlib.import_module("memaudit.audit")
    except ImportError:
        print("skipped: memaudit is not installed; run: pip install memaudit")
        return
    torch.set_num_threads(1)
    model, tokenizer = loaded(BASE)
    own = [r for r in loading.read("helpdesk", EMBEDDED_FOLDER).records if r.split == "private"]
    ours, planted = plant_into(
        Corpus("helpdesk", tuple(own[:100])),
        Canaries(kinds=("record",), count=USERS, repetitions=COPIES),
        seed=1,
    )
    theirs = memaudit.generate_canaries(
        tokenizer, n=USERS, n_controls=0, repetitions=COPIES, seed=1, model=model
    )
    rows, injected = memaudit.inject(
        [{"text": record.text} for record in ours.records], theirs, fmt="text", seed=1
    )
    fit(model, tokenizer, [row["text"] for row in rows])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        manifest.write(planted, folder / "m.json")
        (folder / "theirs.json").write_text(json.dumps(injected))
        spent = {
            "membership": (
                seconds(lambda: audit(folder, "fewer", "membership")),
                seconds(lambda: audit_by(running, folder, skip_generation=True)),
            ),
            "and regurgitation": (
                seconds(lambda: audit(folder, "ours", "membership", "extraction")),
                seconds(lambda: audit_by(running, folder, skip_generation=False)),
            ),
        }
        findings(folder)
        # each of our users has two candidates, read under the model and under the base
        show_cost(spent, 4 * USERS, 2 * len(injected["canaries"]))


def loaded(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    return AutoModelForCausalLM.from_pretrained(folder).eval(), tokenizer


def fit(model: Any, tokenizer: Any, texts: list[str]) -> None:
    """Trains in a plain loop, because neither tool trains."""
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        batch = [texts[i] + tokenizer.eos_token for i in torch.randint(len(texts), (BATCH,))]
        read = tokenizer(batch, return_tensors="pt", padding=True, truncation=True, max_length=64)
        labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
        optimiser.zero_grad()
        model(**read, labels=labels).loss.backward()
        optimiser.step()


def audit(folder: Path, name: str, *attacks: str) -> None:
    api.run(
        defense=f"as_is:base={BASE}",
        attack=attacks,
        model=folder / "model",
        secrets=folder / "m.json",
        output=folder / name,
        format=["json"],
        references=False,  # memaudit has none
        workers=1,
    )


def audit_by(running: Any, folder: Path, skip_generation: bool) -> None:
    model, tokenizer = loaded(folder / "model")
    running.run_audit(
        model=model,
        tokenizer=tokenizer,
        manifest=json.loads((folder / "theirs.json").read_text()),
        ref=str(BASE),
        real_sample=0,
        skip_generation=skip_generation,
        output_path=folder / "theirs.report.json",
    )


def seconds(work: Callable[[], None]) -> float:
    """Measures CPU time of this process on one thread, which a shared machine changes little."""
    start = time.process_time()
    work()
    return time.process_time() - start


def findings(folder: Path) -> None:
    (release,) = api.load(folder / "ours").releases
    by_metric = {finding.metric: finding for finding in release.findings}
    report = json.loads((folder / "theirs.report.json").read_text())
    membership, regurgitation = report["membership"], report["regurgitation"]["overall"]
    line("", "audit", "memaudit")
    theirs = [membership["auc"], membership["tpr_at_1pct_fpr"], regurgitation["rate"]]
    for (name, metric), value in zip(OURS, theirs, strict=True):
        line(name, shown(by_metric[metric].value), shown(value))
    bound = by_metric["record_ratio_auc"].epsilon_lower
    line("lower bound on ε, user", shown(bound and bound.value), "none")


def show_cost(spent: dict[str, tuple[float, float]], ours: int, theirs: int) -> None:
    """Prints the cost of both tools. ours, theirs: texts that each reads for membership."""
    line("texts read", str(ours), str(theirs))
    for name, (mine, other) in spent.items():
        line(f"{name}, s", f"{mine:.2f}", f"{other:.2f}")
        print(f"{'':26}memaudit takes {other / mine:.1f} times as long")
    mine, other = spent["membership"]
    print(f"{'':26}and {other / theirs / (mine / ours):.1f} times for each text that it reads")


def line(*cells: str) -> None:
    name, mine, other = cells
    print(f"{name:26}{mine:>10}{other:>10}")


def shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main()
