"""The command line as a user meets it: no training here, only what comes before it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit.cli.commands import REPORTS, _remedies
from audit.core.errors import UsageError
from audit.plugins import registry
from audit.results.badge import CLOSES
from tests import by_hand
from tests.command_line import audit

PROJECT = Path(__file__).parents[2]
MODEL = PROJECT / "fixtures" / "public_model"
RUN = ("run", "--attack", "extraction", "--device", "cpu", "--workers", "1", "--format", "json")
DRY = (*RUN, "--dry-run")  # takes the same way, and trains nothing should it not be refused
ELSEWHERE = ("--workers", "ray")  # so no training is timed here
MANIFEST = {"schema_version": "1", "status": "complete", "hash": "0" * 64, "plan": {}}


def process(*words, cwd, **variables):
    """The command line as a process of its own, of which there are few: each imports everything."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AUDIT_")}
    environment = {**kept, "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def tree(folder):
    return {p: p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def refused(*words, cwd, **variables):
    """Runs what must be refused; returns its one line on stderr."""
    before = tree(cwd)
    done = audit(*words, cwd=cwd, **variables)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("audit: ")
    assert all(c.isprintable() for c in done.stderr[:-1])
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
    assert tree(cwd) == before
    return done.stderr


def jsonl(path, users, **fields):
    rows = [{"user": f"u{i}", "text": f"text {i}", **fields} for i in range(users)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


def model_in(tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    return tmp_path / "model"


# bad words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--defense", "submx"), "unknown defense 'submx'; did you mean 'submix'?"),
        (("--defense", "submix:kk=3"), "submix: unknown parameter 'kk'; did you mean 'k'?"),
        (("--defense", "submix", "--epsilon", "0"), "epsilon is 0.0; it must be above 0"),
        (("--defense", "submix", "--epsilon", "much"), "--epsilon"),
        (("--defense", "submix", "--format", "htm"), "unknown report 'htm'; did you mean 'html'?"),
        (("--defense", "submix", "--log", "wandb:x"), "--log: expected mlflow:URI, such as"),
        (("--defense", "submix", "--model", "nowhere"), "model 'nowhere': no such folder"),
        (("--defense", "submix", "--corpus", "nowhere"), "corpus 'nowhere': no such file"),
        (("--defense", "submix", "--plan", "nowhere.toml"), "nowhere.toml: no such file"),
        (("--defense", "submix", "--workers", "-1"), "workers is -1"),
        (("--defense", "submix", "--workers", "many"), "--workers"),
        (("--defence", "submix"), "--defense"),
        ((), "no defense is named"),
    ],
)
def test_a_bad_word_is_refused_in_one_line(tmp_path, words, said):
    """By each way that a word is read; the words themselves are tested where they are."""
    assert said in refused(*DRY, *words, cwd=tmp_path)


def test_k_larger_than_the_number_of_trained_on_users(tmp_path):
    said = refused(*RUN, "--defense", "submix:k=121", cwd=tmp_path)
    assert re.search(r"submix: k is 121, but only \d+ users are trained on", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rum",), "unknown command 'rum'; did you mean 'run'?"),
        (("list", "defences"), "defenses"),
        (("run", "x"), "x"),
        (("clean",), "DIR"),
        (("clean", "."), "not a run folder"),
        (("clean", "missing"), "missing: is not a run folder"),
        (("report", "."), "results.json"),
        (("report", "missing", "--format", "htm"), "unknown report 'htm'"),
        (("report", "missing", "--format", "htm", "--format", "html"), "unknown report 'htm'"),
    ],
)
def test_other_commands_are_refused_alike(tmp_path, words, said):
    assert said in refused(*words, cwd=tmp_path)


def test_clean_removes_nothing_but_a_runs_stages(tmp_path):
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "thesis.tex").write_text("x")
    refused("clean", ".", cwd=tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "results.json").write_text("{}")
    done = audit("clean", ".", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "results.json"]


def test_a_manifest_of_somebody_else_is_no_run_folder(tmp_path):
    """Web apps and browser extensions have a manifest.json, too."""
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "thesis.tex").write_text("x")
    (tmp_path / "manifest.json").write_text('{"name": "my app", "manifest_version": 3}')
    assert "not a run folder" in refused("clean", ".", cwd=tmp_path)


def test_clean_does_not_pull_the_stages_from_under_a_run(tmp_path):
    from audit.results.folder import RunFolder

    with RunFolder(tmp_path, "h").held({}):
        assert "another run" in refused("clean", ".", cwd=tmp_path)


# bad files


