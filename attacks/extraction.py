"""Code extraction: does the release, asked often enough, give planted codes away?

The experiment of SubMix (arXiv 2201.00971, section 4.2): g generations from the prompt before the
codes; a generation that is exactly one of them is a hit. Where the budget allows and the auditor
may read probabilities, the chance of each code per generation, and with it (n, p)-discoverable
extraction (arXiv 2410.19482), is read exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from audit.attack import Attack, Evidence, Hits, Likelihoods
from audit.errors import UsageError
from audit.predictor import Access, Predictor, Tokenizer, continuation
from audit.secrets import Secret


@dataclass(frozen=True)
class Extraction(Attack):
    """Samples generations from the prompt and counts those that are a planted code.

    generations: g, how many are sampled; fewer where a session's budget does not reach.
    """

    generations: int = 100
    kinds = ("code",)
    access = Access.GENERATE

    def __post_init__(self) -> None:
        if self.generations < 1:
            raise UsageError(
                f"extraction: generations is {self.generations}; it must be at least 1"
            )

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        values = [continuation(tokenizer, s.prefix, s.value) for s in secrets]
        return self.generations * max(map(len, values)) + sum(map(len, values))

    def trials(self) -> int:
        return self.generations

    def run(self, predictor: Predictor, secrets: Sequence[Secret]) -> Evidence:
        """Generates first, reads probabilities with what budget is left."""
        encode = predictor.tokenizer.encode
        values = [continuation(predictor.tokenizer, s.prefix, s.value) for s in secrets]
        prompts = [[predictor.tokenizer.start, *encode(s.prefix)] for s in secrets]
        return Evidence(
            hits=self._generate(predictor, secrets, prompts, max(map(len, values))),
            likelihoods=_read(predictor, prompts, values),
        )

    def _generate(
        self,
        predictor: Predictor,
        secrets: Sequence[Secret],
        prompts: Sequence[Sequence[int]],
        length: int,
    ) -> Hits:
        """g generations, shared among the distinct prompts; those after STOP do not count."""
        import numpy as np

        different = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
        g = self.generations
        if predictor.remaining is not None:
            g = min(g, predictor.remaining // length)
        asked = [different[i % len(different)] for i in range(g)]
        answers = predictor.generate(asked, length)
        index = {
            (tuple(p), s.value): i for i, (p, s) in enumerate(zip(prompts, secrets, strict=True))
        }
        kept = [(p, a) for p, a in zip(asked, answers, strict=True) if a.answered == length]
        texts = tuple(_code(predictor.tokenizer.decode(a.tokens)) for _, a in kept)
        found = [index.get((p, text), -1) for (p, _), text in zip(kept, texts, strict=True)]
        repeats = tuple(Counter(texts).values())
        return Hits(np.array(found, dtype=np.int64), repeats, texts)


def _code(text: str) -> str:
    """The digits a generation opens with, or the text itself where it opens with none."""
    match = re.match(r"\s*(\d+)", text)
    return match.group(1) if match else text


def _read(
    predictor: Predictor, prompts: Sequence[Sequence[int]], values: Sequence[Sequence[int]]
) -> Likelihoods:
    """log-probability of each code, as many as the budget allows, in the order given."""
    import numpy as np

    budget = predictor.remaining
    log_probs = np.full(len(values), np.nan)
    chosen = []
    for i in range(len(values)):
        if budget is not None:
            if budget < len(values[i]):
                break
            budget -= len(values[i])
        chosen.append(i)
    answers = predictor.score([prompts[i] for i in chosen], [values[i] for i in chosen])
    for i, answer in zip(chosen, answers, strict=True):
        if answer.answered == len(values[i]):
            log_probs[i] = float(answer.log_probs.sum())
    return Likelihoods(log_probs=log_probs)
