"""Releases of text: what is written, what it promises, who reads it, and texts of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import api
from audit.contract import toys
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.predictor import Answer
from audit.measure.bench import Bench
from audit.measure.publish import _sampled as sampled
from audit.measure.publish import publish
from audit.models.loading import describe, load_tokenizer
from audit.plan.plan import Plan
from audit.plan.text import Text
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.run.limitations import not_tested
from audit.train.publication import Publication
from audit.train.train import workers_for
from audit.verify import verify
from tests import builders

N, T, BUDGET = 9, 12, 40
CAPPED = f"capped_submix:k=2,budget={BUDGET}"


def planned(corpus: Path, **more: Any) -> Plan:
    given = {
        "defense": [CAPPED, "none"],
        "attack": ["copies", "ngram", "membership"],
        "release": f"text:texts={N},tokens={T}",
        "planting": {"users": 8, "kinds": ["code", "record"]},
    }
    return builders.planned(corpus, **{**given, **more})


def run(plan: Plan, path: Path) -> dict[str, Any]:
    builders.run_of(plan, path)
    read: dict[str, Any] = json.loads((path / "results.json").read_text("utf-8"))
    return read


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builders.hellos(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def ran(corpus: Path) -> tuple[Path, dict[str, Any]]:
    return corpus.parent / "run", run(planned(corpus), corpus.parent / "run")


def releases(document: dict[str, Any]) -> dict[str, Any]:
    return {release["defense"]: release for release in document["releases"]}


def written(folder: Path) -> Iterator[list[str]]:
    for path in sorted(folder.glob("stages/session-*.json")):
        seen = json.loads(path.read_text("utf-8"))["seen"]
        if "texts" in seen:
            yield seen["texts"]


def fewest_tokens(text: str) -> int:
    """The least number of tokens that a text can be sampled as; its encoding may have more."""
    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    pieces = {tokenizer.decode([token]) for token in range(len(tokenizer.vocabulary()))}
    longest = max(map(len, pieces))
    fewest = [0]
    for end in range(1, len(text) + 1):
        begins = range(max(0, end - longest), end)
        fewest.append(1 + min(fewest[i] for i in begins if text[i:end] in pieces))
    return fewest[-1]


def test_every_release_writes_as_many_texts_as_stated_or_as_its_budget_allows(
    ran: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = ran
    counts = sorted(len(texts) for texts in written(folder))
    assert counts == [BUDGET // T, N, N, N]  # the service; its mixture, none and public
    lengths = [fewest_tokens(text) for texts in written(folder) for text in texts]
    assert 2 < max(lengths) <= T
    sessions = releases(document)["capped_submix"]["sessions"]
    (own,) = [s for s in sessions if s["purpose"] == "text"]
    assert own["queries"] == own["answered"] == (BUDGET // T) * T <= BUDGET
    assert own["remaining"] == BUDGET - own["queries"]


def test_a_text_ends_at_its_stop_token_and_counts_in_full() -> None:
    class Ends:
        tokenizer, max_length, remaining = toys.CharacterTokenizer(), 64, None

        def generate(self, prompts: list[list[int]], length: int) -> list[Answer]:
            tokens = (
                *self.tokenizer.encode("hi"),
                self.tokenizer.stop,
                *self.tokenizer.encode("x"),
            )
            nothing = np.zeros(length)
            return [Answer(tokens, nothing, nothing > 0, answered=length) for _ in prompts]

    writer: Any = Ends()
    assert sampled(writer, Text(texts=3, tokens=4), "mine") == (["hi"] * 3, 12)


def test_texts_promise_what_their_writer_does(
    ran: tuple[Path, dict[str, Any]], corpus: Path, tmp_path: Path
) -> None:
    texts = dict(releases(ran[1])["capped_submix"]["guarantee"])
    bare = {"defense": [CAPPED], "references": False, "attack": ["ngram"]}
    served = run(planned(corpus, release="as_defended", **bare), tmp_path / "served")
    service = releases(served)["capped_submix"]["guarantee"]
    assert texts.pop("release") == "text" and service.pop("release") == "predictions"
    *conditions, last = texts.pop("conditions")
    assert conditions == service.pop("conditions")
    assert f"only {BUDGET // T} texts of at most {T} tokens are published" in last
    assert texts == service


def test_every_finding_needs_the_texts_and_no_more(ran: tuple[Path, dict[str, Any]]) -> None:
    for release in ran[1]["releases"]:
        assert release["guarantee"]["release"] == "text"
        assert {f["access"] for f in release["findings"]} == {"text"}
        assert not any(f["stronger_than_release"] for f in release["findings"])
        asked = [s for s in release["sessions"] if s["purpose"] in ("copies", "ngram")]
        assert [s["queries"] for s in asked] == [0, 0]


def test_a_warning_says_who_wrote_fewer_texts_than_the_references(
    ran: tuple[Path, dict[str, Any]],
) -> None:
    said = [line for line in ran[1]["warnings"] if "its budget lasts" in line]
    assert [line.partition(",")[0] for line in said] == [
        f"capped_submix: its budget lasts for {BUDGET // T} of {N} texts"
    ]
    assert not any("the public model wrote" in line for line in ran[1]["warnings"])


@pytest.mark.slow
def test_a_warning_says_what_the_public_model_wrote(corpus: Path, tmp_path: Path) -> None:
    """Two batches that answer 8 tokens each write one text of 12: its last 4 are not theirs."""
    writer = "invisible_ink_prompts:references=4,tokens=8,longest=16"
    bare = {"defense": [writer], "references": False, "attack": ["copies"]}
    read = run(planned(corpus, **bare), tmp_path / "out")
    (said,) = [line for line in read["warnings"] if "the public model wrote" in line]
    assert said.startswith("invisible_ink_prompts: the public model wrote 4 of the 12 tokens")


def test_it_verifies(ran: tuple[Path, dict[str, Any]]) -> None:
    assert verify(ran[0]).differences == ()


def test_no_session_but_the_writers_asks_the_service(ran: tuple[Path, dict[str, Any]]) -> None:
    rows = [json.loads(line) for line in (ran[0] / "ledger.jsonl").read_text("utf-8").splitlines()]
    assert {row["session"] for row in rows} == {f"{CAPPED}/text"}


def published(plan: Plan, path: Path) -> dict[str, Publication]:
    """Publishes as a run does; what the folder holds is loaded."""
    folder = RunFolder(path, plan.hash)
    prepared = prepare(plan, folder.stages)
    with workers_for(prepared.trainings, 1) as place:
        bench = Bench(prepared, folder)
        return dict(publish(bench, place, lambda label, share: None).run.published)


def test_readers_learn_from_the_texts_alone_and_start_from_the_public_model(
    ran: tuple[Path, dict[str, Any]], corpus: Path
) -> None:
    plan = planned(corpus)
    made = published(plan, ran[0])
    assert len(made) == 4
    for one in made.values():
        training = one.written.reader.training
        assert training.texts == one.written.texts in list(map(tuple, written(ran[0])))
        assert training.heldout == tuple(r.text for r in plan.corpus.of("heldout"))
        assert one.written.reader.base == plan.model


def test_another_number_of_texts_is_another_session(
    ran: tuple[Path, dict[str, Any]], corpus: Path, tmp_path: Path
) -> None:
    """Texts under one key are one session's, whatever folder they are found in."""
    shutil.copytree(ran[0], tmp_path / "more")
    plan = planned(corpus, release=f"text:texts={N + 1},tokens={T}", defense=["none"])
    texts = published(plan, tmp_path / "more")["none"].written.texts
    assert len(texts) == N + 1
    assert texts[:N] not in list(map(tuple, written(ran[0])))


