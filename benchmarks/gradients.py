"""Compares the cost of a DP-SGD step with an ordinary one, and its precision, for each engine.

    python benchmarks/gradients.py [--size small] [--repeats 3] [--threads 2]

A step is an engine's clipped sum, Gaussian noise and fused AdamW, always on the same batch; the
non-private step is one backward pass of the same loss and AdamW. Times are medians of steps taken
in turn, and ratios are medians over turns. On a shared machine CPU time is more reliable than wall
time. The loop is timed on a part of the batch, because its time is proportional to the batch.
Memory is the peak of a fresh process above that of the non-private one. Errors of the norms (the
largest) and of the clipped sum are relative to the loop in float64. GPT-2's layers are Conv1D of
transformers, for which Opacus has no special rule; it is fastest with Linear instead.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from statistics import median
from typing import Any

import torch
from torch import Tensor

from audit.models.lstm import Architecture, untrained
from audit.models.training.per_example_gradients import (
    Batch,
    Block,
    Clipped,
    clip_factors,
    clipped_gradients,
    loop,
    loss,
    trainable,
)

MAX_NORM, NOISE = 1.0, 1.0  # C and σ
IMPORTS = ["__main__", "transformers.models.gpt2.modeling_gpt2", "opacus.grad_sample", "peft"]
WRONG = 1e-3  # relative error too large for rounding
PART = 8  # examples for errors, and for timing the loop


@dataclass(frozen=True)
class Size:
    """Size of model and batch: width, layers, vocabulary, tokens an example, examples."""

    width: int
    layers: int
    vocab: int
    tokens: int
    examples: int


SIZES = {"small": Size(64, 2, 512, 16, 8), "default": Size(256, 4, 8192, 64, 64)}


def batch_of(size: Size) -> Batch:
    """Draws tokens by Zipf's law: examples repeat tokens as texts do, for tied weights."""
    stream = torch.Generator().manual_seed(1)
    shares = 1 / torch.arange(1.0, size.vocab + 1)
    drawn = torch.multinomial(shares, size.examples * (size.tokens + 1), True, generator=stream)
    rows = drawn.view(size.examples, -1)
    weights = torch.full((size.examples, size.tokens), 1 / size.tokens)
    return Batch((Block(rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), weights, 1),))


# models: all start from seed 0, in evaluation mode, without dropout


def gpt2(size: Size, tied: bool) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=size.vocab,
        n_positions=size.tokens,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=4,
        resid_pdrop=0,  # Opacus requires training mode
        embd_pdrop=0,
        attn_pdrop=0,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = GPT2LMHeadModel(config)
    return model.eval()


def with_linear(model: Any) -> Any:
    """Replace each Conv1D by an equal nn.Linear."""
    from transformers.pytorch_utils import Conv1D

    for block in list(model.modules()):
        for name, layer in block.named_children():
            if isinstance(layer, Conv1D):
                linear = torch.nn.Linear(*layer.weight.shape)
                linear.weight.data = layer.weight.data.T.contiguous()
                linear.bias.data = layer.bias.data
                setattr(block, name, linear)
    return model


