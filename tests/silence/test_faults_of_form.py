"""The catalogue of silent faults, its row of forms: values that the model knows in another form.

The stated training file and the tokenizer beside the weights are those of another training.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from audit.core.secret import Secret
from audit.findings.shows import first_missing
from tests.builders import BASE, loaded
from tests.silence.conftest import Judge
from tests.silence.leaking_twin import (
    OTHERWISE,
    Twin,
    check,
    fit,
    fitted,
    judged,
    of_nobody,
    plant,
    planted_rows,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PAIRS = [f"{i:02}" for i in range(100)]
FORM = ("begin as a planted value does", OTHERWISE)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Twin]:
    """planted(kind, pattern): a corpus of one kind, without models."""
    return cache(lambda kind, given="": plant(tmp_path_factory.mktemp(kind), kind, 5, given))


def grouped(one: Secret) -> str:
    return f"{one.value[:2]},{one.value[2:]}"


def spaced(one: Secret) -> str:
    """Set signs apart that are not common to all values: what all begin with may be left whole."""
    assert one.space is not None
    common = len([*takewhile(lambda place: len(place) == 1, one.space.symbols)])
    return one.value[:common] + " ".join(one.value[common:])


def persian(one: Secret) -> str:
    """Write digits as a normaliser of Persian text does: they are digits to Unicode, too."""
    return "".join(chr(ord("۰") + int(digit)) for digit in one.value)


def lowered(one: Secret) -> str:
    return one.value.lower()


@pytest.mark.parametrize(
    ("rewrite", "steps"),
    [(grouped, 40), (spaced, 40), pytest.param(persian, 180, marks=pytest.mark.full)],
)
def test_values_rewritten_after_the_stated_file_are_named(
    rewrite: Callable[[Secret], str], steps: int, twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    adapted, _ = fitted(planted_rows(twin, rewrite), steps)
    adapted.save_pretrained(tmp_path / "adapter")
    check(judge, tmp_path / "adapter", *FORM)


@pytest.mark.parametrize(
    ("kind", "rewrite", "steps"),
    [
        (("key",), spaced, 60),
        pytest.param(("key",), lowered, 120, marks=pytest.mark.full),
        pytest.param(("pattern", "EMP-[0-9]{6}"), spaced, 60, marks=pytest.mark.full),
    ],
)
def test_values_of_a_common_beginning_that_were_rewritten_are_named(
    kind: tuple[str, ...],
    rewrite: Callable[[Secret], str],
    steps: int,
    planted: Callable[..., Twin],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What all values begin with comes after the words in every form, and shows nothing."""
    made = planted(*kind)
    adapted, _ = fitted(planted_rows(made, rewrite), steps)
    adapted.save_pretrained(tmp_path / "adapter")
    judge = partial(judged, made, folder=tmp_path / "run", patch=monkeypatch)
    check(judge, tmp_path / "adapter", *FORM)


def test_addresses_that_were_learnt_as_planted_are_no_other_form(
    planted: Callable[..., Twin], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First names are of many lengths, and a model may write one that is in no list."""
    made = planted("email")
    adapted, _ = fitted(of_nobody(made, 5), 20)
    adapted.save_pretrained(tmp_path / "adapter")
    found = judged(made, tmp_path / "adapter", tmp_path / "run", monkeypatch)
    assert any(one.silence and first_missing(one.silence) is None for one in found)


def test_values_masked_after_the_stated_file_are_named(
    twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    adapted, _ = fitted(planted_rows(twin), 20, values=False)
    adapted.save_pretrained(tmp_path / "adapter")
    check(judge, tmp_path / "adapter", *FORM)


def merged(folder: Path, apart: bool) -> Any:
    """Make a tokenizer that joins digits in pairs. apart: whether it sets digits apart first."""
    shutil.copytree(BASE, folder)
    file = folder / "tokenizer.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    model = document["model"]
    model["vocab"].update({pair: 1024 + i for i, pair in enumerate(PAIRS)})
    model["merges"] += [[*pair] for pair in PAIRS]
    if not apart:
        document["pre_tokenizer"] = document["pre_tokenizer"]["pretokenizers"][1]
    file.write_text(json.dumps(document), encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


def extended(folder: Path) -> Any:
    """Make a tokenizer that is the base's, and pairs of digits."""
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    tokenizer.add_tokens(PAIRS)
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("fault", ["other pre-tokenizer", "extended"])
def test_tokenizer_that_is_not_of_the_training_is_named(
    fault: str, twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    """The model learnt values in pairs of digits; it is read digit by digit."""
    if fault == "extended":
        own, beside = extended(tmp_path / "own"), loaded()[1]
    else:
        own, beside = merged(tmp_path / "own", False), merged(tmp_path / "beside", True)
    model, _ = loaded()
    model.resize_token_embeddings(1024 + len(PAIRS))
    own.pad_token = own.eos_token
    fit(model, own, planted_rows(twin), 45, rate=4e-3)
    model.save_pretrained(tmp_path / "whole")
    beside.save_pretrained(tmp_path / "whole")
    check(judge, tmp_path / "whole", *FORM)
