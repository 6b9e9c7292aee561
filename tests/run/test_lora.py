"""Runs with `--lora`: every defense trains adapters on one frozen base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models.adapters import own_weights
from audit.models.external_model import describe_external
from audit.models.external_model import load as load_external
from audit.models.loading import load_weights
from audit.plan.plan import Plan
from audit.plan.resolve import resolve
from audit.prepare.prepare import prepare
from tests.builders import hellos, planned, run_of

FEW = ["submix:epsilon=1000.0,k=2,budget=12,train=top:1", "capped_submix:k=2,budget=12", "dp_sgd"]
MORE = ["seqpate:teachers=2,sentences=40", "s_dpsgd", "redaction"]


def plan(folder: Path, **settings: Any) -> Plan:
    given = {
        "defense": FEW,
        "attack": ["name_leak:generations=4,length=4,decoys=2"],
        "planting": {"users": 8, "kinds": ["name"]},
        "lora": "r=2,alpha=4",
    }
    return planned(hellos(folder, public=4), **{**given, **settings})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    return run_of(plan(folder), folder / "run")


@pytest.mark.slow
def test_adapters_are_trained_and_nothing_else(run: Path) -> None:
    only_adapters(run, FEW)


@pytest.mark.full
def test_every_defense_trains_adapters_and_nothing_else(tmp_path: Path) -> None:
    only_adapters(run_of(plan(tmp_path, defense=[*FEW, *MORE]), tmp_path / "run"), [*FEW, *MORE])


def only_adapters(run: Path, defenses: Sequence[str]) -> None:
    results = api.load(run)
    assert results.status == "complete"
    assert results.plan["lora"] == {"r": 2, "alpha": 4, "targets": "auto"}
    asked = {label.partition(":")[0] for label in defenses}
    assert asked <= {release.defense for release in results.releases}
    files = list((run / "stages").glob("trained-*.safetensors"))
    assert len(files) > 2 * len(defenses)
    for file in files:
        weights = load_file(file)
        assert weights and all(".lora_" in name for name in weights)
        assert sum(value.numel() for value in weights.values()) < 10_000


def test_a_plan_is_another_with_adapters_and_the_same_without(tmp_path: Path) -> None:
    with_adapters, other = plan(tmp_path), plan(tmp_path, lora="r=3")
    bare = plan(tmp_path, lora=None)
    assert len({with_adapters.hash, other.hash, bare.hash}) == 3
    assert "lora" not in bare.document
    assert "--lora r=2,alpha=4,targets=auto" in with_adapters.command
    assert bare.model.identity == bare.model.sha256


@pytest.mark.slow
def test_an_adapter_is_handed_over_as_peft_reads_it_and_can_be_audited(
    run: Path, tmp_path: Path
) -> None:
    assert api.export(run, "dp_sgd", tmp_path / "adapter").startswith("an adapter in")
    described = describe_external(str(tmp_path / "adapter"), None, EMBEDDED_FOLDER)
    base = load_weights(described, "cpu")
    there = load_external(tmp_path / "adapter", base)
    note = json.loads(next((run / "stages").glob("releases-*.json")).read_text("utf-8"))
    (member,) = note["releases"]["dp_sgd"]["members"]
    trained = load_file(run / "stages" / member["weights"])
    own = own_weights(there)
    assert own.keys() == trained.keys()
    assert all(torch.equal(value, trained[name]) for name, value in own.items())
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert (config["r"], config["lora_alpha"]) == (2, 4)
    assert not torch.equal(
        there(input_ids=torch.tensor([[1, 2, 3]])).logits,
        base(input_ids=torch.tensor([[1, 2, 3]])).logits,
    )


@pytest.mark.slow
def test_a_service_of_adapters_is_handed_over_and_answers(run: Path, tmp_path: Path) -> None:
    said = api.export(run, FEW[1], tmp_path / "service")
    assert said.startswith("a service of ")
    assert all(f.stat().st_size < 60_000 for f in (tmp_path / "service" / "members").iterdir())
    with api.serve(tmp_path / "service", tmp_path / "ledger") as service:
        assert isinstance(service.complete("Hello", 2), str)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora": "r=2", "defense": ["dp_sgd:lora=4"]}, "dp_sgd: lora=4, but --lora"),
        ({"lora": "r=2", "model": "lstm", "defense": ["none"]}, "--lora: an LSTM is trained"),
        ({"lora": "q=2", "defense": ["none"]}, "--lora: unknown key 'q'"),
    ],
)
def test_what_cannot_have_adapters_is_refused(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        prepare(resolve({"attack": ["extraction"], **settings}), tmp_path)
    assert message in str(error.value) and "\n" not in str(error.value)
