"""Whole audits of a served model, as a user runs them."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.predictor import Access
from audit.measure.rehearsal import Rehearsal
from audit.models.endpoint.session import EndpointSession
from audit.plan.resolve import resolve
from audit.results.folder import RunFolder
from audit.silence.shown import UNLIT
from tests import command_line

FOLDER = EMBEDDED_FOLDER / "public_model"
KEY = "sk-31d07be2"
RUN = ("--device", "cpu", "--workers", "1", "--format", "json")


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """A folder with m.json, planted.jsonl, which nobody trained on, and few.jsonl, which has only
    four held-out records."""
    folder = tmp_path_factory.mktemp("planted")
    api.plant("helpdesk", folder / "planted.jsonl", folder / "m.json", count=8, seed=4)
    lines = (folder / "planted.jsonl").read_text("utf-8").splitlines(keepends=True)
    split = [json.loads(line).get("split", "private") for line in lines]
    heldout = [line for line, name in zip(lines, split, strict=True) if name == "heldout"]
    private = [line for line, name in zip(lines, split, strict=True) if name == "private"]
    (folder / "few.jsonl").write_text("".join(private + heldout[:4]))
    return folder


@pytest.fixture(scope="module", autouse=True)
def few_others():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.silence.weights.EACH", 128)  # tests/silence compares with 1,250
        yield


def audited(url, planted, *words, given=f"base={FOLDER}", attacks=("membership",), **place):
    """(exit code, stdout, stderr) of `audit run --defense as_is`; place: as of the command line."""
    chosen = [word for name in attacks for word in ("--attack", name)]
    defense = f"as_is:{given}" if given else "as_is"
    said = ["run", "--defense", defense, "--model", url, *chosen, *RUN]
    said += ["--secrets", planted / "m.json", "--no-references", *words]
    done = command_line.audit(*said, **place)
    return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True)
class Whole:
    """The folder of an audit that was not disturbed, and what its server saw of it."""

    path: Path
    seen: dict[str, Any]


@pytest.fixture(scope="module")
def whole(process, planted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    process.switch()
    assert audited(process.url, planted, "--output", "r", cwd=folder)[0] == 0
    return Whole(folder / "r", process.seen)


@pytest.fixture
def run(server, planted, tmp_path, monkeypatch):
    """run(*words, model=…, given=…): as `audited`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words, model=None, **more: audited(model or server.url, planted, *words, **more)


def results(folder):
    return json.loads((Path(folder) / "results.json").read_text("utf-8"))


def findings(folder):
    (release,) = results(folder)["releases"]
    return {(f["attack"], f["metric"]): f for f in release["findings"]}


def told(folder):
    """All that a run says, but for how long it took."""
    document = results(folder)
    document["environment"] = None
    for release in document["releases"]:
        release["cost"]["seconds"] = None
    return document


@pytest.mark.slow
def test_scores_there_are_scores_here(run, finished):
    attacks = ("membership", "name_leak:generations=2,length=4")
    assert run("--output", "here", model=str(finished), attacks=attacks)[0] == 0
    code, out, _ = run("--output", "there", attacks=attacks)
    assert code == 0 and out.splitlines()[-1] == "there/results.json"
    here, there = findings("here"), findings("there")
    compared = 0
    for key, finding in there.items():
        if "min_k_plus_plus" in key[1]:
            assert finding["leaked"] == "not measured"
            assert here[key]["value"] is not None
        elif key[1] != "r_name":  # that is sampled
            if finding["silence"]:
                sights = [f["silence"].pop("sight")["by"] for f in (finding, here[key])]
                assert sights[0] == UNLIT and "in a copy of" in sights[1]  # trained here
            assert (key, finding) == (key, here[key])
            compared += finding["value"] is not None
    assert compared >= 8


# what cannot be measured


@pytest.mark.slow
def test_top_n_is_no_distribution(run):
    run("--output", "r", attacks=("membership", "extraction:generations=2", "exposure:samples=5"))
    said = " ".join(results("r")["warnings"])
    assert "tiny: its weights were not seen" in said
    assert "exact ranks of exposure, searched codes and Min-K%++ were not measured" in said
    assert "only generations" not in said
    found = {metric: f["leaked"] for (_, metric), f in findings("r").items()}
    assert found["searched_recall"] == found["record_min_k_plus_plus_auc"] == "not measured"
    assert found["record_loss_auc"] != "not measured"


