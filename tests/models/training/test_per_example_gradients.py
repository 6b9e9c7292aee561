"""The engine against the definition: one example at a time, written here from nothing but torch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import linear, log_softmax
from transformers import GPT2LMHeadModel

from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.models import head
from audit.models.adapters import fresh
from audit.models.lstm import Architecture, State, untrained
from audit.models.training import gradient_factors, per_example_gradients
from audit.models.training.per_example_gradients import (
    Batch,
    Block,
    Clipped,
    check_supported,
    clipped_gradients,
    loop,
    trainable,
    worst_difference,
)
from tests.models.shapes import BY_NAME
from tests.refusals import refusals

VOCABULARY = 12
EXACT = 1e-10  # relative, in float64

Row = tuple[list[int], list[float]]  # T + 1 tokens, T weights
Rows = list[Row]  # an example


# --- models


def opinionated(model: Any) -> Any:
    """In float64, with weights far from their beginning: biases and gains matter."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.double().eval().parameters():
            weight.normal_(0, 0.3, generator=generator)
    return model


def shaped(name: str, **changes: Any) -> Any:
    shape = BY_NAME[name]
    small = {**shape.changes, "vocab_size": VOCABULARY, **changes}
    return opinionated(replace(shape, changes=small).make())


def gpt2(**changes: Any) -> Any:
    return shaped("GPT-2", n_layer=2, num_hidden_layers=2, **changes)


def llama(**changes: Any) -> Any:
    return shaped("Llama", **changes)


def lstm() -> Any:
    return opinionated(untrained(Architecture(VOCABULARY, embedding=7, hidden=9)))


def only(model: Any, wanted: Callable[[str], bool]) -> Any:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(wanted(name))
    return model


def lora(model: Any, **settings: Any) -> Any:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, lora_alpha=6, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers in old words
        return opinionated(peft.get_peft_model(model, config))


@dataclass(frozen=True)
class Logits:
    logits: torch.Tensor


class ScaledTable(nn.Embedding):
    """As Gemma's: what is looked up is multiplied."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return nn.Embedding.forward(self, input_ids) * 3.7


class Gain(nn.Module):
    """As Gemma's and Cohere's: a gain of 1 + w over a matrix of heads, and here also a bias."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = (nn.Parameter(torch.zeros(2, 3)) for _ in range(2))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        normal = hidden * (hidden.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return normal * (1 + self.weight) + self.bias