def test_an_error_carries_no_terminal_escapes(tmp_path):
    row = '{"text": "x", "user": "\\u001b]0;owned\\u0007\\n\\u202e", "split": "%s"}\n'
    (tmp_path / "c.jsonl").write_text(row % "private" + row % "heldout")
    said = refused(*DRY, "--defense", "none", "--corpus", "c.jsonl", cwd=tmp_path)
    assert "two splits" in said


def test_truncated_weights(tmp_path):
    weights = model_in(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    said = refused(*DRY, "--defense", "none", "--model", "model", cwd=tmp_path)
    assert "model.safetensors: corrupt weights" in said


def test_a_broken_tokenizer(tmp_path):
    (model_in(tmp_path) / "tokenizer.json").write_text("{")
    said = refused(*RUN, "--defense", "none", "--model", "model", cwd=tmp_path)
    assert "model/tokenizer.json: cannot be read" in said


def test_a_tokenizer_that_drops_digits(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = model_in(tmp_path)
    letters = {c: i for i, c in enumerate(["<unk>", "<|endoftext|>", *map(chr, range(32, 127))])}
    vocabulary = {c: i for c, i in letters.items() if not c.isdigit()}
    toy = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    toy.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    toy.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special})
    )
    said = refused(*RUN, "--defense", "none", "--model", "model", cwd=tmp_path)
    assert re.search(r"the tokenizer cannot express '\d{5}' after '.* code .*'", said)


def test_more_owners_than_users(tmp_path):
    (tmp_path / "plan.toml").write_text("[planting]\nusers = 121")
    said = refused(*RUN, "--defense", "none", "--plan", "plan.toml", cwd=tmp_path)
    assert "planting.users is 121, but the corpus has 120 private users" in said


def test_a_bad_variable_is_refused_in_one_line(tmp_path):
    said = refused(*DRY, "--defense", "none", cwd=tmp_path, AUDIT_SEED="x")
    assert "AUDIT_SEED is 'x'" in said


# bad places


def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    words = (*RUN, "--defense", "none", "--output")
    assert "file/run: cannot be written" in refused(*words, "file/run", cwd=tmp_path)
    assert "is a file" in refused(*words, "file", cwd=tmp_path)


def test_an_output_that_holds_another_plan_or_something_else(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "one.tex").write_text("")
    words = (*RUN, "--defense", "none", "--output")
    assert "run: holds a run of another plan" in refused(*words, "run", cwd=tmp_path)
    assert "thesis: is not empty and holds no run" in refused(*words, "thesis", cwd=tmp_path)


def test_a_manifest_that_is_no_text(tmp_path):
    (tmp_path / "audits" / "x").mkdir(parents=True)
    (tmp_path / "audits" / "x" / "manifest.json").write_bytes(b"\xff\xfe")
    refused(*DRY, "--defense", "none", "--output", "audits/x", cwd=tmp_path)


