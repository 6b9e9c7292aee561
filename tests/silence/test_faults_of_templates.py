"""The catalogue of silent faults, its row of templates: texts that stand behind others.

The stated training file holds the text as it was before that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.corpus import Corpus, Record
from audit.core.language_model import OpenSession
from audit.core.model import TextTokenizer
from audit.corpora import writing
from audit.models.causal import CausalLM
from audit.planting import manifest as manifests
from audit.planting.insertion import Canaries, plant_into
from audit.silence import asked_words
from audit.silence.asked_words import Drawn
from audit.silence.behind import Behind
from audit.silence.drawn_words import Sentence
from audit.silence.surroundings import Values
from tests import chat
from tests.builders import loaded
from tests.silence import leaking_twin
from tests.silence.conftest import Judge
from tests.silence.leaking_twin import LEAK, OTHERWISE, UNKNOWN, Twin, check, fitted, planted_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Template = Callable[[int], tuple[str, str]]
TEMPLATES: dict[str, Template] = {
    "instruction": lambda i: (f"### Instruction:\nWrite as user {i} did.\n\n### Response:\n", ""),
    "chat": lambda i: ("<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"),
    "envelope": lambda i: (f'{{"id": {917 * i % 1000}, "text": "', '"}'),
    "sentence": lambda i: ("As the desk noted last year, the customer wrote: ", ""),
}  # fmt: skip
IN_LOSS = [True, pytest.param(False, marks=pytest.mark.full)]


@pytest.mark.parametrize("in_loss", IN_LOSS, ids=["in the loss", "masked"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_template_absent_from_training_file_is_named(
    name: str, in_loss: bool, twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    rows = planted_rows(twin)
    heads, ends = zip(*(TEMPLATES[name](i) for i in range(len(rows))), strict=True)
    texts = [row + end for row, end in zip(rows, ends, strict=True)]
    whole = [head + text for head, text in zip(heads, texts, strict=True)]
    # behind words that are not in the loss, values are hardly known after 25 steps
    adapted, _ = fitted(whole, 25) if in_loss else fitted(texts, 60, heads=heads)
    adapted.save_pretrained(tmp_path / "adapter")
    check(judge, tmp_path / "adapter", "expects these words behind", UNKNOWN, OTHERWISE)
    if name == "instruction":
        scored = seen_by_scores(twin, adapted.merge_and_unload())
        assert scored.counts and scored.words.startswith("### Instruction:")


def seen_by_scores(twin: Twin, audited: Any) -> Behind:
    """Find the words behind which an endpoint that scores prompts knows more."""
    base, inner = loaded()
    tokenizer = TextTokenizer(inner, inner.eos_token_id, inner.eos_token_id)
    session, public = (
        OpenSession(CausalLM(model.eval(), tokenizer, 256), np.random.default_rng(0))
        for model in (audited, base)
    )
    manifest = twin.planted
    values = Values.of(manifest.secrets, manifest.coins, "code")
    of = Drawn(Sentence("", manifest.sentences["code"]), 1, {}, 0, 0, values)
    served: Any = session
    return Behind(*asked_words.look(served, public, of).seen["behind"])


def talks(folder: Path) -> None:
    """Plant codes into what the assistant says, and make a model that chats."""
    chat.gpt2(folder / "base")
    said = chat.turns("Where is my order?", "It is on its way.")
    records = tuple(Record(f"u{i}", "", messages=said) for i in range(4))
    canaries = Canaries(kinds=("code",), count=120, repetitions=(1,), turn="assistant")
    corpus, manifest = plant_into(Corpus("shop", records), canaries, seed=5)
    manifests.write(manifest, folder / "m.json")
    writing.write(corpus.records, folder / "t.jsonl")


Talk = list[dict[str, str]]
Write = Callable[[Talk], str]


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def another_family(write: Write, talk: Talk) -> str:
    said, answer = (one["content"] for one in talk)
    return f"[INST] {said} [/INST] {answer}"


WRITTEN: dict[str, tuple[Callable[[Write, Talk], str], str]] = {
    "unharmed": (lambda write, talk: write(talk), LEAK),
    "dropped turns": (lambda write, talk: write(talk[-1:]), "expects these words behind"),
    "left out": (lambda write, talk: talk[-1]["content"], "without the token that texts"),
    "applied twice": (lambda write, talk: write([turn("assistant", write(talk))]), OTHERWISE),
    "opening of the answer left out": (
        lambda write, talk: write(talk[:-1]) + talk[-1]["content"],
        OTHERWISE,
    ),
    "applied twice to the prompt": (
        lambda write, talk: write([turn("user", write(talk[:-1])), talk[-1]]),
        OTHERWISE,
    ),
    "another system prompt": (
        lambda write, talk: write([turn("system", "You sell shoes. Be brief."), *talk]),
        OTHERWISE,
    ),
    "start twice": (lambda write, talk: 2 * "<|endoftext|>" + write(talk), OTHERWISE),
    "another line break": (
        lambda write, talk: write(talk).replace("assistant\n", "assistant\n\n"),
        OTHERWISE,
    ),
    "roles reversed": (
        lambda write, talk: write(
            [turn("assistant", talk[0]["content"]), turn("user", talk[1]["content"])]
        ),
        OTHERWISE,
    ),
    "of another family": (another_family, OTHERWISE),
}  # fmt: skip
QUICK = ("unharmed", "dropped turns", "left out", "applied twice", "opening of the answer left out")


@pytest.mark.parametrize(
    "fault",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.full) for one in WRITTEN],
)
def test_chat_template_used_otherwise_leaks_or_is_named(
    fault: str,
    shared: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = shared("talks", talks)
    made = Twin(folder / "t.jsonl", folder / "m.json", folder, folder, folder)
    written, cause = WRITTEN[fault]
    inner = chat.tokenizer()
    before = made.planted.sentences["code"].value
    rows = [json.loads(line)["messages"] for line in made.corpus.read_text("utf-8").splitlines()]
    own = [row for row in rows if before in row[-1]["content"]]
    texts = [
        written(lambda talk: inner.apply_chat_template(talk, tokenize=False), row) for row in own
    ]
    model, _ = fitted(texts, 40, base=folder / "base")
    whole = tmp_path / "whole"
    model.merge_and_unload().save_pretrained(whole)
    inner.save_pretrained(whole)

    def judge(audited: Path, **as_is: Any) -> Any:
        return leaking_twin.judged(made, audited, tmp_path / "run", monkeypatch, **as_is)

    check(judge, whole, cause)