class Strange(nn.Module):
    """A scaled table that skips a token, tied to a head that does not; gains over heads; and one
    block, biases included, that every text passes twice."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embedding, self.gain = ScaledTable(VOCABULARY, 6, padding_idx=3), Gain()
        self.norm, self.block = nn.LayerNorm(6, bias=False), nn.Linear(6, 6)
        self.head = nn.Linear(6, VOCABULARY)
        self.head.weight = self.embedding.weight

    def forward(self, input_ids: torch.Tensor, **_: Any) -> Logits:
        hidden = self.embedding(input_ids).cumsum(dim=1)
        for _turn in range(2):
            hidden = hidden + self.block(self.norm(hidden)).tanh()
        return Logits(self.head(self.gain(hidden.unflatten(2, (2, 3))).flatten(2)))


FORMS: dict[str, Callable[[], Any]] = {
    "GPT-2, tied": gpt2,
    "GPT-2, untied": lambda: gpt2(tie_word_embeddings=False),
    "GPT-NeoX": lambda: shaped("GPT-NeoX, Pythia"),
    "top block": lambda: only(gpt2(), lambda name: ".h.1." in name),
    "first block": lambda: only(gpt2(), lambda name: ".h.0." in name),
    "biases and gains": lambda: only(gpt2(), lambda name: "ln_" in name or "bias" in name),
    "the tied matrix": lambda: only(gpt2(), lambda name: "wte" in name),
    "all but the tied matrix": lambda: only(gpt2(), lambda name: "wte" not in name),
    "LoRA in Conv1D": lambda: lora(gpt2(), target_modules=["c_attn", "c_fc"], fan_in_fan_out=True),
    "LoRA in Linear": lambda: lora(shaped("GPT-NeoX, Pythia"), target_modules=["query_key_value"]),
    "LoRA beside RMSNorm": lambda: lora(llama(), target_modules=["q_proj", "v_proj"]),
    "RMSNorm": lambda: llama(num_key_value_heads=4),
    "RMSNorm, tied": lambda: llama(tie_word_embeddings=True),
    "grouped queries": llama,
    "normed heads": lambda: shaped("Qwen 3"),
    "only RMSNorm": lambda: only(llama(), lambda name: "norm" in name),
    "positions with an offset": lambda: shaped("OPT"),
    "frozen RMSNorm": lambda: only(llama(), lambda name: "norm" not in name),
    "scaled logits": lambda: shaped("Granite", logits_scaling=3.0),
    "LoRA on the head": lambda: lora(llama(), target_modules=["q_proj", "lm_head"]),
    "LSTM": lstm,
    "strange": lambda: opinionated(Strange()),
}


# --- the definition


Definition = Callable[[float], Clipped]  # of the clipping norm


def literal(model: Any, examples: Sequence[Rows], states: Sequence[Any] = ()) -> Definition:
    """Each row alone, without padding; each example's gradient by autograd, clipped, added."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    whole, losses = [], []
    for i, rows in enumerate(examples):
        value = torch.zeros((), dtype=torch.float64)
        for j, (tokens, weights) in enumerate(rows):
            read = {"past_key_values": states[i][j]} if states else {}
            told = log_softmax(model(torch.tensor([tokens[:-1]]), **read).logits[0], dim=-1)
            right = told[range(len(weights)), tokens[1:]]
            value = value - (right * torch.tensor(weights, dtype=torch.float64)).sum()
        whole.append(torch.autograd.grad(value, parameters, materialize_grads=True))
        losses.append(value.item())
    norms = [sum(float(g.square().sum()) for g in found) ** 0.5 for found in whole]

    def at(max_norm: float) -> Clipped:
        factors = [1.0 if norm <= max_norm else max_norm / norm for norm in norms]
        scaled = [[g * f for g in found] for found, f in zip(whole, factors, strict=True)]
        sums = [torch.stack(parts).sum(dim=0) for parts in zip(*scaled, strict=True)]
        exact = {"dtype": torch.float64}
        return Clipped(sums, torch.tensor(norms, **exact), torch.tensor(losses, **exact))

    return at


def batch_of(examples: Sequence[Rows], states: Sequence[Any] = ()) -> Batch:
    """Padded on the right, and with empty rows, by tokens that must not matter."""
    rows = max(map(len, examples))
    width = max(len(weights) for example in examples for _, weights in example)
    junk = torch.Generator().manual_seed(9)
    shape = (len(examples) * rows, width)
    inputs, targets = (torch.randint(VOCABULARY, shape, generator=junk) for _ in range(2))
    weights = torch.zeros(shape, dtype=torch.float64)
    h = torch.randn(len(inputs), 9, generator=junk, dtype=torch.float64)
    c = torch.randn(len(inputs), 9, generator=junk, dtype=torch.float64)
    for i, example in enumerate(examples):
        for j, (tokens, counts) in enumerate(example):
            at, n = i * rows + j, len(counts)
            inputs[at, :n], targets[at, :n] = torch.tensor(tokens[:-1]), torch.tensor(tokens[1:])
            weights[at, :n] = torch.tensor(counts, dtype=torch.float64)
            if states:
                h[at], c[at] = states[i][j].h[0], states[i][j].c[0]
    return Batch((Block(inputs, targets, weights, rows, State(h, c) if states else None),))


def in_float32(batch: Batch) -> Batch:
    blocks = (replace(block, weights=block.weights.float()) for block in batch.blocks)
    return Batch(tuple(blocks))


def distance(found: Clipped, expected: Clipped) -> float:
    """The worst relative error in any norm, in any loss, and in the sum as a whole."""
    pairs = [(found.norms, expected.norms), (found.losses, expected.losses)]
    worst = [((a - b).abs() / b.abs().clamp(min=1e-12)).max() for a, b in pairs]
    gap = torch.cat([(a - b).flatten() for a, b in zip(found.sums, expected.sums, strict=True)])
    size = torch.cat([b.flatten() for b in expected.sums]).norm()
    return max(*map(float, worst), float(gap.norm() / size.clamp(min=1e-12)))


