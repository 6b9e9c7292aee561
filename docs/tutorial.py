"""Runs the commands of docs/tutorial.md, and writes or compares the output that it shows.

    python docs/tutorial.py            # compare all but figures; exit code 1 where they differ
    python docs/tutorial.py --write    # put today's output into the page

A block of output belongs to the block of commands before it. Figures of sampled answers move with
every change of the code, and must: what seeds a session covers the code that answers, or the noise
of two versions could be subtracted. So a comparison leaves figures out, what takes time, and what
the models of SubMix leak without it: at 0 to 3 of 100 hits, any of three answers.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("tutorial.md")
OUTPUT = re.compile(r"(```sh\n(?P<commands>[^`]*)```\n[^`]*?```text\n)(?P<shown>[^`]*)(```)")
POLICY = re.compile(r"<!-- policy -->\n```toml\n(.*?)```", re.S)
QUOTED = re.compile(r"^- \*([^*]+)\*", re.M)
_FIGURE = re.compile(r"\d[\d,.]*\d|\d|(?<=plan )\w+|[⁰-⁹⁻¹²³]+|-\w{8}$", re.M)
_UNPROTECTED = re.compile(
    r"(?:but a leak with its|nor with its|though with its) protection off( it leaks by [^,.;]*)?"
)
_OF_THE_MACHINE = re.compile(r"^expected: .*", re.M)


def without_figures(text: str) -> str:
    """Replace every number, and what depends on the machine."""
    text = _UNPROTECTED.sub("protection off", _OF_THE_MACHINE.sub("expected: …", text))
    return _FIGURE.sub("#", text).strip()


def outputs(page: str, folder: Path) -> Iterator[str]:
    """Run each block of commands in a folder; yield its output for each block of output."""
    (policy,) = POLICY.findall(page)
    (folder / "audit.toml").write_text(policy, encoding="utf-8")
    for block in OUTPUT.finditer(page):
        lines = re.sub("^audit ", f"{sys.executable} -m audit ", block["commands"], flags=re.M)
        done = subprocess.run(
            ["bash", "-c", lines], cwd=folder, capture_output=True, encoding="utf-8", check=False
        )
        if not done.stdout:
            sys.exit(f"tutorial.py: {block['commands']}printed nothing: {done.stderr[-2000:]}")
        yield done.stdout


def unquoted(page: str) -> list[str]:
    """List what the page quotes of an output, and no output has."""
    shown = " ".join(block["shown"] for block in OUTPUT.finditer(page))
    parts = [part for quote in QUOTED.findall(page) for part in re.split(r"\* and \*| … ", quote)]
    return [part for part in parts if part.replace("\n  ", " ").rstrip(".") not in shown]


def main(write: bool) -> int:
    """Compare the page with what its commands print, or write it; return the exit code."""
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        printed = list(outputs(page, Path(folder)))
    if write:
        every = iter(printed)
        page = OUTPUT.sub(lambda block: f"{block[1]}{next(every)}{block[4]}", page)
        PAGE.write_text(page, encoding="utf-8")
        print(*(f"no output has: {quote}" for quote in unquoted(page)), sep="\n")
        return bool(unquoted(page))
    shown = [block["shown"] for block in OUTPUT.finditer(page)]
    differing = [
        line
        for one, other in zip(shown, printed, strict=True)
        for line in difflib.unified_diff(
            without_figures(one).splitlines(), without_figures(other).splitlines(), "page", "today",
            lineterm="",
        )
    ]  # fmt: skip
    print(*differing, sep="\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(write="--write" in sys.argv[1:]))
