"""A served model as a Predictor: what it answers is what the same model answers here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from audit.core.errors import UsageError
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Predictor, record_tokens
from audit.core.release import NoJournal
from audit.models.endpoint.capabilities import PROBES
from audit.models.endpoint.http import Endpoint, Pace
from audit.models.endpoint.session import EndpointRelease, EndpointSession, TokenizerOnly
from defenses.as_is import AsIs
from tests.refusals import refusals

TEXTS = ("My code is 40917.", "My name is Ann Lee, and I need help.", "Hello")
DIALECTS = ("vllm", "llama.cpp", "openai", "bare")


@dataclass(frozen=True)
class Remembering(NoJournal):
    """Remembers answers, in memory."""

    kept: dict[str, Any] = field(default_factory=dict)

    def recall(self, question: str) -> Any:
        return self.kept.get(question)

    def keep(self, question: str, answer: Any) -> None:
        assert question not in self.kept
        self.kept[question] = answer


@pytest.fixture
def opened(server, local) -> Callable[..., EndpointSession]:
    def open_(journal=None, seed=0, url=None, model=None, context=200) -> EndpointSession:
        endpoint = Endpoint(
            url or server.url, retries=1, timeout=20, pace=Pace(sleep=lambda s: None)
        )
        release = EndpointRelease(endpoint, model, AsIs().promise, local.tokenizer, context)
        session = release.open(np.random.default_rng(seed), journal or NoJournal())
        assert isinstance(session, EndpointSession)
        return session

    return open_


def pieces(tokenizer):
    """Whole records, and the last tokens of each."""
    tokens = [record_tokens(tokenizer, text) for text in TEXTS]
    heads = [t[:1] for t in tokens] + [t[:-3] for t in tokens]
    return heads, [t[1:] for t in tokens] + [t[-3:] for t in tokens]


@pytest.mark.parametrize("switches", [{}, {"least": 1}, {"dialect": "openai"}])
def test_scores_are_the_models_own(server, opened, local, switches):
    server.switch(**switches)
    session = opened()
    assert session.access == session.readable == Access.SCORE
    assert session.remaining is None
    heads, tails = pieces(local.tokenizer)
    here = OpenSession(local, np.random.default_rng(0)).score(heads, tails)
    there = session.score(heads, tails)
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.tokens == ours.tokens
        assert theirs.answered == len(ours.tokens)
        assert theirs.moments is None
        np.testing.assert_allclose(theirs.log_probs, ours.log_probs, atol=1e-4)
        np.testing.assert_array_equal(theirs.top1, ours.top1)


def test_a_served_session_is_a_predictor(opened):
    session: Predictor = opened()
    with pytest.raises(UsageError, match="no distribution"):
        session.distribution([[0]], [1])


def test_without_scored_prompts_only_generations_remain(server, opened):
    for switches in ({"echo": False}, {"dialect": "llama.cpp"}, {"dialect": "bare"}):
        server.switch(**switches)
        session = opened()
        assert session.access == session.readable == Access.GENERATE
        assert session.score([[0]], [[1]]) == []
        assert len(session.generate([[0]], 3)[0].tokens) == 3


@pytest.mark.parametrize("dialect", ["vllm", "bare"])
def test_texts_have_own_seeds_and_sessions_repeat(server, opened, dialect):
    server.switch(dialect=dialect)
    prompts = [[0]] * 4
    one = [a.tokens for a in opened(seed=1).generate(prompts, 8)]
    assert len(set(one)) == 4
    assert [a.tokens for a in opened(seed=1).generate(prompts, 8)] == one
    assert [a.tokens for a in opened(seed=2).generate(prompts, 8)] != one


@pytest.mark.parametrize("dialect", ["transformers", "llama-cpp-python"])
@pytest.mark.parametrize("starts", [True, False])
def test_server_without_ids_is_asked_by_text(server, opened, local, dialect, starts):
    """It samples as the model does; a prompt that text cannot carry is not sent."""
    server.switch(dialect=dialect, starts=starts)
    session, encode = opened(seed=5), local.tokenizer.encode
    assert len(server.seen["asked"]) <= PROBES  # nothing that is refused is tried again
    assert session.readable == Access.GENERATE
    assert (session.capabilities.by_text, session.capabilities.starts) == (True, starts)
    sent = [0, *encode("My code is 1")]
    other = [0, *encode("My co"), *encode("de is 1")]
    assert local.tokenizer.decode(other) == local.tokenizer.decode(sent) and other != sent
    told = session.generate([sent, other, [0], [5, *sent]], 3)
    assert [answer.answered for answer in told] == [3, 0, 3 * starts, 0]
    assert len(session.ask([sent, other], 3)) == 1
    drawn = {a.tokens for a in session.generate([sent] * 20, 4)}
    assert len(drawn) > 10  # not the likeliest tokens, which are 20 times the same


def test_text_is_read_by_the_tokenizer_given(server, opened, local):
    server.switch(dialect="transformers")
    session = opened()
    server.switch(dialect="transformers", merge=2)
    with pytest.raises(UsageError, match="prompt tokens where"):
        session.generate([[0, *local.tokenizer.encode("My name is")]], 3)
    with pytest.raises(UsageError, match="wrong tokenizer"):
        opened()


def test_refusal_in_plain_words_is_quoted(server, opened, local):
    server.switch(dialect="transformers")
    with pytest.raises(UsageError, match=r"HTTP 400 \(This model's maximum"):
        opened().generate([[0, *local.tokenizer.encode("My name is " * 100)]], 3)


def test_generations_come_with_the_tokens_that_were_drawn(server, opened, local):
    """Token for token: text that is read again may be other tokens, ids are not."""
    prompt = [0, *local.tokenizer.encode("My name is")]
    for dialect in ("vllm", "llama.cpp"):
        server.switch(dialect=dialect)
        (answer,) = opened(seed=3).generate([prompt], 6)
        (check,) = OpenSession(local, np.random.default_rng(0)).score([prompt], [answer.tokens])
        assert answer.answered == 6
        np.testing.assert_allclose(answer.log_probs, check.log_probs, atol=1e-4)
        np.testing.assert_array_equal(answer.top1, check.top1)


def test_no_server_is_left_to_cut_its_distribution(server, opened):
    opened().generate([[0]], 1)
    asked = server.seen["last"]
    assert (asked["temperature"], asked["top_p"], asked["top_k"], asked["min_p"]) == (1, 1, -1, 0)
    assert asked["repetition_penalty"] == asked["repeat_penalty"] == 1


def test_what_follows_a_stop_is_stop(server, opened, local):
    stop, first = local.tokenizer.stop, local.tokenizer.encode(" a")[0]
    likely = int(local.cursor([[0, first]]).log_pmf()[0].argmax())
    for dialect in DIALECTS:
        server.switch(dialect=dialect, stop_at=likely)  # the server's own end of text
        answers = opened().generate([[0, first]] * 6, 5)
        assert all(len(a.tokens) == a.answered == 5 for a in answers)
        ended = [a.tokens for a in answers if stop in a.tokens]
        assert ended
        assert all(set(t[t.index(stop) :]) == {stop} for t in ended)


def test_a_text_cut_short_is_refused(server, opened):
    for dialect in DIALECTS[:3]:
        server.switch(dialect=dialect)
        session = opened()
        server.switch(dialect=dialect, most=3)
        with pytest.raises(UsageError, match="gave 3 of 5 tokens"):
            session.generate([[0]], 5)


def test_what_is_known_is_not_asked_again(server, opened, local):
    journal = Remembering()
    heads, tails = pieces(local.tokenizer)

    def everything():
        session = opened(journal)
        said = [a.tokens for a in session.generate([[0]] * 3, 4)]
        return said, [a.log_probs.tolist() for a in session.score(heads, tails)]

    first = everything()
    asked = server.seen["asked"]
    assert len(asked) == len(set(asked))
    assert everything() == first
    assert server.seen["asked"] == asked


def test_a_folder_belongs_to_one_endpoint_and_model(server, opened):
    journal = Remembering()
    opened(journal)
    server.switch(name="other")
    with pytest.raises(UsageError, match="choose another --output"):
        opened(journal)


def test_an_unreadable_answer_is_not_kept(server, opened):
    journal = Remembering()
    session = opened(journal)
    before = dict(journal.kept)
    for garbage in ('{"choices": []}', '{"choices": [{"logprobs": {"tokens": ["a"]}}, 2]}', "[]"):
        server.switch(garbage=garbage)
        with pytest.raises(UsageError):
            session.score([[0]], [[1]])
    assert journal.kept == before


def test_the_only_model_needs_no_name(server, opened):
    assert opened().client.model == "tiny"
    server.switch(others=("big",))
    with pytest.raises(UsageError, match="serves tiny, big; say which with as_is:served=NAME"):
        opened()
    assert opened(model="tiny").client.model == "tiny"
    with pytest.raises(UsageError, match="serves tiny, big, and no 'small'"):
        opened(model="small")


def test_a_server_that_lists_nothing_needs_one(server, opened):
    server.switch(models=False)
    assert opened(model="tiny").client.model == "tiny"
    with pytest.raises(UsageError, match="HTTP 404"):
        opened()


def test_a_longer_context_than_served_is_refused(opened):
    with pytest.raises(UsageError, match="tiny reads 256 tokens; give as_is:context=256"):
        opened(context=255)  # two more are needed
    longest = opened(context=254)
    (answer,) = longest.score([[0]], [[1] * 254])
    assert len(answer.log_probs) == 254


# the tokenizer


def test_a_wrong_tokenizer_is_refused(server, opened, local):
    """merge: fewer tokens in a text; shift: other text for an id; more: beyond one start token."""
    wrong = (
        *({"merge": 2}, {"merge": 2, "echo": False}, {"more": 2}, {"more": -1}),
        *({"shift": 3}, {"shift": 3, "dialect": "llama.cpp"}),
        {"merge": 2, "dialect": "transformers"},
    )

    def switched(switches):
        server.switch(**switches)
        return opened()

    refusals(switched, [(switches, ("wrong tokenizer", "as_is:base=DIR")) for switches in wrong])
    assert switched({"more": 1}).access == Access.SCORE  # a start token that the server sets


def test_the_defense_says_how_its_url_is_asked(local):
    made = AsIs(model="http://h/v1/models/big", served="big", rate=3.0, retries=2, timeout=7.0)
    release = made.release(TokenizerOnly(local.tokenizer, 10), [])
    assert isinstance(release, EndpointRelease)
    endpoint = release.endpoint
    assert (endpoint.url, endpoint.retries, endpoint.timeout) == ("http://h/v1", 2, 7.0)
    assert (endpoint.pace.rate, release.model, release.max_length) == (3.0, "big", 10)
    assert release.unprotected() is None and release.neighbour(0) is None


def test_only_a_tokenizer_is_here(local):
    unseen = TokenizerOnly(local.tokenizer, 10)
    with pytest.raises(UsageError, match="only the tokenizer"):
        unseen.cursor([[0]])
    with pytest.raises(UsageError, match="only the tokenizer"):
        unseen.log_pmfs([[0, 1]], [1])
