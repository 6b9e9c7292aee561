"""A causal transformer as a LanguageModel: batched, with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.predictor import Tokenizer, Tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from audit.language_model import Cursor


@dataclass(frozen=True)
class CausalLM:
    """A Hugging Face causal model. Logits are computed in its own dtype (bfloat16 autocast on
    CUDA), distributions in float64."""

    inner: PreTrainedModel
    tokenizer: Tokenizer
    max_length: int

    @property
    def vocabulary(self) -> int:
        return int(self.inner.config.vocab_size)

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        import torch

        tokens = torch.tensor([list(prompt) for prompt in prompts], device=self.inner.device)
        return _CausalCursor(self.inner, tokens)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        import torch

        longest = max(map(len, texts))
        if min(starts) < 1 or longest > self.max_length + 1:
            raise ValueError(
                f"cannot score a text of {longest} tokens in a context of {self.max_length}"
            )
        # padded on the right, where causal attention never looks
        rows = [[*text[:-1], *[0] * (longest - len(text))] for text in texts]
        tokens = torch.tensor(rows, device=self.inner.device)
        with torch.inference_mode(), _autocast(self.inner):
            logits = self.inner(input_ids=tokens, use_cache=False).logits
        kept = [
            logits[i, start - 1 : len(text) - 1]
            for i, (text, start) in enumerate(zip(texts, starts, strict=True))
        ]
        return _log_softmax(torch.cat(kept))


class _CausalCursor:
    """Keys and values of n equally long texts, read so far."""

    def __init__(self, inner: PreTrainedModel, tokens: torch.Tensor) -> None:
        self._inner = inner
        self._cache: Any = None
        self._tokens = tokens
        self._answer: torch.Tensor | None = None

    def log_pmf(self) -> torch.Tensor:
        import torch

        if self._answer is not None:
            return self._answer
        with torch.inference_mode(), _autocast(self._inner):
            answer = self._inner(
                input_ids=self._tokens,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        self._cache = getattr(answer, "past_key_values", None)
        self._answer = _log_softmax(answer.logits[:, -1])
        return self._answer

    def append(self, tokens: torch.Tensor) -> None:
        import torch

        self.log_pmf()  # what is there is read first
        column = tokens[:, None]
        cached = self._cache is not None  # else everything is read again
        self._tokens = column if cached else torch.cat([self._tokens, column], dim=1)
        self._answer = None


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.log_softmax(logits.to(torch.float64), dim=-1)


def _autocast(model: PreTrainedModel) -> Any:
    import torch

    kind = model.device.type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda")