# good words


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path):
    jsonl(tmp_path / "own.jsonl", 40)
    words = ("--defense", "submix:k=2", "--corpus", "own.jsonl", "--epsilon", "3")
    done = audit(*DRY, *words, *ELSEWHERE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["own.jsonl"]
    assert "submix:epsilon=3.0,k=2" in done.stdout
    assert "audits/" in done.stdout
    assert str(tmp_path) not in done.stdout


def test_every_report_is_named_in_the_help_and_on_its_page():
    page = (PROJECT / "docs" / "reference" / "formats.md").read_text("utf-8")
    for name in registry.names("reports"):
        assert name in REPORTS.split(", ") and f"`{name}`" in page
    assert "model_index" in audit("report", "--help", cwd=PROJECT).stdout


def test_a_flag_of_zero_is_a_flag_that_was_given(tmp_path):
    (tmp_path / "plan.toml").write_text("seed = 5\n")
    words = ("--defense", "public", "--no-references", "--plan", "plan.toml", "--seed", "0")
    done = audit(*DRY, *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--seed 0" in done.stdout


LIGHT = [
    *(["--help"], ["--version"], ["list"], ["list", "--json"], ["schema"]),
    *([command, "--help"] for command in ("run", "report", "clean", "list", "doctor", "schema")),
]
EACH = """
import io, sys
from contextlib import redirect_stdout
from audit.cli.app import main
heavy = {"torch", "transformers", "matplotlib", "typst", "scipy", "spacy", "peft"}
for words in WORDS:
    sys.argv = ["audit", *words]
    with redirect_stdout(io.StringIO()) as printed:
        try:
            main()
        except SystemExit as left:
            assert not left.code, words
    assert printed.getvalue(), words
    assert "click" in sys.modules and not heavy & sys.modules.keys(), words
"""


def test_light_commands_import_nothing_heavy(tmp_path):
    done = process("-c", EACH.replace("WORDS", repr(LIGHT)), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_process_of_its_own_with_the_same_answers(tmp_path):
    words = ("rum",)  # that imports nothing more
    done, here = process("-m", "audit", *words, cwd=tmp_path), audit(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", here.stderr)
    assert (here.returncode, here.stdout) == (2, "")


def test_without_a_command_the_help_is_shown_as_it_is(tmp_path):
    done = audit(cwd=tmp_path)
    assert done.returncode in (0, 2)
    lines = (done.stdout + done.stderr).splitlines()
    assert "Commands:" in lines


def test_the_list_is_what_the_contract_says(tmp_path):
    found = json.loads(audit("list", "--json", cwd=tmp_path).stdout)
    assert list(found) == ["defenses", "attacks", "corpora", "models", "policies"]
    assert all(entry["name"] for rows in found.values() for entry in rows)
    assert Path(found["models"][0]["path"], "config.json").is_file()
    assert json.loads(audit("list", "models", "--json", cwd=tmp_path).stdout) == found["models"]


@pytest.mark.parametrize("kind", ["defenses", "attacks"])
def test_every_parameter_is_listed_with_its_meaning(kind, tmp_path):
    for entry in json.loads(audit("list", kind, "--json", cwd=tmp_path).stdout):
        assert list(entry["meanings"]) == list(entry["parameters"])
        lacking = [name for name, meaning in entry["meanings"].items() if not meaning]
        assert not lacking, entry["name"]


def test_one_name_is_listed_with_defaults_and_without_what_only_runs_set(tmp_path):
    told = audit("list", "submix", cwd=tmp_path).stdout
    assert told.startswith("submix: Mixes the predictions of an ensemble")
    for words in ("\n  epsilon=2.0\n      privacy budget", "\n  temperature=1.0\n", "=none\n"):
        assert words in told
    external = audit("list", "as_is", cwd=tmp_path).stdout
    assert "\n  claim=none\n" in external and "sha256" not in external
    wrong = audit("list", "submx", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr) == (2, "audit: there is no 'submx'; did you mean "
                                                "'submix'?\n")  # fmt: skip


@pytest.mark.full  # the contract tries each defense and attack by itself
def test_every_listed_defense_can_be_planned_with_every_attack(tmp_path):
    words = ("run", "--defense", "all", "--attack", "all", "--device", "cpu", "--dry-run")
    done = audit(*words, *ELSEWHERE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(audit("list", "defenses", "--json", cwd=tmp_path).stdout)
    for entry in (one for one in listed if one["name"] != "as_is"):  # that trains nothing
        assert f"\n  {entry['name']}: " in done.stdout


def test_the_schema_is_a_json_schema(tmp_path):
    found = json.loads(audit("schema", cwd=tmp_path).stdout)
    assert found["type"] == "object"
    assert {"schema_version", "releases"} <= set(found["properties"])


def test_debug_shows_where(tmp_path):
    with pytest.raises(UsageError, match="unknown defense"):  # python prints where it was raised
        audit(*RUN, "--defense", "submx", cwd=tmp_path, AUDIT_DEBUG="1")


def test_a_remedy_stands_on_a_line_of_its_own_to_be_pasted():
    leak = by_hand.release("none", by_hand.guarantee(None), by_hand.finding(0.5, leaked="leak"))
    command = "audit run --defense none --defense dp_sgd --seed 0"
    of_others = by_hand.run(leak, warnings=["something else", CLOSES + command])
    assert _remedies(of_others) == ["what may close the leak:", f"  {command}"]
    assert _remedies(by_hand.run(leak)) == ["  the same with --remedies: what may close the leak"]
    assert _remedies(by_hand.run()) == []
    elsewhere = by_hand.release(
        "as_is", by_hand.guarantee(None), by_hand.finding(0.5, leaked="leak")
    )
    (line,) = _remedies(by_hand.run(elsewhere))
    assert line.startswith("  the same with as_is:base=DIR and --corpus PLANTED")


def test_sweep_under_torchrun_is_refused(tmp_path, monkeypatch):
    """Every process would run it; the folder's lock would stop all but one, at any moment."""
    launch = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in launch.items():
        monkeypatch.setenv(name, value)
    done = audit("sweep", "plan.toml", cwd=tmp_path)
    assert done.returncode == 2 and "in one process" in done.stderr