@pytest.mark.parametrize("lost", [pytest.param("readers", marks=pytest.mark.slow), "sessions"])
def test_a_killed_run_ends_with_the_same_texts_and_results(
    ran: tuple[Path, dict[str, Any]], corpus: Path, tmp_path: Path, lost: str
) -> None:
    folder, before = tmp_path / "again", list(written(ran[0]))
    shutil.copytree(ran[0], folder)
    (folder / "results.json").unlink()
    patterns = {"readers": "stages/trained-*", "sessions": "stages/session-*"}
    for path in folder.glob(patterns[lost]):
        path.unlink()
    run(planned(corpus), folder)
    assert builders.comparable(folder) == builders.comparable(ran[0])
    assert list(written(folder)) == before


def test_texts_are_handed_over_with_their_promise(
    ran: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    assert api.export(ran[0], "capped_submix", tmp_path / "out").startswith("3 texts in ")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"texts.jsonl", "guarantee.json"}
    lines = (tmp_path / "out" / "texts.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] in list(written(ran[0]))
    promise = json.loads((tmp_path / "out" / "guarantee.json").read_text("utf-8"))
    assert promise["guarantee"]["release"] == "text"


def test_a_budget_below_one_text_and_a_text_beyond_the_model_are_refused_before_training(
    corpus: Path,
) -> None:
    planned(corpus, release="text:texts=1,tokens=40")
    with pytest.raises(UsageError, match=r"answers 40 queries, and a text of 41 tokens"):
        planned(corpus, release="text:texts=1,tokens=41")
    planned(corpus, release="text:texts=1,tokens=255", defense=["none"])
    with pytest.raises(UsageError, match=r"tokens is 256, but the model reads"):
        planned(corpus, release="text:texts=1,tokens=256", defense=["none"])


def test_a_text_has_by_default_what_training_reads_after_the_start_token(corpus: Path) -> None:
    """A model that reads 64 tokens writes 63 after its start token."""
    short = planned(corpus, release="text", defense=["none"], training={"max_length": 50})
    assert short.text == Text(texts=8, tokens=49)


def test_a_reader_never_starts_from_the_model_that_wrote_the_texts(
    planted: Path, tmp_path: Path
) -> None:
    """It would leak what that model knows, whatever the texts say."""
    with pytest.raises(UsageError, match="name the base with as_is:base=DIR"):
        audited(planted, EMBEDDED_FOLDER / "public_model", tmp_path / "out", release="text:texts=1")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("txt", "did you mean"),
        ("text:n=3", "takes each of texts and tokens once"),
        ("text:texts=3,texts=4", "takes each of texts and tokens once"),
        ("text:texts=0", "must be at least 1"),
        ("text:tokens=many", "expected a whole number"),
        ("as_defended:texts=3", "takes no numbers"),
    ],
)
def test_what_is_no_release_is_refused_in_one_line(corpus: Path, setting: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        planned(corpus, release=setting)
    assert "\n" not in str(caught.value)


def test_attacks_on_texts_alone_are_part_of_all_only_for_texts(corpus: Path) -> None:
    names = {
        release: {
            chosen.name
            for chosen in planned(corpus, release=release, attack=["all"], defense=["none"]).attacks
        }
        for release in ("text", "as_defended")
    }
    assert names["text"] - names["as_defended"] == {"copies", "ngram"}
    assert names["as_defended"] < names["text"]
    plan = planned(corpus, release="as_defended", attack=["all"], defense=["none"])
    (*rest, foreign) = not_tested(plan)
    assert foreign.startswith("what attacks of other kinds") and "copies" in foreign
    assert not any("attacks" in line and "not run" in line for line in rest)


def test_a_plan_without_texts_is_the_plan_it_was(corpus: Path) -> None:
    """The default release is not part of a plan's document."""
    assert "text" not in planned(corpus, release="as_defended").document
    assert planned(corpus).document["text"] == {"texts": N, "tokens": T}


def test_by_default_as_many_texts_as_records_to_train_on(corpus: Path) -> None:
    assert planned(corpus, release="text", defense=["none"]).text == Text(texts=8, tokens=64)


# as_is with a file of texts in the place of a model


@pytest.fixture(scope="module")
def planted(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others")
    given = {"count": 30, "repetitions": "2", "seed": 5}
    api.plant(str(corpus), folder / "p.jsonl", folder / "m.json", **given)
    rows = [json.loads(line) for line in (folder / "p.jsonl").read_text("utf-8").splitlines()]
    texts = [json.dumps({"text": row["text"]}) for row in rows]
    (folder / "leaky.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def audited(planted: Path, texts: str | Path, out: Path, **more: Any) -> Any:
    return api.run(
        defense="as_is",
        attack=["copies"],
        model=planted / texts,
        secrets=planted / "m.json",
        training={"epochs": 1},
        output=out,
        format=["json"],
        workers=1,
        **more,
    )


@pytest.mark.slow
def test_planted_values_in_them_are_found(planted: Path, tmp_path: Path) -> None:
    results = audited(planted, "leaky.jsonl", tmp_path / "out", corpus=planted / "p.jsonl")
    named = {release.defense: release for release in results.releases}
    assert set(named) == {"as_is", "none", "public"}
    found = {f.metric: f for f in named["as_is"].findings}
    assert found["copied_code"].value == 1.0 and found["copied_code"].leaked == "leak"
    assert found["copied_code"].control is not None
    assert found["copied_code"].control.value == 0.0
    assert named["as_is"].guarantee.release == "text"
    assert named["public"].guarantee.release == "text"
    (own,) = [s for s in named["none"].sessions if s.purpose == "text"]
    lines = (planted / "leaky.jsonl").read_text("utf-8").splitlines()
    assert own.queries % len(lines) == 0  # references write as many


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1: is no object with a string `text`"),
        (b'{"text": ""}\n', "holds no text"),
        (b'{"text": "a"}\n{"txt": "b"}\n', "line 2: is no object"),
        (b'{"text": 3}\n', "line 1: is no object"),
        (b'{"text": "\\ud800"}\n', "line 1: is no object"),
        (b"[" * 100_000, "line 1: is no object"),
        (b'{"text": "\xff"}\n', "cannot be read as UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(
    planted: Path, tmp_path: Path, content: bytes, words: str
) -> None:
    (planted / "bad.jsonl").write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        audited(planted, "bad.jsonl", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_more_than_is_stated_is_refused(planted: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="texts, more than the 3 that --release states"):
        audited(planted, "leaky.jsonl", tmp_path / "out", release="text:texts=3")
    with pytest.raises(UsageError, match="tokens in a text, more than the 2"):
        audited(planted, "leaky.jsonl", tmp_path / "out", release="text:tokens=2")
