"""The spiked copy: a sound pipeline is shown to see memorised text, a blind one is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom

from audit.core.corpus import Corpus, Record
from audit.core.evidence import Scores
from audit.core.release import ModelRelease
from audit.core.terms import Shown
from audit.measure.bench import Bench
from audit.measure.releases import Audited, audited_of, public_model
from audit.models.causal import CausalLM
from audit.plan.resolve import resolve
from audit.plan.source import PlantedElsewhere
from audit.planting import manifest as manifests
from audit.planting.insertion import Canaries, plant_into
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.silence import memorise, reserve, spike
from audit.statistics import top_test
from tests.builders import BASE

CODES = ("membership", "span_loss_auc")
HITS = ("extraction:searched=0", "hit_rate")


@dataclass(frozen=True)
class Here:
    """A bench whose audited model is the embedded one, and that release."""

    bench: Bench
    one: Audited

    @property
    def model(self) -> CausalLM:
        release = self.one.release
        assert isinstance(release, ModelRelease) and isinstance(release.model, CausalLM)
        return release.model

    def of(self, model: CausalLM) -> Here:
        assert isinstance(self.one.release, ModelRelease)
        release = replace(self.one.release, model=model)
        # another model has another name, as its weights have another digest
        return Here(self.bench, replace(self.one, release=release, label=f"{id(model)}"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Here:
    folder = tmp_path_factory.mktemp("spike")
    corpus = Corpus("few", (Record("ann", "Good morning."), Record("bob", "Good evening.")))
    canaries = Canaries(kinds=("code",), count=80, repetitions=(1, 4))
    _, manifest = plant_into(corpus, canaries, seed=3)
    manifest = replace(manifest, key=bytes(32))  # the reserve is drawn by the whole manifest
    manifests.write(manifest, folder / "canaries.json")
    attacks = ["membership", "extraction:searched=0"]
    plan = resolve(
        {
            "defense": ["as_is"],
            "attack": attacks,
            "model": str(BASE),
            "secrets": str(folder / "canaries.json"),
        }
    )
    run = prepare(plan, folder / "run" / "stages")
    run_folder = RunFolder(folder / "run", plan.hash)
    run_folder.stages.mkdir(parents=True)
    (one,) = audited_of(run, *run.tasks, public_model(run))
    return Here(Bench(run, run_folder), one)


def test_sound_pipeline_is_shown(here: Here) -> None:
    links = spike.sight(here.bench, here.one)
    assert {CODES, HITS} <= set(links)
    assert links[CODES].state == links[HITS].state == Shown.SHOWN
    assert links[CODES].n == -(-sum(here.bench.run.planted.coins.present.values()) // 3)
    assert spike.sight(here.bench, here.one) == links
    (stage,) = here.bench.folder.stages.glob("spike-*.json")
    written = {path.name for path in here.bench.folder.path.rglob("*") if path.is_file()}
    assert written == {stage.name}  # no ledger and no samples


def test_copy_is_trained_to_the_same_weights(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memorise, "STEPS", 3)
    drawn = reserve.reserve_of(here.bench.run)
    first, again, other = (
        list(memorise.memorise(here.model, drawn.memorised, (), seed).model.inner.parameters())
        for seed in (1, 1, 2)
    )
    assert all(map(torch.equal, first, again)) and not all(map(torch.equal, first, other))


def headless(here: Here) -> CausalLM:
    """Return the model with a head of its own that is all zeros."""
    inner: Any = copy.deepcopy(here.model.inner)
    inner.config.tie_word_embeddings = False
    inner.lm_head.weight = torch.nn.Parameter(torch.zeros_like(inner.lm_head.weight))
    return replace(here.model, inner=inner)


class Apart:
    """A tokenizer that reads other digits where a text goes on after them."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.start, self.stop = inner, inner.start, inner.stop

    def encode(self, text: str) -> list[int]:
        turned = str.maketrans("0123456789", "7294061835")
        tokens: list[int] = self.inner.encode(text.translate(turned) if text[-1:] == "." else text)
        return tokens

    def decode(self, tokens: Any) -> str:
        text: str = self.inner.decode(tokens)
        return text

    def ends(self, text: str) -> list[int]:
        ends: list[int] = self.inner.ends(text)
        return ends


def apart(here: Here) -> CausalLM:
    return replace(here.model, tokenizer=Apart(here.model.tokenizer))


