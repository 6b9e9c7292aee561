"""Load causal language models from local folders in Hugging Face format.

Weights come from safetensors only; remote code is never run.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, logging

from audit.core.digest import sha256_of_file
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError, first_line
from audit.core.files import regular
from audit.core.machine import memory
from audit.core.model import ModelFolder, PreTrainedModel, TextTokenizer
from audit.core.time_limit import in_time
from audit.core.tokenizer_process import process_of
from audit.models import gguf_file
from audit.models.adapters import freeze
from audit.models.asked_size import check_asked, parts_of
from audit.models.causality import check_causal, check_kind
from audit.models.held_weights import HALF
from audit.models.hostile_folder import (
    OPENED,
    check_folder,
    check_tokenizer,
    settings_of,
    small_files,
)
from audit.models.loaded_whole import check_files, check_model
from audit.models.lstm import Architecture, untrained
from audit.models.safetensors_header import header

EMBEDDED = "embedded"
LSTM = "lstm"
USUAL = 512  # tokens that are read at once, unless a plan asks for more
_COPY = "copy its files again"
_SCALED_ANEW = {"dynamic", "longrope", "su"}  # kinds of rotary positions


def describe(source: str, embedded: Path) -> ModelFolder:
    """Describe the model named `source`: "embedded", "lstm", a folder, a GGUF file, or hf:NAME.

    Raises UsageError for a missing or corrupt folder, for pickled or quantised weights, or for
    remote code.
    """
    if source == EMBEDDED:
        return replace(_describe(EMBEDDED, embedded / "public_model"), embedded=True)
    if source == LSTM:
        return _describe_lstm(embedded / "public_model")
    if source.startswith("hf:"):
        return _describe(source, _fetch(source[3:]))
    path = Path(source)
    packed = gguf_file.file_in(path)
    if packed is not None:
        folder = gguf_file.unpacked(packed)
        return replace(_describe(packed.name, folder), precision=gguf_file.precision_of(folder))
    if not path.is_dir():
        raise UsageError(
            f"model {source!r}: no such folder; give a folder, a GGUF file, hf:NAME, lstm or "
            "embedded"
        )
    return _describe(path.resolve().name, path)


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.safetensors", *OPENED]))
    except Exception as error:  # the hub library has many error classes without a common base
        raise UsageError(f"hf:{name}: cannot be fetched ({str(error).splitlines()[0]})") from None


def _describe(name: str, path: Path) -> ModelFolder:
    config = _read_config(path)
    weights = weight_files(path)
    if not weights:
        pickled = sorted([*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")])
        if pickled:
            raise UsageError(
                f"{pickled[0]}: pickled weights can run code and are refused; "
                "save the model again with safe_serialization=True"
            )
        raise UsageError(f"{path}: no .safetensors file; is this a model folder?")
    size = sum(file.stat().st_size for file in weights)
    if size > memory():
        raise UsageError(
            f"{path}: its weights take {size / 2**30:,.0f} GB, more memory than there is; give a "
            "smaller model"
        )
    check_folder(path, config)
    if config.get("quantization_config"):
        raise UsageError(
            f"{path}/config.json: quantised weights are read from GGUF files alone; give one, or "
            "the weights that these were made from, on which an adapter is read as well"
        )
    check_kind(config, path / "config.json")
    length = _context(config)
    vocabulary = config.get("vocab_size")
    if (
        not isinstance(length, int)
        or not isinstance(vocabulary, int)
        or min(length, vocabulary) < 0
    ):
        raise UsageError(
            f"{path}/config.json: vocab_size or the context length is not a whole number ≥ 0"
        )
    return ModelFolder(
        name=name,
        path=path,
        sha256=hash_of([*weights, *small_files(path)]),
        parameters=sum(one.numbers for file in weights for one in header(file).values()),
        vocabulary=vocabulary,
        max_length=min(length, USUAL),
        context=length,
        blocks=_whole(config.get("n_layer") or config.get("num_hidden_layers")),
    )


def weight_files(folder: Path) -> list[Path]:
    """List the files of weights of a model folder, in order of their names.

    Raises UsageError for one that is not a regular file.
    """
    files = sorted(folder.glob("*.safetensors"))
    try:
        return list(map(regular, files))
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{error.filename or folder}: cannot be read ({why})") from None


def _context(config: Mapping[str, Any]) -> Any:
    """Read how many tokens a model was made for.

    Positions that are scaled anew in a longer text would make a text's losses depend on how long
    the others in its batch are, so then it is the context before any scaling.
    """
    length = config.get("n_positions") or config.get("max_position_embeddings") or 512
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kinds = scaling.values() if isinstance(scaling, dict) else ()  # one for each kind of layer
    for one in (scaling, *kinds):
        if isinstance(one, dict) and {one.get("rope_type"), one.get("type")} & _SCALED_ANEW:
            name = "original_max_position_embeddings"
            length = one.get(name) or config.get(name) or length
    return length


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _describe_lstm(tokenizer: Path) -> ModelFolder:
    """Describe an untrained LSTM with the tokenizer of the embedded model."""
    architecture = Architecture(_read_config(tokenizer)["vocab_size"])
    return ModelFolder(
        name=LSTM,
        path=tokenizer,
        sha256=hash_of(sorted(tokenizer.glob("tokenizer*")), repr(architecture)),
        parameters=architecture.parameters,
        vocabulary=architecture.vocab_size,
        max_length=USUAL,
        kind=LSTM,
    )


@lru_cache(maxsize=1)
def files_hash(folder: ModelFolder) -> str:
    """Compute SHA-256 of all files that loading a model opens, once per process."""
    return hash_of([*weight_files(folder.path), *small_files(folder.path)])


def hash_of(files: Iterable[Path], about: str = "") -> str:
    """Compute SHA-256 of `about` and of the files' names and contents, each after its length."""
    digest = hashlib.sha256()
    for part in (about, *_parts(files)):
        content = part.encode()
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()


