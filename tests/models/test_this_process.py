"""A process that works with models gives back the memory of freed tensors."""

import subprocess
import sys

import pytest

FREED = """
import torch
from audit.models.this_process import prepare

def resident():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmRSS:")[1].split()[0])

prepare(1)
larger = torch.ones(31 * 2**18)  # glibc now keeps what is smaller than these 31 MiB
del larger
before = resident()
tensors = [torch.ones(2**21) for _ in range(64)]  # 8 MiB each
last = torch.ones(1000)  # lies behind them
del tensors
print(torch.get_num_threads(), resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other allocators are left as they are")
def test_freed_tensors_are_given_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, encoding="utf-8", check=True
    )
    threads, kept = map(int, ran.stdout.split())
    assert threads == 1
    assert kept < 64 * 1024  # KiB of the 512 MiB that were freed
