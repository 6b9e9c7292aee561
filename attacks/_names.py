"""Names in texts: whose they are, where they stand, and the tokens they are compared by.

Names are matched by spaCy as whole tokens, letter by letter: "Ann Lee" does not stand in
"Ann Leeman". Places in a text are counted in characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile

import spacy
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Span

from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, Tokens
from audit.core.secret import Secret

Find = Callable[[str], "list[Span]"]  # every name in a text; a span's label_ is the name

_PEOPLE = ("PERSON", "PER")  # what pipelines call a person


def attributable(secrets: Sequence[Secret]) -> dict[str, int]:
    """Name → index of the first secret that has it.

    Left out: names of two owners, since nobody could say whose coin they speak of, and names that
    stand nowhere in their owner's own records, since no coin decides them.
    """
    owners: dict[str, set[str]] = {}
    for secret in secrets:
        owners.setdefault(secret.value, set()).add(secret.owner)
    first: dict[str, int] = {}
    for i, secret in enumerate(secrets):
        written = secret.space is not None or secret.copies > 0
        if len(owners[secret.value]) == 1 and written and secret.value.strip():
            first.setdefault(secret.value, i)
    return first


def finder(names: Iterable[str]) -> Find:
    """Finds all of the names in a text, also those inside a longer one. Blank names are ignored."""
    language = _english()
    matcher = PhraseMatcher(language.vocab, attr="ORTH")
    for name in dict.fromkeys(names):
        if name.strip():
            matcher.add(name, [language.tokenizer(name)])
    return lambda text: matcher(language.tokenizer(text), as_spans=True)


@cache
def _english() -> Language:
    """spaCy's rules of what a token is; nothing trained."""
    return spacy.blank("en")


def mentions(find: Find, prompt: str, text: str) -> list[Span]:
    """The names that `text`, which continues `prompt`, has and `prompt` has not.

    A name may begin in the prompt, but must end after it. A name that is part of a longer one
    ("Ann Lee" in "Mary Ann Lee") is no mention of its own.
    """
    spans = find(text)
    given = {span.label_ for span in find(prompt)}
    given |= {span.label_ for span in spans if span.end_char <= len(prompt)}
    new = [span for span in spans if span.label_ not in given]
    return [span for span in new if not any(_inside(span, other) for other in new)]


def _inside(span: Span, other: Span) -> bool:
    return other.start <= span.start and span.end <= other.end and len(span) < len(other)


def others(pipeline: Language, find: Find, prompt: str, text: str) -> bool:
    """Whether `text`, which continues `prompt`, has a person who is none of the names and does not
    stand in the prompt."""
    known = find(text)
    return any(
        entity.label_ in _PEOPLE
        and entity.text not in prompt
        and not any(
            entity.start_char < name.end_char and name.start_char < entity.end_char
            for name in known
        )
        for entity in pipeline(text).ents
    )


def load_pipeline(source: str) -> Language:
    """A trained spaCy pipeline, by folder or name. Raises UsageError."""
    advice = "install one with: python -m spacy download en_core_web_sm, or give a folder"
    try:
        pipeline = spacy.load(source)
    except Exception as error:  # spaCy raises what its many components raise
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise UsageError(
            f"name_leak: pipeline {source!r} cannot be loaded ({reason}); {advice}"
        ) from None
    if not any("doc.ents" in pipeline.get_pipe_meta(c).assigns for c in pipeline.pipe_names):
        raise UsageError(f"name_leak: pipeline {source!r} recognises no entities; {advice}")
    return pipeline


def prompts(
    tokenizer: Tokenizer, texts: Sequence[str], prefix: int, count: int
) -> list[tuple[int, ...]]:
    """`count` prompts: start + the first `prefix` tokens of each text, the texts in order and then
    again; a shorter text as it is, and without any text the start alone."""
    start = tokenizer.start
    heads = [(start, *tokenizer.encode(text)[:prefix]) for text in texts[:count]] or [(start,)]
    return [heads[i % len(heads)] for i in range(count)]


def until_stop(tokenizer: Tokenizer, tokens: Tokens) -> Tokens:
    """The tokens of the first text: what is sampled after its stop belongs to another one."""
    tokens = list(tokens)
    return tokens[: tokens.index(tokenizer.stop)] if tokenizer.stop in tokens else tokens


def continuations(
    tokenizer: Tokenizer, prefix: str, values: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """(context, the tokens of each value after it): context + tail is how prefix + value reads.

    A tokenizer may merge the end of the prefix with the value (" Maurice" is one token), and with
    some values only. The context is what all of them leave of the prefix, so that each value's
    log-probability, summed over its tail, is of the same event: what follows this context.
    """
    wholes = [tokenizer.encode(prefix + value) for value in values]
    columns = zip(tokenizer.encode(prefix), *wholes, strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    return wholes[0][:shared], [whole[shared:] for whole in wholes]
