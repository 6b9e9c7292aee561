"""Runs the command line inside the tests' process: torch is imported once, not once a command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from audit.cli.app import main
from audit.core.stage_key import VARIABLE as STAGE_KEY


def audit(*words: object, cwd: Path | None = None, **variables: str) -> CompletedProcess[str]:
    """Does what `python -m audit WORDS` does in `cwd`; `variables` replace those named AUDIT_*."""
    line = ["audit", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", line)
        patch.chdir(cwd or Path.cwd())
        for name in [n for n in os.environ if n.startswith("AUDIT_") and n != STAGE_KEY]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main()
                code = 0
            except SystemExit as left:
                code = int(left.code or 0)
    if torch and threads:
        torch.set_num_threads(threads)
    texts = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))  # type: ignore[attr-defined]
    return CompletedProcess(line, code, *texts)