def _parts(files: Iterable[Path]) -> Iterator[str]:
    """Yield the name of each file, and the hash of its content."""
    for file in files:
        yield file.name
        yield sha256_of_file(regular(file))


def _read_config(path: Path) -> dict[str, Any]:
    if not (path / "config.json").exists():
        inside = [each.name for each in sorted(path.glob("checkpoint-*")) if each.is_dir()]
        hint = f"give one of {', '.join(inside)}" if inside else "is this a Hugging Face folder?"
        raise UsageError(f"{path}: no config.json; {hint}")
    return settings_of(path / "config.json")


@lru_cache(maxsize=4)  # the seeds of a sweep share it, and how it read their texts
def load_tokenizer(folder: ModelFolder) -> TextTokenizer:
    """Load the tokenizer beside the weights. Raises UsageError where there is none."""
    check_tokenizer(folder.path)
    cls, what = _tokenizer_class(folder.path), f"{folder.path}: loading the tokenizer"
    named = {"local_files_only": True, "trust_remote_code": False}
    try:
        inner = in_time(lambda: cls.from_pretrained(folder.path, **named), 120, what, _COPY)
    except UsageError:
        raise
    except Exception as error:  # tokenizers raise errors of any class
        raise UsageError(
            f"{folder.path}: the tokenizer cannot be loaded ({first_line(error)})"
        ) from None
    inner.model_max_length = sys.maxsize  # no warning: long texts are cut later
    strange = folder.path != EMBEDDED_FOLDER / "public_model"
    digit, sentence = _probed(inner, ["0", "My code is 0."], strange)
    if not digit:
        raise UsageError(f"{folder.path}: the tokenizer turns text into no tokens; {_COPY}")
    if set(sentence) <= {inner.unk_token_id}:
        raise UsageError(  # some libraries make an empty tokenizer of a folder without one
            f"{folder.path}: the tokenizer knows no word; copy its files (tokenizer.json, "
            "tokenizer.model) into the folder"
        )
    stop = inner.eos_token_id
    if stop is None:
        raise UsageError(f"{folder.path}: the tokenizer has no end-of-text token")
    start = inner.bos_token_id if inner.bos_token_id is not None else stop
    return TextTokenizer(inner, int(start), int(stop), goes_on=folder.chat, strange=strange)


def _probed(inner: Any, texts: list[str], strange: bool) -> list[Sequence[int]]:
    """Return the tokens of texts; a stranger's tokenizer neither cuts nor pads from then on."""
    if not (strange and inner.is_fast):
        return [inner.encode(text, add_special_tokens=False) for text in texts]
    fast = inner.backend_tokenizer
    fast.no_truncation()
    fast.no_padding()
    return [ids for ids, _ in process_of(fast).read(texts)]


def _tokenizer_class(folder: Path) -> Any:
    """Choose the plain class where the folder names it: it is loaded in half the time."""
    file = folder / "tokenizer_config.json"
    named = settings_of(file) if file.is_file() else {}
    if named.get("tokenizer_class") == "PreTrainedTokenizerFast":
        return PreTrainedTokenizerFast
    from transformers import AutoTokenizer

    return AutoTokenizer


def load_weights(folder: ModelFolder, device: str) -> PreTrainedModel:
    """Load a model in float32 and evaluation mode; an LSTM starts untrained. Raises UsageError.

    What is loaded is tried: a model that is not causal is refused. One that adapters are trained on
    is frozen, and held in bfloat16 where it was stored so.
    """
    lstm = folder.kind == LSTM
    if folder.lora is not None:
        model = _held(folder.path)
    else:
        model = untrained(Architecture(folder.vocabulary)) if lstm else _read(folder.path)
    inner: PreTrainedModel = model.to(device).eval()
    if not lstm:
        check_kind(inner.config.to_dict(), folder.path)
        check_causal(inner, folder.max_length, folder.path)
    return inner


def _held(folder: Path) -> Any:
    """Load a base for adapters as it is stored, in bfloat16 with half the memory of float32.

    Constants that some models compute in the precision of their weights would be rounded, so such a
    model is loaded in float32 first.
    """
    model = _read(folder, torch.bfloat16 if is_bfloat16(folder) else torch.float32)
    if any(buffer.dtype in HALF for buffer in model.buffers()):
        model = _read(folder)
    freeze(model)
    return model


def is_bfloat16(folder: Path) -> bool:
    """Return whether all weights are stored in bfloat16, whatever config.json states."""
    kinds = {one.dtype for file in weight_files(folder) for one in header(file).values()}
    return {kind for kind in kinds if "F" in kind} == {"BF16"}  # the others are whole numbers


def _read(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM  # two seconds; no dry run needs them

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    files = weight_files(folder)
    stored = [one for file in files for one in header(file).values()]
    own = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(folder, **own)
        check_asked(config, sum(one.numbers for one in stored), parts_of(len(stored)))
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            **own,
            use_safetensors=True,
            dtype=dtype,
            output_loading_info=True,
        )
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(f"{folder}: the model cannot be loaded ({first_line(error)})") from None
    model, report = loaded
    try:
        check_files(files)
        check_model(model, report, files)
    except ValueError as error:
        raise UsageError(
            f"{folder}: the weights are not loaded whole: {error}; save the model again as its "
            "trainer holds it"
        ) from None
    return model