@pytest.mark.parametrize(
    "dialect", ["llama.cpp", pytest.param("transformers", marks=pytest.mark.slow)]
)
def test_generations_only(run, server, planted, dialect):
    server.switch(dialect=dialect)
    given = f"base={FOLDER},retries=0"
    attacks = ("membership", "extraction:generations=3", "name_leak:generations=3,length=4")
    words = ("--output", "r", "--corpus", planted / "few.jsonl", "--format", "json,html")
    code, _, err = run(*words, given=given, attacks=attacks)
    assert code == 0, err
    said = " ".join(results("r")["warnings"])
    assert "tiny: the endpoint gives no log-probabilities of a prompt: only generations" in said
    assert "Min-K%++" not in said
    found = findings("r")
    assert found["extraction:generations=3", "hit_rate"]["n"] == 3
    measured = {f["access"] for f in found.values() if f["value"] is not None}
    assert measured == {"generate"}
    (release,) = results("r")["releases"]
    assert "bleu4" in release["utility"] and "perplexity" not in release["utility"]
    assert all(session["queries"] == session["answered"] for session in release["sessions"])
    assert "would read those prompts as other tokens" not in said


def test_prompts_that_text_cannot_carry_are_counted(run, server, monkeypatch):
    server.switch(dialect="transformers")
    real = EndpointSession._written

    def some(self, prompt):
        return None if sum(prompt) % 2 else real(self, prompt)

    monkeypatch.setattr(EndpointSession, "_written", some)
    assert run("--output", "r", attacks=("name_leak:generations=20,length=4",))[0] == 0
    (release,) = results("r")["releases"]
    queries, answered = (sum(s[of] for s in release["sessions"]) for of in ("queries", "answered"))
    assert answered < queries
    left = f"{queries - answered:,} of {queries:,} tokens were not requested"
    assert left in " ".join(results("r")["warnings"])


def test_with_no_more_than_a_tokenizer(run, whole, tmp_path):
    folder = tmp_path / "tokens"
    folder.mkdir()
    for file in FOLDER.glob("tokenizer*"):
        shutil.copy(file, folder)
    code, _, err = run("--output", "r", given=f"tokenizer={folder},context=256")
    assert code == 0, err
    with_base, without = findings(whole.path), findings("r")
    assert ("membership", "record_ratio_auc") in with_base
    assert ("membership", "record_ratio_auc") not in without
    key = ("membership", "record_loss_auc")
    assert without[key]["value"] == with_base[key]["value"]
    assert any("no base was named" in line for line in results("r")["warnings"])
    code, _, err = run("--defense", "public", given=f"tokenizer={folder}")
    assert code == 2 and "public: can be trained beside an external model only with its base" in err


# names only


def test_neither_key_nor_host_is_written_but_a_name(run, server, whole, tmp_path):
    server.switch(key=KEY)
    given, attacks = f"base={FOLDER},served=tiny", ("membership", "extraction:generations=2")
    code, out, err = run("--output", "r", given=given, attacks=attacks, AUDIT_API_KEY=KEY)
    assert code == 0 and KEY not in out + err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "answers.jsonl" for path in files)
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
        assert b"127.0.0.1" not in path.read_bytes(), path
    stages = tmp_path / "r" / "stages"
    assert stages.stat().st_mode & 0o777 == 0o700
    assert (stages / "answers.jsonl").stat().st_mode & 0o777 == 0o600
    document = results("r")
    assert document["plan"]["finished"]["name"] == "tiny"
    assert "--model tiny --secrets" in document["reproduce"]
    unnamed = results(whole.path)
    assert unnamed["plan"]["finished"]["name"] == "v1"
    for one in (document, unnamed):
        assert one["releases"][0]["parameters"]["served"] == "tiny"


# the plan


def plan(planted, model, given=""):
    return resolve(
        {
            "defense": (f"as_is:base={FOLDER}{given}",),
            "attack": ("membership",),
            "model": model,
            "secrets": str(planted / "m.json"),
            "device": "cpu",
        }
    )


def test_pace_is_not_in_the_plan(planted):
    one = plan(planted, "http://a:1/v1")
    assert plan(planted, "http://a:1/v1", ",rate=3,retries=9,timeout=5").hash == one.hash
    assert plan(planted, "http://a:1/v1", ",context=100").hash != one.hash
    assert plan(planted, "http://a:1/v1", ",served=big").hash != one.hash
    assert one.model.max_length == 254  # the base's 256, less what is scored last and said


UNPLANNED = [
    (None, "", "as_is: a served model is read with the tokenizer of its base"),
    (None, f"base={FOLDER},tokenizer={FOLDER}", "give one of the two"),
    (None, "tokenizer=nowhere", "nowhere: no tokenizer files"),
    (None, f"base={FOLDER},rate=0", "as_is: rate is 0.0"),
    (None, f"base={FOLDER},timeout=inf", "as_is: timeout is inf"),
    (None, f"base={FOLDER},retries=-1", "as_is: retries is -1"),
    (None, f"base={FOLDER},context=2", "as_is: context is 2"),
    (None, f"base={FOLDER},words=499", "as_is: words is 499"),
    (str(FOLDER), "words=500", "as_is: words is for a model behind a URL"),
    (str(FOLDER), "served=tiny", "as_is: served is for a model behind a URL"),
    (str(FOLDER), f"tokenizer={FOLDER}", "as_is: tokenizer is for a model behind a URL"),
    ("http://me:pw@h/v1", f"base={FOLDER}", "AUDIT_API_KEY"),
    ("http://", f"base={FOLDER}", "http://: has no host"),
]


