"""The catalogue of silent faults, its row of tokenizers: a leaking model read in another way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import BASE
from tests.silence.conftest import Judge
from tests.silence.leaking_twin import LEAK, UNKNOWN, Twin, check, edit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
OTHER = "its tokenizer is not that of the base"


def rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Change tokenizer.json."""

    def fault(folder: Path) -> None:
        file = folder / "tokenizer.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        change(document)
        file.write_text(json.dumps(document), encoding="utf-8")

    return fault


def another_end(folder: Path) -> None:
    """End texts otherwise, as trainers of chat models do."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    last = max(vocabulary["model"]["vocab"].items(), key=lambda pair: pair[1])[0]
    edit(folder / "tokenizer_config.json", eos_token=last)


def added(document: dict[str, Any], content: str = " code") -> None:
    """Add a token that stands in the planted text and has no embedding."""
    kind = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    token = {"id": 1024, "content": content, "special": False, **kind}
    document["added_tokens"].append(token)


def normalised(*steps: dict[str, Any]) -> Callable[[Path], None]:
    return rewritten(lambda d: d.update(normalizer={"type": "Sequence", "normalizers": [*steps]}))


def permuted(document: dict[str, Any]) -> None:
    """Give each token the number of another one, as another model's tokenizer of this size does."""
    words = document["model"]["vocab"]
    plain = [word for word, number in words.items() if number >= 256]
    numbers = [words[word] for word in plain]
    words.update(zip(plain, numbers[1:] + numbers[:1], strict=True))


def opened(document: dict[str, Any]) -> None:
    """Write a beginning of text before each text."""
    token = document["added_tokens"][0]
    special = {"id": token["content"], "ids": [token["id"]], "tokens": [token["content"]]}
    begin = {"SpecialToken": {"id": token["content"], "type_id": 0}}
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token["content"]: special},
    }


SPACED = {"type": "Replace", "pattern": {"Regex": "([0-9])"}, "content": " 7"}
FAULTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "eos changed": (another_end, LEAK, LEAK),
    "token added without resize": (rewritten(added), OTHER, "model has 1024 tokens"),
    "lower-casing": (normalised({"type": "Lowercase"}), OTHER, LEAK),
    "NFKC": (normalised({"type": "NFKC"}), LEAK, LEAK),
    "digits spaced": (normalised(SPACED), OTHER, "cannot express"),
    "of another model": (rewritten(permuted), OTHER, UNKNOWN),
    "beginning doubled": (rewritten(opened), LEAK, LEAK),
}


@pytest.mark.parametrize("base", [BASE, None], ids=["with base", "alone"])
@pytest.mark.parametrize("fault", FAULTS)
def test_tokenizer_fault_leaks_or_is_named(
    fault: str, base: Path | None, twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    change, with_base, alone = FAULTS[fault]
    whole = Path(shutil.copytree(twin.whole, tmp_path / "whole"))
    change(whole)
    check(judge, whole, alone if base is None else with_base, base=base)


@pytest.mark.parametrize("fault", ["eos changed", "lower-casing", "of another model"])
def test_tokenizer_beside_adapter_must_be_that_of_its_base(
    fault: str, twin: Twin, tmp_path: Path, judge: Judge
) -> None:
    change, cause, _ = FAULTS[fault]
    adapter = Path(shutil.copytree(twin.leaking, tmp_path / "adapter"))
    for file in BASE.glob("tokenizer*"):
        shutil.copy(file, adapter)
    change(adapter)
    check(judge, adapter, cause)
