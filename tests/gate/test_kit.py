"""The CI kit, executed: the shell of the action and of the GitLab job, and the pre-commit hook.

`audit` on the PATH is this checkout's. Only the slow tests install; the others record the words.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from audit.results.schema import to_json
from tests.gate import make

PROJECT = Path(__file__).parents[2]
ACTION = yaml.safe_load((PROJECT / "ci" / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((PROJECT / "ci" / "gitlab.yml").read_text(encoding="utf-8"))[".audit-gate"]
COMMIT, DIGEST = "0123456789" * 4, "0123456789abcdef" * 4
PINNED = (
    "./audit",
    "../audit",
    "/builds/audit.whl",
    f"git+https://git.example/us/audit@{COMMIT}",
    f"git+ssh://git@git.example/us/audit@{COMMIT}",
    f"https://files.example/audit-1.whl#sha256={DIGEST}",
)
LOOSE = (
    "",
    "llm-audit",
    "llm-audit==1.0",
    "audit/../x",
    "--index-url=https://files.example ./x",
    "git+https://git.example/us/audit",
    "git+https://git.example/us/audit@main",
    f"git+https://git.example/us/audit@{COMMIT[:12]}",
    f"git+https://git.example/us/audit@{COMMIT}#egg=other",
    f"git+https://git.example/us/audit#@{COMMIT}",
    f"git+http://git.example/us/audit@{COMMIT}",
    "https://files.example/audit-1.whl",
    f"http://files.example/audit-1.whl#sha256={DIGEST}",
)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A working directory with a leaky run in audits/ci, a silent one in audits/quiet."""
    loud = make.rate(200, 200, leaked="leak", p_value=1e-9, claim="nothing claimed")
    control = make.release("none", loud, reference=True, guarantee=make.claim(math.inf))
    for name, leaks in (("ci", 40), ("quiet", 0)):
        lower = make.bound(0.0, m=100, guesses=[(66, 36)])
        said = {"leaked": "leak", "p_value": 1e-9} if leaks else {"least_p": 1e-9}
        found = make.rate(leaks, 200, epsilon_lower=lower, claim="not refuted", **said)
        folder = tmp_path / "audits" / name
        folder.mkdir(parents=True)
        results = to_json(make.run(make.release("dp_sgd", found), control))
        (folder / "results.json").write_text(results, encoding="utf-8")
    return tmp_path


def executable(file: Path, script: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def environment(job: Path) -> dict[str, str]:
    """The variables of a job, with `audit` and a `python` that records its words in `words`."""
    tools = job / "bin"
    executable(tools / "audit", f'exec {shlex.quote(sys.executable)} -W ignore -m audit "$@"')
    executable(tools / "python", f'printf "%s\\n" "$@" >> {shlex.quote(str(job / "words"))}')
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(PROJECT), "HOME": str(job), "LC_ALL": "C.UTF-8"}


Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shell(job: Path, environment: dict[str, str]) -> Shell:
    """Runs the lines of a job as its runner does: until one fails."""

    def run(*lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(lines)]
        return subprocess.run(
            words,
            cwd=job,
            env=environment | variables,
            encoding="utf-8",
            capture_output=True,
            check=False,
        )

    return run


def step(name: str) -> dict[str, Any]:
    (found,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == name]
    return dict(found)


def given(**inputs: str) -> dict[str, str]:
    """The variables of the action's step `Gate`, its inputs being `inputs` or the defaults."""
    wanted = {name: entry["default"] for name, entry in ACTION["inputs"].items()}
    wanted |= {"base": ""} | inputs  # no pull request
    asked = re.findall(r"(\w+): \$\{\{ inputs\.([\w-]+) \}\}", yaml.safe_dump(step("Gate")["env"]))
    return {key: wanted[name] for key, name in asked}


def installed(job: Path) -> list[str]:
    words = (job / "words").read_text(encoding="utf-8").split("\n")
    assert words[:4] == ["-P", "-m", "pip", "install"]  # no pip of the checkout
    return words[4:-1]


def test_gitlab_installs_what_its_owner_pinned_alone(shell: Shell, job: Path) -> None:
    for source in PINNED:
        done = shell(*GITLAB["before_script"], AUDIT_SOURCE=source)
        assert (done.returncode, done.stderr) == (0, "")
        assert installed(job) == ["-q", source]
        (job / "words").unlink()
    for source in LOOSE:
        done = shell(*GITLAB["before_script"], AUDIT_SOURCE=source)
        assert done.returncode == 2, source
        assert done.stderr.startswith("audit-gate: set AUDIT_SOURCE to ")
        assert done.stderr.count("\n") == 1
        assert not (job / "words").exists()
    assert GITLAB["variables"]["AUDIT_SOURCE"] == ""


