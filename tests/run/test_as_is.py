"""Models that others trained, audited against what was planted: folders, adapters, references."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.lora import Lora
from audit.plan.resolve import resolve
from audit.verify import verify
from tests.builders import comparable, narrow, without_digests, write_rows

BASE = EMBEDDED_FOLDER / "public_model"
QUICK = "exposure:budget=400"  # enough to rank what is memorised, and to say so of the rest
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
Made = Any  # the fixture's
Audit = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]
AS_IS = ("run", "--defense", "as_is", "--attack", "membership", "--workers", "1")


def command(made: Made, output: Path, *more: object, defense: str = "as_is") -> list[str]:
    """An audit of the whole model; what is given in `more` goes before."""
    words = ["run", "--defense", defense, "--model", made.whole, "--secrets", made.manifest]
    words += ["--output", output, "--workers", "1", "--format", "json", *more]
    if "--attack" not in words:
        words += ["--attack", "membership"]
    return [str(word) for word in words]


def results(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return read


def finding(document: dict[str, Any], metric: str, defense: str = "as_is") -> dict[str, Any]:
    release = next(r for r in document["releases"] if r["defense"] == defense)
    found: dict[str, Any] = next(f for f in release["findings"] if f["metric"] == metric)
    return found


def leaked(document: dict[str, Any], metric: str, defense: str = "as_is") -> bool:
    return bool(finding(document, metric, defense)["leaked"] == "leak")


@pytest.fixture(scope="module")
def alone(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of the whole model with nothing but the manifest."""
    from audit import api

    folder = tmp_path_factory.mktemp("alone") / "out"
    api.run(
        defense="as_is",
        attack=["membership", QUICK],
        model=made.whole,
        secrets=made.manifest,
        output=folder,
        format=["json", "html"],
        workers=1,
    )
    return folder


def test_a_folder_and_its_manifest_are_enough(made: Made, alone: Path) -> None:
    document, manifest = results(alone), made.planted
    assert [r["defense"] for r in document["releases"]] == ["as_is"]
    assert leaked(document, "record_loss_auc")
    assert finding(document, "record_loss_auc")["value"] > 0.95
    assert document["plan"]["manifest"] == manifest.digest
    assert document["corpus"]["sha256"] == manifest.sha256
    assert (document["corpus"]["records"], document["corpus"]["users"]) == (116, 16)
    assert document["corpus"]["planted_users"] == 16
    assert document["corpus"]["twins"] == sum(not c for c in manifest.coins.present.values())
    assert document["releases"][0]["utility"] == {}  # no held-out text was given
    assert any("is not known, so silence" in line for line in document["warnings"])
    assert any("no base was named" in line for line in document["warnings"])


def test_dry_run_states_own_delta_and_missing_control(
    made: Made, audit: Audit, tmp_path: Path
) -> None:
    """The planted corpus has 16 users with coins; no base was named, so nothing is a control."""
    defense = "as_is:claim=8:0.1:user:add_or_remove"
    code, said, _ = audit(*command(made, tmp_path / "out", "--dry-run", defense=defense))
    assert code == 0
    assert "at its own δ = 0.1 they can refute" in said and "is not below 1/N (N = 16)" in said
    assert (
        "116 records of 16 users, as its manifest counts them; 16 planted users decided by coin"
        in said
    )
    assert "policy" not in said  # which marks nothing where no text is here
    assert "note: no positive control" in said


def test_no_value_stands_in_any_file(made: Made, alone: Path) -> None:
    values = {re.escape(s.value) for s in made.planted.secrets}
    pattern = re.compile(r"(?<![\d.])(" + "|".join(values) + r")(?!\d)")
    key = made.planted.key.hex()
    assert pattern.search(made.corpus.read_text("utf-8"))  # it finds what there is
    files = [path for path in alone.rglob("*") if path.is_file()]
    assert {"results.json", "report.html", "manifest.json"} <= {path.name for path in files}
    for path in files:
        assert not pattern.search(without_digests(path)), path
        assert key.encode() not in path.read_bytes(), path


def test_it_verifies(alone: Path) -> None:
    assert verify(alone).differences == ()


