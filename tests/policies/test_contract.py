"""Every policy in the folder, through the same checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import policies
from audit.core.policy import Policy
from audit.core.spans import merged
from audit.plugins.listing import entries
from audit.policies import names, policy_class

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "audit" / "policies"
FUNCTION = "import re\n\ndef find(text):\n    return (m.span() for m in re.finditer({!r}, text))\n"
FIRMS = {"label": "ORG", "pattern": "Quill Works"}
CONTENT = {  # what a policy is made from: two versions of it
    "regex": ("[0-9]+\n# two\nK\\w+\n", "[0-9]+\n"),
    "list": ("Kelham\nOrla\n7\n", "Kelham\n"),
    "python": (FUNCTION.format("[0-9]+|K"), FUNCTION.format("K")),
}


@pytest.fixture(scope="session")
def make(tmp_path_factory, pipeline):
    """make(name, version): a policy of that name, made from version 0 or 1 of its content."""

    def made(name: str, version: int = 0) -> Policy:
        folder = tmp_path_factory.mktemp(name)
        text = name
        if name in ("regex", "list"):
            (folder / "secrets.txt").write_text(CONTENT[name][version], encoding="utf-8")
            text = f"{name}:{folder / 'secrets.txt'}"
        elif name == "python":
            (folder / "made_for_contract.py").write_text(CONTENT[name][version], encoding="utf-8")
            sys.modules.pop("made_for_contract", None)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                return policies.named("python:made_for_contract:find")
        elif name in ("entities", "contextual"):
            text = f"{name},pipeline={pipeline(FIRMS) if version else pipeline()}"
        else:
            assert name in ("digits", "customersim"), f"a new policy {name}? make one here"
        return policies.named(text)

    return made


@pytest.fixture(scope="session")
def every(make) -> dict[str, Policy]:
    return {name: make(name) for name in names()}


PIECES = (
    *("SYS: May I have your full name?\nUSR: ", "Sure, ", "Orla Penrose", ".", "\n", " ", "12"),
    *("7", "Kelham", "engineer", "letter", "Quill Works", "a@b.org", "\r\n", "é", "𝟝", "\u2028"),
    "e\u0301",
)
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=8).map("".join)


@pytest.mark.parametrize("name", names())
@given(text=texts)
def test_spans_are_sorted_disjoint_and_inside(every, name, text):
    policy = every[name]
    spans = policy(text)
    assert all(isinstance(span, tuple) for span in spans)
    borders = [0, *(place for span in spans for place in span), len(text)]
    assert borders == sorted(borders)
    assert all(low < high for low, high in spans)
    assert policy(text) == spans


@pytest.mark.parametrize("name", names())
def test_a_policy_reads_many_texts_and_can_miss(every, name):
    from audit.policies._missing import Missing

    policy = every[name]
    batch = ["", "Orla Penrose, 12 Kelham", "the engineer sent 7", "", "no\nletter"]
    assert policy.many(batch) == [policy(text) for text in batch]
    assert policy.many([]) == []
    assert any(policy.many(batch)) and policy("") == []
    text = "Orla Penrose and Kelham: 12 7 34 engineer letter"
    spans, half = policy(text), Missing(policy, 0.5)
    assert spans and set(half(text)) <= set(spans)
    assert Missing(policy, 0.0)(text) == spans
    assert set(merged(half(text))) <= set(merged(spans))
    assert len({one.digest for one in every.values()}) == len(every)


@pytest.mark.parametrize("name", names())
def test_labels_and_digests_are_of_content(make, name):
    first, again = (shown(make(name)) for _ in range(2))  # made in two folders
    assert first == again
    label, digest = first
    assert label.partition(":")[0].partition(",")[0] == name
    assert "/" not in label and os.sep not in label
    assert len(digest) == 64 and set(digest) <= set("0123456789abcdef")
    if name not in ("digits", "customersim"):
        other_label, other_digest = shown(make(name, 1))
        assert other_label == label and other_digest != digest


def shown(policy):
    return policy.label, policy.digest


def test_digests_ignore_the_order_of_sets(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("\n".join(f"word{i}" for i in range(30)), encoding="utf-8")
    code = f"from audit.policies import named; print(named('list:{file},miss=0.5').digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=PROJECT,
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(digests) == 1


def test_the_folder_is_the_list():
    files = {path.stem for path in FOLDER.glob("*.py") if not path.name.startswith("_")}
    assert set(names()) == files == {entry["name"] for entry in entries("policies")}
    assert all(entry["summary"] for entry in entries("policies"))
    for name in names():
        assert policy_class(name).__dataclass_params__.frozen
        assert policy_class(name).__final__


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from audit.plugins.listing import entries\n"
        "entries('policies'); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, check=True, encoding="utf-8"
    )
    assert not {"spacy", "torch", "numpy", "transformers"} & set(done.stdout.split())
