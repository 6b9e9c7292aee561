"""Publishes texts: every release of a run writes some once, and then nothing else of it is given.

Texts are sampled after the start token. No prompt, filter or stopping rule looks at private text,
so the guarantee of the release carries over (post-processing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from audit.core.digest import key_of
from audit.core.predictor import Predictor, before
from audit.core.progress import StepProgress
from audit.core.randomness import derived_seed, stream
from audit.core.release import NoJournal, Release
from audit.core.training import Training
from audit.measure.bench import Bench
from audit.measure.releases import Audited, releases, texts_of
from audit.measure.session import Looked, Session
from audit.plan.text import Text
from audit.train.publication import Publication, Written
from audit.train.task import Task
from audit.train.train import train_on
from audit.train.workers.place import Workers

_PURPOSE = "text"


def publish(bench: Bench, place: Workers, report: StepProgress) -> Bench:
    """Make every release write its texts, and train a reader on each; load what is there.

    Raises UsageError for a budget that does not last for one text, or too long texts.
    """
    run, text = bench.run, bench.run.plan.text
    if text is None:
        return bench
    made = {}
    for one in releases(run, report):
        if not texts_of(one.release):
            report(f"{one.label} writes {text.texts:,} texts", 0.0)
            made[one.label] = _publication(bench, one, text)
    train_on(place, [task for one in made.values() for task in one.readers], report)
    return replace(bench, run=replace(run, published=made))


def _publication(bench: Bench, one: Audited, text: Text) -> Publication:
    settings = [text.texts, text.tokens]
    session = Session(bench, one, _PURPOSE, settings, code=(__name__,))

    def look(predictor: Predictor) -> Looked:
        texts, answered = _sampled(predictor, text, one.label)
        return Looked({"texts": texts}, len(texts) * text.tokens, answered)

    stored = session.stored(look)
    shadows = _shadows(bench, one, text)
    written = _written(bench, one.label, stored["seen"]["texts"])
    return Publication(written, stored["session"], session.stage, tuple(shadows))


def _sampled(predictor: Predictor, text: Text, label: str) -> tuple[list[str], int]:
    """Sample all texts a session is asked for, each cut at its stop token: (texts, answered)."""
    tokenizer, budget = predictor.tokenizer, predictor.remaining
    text.check(label, predictor.max_length, budget)
    count = text.affordable(budget)
    answers = predictor.generate([[tokenizer.start]] * count, text.tokens)
    texts = [tokenizer.decode(before(tokenizer.stop, a.tokens)) for a in answers]
    return texts, sum(a.answered for a in answers)


def _shadows(bench: Bench, one: Audited, text: Text) -> Iterator[Written]:
    """Publish the texts of every shadow model, which an attacker trains and asks alone."""
    run, seed = bench.run, bench.run.plan.seed
    for j, release in enumerate(one.shadows() if run.shadow_coins else ()):
        what = [text.texts, text.tokens, j, run.plan.model.sha256]
        key = key_of("texts of a shadow 1", *one.determined, what, seed, run.plan.threads)

        def sampled(release: Release = release, j: int = j) -> dict[str, Any]:
            opened = release.open(stream(seed, one.label, _PURPOSE, "shadow", j), NoJournal())
            return {"texts": _sampled(opened, text, one.label)[0]}

        texts = bench.folder.stored(f"texts-{key}", sampled)["texts"]
        yield _written(bench, f"{one.label}, shadow {j + 1}", texts)


def _written(bench: Bench, label: str, texts: Sequence[str]) -> Written:
    plan = bench.run.plan
    seed = derived_seed(plan.seed, "reader")
    heldout = tuple(record.text for record in plan.corpus.of("heldout"))
    training = Training(f"reader of {label}", tuple(texts), plan.training, seed, heldout=heldout)
    reader = Task(training, plan.model, plan.device, plan.threads, bench.folder.stages)
    return Written(tuple(texts), reader)
