"""Contact of a model behind an endpoint, of which nothing is seen but answers.

First an endpoint must answer as a model does: sample, under one name, and withhold nothing where
planted text is asked for. Only then its answers can show that planted words were learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from audit.core.evidence import Hits, Mentions, from_json
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Predictor, Tokenizer, continuation
from audit.core.randomness import stream
from audit.core.secret import CODE_LIKE
from audit.findings import hits
from audit.findings.shows import STATED, not_shown, shown
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.measure.session import Look, Looked, Session
from audit.models.endpoint.session import EndpointRelease, Served
from audit.prepare.run import Run
from audit.results.measurement import Link
from audit.silence import filters, scored_words, serving
from audit.silence.drawn_words import Sentence, frame_of, sentences
from audit.statistics.first_words import FirstWord, split

Seen = dict[str, Any]  # what a session has seen, as JSON values
LEVEL = 0.001  # at which the sentence must come up more often than others
FEWEST_SENTENCES = 1000  # with the same first word
MOST_WITHHELD = 4  # one part in so many of the people may be withheld, with those of a leak
_CODE = ("audit.silence.serving", "audit.silence.filters", "audit.models.endpoint.session")


def contact(
    bench: Bench, one: Audited, attacked: Sequence[Attacked], lost: Mapping[str, str]
) -> dict[str, Link]:
    """Find by kind of secret what shows that planted text reached a served model, or why not.

    lost: by kind, as a sentence, what is not known to have reached its training. Empty where the
    release is not served.
    """
    if not isinstance(one.release, EndpointRelease):
        return {}
    secrets = bench.run.planted.secrets
    heard = _stored(bench, one, "serving", [], partial(_serving, bench, one))
    kinds = dict.fromkeys(secret.kind for secret in secrets)
    if heard["faults"]:
        return dict.fromkeys(kinds, not_shown(" ".join(heard["faults"]), heard["n"]))
    return {kind: _of_kind(bench, one, attacked, kind, lost.get(kind)) for kind in kinds}


def _of_kind(
    bench: Bench, one: Audited, attacked: Sequence[Attacked], kind: str, lost: str | None
) -> Link:
    for each in attacked:
        for evidence in map(from_json, each.seen):
            if isinstance(evidence, (Hits, Mentions)) and _is_about(evidence, kind, each):
                why = _filtered(bench, one, evidence, kind) or too_many(evidence, each)
                if why:
                    return not_shown(why, sum(evidence.withheld))
    return _learnt(bench, one, kind, lost)


def _is_about(evidence: Hits | Mentions, kind: str, each: Attacked) -> bool:
    kinds = {secret.kind for secret in each.case.secrets}
    return kind == evidence.kind or (evidence.kind is None and kind in kinds)


def too_many(evidence: Hits | Mentions, each: Attacked) -> str:
    """Name withheld tries that may hide a leak of a quarter of the people; "" if so few cannot."""
    withheld = sum(evidence.withheld)
    if not withheld:
        return ""
    secrets = tuple(s for s in each.case.secrets if evidence.kind in (None, s.kind))
    case = replace(each.case, secrets=secrets)
    people = len({s.owner for s in secrets if case.coins.planted(s)})
    tries = len(evidence.found) if isinstance(evidence, Hits) else len(evidence.named)
    needed = hits.needed(tries, case) if isinstance(evidence, Hits) else None
    if MOST_WITHHELD * (withheld + (needed or 1)) <= people:
        return ""
    return f"{withheld} of {tries} answers were withheld or cut, and each may have been a leak."


def _filtered(bench: Bench, one: Audited, evidence: Hits | Mentions, kind: str) -> str:
    """Ask a planted prompt and others where answers are withheld, or one is common."""
    if not isinstance(evidence, Hits) or not evidence.sampled:
        return ""
    often = filters.is_common(max(evidence.repeats, default=0), len(evidence.found))
    if not often and not sum(evidence.withheld):
        return ""
    sentence = sentences(bench.run).get(kind)
    if sentence is None:
        return ""
    look = partial(_filters, bench, sentence, kind)
    return str(_stored(bench, one, f"filters of {kind}", [kind], look)["why"])


def _learnt(bench: Bench, one: Audited, kind: str, lost: str | None) -> Link:
    """Test whether the planted sentence is more likely, or comes up more often, than others."""
    sentence, n = sentences(bench.run).get(kind), int(one.parameters.get("words", 0))
    if sentence is None:
        return not_shown("No drawn sentence stands before these values, so none can be tested.")
    word = split(sentence.draw.space.symbols, sentence.draw.value)
    if word.sentences < FEWEST_SENTENCES:
        return not_shown("Too few sentences have its first word for a test.")
    if not n:
        return not_shown(
            "Nothing shows that planted text reached the model; give as_is:words=500 to ask for "
            "the planted sentences, or plant beacons."
        )
    look = partial(_words, bench, one, kind, n)
    seen = _stored(bench, one, f"words of {kind}", [kind, n], look)
    p, n = float(seen["p"]), int(seen["n"])
    if p > LEVEL:
        return not_shown(f"Nothing shows that the planted sentence was learnt (p = {p:.2g}).", n)
    if lost is not None:
        return not_shown(f"The words before the values were learnt (p = {p:.2g}). {lost}.", n)
    return shown(f"the sentence was learnt (p = {p:.1g}); values {STATED} the user", n)


def rehearse(run: Run, session: Predictor) -> None:
    """Ask what is asked of every endpoint, but for filters."""
    tokenizer = session.tokenizer
    words = max((int(chosen.parameters.get("words", 0)) for chosen in run.tasks), default=0)
    asked = serving.prompts(tokenizer, frame_of(run))
    session.generate(asked, serving.LENGTH)
    first = asked[: len(serving.OPENINGS)]
    session.score([p[:1] for p in first], [[*p[1:], *[0] * serving.LENGTH] for p in first])
    for sentence in sentences(run).values() if words else ():
        word = split(sentence.draw.space.symbols, sentence.draw.value)
        if session.readable >= Access.SCORE:
            texts = scored_words.candidates(tokenizer, sentence, stream(run.plan.seed, "rehearsal"))
            session.score([text[:1] for text in texts], [text[1:] for text in texts])
        else:
            session.generate(*_asked(sentence, word, tokenizer, words))


def most_filters(run: Run) -> int:
    """Count the requests that look for filters where answers are withheld."""
    return len(sentences(run).keys() & set(CODE_LIKE)) * (1 + filters.OTHERS) * filters.TRIES


def _stored(bench: Bench, one: Audited, purpose: str, what: list[Any], look: Look) -> Seen:
    """Load what a session of the auditor's own has seen, or hold it."""
    session = Session(bench, one, purpose, ["silence", *what], code=_CODE)
    seen: Seen = session.stored(look)["seen"]
    return seen