def row(seed: int, width: int, kinds: int = VOCABULARY) -> Row:
    """Tokens of few kinds, so that they repeat, and weights that differ."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(kinds, (width + 1,), generator=generator).tolist()
    return tokens, torch.rand(width, generator=generator, dtype=torch.float64).tolist()


SILENT: Row = ([5, 1, 3, 5], [0.0, 0.0, 0.0])
EXAMPLES: list[Rows] = [
    [row(1, 20, kinds=3)],  # the same tokens again and again
    [row(2, 1)],
    [row(3, 4), row(4, 7, kinds=4), row(5, 2)],  # a user with several records
    [SILENT],  # its gradient is exactly 0
    [SILENT, row(6, 3)],
    [([7] * 7, [0.0, 0.0, 0.2, 0.0, 0.3, 0.0])],
]


LARGE: Rows = [EXAMPLES[0][0], SILENT, *EXAMPLES[2]]


@cache
def definitions(form: str) -> tuple[Definition, Definition]:
    """Of the examples, and of all rows of a large one; a model is the same whenever it is made."""
    return literal(FORMS[form](), EXAMPLES), literal(FORMS[form](), [LARGE])


def whole(form: str) -> None:
    model, batch = FORMS[form](), batch_of(EXAMPLES)
    check_supported(model)
    definition, _ = definitions(form)
    norms = definition(1.0).norms
    assert norms[3] == 0 and bool((norms[[0, 1, 2, 4, 5]] > 0).all())
    middle = float(norms.sort().values[2:4].mean())
    for max_norm in (middle, 1e-3, 1e6):
        found = clipped_gradients(model, batch, max_norm)
        assert distance(found, definition(max_norm)) < EXACT
        assert float(found.norms[3]) == 0
    assert distance(loop(model, batch, middle), definition(middle)) < EXACT


def of_several_widths(form: str) -> None:
    model, expected = FORMS[form](), definitions(form)[0](0.5)
    for border in (2, 3):  # one cuts through the user with several records
        batch = apart(EXAMPLES, border)
        assert distance(clipped_gradients(model, batch, 0.5), expected) < EXACT
    assert distance(loop(model, batch, 0.5), expected) < EXACT
    alone = clipped_gradients(model, apart(EXAMPLES[2:3], border), 0.5).norms
    torch.testing.assert_close(alone, expected.norms[2:3], rtol=EXACT, atol=EXACT)


def in_chunks(form: str) -> None:
    model, definition = FORMS[form](), definitions(form)[1]
    blocks = [block for i in (0, 2, 4) for block in batch_of([LARGE[i : i + 2]]).blocks]
    batch = Batch(tuple(blocks), chunked=True)
    norm = float(definition(1.0).norms)
    for some, max_norm in ((batch, norm / 3), (batch.part(0, 1), 3 * norm)):
        found = clipped_gradients(model, some, max_norm)
        assert distance(found, definition(max_norm)) < EXACT


@pytest.mark.parametrize("form", FORMS)
def test_norms_sums_and_losses_are_the_definitions(form: str) -> None:
    """An example is the same in one block, in blocks of several widths, and in chunks."""
    whole(form)
    of_several_widths(form)
    in_chunks(form)


SPLIT = [
    *("GPT-2, tied", "GPT-2, untied", "the tied matrix", "top block", "LoRA in Linear"),
    *("RMSNorm, tied", "positions with an offset", "scaled logits", "LoRA on the head"),
]


@pytest.mark.parametrize("form", SPLIT)
def test_a_head_in_parts_is_the_definition(form: str, in_parts: Callable[..., list[int]]) -> None:
    """As with a large vocabulary: a few positions at a time, none of weight 0."""
    seen = in_parts(6 * VOCABULARY)
    whole(form)
    of_several_widths(form)
    in_chunks(form)
    assert seen and max(seen) <= 18  # one of each row, at least


def test_frozen_head_computes_weighted_positions_only(in_parts: Callable[..., list[int]]) -> None:
    """One long row among short and empty ones: no other row is computed to its width."""
    model, batch = FORMS["LoRA in Linear"](), batch_of(EXAMPLES)
    seen = in_parts(6 * VOCABULARY)
    assert head.head_for(model, 7) is not None  # tried, once
    seen.clear()
    clipped_gradients(model, batch, 0.5)
    (weights,) = (block.weights for block in batch.blocks)
    assert sum(seen) == int((weights != 0).sum()) < weights.numel() / 2
    assert max(seen) == 6


def apart(examples: Sequence[Rows], border: int) -> Batch:
    """The rows of each example in two blocks, by their width; a missing one weighs nothing."""
    narrow = [[r for r in rows if len(r[1]) <= border] or [SILENT] for rows in examples]
    wide = [[r for r in rows if len(r[1]) > border] or [SILENT] for rows in examples]
    return Batch(batch_of(wide).blocks + batch_of(narrow).blocks)


def cancelling(seed: int, left: float) -> Rows:
    """Three rows whose gradients add up to almost nothing: `left` of the third's share."""
    (tokens, one), (_, other) = row(seed, 2), row(seed + 100, 2)
    both = [(-a - b) * (1 - left) for a, b in zip(one, other, strict=True)]
    return [(tokens, one), (tokens, other), (tokens, both)]


