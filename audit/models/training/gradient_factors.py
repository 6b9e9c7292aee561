"""Norms and clipped sums of per-example gradients, without forming any of them.

Every use of a matrix W adds Σ_t l_t ⊗ r_t to an example's gradient, with t over the example's
tokens: a linear layer with l = g, r = a; an embedding with l = one-hot tokens, r = g. Here a is the
layer's input and g the gradient at its output. Hence, over all uses u, v of W and tokens s, t,

    ‖∂L_i/∂W‖² = Σ_{u,v} Σ_{s,t} ⟨l^u_s, l^v_t⟩ ⟨r^u_s, r^v_t⟩   (arXiv 2210.00038).

u ≠ v is the cross term of arXiv 2405.18194: layers that share a weight, as GPT-2's embedding and
head do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class OneHot:
    """Rows of an identity matrix, given by their indices: (examples, tokens)."""

    index: Tensor


@dataclass(frozen=True)
class Outer:
    """A use of a matrix: Σ_t left_t ⊗ right_t; (examples, tokens, p) and (examples, tokens, q)."""

    left: Tensor | OneHot
    right: Tensor


@dataclass(frozen=True)
class Whole:
    """A use of a small parameter: the gradient itself, (examples, p)."""

    gradient: Tensor


Use = Outer | Whole


def merged(uses: Sequence[Use]) -> list[Use]:
    """Join the uses of a layer that runs several times, as a recurrent one, over all tokens."""
    outers = [u for u in uses if isinstance(u, Outer) and not isinstance(u.left, OneHot)]
    if len(outers) < 2 or len({u.right.shape[2] for u in outers}) > 1:
        return list(uses)
    rest = [u for u in uses if not any(u is outer for outer in outers)]
    left = torch.cat([u.left for u in outers if not isinstance(u.left, OneHot)], dim=1)
    return [*rest, Outer(left, torch.cat([u.right for u in outers], dim=1))]


def squared_norm(uses: Sequence[Use], own: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Compute ‖Σ_u G^u_i‖² of one parameter, and the sum of its terms' absolute values.

    Shape (examples,) each. Where the first is much smaller than the second, terms cancel, and what
    is left of them is mostly rounding error.
    own: tokens of each example without padding; (): none is padded.
    """
    totals, sizes = [], []
    for i, one in enumerate(uses):
        for other in uses[: i + 1]:
            total, size = _product(one, other, own)
            times = 1.0 if one is other else 2.0
            totals.append(times * total)
            sizes.append(times * size)
    return torch.stack(totals).sum(dim=0), torch.stack(sizes).sum(dim=0)


def _product(one: Use, other: Use, own: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Compute ⟨G^u_i, G^v_i⟩ of two uses of one parameter, and its terms' absolute sum."""
    if isinstance(one, Whole) and isinstance(other, Whole):
        terms = one.gradient * other.gradient
        return terms.sum(dim=1), terms.abs().sum(dim=1)
    assert isinstance(one, Outer) and isinstance(other, Outer)
    if one is other and not isinstance(one.left, OneHot):
        return _square(one.left, one.right, own)
    return _gram(one, other)


def _gram(one: Outer, other: Outer) -> tuple[Tensor, Tensor]:
    terms = _inner(one.left, other.left) * torch.bmm(one.right, other.right.mT)
    return terms.sum(dim=(1, 2)), terms.abs_().sum(dim=(1, 2))


def _square(left: Tensor, right: Tensor, own: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Compute ‖Σ_t l_t ⊗ r_t‖² of each example in the way that is cheaper for its own tokens.

    Both ways round differently, and only one has terms that cancel. Were the way chosen by the
    padded length, a longer example beside it would move an example's clipped gradient.
    """
    examples, padded = left.shape[:2]
    lengths = own or [padded] * examples
    whole = [i for i, n in enumerate(lengths) if _cheaper_whole(n, left, right)]
    if len(whole) == examples:
        squares = torch.bmm(left.mT, right).square_().sum(dim=(1, 2))
        return squares, squares
    if not whole:
        use = Outer(left, right)
        return _gram(use, use)
    total, size = left.new_empty(2, examples)
    for group in (whole, sorted({*range(examples)} - {*whole})):
        place = torch.tensor(group, device=left.device)
        parts = _square(left[place], right[place], [lengths[i] for i in group])
        total[place], size[place] = parts
    return total, size


def _cheaper_whole(tokens: int, left: Tensor, right: Tensor) -> bool:
    """Return whether G_i itself costs less than the two Gram matrices of its factors."""
    p, q = left.shape[2], right.shape[2]
    return p * q < tokens * (p + q)


def _inner(left: Tensor | OneHot, other: Tensor | OneHot) -> Tensor:
    """Compute ⟨l_s, l'_t⟩ for all tokens s, t of an example: (examples, s, t)."""
    if isinstance(left, OneHot) and isinstance(other, OneHot):
        return (left.index[:, :, None] == other.index[:, None, :]).to(torch.float32)
    if isinstance(left, OneHot):
        assert not isinstance(other, OneHot)
        return _inner(other, left).mT
    if isinstance(other, OneHot):
        places = other.index[:, None, :].expand(-1, left.shape[1], -1)
        return left.gather(2, places)
    return torch.bmm(left, other.mT)


def weighted_sum(uses: Sequence[Use], factors: Tensor, parameter: Tensor) -> Tensor:
    """Compute Σ_i c_i G_i of one parameter, in its shape. factors: c, (examples,)."""
    total = torch.zeros_like(parameter)
    for use in uses:
        if isinstance(use, Whole):
            total += (factors @ use.gradient).view_as(total)
        elif isinstance(use.left, OneHot):
            scaled = use.right * factors[:, None, None]
            total.index_add_(0, use.left.index.flatten(), scaled.flatten(0, 1))
        else:
            left, right = use.left, use.right  # the smaller of the two is scaled
            if left.shape[2] < right.shape[2]:
                left = left * factors[:, None, None]
            else:
                right = right * factors[:, None, None]
            total.addmm_(left.flatten(0, 1).T, right.flatten(0, 1))
    return total
