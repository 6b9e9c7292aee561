import json
import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from audit.core.digest import key_of
from audit.core.errors import UsageError
from audit.core.files import read_lines
from audit.core.scratch import SHORT
from audit.core.writing import append_lines, write_atomically
from audit.results.folder import RunFolder, clean, run_record

PLAN = {"seed": 0}
PROJECT = Path(__file__).parents[2]


def finished(path, plan_hash="a" * 64):
    """A run folder as a finished run leaves it."""
    folder = RunFolder(path, plan_hash)
    with folder.held(PLAN):
        folder.mark("complete", PLAN)
    return folder


# lines


def test_rows_come_back_in_order(tmp_path):
    path = tmp_path / "ledger.jsonl"
    rows = [{"a": 1}, {"b": "ü\n\u2028"}, {"c": [1.5, None]}]
    append_lines(path, rows[:1])
    append_lines(path, [])
    append_lines(path, rows[1:])
    assert read_lines(path) == rows
    assert len(path.read_bytes().splitlines()) == 3
    assert read_lines(tmp_path / "missing.jsonl") == []


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_torn_last_line_is_dropped_and_then_cut_off(tmp_path, cut):
    path = tmp_path / "ledger.jsonl"
    append_lines(path, [{"row": 1}, {"row": 22}])
    path.write_bytes(path.read_bytes()[:-cut])
    kept = [{"row": 1}] if cut < 12 else []
    assert read_lines(path) == kept
    append_lines(path, [{"row": 3}])
    assert read_lines(path) == [*kept, {"row": 3}]
    assert path.read_bytes().endswith(b'{"row":3}\n')