def _serving(bench: Bench, one: Audited, session: Predictor) -> Looked:
    assert isinstance(session, Served)
    heard = serving.look(session, _base(bench, one), frame_of(bench.run))
    queries = heard.n * serving.LENGTH
    return Looked({"faults": heard.faults, "n": heard.n}, queries, queries)


def _base(bench: Bench, one: Audited) -> Predictor | None:
    if not bench.run.plan.source.base_known:
        return None
    return OpenSession(one.public, stream(bench.run.plan.seed, "silence", "public"))


def _filters(bench: Bench, sentence: Sentence, kind: str, session: Predictor) -> Looked:
    assert isinstance(session, Served)
    secrets, tokenizer = bench.run.planted.secrets, session.tokenizer
    values = [secret for secret in secrets if secret.kind == kind]
    length = max(len(continuation(tokenizer, s.prefix, s.value)) for s in values)
    others = sentence.draw.others(filters.OTHERS, stream(bench.run.plan.seed, "silence", kind))
    why = filters.look(
        session,
        sentence.prompt(tokenizer, sentence.draw.value),
        [sentence.prompt(tokenizer, words) for words in others],
        length,
    )
    queries = (1 + len(others)) * filters.TRIES * length
    return Looked({"why": why}, queries, queries)


def _words(bench: Bench, one: Audited, kind: str, n: int, session: Predictor) -> Looked:
    """Score the planted sentence among others; where prompts are not scored, ask its first word."""
    assert isinstance(session, Served)
    sentence = sentences(bench.run)[kind]
    if session.readable >= Access.SCORE:
        draws = stream(bench.run.plan.seed, "silence", "words", kind)
        p, n = scored_words.look(session, _base(bench, one), sentence, draws)
        return Looked({"p": p, "n": n}, n, n)
    word = split(sentence.draw.space.symbols, sentence.draw.value)
    prompts, length = _asked(sentence, word, session.tokenizer, n)
    told = session.ask(prompts, length)
    p = word.p_value(one.choice.text for one in told)
    return Looked({"p": p, "n": n}, n * length, n * length)


def _asked(
    sentence: Sentence, word: FirstWord, tokenizer: Tokenizer, n: int
) -> tuple[list[list[int]], int]:
    """Return n prompts of the first word, and the tokens that the rest of a sentence takes."""
    prompt, whole = (sentence.prompt(tokenizer, text) for text in (word.word, sentence.draw.value))
    return [prompt] * n, len(whole) - len(prompt) + 2  # other sentences may be longer
