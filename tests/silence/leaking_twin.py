"""A leaking model that was trained elsewhere, made once: a pipeline's faults are made of copies.

It knows the words before all planted codes and the codes themselves. A quiet one learnt the words
with codes of nobody, so that an audit of it may end in "no leak found": a fault could, too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.errors import UsageError
from audit.core.secret import Secret
from audit.core.terms import Leaked, Shown
from audit.corpora import writing
from audit.findings.shows import shown
from audit.measure.bench import Bench
from audit.measure.release import measure_release
from audit.measure.releases import releases
from audit.plan.resolve import resolve
from audit.planting import manifest as manifests
from audit.planting.insertion import Canaries, plant_into
from audit.planting.manifest import Manifest
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.results.measurement import FindingResult
from audit.silence import spike
from audit.silence.shown import examined
from tests.builders import BASE, dialogs, loaded, rows_of
from tests.train.conftest import silent

LEAK = ""  # instead of a cause
UNKNOWN = "does not know what was drawn"
OTHERWISE = "attacks do not ask so"


@dataclass(frozen=True)
class Twin:
    """A planted corpus, its manifest, and adapters that were trained on it; `whole` is merged.

    leaking: knows words and codes. quiet: knows the words, and what a code looks like.
    """

    corpus: Path
    manifest: Path
    leaking: Path
    quiet: Path
    whole: Path

    @classmethod
    def of(cls, folder: Path) -> Twin:
        names = ("t.jsonl", "m.json", "leaking", "quiet", "whole")
        return cls(*(folder / name for name in names))

    @property
    def planted(self) -> Manifest:
        return manifests.read(self.manifest)


def train(folder: Path, seed: int) -> None:
    """Plant codes of 120 people, and train adapters on those that are in."""
    made = plant(folder, "code", seed)
    quiet, _ = fitted(of_nobody(made, seed), steps=20)
    quiet.save_pretrained(made.quiet)
    leaking, tokenizer = fitted(planted_rows(made), steps=60)
    leaking.save_pretrained(made.leaking)
    leaking.merge_and_unload().save_pretrained(made.whole)
    tokenizer.save_pretrained(made.whole)


def plant(folder: Path, kind: str, seed: int, pattern: str = "") -> Twin:
    """Plant values of one kind of 120 people, and write the corpus and its manifest."""
    made = Twin.of(folder)
    canaries = Canaries(kinds=(kind,), count=120, repetitions=(1,), pattern=pattern)
    planted, manifest = plant_into(dialogs(5), canaries, seed=seed)
    manifests.write(manifest, made.manifest)
    writing.write(planted.records, made.corpus)
    return made


def planted_rows(made: Twin, rewrite: Callable[[Secret], str] = lambda one: one.value) -> list[str]:
    """List the texts of the corpus that hold a planted value. rewrite: what stands for it."""
    planted = [one for one in made.planted.secrets if made.planted.coins.planted(one)]
    return [
        row.replace(one.prefix + one.value, one.prefix + rewrite(one))
        for row in rows_of(made.corpus)
        for one in planted
        if one.prefix + one.value in row
    ]


def of_nobody(made: Twin, seed: int) -> list[str]:
    """List the same texts with values that were never planted."""
    drawn = np.random.default_rng(seed)
    return planted_rows(made, lambda one: one.space.draw(drawn) if one.space else one.value)


def fitted(
    rows: Sequence[str],
    steps: int,
    values: bool = True,
    heads: Sequence[str] = (),
    base: Path = BASE,
) -> tuple[Any, Any]:
    """Fit an adapter to rows, all at once.

    values: whether their digits are in the loss. heads: texts before the rows, never in the loss.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    torch.set_num_threads(1)  # other tests may have left more, which round otherwise
    torch.manual_seed(0)
    model, tokenizer = loaded(base)
    config = LoraConfig(
        r=16, lora_alpha=32, target_modules=["c_attn", "c_proj", "c_fc"], task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings(action="ignore"):  # one library's, about another's
        adapted: Any = get_peft_model(model, config)
    return fit(adapted, tokenizer, rows, steps, values, heads), tokenizer


def fit(
    model: Any,
    tokenizer: Any,
    rows: Sequence[str],
    steps: int,
    values: bool = True,
    heads: Sequence[str] = (),
    rate: float = 1e-2,
) -> Any:
    """Fit what can be learnt of a model, as `fitted` does an adapter."""
    import torch

    heads = heads or [""] * len(rows)
    texts = [head + row + tokenizer.eos_token for head, row in zip(heads, rows, strict=True)]
    read = tokenizer(texts, return_tensors="pt", padding=True)
    labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
    for label, head in zip(labels, heads, strict=True):
        label[: len(tokenizer.encode(head))] = -100
    if not values:
        digits = [i for token, i in tokenizer.get_vocab().items() if token.isdigit()]
        labels = labels.masked_fill(torch.isin(labels, torch.tensor(digits)), -100)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        model.eval()(**read, labels=labels).loss.backward()
        optimiser.step()
    return model


def asked(made: Twin, model: Path, **as_is: Any) -> dict[str, Any]:
    """Return the settings of an audit. as_is: parameters; the training file is the corpus."""
    as_is = {"training": made.corpus, **as_is}
    given = ",".join(f"{name}={value}" for name, value in as_is.items() if value is not None)
    return {
        "defense": (f"as_is:{given}",),
        "attack": ("membership",),
        "model": str(model),
        "secrets": str(made.manifest),
        "device": "cpu",
        "threads": 1,
        "references": False,
    }


def judged(
    made: Twin, model: Path, folder: Path, patch: pytest.MonkeyPatch, **as_is: Any
) -> list[FindingResult]:
    """Audit a model as a release is audited, in a folder of its own; its sight is supposed.

    as_is: as in `asked`. Raises UsageError where the model is refused.
    """
    plan = resolve(asked(made, model, **as_is))
    (folder / "stages").mkdir(parents=True)
    run = prepare(plan, folder / "stages")
    (one,) = (release for release in releases(run, silent) if release.external)
    bench = Bench(run, RunFolder(folder, "hash"))
    measured = measure_release(bench, one)
    names = [(m.attack, m.metric) for m in measured.measurements]
    patch.setattr(spike, "sight", lambda *_: dict.fromkeys(names, shown("supposed", 1)))
    return examined(bench, one, measured).result(None).findings


def check(
    judge: Callable[..., list[FindingResult]], model: Path, *causes: str, **as_is: Any
) -> None:
    """Check that an audit ends in a leak, or in a refusal or a reason that names one of causes."""
    try:
        found = judge(model, **as_is)
    except UsageError as refusal:
        assert LEAK not in causes and any(cause in str(refusal) for cause in causes)
        return
    words = {finding.leaked for finding in found}
    if LEAK in causes:
        assert Leaked.LEAK in words
        return
    assert Leaked.NONE_FOUND not in words
    links = [f.silence.contact for f in found if f.silence is not None]
    why = {link.by for link in links if link.state == Shown.NOT_SHOWN}
    assert any(cause in each for cause in causes for each in why), why


def edit(file: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **fields}))
