"""Reports what trainings cut: records that are longer than `training.max_length`."""

from __future__ import annotations

from audit.core.spans import Span
from audit.prepare.run import Run
from audit.results.words import count


def cut_records(run: Run) -> list[str]:
    """Count the records that are cut, and the planted names that are in two pieces."""
    most, texts = run.plan.training.max_length, _texts(run)
    lengths = [run.tokenizer.predicted(text) for text in texts]
    longer = [n for n in lengths if n > most]
    if not longer:
        return []
    more = run.plan.model.longest
    raised = f"; training.max_length can be up to {more:,}" if more > most else ""
    return [
        f"{len(longer):,} of {count(len(lengths), 'record')} to train on have more than {most:,} "
        f"tokens, up to {max(longer):,}: they are cut into pieces of {most:,}, and no piece sees "
        f"what comes before it{raised}",
        *_ignored(run, sum(longer) - most * len(longer)),
        *_halved(run),
    ]


def _texts(run: Run) -> tuple[str, ...]:
    """Return the private texts, where something is trained on texts here."""
    trained = any(task.training.texts and not task.idle for task in run.trainings)
    return tuple(r.text for r in run.corpus.of("private")) if trained else ()


def _ignored(run: Run, tokens: int) -> list[str]:
    """Name the defenses that read one piece of a record alone."""
    names = [
        chosen.label
        for chosen, tasks in run.tasks.items()
        if any(task.training.method.first_piece_only for task in tasks)
    ]
    return [f"{name}: reads the first piece alone; {tokens:,} tokens are ignored" for name in names]


def _halved(run: Run) -> list[str]:
    """Count the copies of names, which stand in records of their owners, that a cut divides.

    Secrets that are planted as records of their own are never cut.
    """
    planted, most = run.planted, run.plan.training.max_length
    names = {s.owner: s.value for s in planted.secrets if s.kind == "name" and s.space is None}
    places = [
        (record.text, span)
        for record in run.corpus.of("private")
        if record.user in names
        for span in _places(record.text, names[record.user])
    ]
    divided = sum(_divided(run, text, span, most) for text, span in places)
    if not divided:
        return []
    return [
        f"{divided:,} of {len(places):,} planted name copies stand where a record is cut, so no "
        "piece holds them whole: that they do not leak shows nothing"
    ]


def _places(text: str, value: str) -> list[Span]:
    """Find every place of a value in a text."""
    starts, place = [], text.find(value)
    while place >= 0:
        starts.append(place)
        place = text.find(value, place + len(value))
    return [(start, start + len(value)) for start in starts]


def _divided(run: Run, text: str, span: Span, most: int) -> bool:
    """Return whether the tokens of these characters are in two pieces of `most` tokens."""
    ends = run.tokenizer.ends(text)
    first = next(t for t, end in enumerate(ends) if end > span[0])
    last = next(t for t, end in enumerate(ends) if end >= span[1])
    return first // most != last // most