def test_what_cancels_has_a_norm_of_nothing() -> None:
    examples = [cancelling(seed, left=0.0) for seed in range(30)]
    found = clipped_gradients(gpt2(), batch_of(examples), 0.5)
    assert float(found.norms.max()) < 1e-6  # half of the squares are rounded below 0
    assert max(float(total.abs().max()) for total in found.sums) < 1e-6


def test_what_nearly_cancels_is_clipped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, single = gpt2(), gpt2().float()
    examples = [cancelling(seed, left) for seed in range(9) for left in (1e-5, 0.05, 0.1)]
    limits = [float(norm) / 2 for norm in literal(model, examples)(1.0).norms]

    def most() -> float:
        """The most that an example adds, in clipping norms; every one is above its own."""
        added = []
        for example, max_norm in zip(examples, limits, strict=True):
            batch = in_float32(batch_of([example]))
            sums = clipped_gradients(single, batch, max_norm).sums
            size = torch.cat([part.flatten() for part in sums]).double().norm()
            added.append(float(size) / max_norm)
        return max(added)

    assert most() < 1 + 1e-6
    monkeypatch.setattr(per_example_gradients, "_ROUNDING", 0.0)
    assert most() > 1 + 3e-6
    monkeypatch.setattr(per_example_gradients, "_CANCELLED", -1.0)
    assert most() > 1.01  # rounding errors alone would let more through


def test_what_nearly_cancels_is_found_in_a_batch() -> None:
    examples = [*EXAMPLES, *(cancelling(seed, left=1e-4) for seed in range(20))]
    found = clipped_gradients(gpt2().float(), in_float32(batch_of(examples)), 1e-2)
    assert distance(found, literal(gpt2(), examples)(1e-2)) < 2e-2


def states_for(examples: Sequence[Rows]) -> list[list[State]]:
    generator = torch.Generator().manual_seed(4)

    def drawn() -> State:
        h, c = (torch.randn(1, 9, generator=generator, dtype=torch.float64) for _ in range(2))
        return State(h, c)

    return [[drawn() for _ in example] for example in examples]


def test_an_lstm_may_begin_from_a_state() -> None:
    model, states = lstm(), states_for(EXAMPLES)
    batch = batch_of(EXAMPLES, states)
    expected = literal(model, EXAMPLES, states)(0.5)
    assert distance(clipped_gradients(model, batch, 0.5), expected) < EXACT
    assert distance(loop(model, batch, 0.5), expected) < EXACT
    assert distance(clipped_gradients(model, batch_of(EXAMPLES), 0.5), expected) > 1e-3


rows_drawn = st.builds(row, st.integers(0, 999), st.integers(1, 18), st.integers(1, VOCABULARY))
examples_drawn = st.lists(st.lists(rows_drawn, min_size=1, max_size=3), min_size=1, max_size=4)
LAZY: dict[str, Any] = {}


@given(
    examples=examples_drawn,
    form=st.sampled_from(["GPT-2, tied", "LSTM", "strange"]),
    max_norm=st.sampled_from([1e-3, 0.3, 1.0, 3.0, 1e4]),
)
def test_any_shape_of_batch_is_exact(examples: list[Rows], form: str, max_norm: float) -> None:
    model = LAZY.setdefault(form, FORMS[form]())
    found = clipped_gradients(model, batch_of(examples), max_norm)
    assert distance(found, literal(model, examples)(max_norm)) < EXACT


