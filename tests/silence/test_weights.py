"""Contact with weights that were trained elsewhere, on a model that has memorised its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.release import ModelRelease
from audit.core.terms import Shown
from audit.measure.bench import Bench
from audit.measure.release import measure_release
from audit.measure.releases import audited_of, public_model
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.plan.resolve import resolve
from audit.plan.source import External, PlantedElsewhere
from audit.planting.beacons import Beacon
from audit.planting.manifest import Manifest
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.silence import sightings, weights
from audit.silence.learnt import Gain
from audit.silence.weights import contact
from defenses.training.stated_claim import UNKNOWN

PUBLIC = describe("embedded", EMBEDDED_FOLDER)


class Kept:
    """A folder that keeps one stage in memory, as JSON would be, under whatever name."""

    def __init__(self) -> None:
        self.stages: list[Any] = []

    def stored(self, key: str, make: Callable[[], Any]) -> Any:
        if not self.stages:
            self.stages.append(make())
        return self.stages[0]


def opened(path: Path) -> CausalLM:
    folder = describe(str(path), EMBEDDED_FOLDER)
    return CausalLM(load_weights(folder, "cpu"), load_tokenizer(PUBLIC), PUBLIC.max_length)


@pytest.fixture(scope="module")
def base() -> CausalLM:
    return opened(PUBLIC.path)


@pytest.fixture(scope="module")
def memorised(made: Any) -> CausalLM:
    return opened(made.whole)


@pytest.fixture(scope="module")
def look() -> Kept:
    """What was seen of the memorised model, which no training file changes."""
    return Kept()


def audited(
    made: Any,
    model: CausalLM,
    base: CausalLM,
    training: Path | None,
    manifest: Manifest | None = None,
    folder: Kept | None = None,
) -> tuple[Any, Any]:
    """The bench and the release of a model, as far as contact reads them."""
    external = External("m", "a" * 64, True, training, "b" * 64)
    source = PlantedElsewhere(manifest or made.planted, external)
    planted = source.plant(Corpus("dialogs", ()), 0, len)
    plan = SimpleNamespace(source=source, model=PUBLIC, seed=0, device="cpu", threads=1)
    run = SimpleNamespace(
        plan=plan,
        tokenizer=load_tokenizer(PUBLIC),
        planted=planted,
        coverage=source.coverage(planted, load_tokenizer(PUBLIC), PUBLIC.max_length),
    )
    release = ModelRelease(model, UNKNOWN)
    one = SimpleNamespace(release=release, public=base, label="as_is", determined=("as_is", {}, ()))
    return SimpleNamespace(run=run, folder=folder or Kept()), one


@pytest.mark.slow
def test_memorised_model_shows_its_sentences(
    made: Any, memorised: CausalLM, base: CausalLM, look: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences are the first of 1,250 each; with values of enough people they are contact.

    Not where values are known, too, as attacks do not ask: here it was trained without start token.
    """
    monkeypatch.setattr("audit.silence.accounts.PEOPLE", 5)
    bench, one = audited(made, memorised, base, made.corpus, folder=look)
    assert "attacks do not ask so" in contact(bench, one)["code"].by
    monkeypatch.setattr("audit.silence.behind.LEVEL", 0.0)
    found = contact(bench, one)
    assert {kind: link.state for kind, link in found.items()} == {
        "code": Shown.SHOWN, "id": Shown.SHOWN, "name": Shown.SHOWN, "record": Shown.NOT_SHOWN,
    }  # fmt: skip
    assert "values as stated by t.jsonl" in found["code"].by
    assert "only beacons or a leak" in found["record"].by
    assert contact(bench, one) == found


@pytest.mark.slow
def test_few_people_are_not_contact(
    made: Any, memorised: CausalLM, base: CausalLM, look: Kept
) -> None:
    found = contact(*audited(made, memorised, base, made.corpus, folder=look))
    assert found["code"].state == Shown.NOT_SHOWN
    assert "plant more" in found["code"].by