def test_what_cannot_be_planned_is_one_line(run, server):
    for model, given, line in UNPLANNED:
        code, out, err = run(model=model, given=given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("audit: ") and line in err
    assert server.seen["paths"] == []


# a dry run


def test_a_dry_run_counts_and_asks_nothing(run, server, whole):
    code, out, _ = run("--dry-run", given=f"base={FOLDER},rate=2")
    assert code == 0
    assert server.seen["paths"] == []
    told = re.search(
        r"where it gives log-probabilities of a prompt: ([\d,]+) requests, ([\d,]+) prompt", out
    )
    requests, tokens = (int(number.replace(",", "")) for number in told.groups())
    # without scores, only whether it samples is looked at: 8 openings twice, 32 tokens each
    assert re.search(r"does not: 16 requests, \d+ prompt tokens, at most 512 generated", out)
    assert f"at 2 requests a second at least {requests / 120:,.1f} minutes" in out
    probes = 3
    assert len(whole.seen["asked"]) - probes == requests
    kept = (whole.path / "stages" / "answers.jsonl").read_text("utf-8").splitlines()
    answers = [a for line in kept if isinstance(a := json.loads(line)["answer"], dict)]
    read = sum(a["usage"]["prompt_tokens"] for a in answers if "usage" in a)
    probed = sum(a["usage"]["prompt_tokens"] for a in answers[:probes] if "usage" in a)
    assert read - probed == tokens


def test_a_text_scored_again_is_not_requested(local):
    played = Rehearsal(local.tokenizer, 1024, 64, Access.SCORE)
    played.score([[0], [0, 1], [0]], [[1, 2], [2], [3]])  # the first two are one text
    played.score([[0]], [[3]])
    played.generate([[0], [0]], 5)  # each a text of its own
    assert (played.requests, played.prompt_tokens, played.generated_tokens) == (4, 7, 12)


# failures, and what comes after


FAILING = [
    ({"fail": 429}, "retries=0", "HTTP 429 (it failed)"),
    ({"hang": 0.5}, "retries=0,timeout=0.05", "did not answer within 0.05 s"),
    ({"merge": 2}, "retries=0", "wrong tokenizer"),
    ({"key": "k"}, "retries=0", "AUDIT_API_KEY"),
    ({"garbage": "<html>"}, "retries=0", "no JSON object"),
    ({"garbage": "{}"}, "retries=0", "have not the form of the completions API"),
    ({}, "served=big", "serves tiny, and no 'big'"),
]


def test_a_failing_endpoint_is_one_line(run, server):
    for i, (switches, given, line) in enumerate(FAILING):
        server.switch(**switches)
        code, out, err = run("--output", f"r{i}", given=f"base={FOLDER},{given}")
        lines = [text for text in err.splitlines() if not text.startswith("[")]  # progress apart
        assert (code, out, len(lines)) == (2, "", 1), err
        assert lines[0].startswith("audit: ") and line in lines[0]
        time.sleep(0.6 if "hang" in switches else 0)


@pytest.mark.slow
def test_a_failed_run_goes_on_where_it_was(run, server):
    attacks = ("extraction:generations=6", "name_leak:generations=1,length=4,decoys=2")
    failures = (3, 10)
    assert run("--output", "whole", attacks=attacks)[0] == 0
    whole = server.seen["answered"]
    assert len(whole) == len(set(whole)) > sum(failures)
    answered = []
    for healthy in failures:
        server.switch(fail=500, healthy=healthy)
        given = f"base={FOLDER},retries=0,rate={healthy * 1000}"
        code, _, err = run("--output", "r", given=given, attacks=attacks)
        assert code == 2 and "HTTP 500" in err
        answered += server.seen["answered"]
    server.switch()
    assert run("--output", "r", attacks=attacks)[0] == 0
    answered += server.seen["answered"]
    assert sorted(answered) == sorted(whole)
    assert told("r") == told("whole")


def test_answers_are_known_to_the_next_process(tmp_path):
    folder = RunFolder(tmp_path, "hash")
    with folder.held({}):
        journal = folder.journal("one")
        assert journal.recall("question") is None
        journal.keep("question", {"a": 0.1})
        assert journal.recall("question") == {"a": 0.1}
        assert journal.recall("another") is None
        path = folder.stages / "answers.jsonl"
        path.write_bytes(path.read_bytes() + b'{"question": "torn", "ans')
        later = folder.journal("two")
        assert later.recall("question") == {"a": 0.1}
        later.keep("more", 1)
        assert folder.journal("three").recall("more") == 1
        assert folder.journal("three").recall("torn") is None
        path.write_text("}{\n")
        with pytest.raises(UsageError, match="is damaged; remove it to ask again"):
            folder.journal("four").recall("question")
