"""What earlier versions called otherwise still works, with a warning."""

import importlib
import sys
from pathlib import Path

import pytest

import audit
from audit import core

MOVED = Path(audit.__file__).parent / "_moved"
NAMES = {  # what the docs taught before
    "audit.attack": ("Attack", "Knowledge"),
    "audit.corpus": ("Corpus",),
    "audit.defense": ("Defense", "Trained", "Training"),
    "audit.ensemble": ("Ensemble",),
    "audit.errors": ("UsageError",),
    "audit.evidence": ("Evidence", "Likelihoods"),
    "audit.guarantee": ("Guarantee", "no_guarantee"),
    "audit.language_model": ("LanguageModel",),
    "audit.ledger": ("Ledger",),
    "audit.models.fine_tuning": ("Recipe",),
    "audit.predictor": ("Access", "Predictor", "Tokenizer", "affordable", "continuation"),
    "audit.release": ("ModelRelease", "Release"),
    "audit.secrets": ("Secret",),
    "audit.streams": ("derived_seed", "stream"),
}


def test_every_moved_module_is_tried():
    files = {p.relative_to(MOVED).with_suffix("").parts for p in MOVED.rglob("*.py")}
    assert {".".join(("audit", *parts)) for parts in files} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_moved_module_is_found_with_a_warning(name):
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"{name} has moved: import from audit.core"):
        found = importlib.import_module(name)
    for noun in NAMES[name]:
        assert getattr(found, noun) is getattr(core, noun, getattr(found, noun)), noun


def test_the_nouns_and_their_types_agree():
    stub = (Path(core.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    told = {
        line.split()[-1]: line.split()[1].split(".")[-1]
        for line in stub.splitlines()
        if " as " in line
    }
    assert told == core.HOME
    for noun, file in core.HOME.items():
        assert getattr(core, noun) is getattr(importlib.import_module(f"audit.core.{file}"), noun)
    with pytest.raises(AttributeError, match="no attribute 'Coins'"):
        core.Coins  # noqa: B018