@pytest.mark.parametrize("blind", [headless, pytest.param(apart, marks=pytest.mark.slow)])
def test_blind_model_is_not_shown(
    here: Here, blind: Callable[[Here], CausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memorise, "RATE", 6e-3)  # as the next test, which learns at this rate
    monkeypatch.setattr(memorise, "STEPS", 32)
    links = spike.sight(here.bench, here.of(blind(here)).one)
    assert links
    assert {link.state for link in links.values()} == {Shown.NOT_SHOWN}


@pytest.mark.slow
def test_trained_head_would_hide_its_fault(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained whole, with its head, the copy of a model without a head learns one."""
    monkeypatch.setattr(memorise, "RATE", 6e-3)
    monkeypatch.setattr(memorise, "STEPS", 32)
    monkeypatch.setattr(memorise, "_without_ends", lambda model, weights: list(weights))
    links = spike.sight(here.bench, here.of(headless(here)).one)
    assert links[CODES].state == Shown.SHOWN


def test_constant_scores_are_not_shown(here: Here) -> None:
    drawn = reserve.reserve_of(here.bench.run)
    (membership, *_) = here.bench.run.plan.attacks
    case = spike._case(here.bench.run, here.one, membership, drawn)
    constant = Scores("loss", "span", np.zeros(len(case.secrets)), kind="code")
    p_values = spike.p_values([constant], case)
    members, others = map(len, case.sides(constant.values))
    every, top = members + others, int((members + others) * Fraction(1, 8))
    among = members * top // every  # of a tie at the cut, each side has its part, rounded down
    by_hand = hypergeom.sf(among - 1, every, members, top)
    assert p_values.pop("span_loss_top") == pytest.approx(by_hand, abs=1e-6)
    choice = p_values.pop("span_choice")  # equal pairs are chosen by lots
    assert choice is not None and choice > 0.1
    assert set(p_values.values()) == {1.0}
    told = np.array([case.coins.planted(s) for s in case.secrets], dtype=float)
    perfect = spike.p_values([replace(constant, values=told)], case)
    assert perfect["span_loss_auc"] is not None and perfect["span_loss_auc"] < spike.LEVEL


def test_reserve_is_like_the_planted(here: Here) -> None:
    run = here.bench.run
    drawn, planted = reserve.reserve_of(run), run.planted
    assert len(drawn.secrets) == len(planted.secrets)
    assert [s.copies for s in drawn.secrets] == [s.copies for s in planted.secrets]
    assert {(s.prefix, s.suffix, s.space) for s in drawn.secrets} == {
        (s.prefix, s.suffix, s.space) for s in planted.secrets
    }
    assert sum(drawn.coins.present.values()) == sum(planted.coins.present.values())
    assert not {(s.kind, s.value) for s in drawn.secrets} & {
        (s.kind, s.value) for s in planted.secrets
    }
    assert {s.copies for s in drawn.memorised} == {1, 4}
    assert all(drawn.coins.planted(s) for s in drawn.memorised)
    assert not {s.owner for s in drawn.memorised} & {s.owner for s in drawn.controls}
    other = replace(run, plan=replace(run.plan, seed=run.plan.seed + 1))
    assert reserve.reserve_of(other).secrets != drawn.secrets
    source = run.plan.source
    assert isinstance(source, PlantedElsewhere)
    again = replace(source, manifest=replace(source.manifest, name="other"))
    other = replace(run, plan=replace(run.plan, source=again))
    assert reserve.reserve_of(other).secrets != drawn.secrets


def test_adapters_are_trained_on_large_models(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memorise, "WHOLE", 0)
    inner: Any = here.model.inner
    before = {name: p.clone() for name, p in inner.named_parameters()}
    trained = memorise.trainable(inner, 0)
    names = {name for name, p in trained.named_parameters() if p.requires_grad}
    assert names and all("lora_" in name for name in names)
    again = {n for n, p in memorise.trainable(trained, 0).named_parameters() if p.requires_grad}
    assert again == names  # a model with adapters trains these
    monkeypatch.setattr(memorise, "ADAPTERS", replace(memorise.ADAPTERS, targets="no_such_layer"))
    last = {n for n, p in memorise.trainable(inner, 0).named_parameters() if p.requires_grad}
    assert last and all(f".{len(inner.transformer.h) - 1}." in name for name in last)
    assert all(torch.equal(p, before[name]) for name, p in inner.named_parameters())


@pytest.mark.parametrize(("people_in", "out"), [(60, 60), (50, 50), (49, 71), (71, 49), (40, 40)])
def test_third_is_always_found_by_top_test(people_in: int, out: int) -> None:
    """The least that a third of those in can show: all places of the eighth are theirs."""
    share = top_test.best_share(people_in, out, spike.LEVEL)
    assert share == Fraction(1, 8)
    memorised = -(-people_in // 3)
    scores = np.r_[np.ones(memorised), np.zeros(people_in - memorised)]
    assert top_test.places(people_in, out, share) <= memorised
    assert top_test.p_value(scores, np.zeros(out), share) <= spike.LEVEL
    untrained = here_nothing(people_in, out)
    assert top_test.p_value(*untrained, share) > spike.LEVEL


def here_nothing(people_in: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(people_in)
    return draws.random(people_in), draws.random(out)


def test_weights_elsewhere_are_explained(here: Here, tmp_path: Path) -> None:
    release = here.one.release
    assert isinstance(release, ModelRelease)
    assert spike.unspikable(here.one) == ""
    texts = replace(here.one, release=replace(release, texts=("a text",)))
    assert "Texts" in spike.unspikable(texts)
    assert spike.sight(here.bench, texts) == {}
    served = replace(here.one, release=replace(release, model=here.model.tokenizer))  # type: ignore[arg-type]
    assert "not here" in spike.unspikable(served)
