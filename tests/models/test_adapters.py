"""LoRA adapters on a frozen base: what they share, what they change, and how they are asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from transformers import GPT2LMHeadModel, OPTConfig, OPTForCausalLM

from audit.core.ensemble import Mean, Selected, Separate, log_mean
from audit.core.errors import DamagedError, UsageError
from audit.core.lora import Lora, parsed
from audit.models import external_model
from audit.models.adapters import freeze, fresh, own_weights, put, read_weights
from audit.models.ensembles.batching import Stacked, batched
from audit.models.training.fine_tuning import Recipe, fine_tune
from tests.models.alike import VOCABULARY, gpt2, llama, lm
from tests.refusals import refusals

LORA = Lora(r=3, alpha=6)
RECIPE = Recipe(epochs=6, learning_rate=2e-2, batch_tokens=64, max_length=32)


@pytest.fixture(params=[gpt2, llama])
def base(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(5)
    make: Callable[[], Any] = request.param
    model = make().float().eval()
    freeze(model)
    return model


def trained(base: Any, seed: int, lora: Lora = LORA) -> Any:
    model = fresh(base, lora, seed)
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, VOCABULARY, (6, 12), generator=draw).tolist()
    fine_tune(model, rows, RECIPE, seed)
    return model


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        answer: torch.Tensor = model(input_ids=torch.arange(12)[None] % VOCABULARY).logits
    return answer


def test_training_changes_adapters_only(base: Any) -> None:
    before = {name: value.clone() for name, value in base.state_dict().items()}
    said = logits(base)
    model = fresh(base, LORA, 1)
    assert torch.equal(logits(model), said)
    own = {name: value.clone() for name, value in own_weights(model).items()}
    model = trained(base, 1)
    assert not torch.allclose(logits(model), said, atol=0.1)
    assert torch.equal(logits(base), said)
    assert all(torch.equal(value, before[name]) for name, value in base.state_dict().items())
    assert own_weights(model).keys() == own.keys()
    assert any(not torch.equal(value, own[name]) for name, value in own_weights(model).items())


def test_no_tensor_of_the_base_is_copied(base: Any) -> None:
    shared = {parameter.data_ptr() for parameter in base.parameters()}
    models = [trained(base, seed) for seed in (1, 2)]
    for model in models:
        rest = {p.data_ptr() for name, p in model.named_parameters() if "lora_" not in name}
        assert rest == shared
    one, other = (
        {p.data_ptr() for name, p in m.named_parameters() if "lora_" in name} for m in models
    )
    assert not one & other


def test_adapters_have_given_rank_and_scale(base: Any) -> None:
    weights = own_weights(fresh(base, Lora(r=5, alpha=20), 1))
    down = [value for name, value in weights.items() if "lora_A" in name]
    up = [value for name, value in weights.items() if "lora_B" in name]
    assert len(down) == len(up) > 0
    assert {value.shape[0] for value in down} == {value.shape[1] for value in up} == {5}
    assert all(float(value.abs().max()) == 0.0 for value in up)
    small, large = (fresh(base, Lora(r=2, alpha=alpha), 1) for alpha in (1, 2))
    filled = {k: torch.full_like(v, 0.1) for k, v in own_weights(small).items()}
    put(small, filled)
    put(large, {k: v * (2 if "lora_B" in k else 1) for k, v in filled.items()})
    assert not torch.allclose(logits(small), logits(large))
    put(large, {k: v / (2 if "lora_B" in k else 1) for k, v in filled.items()})
    torch.testing.assert_close(logits(small), logits(large))  # α/r times B·A


def test_the_seed_decides_the_first_factors(base: Any) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    one, same, other = (own_weights(fresh(base, LORA, seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("targets", ["all-linear", "down_proj+q_proj"])
def test_targets_are_those_that_are_named(targets: str) -> None:
    model = llama()
    freeze(model)
    names = own_weights(fresh(model, replace(LORA, targets=targets), 1))
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in names}
    linear = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert layers == (linear if targets == "all-linear" else set(targets.split("+")))


def test_each_target_must_name_a_layer(base: Any) -> None:
    own = "c_attn" if isinstance(base, GPT2LMHeadModel) else "down_proj"
    named = ("nowhere", f"{own}+nowhere", f"all-linear+{own}", f"{own}+", f"{own}+n_proj")
    wrong = ("nowhere", "nowhere", "all-linear", "", "n_proj")
    refusals(
        lambda targets: fresh(base, replace(LORA, targets=targets), 1),
        [(targets, repr(name)) for targets, name in zip(named, wrong, strict=True)],
    )


def test_a_target_may_name_one_layer(base: Any) -> None:
    first = next(n for n, m in base.named_modules() if n.endswith(("c_attn", "down_proj")))
    names = own_weights(fresh(base, replace(LORA, targets=first.partition(".")[2]), 1))
    assert {name.partition(".lora_")[0] for name in names} == {f"base_model.model.{first}"}


# files


def test_an_adapter_file_reads_back(base: Any, tmp_path: Path) -> None:
    model, path = trained(base, 1), tmp_path / "one.safetensors"
    save_file(own_weights(model), path)
    assert sum(v.numel() for v in load_file(path).values()) < 0.3 * sum(
        p.numel() for p in base.parameters()
    )
    again = fresh(base, LORA)
    read_weights(again, path, "cpu")
    assert torch.equal(logits(again), logits(model))


def test_a_file_of_another_adapter_is_named(base: Any, tmp_path: Path) -> None:
    path, own = tmp_path / "one.safetensors", own_weights(fresh(base, LORA, 1))
    save_file(own, path)
    others = {
        "cut": path.read_bytes()[:-9],
        "other rank": save(own_weights(fresh(base, replace(LORA, r=2), 1))),
        "lacks one": save(dict(list(own.items())[:-1])),
        "of all weights": save({name: value.clone() for name, value in base.state_dict().items()}),
    }
    for content in others.values():
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=r"one\.safetensors"):
            read_weights(fresh(base, LORA), path, "cpu")


# ensembles


def changed(base: Any, lora: Lora, seed: int) -> Any:
    """An adapter whose every factor is drawn."""
    model = fresh(base, lora, seed)
    draw = torch.Generator().manual_seed(seed)
    put(model, {k: torch.randn(v.shape, generator=draw) for k, v in own_weights(model).items()})
    return model.requires_grad_(False)


@pytest.mark.parametrize(
    "loras",
    [
        [LORA] * 12,  # more than ten: the name of one may be the beginning of another's
        [LORA, Lora(r=2, alpha=6), Lora(r=3, alpha=30), Lora(r=3, targets="all-linear")],
    ],
    ids=["a dozen", "of other ranks, scales and layers"],
)
@pytest.mark.parametrize("with_base", [False, True])
def test_adapters_of_one_base_answer_as_alone(
    base: Any, loras: list[Lora], with_base: bool
) -> None:
    members = [lm(changed(base, lora, seed)) for seed, lora in enumerate(loras)]
    members += [lm(base)] if with_base else []
    together, alone = batched(members), Separate(members)
    assert isinstance(together, Stacked)
    draw = torch.Generator().manual_seed(9)
    texts = [tuple(torch.randint(0, 13, (n,), generator=draw).tolist()) for n in (9, 30, 4)]
    for starts in ([1, 1, 1], [3, 29, 2]):
        mine, theirs = together.log_pmfs(texts, starts), alone.log_pmfs(texts, starts)
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-5)
        whole = torch.cat(together.in_parts(texts, starts, lambda pmfs, _: pmfs))
        assert torch.equal(whole, mine)
    prompts = [(*texts[1], *tail) for tail in ((1, 2), (3, 4), (3, 5), (1, 2))]
    one, other = together.cursor(prompts), alone.cursor(prompts)
    for tokens in ([1, 2, 3, 4], [5, 5, 6, 0]):
        torch.testing.assert_close(one.log_pmfs(), other.log_pmfs(), atol=1e-4, rtol=1e-5)
        for cursor in (one, other):
            cursor.append(torch.tensor(tokens))
    for i in range(len(members)):
        for j in range(i):
            assert float((theirs[:, i] - theirs[:, j]).abs().max()) > 0.01


def test_heads_of_adapters_are_read_for_few_positions(
    base: Any, in_parts: Callable[[int], list[int]]
) -> None:
    members = [lm(changed(base, LORA, seed)) for seed in range(3)] + [lm(base)]
    together, alone = batched(members), Separate(members)
    seen = in_parts(2 * len(members) * VOCABULARY)
    inner: Any = together.inner.inner  # type: ignore[attr-defined]
    assert inner.is_parted  # the first call tries the model
    inner._inner.get_output_embeddings().register_forward_hook(
        lambda _head, _read, logits: seen.append(logits.shape[:-1].numel())
    )
    long, longest, short = (tuple(range(n)) for n in (9, 12, 4))
    assert together.is_parted and not alone.is_parted
    for texts, starts in (
        ([long, longest, short, longest], [1, 5, 3, 1]),
        ([long, longest, short, longest], [8, 11, 3, 11]),
        ([long], [4]),
        ([short] * 3, [3] * 3),
    ):
        theirs = alone.log_pmfs(texts, starts)
        places = range(len(theirs))
        found = together.in_parts(texts, starts, lambda pmfs, at: (pmfs, at))
        assert [place for _, at in found for place in places[at]] == list(places)
        for pmfs, at in found:
            assert len(pmfs) <= 2
            torch.testing.assert_close(pmfs, theirs[at], atol=1e-4, rtol=1e-5)
        mean = torch.cat(Mean(together).in_parts(texts, starts, lambda pmfs, _: pmfs))
        torch.testing.assert_close(mean, log_mean(theirs), atol=1e-4, rtol=1e-5)
        mine = Selected(together, (2, 0), 4).in_parts(texts, starts, lambda pmfs, _: pmfs)
        torch.testing.assert_close(torch.cat(mine), theirs[:, [2, 0]], atol=1e-4, rtol=1e-5)
    assert max(seen) <= 2 * len(members)


def test_heads_with_adapters_of_their_own_are_read_whole(base: Any) -> None:
    head = Lora(r=2, targets="lm_head")
    members = [lm(changed(base, lora, seed)) for seed, lora in enumerate([LORA, head])]
    together, alone = batched(members), Separate(members)
    assert isinstance(together, Stacked) and not together.is_parted
    texts, starts = [tuple(range(9)), tuple(range(4))], [1, 2]
    mine, theirs = together.log_pmfs(texts, starts), alone.log_pmfs(texts, starts)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("targets", "kind"), [("auto", Stacked), ("all-linear", Separate)])
def test_layers_that_join_the_texts_of_a_batch_are_read_one_by_one(targets: str, kind: Any) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 24}
    config = OPTConfig(num_hidden_layers=2, num_attention_heads=2, init_std=0.3, **sizes)
    model = OPTForCausalLM(config).eval()
    freeze(model)
    members = [lm(changed(model, Lora(r=2, targets=targets), seed)) for seed in range(2)]
    ensemble, texts = batched(members), [tuple(range(9)), tuple(range(4))]
    assert isinstance(ensemble, kind)
    theirs = Separate(members).log_pmfs(texts, [1, 2])
    torch.testing.assert_close(ensemble.log_pmfs(texts, [1, 2]), theirs, atol=1e-4, rtol=1e-5)


def test_adapters_of_two_bases_are_separate() -> None:
    torch.manual_seed(1)
    bases = [gpt2(seed).float() for seed in (1, 2)]
    for model in bases:
        freeze(model)
    members = [lm(trained(model, 1)) for model in bases]
    assert isinstance(batched(members), Separate)
    assert isinstance(batched([members[0], lm(bases[1])]), Separate)
    assert isinstance(batched([members[0], lm(bases[0])]), Stacked)


# words


def test_words_are_read_or_refused() -> None:
    for text, expected in (
        ("r=8", Lora(8, 16)),
        ("", Lora(8, 16)),
        ("r=4,alpha=4", Lora(4, 4)),
        (" targets=q_proj+v_proj , r = 2 ", Lora(2, 4, "q_proj+v_proj")),
    ):
        assert parsed(text) == parsed(str(expected)) == expected
    refusals(
        parsed,
        [
            ("r=0", "--lora: r is 0"),
            ("r=x", "--lora: r is 'x'"),
            ("rank=8", "--lora: unknown key 'rank'; known: alpha, r, targets"),
            ("r", "--lora: r has no value; write r=VALUE"),
            ("r=1,r=2", "--lora: r is given twice"),
            ("alpha=0", "--lora: alpha is 0"),
            ("targets=", "--lora: targets"),
        ],
    )


def stored(folder: Path, **settings: Any) -> Path:
    """Write an adapter of two layers, of ranks 2 and 64."""
    made = {"peft_type": "LORA", "r": 2, "lora_alpha": 16, "target_modules": ["q"]} | settings
    (folder / external_model.ADAPTER).write_text(json.dumps(made))
    prefix = "base_model.model.block"
    weights = {f"{prefix}.q.lora_A.weight": (2, 8), f"{prefix}.q.lora_B.weight": (8, 2)}
    weights |= {f"{prefix}.up.lora_A.weight": (64, 8), f"{prefix}.up.lora_B.weight": (8, 64)}
    tensors = {name: torch.ones(shape) for name, shape in weights.items()}
    save_file(tensors, folder / external_model.WEIGHTS)
    return folder


def test_adapters_like_others_have_the_layers_and_rank_of_their_weights(tmp_path: Path) -> None:
    """No expression, pattern or word in the settings makes a reference weaker."""
    ranks = {"rank_pattern": {"up": 64}}
    for layers in (["q"], "all-linear", ".*block.(q|up)", None):
        found = external_model.lora_of(stored(tmp_path, target_modules=layers, **ranks))
        assert found == Lora(64, 16, "q+up")
    found = external_model.lora_of(stored(tmp_path, use_rslora=True, r="word"))
    assert found == Lora(64, 16 * 8, "q+up")  # 128/64 is 16/8, by which PEFT multiplies it
    found = external_model.lora_of(stored(tmp_path, alpha_pattern={"up": 32}, lora_alpha=0.4))
    assert found == Lora(64, 32, "q+up")
    found = external_model.lora_of(stored(tmp_path, lora_alpha=0.4))
    assert found == Lora(64, 1, "q+up")


@pytest.mark.parametrize("alpha", [0, -3])
def test_an_adapter_that_adds_nothing_is_compared_with_usual_ones(
    tmp_path: Path, alpha: int
) -> None:
    found = external_model.lora_of(stored(tmp_path, lora_alpha=alpha))
    assert found is not None and found.alpha == 2 * found.r


@pytest.mark.parametrize("alpha", ["16", None, [16], float("nan"), float("inf"), 10**400])
def test_an_alpha_that_is_no_number_is_refused(tmp_path: Path, alpha: object) -> None:
    with pytest.raises(UsageError, match="it must be a number; --lora"):
        external_model.lora_of(stored(tmp_path, lora_alpha=alpha))


def test_other_methods_have_no_adapters_like_theirs(tmp_path: Path) -> None:
    """GraLoRA, RandLoRA and such name their factors much as LoRA does."""
    for name in ("gralora_A", "randlora_lambda", "lora_magnitude_vector"):
        folder = stored(tmp_path)
        save_file({f"block.q.{name}": torch.ones(2, 2)}, folder / external_model.WEIGHTS)
        assert external_model.lora_of(folder) is None
