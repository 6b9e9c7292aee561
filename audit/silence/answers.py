"""Contact of a model behind an endpoint, of which nothing is seen but answers.

First an endpoint must answer as a model does: sample, under one name, and withhold nothing where
planted text is asked for. Only then its answers can show that planted words were learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from audit.core.evidence import Hits, Mentions, from_json
from audit.core.language_model import OpenSession
from audit.core.predictor import Predictor, continuation
from audit.core.randomness import stream
from audit.core.secret import CODE_LIKE
from audit.findings import hits
from audit.findings.shows import not_shown
from audit.measure.attacked import Attacked
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.measure.session import Look, Looked, Session
from audit.models.endpoint.session import EndpointRelease, Served
from audit.prepare.run import Run
from audit.results.silence import Link
from audit.silence import again, asked_words, filters, serving
from audit.silence.accounts import Ways, account, link
from audit.silence.asked_words import Drawn
from audit.silence.drawn_words import Sentence, frame_of, sentences

Seen = dict[str, Any]  # what a session has seen, as JSON values
MOST_WITHHELD = 4  # one part in so many of the people may be withheld, with those of a leak
_CODE = (
    *(f"audit.silence.{name}" for name in ("serving", "filters", "asked_words", "learnt")),
    *("audit.silence.beacons", "audit.silence.surroundings", "audit.models.endpoint.session"),
)


def contact(bench: Bench, one: Audited, attacked: Sequence[Attacked]) -> dict[str, Link]:
    """Find by kind of secret what shows that planted text reached a served model, or why not.

    Empty where the release is not served.
    """
    if not isinstance(one.release, EndpointRelease):
        return {}
    secrets = bench.run.planted.secrets
    heard = _stored(bench, one, "serving", [], partial(_serving, bench, one))
    kinds = dict.fromkeys(secret.kind for secret in secrets)
    if heard["faults"]:
        return dict.fromkeys(kinds, not_shown(" ".join(heard["faults"]), heard["n"]))
    return {kind: _of_kind(bench, one, attacked, kind) for kind in kinds}


def _of_kind(bench: Bench, one: Audited, attacked: Sequence[Attacked], kind: str) -> Link:
    for each in attacked:
        for evidence in map(from_json, each.seen):
            if isinstance(evidence, (Hits, Mentions)) and _is_about(evidence, kind, each):
                why = _filtered(bench, one, evidence, kind) or too_many(evidence, each)
                if why:
                    return not_shown(why, sum(evidence.withheld))
    return _learnt(bench, one, kind)


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


def _learnt(bench: Bench, one: Audited, kind: str) -> Link:
    """Test whether the planted sentence, or beacons, were learnt.

    Whether the values of single users were trained on is taken from their account.
    """
    run = bench.run
    of = asked_words.drawn(run, kind, int(one.parameters.get("words", 0)))
    if not of.ways and kind not in sentences(run):
        return not_shown(
            "No drawn sentence stands before these values, so only beacons can show that they "
            "reached the model, and none were planted."
        )
    if not of.ways:
        return not_shown(
            "Nothing shows that planted text reached the model; give as_is:words=500 to ask for "
            "the planted sentences, or plant beacons."
        )
    what = [kind, of.words, of.tries, *(b.value for some in of.tiers.values() for b in some)]
    look = partial(_words, bench, one, of)
    ways = Ways.stored(_stored(bench, one, f"words of {kind}", what, look))
    if ways.sentence is None and not ways.tiers:
        return not_shown(
            "Too few sentences have its first word for a test, and no attack asks for beacons."
        )
    there = next((each for each in run.coverage if each.kind == kind), None)
    manifest = run.plan.source.record
    assert manifest is not None  # a served model was planted elsewhere
    return link(kind, ways, account(manifest, kind, run.plan.source.stated, there))


def rehearse(run: Run, session: Predictor) -> None:
    """Ask what is asked of every endpoint, but for filters."""
    tokenizer = session.tokenizer
    words = max((int(chosen.parameters.get("words", 0)) for chosen in run.tasks), default=0)
    asked = serving.prompts(tokenizer, frame_of(run))
    session.generate(asked, serving.LENGTH)
    first = asked[: len(serving.OPENINGS)]
    session.score([p[:1] for p in first], [[*p[1:], *[0] * serving.LENGTH] for p in first])
    for kind in dict.fromkeys(secret.kind for secret in run.planted.secrets):
        asked_words.rehearse(session, asked_words.drawn(run, kind, words))
    again.rehearse(run, session)


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


def _words(bench: Bench, one: Audited, of: Drawn, session: Predictor) -> Looked:
    assert isinstance(session, Served)
    return asked_words.look(session, _base(bench, one), of)
