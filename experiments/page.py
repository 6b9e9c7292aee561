"""Writes docs/claims.md from the claims and their stored verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from audit.core.writing import write_atomically
from experiments import claim as claims
from experiments.claim import HERE, SCALES, Claim
from experiments.measures import in_words
from experiments.picture import drawn

PAGE = HERE.parent / "docs" / "claims.md"
PICTURES = PAGE.parent / "pictures" / "claims"
STORED = HERE / "results"
DRY_RUNS = STORED / "dry_runs.json"
_TITLES = {
    "submix": "SubMix (arXiv 2201.00971)",
    "selective_dp": "Selective DP-SGD (arXiv 2108.12944)",
    "seqpate": "SeqPATE (NeurIPS 2022)",
    "attacks": "The attacks' own papers",
}
_WHERE = {"cpu": "two cores", "cuda": "a GPU"}
_OPENING = """# What the papers claim, and what we measured
Each number leads to the claim, its statements and our figures. What `small`, `medium` and `real`
are, and what a verdict means, stands [below](#how-each-is-judged).

| | claim, in short | small | medium | real |
|---|---|---|---|---|"""
_HEAD = """
## How each is judged
Each row is one command in a checkout, once `python3 -m venv .venv && .venv/bin/pip install -q -c
constraints.txt -e .` has installed it: `.venv/bin/python -m experiments M1 --scale small`. It runs
sweeps, resumes them, and judges the claim by code from their results. *Confirmed*: each of its
statements holds over the seeds at 95 %. *Contradicted*: one of them fails, at a level adjusted for
their number; so one whose interval lies just on the wrong side contradicts nothing. *Inconclusive*
is neither, and counts as no confirmation.

- **What an interval covers**: the chance in training and sampling. All seeds are measured on the
  same held-out text: up to 16,384 tokens of a model, the first 1,024 tokens of a service, which at
  `medium` are six texts, and seven at `real`.
- **Seeds**: where their values differ, they give a t-interval. It covers 95 % of normal values, and
  some 90 % of skewed ones, as where one session of several stops. Equal values, and those of which
  only one end is known, are judged by the interval of the median, which takes six seeds. Values
  that follow from the settings alone, as an ε may, need no spread.
- **Shares of generations** that are held against a number are pooled, and speak of these models
  alone. Where sessions may stop, how many generations there are depends on what they say: the
  interval is then of the mean of the seeds' rates, and holds whenever they stop.
- **Chance**: about one in forty statements that are false is confirmed by it, and STATEMENTS are
  judged below. Claims that three seeds left open were run with six, eight or twelve, which
  makes that a little likelier.
- **The undefended model** (`none`), also behind a `blacklist`, is measured at its best step on the
  held-out text, all others at the end of their training.
- **What is judged** is the claim as it stands here. Thresholds are ours where the paper has none.
  Each section says how the runs differ from the paper's, and what it says besides.
- **ε** is in nats, of the unit and relation that [each defense](choosing-a-defense.md) promises.

`small` is the embedded model of half a million parameters and simulated text, so orders count there
and numbers do not. `medium` is a model of a few million on public text, where DP-SGD takes 5
epochs, not its 15. `real` is Gemma 3 270M with LoRA, so a real public model, which has surely read
the articles that it is tuned on; planned for SubMix, and run for M1. `paper` is the paper's own
size, for whoever has a GPU. For these `--data DIR` is a folder with the corpora and models:

| scale | DIR holds |
|---|---|
| `medium` | what `python -m experiments.data` writes, and `public_model` (its help says how) |
| `real` | what it writes with `--scale real`, and `gemma`: `model` of `benchmarks/fetch_gemma.py` |
| `paper` | `gpt2`, `wikitext-103`, `wikitext-2`, `customersim`, and what the same script writes |

For `paper` the script takes `--scale paper`, AirDialogue, Europarl and WikiText-2; the others are
as their authors give them. `--dry-run` says what would be run, and how long it takes. What stands
below about `paper` is of stand-ins of the same sizes (`benchmarks/paper_sizes.py`). Minutes are by
the clock, on two cores that other claims often shared. They leave out models that other claims had
trained already, and what a command had done before it was interrupted and started again.

A public model is named by the first digits of its SHA-256. Sections of `medium` that name none are
older: theirs were trained by the same script, and are other models. Figures of different models do
not compare.
"""


def stored_path(claim: str, scale: str) -> Path:
    """Name the file of a verdict among the project's own results."""
    return STORED / scale / f"{claim}.json"


def stored(claim: str) -> dict[str, dict[str, Any]]:
    """Read the stored verdicts of a claim by scale."""
    paths = {scale: stored_path(claim, scale) for scale in SCALES}
    return {
        scale: json.loads(path.read_text(encoding="utf-8"))
        for scale, path in paths.items()
        if path.exists()
    }


def keep(claim: str, scale: str, verdict: str) -> None:
    """Store a verdict, as JSON, among the project's own results."""
    path = stored_path(claim, scale)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, verdict)


def dry_runs() -> dict[str, dict[str, dict[str, str]]]:
    """Read what dry runs expected: by claim, scale and run."""
    expected: dict[str, dict[str, dict[str, str]]]
    expected = json.loads(DRY_RUNS.read_text(encoding="utf-8")) if DRY_RUNS.exists() else {}
    return expected


