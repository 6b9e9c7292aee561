"""Layers of unknown classes have a rule if they are of a known form, and not if they look so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, softplus

from audit.models.training.layer_rules import has_rule


class Normed(nn.Module):
    """A gain on what is normalised, and how it is applied."""

    def __init__(
        self,
        apply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        before: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
    ) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.linspace(-1, 2, 6))
        self._apply_gain, self._before = apply, before

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = self._before(hidden)
        return self._apply_gain(
            hidden * hidden.square().mean(-1, keepdim=True).rsqrt(), self.weight
        )


class Transposed(nn.Linear):
    """Its own product, as Falcon's."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ self.weight.T + self.bias


class Doubled(nn.Linear):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 2 * linear(hidden, self.weight, self.bias)


class Extra(nn.LayerNorm):
    """Has a parameter more than its kind."""

    def __init__(self) -> None:
        nn.LayerNorm.__init__(self, 6)
        self.temperature = nn.Parameter(torch.ones(1))


KNOWN: dict[str, Callable[[], Any]] = {
    "RMSNorm": lambda: nn.RMSNorm(6),
    "RMSNorm with 1 + w": lambda: Normed(lambda n, w: n * (1 + w)),
    "RMSNorm with w / 2 − 3": lambda: Normed(lambda n, w: n * (w / 2 - 3)),
    "one slope for all": lambda: nn.PReLU(),
    "LayerNorm of a subclass": lambda: type("Own", (nn.LayerNorm,), {})(6),
    "Linear of a subclass": lambda: Transposed(6, 4),
}
UNKNOWN: dict[str, Callable[[], Any]] = {
    "a squared gain": lambda: Normed(lambda n, w: n * w * w),
    "a softened gain": lambda: Normed(lambda n, w: n * softplus(w)),
    "a gain that mixes channels": lambda: Normed(lambda n, w: n * w.cumsum(0)),
    "a gain of another channel": lambda: Normed(lambda n, w: n * w.flip(0)),
    "a norm over the text": lambda: Normed(lambda n, w: n * w, lambda x: x - x.mean(1, True)),
    "a norm over the batch": lambda: Normed(lambda n, w: n * w, lambda x: x - x.mean(0, True)),
    "BatchNorm": lambda: nn.BatchNorm1d(3),
    "GroupNorm": lambda: nn.GroupNorm(1, 3),
    "a doubled Linear": lambda: Doubled(6, 4),
    "a parameter more": Extra,
    "LSTM": lambda: nn.LSTM(6, 6),
}


def test_a_layer_of_another_form_has_no_rule() -> None:
    assert [form for form, make in UNKNOWN.items() if has_rule(make())] == []


def test_a_known_form_has_a_rule() -> None:
    """That such a rule is exact is tested with the engine."""
    assert all(has_rule(make()) for make in KNOWN.values())


def test_trying_a_layer_changes_nothing() -> None:
    module = KNOWN["RMSNorm with 1 + w"]()
    before = module.weight.clone()
    calls: list[int] = []
    module.register_forward_hook(lambda *_: calls.append(1))
    assert has_rule(module)
    assert torch.equal(module.weight, before) and module.weight.requires_grad and calls == []
