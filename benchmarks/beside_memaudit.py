"""Audits one fine-tuned model with this tool and with memaudit (https://pypi.org/project/memaudit).

    pip install memaudit && python benchmarks/beside_memaudit.py

Both tools plant canaries of their own into one corpus, with equal numbers, coins and copies. One
model is trained on the result, and each tool audits it against the base model; so for each seed.
The benchmark prints the means of the findings of each, and the cost of a scored text. Last, every
score reads memaudit's own canaries, so that scores are compared on equal texts. (The file is not
named memaudit, which would hide the package.)
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attacks.membership import Membership
from audit import api
from audit.core.attack import Knowledge
from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.secret import Secret
from audit.corpora import loading
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.planting import manifest
from audit.planting.insertion import Canaries, plant_into
from audit.statistics import roc

BASE = EMBEDDED_FOLDER / "public_model"
SEEDS = (4, 5, 6)  # on 1, 2 and 3 the score was named
USERS = 240  # with a coin each: about 120 twins, because memaudit needs 100 controls
COPIES = (1, 4, 16)
STEPS, BATCH, RATE = 150, 24, 2e-3
SCORES = (  # named beforehand: the first; memaudit has the last
    "ratio",
    "ez",
    "wbc",
    "loss",
    "zlib",
    "min_k",
    "min_k_plus_plus",
    "min_k_plus_plus_calibrated",
)
LEADING = "MEMAUDIT RECOVERY PHRASE: "  # words that memaudit puts before each canary

Figures = dict[str, float]  # by what they are of


def main() -> None:
    try:
        memaudit = importlib.import_module("memaudit")
        running = importlib.import_module("memaudit.audit")
    except ImportError:
        print("skipped: memaudit is not installed; run: pip install memaudit")
        return
    torch.set_num_threads(1)
    show([measured(memaudit, running, seed) for seed in SEEDS])


def measured(memaudit: Any, running: Any, seed: int) -> Figures:
    """Plants, trains and audits with one seed."""
    model, tokenizer = loaded(BASE)
    own = [r for r in loading.read("helpdesk", EMBEDDED_FOLDER).records if r.split == "private"]
    ours, planted = plant_into(
        Corpus("helpdesk", tuple(own[:100])),
        Canaries(kinds=("record",), count=USERS, repetitions=COPIES),
        seed=seed,
    )
    theirs = memaudit.generate_canaries(
        tokenizer, n=USERS, n_controls=0, repetitions=COPIES, seed=seed, model=model
    )
    rows, injected = memaudit.inject(
        [{"text": record.text} for record in ours.records], theirs, fmt="text", seed=seed
    )
    fit(model, tokenizer, [row["text"] for row in rows], seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        manifest.write(planted, folder / "m.json")
        (folder / "theirs.json").write_text(json.dumps(injected))
        canaries = injected["canaries"]
        spent = costs(running, folder, 4 * USERS, 2 * len(canaries))
        return {**findings(folder), **on_their_canaries(folder, canaries), **spent}


def costs(running: Any, folder: Path, ours: int, theirs: int) -> Figures:
    """Audits with both tools, and measures what it takes. ours, theirs: texts that each reads for
    membership; each of our users has two candidates, read under the model and under the base."""
    mine = seconds(lambda: audit(folder, "fewer", "membership"))
    other = seconds(lambda: audit_by(running, folder, skip_generation=True))
    return {
        "membership, s": mine,
        "membership, s; memaudit": other,
        "a text read, ms": 1000 * mine / ours,
        "a text read, ms; memaudit": 1000 * other / theirs,
        "and regurgitation, s": seconds(lambda: audit(folder, "ours", "membership", "extraction")),
        "and regurgitation, s; memaudit": seconds(
            lambda: audit_by(running, folder, skip_generation=False)
        ),
    }


def loaded(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    return AutoModelForCausalLM.from_pretrained(folder).eval(), tokenizer


def fit(model: Any, tokenizer: Any, texts: list[str], seed: int) -> None:
    """Trains in a plain loop, because neither tool trains."""
    torch.manual_seed(seed - 1)
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


def findings(folder: Path) -> Figures:
    """Read what both tools found, each on its own canaries."""
    (release,) = api.load(folder / "ours").releases
    found = {finding.metric: finding.value for finding in release.findings}
    report = json.loads((folder / "theirs.report.json").read_text())
    membership, regurgitation = report["membership"], report["regurgitation"]["overall"]
    figures = {
        "AUC; memaudit": membership["auc"],
        "TPR; memaudit": membership["tpr_at_1pct_fpr"],
        "verbatim": found["verbatim"],
        "verbatim; memaudit": regurgitation["rate"],
    }
    for score in SCORES:
        figures[f"AUC of {score}"] = found[f"record_{score}_auc"]
        figures[f"TPR of {score}"] = found.get(f"record_{score}_tpr_at_1_percent")
    return {name: float("nan") if value is None else value for name, value in figures.items()}


def on_their_canaries(folder: Path, canaries: Sequence[Mapping[str, Any]]) -> Figures:
    """Scores memaudit's canaries, as it does: the canary alone, after the words before it."""
    secrets = [
        Secret("record", LEADING, c["secret"], "", None, c["repetitions"], c["id"], 0)
        for c in canaries
    ]
    member = np.array([c["included"] for c in canaries])
    description = describe("embedded", EMBEDDED_FOLDER)
    tokenizer, length = load_tokenizer(description), description.max_length
    release, base = (
        OpenSession(CausalLM(weights, tokenizer, length), np.random.default_rng(0))
        for weights in (loaded(folder / "model")[0], load_weights(description, "cpu"))
    )
    known = Knowledge(base, (), (), (), np.random.default_rng(0), opened=None)
    figures = {}
    for one in Membership().run(release, secrets, known):
        assert isinstance(one, Scores)
        sides = one.values[member], one.values[~member]
        figures[f"AUC on theirs of {one.score}"] = roc.auc(*sides).value or 0.0
        figures[f"TPR on theirs of {one.score}"] = roc.tpr_at_fpr(*sides, 0.01).value or 0.0
    return figures


def show(runs: Sequence[Figures]) -> None:
    """Print the mean of each figure over the seeds, and the figures of each seed."""

    def mean(name: str) -> str:
        return shown(float(np.mean([run[name] for run in runs])))

    line("each on its own canaries", "AUC", "TPR at 1 %")
    for score in SCORES:
        line(f"  {score}", mean(f"AUC of {score}"), mean(f"TPR of {score}"))
    line("  memaudit", mean("AUC; memaudit"), mean("TPR; memaudit"))
    line("on memaudit's canaries", "AUC", "TPR at 1 %")
    for score in SCORES:
        line(f"  {score}", mean(f"AUC on theirs of {score}"), mean(f"TPR on theirs of {score}"))
    line("", "audit", "memaudit")
    for name in ("verbatim", "membership, s", "a text read, ms", "and regurgitation, s"):
        line(f"  {name}", mean(name), mean(f"{name}; memaudit"))
    for seed, run in zip(SEEDS, runs, strict=True):
        pairs = [("AUC of ez", "AUC; memaudit"), ("TPR of ez", "TPR; memaudit")]
        words = [f"{own} {shown(run[own])} beside {shown(run[other])}" for own, other in pairs]
        print(f"seed {seed}: {', '.join(words)}")


def line(*cells: str) -> None:
    name, *values = cells
    print(f"{name:32}" + "".join(f"{value:>12}" for value in values))


def shown(value: float) -> str:
    return f"{value:.3f}"


if __name__ == "__main__":
    main()