@pytest.mark.slow
def test_sentences_without_training_file_are_not_contact(
    made: Any, memorised: CausalLM, base: CausalLM, look: Kept
) -> None:
    found = contact(*audited(made, memorised, base, None, folder=look))
    assert found["code"].state == Shown.NOT_SHOWN
    assert "Whether the values were is not known" in found["code"].by


def with_beacons(manifest: Manifest, learnt: bool) -> Manifest:
    """State two codes as beacons: two that the model knows best, or two that it never read."""
    there = manifest.coins.planted if learnt else manifest.coins.twin
    codes = [one for one in manifest.secrets if one.kind == "code"]
    lit = [one for one in codes if there(one)][3:5]
    beacons = tuple(
        Beacon("code", c.prefix, c.value, c.suffix, c.space, (f"{c.value} a", f"{c.value} b"))
        for c in lit
        if c.space is not None
    )
    sentences = {"code": manifest.sentences["code"]}
    return replace(manifest, secrets=(*codes,), sentences=sentences, stems={}, beacons=beacons)


@pytest.mark.slow
def test_beacons_beside_the_sentence_need_a_file(
    made: Any, memorised: CausalLM, base: CausalLM
) -> None:
    """A scrubber may keep what many users wrote, and mask the values of single ones."""
    manifest = with_beacons(made.planted, True)
    found = contact(*audited(made, memorised, base, None, manifest))
    assert found["code"].state == Shown.NOT_SHOWN
    assert "whether text of one user did is not known" in found["code"].by


@pytest.mark.parametrize("learnt", [True, False])
def test_scores_of_weights_rank_beacons(
    made: Any, learnt: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every score sees two codes that were memorised, and none two that were not."""
    monkeypatch.setattr(sightings, "OTHERS", 199)
    given = {"defense": ["as_is"], "attack": ["membership"], "model": str(made.whole)}
    plan = resolve({**given, "secrets": str(made.manifest), "device": "cpu"})
    run = prepare(plan, tmp_path / "stages")
    source: Any = plan.source
    source = replace(source, manifest=with_beacons(made.planted, learnt))
    run = replace(run, plan=replace(plan, source=source))
    folder = RunFolder(tmp_path, plan.hash)
    folder.stages.mkdir()
    (one,) = audited_of(run, next(iter(run.tasks)), public_model(run))
    bench = Bench(run, folder)
    seen = sightings.sight(bench, one, measure_release(bench, one).attacked)
    assert set(seen) == {(attack, metric) for attack, metric in seen if metric.startswith("span_")}
    state = Shown.SHOWN if learnt else Shown.NOT_SHOWN
    assert seen["membership", "span_loss_auc"].state == state
    assert ("2 values that 2 users wrote" in seen["membership", "span_loss_top"].by) == learnt


def test_model_equal_to_its_base_has_no_contact(made: Any, base: CausalLM) -> None:
    found = contact(*audited(made, base, base, made.corpus))
    assert {link.by for link in found.values()} == {weights._EQUAL}
    assert {link.state for link in found.values()} == {Shown.NOT_SHOWN}


def test_scored_tokens_are_counted_before(
    made: Any, memorised: CausalLM, base: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dry run counts is what a look scores where all was learnt, and no less."""
    monkeypatch.setattr(weights, "EACH", 25)
    monkeypatch.setattr(weights, "OTHERS", 19)
    scored, of = [], Gain.of

    def counting(self: Gain, texts: Any, shared: int) -> Any:
        scored.append((len(texts), 2 * sum(len(text) - shared for text in texts)))
        return of(self, texts, shared)

    monkeypatch.setattr(Gain, "of", counting)
    bench, one = audited(made, memorised, base, made.corpus, with_beacons(made.planted, True))
    contact(bench, one)
    assert sorted(Counter(texts for texts, _ in scored).items()) == [(20, 2), (50, 1)]
    expected = weights.tokens_compared(bench.run)
    assert 0.9 * expected <= sum(tokens for _, tokens in scored) <= 1.15 * expected
