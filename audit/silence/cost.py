"""Estimates the training of a spiked copy, by the first steps of one like it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from audit.core.training import Training
from audit.models.training.fine_tuning import Recipe
from audit.prepare.run import Run
from audit.silence.memorise import ADAPTERS, BATCH, RATE, WHOLE
from audit.silence.reserve import reserve_of
from audit.train.first_steps import cost_of
from audit.train.task import Task

USUAL = 128  # steps: 32 to 128 in all copies that were measured, and 200 at most


def training_seconds(run: Run) -> float:
    """Estimate the seconds of training one spiked copy; 0 where the run audits no weights."""
    plan = run.plan
    local = any(chosen.plugin.external for chosen in run.tasks)
    if not local or plan.text is not None or plan.source.served is not None:
        return 0.0
    texts = tuple(secret.text for secret in reserve_of(run).memorised) * 2  # read in two ways
    method = Recipe(USUAL, RATE, BATCH, plan.model.max_length)
    base = plan.model
    if base.parameters > WHOLE:
        base = replace(base, lora=ADAPTERS)
    task = Task(Training("spike", texts, method, 0), base, plan.device, plan.threads, Path())
    read = sum(map(run.tokenizer.predicted, texts))
    return cost_of(task, run.tokenizer).seconds * USUAL * min(BATCH, read)
