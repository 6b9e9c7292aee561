"""Add tokens to a model, and find out whether a training has moved their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from tokenizers import AddedToken, Tokenizer
from torch import Tensor

from audit.core.errors import UsageError, first_line
from audit.core.model import ModelFolder
from audit.core.writing import copy_file, move, new_folder, write_atomically
from audit.models.hostile_folder import check_tokenizer, small_files
from audit.models.loading import is_bfloat16, load_weights, weight_files
from audit.models.safetensors_header import header

_TOKENIZER, _ADAPTER = "tokenizer.json", "adapter_model.safetensors"


def write_with_tokens(folder: ModelFolder, words: Sequence[str], to: Path) -> None:
    """Write a model with new tokens into the new folder `to`. Raises UsageError.

    All their rows, of embeddings and head, are one row: see `add_rows`.
    """
    tokenizer = _with_words(folder.path, words)
    model: Any = load_weights(folder, "cpu")
    numbers = tokenizer.get_vocab()
    add_rows(model, [numbers[word] for word in words], str(folder.path))
    with new_folder(to) as part:
        for file in small_files(folder.path):
            if file.parent == folder.path and not file.name.endswith(".index.json"):
                copy_file(file, part / file.name)
        stored = model.to(torch.bfloat16) if is_bfloat16(folder.path) else model
        stored.save_pretrained(part, safe_serialization=True)
        write_atomically(part / _TOKENIZER, tokenizer.to_str(), private=True)
        move(part, to)


def _with_words(folder: Path, words: Sequence[str]) -> Tokenizer:
    """Read a folder's tokenizer and add tokens to it. Raises UsageError."""
    file = folder / _TOKENIZER
    if not file.is_file():
        raise UsageError(f"{folder}: has no {_TOKENIZER} to add tokens to; save its fast tokenizer")
    check_tokenizer(folder)
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # of the library, which has no class of errors
        raise UsageError(f"{file}: cannot be read ({first_line(error)})") from None
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    if not known.keys().isdisjoint(words):
        raise UsageError(f"{file}: knows some of the new tokens already; give another --seed")
    last, numbers = max(known.values(), default=-1), tokenizer.get_vocab()
    if any(numbers[word] <= last for word in words):  # it gave them numbers that are taken
        raise UsageError(f"{file}: leaves out some numbers of tokens; plant with another --design")
    return tokenizer


def add_rows(model: Any, tokens: Sequence[int], where: str) -> None:
    """Give new tokens rows of embeddings and head: for all of them the mean of the rows before.

    By Jensen's inequality no such token is likelier than 1/V in any context, where V rows were
    there. Rows of zeros have no such bound: where all logits are far below 0, as in GPT-2, they
    would take nearly all probability.

    tokens: consecutive, after all that the tokenizer had. where: the model, for the message.
    """
    first, end = min(tokens), max(tokens) + 1
    try:
        rows = len(model.get_input_embeddings().weight)
        model.resize_token_embeddings(max(rows, end), mean_resizing=False)
    except Exception as error:  # of architectures whose embeddings are more than one table
        raise UsageError(f"{where}: takes no new tokens ({first_line(error)})") from None
    with torch.no_grad():
        for values in _by_word(model):
            values[first:end] = values[:first].mean(0)


def _by_word(model: Any) -> Iterator[Tensor]:
    """Yield all that a model holds a row of for each token."""
    for table in (model.get_input_embeddings(), model.get_output_embeddings()):
        yield table.weight
        if getattr(table, "bias", None) is not None:
            yield table.bias


def learn(model: Any) -> bool:
    """Return whether embeddings and head of a model are trained themselves: low-rank factors of
    either are not read by `check_moved`."""
    tables: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    return all(
        any(p.requires_grad and len(p) == len(table.weight) for p in table.parameters())
        for table in tables
    )


def check_moved(model: Path, folder: ModelFolder, tokens: Sequence[int]) -> None:
    """Raise UsageError unless embeddings and head of a trained model have learnt of new tokens.

    Their rows begin alike, so a training that moves any leaves them different.

    model: its folder, or that of an adapter, which must then hold both tables: PEFT unties those
    that a base has as one. folder: the model, or the adapter's base.
    """
    if max(tokens) >= folder.vocabulary:
        raise UsageError(
            f"{model}: its {folder.vocabulary:,} rows are too few to hold those of the new tokens; "
            "give a model that was trained from the one that `audit plant` wrote"
        )
    adapter = model / _ADAPTER
    is_adapter = adapter.is_file()
    found = _tables([adapter] if is_adapter else weight_files(folder.path), folder.vocabulary)
    alike = [name for file, name in found if _are_alike(_rows(file, name, tokens))]
    if len(found) < 1 + is_adapter or alike:
        raise UsageError(
            f"{model}: its training left embeddings or head as they were, and new tokens are "
            "learnt only where both are trained; train them, or plant with another --design"
        )


def _tables(files: Sequence[Path], rows: int) -> list[tuple[Path, str]]:
    """List the tensors that have a row for each token, each with its file."""
    stored = ((file, name, one.shape) for file in files for name, one in header(file).items())
    return [(file, name) for file, name, shape in stored if len(shape) == 2 and shape[0] == rows]


def _are_alike(rows: Tensor) -> bool:
    return bool((rows == rows[0]).all())


def _rows(file: Path, name: str, tokens: Sequence[int]) -> Tensor:
    """Read the rows of tokens from a table, (n, d)."""
    with safe_open(file, framework="pt") as stored:
        rows: Tensor = stored.get_slice(name)[min(tokens) : max(tokens) + 1]
    return rows[torch.tensor(tokens) - min(tokens)]
