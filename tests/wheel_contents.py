"""Fails unless a wheel carries exactly the four packages, all of them, and the embedded default."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGES = {"audit", "attacks", "defenses", "reports"}
EMBEDDED = {
    "audit/fixtures/airdialogue.jsonl",
    "audit/fixtures/airdialogue.py",
    "audit/fixtures/customersim.jsonl",
    "audit/fixtures/customersim.py",
    "audit/fixtures/helpdesk.jsonl",
    "audit/fixtures/public_model/config.json",
    "audit/fixtures/public_model/model.safetensors",
    "audit/fixtures/public_model/tokenizer.json",
}


def own() -> set[str]:
    """Lists the files of the packages here: modules, and the tables and templates they read."""
    files = {path for package in PACKAGES for path in (PROJECT / package).rglob("*.*")}
    return {
        path.relative_to(PROJECT).as_posix()
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def main(path: str) -> int:
    """Prints what is wrong with the wheel at `path`; 0 if nothing is."""
    names = zipfile.ZipFile(path).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    wrong = [f"unexpected: {top}" for top in sorted(tops - PACKAGES)]
    absent = (PACKAGES - tops) | ((EMBEDDED | own()) - set(names))
    wrong += [f"missing: {name}" for name in sorted(absent)]
    wrong += [f"not to be shipped: {name}" for name in names if "__pycache__" in name]
    print("\n".join(wrong) or f"{path}: {len(names)} files, as they should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
