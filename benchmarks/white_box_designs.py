"""Compares the designs of planted records on DP-SGD: which show the largest ε to who has weights?

    python benchmarks/white_box_designs.py --seeds 0 1 2 [--epsilon 4 8] [--users 500]
        [--designs random model echo gradient new_token] [--output FILE.jsonl]
    python benchmarks/white_box_designs.py --table FILE.jsonl [--seeds 3 4 5 6 7]

For each seed and design the same users are planted by the same coins, one copy each, into the
embedded corpus, and `dp_sgd` trains the embedded model on it with its defaults. Written is, by
membership score, the AUC and the product's own 95 % lower bound on ε, each at the guarantee's δ
and not adjusted for other scores. `new_token:4` has 4 tokens a record in place of 16, and
`new_token:16:zeros` rows of zeros in place of the mean. What is in FILE already is not computed
again. The table has means over seeds, and differences from random words on the same seeds with 95 %
t-intervals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from scipy.stats import t

from attacks.membership import Membership
from audit.core.attack import Knowledge
from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.corpora import loading
from audit.findings import bounds
from audit.findings.case import Case
from audit.models import new_rows
from audit.models.causal import CausalLM
from audit.models.gradient_sketch import Sketch
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.plan.resolve import default_recipe
from audit.planting import designs, gradients, new_tokens
from audit.planting.designs import RANDOM, Base, Designed
from audit.planting.gradients import GRADIENT
from audit.planting.insertion import Canaries, draws_of, plant_into
from audit.planting.manifest import Manifest
from audit.planting.new_tokens import NEW_TOKEN
from audit.statistics import roc
from defenses.dp_sgd import DPSGD

SCORES = ("ratio", "ez", "wbc", "loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[4.0, 8.0])
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument(
        "--designs", nargs="+", default=[RANDOM, "model", "echo", GRADIENT, NEW_TOKEN]
    )
    parser.add_argument("--output", type=Path, default=Path("white_box_designs.jsonl"))
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table:
        print(*table(rows_of(given.table), given.seeds), sep="\n")
        return
    torch.set_num_threads(1)
    known = {key(row) for row in rows_of(given.output)}
    for seed in given.seeds:
        for name in given.designs:
            for epsilon in given.epsilon:
                row = {"design": name, "epsilon": epsilon, "seed": seed, "users": given.users}
                if key(row) in known:
                    continue
                with TemporaryDirectory() as folder:
                    row |= measured(name, epsilon, seed, given.users, Path(folder))
                with given.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def rows_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return list(map(json.loads, lines))


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("design", "epsilon", "seed", "users"))


def measured(name: str, epsilon: float, seed: int, users: int, at: Path) -> dict[str, Any]:
    """Plants, trains and attacks once; at: an empty folder."""
    own = loading.read("helpdesk", EMBEDDED_FOLDER)
    start = describe("embedded", EMBEDDED_FOLDER)
    folder, manifest, corpus = planted(name, own, start, seed, users, at)
    tokenizer = load_tokenizer(folder)
    defense = DPSGD(epsilon=epsilon)
    recipe = replace(default_recipe(start, own), max_length=folder.max_length)
    (training,) = defense.trainings(corpus, folder, recipe, seed)
    public_weights, weights = (loaded(folder, start, name) for _ in range(2))
    training.method.train(weights, tokenizer, training)
    public, release = (
        OpenSession(CausalLM(inner, tokenizer, folder.max_length), stream(seed, purpose))
        for purpose, inner in (("public", public_weights), ("release", weights))
    )
    knowledge = Knowledge(public, (), (), (), stream(seed, "attacker"), opened=True)
    evidence = Membership().run(release, manifest.secrets, knowledge)
    guarantee = defense.promised([training])
    case = Case(
        "membership", manifest.secrets, manifest.coins, guarantee.delta, seed, Access.DISTRIBUTION
    )
    return {"sigma": training.method.noise.multiplier, **dict(read(evidence, case))}


def loaded(folder: ModelFolder, start: ModelFolder, name: str) -> Any:
    weights = load_weights(folder, "cpu")
    if name.endswith(":zeros"):
        with torch.no_grad():
            weights.get_input_embeddings().weight[start.vocabulary :] = 0.0
    return weights


def planted(
    name: str, own: Corpus, start: ModelFolder, seed: int, users: int, at: Path
) -> tuple[ModelFolder, Manifest, Corpus]:
    """Plant records of a design; return the model to start from, the manifest and the corpus."""
    private = Corpus(own.name, own.of("private"))
    canaries = Canaries(kinds=("record",), count=users, repetitions=(1,))
    folder, designed = drawn(name, own, start, canaries, draws_of(seed, private, canaries), at)
    whole, manifest = plant_into(private, canaries, seed, designed)
    return folder, manifest, replace(whole, public_size=manifest.population)


def drawn(
    name: str, own: Corpus, start: ModelFolder, canaries: Canaries, seed: int, at: Path
) -> tuple[ModelFolder, Designed | None]:
    """Draw the records of a design, and return the model that they are trained into."""
    texts = [record.text for record in own.records]
    if name.startswith(NEW_TOKEN):
        new_tokens.TIMES = int([*name.split(":"), "16"][1])
        words = new_tokens.words(canaries.count, texts, seed)
        new_rows.write_with_tokens(start, words, at / "base")
        folder = describe(str(at / "base"), EMBEDDED_FOLDER)
        return folder, new_tokens.make(base_of(folder), start.sha256, words)
    if name == RANDOM:
        return start, None
    prompts = [record.text for record in own.of("public")]
    if name == GRADIENT:
        return start, gradients.make(base_of(start), prompts, 2 * canaries.count, seed)
    return start, designs.make(name, base_of(start), texts, prompts, 2 * canaries.count, seed)


def base_of(folder: ModelFolder) -> Base:
    model = CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)
    sketch = partial(Sketch, model.inner, model.tokenizer)
    return Base(folder.name, folder.sha256, model, sketch)


def read(evidence: Iterable[Any], case: Case) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield AUC and bound of each score of records."""
    for scores in evidence:
        if isinstance(scores, Scores) and scores.score in SCORES:
            area = roc.auc(*case.sides(scores.values))
            bound = bounds.presence(case.by_owner(scores.values), case)
            assert area.value is not None and bound is not None
            yield scores.score, {"auc": area.value, "epsilon": bound.value}


