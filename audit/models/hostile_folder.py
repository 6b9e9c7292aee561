"""Refuse model folders that name code, or files that lie elsewhere or are not safetensors.

A model folder may be anybody's. Libraries load what its settings name, each by rules of its own, so
the settings are read here before any library reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.files import read_json, regular
from audit.models.added_tokens import check_added

OPENED = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken")  # what libraries read, but weights
_VOCABULARIES = ("tokenizer*", "vocab*", "merges*", "*.model", "*.tiktoken", "added_tokens.json")
_LARGEST = 1 << 26  # bytes of each; those of 256,000 tokens have half
_TEMPLATES = "additional_chat_templates"
_PLAIN = re.compile(r"\w[\w|]*")  # an attention's own name; a kernel of a hub has a slash
_COUNT = re.compile(r"(?:n|num)_\w*(?:layers?|experts?|blocks|stages)|\w+_layers")
_MOST = 1 << 12  # layers or experts of a model
_REPEATED_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\)(?:[*+]|\{\d*,\d*\})")


def small_files(folder: Path) -> list[Path]:
    """List all files beside the weights that loading may open: settings, tokenizer, templates."""
    files = {file for pattern in OPENED for file in folder.glob(pattern)}
    return sorted(files | set((folder / _TEMPLATES).glob("*.jinja")))


def check_folder(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise UsageError where a model folder names code, or files other than its own safetensors."""
    where = folder / "config.json"
    for key, value in _settings(config):
        if key == "auto_map":
            raise UsageError(f"{where}: the model needs remote code, which is never run")
        if key == "transformers_weights":
            raise UsageError(
                f"{where}: transformers_weights names the weights; leave it out, and call them "
                "model.safetensors"
            )
        if "_implementation" in key and not _plain(value):
            raise UsageError(
                f"{where}: {key} names code of a hub, which is never run; leave it out"
            )
        if _COUNT.fullmatch(key) and isinstance(value, int | float) and value > _MOST:
            raise UsageError(
                f"{where}: {key} is {value:,}, and no model has more than {_MOST:,}; correct it"
            )
    if (folder / "adapter_config.json").exists():
        raise UsageError(
            f"{folder}: holds a model and an adapter_config.json, which names another model; "
            "remove one of the two"
        )
    for index in sorted(folder.glob("*.index.json")):
        _check_index(index)


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield every setting, at any depth."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            yield str(key), value
            yield from _settings(value)
    elif isinstance(config, list):
        for value in config:
            yield from _settings(value)


def _plain(value: Any) -> bool:
    values = value.values() if isinstance(value, Mapping) else (value,)
    return all(one is None or _PLAIN.fullmatch(str(one)) for one in values)


def _check_index(index: Path) -> None:
    """Raise UsageError unless an index names safetensors files beside it only."""
    document = _read(index)
    shards = document.get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise UsageError(f"{index}: is not an index of weights; save the model again")
    for name in sorted({str(shard) for shard in shards.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise UsageError(
                f"{index}: names {name!r}; it may name only .safetensors files beside it; save the "
                "model again with safe_serialization=True"
            )
        try:
            regular(index.with_name(name))
        except OSError as error:
            raise UsageError(f"{index}: names {name!r}, which is not there ({error})") from None


def check_tokenizer(folder: Path) -> None:
    """Raise UsageError where a tokenizer names a class that is none of a tokenizer, or a regular
    expression that repeats a group, which may take for ever, or where its added tokens grow."""
    settings = folder / "tokenizer_config.json"
    named = _read(settings).get("tokenizer_class") if settings.is_file() else None
    if named is not None and not _is_tokenizer_class(str(named)):
        raise UsageError(
            f"{settings}: tokenizer_class {named!r} is none that transformers has; name "
            "PreTrainedTokenizerFast"
        )
    for file in sorted(file for pattern in _VOCABULARIES for file in folder.glob(pattern)):
        if file.stat().st_size > _LARGEST:
            raise UsageError(
                f"{file}: is larger than {_LARGEST >> 20} MB; give a tokenizer of fewer tokens"
            )
    file = folder / "tokenizer.json"
    try:
        tokenizer = read_json(file)
    except OSError:  # there is none
        return
    except ValueError as error:
        raise UsageError(f"{file}: cannot be read ({error}); save the tokenizer again") from None
    for key, value in _settings(tokenizer):
        if key == "Regex" and _REPEATED_GROUP.search(str(value)):
            raise UsageError(
                f"{file}: the regular expression {value!r} repeats a group, so reading a text may "
                "take for ever; give a tokenizer without it"
            )
    check_added(file, tokenizer)


def _is_tokenizer_class(name: str) -> bool:
    if name in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        return True
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    found = tokenizer_class_from_name(name)
    return isinstance(found, type) and issubclass(found, PreTrainedTokenizerBase)


def check_adapter_settings(file: Path, widest: int) -> None:
    """Raise UsageError where the settings of an adapter name a module to import, or other adapters,
    or ask for more memory than its weights.

    widest: the largest dimension of its weights.
    """
    settings = _read(file)
    if settings.get("peft_type") == "XLORA" or settings.get("layer_replication"):
        raise UsageError(f"{file}: names other adapters, or copies layers, which is not read")
    ranks = settings.get("rank_pattern")
    sizes = {name: settings.get(name) for name in ("r", "num_virtual_tokens")}
    for name, value in {**sizes, **(ranks if isinstance(ranks, dict) else {})}.items():
        if isinstance(value, int | float) and value > widest:
            raise UsageError(
                f"{file}: {name} is {value:,}, and its weights have {widest:,} rows, so it "
                "does not fit its base; save the adapter again with PEFT"
            )
    if settings.get("megatron_config") or settings.get("megatron_core") not in (None, _MEGATRON):
        raise UsageError(f"{file}: names a module of Megatron, which is never imported")


_MEGATRON = "megatron.core"  # what PEFT writes for all adapters


def _read(file: Path) -> dict[str, Any]:
    try:
        document = read_json(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read ({error}); save the model again") from None
    if not isinstance(document, dict):
        raise UsageError(f"{file}: expected an object")
    return document
