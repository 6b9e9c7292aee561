"""Publishes texts: every release of a run writes some once, and then nothing else of it is given.

Texts are sampled after the start token. No prompt, filter or stopping rule looks at private text,
so the guarantee of the release carries over (post-processing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from audit.core.digest import key_of
from audit.core.predictor import Predictor, Tokens
from audit.core.progress import StepProgress
from audit.core.randomness import derived_seed, stream
from audit.core.release import NoJournal, Release
from audit.core.training import Training
from audit.measure.releases import Audited, releases, texts_of
from audit.measure.session import Session
from audit.plan.text import Text
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.train.publication import Publication, Written
from audit.train.task import Task
from audit.train.train import train_on
from audit.train.workers.place import Workers

_PURPOSE = "text"


def publish(run: Run, folder: RunFolder, place: Workers, report: StepProgress) -> Run:
    """Lets every release write its texts, and trains a reader on each; what is there is loaded.

    Raises UsageError for a budget that does not last for one text, or too long texts.
    """
    text = run.plan.text
    if text is None:
        return run
    made = {}
    for one in releases(run, report):
        if not texts_of(one.release):
            report(f"{one.label} writes {text.texts:,} texts", 0.0)
            made[one.label] = _publication(run, one, text, folder)
    train_on(place, [task for one in made.values() for task in one.readers], report)
    return replace(run, published=made)


def _publication(run: Run, one: Audited, text: Text, folder: RunFolder) -> Publication:
    settings = [text.texts, text.tokens]
    session = Session(run, one, folder, _PURPOSE, settings, code=(__name__,))

    def look(predictor: Predictor) -> tuple[dict[str, Any], int, int]:
        texts, answered = _sampled(predictor, text, one.label)
        return {"texts": texts}, len(texts) * text.tokens, answered

    stored = session.stored(look)
    shadows = _shadows(run, one, text, folder)
    written = _written(run, one.label, stored["seen"]["texts"], folder)
    return Publication(written, stored["session"], session.stage, tuple(shadows))


def _sampled(predictor: Predictor, text: Text, label: str) -> tuple[list[str], int]:
    """Samples all texts a session is asked for, each cut at its stop token: (texts, answered)."""
    tokenizer, budget = predictor.tokenizer, predictor.remaining
    text.check(label, predictor.max_length, budget)
    count = text.affordable(budget)
    answers = predictor.generate([[tokenizer.start]] * count, text.tokens)
    texts = [tokenizer.decode(_until(tokenizer.stop, a.tokens)) for a in answers]
    return texts, sum(a.answered for a in answers)


def _until(stop: int, tokens: Tokens) -> Tokens:
    return tokens[: tokens.index(stop)] if stop in tokens else tokens


def _shadows(run: Run, one: Audited, text: Text, folder: RunFolder) -> Iterator[Written]:
    """Publishes the texts of every shadow model, which an attacker trains and asks alone."""
    seed = run.plan.seed
    for j, release in enumerate(one.shadows() if run.shadow_coins else ()):
        what = [text.texts, text.tokens, j, run.plan.model.sha256]
        key = key_of("texts of a shadow 1", *one.determined, what, seed, run.plan.threads)

        def sampled(release: Release = release, j: int = j) -> dict[str, Any]:
            opened = release.open(stream(seed, one.label, _PURPOSE, "shadow", j), NoJournal())
            return {"texts": _sampled(opened, text, one.label)[0]}

        texts = folder.stored(f"texts-{key}", sampled)["texts"]
        yield _written(run, f"{one.label}, shadow {j + 1}", texts, folder)


def _written(run: Run, label: str, texts: Sequence[str], folder: RunFolder) -> Written:
    plan = run.plan
    seed = derived_seed(plan.seed, "reader")
    heldout = tuple(record.text for record in plan.corpus.of("heldout"))
    training = Training(f"reader of {label}", tuple(texts), plan.training, seed, heldout=heldout)
    reader = Task(training, plan.model, plan.device, plan.threads, folder.stages)
    return Written(tuple(texts), reader)