def table(rows: list[dict[str, Any]], seeds: list[int]) -> Iterator[str]:
    yield "| ε | score | design | AUC | ε shown | less random: AUC | less random: ε | seeds |"
    yield "|---|---|---|---|---|---|---|---|"
    found = {(r["epsilon"], r["design"], r["seed"]): r for r in rows if r["seed"] in seeds}
    names = dict.fromkeys(r["design"] for r in rows)
    for epsilon in sorted({r["epsilon"] for r in rows}):
        for score in SCORES:
            for name in names:
                own = [s for s in seeds if (epsilon, name, s) in found]
                if not own:
                    continue
                values = {
                    what: np.array([found[epsilon, name, s][score][what] for s in own])
                    for what in ("auc", "epsilon")
                }
                both = [s for s in own if (epsilon, RANDOM, s) in found]
                gains = [
                    gain([found[epsilon, n, s][score][what] for n in (name, RANDOM)] for s in both)
                    for what in values
                ]
                means = [f"{values[what].mean():.3f}" for what in values]
                cells = [f"{epsilon:g}", score, name, *means, *gains, str(len(own))]
                yield f"| {' | '.join(cells)} |"


def gain(pairs: Iterable[list[float]]) -> str:
    """Mean and 95 % t-interval of paired differences."""
    differences = np.array([one - other for one, other in pairs])
    if len(differences) < 2 or not differences.any():
        return "—"
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
    mean = differences.mean()
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


if __name__ == "__main__":
    main()