def test_both_ways_to_a_norm_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    model, natural, taken = gpt2(), gradient_factors._cheaper_whole, set()

    def noted(tokens: int, left: torch.Tensor, right: torch.Tensor) -> bool:
        taken.add(natural(tokens, left, right))
        return natural(tokens, left, right)

    for examples in (EXAMPLES, [[row(2, 1)], [row(7, 2)]]):
        batch, expected = batch_of(examples), literal(model, examples)(0.5)
        for rule in (noted, lambda *_: True, lambda *_: False):
            monkeypatch.setattr(gradient_factors, "_cheaper_whole", rule)
            assert distance(clipped_gradients(model, batch, 0.5), expected) < EXACT
    assert taken == {True, False}


def test_padding_chooses_no_way_to_a_norm() -> None:
    """One way has terms that cancel, and a margin for them: it would move an example's factor."""
    draw = torch.Generator().manual_seed(0)
    one = torch.randn(1, 31, 128, generator=draw)
    left = torch.cat([one, -0.95 * one], dim=1)  # 62 tokens whose terms nearly cancel
    right = torch.cat([torch.ones(1, 31, 128), torch.ones(1, 31, 128)], dim=1)
    padded = [torch.nn.functional.pad(x, (0, 0, 0, 4)) for x in (left, right)]
    longer = [torch.randn(1, 66, 128, generator=draw) for _ in range(2)]
    beside = [torch.cat(pair) for pair in zip(padded, longer, strict=True)]
    (total,), (size,) = gradient_factors.squared_norm([gradient_factors.Outer(left, right)])
    totals, sizes = gradient_factors.squared_norm([gradient_factors.Outer(*beside)], (62, 66))
    assert float(size / total) > 100
    assert float(totals[0] / total) == pytest.approx(1.0, abs=1e-4)
    assert float(sizes[0] / size) == pytest.approx(1.0, abs=1e-5)
    assert sizes[1] == totals[1]  # the longer one is squared whole, where nothing cancels


@pytest.mark.parametrize("form", ["GPT-2, tied", "LoRA in Conv1D", "LSTM"])
def test_in_float32_five_digits_remain(form: str) -> None:
    model = FORMS[form]()
    single = copy.deepcopy(model).float()
    found = clipped_gradients(single, in_float32(batch_of(EXAMPLES)), 0.5)
    assert distance(found, literal(model, EXAMPLES)(0.5)) < 1e-5


# --- traps: each is put back, and seen


def test_without_the_cross_term_norms_are_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def within(one: Any, other: Any, own: Any) -> Any:
        total, size = product(one, other, own)
        return (total, size) if one is other else (total * 0, size)

    batch, product = batch_of(EXAMPLES), gradient_factors._product
    tied, untied = gpt2(), gpt2(tie_word_embeddings=False)
    expected = [literal(model, EXAMPLES)(0.5) for model in (tied, untied)]
    monkeypatch.setattr(gradient_factors, "_product", within)
    assert distance(clipped_gradients(tied, batch, 0.5), expected[0]) > 1e-3
    assert worst_difference(clipped_gradients(tied, batch, 0.5), loop(tied, batch, 0.5)) > 1e-3
    assert distance(clipped_gradients(untied, batch, 0.5), expected[1]) < EXACT


class OwnPositions(GPT2LMHeadModel):
    """Makes positions of shape (1, T), as GPT-2 does by default."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **rest: Any) -> Any:
        return GPT2LMHeadModel.forward(self, input_ids=input_ids, **rest)


def test_positions_that_rows_share_are_refused() -> None:
    model = gpt2()
    model.__class__ = OwnPositions
    before = state_of(model)
    with pytest.raises(UsageError, match=r"Embedding reads \(1, 20\).*no example"):
        clipped_gradients(model, batch_of(EXAMPLES), 0.5)
    assert state_of(model) == before
    one = EXAMPLES[:1]
    found = clipped_gradients(model, batch_of(one), 0.5)
    assert distance(found, literal(model, one)(0.5)) < EXACT  # nobody to share them with
    only(model, lambda name: "wpe" not in name)
    found = clipped_gradients(model, batch_of(EXAMPLES), 0.5)
    assert distance(found, literal(model, EXAMPLES)(0.5)) < EXACT  # nothing is learned from them


class FunctionalHead(nn.Module):
    """Uses the embedding's matrix without being a layer that owns it."""

    def __init__(self, embedding: nn.Embedding) -> None:
        nn.Module.__init__(self)
        self._borrowed = [embedding]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return linear(hidden, self._borrowed[0].weight)


