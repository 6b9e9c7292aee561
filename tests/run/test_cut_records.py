"""Sequence length: up to the model's own context, and whatever is cut is counted and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.predictor import record_tokens
from audit.measure.bench import Bench
from audit.measure.session import Session
from audit.models.loading import describe
from audit.models.training.fine_tuning import cut
from audit.plan.resolve import resolve_on
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.run.cut_records import cut_records
from audit.run.dry_run import describe as described
from tests.builders import dialogs
from tests.models.shapes import SHAPES, Folder, tokenizer

SETTINGS: dict[str, Any] = {"defense": ("none",), "attack": ("membership",), "references": False}
SHORT, LONG = (20,) * 6, (600, 601, 900, 30, 601, 601, 600, 900)
NAMES = ("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A model that was made for 1024 tokens."""
    shape = next(one for one in SHAPES if one.name == "GPT-2")
    longer = replace(
        shape, changes={**shape.changes, "n_positions": 1024, "max_position_embeddings": 1024}
    )
    folder = Folder.of(longer, tmp_path_factory.mktemp("model") / "gpt2")
    return describe(str(folder.path), EMBEDDED_FOLDER)


def prepared(model: ModelFolder, corpus: Corpus, place: Path, length: int, **more: Any) -> Run:
    settings = {**SETTINGS, "training": {"max_length": length}, "planting": {"users": 2}, **more}
    return prepare(resolve_on(settings, corpus, model), place)


def letters(count: int) -> str:
    """A text of so many tokens."""
    text = " the" * count
    assert len(tokenizer().encode(text)) == count
    return text


def corpus(*lengths: int) -> Corpus:
    """Private records of so many predictions each, stop included, and two that are held out."""
    private = [Record(f"u{i}", letters(n - 1), split="private") for i, n in enumerate(lengths)]
    heldout = [Record(f"h{i}", letters(900), split="heldout") for i in range(2)]
    return Corpus("long", (*private, *heldout))


def test_a_model_is_read_at_512_tokens_unless_a_plan_asks_for_more(
    model: ModelFolder, tmp_path: Path
) -> None:
    assert (model.max_length, model.context, model.longest) == (512, 1024, 1024)
    usual = resolve_on({**SETTINGS}, corpus(*SHORT), model)
    assert (usual.training.max_length, usual.model.max_length) == (512, 512)
    one = prepared(model, corpus(*SHORT), tmp_path, 1024)
    assert (one.plan.training.max_length, one.plan.model.max_length) == (1024, 1024)
    assert max(map(len, one.heldout.blocks)) > 513  # utility is measured at that length, too
    short = prepared(model, corpus(*SHORT), tmp_path, 100)
    assert short.plan.model.max_length == 512


@pytest.mark.parametrize("length", [1025, 4096])
def test_no_more_than_the_context_in_one_line(model: ModelFolder, length: int) -> None:
    settings = {**SETTINGS, "training": {"max_length": length}}
    with pytest.raises(UsageError, match=f"is {length}, but the model reads 1024") as raised:
        resolve_on(settings, corpus(*SHORT), model)
    assert "\n" not in str(raised.value)


def test_the_length_that_is_read_is_part_of_a_session(model: ModelFolder, tmp_path: Path) -> None:
    """`public` is trained on nothing: only the length differs."""

    def key(one: Run) -> str:
        release: Any = SimpleNamespace(determined=["public"], code=(), release=object())
        folder: Any = None
        return Session(Bench(one, folder), release, "utility", []).key

    same = corpus(*SHORT)
    at = {n: key(prepared(model, same, tmp_path, n)) for n in (100, 512, 1023, 1024)}
    assert at[100] == at[512] and len(set(at.values())) == 3


def test_what_is_cut_is_counted_exactly(model: ModelFolder, tmp_path: Path) -> None:
    """A record of as many predictions as the length is whole; one more is cut."""
    one = prepared(model, corpus(*LONG), tmp_path, 600)
    texts = [r.text for r in one.corpus.of("private")]
    pieces = [len(cut(record_tokens(one.tokenizer, text), 600)) for text in texts]
    (line,) = cut_records(one)
    many = sum(n > 1 for n in pieces)
    assert many >= 2
    assert line.startswith(f"{many} of {len(texts)} records to train on have more ")
    assert "than 600 tokens, up to 900: they are cut into pieces of 600" in line
    assert line.endswith("; training.max_length can be up to 1,024")
    assert cut_records(prepared(model, corpus(*LONG), tmp_path, 900)) == []


@pytest.mark.slow
def test_a_dry_run_says_it_and_the_default_has_nothing_to_say(
    model: ModelFolder, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "planting": {"users": 2}}
    plan = resolve_on(settings, corpus(*LONG), model)
    folder = RunFolder(tmp_path / "run", plan.hash)
    (said,) = cut_records(prepare(plan, folder.stages))
    assert f"  {said}\n" in described(plan, folder, 1)
    embedded = describe("embedded", EMBEDDED_FOLDER)
    default = resolve_on(SETTINGS, dialogs(8), embedded)
    assert cut_records(prepare(default, folder.stages)) == []


def test_what_a_method_ignores_is_named(tmp_path: Path) -> None:
    lstm = describe("lstm", EMBEDDED_FOLDER)
    spoken = [replace(r, text=r.text + " 123") for r in corpus(700, 700, 700, 20, 20).records]
    marked = replace(corpus(20), records=tuple(spoken))
    more = {"defense": ("s_dpsgd:schedule=paper",), "planting": {"users": 2}}
    one = prepared(lstm, marked, tmp_path, 512, **more)
    lines = cut_records(one)
    beyond = [
        n - 512 for r in one.corpus.of("private") if (n := one.tokenizer.predicted(r.text)) > 512
    ]
    assert beyond
    assert lines[1] == (
        f"s_dpsgd:schedule=paper: reads the first piece alone; {sum(beyond)} tokens are ignored"
    )


def named(before: int, place: str) -> Corpus:
    """Records that hold their owner's name after so many tokens."""
    texts = [f"{letters(before)}{place}{name} and more words, and more" for name in NAMES]
    private = [
        Record(f"u{i}", text, name, "private")
        for i, (text, name) in enumerate(zip(texts, NAMES, strict=True))
    ]
    return Corpus("named", (*private, Record("h", letters(300), split="heldout")))


def test_a_name_that_a_cut_divides_is_counted(model: ModelFolder, tmp_path: Path) -> None:
    """By the definition: no piece, decoded, holds it."""
    divided_at_least_once = False
    for before in range(90, 102):
        one = prepared(model, named(before, " "), tmp_path, 100, planting={"users": 6})
        owners = {s.owner: s.value for s in one.planted.secrets if s.kind == "name"}
        assert set(owners.values()) <= set(NAMES)
        records = [r for r in one.corpus.of("private") if r.user in owners and r.name]
        missing = 0
        for record in records:
            tokens = one.tokenizer.encode(record.text)
            rows = [tokens[i : i + 100] for i in range(0, len(tokens), 100)]
            whole = any(owners[record.user] in one.tokenizer.decode(row) for row in rows)
            missing += not whole
        lines = [line for line in cut_records(one) if "name copies" in line]
        assert bool(lines) == bool(missing)
        if missing:
            divided_at_least_once = True
            assert lines[0].startswith(f"{missing} of {len(records)} planted name copies")
    assert divided_at_least_once
