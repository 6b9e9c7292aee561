"""Refuse model folders that name code, or files that lie elsewhere or are not safetensors.

A model folder may be anybody's. Libraries load what its settings name, each by rules of its own, so
the settings are read here before any library reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.files import read_json, regular
from audit.models.added_tokens import check_added

OPENED = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken")  # what libraries read, but weights
_VOCABULARIES = (
    *("tokenizer*", "vocab*", "merges*", "*.model", "*.tiktoken", "added_tokens.json"),
    "tekken.json",
)
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


def settings_of(file: Path, what: str = "model") -> dict[str, Any]:
    """Read the settings of a model, or of its tokenizer. Raises UsageError."""
    try:
        document = read_json(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read ({error}); save the {what} again") from None
    if not isinstance(document, dict):
        raise UsageError(f"{file}: expected an object")
    return document


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
    document = settings_of(index)
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
    """Raise UsageError where a tokenizer names a class that is none of a tokenizer, other files, or
    a regular expression that repeats a group, which may take for ever, or where its added tokens
    grow."""
    _check_tokenizer_settings(folder)
    for file in sorted(file for pattern in _VOCABULARIES for file in folder.glob(pattern)):
        if file.stat().st_size > _LARGEST:
            raise UsageError(
                f"{file}: is larger than {_LARGEST >> 20} MB; give a tokenizer of fewer tokens"
            )
    file = folder / "tokenizer.json"
    if not file.is_file():
        return
    tokenizer = settings_of(file, "tokenizer")
    for key, value in _settings(tokenizer):
        if key == "Regex" and _REPEATED_GROUP.search(str(value)):
            raise UsageError(
                f"{file}: the regular expression {value!r} repeats a group, so reading a text may "
                "take for ever; give a tokenizer without it"
            )
    check_added(file, tokenizer)


def _check_tokenizer_settings(folder: Path) -> None:
    """Check which class and files are named; the class of config.json counts without another."""
    named = None
    for file in (folder / "tokenizer_config.json", folder / "config.json"):
        settings = settings_of(file) if file.is_file() else {}
        for key, value in settings.items() if file.name != "config.json" else ():
            if _leads_away(key, value):
                raise UsageError(f"{file}: {key} names another file ({value!r}); leave it out")
        named = settings.get("tokenizer_class") if named is None else named
        if named is not None and not _is_tokenizer_class(str(named)):
            raise UsageError(
                f"{file}: tokenizer_class {named!r} is none that transformers has; name "
                "PreTrainedTokenizerFast"
            )


def _leads_away(key: str, value: Any) -> bool:
    """Return whether a setting makes a library read another file than the one of its usual name."""
    if key == "fast_tokenizer_files":
        return value not in ([], ["tokenizer.json"])
    named = key.endswith("_file") and key != "special_tokens_map_file"  # which is not opened
    return named and isinstance(value, str) and os.path.lexists(value)


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
    settings = settings_of(file)
    method, ranks = settings.get("peft_type", "LORA"), settings.get("rank_pattern")
    if str(method) not in _METHODS:
        raise UsageError(
            f"{file}: adapters of peft_type {method!r} are not read: they are not part of a layer, "
            "or may open other files; merge it into its base, and give that model"
        )
    if settings.get("layer_replication"):
        raise UsageError(f"{file}: copies layers, which is not read")
    sizes = {"r": settings.get("r"), **(ranks if isinstance(ranks, dict) else {})}
    for name, value in sizes.items():
        if isinstance(value, int | float) and value > widest:
            raise UsageError(
                f"{file}: {name} is {value:,}, and its weights have {widest:,} rows, so it "
                "does not fit its base; save the adapter again with PEFT"
            )
    if settings.get("megatron_config") or settings.get("megatron_core") not in (None, _MEGATRON):
        raise UsageError(f"{file}: names a module of Megatron, which is never imported")


_MEGATRON = "megatron.core"  # what PEFT writes for all adapters
_METHODS = {  # whose settings name no file, model or text of their own
    *("LORA", "ADALORA", "LOHA", "LOKR", "OFT", "BOFT", "IA3", "VERA", "LN_TUNING", "FOURIERFT"),
    *("HRA", "VBLORA", "RANDLORA", "ROAD", "MISS", "C3A", "SHIRA", "WAVEFT", "GRALORA", "DELORA"),
    *("HIRA", "TRAINABLE_TOKENS", "OSF"),
}
