"""The callback of the transformers Trainer: told before, audited within, and nothing disturbed."""

from __future__ import annotations

import json
import math
import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit import api, callback
from audit.callback import AuditCallback
from audit.core.digest import sha256_of_file
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.terms import Leaked
from tests.refusals import refusals

BASE = EMBEDDED_FOLDER / "public_model"
Made = Any  # the fixture's
RUN = subprocess.run  # which some tests replace
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning"),
]


class Drawing:
    """Texts that are looked at through all random generators, as augmenting pipelines do."""

    def __init__(self, texts: Sequence[str], tokenizer: Any) -> None:
        self.rows = [tokenizer(text + tokenizer.eos_token)["input_ids"] for text in texts]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, list[int]]:
        import torch

        for draw in (random.random(), np.random.random(), torch.rand(1).item()):
            assert 0 <= draw < 1
        return {"input_ids": self.rows[i]}


def masking(made: Made, tokenizer: Any) -> Callable[[list[dict[str, list[int]]]], dict[str, Any]]:
    """A collator that leaves codes out of the loss."""
    import torch

    prefix = next(s.prefix for s in made.planted.secrets if s.kind == "code")
    hidden = tokenizer(prefix)["input_ids"]

    def collate(examples: list[dict[str, list[int]]]) -> dict[str, Any]:
        tokens = [example["input_ids"] for example in examples]
        width = max(map(len, tokens))
        ids = torch.tensor([t + [0] * (width - len(t)) for t in tokens])
        mask = torch.tensor([[1] * len(t) + [0] * (width - len(t)) for t in tokens])
        labels = ids.masked_fill(mask == 0, -100)
        for row, t in zip(labels, tokens, strict=True):
            if t[: len(hidden)] == hidden:
                row[:] = -100
        return {"input_ids": ids, "labels": labels, "attention_mask": mask}

    return collate