def keep_dry_run(claim: str, scale: str, expected: Mapping[str, str]) -> None:
    """Store what the runs of a claim are expected to take."""
    every = dry_runs()
    every[claim] = {**every.get(claim, {}), scale: dict(expected)}
    text = json.dumps(dict(sorted(every.items())), indent=1, ensure_ascii=False)
    write_atomically(DRY_RUNS, text + "\n")


def write() -> None:
    """Write the page and its pictures."""
    write_atomically(PAGE, text())
    PICTURES.mkdir(exist_ok=True)
    for name in claims.ids():
        for scale, document in stored(name).items():
            (PICTURES / _picture(name, scale)).write_bytes(drawn(claims.read(name), document))


def write_one(claim: Claim, document: Mapping[str, Any], folder: Path) -> None:
    """Write the section of one claim at one scale, and its picture, into a folder."""
    scale = document["scale"]
    write_atomically(folder / "claim.md", "\n".join(section(claim, {scale: document}, "")))
    (folder / _picture(claim.id, scale)).write_bytes(drawn(claim, document))


def _picture(name: str, scale: str) -> str:
    return f"{name}-{scale}.svg"


def text() -> str:
    """Make the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    every = {name: claims.read(name) for name in claims.ids()}
    have = {name: stored(name) for name in every}
    judged = sum(len(one["statements"]) for scales in have.values() for one in scales.values())
    papers = {
        title: [one for name, one in every.items() if claims.ids()[name].parent.name == paper]
        for paper, title in _TITLES.items()
    }
    yield _OPENING
    for title, of_paper in papers.items():
        if of_paper:
            yield f"| | **{title}** | | | |"
            yield from (_row(one, have[one.id]) for one in of_paper)
    yield _HEAD.replace("STATEMENTS", str(judged))
    for title, of_paper in papers.items():
        if of_paper:
            yield f"## {title}"
            yield "| | claim | published |\n|---|---|---|"
            yield from (f"| {_link(one.id)} | {one.claim} | {one.published} |" for one in of_paper)
            yield ""
    for one in every.values():
        yield from section(one, have[one.id], f"{PICTURES.parent.name}/{PICTURES.name}/")


def _row(claim: Claim, have: Mapping[str, Mapping[str, Any]]) -> str:
    cells = [
        have[scale]["verdict"] if scale in have
        else "out of reach" if scale in claim.unreachable
        else "not run"
        for scale in ("small", "medium", "real")
    ]  # fmt: skip
    return f"| {_link(claim.id)} | {claim.title} | {' | '.join(cells)} |"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def section(claim: Claim, judged: Mapping[str, Mapping[str, Any]], pictures: str) -> Iterator[str]:
    """Yield what is said of one claim. judged: by scale. pictures: the folder of its drawings."""
    yield f"## {claim.id}"
    yield f"**{claim.title}.** {claim.paper}: {claim.claim} Published: {claim.published}."
    if claim.note:
        yield f"\n{claim.note}"
    if claim.untested:
        yield f"\nNot judged: {claim.untested}"
    for scale, why in claim.unreachable.items():
        yield f"\nOut of reach at `{scale}`: {why}"
    for scale, expected in dry_runs().get(claim.id, {}).items() if pictures else ():
        each = "; ".join(f"{run}: {words}" if len(expected) > 1 else words
                         for run, words in expected.items())  # fmt: skip
        yield f"\nBy its dry run on this project's two cores, `{scale}` takes {each}."
    for scale, document in judged.items():
        minutes, seeds = document["seconds"] / 60, ", ".join(map(str, document["seeds"]))
        verdict = document["verdict"]
        models = "".join(f"; public model {sha[:8]}" for sha in document.get("models", ()))
        cost = f"{minutes:.0f} min on {_WHERE[document.get('device', 'cpu')]}"
        yield f"\nAt `{scale}` **{verdict}** (seeds {seeds}; {cost}{models}):\n"
        yield "| statement | | seeds | difference |\n|---|---|---|---|"
        for one in document["statements"]:
            yield f"| {one['says']} | {one['verdict']} | {_seeds(one)} | {_interval(one)} |"
        for name, values in document.get("shown", {}).items():
            yield f"\nBeside them, not judged: {_values(name, values)}."
        yield f"\n![{claim.id} at {scale}]({pictures}{_picture(claim.id, scale)})"
    if claim.learned and judged:
        yield f"\n**What we learned.** {claim.learned}"
    yield ""


def figures(statement: Mapping[str, Any]) -> str:
    """State what was measured, in one line."""
    return f"{_seeds(statement)}; {_interval(statement)}"


def _seeds(statement: Mapping[str, Any]) -> str:
    return "; ".join(starmap(_values, statement["measured"].items()))


def _values(name: str, seeds: Sequence[float | None]) -> str:
    return f"{name}: {', '.join(map(in_words, seeds))}"


def _interval(statement: Mapping[str, Any]) -> str:
    """State the difference with its interval, and of how many trials."""
    low, high, difference = statement["low"], statement["high"], statement["difference"]
    middle = "not known" if difference is None else f"{difference:+.3g}"
    trials = f"; {statement['test']}" if " trials" in statement.get("test", "") else ""
    if low is None and high is None:
        return middle + trials
    ends = ("−∞" if low is None else f"{low:.3g}", "∞" if high is None else f"{high:.3g}")
    return f"{middle} [{ends[0]}, {ends[1]}]{trials}"
