"""BigPatent: a line is a patent, and each patent is a user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import UsageError
from tests.corpora.reading import jsonl, read


def patent(number: int, description: str = "A pump of {} valves.") -> dict[str, Any]:
    """One line in the layout of the release."""
    return {
        "publication_number": f"US-{number}-A",
        "abstract": f"The abstract of {number}.",
        "application_number": f"US-{number}-B",
        "description": description.format(number),
    }


def test_a_patents_record_is_its_description(tmp_path: Path) -> None:
    corpus = read(jsonl(tmp_path / "g.jsonl", *map(patent, range(5))))
    found = {(record.user, record.text) for record in corpus.records}
    assert found == {(f"US-{i}-A", f"A pump of {i} valves.") for i in range(5)}


def test_a_patent_without_description_is_left_out(
    tmp_path: Path,
) -> None:
    blank = read(jsonl(tmp_path / "blank.jsonl", patent(1), patent(2, " "), patent(3)))
    assert {record.user for record in blank.records} == {"US-1-A", "US-3-A"}
    other = jsonl(tmp_path / "other.jsonl", patent(1), {"abstract": "a"})
    with pytest.raises(UsageError, match=r"other\.jsonl:2: no 'description' with an 'abstract'"):
        read(other)


def test_a_text_beside_an_abstract_is_read(tmp_path: Path) -> None:
    rows = [{**patent(i), "text": f"text {i}"} for i in range(3)]
    assert read(jsonl(tmp_path / "g.jsonl", *rows)).records[0].text == "text 0"


def test_rows_of_the_hub_have_no_number(hub: Any) -> None:
    rows = [{name: patent(i)[name] for name in ("description", "abstract")} for i in range(3)]
    hub({("big_patent", "g"): {"train": rows, "test": rows[:1]}})
    corpus = read("hf:big_patent/g")
    assert [(r.user, r.split) for r in corpus.records] == [
        *((f"train-{i}", "private") for i in (1, 2, 3)),
        ("test-1", "heldout"),
    ]
