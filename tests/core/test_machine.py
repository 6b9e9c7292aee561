"""Limits of a container count, and files that state no limit do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from audit.core import machine


@pytest.mark.parametrize(
    ("files", "cores", "gigabytes"),
    [
        ({}, 8, 32),
        ({"cpu.max": "max 100000\n", "memory.max": "max\n"}, 8, 32),
        ({"cpu.max": "250000 100000\n", "memory.max": "6000000000\n"}, 2, 6),
        ({"cpu.max": "50000 100000\n", "memory.max": "99000000000\n"}, 1, 32),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8, 32),
        (
            {
                "cpu/cpu.cfs_quota_us": "300000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "5000000000\n",
            },
            3,
            5,
        ),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8, 32),
    ],
)
def test_the_least_limit_counts(
    files: dict[str, str],
    cores: int,
    gigabytes: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    sizes = {"SC_PHYS_PAGES": 32_000_000_000 // 4000, "SC_PAGE_SIZE": 4000}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert machine.cores() == cores
    assert machine.memory() == gigabytes * 1e9


LAUNCH = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("more", "rank"),
    [
        ({}, 1),
        ({"WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "many"}, None),
        *(({name: ""}, None) for name in LAUNCH),
    ],
)
def test_launched_is_who_has_a_rank_and_knows_where_to_meet(
    more: dict[str, str], rank: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**LAUNCH, **more}.items():
        monkeypatch.setenv(name, value)
    assert machine.launched() == rank


@pytest.mark.parametrize(("here", "rank", "count"), [("2", "1", 2), ("", "1", 0), ("2", "", 0)])
def test_launched_here_counts_this_machine(
    here: str, rank: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**LAUNCH, "RANK": rank, "LOCAL_WORLD_SIZE": here}.items():
        monkeypatch.setenv(name, value)
    assert machine.launched_here() == count
