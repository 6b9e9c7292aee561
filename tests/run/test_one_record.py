"""Users of one record: their coin decides a user and a record, and speaks of claims for both."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from audit.core.guarantee import Guarantee
from audit.core.terms import Unit
from audit.corpora import writing
from audit.planting import manifest as manifests

Audit = Callable[..., tuple[int, str, str]]
RELATIONS = ("add_or_remove", "replace")


def claim(unit: str, relation: str) -> Guarantee:
    return Guarantee(1.0, unit, relation, "model", "worst case", "t", delta=1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("unit", "speaks"),
    [("user", True), ("record", True), ("part", False), ("phrase", False),
     ("private attributes of a record", False), ("private attributes of a user", False)],
)  # fmt: skip
def test_a_bound_for_it_speaks_of_whole_records_and_users_only(
    unit: str, relation: str, speaks: bool
) -> None:
    """Corpora with and without the one record differ by a record and by a user, in both relations;
    attributes of a record are less than it, and a part is more."""
    told = claim(unit, relation).incomparable(Unit.ONE_RECORD, relation, 1e-5)
    assert (told is None) == speaks
    other = RELATIONS[1 - RELATIONS.index(relation)]
    assert claim(unit, relation).incomparable(Unit.ONE_RECORD, other, 1e-5) is not None


def test_a_user_of_many_records_does_not_speak_of_one() -> None:
    assert claim("record", "add_or_remove").incomparable("user", "add_or_remove", 1e-5)
    assert claim("record", "replace").incomparable("user", "replace", 1e-5)


@pytest.fixture(scope="module")
def overfitted(plain: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """overfitted(copies): a folder with a model that has seen each planted sentence often."""
    from audit.planting.insertion import Canaries, plant_into

    @cache
    def made(copies: int) -> Path:
        folder = tmp_path_factory.mktemp(f"copies-{copies}")
        canaries = Canaries(kinds=("record",), count=40, repetitions=(copies,))
        planted, manifest = plant_into(plain.dialogs(2), canaries, seed=1)
        manifests.write(manifest, folder / "m.json")
        writing.write(planted.records, folder / "t.jsonl")
        model, tokenizer = plain.loaded()
        texts = plain.rows_of(folder / "t.jsonl")
        plain.fit(model, tokenizer, texts, steps=40, rate=4e-3)
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        return folder

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("copies", "unit", "word"),
    [(1, "record", "refuted"), pytest.param(1, "user", "refuted", marks=pytest.mark.full),
     pytest.param(2, "user", "refuted", marks=pytest.mark.full),
     pytest.param(2, "record", "not testable", marks=pytest.mark.full)],
)  # fmt: skip
def test_claims_per_record_and_per_user(
    overfitted: Callable[[int], Path],
    audit: Audit,
    tmp_path: Path,
    copies: int,
    unit: str,
    word: str,
) -> None:
    folder = overfitted(copies)
    code, _, told = audit(
        "run", "--defense", f"as_is:claim=0.1:1e-5:{unit}:add_or_remove",
        "--attack", "membership", "--model", folder / "model", "--secrets", folder / "m.json",
        "--output", tmp_path / "out", "--format", "json", "--workers", "1",
    )  # fmt: skip
    assert code == 0, told
    (release,) = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["releases"]
    finding = next(f for f in release["findings"] if f["metric"] == "record_loss_auc")
    assert finding["epsilon_lower"]["unit"] == (Unit.ONE_RECORD if copies == 1 else "user")
    assert finding["claim"] == word, finding["claim_sentence"]
    assert finding["leaked"] == "leak"
    if word == "not testable":
        assert "the claim is per record" in finding["claim_sentence"]
