"""Models trained elsewhere: a folder with all weights, or a PEFT adapter and its base."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from audit.core.errors import UsageError, first_line
from audit.core.lora import Lora
from audit.core.model import ModelFolder, PreTrainedModel
from audit.core.predictor import PROBE
from audit.core.time_limit import in_time, limited
from audit.core.tokenizer_process import TokenizerProcess
from audit.core.writing import copy_file, make_folder
from audit.models.adapters import own_weights, shell
from audit.models.hostile_folder import check_adapter_settings, check_tokenizer, settings_of
from audit.models.loaded_whole import check_adapter, weights_digest
from audit.models.loading import (
    describe,
    hash_of,
    load_tokenizer,
    load_weights,
    weight_files,
)
from audit.models.safetensors_header import header

ADAPTER = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_SECONDS = 600.0  # to insert an adapter
_ALPHA = 8  # of PEFT, where an adapter states none
_MOST = 1e6
_FIRST = (".lora_A.weight", ".lora_A", ".lora_embedding_A")  # factors of as many rows as the rank
TOKENIZER_ONLY = "tokenizer"  # the kind of a model whose weights are not here


def describe_external(source: str, base: str | None, embedded: Path) -> ModelFolder:
    """Describe the external model in the folder `source` without loading it.

    base: the public model that it was trained from; None if unknown. Raises UsageError for a
    missing or corrupt folder, an adapter without its base, or a tokenizer that is not the base's.
    """
    path = Path(source)
    if is_adapter(path):
        return _adapter(path, base, embedded)
    folder = describe(source, embedded)
    if base:
        _check_same_tokens(folder, describe(base, embedded), any(folder.path.glob("tokenizer*")))
    return folder


def tokenizer_only(tokenizer: str, context: int) -> ModelFolder:
    """Describe a model by its tokenizer's folder alone. Raises UsageError.

    context: tokens that the model may read.
    """
    path = Path(tokenizer)
    files = sorted({*path.glob("tokenizer*"), *path.glob("*.model"), *path.glob("vocab*")})
    if not files:
        raise UsageError(f"{path}: no tokenizer files; give the folder that holds tokenizer.json")
    return ModelFolder(
        name=path.resolve().name,
        path=path,
        sha256=hash_of([file for file in files if file.is_file()]),
        parameters=0,
        vocabulary=0,
        max_length=context,
        kind=TOKENIZER_ONLY,
    )


def is_adapter(path: Path) -> bool:
    """Return whether a folder holds a PEFT adapter."""
    return (path / ADAPTER).is_file()


def _adapter(path: Path, base: str | None, embedded: Path) -> ModelFolder:
    """Describe an adapter as its base, with a name and hash of its own."""
    base = base or named_base(path)
    if base is None:
        named = _named_base(path)
        why = f"names {named!r}, which is no folder here" if named else "names none"
        raise UsageError(
            f"{path}: is an adapter without its base (its {ADAPTER} {why}); give the base with "
            "as_is:base=DIR"
        )
    weights = path / WEIGHTS
    if not weights.is_file():
        raise UsageError(f"{path}: no {WEIGHTS}; save the adapter again with PEFT")
    sizes = [size for one in header(weights).values() for size in one.shape]
    check_adapter_settings(path / ADAPTER, max(sizes, default=0))
    _check_alone(path)
    folder = describe(base, embedded)
    _check_base(path, folder)
    _check_own_tokens(path, folder)
    digest = hash_of([path / ADAPTER, weights], folder.sha256)
    return replace(folder, name=path.resolve().name, sha256=digest, embedded=False)


def _check_alone(adapter: Path) -> None:
    """Raise UsageError where a whole model lies beside the adapter: one of them may be old."""
    others = [file.name for file in weight_files(adapter) if file.name != WEIGHTS]
    if others and (adapter / "config.json").is_file():
        raise UsageError(
            f"{adapter}: holds an adapter and a whole model ({others[0]}); keep the one that is to "
            "be audited"
        )


def _check_base(adapter: Path, base: ModelFolder) -> None:
    """Raise UsageError where the adapter names a base that is here and has other weights.

    Quantised weights, on which a QLoRA is trained, are not compared with those that they came from.
    """
    named = named_base(adapter)
    if named is None or _is_quantised(named) or Path(named).resolve() == base.path.resolve():
        return
    if weights_digest(weight_files(Path(named))) != weights_digest(weight_files(base.path)):
        raise UsageError(
            f"{adapter}: was trained on {named}, as its {ADAPTER} says, and {base.path} has other "
            f"weights; give as_is:base={named}"
        )


def _check_own_tokens(adapter: Path, base: ModelFolder) -> None:
    """Raise UsageError where an adapter was saved with a tokenizer that reads text otherwise."""
    files = [folder / "tokenizer.json" for folder in (adapter, base.path)]
    if not all(file.is_file() for file in files):
        return
    own, other = map(_reading, files)
    if own != other:
        raise UsageError(
            f"{adapter}: its tokenizer is not that of the base {base.path}; give the base that it "
            "was trained on, with the tokenizer of that training"
        )


def _reading(file: Path) -> list[int]:
    """Return the tokens of the probe by the tokenizer of a file. Raises UsageError."""
    check_tokenizer(file.parent)
    what, advice = f"{file}: loading the tokenizer", "save the adapter without it"
    try:
        tokenizer = in_time(lambda: Tokenizer.from_file(str(file)), 120, what, advice)
    except UsageError:
        raise
    except Exception as error:  # of the library, which has no class of errors
        raise UsageError(f"{what} failed ({first_line(error)}); {advice}") from None
    ((ids, _),) = TokenizerProcess(tokenizer).read([PROBE])
    return ids.tolist()


def named_base(path: Path) -> str | None:
    """Read the base that an adapter names; None unless it is a model folder here."""
    named = _named_base(path) if is_adapter(path) else ""
    return named if named and (Path(named) / "config.json").is_file() else None


def absent_base(path: Path) -> str:
    """Read the base that an adapter names, unless its weights can be compared; empty for none."""
    named, here = _named_base(path) if is_adapter(path) else "", named_base(path)
    return named if here is None or _is_quantised(here) else ""


def _is_quantised(folder: str) -> bool:
    """Return whether a folder holds quantised weights."""
    return bool(settings_of(Path(folder) / "config.json").get("quantization_config"))


def _named_base(path: Path) -> str:
    return str(settings_of(path / ADAPTER).get("base_model_name_or_path") or "")


def lora_of(path: Path) -> Lora | None:
    """Return the adapters that a training like that of an external model has; None where it changed
    weights of its base, as far as its folder says.

    Its layers and largest rank, by its weights: its settings may have expressions and patterns. Its
    largest alpha, so that what has this rank is multiplied as there, or the usual 2r where it adds
    nothing. Raises UsageError.
    """
    if not is_adapter(path) or not _adds_only(path):
        return None
    settings, stored = settings_of(path / ADAPTER), header(path / WEIGHTS)
    rank = max(one.shape[0] for name, one in stored.items() if name.endswith(_FIRST) and one.shape)
    named = settings.get("alpha_pattern")
    alphas = [
        settings.get("lora_alpha", _ALPHA),
        *(named.values() if isinstance(named, dict) else ()),
    ]
    for alpha in alphas:
        if not isinstance(alpha, int | float) or not abs(alpha) <= _MOST:
            raise UsageError(
                f"{path / ADAPTER}: an alpha is {alpha!r}; it must be a number; --lora names other "
                "adapters to compare with"
            )
    alpha = max(alphas) * (math.sqrt(rank) if settings.get("use_rslora") else 1)
    usual = 2 * rank
    return Lora(
        rank, max(1, round(alpha)) if alpha > 0 else usual, "+".join(_adapted_layers(stored))
    )


def _adapted_layers(stored: Iterable[str]) -> list[str]:
    """List the names of layers that adapters belong to, from the names of their tensors."""
    return sorted({name.partition(".lora_")[0].rpartition(".")[2] for name in stored})


def load(path: Path, base: PreTrainedModel) -> PreTrainedModel:
    """Load an external model in float32 on the base's device. Raises UsageError.

    An adapter is put on the base's own tensors, and on copies where it changes what it stands on:
    the base answers as before.
    """
    if is_adapter(path):
        return _adapted(path, base)
    return load_weights(describe(str(path), path), str(base.device))


def _adapted(adapter: Path, base: PreTrainedModel) -> PreTrainedModel:
    from peft import PeftModel  # seconds, which a dry run does not have

    try:
        with warnings.catch_warnings(action="ignore"):  # PEFT's own deprecated calls
            own = shell(base) if _adds_only(adapter) else copy.deepcopy(base)
            weights = load_file(adapter / WEIGHTS)
            _fit_vocabulary(own, weights)
            with limited(_SECONDS, "it", "its settings hold regular expressions"):
                whole: Any = PeftModel.from_pretrained(own, str(adapter)).eval()
        check_adapter(whole, weights)
        if not all(bool(weight.isfinite().all()) for weight in own_weights(whole).values()):
            raise ValueError("its weights are not finite")
    except Exception as error:  # the library raises what its many methods raise
        raise UsageError(
            f"{adapter}: the adapter does not fit its base ({first_line(error)}); give the one it "
            "was trained on with as_is:base=DIR"
        ) from None
    adapted: PreTrainedModel = whole
    return adapted


def _fit_vocabulary(base: Any, weights: Mapping[str, Tensor]) -> None:
    """Give a base as many token embeddings as the adapter stores, where it stores them all."""
    table = base.get_input_embeddings()
    name = next(name for name, module in base.named_modules() if module is table)
    stored = weights.get(f"base_model.model.{name}.weight")
    if stored is not None and len(stored) != len(table.weight):
        base.resize_token_embeddings(len(stored), mean_resizing=False)


def _adds_only(adapter: Path) -> bool:
    """Return whether an adapter holds low-rank factors alone, and leaves its base as it is.

    PEFT writes biases, whole layers and whatever else a file names into the base's own tensors, and
    some first factors, such as those of PiSSA, are subtracted from them.
    """
    first = settings_of(adapter / ADAPTER).get("init_lora_weights")
    names = header(adapter / WEIGHTS)
    low_rank = all(".lora_" in name for name in names)
    has_rank = any(name.endswith(_FIRST) for name in names)
    return low_rank and has_rank and first in (None, True, False, "gaussian")


def export_adapter(weights: Path, lora: Lora, base: Path, to: Path) -> None:
    """Write an adapter that was trained here into a new folder, in PEFT's form.

    weights: its file in a run folder. base: the folder of the model that it belongs to.
    """
    from peft import LoraConfig

    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        target_modules=_adapted_layers(header(weights)),
        base_model_name_or_path=str(base.resolve()),
        inference_mode=True,
        task_type="CAUSAL_LM",
    )
    make_folder(to, private=True)
    config.save_pretrained(str(to))
    copy_file(weights, to / WEIGHTS)


def _check_same_tokens(external: ModelFolder, base: ModelFolder, own: bool) -> None:
    """Raise UsageError unless both models can be compared token by token.

    Texts may end otherwise, as those of chat models do. own: whether the external model has a
    tokenizer; else its vocabulary must hold the base's.
    """
    same = own or external.vocabulary >= base.vocabulary
    if own:
        one, other = load_tokenizer(external), load_tokenizer(base)
        same = one.encode(PROBE) == other.encode(PROBE)
    if not same:
        raise UsageError(
            f"{external.path}: its tokenizer is not that of the base {base.path}; give the base it "
            "was trained from"
        )
