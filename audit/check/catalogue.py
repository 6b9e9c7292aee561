"""The checks: what each one measures, and what its failure usually means."""

from __future__ import annotations

from enum import Enum


class Check(Enum):
    """A check: (code, name, what a failure usually means)."""

    INCLUSION = (
        "K1",
        "inclusion",
        "a sampled unit is not counted once, clipped by itself: another clipping rule, units "
        "counted twice, a sum divided by the batch that was drawn. Not the mechanism stated; "
        "whether it leaks more, another accountant must say",
    )
    CLIPPING = (
        "K2",
        "clipping",
        "a unit adds more than C: the norm is ignored, or it is sums, microbatches or tensors that "
        "are clipped. The noise is then too small for what a unit adds",
    )
    ABSENT = (
        "K3",
        "absent units",
        "a unit outside the data is in a sum: something is kept from an earlier run",
    )
    RATE = (
        "K4",
        "sampling rate",
        "q is not the one stated. If it is higher, so is ε. With b̂ bands, q is that of a unit in "
        "each step of its group, b̂·B/N, and not B/N",
    )
    SAMPLING = (
        "K5",
        "sampling",
        "batches are not Poisson samples: shuffled epochs, or batches of a fixed or capped size. "
        "Not the mechanism stated: its ε is not the accountant's",
    )
    RELEASES = (
        "K6",
        "number of releases",
        "steps are left out: where empty batches are skipped, the number of steps tells of them",
    )
    EMPTY = (
        "K6′",
        "noise of nearly empty steps",
        "the noise depends on whether anybody was sampled: empty batches go without it",
    )
    SCALE = (
        "K7",
        "noise scale",
        "below 1: the noise is divided once too often, forgets C, misses a tensor, or comes of a "
        "matrix whose columns have a norm above 1. Above 1: it is added more than once, as for "
        "each microbatch; that costs utility, not privacy",
    )
    SHAPE = (
        "K8",
        "noise shape",
        "the noise is not Gaussian, or parts of it have another scale",
    )
    STEPS = (
        "K9",
        "noise over steps",
        "steps share noise: a seed that is set again in each step, or correlated noise (DP-FTRL) "
        "that is accounted as independent; state its bands, if it has its own accountant. Under "
        "stated bands: another matrix, such as C in place of C⁻¹",
    )
    TENSORS = (
        "K10",
        "noise over tensors",
        "one draw serves two tensors: their difference is free of noise",
    )
    SEEDS = (
        "K11",
        "noise over runs",
        "runs with different seeds share their noise: the difference of two models is free of it",
    )
    BATCH = (
        "K12",
        "noise and batch size",
        "the scale of the noise follows the batch that was drawn, so it tells of the batch",
    )
    UPDATE = (
        "K13",
        "update",
        "the parameters move by something else than the noisy sum: a raw gradient, weight decay, "
        "momentum, or a schedule that the adapter does not state",
    )
    CLAIM = (
        "K14",
        "claim",
        "the units' coins are guessed better than the stated mechanism allows",
    )
    USERS = (
        "K15",
        "users",
        "records are clipped, not users: a user with three records adds up to three times C",
    )
    INFINITE = (
        "K16",
        "infinite gradient",
        "one record whose gradient is infinite makes the model infinite or NaN, for all to see",
    )
    TIED = (
        "K17",
        "tied weights",
        "the norm of a weight that is used twice misses the cross term of its two uses",
    )

    DISTANCE = (
        "K18",
        "distance of steps",
        "a unit is in two steps less than b̂ apart: both add to the same rows of CG, and norms add "
        "up in place of squares",
    )
    GROUPS = (
        "K19",
        "groups",
        "a unit is in steps of several groups: groups are drawn again, as where a resumed training "
        "has forgotten them, or follow the place of a unit among others",
    )
    COUNT = (
        "K20",
        "participations",
        "a unit is in more steps than T and b̂ leave it, so more sums depend on it than ε is of",
    )
    RESUMED = (
        "K21",
        "resumed training",
        "a resumed training draws noise or coins that were drawn before: the difference of two "
        "steps is free of noise. With bands also: it has lost the last rows of C⁻¹Z, so its noise "
        "does not cancel as stated",
    )
    COINS = (
        "K22",
        "coins over runs",
        "runs with different seeds sample the same units: whoever sees one knows all batches, and "
        "ε is that without amplification",
    )

    def __init__(self, code: str, title: str, means: str) -> None:
        self.code = code
        self.title = title
        self.means = means
