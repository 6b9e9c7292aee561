"""Mutants with names change text that stands once in their file: else they change nothing."""

from __future__ import annotations

import tomllib

from tests.mutants import LIST, PROJECT


def test_named_mutants_have_text_to_change() -> None:
    mutants = tomllib.loads(LIST.read_text(encoding="utf-8"))
    for name, one in mutants.items():
        text = (PROJECT / one["file"]).read_text(encoding="utf-8")
        assert text.count(one["old"]) == 1, name