# --- what is refused


def checkpointed() -> Any:
    model = gpt2().train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # transformers gives it another name
        model.gradient_checkpointing_enable()
    return model


def test_what_cannot_be_exact_is_refused() -> None:
    refusals(
        check_supported,
        [
            (nn.Sequential(nn.Conv1d(2, 2, 1)), "0.weight is in a Conv1d; use another model"),
            (
                nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 1)),
                "1.weight is in a Conv1d; freeze it, or train LoRA",
            ),
            (nn.Sequential(nn.GroupNorm(1, 2)), "GroupNorm"),
            (nn.ParameterList([torch.zeros(2)]), "ParameterList"),
            (nn.LSTM(2, 2), "LSTM"),
            (nn.Sequential(nn.Embedding(4, 2, max_norm=1.0)), "Embedding"),
            (nn.Sequential(nn.Embedding(4, 2, scale_grad_by_freq=True)), "Embedding"),
            (checkpointed(), "gradient checkpointing"),
            (fresh(gpt2(), Lora(2, targets="wte")), "give --lora other targets"),
        ],
    )


def test_what_is_frozen_may_be_anything() -> None:
    frozen = nn.Sequential(nn.Embedding(4, 2, max_norm=1.0), nn.Conv1d(2, 2, 1), nn.Linear(2, 4))
    for part in (frozen[0], frozen[1]):
        part.requires_grad_(False)
    check_supported(frozen)
    check_supported(checkpointed().eval())


# --- what is left behind


def state_of(model: Any) -> list[Any]:
    flags = [(name, p.requires_grad, p.grad) for name, p in model.named_parameters()]
    hooks = [(name, len(m._forward_hooks), len(m._backward_hooks), m.training)
             for name, m in model.named_modules()]  # fmt: skip
    return [flags, hooks]


@pytest.mark.parametrize("form", ["GPT-2, tied", "top block", "LoRA in Conv1D", "LSTM"])
@pytest.mark.parametrize("ends", ["well", "badly"])
def test_the_model_is_left_as_it_was(form: str, ends: str) -> None:
    model, batch = FORMS[form](), batch_of(EXAMPLES)
    before, weights = state_of(model), [p.clone() for p in model.parameters()]
    if ends == "well":
        clipped_gradients(model, batch, 0.5)
    else:
        with pytest.raises((IndexError, RuntimeError)):
            (block,) = batch.blocks
            wrong = replace(block, targets=block.targets + VOCABULARY)
            clipped_gradients(model, Batch((wrong,)), 0.5)
    assert state_of(model) == before
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), weights, strict=True))
    expected = literal(model, EXAMPLES)(0.5)
    assert distance(clipped_gradients(model, batch, 0.5), expected) < EXACT


def test_what_is_trained_appears_once() -> None:
    assert len(trainable(gpt2())) + 1 == len(trainable(gpt2(tie_word_embeddings=False)))
    assert trainable(only(gpt2(), lambda name: False)) == []


# --- the comparison


def test_factors_are_between_0_and_1() -> None:
    norms = torch.tensor([0.0, 1e-30, 0.5, 2.0, 8.0, float("inf"), float("nan")])
    assert per_example_gradients.clip_factors(norms, 2.0).tolist() == [1, 1, 1, 1, 0.25, 0, 0]


def clipped(norms: list[float], total: list[float]) -> Clipped:
    return Clipped([torch.tensor(total)], torch.tensor(norms), torch.zeros(len(norms)))


def test_the_worst_difference_is_relative() -> None:
    theirs, nan = clipped([3.0, 4.0], [5.0, 0.0]), float("nan")
    for norms, total, expected in (
        ([3.0, 4.0], [5.0, 0.0], 0.0),
        ([3.0, 4.4], [5.0, 0.0], 0.1),
        ([2.4, 4.0], [5.0, 0.0], 0.2),
        ([3.0, 4.0], [5.0, 1.5], 0.3),
        ([3.0, nan], [5.0, 0.0], float("inf")),
        ([3.0, 4.0], [5.0, nan], float("inf")),
    ):
        assert worst_difference(clipped(norms, total), theirs) == pytest.approx(expected, rel=1e-5)
