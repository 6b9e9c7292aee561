"""Bad input of every kind: a case is files and the words of one command."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from audit.core.digest import digest_of_json

DRY = ("--device", "cpu", "--workers", "1", "--format", "json", "--dry-run")
RUN = ("run", *DRY, "--corpus", "tiny.jsonl", "--attack", "extraction:generations=4")
AS_IS = ("run", *DRY, "--attack", "extraction", "--defense", "as_is", "--secrets", "manifest.json")


@dataclass(frozen=True)
class Case:
    """files: content by name, in the working directory. words: of the command."""

    words: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The case as JSON, for the kept ones."""
        return json.dumps({"words": self.words, "files": self.files}, indent=1) + "\n"


LONG = "a" * 5000
NUMBERS: list[Any] = [
    0, 1, 2, -1, 3, 10**9, 10**20, 10**400, 1e-320, 1e308, 1.5, 0.5, -0.0, float("inf"),
    float("nan"), 1e-5,
]  # fmt: skip
TEXTS = [
    "", " ", "a", "none", "inf", "nan", "-1", "1e-320", LONG, "a\0b", "\ud800", "é", "\u202e", "\n",
    "{value}", "#{value}.", "../../etc/passwd", "/dev/zero", "/dev/null", "pipe", "loop", ".",
    "hf:", "http://", "http://127.0.0.1:1/v1", "https://a@b", "=", ",", ":", "a:b=c", "é=1", "%",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS),
    st.integers(), st.floats(), st.text(max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def broken(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """A document in which some values are replaced, removed, repeated or moved."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        at, holder = document, None
        for _ in range(draw(st.integers(1, 8))):
            keys: Sequence[Any] = list(at) if isinstance(at, dict) else range(len(at))
            if not keys:
                break
            holder, key = at, draw(st.sampled_from(keys))
            at = at[key]
            if not isinstance(at, (dict, list)):
                break
        if holder is not None:
            _break(draw, holder, key)
    return document


def _break(draw: st.DrawFn, holder: Any, key: Any) -> None:
    match draw(st.sampled_from(["replace", "replace", "remove", "add", "scale"])):
        case "replace":
            holder[key] = draw(VALUES)
        case "remove":
            del holder[key]
        case "add" if isinstance(holder, list):
            holder.append(holder[key])
        case "add":
            holder[draw(st.sampled_from(["x", "", "epsilon", "seed", "\ud800"]))] = draw(VALUES)
        case _ if type(holder[key]) in (int, float):
            holder[key] = draw(st.sampled_from([-1, 0, 2, 10**30, 1e-300])) * holder[key]


@st.composite
def as_text(draw: st.DrawFn, document: Any) -> str:
    """A JSON document as text, which may be cut, or too deep."""
    text = json.dumps(document)
    match draw(st.sampled_from(["whole"] * 12 + ["cut", "deep", "noise"])):
        case "cut":
            return text[: draw(st.integers(0, len(text)))]
        case "deep":
            return draw(
                st.sampled_from(["[" * 100_000, '{"a":' * 100_000, "[" * 99_999 + "]" * 99_999])
            )
        case "noise":
            place = draw(st.integers(0, len(text)))
            return text[:place] + draw(st.text(max_size=5)) + text[place:]
    return text


NAMES = st.sampled_from(
    ["submix", "none", "public", "dp_sgd", "as_is", "redaction", "blacklist", "capped_submix",
     "pmixed", "seqpate", "s_dpsgd", "gnmax", "invisible_ink", "all", "extraction", "membership",
     "exposure",
     "name_leak", "copies", "ngram", "ledger", "digits", "nothing", "", "é"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["k", "epsilon", "alpha", "budget", "generations", "shadows", "samples", "max_norm", "delta",
     "noise_multiplier", "beta", "claim", "base", "context", "length", "temperature", "steps", "x",
     ""]
)  # fmt: skip
WORD = st.one_of(
    st.sampled_from(TEXTS).filter(lambda text: text not in ("a\0b", "\ud800")),
    st.sampled_from(NUMBERS).map(str),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)


@st.composite
def plugin_text(draw: st.DrawFn) -> str:
    """Such as `submix:k=8,epsilon=nan`."""
    pairs = draw(st.lists(st.tuples(KEYS, WORD), max_size=3))
    return draw(NAMES) + (":" if pairs else "") + ",".join(f"{k}={v}" for k, v in pairs)


POLICIES = st.one_of(
    st.sampled_from(["digits", "regex:patterns.txt", "list:patterns.txt", "python:os:getcwd",
                     "python:nowhere:f", "regex:pipe", "list:/dev/zero", "regex:loop", "python::"]),
    WORD,
    st.tuples(st.sampled_from(["regex", "list", "python", "digits"]), WORD).map(":".join),
)  # fmt: skip
FLAGS: dict[str, st.SearchStrategy[str]] = {
    "--defense": plugin_text(), "--attack": plugin_text(), "--corpus": WORD, "--model": WORD,
    "--secrets": WORD, "--epsilon": WORD, "--delta": WORD, "--policy": POLICIES, "--seed": WORD,
    "--release": WORD | st.just("text:texts=3,tokens=4") | WORD.map("text:texts={}".format),
    "--device": WORD, "--output": WORD, "--plan": WORD, "--format": WORD, "--workers": WORD,
    "--template": WORD | WORD.map("code={}".format) | WORD.map("id=a {}#{{value}}.".format),
}  # fmt: skip
OTHERS = ("run", "tiny.jsonl", "--format", "--json", "--reason", "--strict", "--output", "csv")
COMMANDS: list[tuple[str, ...]] = [
    ("gate",), ("report",), ("compare",), ("list",), ("clean",), ("baseline", "update"),
    ("export",), ("schema",), ("sweep",), ("grap",), (),
]  # fmt: skip
PATTERNS = st.one_of(
    st.just("(a+)+$\n"), st.sampled_from(TEXTS), st.text(max_size=20), st.just("(?:\\w+\\s?)*Z\n")
)


def _flags(names: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    pairs = st.lists(st.sampled_from(names), max_size=4).flatmap(
        lambda chosen: st.tuples(*(st.tuples(st.just(name), FLAGS[name]) for name in chosen))
    )
    return pairs.map(lambda chosen: tuple(word for pair in chosen for word in pair))


@st.composite
def command_lines(draw: st.DrawFn) -> Case:
    """A dry run with bad flags, or another command with bad words."""
    files = {"patterns.txt": draw(PATTERNS)}
    if draw(st.integers(0, 9)) < 6:
        flags = draw(_flags([*FLAGS]))
        own = () if "--defense" in flags else ("--defense", "submix:k=2")
        return Case((*RUN, *own, *flags), files)
    words = draw(st.lists(WORD | st.sampled_from(OTHERS), max_size=5))
    return Case((*draw(st.sampled_from(COMMANDS)), *words), files)


@st.composite
def plantings(draw: st.DrawFn) -> Case:
    """`audit plant` with bad words."""
    pairs = {
        "--kind": st.sampled_from(["code", "id", "name", "record", "pin", ""]),
        "--count": st.sampled_from(["2", "4", "-1", "0", "1e3", "1" + "0" * 20, "x"]),
        "--repetitions": st.sampled_from(["1", "1,4", "", "0", "-1", "1" + "0" * 20, "1,,2", "x"]),
        "--seed": WORD, "--template": FLAGS["--template"], "--design": WORD, "--base": WORD,
    }  # fmt: skip
    chosen = draw(st.lists(st.sampled_from([*pairs]), max_size=3))
    output = draw(st.one_of(st.sampled_from(["o.jsonl", "o.txt", "o", "loop/o.jsonl"]), WORD))
    manifest = draw(st.one_of(st.sampled_from(["m.json", "loop/m.json", "no/m.json"]), WORD))
    words = [word for name in chosen for word in (name, draw(pairs[name]))]
    corpus = draw(st.one_of(st.just("tiny.jsonl"), st.just("tiny.jsonl"), WORD))
    return Case(("plant", corpus, "--output", output, "--manifest", manifest, *words))


def toml(value: Any) -> str:
    """A TOML value, as far as there is one; else text that is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


SETTINGS = ("defense", "attack", "corpus", "model", "secrets", "epsilon", "delta", "policy",
            "release", "seed", "device", "references", "utility_tokens", "threads", "output",
            "format", "workers", "reveal", "sede", "sweep")  # fmt: skip
PLANTING = ("users", "invented", "kinds", "code_digits", "code_copies", "code_prefix",
            "code_suffix", "id_digits", "id_copies", "code_template", "name_copies",
            "x")  # fmt: skip
TRAINING = ("epochs", "learning_rate", "batch_tokens", "max_length", "x")
SWEEP = ("defense", "epsilon", "seeds", "submix", "x")


def _table(keys: Sequence[str]) -> st.SearchStrategy[str]:
    values = st.one_of(
        VALUES, st.sampled_from(NUMBERS), plugin_text(), st.lists(plugin_text(), max_size=2)
    )
    rows = st.lists(
        st.tuples(st.sampled_from(keys), values), max_size=4, unique_by=lambda row: row[0]
    )
    return rows.map(lambda chosen: "".join(f"{k} = {toml(v)}\n" for k, v in chosen))


@st.composite
def plans(draw: st.DrawFn) -> Case:
    """A plan file, of a run or of a sweep, or a pyproject.toml."""
    text = draw(_table(SETTINGS)) if draw(st.booleans()) else ""
    for name, keys in (("planting", PLANTING), ("training", TRAINING), ("sweep", SWEEP)):
        if draw(st.integers(0, 2)) == 0:
            text += f"[{name}]\n{draw(_table(keys))}"
    text = draw(st.sampled_from([text] * 9 + [text[: len(text) // 2], "a = " + "[" * 100_000]))
    if draw(st.booleans()):
        return Case((*RUN, "--defense", "submix:k=2", "--plan", "plan.toml"), {"plan.toml": text})
    if draw(st.booleans()):
        text = "".join(f"{line}\n" for line in text.splitlines()).replace("[", "[tool.audit.", 1)
        return Case((*RUN, "--defense", "submix:k=2"), {"pyproject.toml": f"[tool.audit]\n{text}"})
    head = 'corpus = "tiny.jsonl"\n' if "corpus" not in text else ""
    return Case(("sweep", "plan.toml", "--dry-run"), {"plan.toml": head + text})


@st.composite
def corpora(draw: st.DrawFn) -> Case:
    """A corpus: lines that are broken, or other than they should be."""
    row = {
        "user": "u1",
        "text": "My parcel 12 has not arrived.",
        "name": "Ada Byron",
        "split": "private",
    }
    rows = [{**row, "user": f"u{i % 9}"} for i in range(draw(st.integers(0, 12)))]
    lines = [draw(as_text(draw(broken(row, 1)) if draw(st.booleans()) else row)) for row in rows]
    name = draw(st.sampled_from(["c.jsonl", "c.txt", "c.en", "c.json", "c"]))
    text = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines)
    words = ("run", *DRY, "--attack", "extraction", "--defense", "submix:k=2", "--corpus", name)
    return Case(words, {name: text})


def manifests(whole: dict[str, Any]) -> st.SearchStrategy[Case]:
    """A manifest that is broken, with the right checksum or the old one."""

    @st.composite
    def made(draw: st.DrawFn) -> Case:
        document = draw(broken(whole))
        if isinstance(document, dict) and draw(st.integers(0, 4)):
            document.pop("checksum", None)
            document["checksum"] = digest_of_json(document)
        words = (*AS_IS, "--model", "texts.jsonl")
        return Case(
            words, {"manifest.json": draw(as_text(document)), "texts.jsonl": '{"text": "a"}\n'}
        )

    return made()


def results(whole: dict[str, Any]) -> st.SearchStrategy[Case]:
    """A results.json that is broken, read by every command that reads one."""
    commands = [
        ("gate", "run"), ("report", "run", "--format", "csv"), ("compare", "run", "run"),
        ("baseline", "update", "run", "--reason", "x"), ("report", "run", "--format", "html"),
        ("gate", "run", "--format", "junit,sarif"), ("export", "run", "submix", "out"),
        ("figure", "run", "--format", "svg,tex,csv"),
    ]  # fmt: skip

    @st.composite
    def made(draw: st.DrawFn) -> Case:
        text = draw(as_text(draw(broken(whole))))
        return Case(
            draw(st.sampled_from(commands[:4] * 2 + commands[4:5] * 2 + commands)),
            {"run/results.json": text},
        )

    return made()


LIMIT = {"max": 0.3, "defense": "submix", "attack": "*", "metric": "*"}
CLAIM = {"max_epsilon": 2.0, "unit": "user", "relation": "add_or_remove", "max_delta": 1e-5}
UTILITY = {"max_ratio": 1.5, "metric": "perplexity", "of": "public", "defense": "*"}
WAIVER = {"check": "limit/*", "reason": "known"}
REGRESSION = {"level": 0.05, "min_delta": 0.0, "metrics": ["*"]}


@st.composite
def policies(draw: st.DrawFn, whole: str, baseline: dict[str, Any]) -> Case:
    """An audit.toml or an audit-baseline.json that is broken."""
    text = draw(st.sampled_from(["", "leaks = true\n", "confidence = 0.9\n", "leaks = 3\n"]))
    for name, table in (
        ("limit", LIMIT),
        ("claim", CLAIM),
        ("utility", UTILITY),
        ("waiver", WAIVER),
    ):
        if draw(st.booleans()):
            rows = draw(broken(table, 2)) if draw(st.booleans()) else table
            text += f"[[{name}]]\n" + "".join(
                f"{json.dumps(k)} = {toml(v)}\n" for k, v in rows.items()
            )
            text += "expires = 2030-01-01\n" if name == "waiver" and draw(st.booleans()) else ""
    if draw(st.booleans()):
        rows = draw(broken(REGRESSION, 2))
        text += "[regression]\n" + "".join(
            f"{json.dumps(k)} = {toml(v)}\n" for k, v in rows.items()
        )
    files = {"audit.toml": text, "run/results.json": whole}
    if draw(st.booleans()):
        files["audit-baseline.json"] = draw(as_text(draw(broken(baseline))))
    extra = draw(st.sampled_from([(), ("--strict",), ("--policy", "loop"), ("--baseline", "pipe")]))
    return Case(("gate", "run", *extra), files)


@st.composite
def texts(draw: st.DrawFn, manifest: str) -> Case:
    """A file of a model's texts, or a training file, that is broken."""
    lines = []
    for _ in range(draw(st.integers(0, 5))):
        row = draw(
            st.sampled_from(
                [{"text": "a b"}, {"input_ids": [1, 2], "labels": [1, -100]}, {"text": ""}]
            )
        )
        lines.append(draw(as_text(draw(broken(row, 1)) if draw(st.booleans()) else row)))
    files = {
        "manifest.json": manifest,
        "texts.jsonl": "\n".join(lines),
        "good.jsonl": '{"text": "a"}\n',
    }
    if draw(st.booleans()):
        return Case((*AS_IS, "--model", "texts.jsonl"), files)
    words = (*AS_IS, "--model", "good.jsonl")
    return Case(tuple("as_is:training=texts.jsonl" if w == "as_is" else w for w in words), files)
