"""A pyproject.toml of a stranger runs no code, loads no plugin and leads nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from audit.plan import trust
from audit.plan.settings import KNOWN, TABLES, gather
from audit.plugins import registry
from tests.command_line import audit as command

EVIL = "from pathlib import Path\nPath('ran').touch()\ndef find(text):\n    return []\n"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("AUDIT_")]:
        monkeypatch.delenv(variable)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


AWAY: list[tuple[str, Any, str]] = [
    ("policy", "python:own:find", "python runs code"),
    ("policy", " python : own:find", "python runs code"),
    ("policy", "python:own:find,miss=0.1", "python runs code"),
    ("policy", "entities,pipeline=./spacy", "entities runs code"),
    ("policy", "regex:../secrets.txt", "outside"),
    *(("corpus", place, "outside") for place in ("../mine.jsonl", "/etc/passwd", "a\0b")),
    *(("corpus", place, "outside") for place in ("link/data.jsonl", "loop")),
    ("corpus", "hf:someone/data", "network"),
    *(("model", f"{scheme}://example.org/v1", "network") for scheme in ("https", "HTTPS")),
    ("secrets", "../manifest.json", "outside"),
    ("output", "/tmp/elsewhere", "outside"),
    *(("workers", place, "Ray") for place in ("ray", "ray://example.org:10001")),
    ("defense", ("none", "theirs:k=1"), "theirs loads another package"),
    ("defense", ("all",), "all loads another package"),
    ("defense", ("as_is:base=../model",), "outside"),
    ("defense", ("as_is:claim=1:0:user:replace,base=hf:x",), "network"),
    ("attack", ("theirs",), "theirs loads another package"),
    ("format", ("json", "theirs"), "theirs loads another package"),
    *(("silence", looser, "easier") for looser in ({"hits": 0.5}, {"scores": 0.4, "power": 0.9})),
    ("silence", {"power": 0.5}, "easier"),
]


def test_what_leads_away_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "of_others", lambda kind: {"theirs"})
    Path("link").symlink_to(tmp_path)
    Path("loop").symlink_to("loop")
    for key, value, why in AWAY:
        (reason,) = trust.untrusted({"seed": 3, key: value}).values()
        assert why in reason, (key, value)


def test_setting_needs_consent_until_it_is_said_otherwise() -> None:
    needed = set(trust.untrusted(dict.fromkeys([*KNOWN, *TABLES, "new"], "1")))
    assert needed == {"reveal", "author", "silence", "new"}  # what is not a table is no silence
    assert not trust.untrusted({"silence": {"hits": 0.1, "power": 0.9}})


def test_folder_with_a_link_that_leads_outside_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    inner = Path("data/inner")
    inner.mkdir(parents=True)
    (inner / "a.txt").write_text("x")
    (inner / "b.txt").symlink_to("a.txt")
    assert trust.untrusted({"corpus": "data"}) == {}
    for name, to in (("c.txt", tmp_path / "mine.txt"), ("d", tmp_path), ("e.txt", "/nowhere")):
        (inner / name).symlink_to(to)
        assert "leads outside" in trust.untrusted({"corpus": "data"})["corpus"], name
        (inner / name).unlink()


def test_what_stays_inside_is_taken() -> None:
    inside = {
        "policy": "regex:ids.txt", "corpus": "data/mine.jsonl", "model": "embedded", "seed": 1,
        "output": "audits/x", "workers": "2", "defense": ("submix:k=8,alpha=2", "as_is:base=./m"),
        "attack": ("extraction",), "format": ("html",), "planting": {"users": 3},
    }  # fmt: skip
    assert trust.untrusted(inside) == {}


def test_only_the_user_lets_it_run_code(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text('[tool.audit]\nseed = 1\npolicy = "python:own:find"\n')
    assert gather({}, None) == {"seed": 1}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("audit: pyproject.toml: ignored policy (python runs code); give it on")
    assert "--trust-config" in line
    assert gather({}, None, trust_config=True) == {"seed": 1, "policy": "python:own:find"}
    Path("plan.toml").write_text('policy = "python:own:find"\n')
    assert gather({}, Path("plan.toml"))["policy"] == "python:own:find"
    ignored, code = capsys.readouterr().err.splitlines()
    assert "ignored policy" in ignored
    assert "its policy 'python:own:find' is code, of whoever wrote this plan" in code


def test_it_cannot_trust_itself() -> None:
    Path("pyproject.toml").write_text("[tool.audit]\ntrust_config = true\n")
    done = command("run", "--defense", "none", "--dry-run")
    assert done.returncode == 2
    assert "unknown key 'trust_config'" in done.stderr


@pytest.mark.parametrize("trusted", [False, True])
def test_the_command_line_runs_it_or_not(trusted: bool) -> None:
    Path("evil_policy.py").write_text(EVIL)
    Path("pyproject.toml").write_text('[tool.audit]\npolicy = "python:evil_policy:find"\n')
    words = ["run", "--defense", "none", "--attack", "membership", "--device", "cpu"]
    done = command(*words, "--dry-run", *(["--trust-config"] if trusted else []))
    assert done.returncode == 0, done.stderr
    assert Path("ran").exists() == trusted
    assert ("ignored policy" in done.stderr) != trusted