CHECKOUT = """
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a
export GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_NOSYSTEM=1
git init -q . && echo 'seed = 0' > plan.toml && printf 'audits/\nbin/\n' > .gitignore
printf '[[limit]]\nmetric = "hit_rate"\nmax = 0.01\n' > audit.toml
printf '[tool.audit]\nseed = 0\n' > pyproject.toml
git add . && git commit -qm base
"""
CHANGES = {  # of a pull request: what it commits, and how the job ends
    "nothing": ("true", 1, "gate: FAIL"),
    "a weaker policy": ("echo > audit.toml", 1, "gate: FAIL"),
    "no policy": ("git rm -q audit.toml", 1, "gate: FAIL"),
    "a lax limit": ("sed -i s/0.01/1.0/ audit.toml", 1, "gate: FAIL"),
    "a run folder": ("git add -f audits/ci", 2, "audits/ci is committed"),
    "a run folder in capitals": (
        "mkdir -p AUDITS/ci; cp audits/ci/* AUDITS/ci; git add -f AUDITS/ci",
        2,
        "audits/ci is committed",  # disks of some runners know no case
    ),
    "a submodule": (
        "git init -q audits; git -C audits add .; git -C audits commit -qm x; git add -f audits",
        2,
        "audits is a submodule",
    ),
    "a linked run folder": ("mv audits x; ln -s x audits", 2, "audits is a link"),
    "other settings": ("sed -i s/0/1/ pyproject.toml", 2, "[tool.audit] in pyproject.toml"),
    "linked settings": ("ln -sf plan.toml pyproject.toml", 2, "pyproject.toml is a link"),
}


FULL = ("nothing", "a weaker policy")  # the gate runs in two of the others as well


@pytest.mark.parametrize(
    "change", [pytest.param(c, marks=pytest.mark.full if c in FULL else ()) for c in CHANGES]
)
@pytest.mark.parametrize("kit", ["gitlab", pytest.param("github", marks=pytest.mark.full)])
def test_pull_request_cannot_weaken_its_gate(
    shell: Shell, job: Path, kit: str, change: str
) -> None:
    words, code, said = CHANGES[change]
    executable(job / "bin" / "python", f'exec {shlex.quote(sys.executable)} "$@"')
    request = [CHECKOUT, words, "git add . && git commit -qm request --allow-empty"]
    if kit == "github":
        kit_lines = ['bash "$CI/rules.sh"', step("Gate")["run"]]
        variables = given()
    else:
        kit_lines = [*GITLAB["before_script"][-3:], *GITLAB["script"]]
        variables = {key: str(value) for key, value in GITLAB["variables"].items()}
    done = shell(
        *request,
        'export BASE="$(git rev-parse HEAD~1)" PLAN="" CI="$PROJECT/ci"',
        'export GATE_BASE="$BASE" RULES="$PWD/rules"',
        *kit_lines,
        **{"PROJECT": str(PROJECT), "TMPDIR": str(job), **variables},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_full_run_folder_is_resumed_with_a_key_only(shell: Shell, job: Path) -> None:
    rules = ["git init -q .", f"bash {shlex.quote(str(PROJECT / 'ci' / 'rules.sh'))}"]
    asked = dict(BASE="", PLAN="plan.toml", POLICY="", BASELINE="", RUN="audits/ci", RULES="rules")
    done = shell(*rules, **asked)
    assert done.returncode == 2 and "is not empty; remove it, or set AUDIT_STAGE_KEY" in done.stderr
    assert shell(*rules, **asked, AUDIT_STAGE_KEY="x" * 32).returncode == 0
    assert shell(*rules, **{**asked, "RUN": "audits/new"}).returncode == 0


def test_both_kits_take_the_rules_alike() -> None:
    script = (PROJECT / "ci" / "rules.sh").read_text(encoding="utf-8").split("set -eu\n", 1)[1]
    assert script in GITLAB["before_script"]


def test_actions_of_others_are_pinned_by_digest() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert len(used) == 3
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)