def test_a_file_of_one_torn_line_is_begun_again(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"row')
    assert read_lines(path) == []
    append_lines(path, [{"row": 3}])
    assert path.read_bytes() == b'{"row":3}\n'


def test_sessions_do_not_see_each_others_rows(tmp_path):
    folder = finished(tmp_path)
    one, two = folder.journal("one"), folder.journal("two")
    first, second, last = (
        {"query": number, "charge": [0.5], "stopped": False} for number in (0, 1, 5)
    )
    one.append([first])
    two.append([first, second])
    one.append([last])
    assert list(one.previous()) == [first, last]
    assert list(folder.journal("two").previous()) == [first, second]


def test_a_journal_gives_floats_back_as_they_were(tmp_path):
    folder = finished(tmp_path)
    charges = [0.1, 1 / 3, 1.23457e-300, 0.30000000000000004]
    row = {"query": 0, "charge": charges, "stopped": False}
    folder.journal("s").append([row])
    assert list(folder.journal("s").previous()) == [row]


# atomic writes


def test_a_reader_meets_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "manifest.json"
    texts = {letter * 200_000 for letter in "ab"}
    write_atomically(path, "a" * 200_000)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for text in texts:
                write_atomically(path, text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {path.read_text("utf-8") for _ in range(300)}
    finally:
        stop.set()
        writer.join()
    assert seen <= texts
    assert [p.name for p in tmp_path.iterdir()] == ["manifest.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text("utf-8") == "old"


def fail(*_):
    raise OSError(28, "No space left on device")


def test_a_stage_is_made_once_and_made_again_when_torn(tmp_path):
    folder = finished(tmp_path)
    made = []

    def make():
        made.append(1)
        return {"n": len(made)}

    assert [folder.stored("k", make) for _ in range(3)] == [{"n": 1}] * 3
    assert folder.stored("other", make) == {"n": 2}
    folder.stage("k.json").write_text('{"n":')
    assert [folder.stored("k", make) for _ in range(2)] == [{"n": 3}] * 2


def test_keys_depend_on_every_part():
    keys = {key_of("a", 1), key_of("a", "1"), key_of("a", 1, None), key_of(["a", 1]), key_of("a1")}
    assert len(keys) == 5
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


# holding a folder


def test_a_held_folder_is_running_private_and_ignored_by_git(tmp_path):
    folder = RunFolder(tmp_path / "new" / "run", "h")
    with folder.held(PLAN):
        manifest = json.loads((folder.path / "manifest.json").read_text("utf-8"))
        assert manifest == {"schema_version": "1", "status": "running", "hash": "h", "plan": PLAN}
        assert folder.stages.stat().st_mode & 0o777 == 0o700
        assert (folder.stages / ".gitignore").read_text("utf-8") == "*\n"
    folder.mark("complete", PLAN)
    assert run_record(folder.path)["status"] == "complete"


def test_stages_made_by_others_are_made_private(tmp_path):
    (tmp_path / "stages").mkdir(mode=0o755)
    with RunFolder(tmp_path, "h").held(PLAN):
        assert (tmp_path / "stages").stat().st_mode & 0o777 == 0o700


def test_a_held_folder_is_refused_and_freed_when_its_process_dies(tmp_path):
    code = (
        "import signal, sys; from pathlib import Path; from audit.results.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1]), 'h').held({}):\n"
        "    print('held', flush=True); signal.pause()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    try:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another run"), RunFolder(tmp_path, "h").held(PLAN):
            raise AssertionError("two runs in one folder")
        assert run_record(tmp_path)["plan"] == {}  # the refused one wrote nothing
    finally:
        process.kill()
        process.communicate()
    with RunFolder(tmp_path, "h").held(PLAN):
        assert run_record(tmp_path)["status"] == "running"


def test_a_folder_is_free_after_its_run_and_after_a_failure(tmp_path):
    folder = RunFolder(tmp_path, "h")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), folder.held(PLAN):
            raise ZeroDivisionError
    with folder.held(PLAN), pytest.raises(UsageError), folder.held(PLAN):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    below = RunFolder(tmp_path / "file" / "run", "h")
    with pytest.raises(UsageError, match=r"file/run: cannot.*--output"), below.held(PLAN):
        raise AssertionError("held")
    assert (tmp_path / "file").read_text("utf-8") == ""


# manifests


def test_whatever_is_no_manifest_is_none(tmp_path):
    assert run_record(tmp_path) is None
    assert run_record(tmp_path / "missing") is None
    for text in ("", "[]", "{", "3", "[" * 100_000):
        (tmp_path / "manifest.json").write_text(text)
        assert run_record(tmp_path) is None
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{}")
    assert run_record(tmp_path) is None


def test_one_sweep_at_a_time_works_in_a_folder_and_nobody_cleans_it(tmp_path: Path) -> None:
    mine, theirs = (RunFolder(tmp_path, "a" * 64) for _ in range(2))
    with mine.alone():
        with mine.held({}):
            pass  # a seed has ended, the next has not begun
        with pytest.raises(UsageError, match="another run is working"), theirs.alone():
            pass
        with pytest.raises(UsageError, match="another run is working"):
            clean(tmp_path)
    with theirs.alone():
        pass
    assert clean(tmp_path) >= 0 and not mine.stages.exists()


def test_the_stages_of_a_sweep_are_not_cleaned_by_one_of_its_seeds(tmp_path: Path) -> None:
    whole, seed = RunFolder(tmp_path, "a" * 64), RunFolder(tmp_path / "seeds" / "0", "b" * 64)
    with whole.held({}):
        seed.path.mkdir(parents=True)
        seed.stages.symlink_to("../../stages", target_is_directory=True)
        seed.mark("complete", {})
    with pytest.raises(UsageError, match=r"belong to a sweep; clean .* instead"):
        clean(seed.path)
    assert whole.stages.exists()


@pytest.mark.parametrize("remove", ["clean", "next run"])
def test_scratch_of_a_killed_run_is_removed(tmp_path: Path, remove: str) -> None:
    mine = RunFolder(tmp_path, "a" * 64)
    with mine.held({}):
        pass
    left = SHORT / f"audit-ray-{secrets.token_hex(8)}"
    (left / "stages").mkdir(parents=True)
    (left / "stages" / "model").write_bytes(b"x" * 1000)
    if remove == "clean":
        assert clean(tmp_path) >= 1000
    else:
        with mine.held({}):
            pass
    assert not left.exists()
