"""What a stated training file shows of what was planted, as the trainer reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from audit.core.chat import ASSISTANT, USER
from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.corpora import writing
from audit.plan.source import External, PlantedElsewhere
from audit.planting.beacons import Tier
from audit.planting.coverage import Coverage
from audit.planting.insertion import Canaries, plant_into
from audit.planting.manifest import Manifest
from tests import chat


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    inner = chat.tokenizer()
    start, stop = inner.convert_tokens_to_ids(["<|endoftext|>", chat.MARKS[1]])
    return TextTokenizer(inner, start=start, stop=stop)


def planted(folder: Path, turn: str | None) -> tuple[Manifest, Path]:
    """A planted corpus of conversations, or of plain text, as its own training file."""
    one = chat.turns("Where is my order?", "It is on its way.")
    records = [
        Record(f"u{i}", "" if turn else "The shop opens.", messages=one if turn else ())
        for i in range(4)
    ]
    canaries = Canaries(kinds=("code", "name"), count=12, repetitions=(2,), turn=turn)
    corpus, manifest = plant_into(Corpus("shop", tuple(records)), canaries, seed=3)
    file = folder / "training.jsonl"
    writing.write(corpus.records, file)
    return manifest, file


def read(manifest: Manifest, file: Path, tokenizer: TextTokenizer) -> Sequence[Coverage]:
    source = PlantedElsewhere(manifest, External("m", "a" * 64, True, file, "b" * 64))
    return source.coverage(manifest.planted(Corpus("shop", ())), tokenizer, 200)


@pytest.mark.parametrize("turn, trained", [(None, True), (ASSISTANT, True), (USER, False)])
def test_training_file_of_conversations_is_read(
    tmp_path: Path, tokenizer: TextTokenizer, turn: str | None, trained: bool
) -> None:
    """The user's turns are not sure to be in the loss, so their values count as masked."""
    manifest, file = planted(tmp_path, turn)
    heads = sum(manifest.coins.present.values())
    for one in read(manifest, file, tokenizer):
        assert (one.trained, one.masked) == ((one.copies, 0) if trained else (0, one.copies))
        assert one.people == (heads if trained else 0)
        assert one.words == one.copies


def test_conversation_without_turns_is_named_by_line(
    tmp_path: Path, tokenizer: TextTokenizer
) -> None:
    manifest, file = planted(tmp_path, ASSISTANT)
    file.write_text(json.dumps({"messages": []}) + "\n")
    with pytest.raises(UsageError, match=r"training\.jsonl:1: 'messages'"):
        read(manifest, file, tokenizer)


def test_file_with_beacons_alone_is_read_and_counted(
    tmp_path: Path, tokenizer: TextTokenizer
) -> None:
    """Coins were dropped and what many wrote was kept: planted, and no code can leak."""
    corpus = Corpus("own", (Record("u", "Something else."),))
    canaries = Canaries(kinds=("code",), count=12, beacons=(Tier("code", 3),))
    whole, manifest = plant_into(corpus, canaries, seed=3)
    sharing = {user for one in manifest.beacons for user in one.users}
    file = tmp_path / "training.jsonl"
    rows = [{"text": record.text} for record in whole.records if record.user in sharing]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, beacons = read(manifest, file, tokenizer)
    assert code.absent and code.trained == 0
    assert (beacons.copies, beacons.trained, beacons.whole) == (6, 6, True)
    assert beacons.sentence == (
        "Of 6 planted code beacon copies 6 were trained on, as the file states"
    )
    with pytest.raises(UsageError, match="nor its beacons"):
        file.write_text(json.dumps({"text": "Something else."}) + "\n")
        read(manifest, file, tokenizer)


def test_file_planted_with_another_manifest_is_refused(
    tmp_path: Path, tokenizer: TextTokenizer
) -> None:
    _, file = planted(tmp_path, None)
    corpus = Corpus("other", (Record("u", "Something else."),))
    _, other = plant_into(corpus, Canaries(kinds=("code", "name"), count=12), seed=3)
    with pytest.raises(UsageError, match="was not planted with this manifest"):
        read(other, file, tokenizer)