@pytest.mark.slow
def test_gitlab_gates_the_run(shell: Shell, job: Path) -> None:
    defaults = {key: str(value) for key, value in GITLAB["variables"].items()}
    done = shell(*GITLAB["script"], **defaults)
    assert done.returncode == 1, done.stderr
    assert "gate: FAIL" in done.stdout
    for path in [*GITLAB["artifacts"]["paths"], GITLAB["artifacts"]["reports"]["junit"]]:
        kept = job / path.replace("$GATE_RUN", defaults["GATE_RUN"])
        assert kept.exists() or kept.name == "report.html"  # `audit run` writes that one
    (job / "strict.toml").write_text("[[limit]]\nmetric = 'hit_rate'\nmax = 0.01\n")
    changes = {"GATE_RUN": "audits/quiet", "GATE_FLAGS": "--strict --policy strict.toml"}
    assert shell(*GITLAB["script"], **(defaults | changes)).returncode == 4


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        pytest.param({}, 1, marks=pytest.mark.full),
        ({"run": "audits/quiet", "policy": "a policy.toml", "strict": "true"}, 4),
        ({"run": "audits/quiet", "baseline": "none.json"}, 2),
    ],
)
def test_the_action_gates_the_run(
    inputs: dict[str, str], code: int, shell: Shell, job: Path
) -> None:
    (job / "a policy.toml").write_text("[[limit]]\nmetric = 'hit_rate'\nmax = 0.01\n")
    done = shell(step("Gate")["run"], **given(**inputs))
    assert done.returncode == code, done.stderr
    folder = job / inputs.get("run", "audits/ci")
    if code != 2:
        assert {"junit.xml", "report.sarif"} < {file.name for file in folder.iterdir()}


def test_the_action_installs_its_own_checkout(shell: Shell, job: Path) -> None:
    """Its path is what `uses: …@COMMIT` checked out: no index decides what is installed."""
    done = shell(step("Install audit")["run"], GITHUB_ACTION_PATH=str(PROJECT / "ci"))
    assert done.returncode == 0
    option, quiet, file, source = sorted(installed(job))
    assert (option, quiet) == ("-c", "-q")
    assert Path(source).resolve() == PROJECT or Path(file).resolve() == PROJECT


@pytest.mark.slow
def test_what_the_action_installs_is_audit(shell: Shell, job: Path) -> None:
    made = job / "made"
    subprocess.run([sys.executable, "-m", "venv", made], check=True)
    executable(job / "bin" / "python", f'exec {shlex.quote(str(made))}/bin/python "$@" --no-deps')
    done = shell(step("Install audit")["run"], GITHUB_ACTION_PATH=str(PROJECT / "ci"))
    assert done.returncode == 0, done.stderr
    assert (made / "bin" / "audit").is_file()


@pytest.mark.slow
def test_the_hook_gates_a_push(shell: Shell, job: Path) -> None:
    """With the real pre-commit, from a repository of hooks pinned by its commit."""
    executable(job / "bin" / "python", f'exec {shlex.quote(sys.executable)} "$@"')
    made = shell("python -m venv tools", "tools/bin/python -m pip install -q pre-commit")
    if made.returncode:
        pytest.skip("pre-commit cannot be installed here")
    done = shell(PUSHES, HOOKS=str(PROJECT / ".pre-commit-hooks.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


PUSHES = """
export PATH="$PWD/tools/bin:$PATH"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a
export GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_NOSYSTEM=1
mv bin/audit tools/bin/audit
git init -q hooks && cp "$HOOKS" hooks/ && git -C hooks add . && git -C hooks commit -qm hooks
git init -q --bare remote
git init -q model && mv audits model/ && cd model && git remote add origin ../remote
cat > .pre-commit-config.yaml <<END
repos:
  - {repo: ../hooks, rev: $(git -C ../hooks rev-parse HEAD), hooks: [{id: audit-gate}]}
END
git add .pre-commit-config.yaml && git commit -qm first && pre-commit install --hook-type pre-push
if git push -q origin HEAD > said 2>&1; then echo "a leak was pushed"; exit 1; fi
grep -q "FAIL  *leak/dp_sgd/extraction.hit_rate" said
rm -r audits/ci
if git push -q origin HEAD > said 2>&1; then echo "an unaudited model was pushed"; exit 1; fi
grep -q "no results here" said
mv audits/quiet audits/ci
git push -q origin HEAD
git -C ../remote log -1 --all --format=%s | grep -qx first
"""
