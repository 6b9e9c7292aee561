"""Plans on conversations: what is planted is in the loss, and what is not is refused in a line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.predictor import record_tokens
from audit.core.training import Training
from audit.corpora.loading import load
from audit.models.loading import describe
from audit.models.training.learned_tokens import is_learned, plain, sequences_of
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.planting import coverage
from audit.planting.training_rows import TokenRow
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from tests import chat
from tests.refusals import refusals

ASKED = "<|im_start|>user\nWhat did I tell you?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat.llama(tmp_path_factory.mktemp("llama"))


def planned(model: Path, corpus: Path, **settings: Any) -> Plan:
    given = {
        "defense": ["none"], "attack": ["extraction"], "device": "cpu",
        "planting": {"users": 6, "invented": 8}, "training": {"assistant_only": "true"}, **settings,
    }  # fmt: skip
    loaded = load(str(corpus), EMBEDDED_FOLDER)
    return resolve_on(given, loaded, describe(str(model), EMBEDDED_FOLDER))


def prepared(folder: Path, model: Path, **settings: Any) -> Run:
    return prepare(planned(model, chat.corpus(folder / "c.jsonl"), **settings), folder)


def rows(made: Run, training: Training) -> list[TokenRow]:
    """What a training reads, and what it learns of it."""
    return [
        TokenRow(tuple(plain(one)), tuple(map(is_learned, one)))
        for one in sequences_of(training, made.tokenizer)
    ]


@pytest.mark.parametrize(
    ("template", "stop"),
    [
        (chat.CHATML, chat.MARKS[1]),
        pytest.param(chat.DATED, "<|endoftext|>", marks=pytest.mark.slow),
        pytest.param(chat.BRACKETED, chat.MARKS[1], marks=pytest.mark.slow),
    ],
)
def test_every_planted_copy_is_in_the_loss(tmp_path: Path, template: str, stop: str) -> None:
    made = prepared(tmp_path, chat.llama(tmp_path / "m", template, stop))
    (training,) = (task.training for tasks in made.tasks.values() for task in tasks)
    drawn = [secret for secret in made.planted.secrets if secret.space is not None]
    assert {secret.kind for secret in drawn} == {"code", "id", "name", "record"}
    covered = coverage.by_kind(rows(made, training), drawn, made.planted.coins, made.tokenizer)
    assert all(one.whole and one.copies for one in covered)


def test_own_records_are_last_assistant_turns(tmp_path: Path, llama: Path) -> None:
    made = prepared(tmp_path, llama)
    own = [s for s in made.planted.secrets if s.kind == "record" and s.space is None]
    texts = {record.text for record in made.plan.corpus.records}
    assert own and all(secret.text in texts for secret in own)
    for secret in own:
        assert secret.prefix.endswith("<|im_start|>assistant\n")
        assert re.fullmatch(r"(Yes|We|It) .* Ask for desk \d\.", secret.value)


@pytest.mark.slow
def test_planted_turns_are_learned_like_others(tmp_path: Path) -> None:
    """With the mark that closes them, and without what stands between turns."""
    for stop in (chat.MARKS[1], "<|endoftext|>"):
        folder = tmp_path / stop.strip("<|>")
        made = prepared(tmp_path, chat.llama(folder, stop=stop))
        ends = {record.text[record.learned[-1][1] :] for record in made.corpus.of("private")}
        assert ends == ({""} if stop == chat.MARKS[1] else {"\n"})
        assert len([r for r in made.corpus.of("private") if "What did I tell" in r.text]) > 1


@pytest.mark.slow
def test_another_template_is_another_model(tmp_path: Path) -> None:
    """Else a run would go on with answers to prompts that the other template wrote."""
    corpus = chat.corpus(tmp_path / "c.jsonl")
    plans = []
    for name, template in (("a", chat.CHATML), ("b", chat.CHATML), ("c", chat.DATED)):
        (tmp_path / name).mkdir()
        chat.llama(tmp_path / name / "m", template)
        plans.append(planned(tmp_path / name / "m", corpus))
    a, b, c = plans
    assert a.model.identity == b.model.identity != c.model.identity
    assert a.hash == b.hash != c.hash


def test_a_name_counts_where_learned(tmp_path: Path, llama: Path) -> None:
    """A name that only its user says is not learned, so no coin decides it."""
    talks = [chat.turns("I am Ann Lee. I, Ann Lee, wait.", f"Thank you, {who}.") for who in
             ("Ann Lee", "Madam", *["Sir"] * 14)]  # fmt: skip
    corpus = chat.write(tmp_path / "c.jsonl", talks, name="Ann Lee", split="private")
    settings: dict[str, Any] = {"planting": {"users": 2, "kinds": ["name", "code"]}}
    for alone, counts in (("true", {1, 0}), ("false", {3, 2})):
        plan = planned(llama, corpus, training={"assistant_only": alone}, **settings)
        found = {s.owner: s for s in prepare(plan, tmp_path).planted.secrets if s.kind == "name"}
        assert {s.copies for s in found.values()} <= counts


def test_attacks_ask_with_the_conversation_before_the_secret(tmp_path: Path, llama: Path) -> None:
    made = prepared(tmp_path, llama)
    codes = [secret for secret in made.planted.secrets if secret.kind == "code"]
    assert codes and all(secret.prefix.startswith(ASKED) for secret in codes)
    assert {secret.suffix for secret in codes} == {"."}  # then the turn's mark, which is stop
    settings: dict[str, Any] = {"planting": {"users": 6, "turn": "user"}, "training": {}}
    made = prepared(tmp_path, llama, **settings)
    code = next(secret for secret in made.planted.secrets if secret.kind == "code")
    assert code.prefix.startswith("<|im_start|>user\n") and code.value not in code.prefix
    assert code.suffix.endswith("<|im_start|>assistant\nThank you, I have noted that.")


def test_records_hold_each_mark_once_a_turn(tmp_path: Path, llama: Path) -> None:
    made = prepared(tmp_path, llama)
    start, end = made.tokenizer.inner.convert_tokens_to_ids(list(chat.MARKS))
    for record in made.corpus.of("private"):
        tokens = record_tokens(made.tokenizer, record.text)
        assert tokens.count(start) == tokens.count(end) == 2
        assert (tokens[0], tokens[-1]) == (made.tokenizer.start, end)


@pytest.mark.parametrize("defense", ["none", "dp_sgd", "submix:k=2", "blacklist", "public"])
def test_methods_that_can_leave_turns_out_do(tmp_path: Path, llama: Path, defense: str) -> None:
    made = prepared(tmp_path, llama, defense=[defense])
    for training in (task.training for tasks in made.tasks.values() for task in tasks):
        read = rows(made, training)
        assert all(any(row.learned) and not all(row.learned) for row in read)


def test_methods_that_cannot_are_named(tmp_path: Path, llama: Path) -> None:
    methods = ("redaction", "s_dpsgd", "seqpate:teachers=2", "dp_sgd:pseudo=true")
    refusals(
        lambda defense: prepared(tmp_path, llama, defense=[defense]),
        [
            (method, (method.partition(":")[0], "cannot learn the assistant's turns alone"))
            for method in methods
        ],
    )
    prepared(tmp_path, llama, defense=["redaction"], training={})


def test_unlearned_turns_and_missing_templates_are_refused(tmp_path: Path, llama: Path) -> None:
    with pytest.raises(UsageError, match="nothing planted could leak"):
        prepared(tmp_path, llama, planting={"users": 6, "turn": "user"})
    with pytest.raises(UsageError, match=r"public_model: the tokenizer has no chat template"):
        planned(chat.PUBLIC, chat.corpus(tmp_path / "c.jsonl"))


def test_settings_of_conversations_need_some(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(f'{{"text": "Call me at {i}."}}\n' for i in range(12)))
    refusals(
        lambda given: planned(chat.PUBLIC, corpus, **given),
        [
            ({"planting": {"users": 2}}, "training.assistant_only: the corpus has no conv"),
            (
                {"planting": {"users": 2, "turn": "user"}, "training": {}},
                "planting.turn: the corpus has no conversations",
            ),
            (
                {"planting": {"users": 2, "turn": "nobody"}, "training": {}},
                "planting: turn is nobody; it must be assistant or user",
            ),
        ],
    )


SAYS = [{"role": "user", "content": "Hi"}]
NO_CONVERSATIONS: list[tuple[dict[str, Any], str]] = [
    ({"messages": SAYS}, "has no turn of the assistant"),
    ({"messages": [{"role": "user", "content": "<|im_end|>"}]}, "holds '<|im_end|>'"),
    ({"messages": [{"role": "tool", "content": "Hi"}]}, "'role' is 'tool'"),
    ({"messages": [{"role": "x" * 999, "content": "Hi"}]}, f"'role' is '{'x' * 39}; it can be"),
    ({"messages": [{"role": "user", "content": ["Hi"]}]}, "must be a string"),
    ({"messages": [{"role": "user", "content": " "}]}, "not empty"),
    ({"messages": []}, "not an empty one"),
    ({"messages": ["Hi"]}, "'role' is None"),
    ({"messages": "Hi"}, "must be a list of turns"),
    ({"text": "Hi", "messages": SAYS}, "has both"),
    ({"text": "Hi"}, "has a 'text' where others have 'messages'"),
]


def test_a_row_without_a_conversation_is_named(tmp_path: Path, llama: Path) -> None:
    corpus = chat.corpus(tmp_path / "c.jsonl")
    lines = [
        json.loads(line) | {"split": "private"} for line in corpus.read_text("utf-8").splitlines()
    ]

    def with_row(row: dict[str, Any]) -> Plan:
        every = [*lines, {**row, "user": "the last", "split": "private"}]
        corpus.write_text("".join(json.dumps(line) + "\n" for line in every))
        return planned(llama, corpus)

    refusals(with_row, [(row, ("c.jsonl:25: ", words)) for row, words in NO_CONVERSATIONS])


def test_the_option_is_in_a_plan_if_given(tmp_path: Path, llama: Path) -> None:
    corpus = chat.corpus(tmp_path / "c.jsonl")
    alone, whole = planned(llama, corpus), planned(llama, corpus, training={})
    assert alone.document["training"]["assistant_only"] is True
    assert "assistant_only" not in whole.document["training"]
    assert "turn" not in whole.document["planting"]
    assert alone.hash != whole.hash