def with_lora(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    # B is random, too: with B = 0, A has no gradient
    config = LoraConfig(r=8, lora_alpha=16, fan_in_fan_out=True, init_lora_weights=False)
    return get_peft_model(model, config).eval()


MODELS: dict[str, Callable[[Size], Any]] = {
    "GPT-2, tied": lambda size: gpt2(size, tied=True),
    "GPT-2, untied": lambda size: gpt2(size, tied=False),
    "GPT-2, untied, Linear for Conv1D": lambda size: with_linear(gpt2(size, tied=False)),
    "GPT-2, LoRA of rank 8": lambda size: with_lora(gpt2(size, tied=True)),
    "LSTM 200/200": lambda size: untrained(Architecture(size.vocab)),
}

# engines: from a model to a function of a batch; None if the gradients are in .grad

Engine = Callable[[Any], Callable[[Batch], Clipped | None]]


def non_private(model: Any) -> Callable[[Batch], None]:
    def gradients(batch: Batch) -> None:
        total: Any = loss(model, batch.blocks[0]).sum()
        total.backward()

    return gradients


def opacus_hooks(model: Any) -> Callable[[Batch], Clipped]:
    from opacus.grad_sample import GradSampleModule

    wrapped = GradSampleModule(model, loss_reduction="sum").train()
    wrapped.register_forward_pre_hook(with_positions, with_kwargs=True)
    parameters: list[Any] = trainable(model)

    def gradients(batch: Batch) -> Clipped:
        losses: Any = loss(wrapped, batch.blocks[0])
        losses.sum().backward()
        each = [parameter.grad_sample for parameter in parameters]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each]).norm(dim=0)
        factors = clip_factors(norms, MAX_NORM)  # as Opacus's optimizer does, without its 1e-6
        sums = [torch.einsum("i,i...", factors, g) for g in each]
        for parameter in parameters:
            parameter.grad_sample = None
        return Clipped(sums, norms, losses.detach())

    return gradients


def opacus_ghost(model: Any) -> Callable[[Batch], Clipped]:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    wrapped: Any = GradSampleModuleFastGradientClipping(
        model, loss_reduction="sum", max_grad_norm=MAX_NORM
    ).train()
    wrapped.register_forward_pre_hook(with_positions, with_kwargs=True)
    parameters = trainable(model)
    forgets: Any = torch.optim.SGD(parameters, lr=0.0)  # between its two backward passes

    def gradients(batch: Batch) -> Clipped:
        losses = loss(wrapped, batch.blocks[0])
        DPTensorFastGradientClipping(wrapped, forgets, losses, "sum").backward()
        sums = [p.grad for p in parameters if p.grad is not None]
        return Clipped(sums, wrapped.per_sample_gradient_norms, losses.detach())

    return gradients


def with_positions(module: Any, args: Any, read: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Copy position ids (B, T), because Opacus refuses an expanded view."""
    return args, {**read, "position_ids": read["position_ids"].contiguous()}


ENGINES: dict[str, Engine] = {
    "non-private": non_private,
    "plain loop": lambda model: lambda batch: loop(model, batch, MAX_NORM),
    "audit.models.gradients": lambda model: lambda batch: clipped_gradients(model, batch, MAX_NORM),
    "Opacus, hooks": opacus_hooks,
    "Opacus, ghost clipping": opacus_ghost,
}


class Step:
    """Trains one model with one engine, step by step."""

    def __init__(self, case: str, engine: str, size: Size) -> None:
        batch = batch_of(size)
        self.share = PART / size.examples if engine == "plain loop" else 1.0
        self.batch = batch.part(0, PART) if self.share < 1 else batch
        self.model = MODELS[case](size)
        self.gradients = ENGINES[engine](self.model)
        self._noise = torch.Generator().manual_seed(0)
        self._optimizer = torch.optim.AdamW(trainable(self.model), lr=1e-4, fused=True)

    def take(self, batch: Batch) -> None:
        clipped = self.gradients(batch)
        if clipped is not None:
            for parameter, total in zip(trainable(self.model), clipped.sums, strict=True):
                drawn = torch.randn(total.shape, generator=self._noise)
                parameter.grad = total.add_(drawn.mul_(NOISE * MAX_NORM)).div_(batch.examples)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def seconds(self) -> tuple[float, float]:
        """Measures (CPU, wall) seconds of one step on the whole batch."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.take(self.batch)
        spent = time.process_time() - cpu, time.perf_counter() - wall
        return spent[0] / self.share, spent[1] / self.share


@dataclass(frozen=True)
class Row:
    """Results of one engine on one model.

    refusal: why it did not run; the remaining fields are then empty.
    seconds: (CPU, wall) of each step. errors: (norms, sum), relative. peak: MiB.
    """

    refusal: str = ""
    seconds: tuple[tuple[float, float], ...] = ()
    errors: tuple[float, float] | None = None
    peak: float = 0.0


def measured(case: str, size: Size, repeats: int, threads: int) -> dict[str, Row]:
    """Measures errors and times of all engines, which take turns in this process."""
    quiet(threads)
    part = batch_of(size).part(0, PART)
    double = replace(part, weights=part.weights.double())
    exact = loop(MODELS[case](size).double(), double, MAX_NORM)
    rows, steps = {}, {}
    for engine in ENGINES:
        try:
            step = Step(case, engine, size)
            rows[engine] = Row(errors=errors(step.gradients(part), exact))
            step.take(part)
        except ImportError as missing:
            rows[engine] = Row(refusal=f"not measured: {missing}")
        except NotImplementedError as refusal:
            rows[engine] = Row(refusal=f"refuses: {str(refusal).splitlines()[0]}")
        else:
            steps[engine] = step
    turns = [{engine: step.seconds() for engine, step in steps.items()} for _ in range(repeats)]
    for engine in steps:
        rows[engine] = replace(rows[engine], seconds=tuple(turn[engine] for turn in turns))
    return rows


def errors(clipped: Clipped | None, exact: Clipped) -> tuple[float, float] | None:
    if clipped is None:
        return None
    norms = (clipped.norms - exact.norms).abs() / exact.norms
    mine, theirs = flat(clipped.sums), flat(exact.sums)
    return float(norms.max()), float((mine - theirs).norm() / theirs.norm())


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten().double() for tensor in tensors])


