"""`audit doctor`: checks the installation."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import click

from audit.cli.commands import EXIT_FAILED
from audit.cli.say import say
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError

NEEDED = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "typst",
    "matplotlib",
)


def checks() -> list[tuple[str, bool, str]]:
    """List (what, whether it is fine, detail) for every check."""
    return [
        *(_package(name) for name in NEEDED),
        _attempt("device", _device),
        _attempt("embedded default", _embedded),
    ]


def _package(name: str) -> tuple[str, bool, str]:
    try:
        return name, True, version(name)
    except PackageNotFoundError:
        return name, False, "not installed; install audit again"


def _attempt(name: str, check: Callable[[], str]) -> tuple[str, bool, str]:
    try:
        return name, True, check()
    except (UsageError, ImportError, OSError) as error:
        return name, False, str(error)


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name(0)})"
    return "cpu (no CUDA device)"


def _embedded() -> str:
    from audit.corpora.loading import load
    from audit.models.loading import describe

    corpus = load("helpdesk", EMBEDDED_FOLDER)
    model = describe("embedded", EMBEDDED_FOLDER)
    return f"{len(corpus.records)} records, {model.parameters:,} parameters"


@click.command()
def doctor() -> None:
    """Check this installation: packages, device, the embedded default."""
    lines = checks()
    for name, fine, detail in lines:
        say(f"{'ok ' if fine else 'BAD'} {name}: {detail}")
    if not all(fine for _, fine, _ in lines):
        raise SystemExit(EXIT_FAILED)
