"""Contact with weights that were trained elsewhere, on a model that has memorised its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.release import ModelRelease
from audit.core.terms import Shown
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.plan.source import External, PlantedElsewhere
from audit.silence import weights
from audit.silence.weights import contact
from defenses.training.stated_claim import UNKNOWN

PUBLIC = describe("embedded", EMBEDDED_FOLDER)


class Kept:
    """A folder that keeps stages in memory, as JSON would be."""

    def __init__(self) -> None:
        self.stages: dict[str, Any] = {}

    def stored(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self.stages:
            self.stages[key] = make()
        return self.stages[key]


def opened(path: Path) -> CausalLM:
    folder = describe(str(path), EMBEDDED_FOLDER)
    return CausalLM(load_weights(folder, "cpu"), load_tokenizer(PUBLIC), PUBLIC.max_length)


@pytest.fixture(scope="module")
def base() -> CausalLM:
    return opened(PUBLIC.path)


@pytest.fixture(scope="module")
def memorised(made: Any) -> CausalLM:
    return opened(made.whole)


def audited(made: Any, model: CausalLM, base: CausalLM, training: Path | None) -> tuple[Any, Any]:
    """The bench and the release of a model, as far as contact reads them."""
    external = External("m", "a" * 64, True, training, "b" * 64)
    source = PlantedElsewhere(made.planted, external)
    planted = source.plant(Corpus("dialogs", ()), 0, len)
    plan = SimpleNamespace(source=source, model=PUBLIC, seed=0, device="cpu", threads=1)
    run = SimpleNamespace(
        plan=plan,
        planted=planted,
        coverage=source.coverage(planted, load_tokenizer(PUBLIC), PUBLIC.max_length),
    )
    release = ModelRelease(model, UNKNOWN)
    one = SimpleNamespace(release=release, public=base, label="as_is", determined=("as_is", {}, ()))
    return SimpleNamespace(run=run, folder=Kept()), one


@pytest.fixture(autouse=True)
def few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "MOST", 1_999)


def test_memorised_model_shows_its_sentences(
    made: Any, memorised: CausalLM, base: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences are the first of 2,000 each; with values of enough people they are contact."""
    monkeypatch.setattr("audit.silence.accounts.PEOPLE", 5)
    bench, one = audited(made, memorised, base, made.corpus)
    found = contact(bench, one)
    assert {kind: link.state for kind, link in found.items()} == {
        "code": Shown.SHOWN, "id": Shown.SHOWN, "name": Shown.SHOWN, "record": Shown.NOT_SHOWN,
    }  # fmt: skip
    assert "values as stated by t.jsonl" in found["code"].by
    assert "only beacons or a leak" in found["record"].by
    assert contact(bench, one) == found
    assert len(bench.folder.stages) == 1


def test_few_people_are_not_contact(made: Any, memorised: CausalLM, base: CausalLM) -> None:
    bench, one = audited(made, memorised, base, made.corpus)
    found = contact(bench, one)
    assert found["code"].state == Shown.NOT_SHOWN
    assert "plant more" in found["code"].by


def test_sentences_without_training_file_are_not_contact(
    made: Any, memorised: CausalLM, base: CausalLM
) -> None:
    found = contact(*audited(made, memorised, base, None))
    assert found["code"].state == Shown.NOT_SHOWN
    assert "Whether the values were is not known" in found["code"].by


def test_model_equal_to_its_base_has_no_contact(made: Any, base: CausalLM) -> None:
    found = contact(*audited(made, base, base, made.corpus))
    assert {link.by for link in found.values()} == {weights._EQUAL}
    assert {link.state for link in found.values()} == {Shown.NOT_SHOWN}
