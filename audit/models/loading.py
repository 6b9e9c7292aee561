"""Causal language models from local folders: Hugging Face format, safetensors, no remote code."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    logging,
)

from audit.core.errors import UsageError, first_line
from audit.core.model import ModelFolder, TextTokenizer
from audit.models.lstm import Architecture, untrained

EMBEDDED = "embedded"


LSTM = "lstm"


def describe(source: str, embedded: Path) -> ModelFolder:
    """Finds the model named `source`: "embedded", "lstm", a folder, or hf:NAME.

    Raises UsageError for a missing or corrupt folder, for pickled weights, or for remote code.
    """
    if source == EMBEDDED:
        return replace(_describe(EMBEDDED, embedded / "public_model"), embedded=True)
    if source == LSTM:
        return _describe_lstm(embedded / "public_model")
    if source.startswith("hf:"):
        return _describe(source, _fetch(source[3:]))
    path = Path(source)
    if not path.is_dir():
        raise UsageError(
            f"model {source!r}: no such folder; give a folder, hf:NAME, lstm or embedded"
        )
    return _describe(path.resolve().name, path)


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # the hub library raises its own zoo of errors
        raise UsageError(f"hf:{name}: cannot be fetched ({str(error).splitlines()[0]})") from None


def _describe(name: str, path: Path) -> ModelFolder:
    config = _read_config(path)
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        pickled = sorted([*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")])
        if pickled:
            raise UsageError(
                f"{pickled[0]}: pickled weights can run code and are refused; "
                "save the model again with safe_serialization=True"
            )
        raise UsageError(f"{path}: no .safetensors file; is this a model folder?")
    if "auto_map" in config:
        raise UsageError(f"{path}/config.json: the model needs remote code, which is never run")
    others = (sorted(path.glob(pattern)) for pattern in ("*.json", "*.txt", "*.model"))
    length = config.get("n_positions") or config.get("max_position_embeddings") or 512
    vocabulary = config.get("vocab_size")
    if (
        not isinstance(length, int)
        or not isinstance(vocabulary, int)
        or min(length, vocabulary) < 0
    ):
        raise UsageError(f"{path}/config.json: its vocabulary or length is no whole number")
    return ModelFolder(
        name=name,
        path=path,
        sha256=hash_of([*weights, *(file for files in others for file in files)]),
        parameters=sum(count_parameters(file) for file in weights),
        vocabulary=vocabulary,
        max_length=min(length, 512),
        blocks=_whole(config.get("n_layer") or config.get("num_hidden_layers")),
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _describe_lstm(tokenizer: Path) -> ModelFolder:
    """An untrained LSTM that reads the tokens of the embedded model."""
    architecture = Architecture(_read_config(tokenizer)["vocab_size"])
    return ModelFolder(
        name=LSTM,
        path=tokenizer,
        sha256=hash_of(sorted(tokenizer.glob("tokenizer*")), repr(architecture)),
        parameters=architecture.parameters,
        vocabulary=architecture.vocab_size,
        max_length=512,
        kind=LSTM,
    )


def hash_of(files: Iterable[Path], about: str = "") -> str:
    """SHA-256 of `about` and of the files' names and contents."""
    digest = hashlib.sha256(about.encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no config.json; is this a Hugging Face model folder?") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{file}: cannot be read ({error}); save the model again") from None
    if not isinstance(config, dict):
        raise UsageError(f"{file}: expected an object")
    return config


def count_parameters(file: Path) -> int:
    """Parameters of a safetensors file, by its header. Raises UsageError for a broken one."""
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if not 2 <= size <= 100_000_000:
                raise ValueError("no safetensors header")
            header = json.loads(stream.read(size))
        tensors = [entry for key, entry in header.items() if key != "__metadata__"]
        end = 8 + size + max((entry["data_offsets"][1] for entry in tensors), default=0)
        if file.stat().st_size < end:
            raise ValueError("the file is cut short")
        return sum(math.prod(entry["shape"]) for entry in tensors)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file}: corrupt weights ({error}); copy the model again") from None


def load_tokenizer(folder: ModelFolder) -> TextTokenizer:
    """The tokenizer beside the weights. Raises UsageError where there is none."""
    try:
        inner = AutoTokenizer.from_pretrained(
            folder.path, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the library raises what its many tokenizers raise
        raise UsageError(
            f"{folder.path}: the tokenizer cannot be loaded ({first_line(error)})"
        ) from None
    inner.model_max_length = sys.maxsize  # texts are cut where they are read; no warning is due
    if not inner.encode("0", add_special_tokens=False):
        raise UsageError(f"{folder.path}: the tokenizer knows no text; copy its files again")
    stop = inner.eos_token_id
    if stop is None:
        raise UsageError(f"{folder.path}: the tokenizer has no end-of-text token")
    start = inner.bos_token_id if inner.bos_token_id is not None else stop
    return TextTokenizer(inner, start=int(start), stop=int(stop))


def load_weights(folder: ModelFolder, device: str) -> PreTrainedModel:
    """A model in float32, in evaluation mode; a transformer's from safetensors only.

    Raises UsageError.
    """
    lstm = folder.kind == LSTM
    model = untrained(Architecture(folder.vocabulary)) if lstm else _read_weights(folder.path)
    inner: PreTrainedModel = model.to(device).eval()
    return inner


def _read_weights(folder: Path) -> Any:
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # the library raises what its many architectures raise
        raise UsageError(f"{folder}: the model cannot be loaded ({first_line(error)})") from None
    model, report = loaded
    if report["missing_keys"]:  # the library would fill them with random numbers
        missing = sorted(report["missing_keys"])[0]
        raise UsageError(f"{folder}: the weights lack {missing!r}; copy the model again")
    return model
