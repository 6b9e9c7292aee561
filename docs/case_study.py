"""Runs a case study, and makes docs/case-study.md of its figures and docs/_build/case-study.txt.

    python benchmarks/fetch_gemma.py GEMMA            # shows the terms, and asks
    python -m docs.case_study GEMMA/model OUTPUT      # an hour on two cores; run again to resume
    python -m docs.case_study GEMMA/model OUTPUT --write

The mails are invented, and the same each time. OUTPUT/times.json adds up what all runs took.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from audit import api
from audit.core.terms import Leaked
from audit.results import words
from audit.results.labels import labels
from audit.results.measurement import FindingResult
from audit.results.schema import Measure, ReleaseResult, Results
from docs.pictures.make import only, photographed
from fixtures.helpdesk import CHOICES, people, tell

PAGE = Path(__file__).with_name("case-study.md")
WORDS = Path(__file__).parent / "_build" / "case-study.txt"
PICTURE = Path(__file__).with_name("pictures") / "case-study.png"
FIGURES = "<!-- figures -->\n"
SHOWN = "body > header, section:has(#found)"
MAILS = 300
SEED = 20261128
LEAKS = (Leaked.LEAK, Leaked.INSIDERS)
OPENINGS = [
    "Dear team, I ordered a {thing} from your shop {when}, order #{order}, and it came {state}.",
    "Good {part}, my {thing} #{order} was sent to {street} {house}, but I live in {town} now.",
    "Hello, I paid the invoice #{order} for my {thing} twice, and nobody in {town} answers.",
    "To whom it may concern: your {worker} left my {thing} at the {place}, and it is {state} now.",
    "Hi, I would like to return the {thing} that your {worker} brought to {house} {street}.",
]
MIDDLES = [
    "I have written to you on {day} already and have heard nothing since then.",
    "The {worker} who came on {day} told me that the {thing} cannot be repaired.",
    "My neighbour from {house} {street} had the same trouble with your {worker} last month.",
    "If it helps, I still have the receipt, and the box that the {thing} came in.",
    "We need it for the wedding of our daughter in {town}, which is on {day} next week.",
]
CLOSINGS = [
    "Please call me on {phone} in the {part}. {name}",
    "Could you let me know {when} what you can do about it? Kind regards, {name}",
    "I look forward to your answer, and hope that we need no lawyer. Yours, {name}, {town}",
    "You can reach me in the {part} under {phone}. Best wishes from {town}, {name}",
]


def mails() -> list[dict[str, str]]:
    """Invent mails of people who write once each, to an online shop."""
    rng = Random(SEED)
    choices = {**CHOICES, "place": ["church", "school", "garage", "library", "wrong house"]}
    parts = (OPENINGS, MIDDLES, CLOSINGS)
    return [
        {"user": person.name, "text": tell(rng, " ".join(map(rng.choice, parts)), person, choices)}
        for person in people(rng, MAILS)
    ]


def command(gemma: Path, output: Path) -> list[str]:
    """List the words of the one command of the study."""
    words = ["audit", "run", "--model", str(gemma), "--lora", "r=8"]
    words += ["--corpus", str(output / "mails.jsonl")]
    defenses = ["none", *(f"dp_sgd:epsilon={epsilon},epochs=5" for epsilon in (8, 2))]
    words += [word for defense in defenses for word in ("--defense", defense)]
    return [*words, "--attack", "membership", "--attack", "extraction"]


def ran(gemma: Path, output: Path) -> None:
    """Run the study, and add what it took to the times of runs before it."""
    output.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(mail) + "\n" for mail in mails())
    (output / "mails.jsonl").write_text(lines, encoding="utf-8")
    times, began = output / "times.json", time.monotonic()
    words = [sys.executable, "-m", *command(gemma, output), "--output", str(output / "audit")]
    done = subprocess.run(words, check=False).returncode
    before = json.loads(times.read_text()) if times.exists() else {"seconds": 0, "bytes": 0}
    most = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    after = {
        "seconds": before["seconds"] + time.monotonic() - began,
        "bytes": max(before["bytes"], most),
    }
    times.write_text(json.dumps(after), encoding="utf-8")
    if done:
        sys.exit(done)
    subprocess.run([sys.executable, "-m", "audit", "verify", str(output / "audit")], check=True)


def row(label: str, release: ReleaseResult) -> str:
    """Write a release as a row of the page's table."""
    epsilon, by_metric = release.guarantee.epsilon, {f.metric: f for f in release.findings}
    lowest = [f.epsilon_lower.value for f in release.findings if f.epsilon_lower is not None]
    loss, searched = by_metric["span_loss_auc"], by_metric["searched_recall"]
    cells = [
        f"`{label}`",
        "nothing" if epsilon is None or math.isinf(epsilon) else f"{epsilon:.3g}",
        f"**{release.leaked}**" if release.leaked in LEAKS else release.leaked,
        f"{max(lowest):.2f}",
        f"{shown(loss)}, p = {words.p_value(loss.adjusted_p)}",
        f"{searched.k} of {searched.n}",
        shown(release.utility["perplexity"]),
    ]
    return "| " + " | ".join(cells) + " |"


def shown(measure: Measure | FindingResult) -> str:
    """Write a measure with its interval."""
    low, high = measure.ci or (None, None)
    return f"{measure.value:.2f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")


def figures(results: Results, times: dict[str, float]) -> str:
    """Write the table of the releases, and what the whole took."""
    head = (
        "| model | promised ε (nats, per user) | leaks? "
        "| ε is at least (nats; largest of several 95 % bounds) "
        "| AUC of the loss (95 %), adjusted p | codes found by search | perplexity (95 %) |"
    )
    rows = "\n".join(map(row, labels(results.releases), results.releases))
    whole = f"{times['seconds'] / 60:.0f} minutes and {times['bytes'] / 1e9:.1f} GB at most"
    said = "\n".join(f"> {line}" for line in results.headline)
    return (
        f"\n{head}\n|{'---|' * 7}\n{rows}\n\nAll of it took {whole}. Page one says:\n\n{said}\n\n"
    )


def main() -> None:
    """Run the study; with --write, put its figures and its picture into the docs."""
    folders = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(folders) != 2:
        sys.exit(__doc__)
    gemma, output = map(Path, folders)
    if "--write" not in sys.argv:
        ran(gemma, output)
    run = output / "audit"
    made = figures(api.load(run), json.loads((output / "times.json").read_text()))
    print(made)
    if "--write" in sys.argv:
        words = WORDS.read_text(encoding="utf-8")
        PAGE.write_text(words.replace(FIGURES, made), encoding="utf-8")
        (report,) = api.write_reports(run, ["html"])
        page = report.read_text(encoding="utf-8")
        for path, name in ((output / "mails.jsonl", "mails.jsonl"), (gemma, "gemma/model")):
            page = page.replace(str(path), name)
        picture = photographed(only(page, SHOWN), 2450)
        picture.quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