def peak(case: str, engine: str, size: Size, threads: int) -> float:
    """Measures the peak memory, MiB, of this process after its first two steps."""
    quiet(threads)
    step = Step(case, engine, size)
    step.take(step.batch.part(0, PART))
    step.take(step.batch)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def quiet(threads: int) -> None:
    warnings.simplefilter("ignore")  # from Opacus's hooks and peft's adapters
    torch.set_num_threads(threads)


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run work in a fresh process, forked from one that has only imported everything."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(work, *arguments).result()


def show(case: str, rows: dict[str, Row]) -> None:
    """Print seconds, multiples of the non-private step, additional memory, and errors."""
    base = rows["non-private"]
    print(
        f"\n{case:<34}{'CPU s':>8}{'×':>7}{'wall s':>8}{'×':>7}{'MiB':>8}{'norms':>10}{'sum':>10}"
    )
    for engine, row in rows.items():
        if row.refusal:
            print(f"  {engine:<32}  {row.refusal}")
            continue
        times = ""
        for clock in (0, 1):
            pairs = zip(row.seconds, base.seconds, strict=True)
            ratio = median(mine[clock] / theirs[clock] for mine, theirs in pairs)
            times += f"{median(turn[clock] for turn in row.seconds):>8.2f}{ratio:>7.2f}"
        more = f"{row.peak:,.0f}" if row is base else f"{row.peak - base.peak:+,.0f}"
        gaps = "" if row.errors is None else "".join(f"{gap:>10.0e}" for gap in row.errors)
        wrong = "" if all(gap <= WRONG for gap in row.errors or ()) else "  wrong"
        print(f"  {engine:<32}{times}{more:>8}{gaps}{wrong}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads use no CPU time
    size = SIZES[options.size]
    print(f"{size}, {options.threads} threads, torch {torch.__version__}")
    for case in MODELS:
        try:
            rows = alone(measured, case, size, options.repeats, options.threads)
        except ImportError as missing:
            print(f"\n{case}: {missing}")
            continue
        for engine, row in rows.items():
            if not row.refusal:
                row = replace(row, peak=alone(peak, case, engine, size, options.threads))
                rows[engine] = row
        show(case, rows)


if __name__ == "__main__":
    main()
