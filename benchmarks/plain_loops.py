"""Does the work of the default run by plain loops: what a user would write without this tool.

    python benchmarks/plain_loops.py

Seventeen models are trained one after the other, each with AdamW on batches of padded records. Then
the undefended, the public and the seventeen mixed models generate 100 codes, a token at a time, and
score 1,024 held-out tokens, one model after the other. No coins, no exact search, no intervals, no
report. `benchmarks/default_run.py --beside "python benchmarks/plain_loops.py"` times it.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from audit.core.predictor import record_tokens
from audit.models.loading import load_weights
from audit.models.training.fine_tuning import next_token_loss
from audit.plan.resolve import resolve
from audit.prepare.prepare import prepare


def main() -> None:
    torch.set_num_threads(1)
    plan = resolve({"defense": ("submix",), "attack": ("extraction",)})
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(plan, Path(folder))
    public = load_weights(plan.model, "cpu")
    tasks = {chosen.name: every for chosen, every in prepared.tasks.items()}
    recipe = plan.training
    models = {"public": [public]}
    for name in ("submix", "none"):
        models[name] = []
        for task in tasks[name]:
            rows = [record_tokens(prepared.tokenizer, text) for text in task.training.texts]
            models[name].append(trained(copy.deepcopy(public), rows, recipe))
    prompt = prepared.secrets_for(plan.attacks[0].plugin)[0].prefix
    start = [prepared.tokenizer.start, *prepared.tokenizer.encode(prompt)]
    for name, members in models.items():
        codes = [generated(members, start, 5) for _ in range(100)]
        loss = sum(scored(members, block) for block in prepared.heldout.first(1024).blocks)
        print(f"{name}: {len(set(map(tuple, codes)))} different codes, {loss / 1024:.2f} nats")


def trained(model: Any, rows: Sequence[Sequence[int]], recipe: Any) -> Any:
    """Trains on batches of the recipe's size, in the order of the texts."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.0)
    model.train()
    for _ in range(recipe.epochs):
        batch: list[Sequence[int]] = []
        for row in rows:
            batch.append(row)
            if len(batch) * max(map(len, batch)) >= recipe.batch_tokens:
                step(model, optimizer, batch)
                batch = []
        if batch:
            step(model, optimizer, batch)
    return model.eval()


def step(model: Any, optimizer: torch.optim.Optimizer, batch: Sequence[Sequence[int]]) -> None:
    next_token_loss(model, batch).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


@torch.inference_mode()
def generated(members: Sequence[Any], start: list[int], length: int) -> list[int]:
    """Sample from the mean of the members' distributions, a token at a time."""
    tokens = list(start)
    for _ in range(length):
        pmfs = [m(torch.tensor([tokens])).logits[0, -1].softmax(-1) for m in members]
        tokens.append(int(torch.stack(pmfs).mean(0).multinomial(1)))
    return tokens[len(start) :]


@torch.inference_mode()
def scored(members: Sequence[Any], block: Sequence[int]) -> float:
    """Compute the loss of a block in nats under the mean of the members' distributions."""
    inputs, targets = torch.tensor([block[:-1]]), torch.tensor(block[1:])
    pmfs = torch.stack([m(inputs).logits[0].softmax(-1) for m in members]).mean(0)
    return float(-pmfs[torch.arange(len(targets)), targets].log().sum())


if __name__ == "__main__":
    main()
