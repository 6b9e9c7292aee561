"""Prepares a process for work with models: its threads, and what it does with freed memory."""

from __future__ import annotations

import ctypes
import sys

import torch

_TRIM, _MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)
_LARGE = 4 * 2**20  # bytes from which a tensor is a mapping of its own, given back once it is freed
_KEPT = 64 * 2**20  # bytes of small things that a process keeps for the next


def prepare(threads: int) -> None:
    """Limit this process to so many threads, and return the memory of freed tensors.

    Batches differ in shape. glibc keeps freed tensors of up to 32 MiB for later ones and cannot
    join the gaps between them, so a training whose step needs 4 GiB grows beyond 18 GiB. Other
    allocators are left as they are. Products of float32 are of float32 on a GPU, too.
    """
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")  # an image's TF32 would round what others add to
    torch.backends.cudnn.allow_tf32 = False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP, _LARGE)
        mallopt(_TRIM, _KEPT)