def test_the_same_plan_reveals_values_beside_the_same_bytes(
    made: Made, alone: Path, audit: Audit, tmp_path: Path
) -> None:
    """What was seen is stored: it is judged again. A killed run, below, sees it again."""
    attacks, again = ("--attack", "membership", "--attack", QUICK), tmp_path / "again"
    shutil.copytree(alone, again)
    (again / "results.json").unlink()
    assert audit(*command(made, again, *attacks, "--reveal"))[0] == 0
    assert comparable(again) == comparable(alone)
    lines = (again / "secrets.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["value"] for line in lines} == {s.value for s in made.planted.secrets}


@pytest.mark.full
def test_killed_it_resumes_to_the_same_results(
    made: Made, alone: Path, audit: Audit, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    words = command(made, folder, "--attack", "membership", "--attack", QUICK)
    process = subprocess.Popen([sys.executable, "-m", "audit", *words], stderr=subprocess.DEVNULL)
    while process.poll() is None and len([*folder.glob("stages/session-*")]) < 3:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["status"] == "running"
    assert audit(*words)[0] == 0
    assert comparable(folder) == comparable(alone)


def test_another_model_is_another_plan(made: Made, alone: Path, refused: Refused) -> None:
    attacks = ("--attack", "membership", "--attack", QUICK)
    other = command(made, alone, *attacks, "--model", BASE)
    assert "another plan (another value of the audited model); give the same" in refused(*other)
    other = command(made, alone, *attacks, "--threads", "3")
    assert "another plan (threads: 1 there, 3 here); give the same settings" in refused(*other)


RECIPE = "[training]\nepochs = 6\nlearning_rate = 0.004\n"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `none` is trained by, so that it memorises in seconds."""
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(RECIPE)
    return path


UNTRAINED = "The audited model answers exactly as its base, so no planted text reached its weights."


@pytest.mark.slow
def test_a_model_that_never_left_its_base_earns_no_silence(
    made: Made, plan: Path, audit: Audit, tmp_path: Path
) -> None:
    """What the base is silent about, `none` gives away.

    `none` reads 4 copies of each of 6 records in each of 6 epochs.
    """
    more = ("--corpus", made.corpus, "--plan", plan, "--model", BASE)
    defense = f"as_is:base={BASE},training={made.corpus}"
    words = command(made, tmp_path / "out", *more, defense=defense)
    code, out, told = audit(*words)
    assert code == 0, told
    document = results(tmp_path / "out")
    assert [(r["defense"], r["reference"]) for r in document["releases"]] == [
        ("as_is", False), ("none", True), ("public", True),
    ]  # fmt: skip
    silent = finding(document, "record_loss_auc")
    assert silent["leaked"] == "inconclusive" and silent["sentence"].endswith(UNTRAINED)
    assert leaked(document, "record_loss_auc", "none")
    reached = finding(document, "record_loss_auc", "none")["silence"]["contact"]
    assert (reached["state"], reached["n"]) == ("shown", 6)
    assert "6 of 6 planted records were trained on, 144 times in all" in reached["by"]
    assert not leaked(document, "record_loss_auc", "public")
    for metric in ("value", "ci"):  # it is the public model
        one, other = (finding(document, "record_loss_auc", d)[metric] for d in ("as_is", "public"))
        assert one == other
    perplexities = [r["utility"]["perplexity"]["value"] for r in document["releases"]]
    assert perplexities[0] == perplexities[2] > perplexities[1]
    assert not any("silence shows nothing" in line for line in document["warnings"])
    assert "inconclusive: membership" in out and "a leak" not in out


def pipelines(made: Made, tokenizer: Any) -> dict[str, list[dict[str, Any]]]:
    """What three pipelines make of the planted codes."""
    entries = [json.loads(line) for line in made.corpus.read_text("utf-8").splitlines()]
    texts = [e["text"] for e in entries if e["split"] == "private"]
    prefix = next(s.prefix for s in made.planted.secrets if s.kind == "code")
    code, begun = re.compile(re.escape(prefix) + r"\d{5}\."), len(tokenizer(prefix)["input_ids"])
    read = [tokenizer(text)["input_ids"] for text in texts]
    hidden = [[-100] * len(r) if code.match(t) else r for r, t in zip(read, texts, strict=True)]
    short = [r[: begun + 3] if code.match(t) else r for r, t in zip(read, texts, strict=True)]
    return {
        "missing": [{"text": text} for text in texts if not code.match(text)],
        "cut off": [{"input_ids": tokens} for tokens in short],
        "masked from the loss": [
            {"input_ids": r, "labels": labels} for r, labels in zip(read, hidden, strict=True)
        ],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "fate", [*(pytest.param(f, marks=pytest.mark.full) for f in ("missing", "cut off")),
             "masked from the loss"],
)  # fmt: skip
def test_what_a_pipeline_dropped_is_not_trained_rather_than_safe(
    made: Made, plain: Any, audit: Audit, tmp_path: Path, fate: str
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", pipelines(made, plain.loaded()[1])[fate])
    words = command(made, tmp_path / "out", "--model", BASE, defense=f"as_is:training={rows}")
    code, _, told = audit(*words)
    assert code == 0, told
    document = results(tmp_path / "out")
    states = "were trained on, as the file states"
    lost = f"Of 24 planted code copies 0 {states} (24 {fate})"
    assert lost in document["warnings"]
    assert f"Of 24 planted record copies 24 {states}" in document["warnings"]
    span, record = (finding(document, f"{name}_loss_auc") for name in ("span", "record"))
    assert span["leaked"] == "inconclusive"
    assert span["sentence"].endswith(f"{lost}. What was not trained on cannot leak.")
    assert "not trained on" not in record["sentence"]


@pytest.mark.full
def test_what_was_dropped_is_not_safe_beside_references_either(
    made: Made, plain: Any, plan: Path, audit: Audit, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", pipelines(made, plain.loaded()[1])["missing"])
    more = ("--corpus", made.corpus, "--plan", plan, "--model", BASE)
    defense = f"as_is:base={BASE},training={rows}"
    assert audit(*command(made, tmp_path / "out", *more, defense=defense))[0] == 0
    document = results(tmp_path / "out")
    assert finding(document, "record_loss_auc")["sentence"].endswith(UNTRAINED)
    assert finding(document, "span_ez_auc")["leaked"] == "inconclusive"
    assert "24 missing" in finding(document, "span_ez_auc")["sentence"]
    assert leaked(document, "span_ez_auc", "none")  # it was trained here, on all of them


@pytest.mark.slow
def test_a_corpus_that_others_changed_shows_nothing_where_the_training_was_not_seen(
    made: Made, audit: Audit, tmp_path: Path
) -> None:
    """Three dialogs and a canary are gone: told, and what is left is audited.

    A canary stands in the corpus; a trainer may have lost it all the same.
    """
    entries = [json.loads(line) for line in made.corpus.read_text("utf-8").splitlines()]
    prefix = next(s.prefix for s in made.planted.secrets if s.kind == "code")
    gone = next(e for e in entries if e["text"].startswith(prefix))
    left = write_rows(tmp_path / "left.jsonl", [e for e in entries[3:] if e is not gone])
    words = command(made, tmp_path / "out", "--corpus", left, "--model", BASE)
    assert audit(*words)[0] == 0
    document = results(tmp_path / "out")
    told = document["warnings"]
    assert any("not, text for text" in line for line in told)
    assert "Of 24 planted code copies 23 stand in the corpus (1 missing)" in told
    assert "What was trained on was not seen" in finding(document, "span_loss_auc")["sentence"]
    assert finding(document, "span_loss_auc")["leaked"] == "inconclusive"


@pytest.mark.full  # its verdict: tests/findings/test_removed.py
def test_a_leak_of_what_was_reported_lost_is_a_leak(
    made: Made, audit: Audit, tmp_path: Path
) -> None:
    """What a training file says only takes meaning from silence, never from a leak."""
    code = next(s for s in made.planted.secrets if s.kind == "code")
    rows = write_rows(tmp_path / "rows.jsonl", [{"text": f"{code.prefix}[CODE]."}])
    assert audit(*command(made, tmp_path / "out", defense=f"as_is:training={rows}"))[0] == 0
    document = results(tmp_path / "out")
    assert leaked(document, "record_loss_auc")
    assert any("planted record copies 0 were trained on" in line for line in document["warnings"])


@pytest.mark.parametrize(
    "named",
    [
        pytest.param("by the adapter", marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.full) for n in ("by the user", "embedded")),
    ],
)
def test_an_adapter_is_audited_on_its_base(
    made: Made, audit: Audit, tmp_path: Path, named: str
) -> None:
    bases = {"by the adapter": "as_is", "by the user": f"as_is:base={BASE}"}
    defense = bases.get(named, "as_is:base=embedded")
    words = command(made, tmp_path / "out", "--model", made.adapter, defense=defense)
    assert audit(*words)[0] == 0
    document = results(tmp_path / "out")
    assert [r["defense"] for r in document["releases"]] == ["as_is", "public"]
    one, other = (finding(document, "record_loss_auc", d)["value"] for d in ("as_is", "public"))
    assert one > other
    assert not any("no base was named" in line for line in document["warnings"])


@pytest.mark.parametrize(
    ("wanted", "trained"),
    [({}, Lora(8, 8, "c_attn")), ({"lora": "r=2"}, Lora(2, 4))],
)
def test_references_train_adapters_as_the_audited_model_has(
    made: Made, wanted: dict[str, str], trained: Lora
) -> None:
    paths = {"corpus": str(made.corpus), "secrets": str(made.manifest)}
    settings = {"defense": ["as_is"], "attack": ["membership"], **paths}
    plan = resolve({**settings, "model": str(made.adapter), **wanted})
    assert plan.model.lora == trained and f"--lora {trained}" in plan.command
    whole = resolve({**settings, "model": str(made.whole)})
    assert whole.model.lora is None


def test_an_adapter_answers_on_the_tensors_of_its_base_and_leaves_it_as_it_is(
    made: Made, plain: Any
) -> None:
    import torch
    from peft import PeftModel

    from audit.models import external_model

    model, tokenizer = plain.loaded()
    loaded = external_model.load(made.adapter, model)
    shared = {p.data_ptr() for p in model.parameters()}
    assert {p.data_ptr() for n, p in loaded.named_parameters() if "lora_" not in n} == shared
    assert not any("lora_" in name for name in model.state_dict())
    tokens = tokenizer("My code is #40917.", return_tensors="pt")
    with torch.no_grad():
        mine, base = loaded(**tokens).logits, model(**tokens).logits
        theirs = PeftModel.from_pretrained(model, str(made.adapter)).eval()(**tokens).logits
    assert torch.allclose(mine, theirs, atol=1e-4) and not torch.allclose(mine, base, atol=0.1)
    assert not loaded.training


def other_tokens(folder: Path) -> Path:
    """The public model, whose tokenizer has forgotten a merge that the probe needs."""
    shutil.copytree(BASE, folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text("utf-8"))
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
    file.write_text(json.dumps(tokenizer))
    return folder


class TestBadInput:
    """One line each, exit code 2, and no run folder."""

    @pytest.fixture
    def told(self, made: Made, refused: Refused, tmp_path: Path) -> Refused:
        def line(*more: object, defense: str = "as_is") -> str:
            said = refused(*command(made, tmp_path / "out", *more, defense=defense))
            assert not (tmp_path / "out").exists()
            return said

        return line

    def test_a_manifest_must_be_given_and_a_model(self, made: Made, refused: Refused) -> None:
        assert "give --secrets MANIFEST.json" in refused(*AS_IS, "--model", made.whole)
        assert "give the external model" in refused(*AS_IS, "--secrets", made.manifest)

    def test_secrets_are_for_finished_models(self, made: Made, refused: Refused) -> None:
        words = ("run", "--defense", "none", "--attack", "membership", "--secrets", made.manifest)
        assert "use --defense as_is" in refused(*words)

    def test_all_is_no_finished_model(self, made: Made, refused: Refused) -> None:
        words = ("run", "--defense", "all", "--attack", "membership", "--secrets", made.manifest)
        assert "use --defense as_is" in refused(*words)

    def test_a_manifest_of_another_corpus(self, made: Made, told: Refused, tmp_path: Path) -> None:
        other = write_rows(tmp_path / "other.jsonl", [{"text": "a"}, {"text": "b"}])
        assert "holds none of the canaries" in told("--corpus", other)
        assert "no such file or folder" in told("--corpus", tmp_path / "none.jsonl")

    def test_models(self, made: Made, told: Refused, tmp_path: Path) -> None:
        assert "no such folder" in told("--model", tmp_path / "none")
        assert "no such folder" in told("--model", made.manifest)
        broken = tmp_path / "broken"
        broken.mkdir()
        assert "no config.json" in told("--model", broken)
        shutil.copy(made.whole / "config.json", broken)
        assert "no .safetensors file" in told("--model", broken)
        (broken / "pytorch_model.bin").write_bytes(b"x")
        assert "pickled weights" in told("--model", broken)
        weights = (made.whole / "model.safetensors").read_bytes()
        (broken / "model.safetensors").write_bytes(weights[:1000])
        assert "corrupt weights" in told("--model", broken)
        (broken / "model.safetensors").write_bytes(weights)
        assert "the tokenizer" in told("--model", broken)

    def test_a_base_that_reads_other_tokens(self, told: Refused, tmp_path: Path) -> None:
        base = other_tokens(tmp_path / "base")
        assert "its tokenizer is not that of the base" in told(defense=f"as_is:base={base}")
        assert "no such folder" in told(defense=f"as_is:base={tmp_path / 'none'}")

    def test_a_model_without_tokenizer_that_reads_other_tokens_than_its_base(
        self, made: Made, told: Refused, tmp_path: Path
    ) -> None:
        model = narrow(tmp_path / "model", vocab_size=300)
        for file in model.glob("*token*"):
            file.unlink()
        told("--model", model, defense=f"as_is:base={BASE}")

    def test_one_run_has_one_base(self, told: Refused, tmp_path: Path) -> None:
        other = narrow(tmp_path / "other")
        more = ("--defense", f"as_is:base={other}")
        assert "one run has one base" in told(*more, defense=f"as_is:base={BASE}")

    def test_others_need_a_base_and_the_corpus(self, made: Made, told: Refused) -> None:
        assert "only with its base" in told("--defense", "none")
        assert "only with its base" in told("--defense", "none", "--corpus", made.corpus)
        base = f"as_is:base={BASE}"
        assert "only with its base" in told("--defense", "none", defense=base)

    def test_shadows_cannot_be_trained(self, told: Refused) -> None:
        assert "give shadows=0" in told("--attack", "membership:shadows=4")

    def test_lora_needs_the_base_that_it_adapts(self, told: Refused) -> None:
        assert "give it with as_is:base=DIR" in told("--lora", "r=2")

    def test_adapters(self, made: Made, told: Refused, tmp_path: Path) -> None:
        adapter = tmp_path / "adapter"

        def fresh(**changes: object) -> Path:
            shutil.rmtree(adapter, ignore_errors=True)
            shutil.copytree(made.adapter, adapter)
            config = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
            (adapter / "adapter_config.json").write_text(json.dumps(config | changes))
            return adapter

        away = fresh(base_model_name_or_path="somebody/gpt2")
        assert "names 'somebody/gpt2', which is no folder here" in told("--model", away)
        assert "names none" in told("--model", fresh(base_model_name_or_path=None))
        (fresh() / "adapter_config.json").write_text("{")
        assert "cannot be read" in told("--model", adapter)
        (adapter / "adapter_config.json").write_text("[]")
        assert "expected an object" in told("--model", adapter)
        (fresh() / "adapter_model.safetensors").unlink()
        assert "no adapter_model.safetensors" in told("--model", adapter)

    def test_training_files(self, told: Refused, tmp_path: Path) -> None:
        rows = tmp_path / "rows.jsonl"
        assert "cannot be read" in told(defense=f"as_is:training={rows}")
        rows.write_text('{"text": "fine"}\n{"input_ids": [1], "labels": [1, 2]}\n')
        assert f"{rows}:2: needs a 'text'" in told(defense=f"as_is:training={rows}")


@pytest.mark.parametrize("what", ["cut short", "of another base"])
def test_an_adapter_that_does_not_fit(
    made: Made, refused: Refused, tmp_path: Path, what: str
) -> None:
    adapter, base = tmp_path / "adapter", BASE
    shutil.copytree(made.adapter, adapter)
    weights = adapter / "adapter_model.safetensors"
    if what == "cut short":
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        base = narrow(tmp_path / "base")
    words = command(made, tmp_path / "out", "--model", adapter, defense=f"as_is:base={base}")
    why = {"cut short": "or cut short (inc", "of another base": "has other weights"}[what]
    assert why in refused(*words)


def test_the_manifest_is_not_needed_to_read_the_results(alone: Path, audit: Audit) -> None:
    code, out, _ = audit("report", alone, "--format", "html")
    assert code == 0 and out.strip().endswith("report.html")
    assert audit("gate", alone)[0] in (0, 1)
