"""A model that is served for conversations alone: what it says is what the same model says here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.chat import conversation
from audit.core.errors import UsageError
from audit.core.predictor import Access
from audit.core.release import NoJournal
from audit.models.chat_template import ChatTemplate
from audit.models.endpoint.chat import ChatSession
from audit.models.loading import describe, load_tokenizer
from defenses.as_is import AsIs
from tests import chat
from tests.models.endpoint.conftest import Server, serving

WORDS = "My old code is #"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat.gpt2(tmp_path_factory.mktemp("chats"))


@pytest.fixture(scope="module")
def chats(folder: Path) -> Iterator[Server]:
    with serving(folder) as server:
        yield server


@pytest.fixture
def opened(chats: Server, folder: Path) -> Callable[..., ChatSession]:
    """opened(**switches): a session with the server so switched, as `as_is` opens it."""

    def open_(**switches: Any) -> ChatSession:
        chats.switch(**switches)
        defense = AsIs(api="chat", served="tiny", retries=0, timeout=20.0)
        described = describe(str(folder), Path())
        public: Any = Tokens(load_tokenizer(described))
        release = defense._served(chats.url, public)
        session = release.open(np.random.default_rng(0), NoJournal())
        assert isinstance(session, ChatSession)
        return session

    return open_


class Tokens:
    """All that is here of the served model."""

    max_length = 200

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer


def prompts(session: ChatSession, *texts: str) -> list[list[int]]:
    tokenizer = session.tokenizer
    return [[tokenizer.start, *tokenizer.encode(text)] for text in texts]


def begun(session: ChatSession) -> str:
    return session.template.frame("assistant", False).before + WORDS


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp", "openai"])
def test_a_begun_turn_is_continued(
    opened: Callable[..., ChatSession], folder: Path, dialect: str
) -> None:
    """The log-probability of each token is that of the same model after the same conversation."""
    import torch
    from transformers import AutoModelForCausalLM

    session = opened(dialect=dialect)
    assert session.access == session.readable == Access.GENERATE
    (prompt,) = prompts(session, begun(session))
    (answer,) = session.generate([prompt], 4)
    assert answer.answered == len(answer.tokens) == 4
    until = [t for t in answer.tokens if t != session.tokenizer.stop]
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():  # as its template writes it, the server reads no start token
        logits = model(torch.tensor([[*prompt[1:], *until]])).logits[0].double()
    wanted = logits.log_softmax(-1)[len(prompt) - 2 :]
    read = [float(wanted[i, t]) for i, t in enumerate(until)]
    np.testing.assert_allclose(answer.log_probs[: len(until)], read, atol=1e-4)


def test_other_beginnings_are_not_answered(
    opened: Callable[..., ChatSession], chats: Server
) -> None:
    session = opened()
    asked = len(chats.seen["asked"])
    user = session.template.frame("user", False).before + WORDS
    cut = begun(session)[:40]  # within a mark
    silent = session.generate(prompts(session, "", "<|im_start|>", user, cut, "Hello"), 3)
    assert [answer.answered for answer in silent] == [0] * 5
    assert len(chats.seen["asked"]) == asked


def test_servers_that_do_otherwise_are_refused(opened: Callable[..., ChatSession]) -> None:
    """One closes a turn that has begun, the other counts no tokens."""
    closes = opened(goes_on=False)
    opening = closes.template.frame("assistant", False).before
    (answer,) = closes.generate(prompts(closes, opening), 2)  # nothing has begun
    assert answer.answered == 2
    with pytest.raises(UsageError, match=r"does not go on with a turn that has begun"):
        closes.generate(prompts(closes, begun(closes)), 2)
    bare = opened(dialect="bare")
    with pytest.raises(UsageError, match="counts None prompt tokens"):
        bare.generate(prompts(bare, begun(bare)), 2)


def test_an_endpoint_without_chat_completions_is_refused(server: Server, folder: Path) -> None:
    public: Any = Tokens(load_tokenizer(describe(str(folder), Path())))
    release = AsIs(api="chat", served="tiny", retries=0)._served(server.url, public)
    with pytest.raises(UsageError, match=r"chat/completions: .*404"):
        release.open(np.random.default_rng(0), NoJournal())


@pytest.mark.parametrize("source", [chat.CHATML, chat.DATED, chat.BRACKETED])
def test_turns_are_read_back_from_their_text(source: str) -> None:
    from tests.models.test_chat_template import template

    one = template(source)
    talk = (*chat.turns("Hi.", "Yes?"), *chat.turns("Where?", "There."))
    text = one.text(talk, "here")
    assert one.turns_of(text) == talk
    assert one.turns_of(text[:-3]) == (*talk[:-1], ("assistant", "The"))
    turn = conversation("assistant", "My")
    assert one.turns_of(one.frame("assistant", False).before + "My") == turn
    assert isinstance(one, ChatTemplate)
