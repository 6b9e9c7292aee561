"""Makes docs/model-shapes.md: tiny models of every shape, each compared with single texts.

`python -m tests.models.shapes` writes the page. Nothing is downloaded: weights are random, and far
from their beginning, so that every bias, gain and head matters.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, logging

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.model import TextTokenizer
from audit.core.training import Training
from audit.models.adapters import freeze, fresh, own_weights, put
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import Stacked, batched
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.dp_sgd import Noise, NoisySum, adapted
from audit.models.training.examples import collated, examples_of
from audit.models.training.fine_tuning import Recipe, next_token_loss

PAGE = Path(__file__).parents[2] / "docs" / "model-shapes.md"
PUBLIC = EMBEDDED_FOLDER / "public_model"
CLOSE = 1e-4  # relative, of gradients; nats, of log-probabilities; in float32
CONTEXT = 96  # tokens
RANK = 2
TEXTS = ("Ada's code is 40718.", "No.", "Call me at 5, or at 7 if it rains; or never.", "Yes, 9")
OWNERS = ("ada", "bob", "ada", "eve")
BASE = {
    "vocab_size": 1024,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
    **{name: 0.0 for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout")},
}
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": CONTEXT}
SLIDING = {"sliding_window": 4, "num_hidden_layers": 2}
GEMMA = {**SLIDING, "head_dim": 4}


@dataclass(frozen=True)
class Shape:
    """A kind of model. special: what is special about it, in words. changes: of its sizes."""

    name: str
    kind: str
    special: str
    changes: dict[str, Any] = field(default_factory=dict)
    auto: Any = AutoModelForCausalLM

    def make(self, seed: int = 1) -> Any:
        """Makes a model of this shape with random weights."""
        config = AutoConfig.for_model(self.kind, **{**BASE, **self.changes})
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            model = self.auto.from_config(config).eval()
            for weight in model.parameters():
                weight.normal_(0, 0.3, generator=generator)
        return model


SHAPES = (
    Shape("GPT-2", "gpt2", "tied head, learned positions", GPT2),
    Shape("GPT-2, untied", "gpt2", "", {**GPT2, "tie_word_embeddings": False}),
    Shape("GPT-J", "gptj", "parallel blocks", {**GPT2, "rotary_dim": 4}),
    Shape("GPT-NeoX, Pythia", "gpt_neox", "parallel blocks"),
    Shape("OPT", "opt", "tied head, learned positions", {"ffn_dim": 24, "word_embed_proj_dim": 16}),
    Shape("CTRL", "ctrl", "tied head, fixed positions", {"dff": 24}),
    Shape("BLOOM", "bloom", "tied head, ALiBi", {"n_layer": 1, "n_head": 2}),
    Shape("Falcon", "falcon", "parallel blocks, one key for all queries"),
    Shape("Phi", "phi", "parallel blocks"),
    Shape("Phi-3", "phi3", "RMSNorm, grouped queries, sliding window", SLIDING),
    Shape("Llama", "llama", "RMSNorm, grouped queries"),
    Shape("Llama, tied", "llama", "RMSNorm, tied head", {"tie_word_embeddings": True}),
    Shape("Mistral", "mistral", "RMSNorm, grouped queries, sliding window", SLIDING),
    Shape("Qwen 2", "qwen2", "RMSNorm, grouped queries, biases", {"tie_word_embeddings": True}),
    Shape("Qwen 3", "qwen3", "RMSNorm, grouped queries, normed heads", {"head_dim": 4}),
    Shape("Gemma", "gemma", "RMSNorm (1 + w), tied head, scaled embedding", {"head_dim": 4}),
    Shape("Gemma 2", "gemma2", "the same, sliding window, capped logits", GEMMA),
    Shape("Gemma 3", "gemma3_text", "the same, normed heads", GEMMA),
    Shape("Granite", "granite", "RMSNorm, grouped queries, scaled"),
    Shape("SmolLM 3", "smollm3", "RMSNorm, grouped queries, tied head"),
    Shape("OLMo 2", "olmo2", "RMSNorm after each part, normed queries"),
    Shape("Cohere", "cohere", "parallel blocks, norms without biases, tied head"),
    Shape("StarCoder 2", "starcoder2", "grouped queries, tied head"),
    Shape("Mamba", "mamba", "no attention", {"state_size": 4}),
    Shape("Mixtral", "mixtral", "mixture of experts", {"num_local_experts": 2}),
    Shape("BERT", "bert", "looks ahead"),
    Shape(
        "T5", "t5", "encoder-decoder", {"d_model": 16, "d_kv": 4, "num_layers": 1},
        auto=AutoModelForSeq2SeqLM,
    ),
)  # fmt: skip

BY_NAME = {shape.name: shape for shape in SHAPES}


@dataclass(frozen=True)
class Folder:
    """Loads models of one shape as the product does, from a folder with the embedded tokenizer."""

    path: Path

    @classmethod
    def of(
        cls, shape: Shape, path: Path, seed: int = 1, dtype: torch.dtype = torch.float32
    ) -> Folder:
        logging.disable_progress_bar()
        shape.make(seed).to(dtype).save_pretrained(path)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(PUBLIC / file, path)
        return cls(path)

    def load(self) -> CausalLM:
        folder = describe(str(self.path), EMBEDDED_FOLDER)
        return CausalLM(load_weights(folder, "cpu"), tokenizer(), folder.max_length)


@cache
def tokenizer() -> TextTokenizer:
    """The embedded tokenizer, which all members of an ensemble share."""
    return load_tokenizer(describe("embedded", EMBEDDED_FOLDER))


# --- the definitions: every text alone


def losses(model: Any, tokens: Sequence[int]) -> Tensor:
    """−log p of each token but the first, from one text alone."""
    read = torch.tensor(tokens)
    answer = log_softmax(model(input_ids=read[None, :-1], use_cache=False).logits[0], dim=-1)
    return -answer[range(len(read) - 1), read[1:]]


def gradient(model: Any, loss: Tensor) -> list[Tensor]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return list(torch.autograd.grad(loss, parameters, materialize_grads=True))


def length(tensors: Sequence[Tensor]) -> float:
    return float(torch.cat([t.flatten() for t in tensors]).double().norm())


def error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The length of the difference, relative; infinite where a number is none."""
    gap = length([a - b for a, b in zip(found, expected, strict=True)]) / length(expected)
    return gap if gap == gap else float("inf")


