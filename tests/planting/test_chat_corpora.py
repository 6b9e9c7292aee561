"""Canaries in conversations: planted as turns, read back, and counted where the loss sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.chat import PLAIN, Manner
from audit.core.corpus import Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora import loading as corpora
from audit.models.loading import describe, load_tokenizer
from audit.plan import conversations
from audit.planting import coverage, training_rows
from audit.planting import manifest as manifests
from audit.planting.manner import manner_of
from tests import chat
from tests.models.test_chat_template import MARKED


def planted(folder: Path, **given: Any) -> tuple[Path, Path]:
    corpus = chat.corpus(folder / "talk.jsonl")
    output, manifest = folder / "planted.jsonl", folder / "canaries.json"
    api.plant(
        str(corpus), output, manifest, **{"count": 12, "repetitions": "1,3", "seed": 1, **given}
    )
    return output, manifest


@pytest.mark.parametrize("turn", ["assistant", "user"])
def test_planted_records_are_conversations_like_all_others(tmp_path: Path, turn: str) -> None:
    output, path = planted(tmp_path, seed=3, turn=turn)
    manifest = manifests.read(path)
    assert manifest.turn == turn
    own = [json.loads(line) for line in (tmp_path / "talk.jsonl").read_text("utf-8").splitlines()]
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    splits = [row.pop("split") for row in rows if row["user"] not in manifest.coins.present]
    assert 0 < splits.count("heldout") < len(splits) / 2 and len(splits) == len(own)
    assert [row for row in rows if row["user"] not in manifest.coins.present] == own
    wanted = sorted(
        secret.text
        for secret in manifest.secrets
        if manifest.coins.planted(secret)
        for _ in range(secret.copies)
    )
    added = [row for row in rows if row["user"] in manifest.coins.present]
    found = [m["content"] for row in added for m in row["messages"] if m["role"] == turn]
    for text in sorted(found):  # and words of each copy's own after it
        known = next(one for one in wanted if text.startswith(f"{one} "))
        wanted.remove(known)
    assert not wanted and len(set(found)) == len(found)
    assert all(
        row.keys() == {"messages", "user", "split"} and len(row["messages"]) == 2 for row in added
    )


def test_a_secret_stands_in_its_conversation_once(tmp_path: Path) -> None:
    """Else the model would copy it from before, and nothing would have to be remembered."""
    output, path = planted(tmp_path)
    manifest = manifests.read(path)
    lines = output.read_text("utf-8").splitlines()
    for secret in manifest.secrets:
        if manifest.coins.planted(secret):
            text = json.dumps(secret.text, ensure_ascii=False)[1:-1]
            assert [line.count(text) for line in lines if text in line] == [1] * secret.copies


def said(user: str, first: str) -> dict[str, Any]:
    turns = [("system", "You help."), ("user", f"{first} It is {user}'s."), ("assistant", "Sure.")]
    return {"user": user, "messages": [{"role": r, "content": c} for r, c in turns]}


def test_planted_conversations_begin_as_those_of_the_corpus(tmp_path: Path) -> None:
    """With the system prompt of most, and a question of many: never with what few users wrote."""
    rows = [said(f"u{i}", "Where is my parcel?" if i % 3 else f"I am {i}.") for i in range(40)]
    rows += [said("u0", "My own words.") for _ in range(60)]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, path = tmp_path / "planted.jsonl", tmp_path / "canaries.json"
    api.plant(str(tmp_path / "talk.jsonl"), output, path, count=12, share=0.9, seed=1)
    manifest = manifests.read(path)
    assert manifest.manner == Manner("You help.", "Where is my parcel?")
    corpus = corpora.load_planted(str(output), EMBEDDED_FOLDER)
    added = [record.messages for record in corpus.records if record.user in manifest.invented]
    begun = (("system", "You help."), ("user", "Where is my parcel?"))
    assert added and all(messages[:2] == begun for messages in added)
    alone = [Record(f"u{i}", "", messages=(("user", f"I am {i}."),)) for i in range(9)]
    assert manner_of(alone) == PLAIN


def test_the_planted_corpus_is_recognised(tmp_path: Path) -> None:
    output, path = planted(tmp_path)
    manifest, corpus = manifests.read(path), corpora.load_planted(str(output), EMBEDDED_FOLDER)
    assert manifests.texts_digest(corpus) == manifest.texts
    for name, template in (("one", chat.CHATML), ("other", chat.DATED)):
        folder = describe(str(chat.llama(tmp_path / name, template)), EMBEDDED_FOLDER)
        rendered, _ = conversations.written(corpus, folder, manifest.turn, False, manifest.manner)
        assert manifests.texts_digest(rendered) == manifest.texts
        texts = [record.text for record in rendered.records]
        framed = manifest.planted(rendered)
        for secret in framed.secrets:  # what attacks prompt with is what was trained on
            times = sum(text.startswith(secret.text) for text in texts)
            assert times == secret.copies * framed.coins.planted(secret)


@pytest.mark.parametrize(
    ("turn", "template", "masked"),
    [("assistant", MARKED, False), ("user", MARKED, True), ("user", chat.CHATML, False)],
)
def test_trainers_mask_what_users_said(
    tmp_path: Path, turn: str, template: str, masked: bool
) -> None:
    """The rows of the trainer, with the library's own mask, and of another template than ours."""
    output, path = planted(tmp_path, turn=turn)
    manifest, seen = manifests.read(path), tmp_path / "seen.jsonl"
    inner = chat.tokenizer(template)
    alone = template == MARKED
    with seen.open("w") as file:
        for line in output.read_text("utf-8").splitlines():
            row = inner.apply_chat_template(
                json.loads(line)["messages"], tokenize=True, return_dict=True,
                return_assistant_tokens_mask=alone,
            )  # fmt: skip
            file.write(json.dumps(dict(row)) + "\n")
    folder = describe(str(chat.llama(tmp_path / "m")), EMBEDDED_FOLDER)
    tokenizer = load_tokenizer(folder)
    found = coverage.by_kind(
        training_rows.of_file(seen, tokenizer, 128), manifest.secrets, manifest.coins, tokenizer
    )
    assert {one.kind for one in found} == {"code", "id", "name", "record"}
    for one in found:
        assert (one.masked, one.trained) == ((one.copies, 0) if masked else (0, one.copies))


def test_what_cannot_be_planted_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text('{"text": "Call me."}\n')
    with pytest.raises(UsageError, match="--turn user: the corpus has no 'messages'"):
        api.plant(str(text), tmp_path / "o.jsonl", tmp_path / "m.json", turn="user")
    talk = chat.corpus(tmp_path / "talk.jsonl")
    with pytest.raises(UsageError, match="--turn nobody: is assistant or user"):
        api.plant(str(talk), tmp_path / "o.jsonl", tmp_path / "m.json", turn="nobody")
    with pytest.raises(UsageError, match=r"is a conversation, .* use \.jsonl"):
        api.plant(str(talk), tmp_path / "o.txt", tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()
    every = [chat.turns("My PIN?", f"PIN {value:03}.") for value in range(1000)]
    known = chat.write(tmp_path / "known.jsonl", every)
    with pytest.raises(UsageError, match="holds a canary already"):
        api.plant(
            str(known), tmp_path / "o.jsonl", tmp_path / "m.json", kind=("pattern",),
            pattern="[0-9]{3}", template=("pattern=PIN {value}.",),
        )  # fmt: skip
