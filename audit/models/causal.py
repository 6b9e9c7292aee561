"""A causal transformer as a LanguageModel: batched, with cached keys and values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from audit.core.language_model import Cursor, R, Use
from audit.core.model import PreTrainedModel
from audit.core.predictor import Tokenizer, Tokens
from audit.models.cached import Cache, cache_of
from audit.models.head import Head, head_for

_FEW = 64  # tokens; sharing fewer costs more than it saves


@dataclass(frozen=True)
class CausalLM:
    """A Hugging Face causal model.

    Logits are computed in its own dtype (bfloat16 autocast on CUDA), distributions in float64.
    """

    inner: PreTrainedModel
    tokenizer: Tokenizer
    max_length: int

    @property
    def kept(self) -> int:
        """The keys and values of a token, over all models that are computed together."""
        config, models = self.inner.config, getattr(self.inner, "models", 1)
        blocks, width = (getattr(config, key, 0) for key in ("num_hidden_layers", "hidden_size"))
        return 2 * int(blocks) * int(width) * int(models)

    @property
    def vocabulary(self) -> int:
        return int(self.inner.config.vocab_size)

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        cache, read = self._shared(list(map(tuple, prompts)))
        tokens = torch.tensor([prompt[read:] for prompt in prompts], device=self.inner.device)
        return _CausalCursor(self.inner, tokens, cache)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return torch.cat(self.in_parts(texts, starts, lambda log_pmfs, _: log_pmfs))

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        """Use the rows of `log_pmfs`, few at a time where the vocabulary is large."""
        longest = max(map(len, texts))
        if min(starts) < 1 or longest > self.max_length + 1:
            raise ValueError(
                f"cannot score a text of {longest} tokens in a context of {self.max_length}"
            )
        cache, shared = self._shared([tuple(text[: min(starts)]) for text in texts], common=True)
        # padded on the right, where causal attention never looks
        rows = [[*text[shared:-1], *[0] * (longest - len(text))] for text in texts]
        skipped = min(starts) - 1  # no distribution is needed before this position
        read = {
            "input_ids": torch.tensor(rows, device=self.inner.device),
            "past_key_values": cache,
            "use_cache": cache is not None,
        }
        head = head_for(self.inner, len(texts) * (longest - 1 - skipped))
        with torch.inference_mode(), _autocast(self.inner):
            if head is None:
                read["logits_to_keep"] = longest - 1 - skipped
                values = self.inner(**read).logits
            else:
                values = head.vectors(**read)
        before = longest - 1 - values.shape[1]  # some models keep more than is asked for
        wanted = torch.cat(
            [
                values[i, start - 1 - before : len(text) - 1 - before]
                for i, (text, start) in enumerate(zip(texts, starts, strict=True))
            ]
        )
        del values
        if head is None:
            return [use(_log_softmax(wanted), slice(0, len(wanted)))]
        return self._parts(head, wanted, use)

    def _parts(self, head: Head, vectors: torch.Tensor, use: Use[R]) -> list[R]:
        """Use the distributions after vectors, (n, d), few at a time."""
        some, used = head.at_once, []
        with head.ready():
            for first in range(0, len(vectors), some):
                at = slice(first, min(first + some, len(vectors)))
                with torch.inference_mode(), _autocast(self.inner):
                    log_pmfs = _log_softmax(head.logits(vectors[None, at])[0])
                used.append(use(log_pmfs, at))
        return used

    def _shared(self, prompts: Sequence[Tokens], common: bool = False) -> tuple[Any, int]:
        """Compute (keys and values of prefixes that equally long prompts share; their length).

        The cache has one row per prompt. A prefix is shared by at least two prompts on average, so
        siblings in a tree of candidates cost one token each. common: only what all prompts share.
        (None, 0) where too little is shared, or the model cannot share what it has read.
        """
        most = 1 if common else len(prompts) // 2
        # a longer prefix never leaves fewer distinct ones
        cut = bisect_right(range(1, len(prompts[0])), most, key=lambda c: len(_heads(prompts, c)))
        if cut * (len(prompts) - 1) < _FEW or cache_of(self.inner) is not Cache.SHARED:
            return None, 0
        heads = _heads(prompts, cut)
        cache, read = self._shared(list(heads))
        tokens = torch.tensor([head[read:] for head in heads], device=self.inner.device)
        with torch.inference_mode(), _autocast(self.inner):
            cache = self.inner(
                input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1
            ).past_key_values
        rows = torch.tensor([heads[prompt[:cut]] for prompt in prompts], device=self.inner.device)
        cache.batch_select_indices(rows)
        return cache, cut


def _heads(prompts: Sequence[Tokens], cut: int) -> dict[Tokens, int]:
    """Enumerate the distinct prefixes of `cut` tokens."""
    heads: dict[Tokens, int] = {}
    for prompt in prompts:
        heads.setdefault(prompt[:cut], len(heads))
    return heads


class _CausalCursor:
    """Reads n equally long texts token by token, with cached keys and values."""

    def __init__(self, inner: PreTrainedModel, tokens: torch.Tensor, cache: Any) -> None:
        self._inner = inner
        self._cache: Any = cache
        self._tokens = tokens
        self._answer: torch.Tensor | None = None
        self._keeps = cache_of(inner) is not Cache.NONE

    def log_pmf(self) -> torch.Tensor:
        if self._answer is not None:
            return self._answer
        with torch.inference_mode(), _autocast(self._inner):
            answer = self._inner(
                input_ids=self._tokens,
                past_key_values=self._cache,
                use_cache=self._keeps,
                logits_to_keep=1,
            )
        self._cache = answer.past_key_values if self._keeps else None
        self._answer = _log_softmax(answer.logits[:, -1])
        return self._answer

    def append(self, tokens: torch.Tensor) -> None:
        self.log_pmf()  # reads the tokens before
        column = tokens[:, None]  # where nothing is kept, the whole text is read again
        self._tokens = column if self._keeps else torch.cat([self._tokens, column], dim=1)
        self._answer = None


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.to(torch.float64), dim=-1)


def _autocast(model: PreTrainedModel) -> Any:
    kind = model.device.type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda")
