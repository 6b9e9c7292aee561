"""Finds names in texts, and the tokens by which names are compared.

spaCy matches names exactly and as whole tokens: "Ann Lee" is not found in "Ann Leeman". Places in a
text are counted in characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, Tokens, is_chat
from audit.core.secret import Secret

if TYPE_CHECKING:  # spaCy takes seconds, which a run without these attacks does not need
    from spacy.language import Language
    from spacy.tokens import Span

Find = Callable[[str], "list[Span]"]  # gives every name in a text; label_ of a span is the name

_PEOPLE = ("PERSON", "PER")  # labels of people in pipelines


def attributable(secrets: Sequence[Secret]) -> dict[str, int]:
    """Map each name to the index of its first secret.

    Excludes names of two owners, which cannot be attributed to one coin, and names that do not
    occur in their owner's records, which no coin decides.
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
    """Make a function that finds all names in a text, also inside longer ones; ignores blanks."""
    from spacy.matcher import PhraseMatcher

    language = _english()
    matcher = PhraseMatcher(language.vocab, attr="ORTH")
    for name in dict.fromkeys(names):
        if name.strip():
            matcher.add(name, [language.tokenizer(name)])
    return lambda text: matcher(language.tokenizer(text), as_spans=True)


@cache
def _english() -> Language:
    """Load spaCy's tokenizer rules, without a trained model."""
    import spacy

    return spacy.blank("en")


def mentions(find: Find, prompt: str, text: str) -> list[Span]:
    """Find the names in `text`, which continues `prompt`, that are not in `prompt`.

    A name may begin in the prompt but must end after it. A part of a longer name ("Ann Lee" in
    "Mary Ann Lee") does not count.
    """
    spans = find(text)
    given = {span.label_ for span in find(prompt)}
    given |= {span.label_ for span in spans if span.end_char <= len(prompt)}
    new = [span for span in spans if span.label_ not in given]
    return [span for span in new if not any(_inside(span, longer) for longer in new)]


def _inside(span: Span, longer: Span) -> bool:
    return longer.start <= span.start and span.end <= longer.end and len(span) < len(longer)


def names_another(pipeline: Language, find: Find, prompt: str, text: str) -> bool:
    """Decide whether `text`, which continues `prompt`, names a person who is none of the names
    and not in the prompt."""
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


@cache
def load_pipeline(source: str) -> Language:
    """Load a trained spaCy pipeline once, by folder or name. Raises UsageError."""
    advice = "install one with: python -m spacy download en_core_web_sm, or give a folder"
    import spacy

    try:
        pipeline = spacy.load(source)
    except Exception as error:  # spaCy's components raise any kind of error
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
    """Make `count` prompts: start + the first `prefix` tokens of each text, cycling through the
    texts. A shorter text is used whole; without texts, a prompt is the start token only."""
    start = tokenizer.start
    heads = [(start, *tokenizer.encode(text)[:prefix]) for text in texts[:count]] or [(start,)]
    return [heads[i % len(heads)] for i in range(count)]


def until_stop(tokenizer: Tokenizer, tokens: Tokens) -> Tokens:
    """Cut tokens at the first stop; what follows belongs to another text.

    A conversation is left whole, for stop closes its turns, too.
    """
    tokens = list(tokens)
    if is_chat(tokenizer):
        return tokens
    return tokens[: tokens.index(tokenizer.stop)] if tokenizer.stop in tokens else tokens


def continuations(
    tokenizer: Tokenizer, prefix: str, values: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """Split prefix + value into a common context and the tail of each value: (context, tails).

    A tokenizer may merge the end of the prefix with some values (" Maurice" is one token). The
    context is the part of the prefix that all values share, so the summed log-probabilities of all
    tails are conditional on the same context.
    """
    wholes = [tokenizer.encode(prefix + value) for value in values]
    columns = zip(tokenizer.encode(prefix), *wholes, strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    return wholes[0][:shared], [whole[shared:] for whole in wholes]
