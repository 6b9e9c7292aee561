"""What `audit verify` reads and refuses, what it loads, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit import __version__, api
from audit.results import sums
from tests.verify.conftest import Folder

Audit = Callable[..., tuple[int, str, str]]


def test_the_command_says_what_stands_and_what_follows(folder: Folder, audit: Audit) -> None:
    code, said, _ = audit("verify", folder.path)
    assert code == 0 and said.startswith("VERIFIED\n")
    assert "not verifiable:\n" in said and "BLEU: it needs the models and the texts" in said
    folder.edit("results.json", lambda d: d.update(headline=["All is well.\x1b[2J"]))
    code, said, _ = audit("verify", folder.path)
    assert code == 1 and said.startswith("NOT VERIFIED: 2 do not follow\n")
    assert 'headline: stands ["All is well.\\u001b[2J"], follows ["dp_sgd: ' in said
    assert "\x1b" not in said


def test_a_run_of_another_version_is_compared_and_said_to_be_one(folder: Folder) -> None:
    folder.edit("results.json", lambda d: d["environment"].update(audit="0.0.9\x1b[2J"))
    found = api.verify(folder.path)
    assert found.not_verifiable[0] == (
        "how another version words sentences: the run was made by audit '0.0.9\\x1b[2J', this is "
        f"{__version__}"
    )
    assert any("results.json" in line for line in found.differences)  # of its digest
    folder.edit("results.json", lambda d: d["environment"].update(audit=__version__))
    assert found.not_verifiable[1:] == api.verify(folder.path).not_verifiable


def test_it_loads_no_model(by_hand: Path) -> None:
    code = (
        "import sys\n"
        "from audit import api\n"
        f"assert api.verify({str(by_hand)!r}).holds\n"
        "print(*sys.modules.keys() & {'torch', 'transformers', 'matplotlib', 'peft'})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert ran.stdout.strip() == ""


def test_no_value_text_or_name_stands_in_the_evidence(by_hand: Path) -> None:
    from tests.verify import made

    text = (by_hand / "evidence.json").read_text("utf-8")
    for secret in made.drawn().secrets:
        assert secret.value not in text and secret.owner not in text
    assert (by_hand / "evidence.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["evidence.json", "results.json", "manifest.json"])
def test_without_a_file_nothing_is_verified(
    folder: Folder, refused: Callable[..., str], name: str
) -> None:
    (folder.path / name).unlink()
    assert name in refused("verify", folder.path)


@pytest.mark.parametrize("name", ["evidence.json", "results.json"])
@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"form": "audit evidence 2"}', '{"form": "audit evidence 3"}',
     "[" * 9**5],
)  # fmt: skip
def test_what_is_no_such_file_is_one_line(
    folder: Folder, refused: Callable[..., str], name: str, text: str
) -> None:
    (folder.path / name).write_text(text)
    assert name in refused("verify", folder.path)


def test_family_of_no_plan_is_refused(folder: Folder, refused: Callable[..., str]) -> None:
    evidence = json.loads((folder.path / "evidence.json").read_text())
    evidence["family"]["tests"] = 9_000_000
    (folder.path / "evidence.json").write_text(json.dumps(evidence))
    assert "a family of 9,000,000 tests" in refused("verify", folder.path)


def test_evidence_of_another_version_names_the_version_read(
    folder: Folder, refused: Callable[..., str]
) -> None:
    (folder.path / "evidence.json").write_text('{"form": "audit evidence 2"}')
    assert "not 'audit evidence 5'" in refused("verify", folder.path)


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_a_run_that_is_not_complete_is_refused(
    folder: Folder, refused: Callable[..., str], status: str
) -> None:
    folder.edit("manifest.json", lambda d: d.update(status=status))
    assert f"the run is {status}" in refused("verify", folder.path)


def damaged(document: Any) -> None:
    document["secrets"][0][4] = 10**6  # no such owner


def other_access(document: Any) -> None:
    document["releases"][0]["attacks"][0]["access"] = 99


def other_evidence(document: Any) -> None:
    document["releases"][0]["attacks"][0]["seen"][0]["evidence"] = "Guesses"


def uneven(document: Any) -> None:
    document["releases"][0]["attacks"][2]["seen"][0]["values"].pop()


DAMAGES = [damaged, other_access, other_evidence, uneven]


@pytest.mark.parametrize("change", DAMAGES, ids=lambda change: change.__name__)
def test_evidence_from_which_nothing_follows_is_one_line(
    folder: Folder, change: Callable[[Any], None]
) -> None:
    folder.edit("evidence.json", change)
    folder.seal()
    *_, line = api.verify(folder.path).differences
    assert line.startswith("evidence.json, ledger.jsonl: no results follow from them")


def test_a_ledger_that_is_gone_is_found(folder: Folder) -> None:
    (folder.path / "ledger.jsonl").unlink()
    assert "ledger.jsonl: is not here" in api.verify(folder.path).differences[0]
    folder.seal()
    spent = "releases.submix.sessions.utility.epsilon_spent: stands [0."
    assert any(line.startswith(spent) for line in api.verify(folder.path).differences)


def test_digests_are_those_of_sha256sum(folder: Folder) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", sums.NAME], cwd=folder.path, capture_output=True
    )
    assert done.returncode == 0
    (folder.path / sums.NAME).unlink()
    assert api.verify(folder.path).differences == ("SHA256SUMS: is not here, or cannot be read",)


def test_a_digest_names_no_file_elsewhere(folder: Folder) -> None:
    with (folder.path / sums.NAME).open("a") as file:
        file.write(f"{'0' * 64}  /etc/passwd\n")
    (line,) = api.verify(folder.path).differences
    assert line.startswith("/etc/passwd: is not here, or no file of a run")


def test_the_sixth_digit_may_differ_and_the_fifth_may_not(folder: Folder) -> None:
    def nudged(by: float) -> tuple[str, ...]:
        def change(document: Any) -> None:
            power = document["releases"][0]["findings"][0]["power"]
            power["largest_epsilon"] *= by

        folder.edit("results.json", change)
        folder.seal()
        return api.verify(folder.path).differences

    assert nudged(1 + 2e-6) == ()
    assert len(nudged(1 + 5e-5)) == 1


def test_exact_floats_come_back(by_hand: Path) -> None:
    from audit.results.exact import pack, unpack

    values = [0.1, -0.0, 5e-324, float("inf"), 1e308, 3, True, None, "~abc", {"a": [0.5]}]
    assert unpack(json.loads(json.dumps(pack(values)))) == values
    assert str(unpack(pack(-0.0))) == "-0.0"
