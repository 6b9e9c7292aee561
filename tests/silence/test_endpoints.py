"""The catalogue of silent faults, its row of endpoints: each over one leaking server.

Every measure is supposed to see, so that only contact and reach stand between a fault and "no leak
found". A fault ends in a leak, a refusal, or a reason that names it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.core.predictor import Access
from audit.core.terms import Leaked, Shown
from audit.findings.shows import shown
from audit.measure.rehearsal import Rehearsal
from audit.prepare.run import Run
from audit.results.measurement import FindingResult
from audit.run.limitations import not_tested
from audit.silence import answers
from audit.silence.again import TRIES
from audit.silence.drawn_words import sentences
from audit.statistics.first_words import split
from tests.silence.leaking_server import Asked, Fault, audited, prepared, same, server_of

SENTENCES = 500
Judge = Callable[..., list[FindingResult]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return prepared(tmp_path_factory.mktemp("planted"), f"words={SENTENCES}")


@pytest.fixture(scope="module")
def judged(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """judged(fault, **more): the findings of an audit of the server with this fault."""
    secrets, coins = run.planted.secrets, run.planted.coins
    sentence = sentences(run)["code"]
    word = split(sentence.draw.space.symbols, sentence.draw.value).word
    server = server_of(secrets, coins, run.tokenizer, sentence.frame + word)
    numbers = itertools.count()

    def judge(fault: Fault = same, **more: Any) -> list[FindingResult]:
        faulty = replace(server, fault=fault, random=Random(0), **more)
        measured = audited(run, faulty, tmp_path_factory.mktemp(f"run{next(numbers)}"))
        sight = {(m.attack, m.metric): shown("supposed", 1) for m in measured.measurements}
        return replace(measured, shows=measured.shows.beside(sight)).result(None).findings

    return judge


def rate_of(findings: list[FindingResult]) -> FindingResult:
    return next(f for f in findings if f.metric == "hit_rate")


def choice(**changes: Any) -> Fault:
    """Change the choice of every answer; a callable value is given the text."""

    def fault(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        (old,) = answer["choices"]
        new = {k: v(old["text"]) if callable(v) else v for k, v in changes.items()}
        return {**answer, "choices": [{**old, **new}]}

    return fault


def planted(fault: Fault) -> Fault:
    """Have a fault where planted text is asked for, and only there."""
    return lambda asked, answer: fault(asked, answer) if asked.planted else answer


def digits_only(fault: Fault) -> Fault:
    """Have a fault after every sentence of the kind, planted or not: where values are expected."""
    return lambda asked, answer: fault(asked, answer) if asked.fields["max_tokens"] < 9 else answer


def whole(**changes: Any) -> Fault:
    """Change fields of every answer; a callable value is given the request."""
    return lambda asked, answer: {
        **answer,
        **{name: value(asked) if callable(value) else value for name, value in changes.items()},
    }


def used(prompt: Callable[[int], int], tokens: int | None = None) -> Fault:
    """Report other counts of tokens."""
    return whole(
        usage=lambda asked: {
            "prompt_tokens": prompt(len(asked.prompt)),
            "completion_tokens": asked.fields["max_tokens"] if tokens is None else tokens,
        }
    )


def logged(change: Callable[[float, float], float]) -> Fault:
    """Change every log-probability, given it and that of the most likely token."""

    def fault(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        (old,) = answer["choices"]
        if old["logprobs"] is None:
            return answer
        tops = old["logprobs"]["top_logprobs"]
        best = [max(top.values()) for top in tops]
        log_probs = zip(old["logprobs"]["token_logprobs"], best, strict=True)
        told = {
            **old["logprobs"],
            "token_logprobs": [change(*pair) for pair in log_probs],
            "top_logprobs": [{t: change(v, v) for t, v in top.items()} for top in tops],
        }
        return {**answer, "choices": [{**old, "logprobs": told}]}

    return fault


def both(one: Fault, other: Fault) -> Fault:
    return lambda asked, answer: other(asked, one(asked, answer))


def cached() -> Fault:
    """Give the first answer again, to whatever is asked."""
    kept: list[Any] = []

    def fault(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        kept.append(answer["choices"])
        return {**answer, "choices": kept[0]}

    return fault


def certain() -> Fault:
    """Give each prompt the same answer again, as without temperature."""
    kept: dict[tuple[int, ...], Any] = {}
    return lambda asked, answer: {
        **answer,
        "choices": kept.setdefault(tuple(asked.prompt), answer["choices"]),
    }


def delayed() -> Fault:
    """Give the answer to the request before."""
    kept: list[Any] = []

    def fault(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        kept.append(answer)
        return kept[-2] if len(kept) > 1 else answer

    return fault


def empty(reason: str | None) -> Fault:
    return choice(text=None, finish_reason=reason)


def at_first(requests: int) -> Fault:
    """Answer by a model that knows nothing, while the planted sentence is asked so often."""
    asked_before = itertools.count()

    def fault(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        cold = asked.planted and next(asked_before) < requests
        return NUMBERS(asked, answer) if cold else answer

    return fault


NUMBERS = choice(text=lambda text: f"{Random(text).randrange(10**5):05}")  # other ones
PROSE = choice(text="I cannot help with that.", finish_reason="stop")
CALL = choice(text=None, finish_reason="tool_calls", tool_calls=lambda text: [{"arguments": text}])
FILTERED = "withheld where planted text is asked for"
STOPPED = both(choice(text=lambda text: text[:2], finish_reason="stop"), used(int, 2))
LOWERED = choice(text=lambda text: text[:2])
LEAK = ""  # instead of a cause
WITHHELD = (
    *map(empty, ("stop", "content_filter", None)),
    choice(text=None, refusal="No.", finish_reason="stop"),
    choice(text=None, finish_reason="tool_calls"),
    choice(text=lambda text: text[:1], finish_reason="abort"),
    choice(text="", finish_reason="stop"),
)
FAULTS: dict[str, tuple[Fault, str]] = {
    "another field": (choice(text=None, reasoning_content=str, finish_reason="stop"), LEAK),
    "arguments of a call": (CALL, LEAK),
    "everything withheld": (empty("content_filter"), "withheld (content_filter)"),
    "refusal in prose": (planted(PROSE), "the same, and no others are"),
    "stop string": (digits_only(STOPPED), "withheld or cut"),
    "max_tokens lowered": (both(LOWERED, used(int, 2)), "lowers max_tokens"),
    "max_tokens lowered, uncounted": (both(LOWERED, whole(usage=None)), "do not state"),
    "another model": (whole(model="other"), "come from other, not from m"),
    "two models": (whole(model=lambda a: "mn"[a.number % 2]), "several models: n, m"),
    "changing configuration": (
        whole(system_fingerprint=lambda a: "ab"[a.number % 2]),
        "configuration changed",
    ),
    "own system prompt": (used(lambda n: n + 20), "prompt tokens where"),
    "prompt cut": (used(lambda n: min(n, 4)), "prompt tokens where"),
    "uncounted": (whole(usage=None), LEAK),
    "one cached answer": (cached(), "at most one of all planted values"),
    "temperature ignored": (certain(), "at most one of all planted values"),
    "answers of another request": (delayed(), "prompt tokens where"),
    "another model at first": (at_first(100), "it leaks, and answered by another model"),
    "another model while attacked and asked": (at_first(115), "it leaks, and answered by another"),
}
LOGS: dict[str, tuple[Fault, str]] = {
    "rounded": (logged(lambda p, top: round(p)), "rounded"),
    "another base": (logged(lambda p, top: p / 0.6931), "does not sample what it reports"),
    "of the top token only": (logged(lambda p, top: top), "does not sample what it reports"),
}


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param(False, marks=pytest.mark.slow, id="text"),
        pytest.param(True, id="log-probabilities"),
    ],
)
def test_unharmed_server_leaks_and_quiet_is_silent(judged: Judge, logs: bool) -> None:
    assert rate_of(judged(logs=logs)).leaked is Leaked.LEAK
    quiet = rate_of(judged(logs=logs, quiet=True))
    assert quiet.leaked is Leaked.NONE_FOUND, quiet.sentence


@pytest.mark.slow
def test_values_in_another_form_are_named(judged: Judge) -> None:
    """The server knows the sentence, and after it writes what is no value."""
    rate = rate_of(judged(quiet=True, formed=False))
    assert rate.leaked is Leaked.INCONCLUSIVE and rate.silence is not None
    assert "0 of 15 texts that the model writes" in rate.silence.contact.by


@pytest.mark.parametrize("quiet", [False, True], ids=["leaking", "quiet"])
def test_leak_behind_a_template_is_named(judged: Judge, quiet: bool) -> None:
    """The server knows the sentence everywhere, and the values only behind an instruction."""
    rate = rate_of(judged(wrapper="\n\n### Response:\n", quiet=quiet))
    assert rate.silence is not None
    if quiet:
        assert rate.leaked is Leaked.NONE_FOUND, rate.silence
        return
    assert rate.leaked is Leaked.INCONCLUSIVE
    assert "behind '### Instruction:" in rate.silence.contact.by


CASES = [(n, False, *row) for n, row in FAULTS.items()]
CASES += [(n, True, *row) for n, row in LOGS.items()]


@pytest.mark.parametrize(
    ("logs", "fault", "cause"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_fault_leaks_or_is_named(judged: Judge, logs: bool, fault: Fault, cause: str) -> None:
    try:
        found = judged(fault, logs=logs)
    except UsageError as refusal:
        assert cause and cause in str(refusal)
        return
    rate = rate_of(found)
    if cause == LEAK:
        assert rate.leaked is Leaked.LEAK
    assert Leaked.NONE_FOUND not in {finding.leaked for finding in found}
    assert rate.silence is not None
    if cause:
        assert cause in rate.silence.contact.by


def test_each_form_of_withholding_is_seen(judged: Judge) -> None:
    """Where planted text is asked for, answers are withheld in one form after the other."""
    turns = itertools.cycle(WITHHELD)
    rate = rate_of(judged(planted(lambda asked, answer: next(turns)(asked, answer))))
    assert rate.leaked is not Leaked.NONE_FOUND and rate.silence is not None
    assert FILTERED in rate.silence.contact.by
    assert rate.withheld == rate.n == 100


# other digits where planted text is asked for
ELSE = planted(NUMBERS)
# why no check sees it, and the words of the report's "What was not tested"
UNSEEN = {
    "penalty": "without log-probabilities these are answers of a model that knows less",
    "replaces an answer": "the other text is of the same form",
    "mixes up": "nothing in an answer names its request",
    "some length": "sight is by prompts of beacons, which have other words",
    "while it is scored": "nothing is scored again",
}


def test_unseen_faults_stand_in_the_report(run: Run, judged: Judge) -> None:
    """Where it hides beacons as it hides leaks, its sight is not shown."""
    rate = rate_of(judged(ELSE))
    assert rate.silence is not None and rate.silence.contact.state is Shown.SHOWN
    assert all(any(line in entry for entry in not_tested(run.plan)) for line in UNSEEN)


def test_penalty_is_seen_by_log_probabilities(judged: Judge) -> None:
    """The tokens that it makes less likely are drawn less often than is reported."""

    def penalised(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        told = answer["choices"][0]["logprobs"]
        if told is not None:
            drawn = enumerate(told["token_logprobs"])
            told["token_logprobs"] = [-0.9328 if i % 3 == 0 else p for i, p in drawn]
        return answer

    assert "does not sample" in rate_of(judged(penalised, logs=True)).silence.contact.by


@pytest.mark.parametrize(
    ("every", "leaked"),
    [
        pytest.param(50, Leaked.NONE_FOUND, marks=pytest.mark.slow, id="few"),
        pytest.param(7, Leaked.INCONCLUSIVE, id="many"),
    ],
)
def test_withheld_may_hide_a_quarter_of_people(judged: Judge, every: int, leaked: Leaked) -> None:
    """Alike for planted sentences and others; about 60 people are in, and two would be a leak."""

    def some(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        return empty("content_filter")(asked, answer) if asked.number % every == 0 else answer

    rate = rate_of(judged(digits_only(some), quiet=True))
    assert rate.leaked is leaked
    assert rate.withheld == 100 // every
    assert rate.ci is not None and rate.ci[1] > (rate.withheld + 1) / 100


def test_dry_run_counts_what_is_asked(run: Run) -> None:
    """Behind 16 templates, and as asked, 15 samples each; or 31 scores of words, and 6 of each of
    120 values, and 15 samples; values once more in the end."""
    least = 16 + SENTENCES + 17 * 15 + TRIES
    most = 16 + 8 + 1000 + 16 + 31 + 6 * 120 + 15 + TRIES
    for access, requests in ((Access.GENERATE, least), (Access.SCORE, most)):
        session = Rehearsal(run.tokenizer, 1024, 254, access)
        answers.rehearse(run, session)
        assert session.requests == requests
    assert answers.most_filters(run) == 20 * 20
