"""A frozen plan: a run that follows it is told from one that does not, and what proves its time."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from audit import api
from audit.core.digest import sha256_of_file
from audit.core.errors import UsageError
from audit.results import folder as run_folder
from audit.results import frozen
from audit.run import pipeline
from audit.verify import frozen as verifying
from tests import command_line
from tests.verify.conftest import Folder
from tests.verify.proofs import key, stamped, tool

WORDS = ("--defense", "uniform", "--attack", "exposure", "--no-references")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed plan, the run that follows it, and the signer's key."""
    folder = tmp_path_factory.mktemp("frozen")
    ann = key(folder, "ann")
    (folder / "signers").write_text(f"ann@lab {(folder / 'ann.pub').read_text()}")
    freeze = ("--freeze", "plan.json", "--sign", ann)
    done = command_line.audit("plan", *WORDS, "--output", "run", *freeze, cwd=folder)
    assert done.returncode == 0, done.stderr
    done = command_line.audit("run", *WORDS, "--output", "run", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_run_that_follows_is_verified(place: Path) -> None:
    checked = api.verify(place / "run", place / "plan.json", signers=place / "signers")
    assert checked.holds
    assert any("a key that signers allows for ann@lab" in line for line in checked.verified)
    assert any("the time" in line and "not proven" in line for line in checked.not_verifiable)
    assert any("no --rules" in line for line in checked.not_verifiable)
    assert any("cannot be excluded" in line for line in checked.not_verifiable)


def test_without_signers_nobody_is_named(place: Path) -> None:
    checked = api.verify(place / "run", place / "plan.json")
    assert checked.holds and not any("signed by" in line for line in checked.verified)
    assert any("no signature was checked" in line for line in checked.not_verifiable)


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--attack", "exposure", "--attack", "membership"), "plan.attacks"),
        (("--attack", "exposure", "--seed", "1"), "plan.seed"),
    ],
    ids=["another attack", "another seed"],
)
def test_run_of_another_plan_differs(
    place: Path, tmp_path: Path, words: tuple[str, ...], where: str
) -> None:
    """More attacks mean more tests; another seed other coins: either could be chosen afterwards."""
    other = tmp_path / "other.json"
    plan = ("plan", "--defense", "uniform", "--no-references", *words, "--freeze", other)
    assert command_line.audit(*plan, cwd=tmp_path).returncode == 0
    checked = api.verify(place / "run", other)
    assert checked.exit_code == 1 and not checked.verified
    assert any(f"other.json: {where}" in line for line in checked.differences)


def test_plan_that_hardly_differs_differs(place: Path, tmp_path: Path) -> None:
    """Numbers of results may differ as machines do; those of a plan are its own."""
    one, path = frozen.read(place / "plan.json"), tmp_path / "plan.json"
    plan = {**one.plan, "delta": one.plan["delta"] * (1 + 1e-9)}
    path.write_text(replace(one, plan=plan).text)
    (line,) = api.verify(place / "run", path).differences
    assert "plan.hash: run" in line


def edited(place: Path, folder: Path, change: dict[str, object]) -> Path:
    statement = json.loads((place / "plan.json").read_text())
    statement["predicate"].update(change)
    path = folder / "plan.json"
    path.write_text(json.dumps(statement, indent=1, ensure_ascii=False) + "\n")
    (folder / "plan.json.sig").write_bytes((place / "plan.json.sig").read_bytes())
    return path


