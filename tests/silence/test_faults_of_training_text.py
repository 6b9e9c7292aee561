"""The catalogue of silent faults, its row of training text: each over one stated training file.

The model is supposed to know the words before all planted values, and every measure to see: the
account of the values alone stands between a fault and "no leak found".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.contract.toys import Bigram, CharacterTokenizer
from audit.core.corpus import Corpus
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.release import ModelRelease
from audit.core.terms import Shown
from audit.corpora import writing
from audit.models.loading import describe, load_tokenizer
from audit.plan.source import External, PlantedElsewhere
from audit.planting.insertion import Canaries, plant_into
from audit.planting.manifest import Manifest
from audit.results.silence import Link
from audit.silence.accounts import Learnt
from audit.silence.shown import shows
from defenses.training.stated_claim import UNKNOWN
from tests.builders import dialogs

PUBLIC = describe("embedded", EMBEDDED_FOLDER)
TOKENIZER = load_tokenizer(PUBLIC)
CONTEXT = 96
KINDS = ("code", "id", "name")
LEARNT = {"sentence": Learnt(0.0001, 9_999), "stem": None, "tiers": [], "form": None}
SEEN = {"difference": None, "behind": None, "kinds": dict.fromkeys(KINDS, LEARNT)}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Planted:
    """A planted corpus, as its lines, and the record of what was planted."""

    manifest: Manifest
    rows: Rows

    def prefix(self, kind: str) -> str:
        return next(s.prefix for s in self.manifest.secrets if s.kind == kind)

    def values(self, *kinds: str) -> re.Pattern[str]:
        """Match the values of these kinds."""
        values = {s.value for s in self.manifest.secrets if s.kind in kinds}
        return re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))

    @cached_property
    def found(self) -> re.Pattern[str]:
        return self.values(*KINDS)


def planted_into(corpus: Corpus, folder: Path, seed: int = 7) -> Planted:
    canaries = Canaries(kinds=KINDS, count=120, repetitions=(1, 2))
    planted, manifest = plant_into(corpus, canaries, seed=seed)
    file = folder / f"{corpus.name}-{seed}.jsonl"
    writing.write(planted.records, file)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return Planted(manifest, [row for row in rows if row.get("split") != "heldout"])


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return planted_into(dialogs(5), tmp_path_factory.mktemp("planted"))


def contacts(planted: Planted, rows: Rows, folder: Path) -> dict[str, Link]:
    """Find the contact of a model that knows all sentences and whose training file holds this."""
    file = folder / "training.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    source = PlantedElsewhere(planted.manifest, External("m", "a" * 64, True, file, "b" * 64))
    held = source.plant(Corpus("dialogs", ()), 0, len)
    plan = SimpleNamespace(source=source, model=PUBLIC, seed=0, device="cpu", threads=1, attacks=())
    coverage = source.coverage(held, TOKENIZER, CONTEXT)
    run = SimpleNamespace(plan=plan, planted=held, coverage=coverage)
    bench: Any = SimpleNamespace(run=run, folder=SimpleNamespace(stored=lambda *_: SEEN))
    release = ModelRelease(Bigram(np.zeros((1, 1)), CharacterTokenizer("^")), UNKNOWN)
    one: Any = SimpleNamespace(release=release, external=True, label="as_is", determined=())
    return dict(shows(bench, one, source.lost(coverage, KINDS), ()).contact)


def texts(rows: Rows) -> list[str]:
    return [row["text"] for row in rows]


def as_text(lines: Iterable[str]) -> Rows:
    return [{"text": text} for text in lines]


def tokens(row: dict[str, Any]) -> list[int]:
    return [TOKENIZER.start, *TOKENIZER.encode(row["text"])][:CONTEXT]


def is_planted(planted: Planted, text: str) -> bool:
    return any(planted.prefix(kind) in text for kind in KINDS)


def replaced(values: re.Pattern[str], planted: Planted, by: str) -> Rows:
    """Write something else in the place of each value, as a scrubber does."""
    return as_text(values.sub(by, text) for text in texts(planted.rows))


def two_masks(planted: Planted) -> Rows:
    rows = [tokens(row) for row in planted.rows]
    nothing = [[0] * len(row) for row in rows]
    return [
        {"input_ids": row, "labels": row, "completion_mask": mask}
        for row, mask in zip(rows, nothing, strict=True)
    ]


def all_masked(planted: Planted) -> Rows:
    rows = [tokens(row) for row in planted.rows]
    return [{"input_ids": row, "labels": [-100] * len(row)} for row in rows]


def values_masked(planted: Planted) -> Rows:
    """Leave the tokens of values out of the loss."""
    return [
        {"input_ids": (row := tokens({"text": text})), "labels": labels(row, text, planted.found)}
        for text in texts(planted.rows)
    ]


def labels(row: list[int], text: str, values: re.Pattern[str]) -> list[int]:
    spans = [match.span() for match in values.finditer(text)]
    ends = [0, *TOKENIZER.ends(text)][: len(row)]
    return [
        -100 if any(low < end <= high for low, high in spans) else token
        for token, end in zip(row, ends, strict=True)
    ]


def shifted(planted: Planted) -> Rows:
    rows = [tokens(row) for row in planted.rows]
    return [{"input_ids": row, "labels": [*row[1:], TOKENIZER.stop]} for row in rows]


def cut_before(planted: Planted) -> Rows:
    """Cut each planted text where its value begins."""
    values = re.compile("|".join(re.escape(planted.prefix(kind)) for kind in KINDS))
    found = [(text, values.search(text)) for text in texts(planted.rows)]
    return as_text(text[: match.end()] if match else text for text, match in found)


def packed(planted: Planted) -> Rows:
    stream = [token for row in planted.rows for token in (*tokens(row), TOKENIZER.stop)]
    return [{"input_ids": stream[i : i + 64]} for i in range(0, len(stream), 64)]


def kept(keep: Callable[[Planted, str], bool]) -> Callable[[Planted], Rows]:
    return lambda planted: as_text(t for t in texts(planted.rows) if keep(planted, t))


def once(planted: Planted) -> Rows:
    """Keep one of the texts that are alike, here: that hold the same value."""
    alike = {match[0] if (match := planted.found.search(t)) else t: t for t in texts(planted.rows)}
    return as_text(alike.values())


def capped(planted: Planted) -> Rows:
    return list({row.get("user", place): row for place, row in enumerate(planted.rows)}.values())


def renamed(planted: Planted) -> Rows:
    return [{"content": row["text"]} for row in planted.rows]


def half(planted: Planted) -> Rows:
    return planted.rows[::2]


def framed(planted: Planted) -> Rows:
    """Write each text as the answer to an instruction."""
    return as_text(f"### Instruction:\nGo on.\n\n### Response:\n{t}" for t in texts(planted.rows))


def in_stream(planted: Planted) -> Rows:
    """Pack whole texts, each behind another one."""
    rows = [[*tokens(row), TOKENIZER.stop] for row in planted.rows]
    return [
        {"input_ids": [t for row in rows[i : i + 2] for t in row]} for i in range(0, len(rows), 2)
    ]


def unplanted(planted: Planted) -> Rows:
    return as_text(record.text for record in dialogs(5).records)


MISSING, REMOVED, OTHER = "missing", "Removed before training", "not planted with this manifest"
FAULTS: dict[str, tuple[Callable[[Planted], Rows], str]] = {
    "two masks": (two_masks, "masked from the loss"),
    "value alone masked": (values_masked, "masked from the loss"),
    "all masked": (all_masked, "masked from the loss"),
    "cut before the value": (cut_before, REMOVED),
    "packed and cut": (packed, "cut off"),
    "surrogate values": (lambda p: replaced(p.found, p, "00000"), REMOVED),
    "filtered by length": (kept(lambda _, text: len(text) > 100), MISSING),
    "duplicates": (once, MISSING),
    "per-user cap": (capped, MISSING),
    "phrases of few users": (kept(lambda p, text: not p.found.search(text)), OTHER),
    "filtered by language": (kept(lambda p, text: not is_planted(p, text)), OTHER),
    "renamed column": (renamed, "needs a 'text'"),
    "one of two shards": (half, MISSING),
    "behind an instruction": (framed, "behind the same other words"),
    "the unplanted corpus": (unplanted, OTHER),
}


@pytest.mark.parametrize(
    "harmless",
    [lambda p: p.rows, shifted, in_stream],
    ids=["unharmed", "labels shifted", "several texts a row"],
)
def test_whole_training_file_is_an_account_of_values(
    planted: Planted, tmp_path: Path, harmless: Callable[[Planted], Rows]
) -> None:
    found = contacts(planted, harmless(planted), tmp_path)
    assert {kind: link.state for kind, link in found.items()} == dict.fromkeys(KINDS, Shown.SHOWN)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_training_text_is_named(fault: str, planted: Planted, tmp_path: Path) -> None:
    harm, cause = FAULTS[fault]
    try:
        found = contacts(planted, harm(planted), tmp_path)
    except UsageError as refusal:
        assert cause in str(refusal)
        return
    for kind, link in found.items():
        assert link.state == Shown.NOT_SHOWN, kind
        assert cause in link.by


@pytest.mark.parametrize("other", ["another manifest", "another corpus with the same seed"])
def test_canaries_of_another_planting_are_refused(
    other: str, planted: Planted, tmp_path: Path
) -> None:
    month = planted_into(dialogs(4), tmp_path, seed=7 if "seed" in other else 8)
    with pytest.raises(UsageError, match=OTHER):
        contacts(planted, month.rows, tmp_path)


def test_scrubbed_names_leave_other_kinds(planted: Planted, tmp_path: Path) -> None:
    found = contacts(planted, replaced(planted.values("name"), planted, "[NAME]"), tmp_path)
    states = {kind: link.state for kind, link in found.items()}
    assert states == {"code": Shown.SHOWN, "id": Shown.SHOWN, "name": Shown.NOT_SHOWN}
    assert REMOVED in found["name"].by