def train(made: Made, plain: Any, folder: Path, *callbacks: Any, adapter: bool = False) -> Any:
    """Six steps with dropout, one of them behind an audit at the fourth; the trainer."""
    from transformers import Trainer, TrainingArguments, set_seed

    model, tokenizer = plain.loaded()
    set_seed(0)
    arguments = TrainingArguments(
        str(folder), max_steps=6, per_device_train_batch_size=8, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    trainer = Trainer(
        model=plain.with_adapter(model) if adapter else model,
        args=arguments,
        train_dataset=Drawing(plain.rows_of(made.corpus), tokenizer),
        data_collator=masking(made, tokenizer),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
    trainer.train()
    return trainer


def states() -> list[Any]:
    """Every generator that a training may draw from."""
    import torch

    numbers = np.random.get_state()
    return [random.getstate(), numbers[1].tolist(), numbers[2:], torch.get_rng_state().tolist()]


@pytest.fixture(scope="module")
def trained(made: Made, plain: Any, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One training as it is, one with audits, and what was said meanwhile."""
    from audit.callback import AuditCallback

    folder = tmp_path_factory.mktemp("trained")
    bare = train(made, plain, folder / "bare")
    after = states()
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callback, "_report", told.append)
        audits = AuditCallback(
            made.manifest, folder / "audits", attacks=["membership"], every=4, base=BASE
        )
        audited = train(made, plain, folder / "audited", audits)
    return SimpleNamespace(
        bare=bare, after=after, audited=audited, now=states(), told=told, output=folder / "audits"
    )


def results(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return read


@pytest.mark.slow  # trains twice, with two audits
def test_training_with_audits_is_bit_for_bit_plain(trained: SimpleNamespace) -> None:
    import torch

    one, other = trained.bare.model, trained.audited.model
    weights = other.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in one.state_dict().items())
    base, _ = trained.bare.model.from_pretrained(BASE), None
    assert not all(torch.equal(weights[name], v) for name, v in base.state_dict().items())
    assert trained.now == trained.after
    assert one.training and other.training
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert mine.requires_grad == theirs.requires_grad and mine.device == theirs.device
        assert (mine.grad is None) == (theirs.grad is None)
    moments = [t.optimizer.optimizer.state_dict()["state"] for t in (trained.bare, trained.audited)]
    assert all(torch.equal(moments[0][i]["exp_avg"], s["exp_avg"]) for i, s in moments[1].items())


@pytest.mark.slow  # trains twice, with two audits
def test_each_audit_is_a_run_folder(
    trained: SimpleNamespace, audit: Callable[..., tuple[int, str, str]]
) -> None:
    assert {path.name for path in trained.output.iterdir()} == {"step-4", "final"}
    for name in ("step-4", "final"):
        folder = trained.output / name
        assert results(folder)["status"] == "complete"
        assert (folder / "report.html").exists()
        assert audit("gate", folder)[0] in (0, 1)
        assert stat.S_IMODE((folder / "stages").stat().st_mode) == 0o700
        assert not [*folder.rglob("*.safetensors")]  # the copy of the weights is gone
        assert not [*folder.rglob("training.jsonl")]
    first, last = (results(trained.output / name) for name in ("step-4", "final"))
    assert [r["defense"] for r in first["releases"]] == ["as_is"]
    assert [r["defense"] for r in last["releases"]] == ["as_is", "public"]
    assert first["plan"]["finished"]["sha256"] != last["plan"]["finished"]["sha256"]
    evidence = sha256_of_file(trained.output / "step-4" / "evidence.json")
    assert [run["plan"].get("after") for run in (first, last)] == [None, evidence]


@pytest.mark.slow  # trains twice, with two audits
def test_masked_copies_are_reported_before_and_after(trained: SimpleNamespace) -> None:
    lost = "Of 24 planted code copies 0 were trained on{} (24 masked from the loss)"
    before = lost.format("")
    assert trained.told[0] == f"preflight: {before}; what is not trained on cannot leak"
    steps = [line.split(":")[0] for line in trained.told[2:]]
    assert steps == ["step-4", "step-4", "final", "final"]
    assert "report.html (" in trained.told[3]
    first, last = (results(trained.output / name) for name in ("step-4", "final"))
    assert lost.format(", as the file states") in last["warnings"]
    assert "Of 24 planted id copies 24 were trained on, as the file states" in last["warnings"]
    contacts = [f["silence"]["contact"] for f in first["releases"][0]["findings"] if f["silence"]]
    assert contacts and all(contact["state"] == "not_shown" for contact in contacts)


class Alone:
    """A callback without a trainer, whose audits are only noted.

    ran: (words of the command, what was in the folder of the copied model, environment) of each.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, made: Made, folder: Path) -> None:
        self.ran: list[tuple[list[str], set[str], dict[str, str]]] = []
        self.told: list[str] = []
        self.now = 0.0
        self.takes = 10.0
        self.answer: Any = subprocess.CompletedProcess([], 0, "a headline\nreport.html\n", "")
        self.look: Callable[[Path], None] = lambda copied: None
        self.made, self.output = made, folder / "audits"
        monkeypatch.setattr(callback, "_report", self.told.append)
        monkeypatch.setattr(callback.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(callback.subprocess, "run", self._run)

    def _run(self, words: list[str], **more: Any) -> Any:
        self.now += self.takes
        copied = Path(words[words.index("--model") + 1])
        self.look(copied)
        self.ran.append((words, {path.name for path in copied.iterdir()}, more["env"]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def callback(self, **more: Any) -> AuditCallback:
        return AuditCallback(self.made.manifest, self.output, **more)

    def begin(self, audits: AuditCallback, model: Any, tokenizer: Any, **more: Any) -> None:
        """As the trainer does, with a data set of nothing unless one is given."""
        loader = SimpleNamespace(dataset=[], collate_fn=None)
        arguments = SimpleNamespace(fsdp=None, deepspeed=None)
        asked = {"state": at(0), "args": arguments, "train_dataloader": loader, **more}
        audits.on_train_begin(
            asked.pop("args"), asked.pop("state"), None,
            model=model, processing_class=tokenizer, **asked,
        )  # fmt: skip

    def preflight(
        self, model: Any, dataset: Any, collate: Any, **more: Any
    ) -> tuple[list[str], Any]:
        """What is told of a data set before training on it, and the rows that are kept."""
        self.told.clear()
        audits, loader = self.callback(**more), SimpleNamespace(dataset=dataset, collate_fn=collate)
        self.begin(audits, *model, train_dataloader=loader)
        return [line for line in self.told if line.startswith("preflight: ")], audits._bearing


def at(step: int, main: bool = True, steps: int = 100) -> SimpleNamespace:
    return SimpleNamespace(global_step=step, max_steps=steps, is_world_process_zero=main)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, made: Made, tmp_path: Path) -> Alone:
    return Alone(monkeypatch, made, tmp_path)


@pytest.fixture(scope="module")
def model(plain: Any) -> Any:
    return plain.loaded()


def test_audits_rest_in_proportion_to_what_they_take(alone: Alone, model: Any) -> None:
    """Steps of 2 s, an audit of 10 s: with rest=4 there are 40 s of training between two."""
    audits = alone.callback(every=5, rest=4)
    alone.begin(audits, *model)
    said = alone.told[-1]
    for part in ("every 5 steps", "exposure, membership", "300 s each", "1/5", "final/report.html"):
        assert part in said
    audited = []
    for step in range(1, 101):
        alone.now += 2.0
        before = len(alone.ran)
        audits.on_step_end(None, at(step), None, model=model[0])
        audited += [step] * (len(alone.ran) - before)
    assert audited == [5, 25, 45, 65, 85]
    assert sum("not audited; the last audit took 10 s" in line for line in alone.told) == 15
    audits.on_train_end(None, at(100), None, model=model[0])
    assert len(alone.ran) == 6  # the last one is never left out
    assert alone.told[-1] == "final: a headline; report.html (10 s)"
    once = alone.callback()  # without every=
    once.on_step_end(None, at(20), None, model=model[0])
    assert len(alone.ran) == 6


def test_the_command_is_what_was_asked_for(alone: Alone, model: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("KEPT", "1")
    audits = alone.callback(
        attacks=["exposure:budget=9", "membership"], every=1, base=BASE, corpus="t.jsonl",
        claim="8:1e-5:user:replace", device="cpu", formats=["json"],
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"301 audits .* give every=2"):
        alone.begin(audits, *model, state=at(0, steps=300))
    alone.begin(audits, *model)
    alone.now = 1e6
    audits.on_step_end(None, at(1), None, model=model[0])
    audits.on_train_end(None, at(1), None, model=model[0])
    (step, copied, environment), (final, _, _) = alone.ran
    kept = alone.output / "step-1" / "stages" / "audited"
    assert step[:5] == [sys.executable, "-P", "-m", "audit", "run"]
    assert step[5:] == [
        "--defense", f"as_is:claim=8:1e-5:user:replace,base={BASE}",  # not all was trained on yet
        "--attack", "exposure:budget=9", "--attack", "membership", "--model", f"{kept}/model",
        "--secrets", str(alone.made.manifest), "--corpus", "t.jsonl",
        "--output", str(alone.output / "step-1"), "--format", "json", "--device", "cpu",
        "--workers", "1", "--no-references", "--looks", "101",
    ]  # fmt: skip
    # a hundred steps, and the end
    assert final[-4:] == ["--looks", "101", "--after", str(alone.output / "step-1")]
    assert f"training={alone.output}/final/stages/audited/training.jsonl" in final[6]
    assert "--no-references" not in final and str(alone.output / "final") in final
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= copied
    assert environment["KEPT"] == "1" and not {"RANK", "WORLD_SIZE"} & set(environment)


def test_leak_ends_audits_on_the_way(alone: Alone, model: Any) -> None:
    found: list[str] = [Leaked.INCONCLUSIVE, Leaked.LEAK]

    def look(copied: Path) -> None:
        folder = copied.parents[2]
        (folder / "results.json").write_text(
            json.dumps({"releases": [{"leaked": found[min(1, len(alone.ran))]}]})
        )

    alone.look = look
    audits = alone.callback(every=10, until_decided=True)
    alone.begin(audits, *model)
    for step in range(1, 101):
        alone.now += 1e3
        audits.on_step_end(None, at(step), None, model=model[0])
    audits.on_train_end(None, at(100), None, model=model[0])
    assert len(alone.ran) == 3  # at 10 and 20, and the last
    looks = [words[words.index("--looks") :] for words, _, _ in alone.ran]
    first, second = (str(alone.output / f"step-{step}") for step in (10, 20))
    assert looks == [
        ["--looks", "11", *more] for more in ([], ["--after", first], ["--after", second])
    ]


def test_failed_audit_is_not_gone_on_from(alone: Alone, model: Any) -> None:
    audits = alone.callback(every=10)
    alone.begin(audits, *model)
    for step, code in ((10, 0), (20, 2), (30, 0)):
        alone.now += 1e3
        alone.answer = subprocess.CompletedProcess([], code, "a headline\nreport.html\n", "why")
        audits.on_step_end(None, at(step), None, model=model[0])
    first = str(alone.output / "step-10")
    assert [words[-2:] for words, _, _ in alone.ran[1:]] == [["--after", first]] * 2


def test_looks_stay_as_many_when_a_training_is_resumed(alone: Alone, model: Any) -> None:
    """Audits at a third of the level, then others at a tenth each, would share more than 5 %."""
    audits = alone.callback(every=10)
    for looks in (11, 3):
        folder = alone.output / "step-10"
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "schema_version": "1",
            "status": "complete",
            "hash": "0",
            "plan": {"looks": looks},
        }
        (folder / "manifest.json").write_text(json.dumps(record))
        if looks == 11:
            alone.begin(audits, *model)
            continue
        with pytest.raises(UsageError, match=r"one of 3 audits .* now makes 11; resume with"):
            alone.begin(audits, *model)


@pytest.mark.parametrize("steps", [-1, 0, 25])
def test_steps_beyond_those_stated_are_not_audited(alone: Alone, model: Any, steps: int) -> None:
    audits = alone.callback(every=10)
    alone.begin(audits, *model, state=at(0, steps=steps))
    for step in (10, 20, 30):
        alone.now += 1e3
        audits.on_step_end(None, at(step), None, model=model[0])
    audits.on_train_end(None, at(30), None, model=model[0])
    assert len(alone.ran) == 1 + max(0, steps) // 10
    assert "beyond the steps" in " ".join(alone.told)


def test_other_processes_are_not_left_to_time_out(alone: Alone, model: Any) -> None:
    audits = alone.callback(seconds=1800)
    state = at(0)
    for world, refused in ((1, False), (2, True)):
        arguments = SimpleNamespace(fsdp="", deepspeed=None, world_size=world, ddp_timeout=1800)
        given = {"model": model[0], "processing_class": model[1]}
        loader = SimpleNamespace(dataset=[], collate_fn=None)
        with pytest.raises(UsageError, match="ddp_timeout=1800") if refused else nullcontext():
            audits.on_train_begin(arguments, state, None, train_dataloader=loader, **given)


def test_of_an_adapter_only_the_adapter_is_copied(alone: Alone, plain: Any) -> None:
    model, tokenizer = plain.loaded()
    adapted, audits = plain.with_adapter(model), alone.callback()
    alone.begin(audits, adapted, tokenizer)
    audits.on_train_end(None, at(1), None, model=adapted)
    _, copied, _ = alone.ran[0]
    assert {"adapter_model.safetensors", "adapter_config.json"} <= copied
    assert "model.safetensors" not in copied


def test_failed_audits_are_reported_and_end_nothing(alone: Alone, model: Any) -> None:
    audits = alone.callback()
    alone.begin(audits, *model)
    for answer, said in (
        (subprocess.TimeoutExpired("audit", 300), "stopped: it may take no more than seconds=300"),
        (OSError("no space left"), "failed: no space left"),
        (subprocess.CompletedProcess([], 2, "", "[1 s]\naudit: what\n"), "failed: audit: what"),
        (subprocess.CompletedProcess([], -9, "", ""), "failed: ?"),
    ):
        alone.answer = answer
        audits.on_train_end(None, at(1), None, model=model[0])
        assert alone.told[-1] == f"final: {said} (10 s)"
        assert not [*alone.output.rglob("*.safetensors")]


def test_audit_without_a_limit_is_waited_for(alone: Alone, model: Any, monkeypatch: Any) -> None:
    prints = [sys.executable, "-c", "print(7)"]
    monkeypatch.setattr(callback.subprocess, "run", lambda words, **more: RUN(prints, **more))
    audits = alone.callback(seconds=math.inf)
    alone.begin(audits, *model)
    audits.on_train_end(None, at(1), None, model=model[0])
    assert alone.told[-1] == "final: 7 (0 s)"


def test_nobody_who_reads_ends_no_training(monkeypatch: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
    callback._report("step-1: begins")


def test_other_processes_do_nothing(alone: Alone, model: Any) -> None:
    audits = alone.callback(every=1)
    alone.begin(audits, None, None, state=at(0, main=False))
    audits.on_step_end(None, at(1, main=False), None, model=model[0])
    audits.on_train_end(None, at(1, main=False), None, model=model[0])
    assert not alone.ran and not alone.told and not alone.output.exists()


def test_impossible_audits_are_refused_at_the_start(alone: Alone, plain: Any) -> None:
    model, tokenizer = plain.loaded()
    with pytest.raises(UsageError, match="give tokenizer="):
        alone.begin(alone.callback(), model, None)
    alone.begin(alone.callback(tokenizer=tokenizer), model, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELERATE_USE_FSDP", "true")
        with pytest.raises(UsageError, match="the weights are sharded"):
            alone.begin(alone.callback(), model, tokenizer)
    for sharded in ({"fsdp": "full_shard", "deepspeed": None}, {"fsdp": [], "deepspeed": "x.json"}):
        with pytest.raises(UsageError, match="the weights are sharded"):
            alone.begin(alone.callback(), model, tokenizer, args=SimpleNamespace(**sharded))
    adapted = plain.with_adapter(model)
    adapted.peft_config["default"].base_model_name_or_path = "somebody/gpt2"
    with pytest.raises(UsageError, match="'somebody/gpt2' is no folder here; give base=DIR"):
        alone.begin(alone.callback(), adapted, tokenizer)
    alone.begin(alone.callback(base=BASE), adapted, tokenizer)
    (alone.output / "final").mkdir(parents=True)
    with pytest.raises(UsageError, match="holds a finished audit"):
        alone.begin(alone.callback(), model, tokenizer)


def only(folder: Path, kind: str) -> Path:
    manifest = folder / f"{kind}.json"
    api.plant("helpdesk", folder / f"{kind}.jsonl", manifest, kind=[kind], count=8, seed=1)
    return manifest


def test_bad_settings_are_refused_before_training(alone: Alone, tmp_path: Path) -> None:
    refusals(
        lambda bad: alone.callback(**bad),
        [
            ({"attacks": ["exposur"]}, "exposure"),
            ({"attacks": ["exposure:budget=0"]}, "budget"),
            ({"claim": "8"}, "claim"),
            *(({name: 0}, name) for name in ("every", "seconds", "rest", "examples")),
            ({"every": 0.1}, "every"),
        ],
    )
    with pytest.raises(UsageError, match="cannot be read"):
        AuditCallback(tmp_path / "none.json", alone.output)
    with pytest.raises(UsageError, match=r"extraction targets code, .* holds id;"):
        AuditCallback(only(tmp_path, "id"), alone.output, attacks=["extraction"])
    with pytest.raises(UsageError):
        AuditCallback(alone.made.manifest, tmp_path / "a,b=c")  # no parameter can hold such a path


def test_attacks_left_out_are_those_that_fit_what_was_planted(alone: Alone, tmp_path: Path) -> None:
    assert AuditCallback(only(tmp_path, "code"), alone.output).attacks == ["membership"]
    assert AuditCallback(only(tmp_path, "id"), alone.output).attacks == ["exposure"]
    assert alone.callback().attacks == ["exposure", "membership"]


def test_preflight_finds_all_copies(alone: Alone, model: Any, plain: Any) -> None:
    from transformers import DataCollatorForLanguageModeling

    rows = Drawing(plain.rows_of(alone.made.corpus), model[1])
    before = states()
    collate = DataCollatorForLanguageModeling(model[1], mlm=False)
    told, bearing = alone.preflight(model, rows, collate)
    assert told == ["preflight: all 96 copies are there"]
    assert states() == before
    assert len(bearing) == 96  # and no dialog


def test_preflight_finds_copies_split_over_blocks(alone: Alone, model: Any, plain: Any) -> None:
    """What is split over two blocks is cut, and both are kept to be read again."""
    from transformers import default_data_collator

    rows = Drawing(plain.rows_of(alone.made.corpus), model[1]).rows
    stream = [token for row in rows for token in row]
    blocks = [stream[i : i + 64] for i in range(0, len(stream) - 63, 64)]
    examples = [{"input_ids": block, "labels": block} for block in blocks]
    told, bearing = alone.preflight(model, examples, default_data_collator)
    assert len(told) > 1 and all("cut off" in line for line in told)
    kept = [{"input_ids": row.tokens, "labels": row.tokens} for row in bearing]
    again, _ = alone.preflight(model, kept, default_data_collator)
    assert again == told and len(kept) < len(blocks)


def test_preflight_skips_streams_and_long_and_broken_data(alone: Alone, model: Any) -> None:
    def broken(examples: Any) -> Any:
        raise RuntimeError("needs two")

    for dataset, collate, more, said in (
        (iter([]), None, {}, "the data set is a stream"),
        ([{}] * 6, None, {"examples": 5}, "6 examples are more than"),
        ([{}], broken, {}, "the data set cannot be"),
        ([{}], lambda examples: {"pixel_values": [1]}, {}, "the data set cannot be"),
    ):
        (line,), bearing = alone.preflight(model, dataset, collate, **more)
        assert line.startswith(f"preflight: {said}") and line.endswith("not checked")
        assert bearing is None


def test_the_copy_is_private_while_it_is_there(alone: Alone, model: Any) -> None:
    modes: list[int] = []

    def look(copied: Path) -> None:
        kept = copied.parents[1], copied.parent / "training.jsonl"
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in kept)

    alone.look = look
    audits = alone.callback()
    alone.begin(audits, *model)
    mask = os.umask(0)
    try:
        audits.on_train_end(None, at(1), None, model=model[0])
    finally:
        os.umask(mask)
    assert modes == [0o700, 0o600]