@pytest.mark.parametrize("change", [{"tests": 1}, {"claim_tests": 99}, {"level": 0.2}])
def test_other_tests_differ_and_break_the_signature(
    place: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    path = edited(place, tmp_path, change)
    assert not api.verify(place / "run", path).holds
    with pytest.raises(UsageError, match="not a signature of"):
        api.verify(place / "run", path, signers=place / "signers")


@pytest.mark.parametrize(
    "change",
    [{"releases": ["submix"]}, {"null": "?"}, {"tests": float("inf")}, {"plan": []}, {"more": 1}],
    ids=str,
)
def test_statement_that_nobody_froze_is_refused(
    place: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=r"edited|not a frozen plan"):
        api.verify(place / "run", edited(place, tmp_path, change))


def test_key_that_stands_twice_is_refused(place: Path, tmp_path: Path) -> None:
    """Of two levels a reader may see the first, and a program takes the last."""
    path = edited(place, tmp_path, {})
    path.write_text(path.read_text().replace('"level"', '"level": 0.5, "level"'))
    with pytest.raises(UsageError, match="was edited"):
        api.verify(place / "run", path)


@pytest.mark.parametrize(
    "change",
    [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")],
    ids=["BOM", "CR"],
)
def test_statement_in_other_bytes_is_refused(
    place: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = edited(place, tmp_path, {})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=r"edited|not a frozen plan"):
        api.verify(place / "run", path)


def test_plan_with_the_word_of_infinity_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for infinite in ("inf", float("inf")):
        parameters = {"claim": infinite}
        defenses = [{"name": "as_is", "parameters": parameters, "reference": False}]
        path.write_text(frozen.Frozen({"defenses": defenses}, 1, 1, 0.05, "").text)
        assert frozen.read(path).plan["defenses"][0]["parameters"] == parameters


def test_rules_are_compared(place: Path, tmp_path: Path) -> None:
    rules = tmp_path / "audit.toml"
    rules.write_text("[gate]\n")
    checked = api.verify(place / "run", place / "plan.json", rules=rules)
    assert checked.exit_code == 1 and "frozen the default rules" in checked.differences[0]
    words = ("--freeze", "ruled.json", "--rules", rules)
    assert command_line.audit("plan", *WORDS, *words, cwd=tmp_path).returncode == 0
    assert api.verify(place / "run", tmp_path / "ruled.json", rules=rules).holds
    rules.write_text("[gate]\n\n")
    assert not api.verify(place / "run", tmp_path / "ruled.json", rules=rules).holds


PROOFS = ("signers", "timestamp", "authority", "rules", "bundle", "identity", "issuer")


@pytest.mark.parametrize("name", [*PROOFS, "trusted_root"])
def test_proofs_are_of_a_frozen_plan(place: Path, name: str) -> None:
    with pytest.raises(UsageError, match="about --frozen"):
        api.verify(place / "run", **{name: place / "signers"})


def test_sweep_follows_no_frozen_plan(place: Path, sweep: Folder) -> None:
    with pytest.raises(UsageError, match="a plan is frozen for a run"):
        api.verify(sweep.path, place / "plan.json")


def test_pattern_that_excludes_names_nobody(place: Path, tmp_path: Path) -> None:
    signers = tmp_path / "keys"
    signers.write_text(f"!bob@lab,*@lab {(place / 'ann.pub').read_text()}")
    checked = api.verify(place / "run", place / "plan.json", signers=signers)
    assert any("a key that keys allows for *@lab" in line for line in checked.verified)


def test_pipe_of_proofs_is_not_waited_for(place: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for proofs in ({"signers": pipe}, {"timestamp": pipe, "authority": pipe}, {"rules": pipe}):
        with pytest.raises(UsageError, match="no regular file"):
            api.verify(place / "run", place / "plan.json", **proofs)


def test_missing_program_is_named(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"^ssh-keygen: cannot be run .* install it"):
        api.verify(place / "run", place / "plan.json", signers=place / "signers")


def test_edited_plan_is_refused(place: Path, tmp_path: Path) -> None:
    plan = {**frozen.read(place / "plan.json").plan, "seed": 3}
    with pytest.raises(UsageError, match="was edited"):
        api.verify(place / "run", edited(place, tmp_path, {"plan": plan}))


def test_signature_of_a_stranger_is_refused(place: Path, tmp_path: Path) -> None:
    key(tmp_path, "eve")
    signers = tmp_path / "signers"
    signers.write_text(f"ann@lab {(tmp_path / 'eve.pub').read_text()}")
    with pytest.raises(UsageError, match="not signed by one of"):
        api.verify(place / "run", place / "plan.json", signers=signers)


def test_signature_for_another_purpose_is_refused(place: Path, tmp_path: Path) -> None:
    path = edited(place, tmp_path, {})
    path.with_name("plan.json.sig").unlink()
    tool("ssh-keygen", "-Y", "sign", "-f", place / "ann", "-n", "git", path, cwd=tmp_path)
    with pytest.raises(UsageError, match="not a signature of"):
        api.verify(place / "run", path, signers=place / "signers")


def test_timestamp_proves_the_time(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp, authority = stamped(tmp_path, place / "plan.json")
    proofs = {"timestamp": stamp, "authority": authority}
    checked = api.verify(place / "run", place / "plan.json", **proofs)
    assert checked.holds and any("which existed at 2" in line for line in checked.verified)
    assert not any("time at which" in line for line in checked.not_verifiable)
    assert not any("before" in line for line in checked.verified)  # it is of the same day
    assert any("this was before the run" in line for line in checked.not_verifiable)
    later = _began(tmp_path, place, "2100-01-01")
    assert not any("before" in line for line in api.verify(*later, **proofs).verified)
    monkeypatch.setattr(verifying, "datetime", Later)
    assert any("before 2100-01-01" in line for line in api.verify(*later, **proofs).verified)
    earlier = _began(tmp_path, place, "2020-01-01")
    assert any("is after 2020-01-01" in line for line in api.verify(*earlier, **proofs).differences)
    with pytest.raises(UsageError, match="give --authority"):
        api.verify(place / "run", place / "plan.json", timestamp=stamp)
    with pytest.raises(UsageError, match="not a timestamp of"):
        api.verify(place / "run", edited(place, tmp_path, {"tests": 5}), **proofs)


def test_timestamp_is_of_no_zone_and_may_have_decimals(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp, authority = stamped(tmp_path, place / "plan.json", decimals=6)
    before = datetime.now(UTC) - timedelta(minutes=2)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "HERE-14")
        time.tzset()
        proofs = {"timestamp": stamp, "authority": authority}
        checked = api.verify(place / "run", place / "plan.json", **proofs)
    time.tzset()
    (found,) = (re.search(r"existed at (.+) UTC", line) for line in checked.verified[-1:])
    assert found and before < datetime.fromisoformat(f"{found[1]}+00:00") <= datetime.now(UTC)


def _began(folder: Path, place: Path, day: str) -> tuple[Path, Path]:
    """The run, which says that it began on another day, and its frozen plan."""
    run = folder / day
    shutil.copytree(place / "run", run, ignore=shutil.ignore_patterns("stages", "SHA256SUMS"))
    document = json.loads((run / "results.json").read_text())
    document["environment"]["began"] = day
    (run / "results.json").write_text(json.dumps(document))
    names = ("results.json", "evidence.json")
    sums = [f"{sha256_of_file(run / name)}  {name}\n" for name in names]
    (run / "SHA256SUMS").write_text("".join(sums))
    return run, place / "plan.json"


class Later(datetime):
    """A clock of another century."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2100, 1, 1, tzinfo=tz)


def test_run_that_is_written_again_began_when_it_began(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a plan that is frozen between both would have existed before it."""
    shutil.copytree(place / "run", tmp_path / "run")
    for module in (pipeline, run_folder):
        monkeypatch.setattr(module, "datetime", Later)
    words = ("run", *WORDS, "--output", "run", "--format", "json")
    assert command_line.audit(*words, cwd=tmp_path).returncode == 0
    first, again = (
        json.loads((one / "run" / "results.json").read_text())["environment"]
        for one in (place, tmp_path)
    )
    assert again["date"] > first["date"] and again["began"] == first["began"] == first["date"]


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + len(content).to_bytes(2) + content


def test_text_of_a_reply_is_not_its_time(place: Path, tmp_path: Path) -> None:
    """The status of a reply is not signed: whoever has the reply writes into it what he likes."""
    stamp, authority = stamped(tmp_path, place / "plan.json")
    status = b"\x02\x01\x00" + _der(0x30, _der(0x0C, b"\nTime stamp: Jan  1 00:00:00 2020 GMT\n"))
    reply = stamp.read_bytes()[4:]  # behind its tag and length
    forged = tmp_path / "forged.tsr"
    forged.write_bytes(_der(0x30, _der(0x30, status) + reply[2 + reply[1] :]))
    proofs = {"timestamp": forged, "authority": authority}
    checked = api.verify(place / "run", place / "plan.json", **proofs)
    assert checked.holds and not any("2020" in line for line in checked.verified)


def test_timestamp_of_a_weak_digest_is_refused(place: Path, tmp_path: Path) -> None:
    """Two statements could have the same SHA-1."""
    stamp, authority = stamped(tmp_path, place / "plan.json", "sha1")
    with pytest.raises(UsageError, match="no time of a SHA-256"):
        api.verify(place / "run", place / "plan.json", timestamp=stamp, authority=authority)


@pytest.mark.parametrize("name", ["plan.json", "plan.json.sig"])
def test_frozen_file_is_written_once(tmp_path: Path, name: str) -> None:
    """A signature of something else beside it would be taken for its own."""
    (tmp_path / name).write_text("of another")
    words = ("plan", *WORDS, "--freeze", "plan.json")
    again = command_line.audit(*words, cwd=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr


def test_signature_is_not_written_through_a_link(place: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json.sig").symlink_to(tmp_path / "elsewhere")
    words = ("plan", *WORDS, "--freeze", "plan.json", "--sign", place / "ann")
    done = command_line.audit(*words, cwd=tmp_path)
    assert done.returncode == 2 and "exists already" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_name_that_begins_with_a_dash_is_signed(place: Path, tmp_path: Path) -> None:
    words = ("plan", *WORDS, "--freeze=-plan.json", "--sign", place / "ann")
    done = command_line.audit(*words, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "-plan.json.sig").exists(), done.stderr


def test_key_that_cannot_sign_freezes_nothing(tmp_path: Path) -> None:
    words = ("plan", *WORDS, "--freeze", "plan.json", "--sign", "no-such-key")
    done = command_line.audit(*words, cwd=tmp_path)
    assert done.returncode == 2 and "nothing was frozen" in done.stderr
    assert not (tmp_path / "plan.json").exists()


def test_plan_without_freeze_is_a_dry_run(tmp_path: Path) -> None:
    one = command_line.audit("plan", *WORDS, "--output", "out", cwd=tmp_path)
    other = command_line.audit("run", *WORDS, "--output", "out", "--dry-run", cwd=tmp_path)
    assert one.returncode == 0 and one.stdout.splitlines()[0] == other.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"bundle": "b.json"}, "give --identity"),
        ({"bundle": "b.json", "identity": "ann@lab"}, "give --identity"),
        ({"bundle": "b.json", "identity": "ann@lab", "issuer": ""}, "give --identity"),
        ({"identity": "ann@lab", "issuer": "https://id.lab"}, "about --bundle FILE"),
        ({"trusted_root": "root.json"}, "about --bundle FILE"),
    ],
    ids=str,
)
def test_bundle_of_anybody_is_refused(place: Path, given: dict[str, str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        api.verify(place / "run", place / "plan.json", **given)


def test_missing_library_of_bundles_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore", None)
    proofs = {"bundle": place / "b.json", "identity": "ann@lab", "issuer": "https://id.lab"}
    with pytest.raises(UsageError, match=r"pip install 'llm-audit\[sigstore\]'"):
        api.verify(place / "run", place / "plan.json", **proofs)