# --- what is measured: the largest error


def tokens_of(model: CausalLM) -> list[list[int]]:
    return [[0, *model.tokenizer.encode(text), 0] for text in TEXTS]


def fine_tuned(model: CausalLM) -> float:
    """The gradient of a padded batch against the mean over single texts."""
    inner, rows = model.inner, tokens_of(model)
    whole = torch.cat([losses(inner, row) for row in rows]).mean()
    expected = gradient(inner, whole)
    return error(gradient(inner, next_token_loss(inner, rows)), expected)


def private(model: CausalLM, lora: int) -> float:
    """The clipped sum of a batch against clipping every owner's gradient by the definition."""
    with warnings.catch_warnings(), adapted(model.inner, "all", lora, 0) as inner:
        warnings.simplefilter("ignore")
        if lora:  # else half of the adapters' gradients were 0
            for name, weight in inner.named_parameters():
                weight.data.normal_(0, 0.3) if "lora_" in name else None
        return clipped(model, inner)


def clipped(model: CausalLM, inner: Any) -> float:
    mine = {who: [] for who in OWNERS}
    for who, row in zip(OWNERS, tokens_of(model), strict=True):
        mine[who].append(row)
    gradients = [
        gradient(inner, torch.cat([losses(inner, row) for row in rows]).mean())
        for rows in mine.values()
    ]
    norms = [length(g) for g in gradients]
    limit = sorted(norms)[1]  # one is below, one at, one above
    factors = [min(1.0, limit / norm) for norm in norms]
    parts = [[f * g for g in found] for f, found in zip(factors, gradients, strict=True)]
    expected = [torch.stack(some).sum(dim=0) for some in zip(*parts, strict=True)]
    training = Training("shape", TEXTS, Recipe(1, 0.1, 8, 8), 0, OWNERS)
    noise = Noise(0.0, limit)
    release = NoisySum(inner, noise, noise.stream(training, "noise"))
    examples = examples_of(training, model.tokenizer, CONTEXT)
    release.into_gradients(collated(examples, 4096, inner.device), 1.0)
    return error([p.grad for p in inner.parameters() if p.requires_grad], expected)


def sharing(generator: np.random.Generator) -> list[list[int]]:
    """Prompts of one length with a long prefix in common, longer than any window."""
    prefix = generator.integers(1, 1024, 70).tolist()
    return [[0, *prefix, *generator.integers(1, 1024, 2).tolist()] for _ in range(3)]


def definition(model: Any, tokens: Sequence[int]) -> Tensor:
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return log_softmax(logits.double(), dim=-1)


