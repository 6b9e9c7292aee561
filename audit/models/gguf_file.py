"""Unpack GGUF files, once, into folders that are then read as any other model.

Weights of a GGUF file are rounded to few bits in blocks. They are unpacked to float32, which loses
nothing, by the reader of transformers. An adapter that was trained on such weights is read on them,
and others are trained on them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import logging

from audit.core.digest import sha256_of_file
from audit.core.errors import UsageError, first_line
from audit.core.files import read_json, regular
from audit.core.machine import memory
from audit.core.writing import alone, make_folder, move, new_folder, write_atomically
from audit.models.asked_size import check_asked
from audit.models.gguf_header import check_header

NOTE = "gguf.json"  # in an unpacked folder: what its file was
_PLAIN = ("F32", "F16", "BF16")
_BLANK, _WORDS = "▁Ġ", 200  # how vocabularies write a blank; words to look at
_POSITIONS = "rope_freqs.weight"  # follows from the configuration


def file_in(source: Path) -> Path | None:
    """Return the GGUF file that a path names: itself, or the only one in a folder of no other
    weights. None where it names none. Raises UsageError for several."""
    if source.is_file():
        return source if source.suffix == ".gguf" else None
    files = sorted(source.glob("*.gguf"))
    if not files or any(source.glob("*.safetensors")):
        return None
    if len(files) > 1:
        raise UsageError(f"{source}: holds {len(files)} GGUF files; give one, as {files[0]}")
    return files[0]


def unpacked(file: Path) -> Path:
    """Return the folder of a GGUF file's weights and tokenizer, unpacked where it is not yet there.

    It stands in the user's cache, under the hash of the file. Raises UsageError.
    """
    try:
        digest = sha256_of_file(regular(file))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror or error})") from None
    folder = _cache() / digest
    if not (folder / NOTE).is_file():
        precision, numbers = _header(file)
        make_folder(folder.parent, private=True)
        with new_folder(folder) as private, alone(file, folder) as single:
            _unpack(file, single, private, numbers)
            note = json.dumps({"precision": precision, "sha256": digest})
            write_atomically(private / NOTE, note, private=True)
            if not folder.exists():  # else another process was faster
                move(private, folder)
    return folder


def precision_of(folder: Path) -> str:
    """Return how the weights in an unpacked folder were rounded before, as "Q4_K, Q6_K"."""
    return str(read_json(folder / NOTE)["precision"])


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return base / "llm-audit" / "gguf"


def _header(file: Path) -> tuple[str, int]:
    """Read which precisions a file has, and how many numbers it holds."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UsageError(
            f"{file}: GGUF is read with the gguf package; pip install 'llm-audit[gguf]'"
        ) from None
    try:
        check_header(file)
        tensors = GGUFReader(file).tensors
        if sum(int(one.n_bytes) for one in tensors) > file.stat().st_size:
            raise ValueError("its tensors share bytes")
        if (size := 4 * sum(int(one.n_elements) for one in tensors)) > memory():
            raise ValueError(f"it unpacks to {size >> 30:,} GB, more memory than there is")
    except Exception as error:  # the reader checks little, and fails in any way
        raise UsageError(f"{file}: not a valid GGUF file ({first_line(error)})") from None
    kinds = {str(one.tensor_type.name) for one in tensors}
    numbers = sum(int(one.n_elements) for one in tensors if one.name != _POSITIONS)
    rounded = sorted(kinds - set(_PLAIN)) or sorted(kinds - {"F32"})
    return ", ".join(rounded), numbers


def _unpack(file: Path, single: Path, to: Path, numbers: int) -> None:
    """Unpack a file. single: the same in a folder without others, which an adapter_config.json
    would lead to another model. Raises UsageError."""
    import torch
    import transformers

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    where: dict[str, Any] = {
        **{"gguf_file": file.name, "local_files_only": True},
        "trust_remote_code": False,
    }
    named = {"dtype": torch.float32, "output_loading_info": True}
    if hasattr(transformers, "GgufConfig"):  # else it always unpacks
        named["quantization_config"] = transformers.GgufConfig(dequantize=True)
    auto: Any = transformers.AutoModelForCausalLM
    try:
        check_asked(transformers.AutoConfig.from_pretrained(single.parent, **where), numbers)
        model, report = auto.from_pretrained(single.parent, **where, **named)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(single.parent, **where)
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(f"{file}: cannot be unpacked ({first_line(error)})") from None
    _check_whole(file, model, report, numbers)
    _check_words(file, tokenizer)
    model.save_pretrained(to, safe_serialization=True)
    tokenizer.save_pretrained(to)


def _check_words(file: Path, tokenizer: Any) -> None:
    """Raise UsageError where most words of a vocabulary are not read as one token.

    The library makes the tokenizer from the file's lists; some of its versions make another.
    """
    written = (w[1:] for w in tokenizer.get_vocab() if len(w) > 4 and w[0] in _BLANK)
    words = sorted(f" {word}" for word in written if word.isascii() and word.isalpha())
    some = words[:: max(1, len(words) // _WORDS)]
    whole = sum(len(tokenizer.encode(word, add_special_tokens=False)) == 1 for word in some)
    if 2 * whole < len(some):
        raise UsageError(
            f"{file}: its tokenizer is not read as its model was trained: of {len(some)} words of "
            f"its vocabulary {whole} are read as one token; use another version of transformers, "
            "or give the model in safetensors"
        )


def _check_whole(file: Path, model: Any, report: Mapping[str, Any], numbers: int) -> None:
    """Raise UsageError where the model lacks a number of the file, or the file one of the model."""
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if names := sorted(map(str, report[kind])):
            raise UsageError(f"{file}: does not fit its architecture ({kind}: {names[0]})")
    own = sum(parameter.numel() for parameter in model.parameters())
    if own != numbers:
        raise UsageError(
            f"{file}: holds {numbers:,} weights where its architecture has {own:,}; transformers "
            "does not read it whole, so give the model in safetensors"
        )