def read(ask: Any, models: Sequence[CausalLM], many: bool) -> float:
    """Scored texts and continued prompts against each text alone and in whole.

    ask: a CausalLM, or many as an Ensemble.
    """
    generator = np.random.default_rng(0)
    prompts = sharing(generator)
    texts = [*prompts, *tokens_of(models[0])]
    alone = lambda text: torch.stack([definition(m.inner, text) for m in models], dim=1)  # noqa: E731
    gaps = []
    for some, start in ((texts, 1), (prompts, len(prompts[0]) - 2)):
        expected = torch.cat([alone(text)[start - 1 : -1] for text in some])
        gaps.append(_gap(ask.log_pmfs(some, [start] * len(some)), expected, many))
    cursor = ask.cursor(prompts)
    for _ in range(6):
        found = cursor.log_pmfs() if many else cursor.log_pmf()
        gaps.append(_gap(found, torch.stack([alone(text)[-1] for text in prompts]), many))
        told = generator.integers(1, 1024, len(prompts))
        cursor.append(torch.tensor(told))
        prompts = [[*text, int(token)] for text, token in zip(prompts, told, strict=True)]
    return max(gaps)


def _gap(found: Tensor, expected: Tensor, many: bool) -> float:
    return float((found - (expected if many else expected[:, 0])).abs().max())


# --- the table


@dataclass(frozen=True)
class Row:
    """What one shape can do: of each column its largest error, or why it is refused."""

    shape: Shape
    cells: tuple[float | str, ...]
    together: bool = False

    def shown(self) -> str:
        cells = ["refused" if isinstance(c, str) else _word(c) for c in self.cells]
        if self.together:
            cells[4] += ", together"
        return f"| {self.shape.name} | {self.shape.special} | {' | '.join(cells)} |"


def _word(found: float) -> str:
    return "exact" if found < CLOSE else f"WRONG by {found:.0e}"


def attempted(measure: Callable[[], float]) -> float | str:
    try:
        return measure()
    except UsageError as refusal:
        return str(refusal)


def measured(shape: Shape, place: Path) -> Row:
    """Measures every column of a shape; models are loaded afresh for each."""
    torch.set_num_threads(1)
    one, other = (Folder.of(shape, place / f"{seed}", seed) for seed in (1, 2))
    together: list[bool] = []

    def ensemble() -> float:
        members = [one.load(), other.load()]
        joint = batched(members)
        together.append(isinstance(joint, Stacked))
        return read(joint, members, many=True)

    def adapters() -> float:
        base = one.load()
        freeze(base.inner)
        members = [base, *(replace(base, inner=_drawn(base.inner, seed)) for seed in (1, 2))]
        joint = batched(members)
        assert isinstance(joint, Stacked)
        return read(joint, members, many=True)

    def alone() -> float:
        model = one.load()
        return read(model, [model], many=False)

    measures = (
        lambda: fine_tuned(one.load()),
        lambda: private(one.load(), 0),
        lambda: private(one.load(), RANK),
        alone,
        ensemble,
        adapters,
    )
    return Row(shape, tuple(map(attempted, measures)), any(together))


def _drawn(base: Any, seed: int) -> Any:
    """New adapters on a base, with weights other than zero."""
    model = fresh(base, Lora(r=RANK, alpha=2 * RANK), seed)
    draw = torch.Generator().manual_seed(seed)
    put(
        model,
        {k: 0.3 * torch.randn(v.shape, generator=draw) for k, v in own_weights(model).items()},
    )
    return model


def rows() -> Iterator[Row]:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as place:
            yield measured(shape, Path(place))


BEGIN, END = "<!-- made by tests/models/shapes.py -->\n", "<!-- end -->\n"
HEAD = """| Shape | Special | Fine-tune | DP-SGD, full | DP-SGD, LoRA | Read | Ensemble | Adapters |
|---|---|---|---|---|---|---|---|
"""


def page(found: Sequence[Row]) -> str:
    """Puts the rows, and the reasons of refusals, in their place on the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table = "".join(f"{row.shown()}\n" for row in found)
    made = HEAD + table + "\nWhat is refused, and why:\n\n" + "".join(_reasons(found))
    return before + BEGIN + made + END + rest.partition(END)[2]


def _reasons(found: Sequence[Row]) -> Iterator[str]:
    for row in found:
        said = (_shorter(cell) for cell in row.cells if isinstance(cell, str))
        yield from (f"- {row.shape.name}: {reason}.\n" for reason in dict.fromkeys(said))


def _shorter(refusal: str) -> str:
    """Drops the folder that a line begins with, and what it has in parentheses."""
    return re.sub(r" \(.*\)|^/\S*: ", "", refusal)


if __name__ == "__main__":
    PAGE.write_text(page(list(rows())), encoding="utf-8")
